//! What the table does with RunCommand and KillCommand.

use clawjob_proto::v1::{self, kill_ack, run_ack, session_request::Frame};

use super::attempt::Attempt;
use super::{Action, BUSY_RETRY_AFTER, Engine, Key, rejection};
use crate::ctx::StopReason;
use crate::failure::{Failure, code};
use crate::time::{self, Now};

impl Engine {
    /// A command to run something. `prepared` says whether its handler is here and its params fit.
    /// The attempt to start is returned; its RunAck is among the actions, so it leaves first.
    pub(crate) fn on_run(
        &mut self,
        now: Now,
        command: &v1::RunCommand,
        prepared: Result<(), Failure>,
    ) -> Option<Key> {
        self.note_seq(command.command_seq);
        let attempt_ref = command.r#ref.as_ref()?;
        let key = Key::of(attempt_ref);
        let fence = attempt_ref.fence;
        if self.again(now, &key, fence) {
            return None;
        }
        if self.memory.exhume(&key, fence) {
            self.answer(&key, fence, ack(run_ack::Status::Accepted));
            self.attempts.insert(key.clone(), Attempt::stillborn(now, command, fence));
            self.actions.push(Action::Result(key));
            return None;
        }
        if let Some(refusal) = self.refusal(now, &key, command, prepared) {
            self.answer(&key, fence, refusal);
            return None;
        }
        self.answer(&key, fence, ack(run_ack::Status::Accepted));
        let attempt = Attempt::new(now, command, fence);
        self.wake_at(attempt.next_step(self.contact, self.lost_after));
        self.attempts.insert(key.clone(), attempt);
        self.occupy(&command.handler);
        Some(key)
    }

    /// A command for an attempt that was here before: it is not started again, its result is sent
    /// again, and from now on it is spoken of under the higher fence.
    fn again(&mut self, now: Now, key: &Key, fence: u64) -> bool {
        if !self.attempts.contains_key(key) {
            let Some((result, known)) = self.memory.recall(key) else { return false };
            let attempt = Attempt::remembered(result, known, now);
            self.attempts.insert(key.clone(), attempt);
        }
        let Some(attempt) = self.attempts.get_mut(key) else { return false };
        attempt.fence = attempt.fence.max(fence);
        let (fence, finished) = (attempt.fence, attempt.result().is_some());
        self.answer(key, fence, ack(run_ack::Status::Duplicate));
        if finished {
            self.actions.push(Action::Result(key.clone()));
        }
        true
    }

    fn refusal(
        &mut self,
        now: Now,
        key: &Key,
        command: &v1::RunCommand,
        prepared: Result<(), Failure>,
    ) -> Option<v1::RunAck> {
        if let Some(refusal) = self.displace(now, key) {
            return Some(refusal);
        }
        if self.draining {
            return Some(ack(run_ack::Status::Draining));
        }
        if let Err(failure) = prepared {
            return Some(rejection(failure));
        }
        let limit = self.limits.get(&command.handler).copied().unwrap_or(0);
        let used = self.used_by.get(&command.handler).copied().unwrap_or(0);
        let full = self.used >= self.slots || (limit > 0 && used >= limit);
        (full || self.paused.contains(&command.handler)).then(busy)
    }

    /// Only the highest attempt of a run may go on here: a lower one is told to stop and the
    /// higher one has to wait for that.
    fn displace(&mut self, now: Now, key: &Key) -> Option<v1::RunAck> {
        let first = Key { run_id: key.run_id.clone(), attempt: 0 };
        let last = Key { run_id: key.run_id.clone(), attempt: u32::MAX };
        let others: Vec<Key> =
            self.attempts.range(first..=last).map(|(other, _)| other.clone()).collect();
        if others.iter().any(|other| other.attempt > key.attempt) {
            let text = "a later attempt of the run is known here";
            return Some(rejection(Failure::new(code::STALE_ATTEMPT, text)));
        }
        let mut waits = false;
        for other in others {
            waits |= self.stop(now, &other, StopReason::StaleAttempt, None);
        }
        waits.then(busy)
    }

    /// A command to stop something.
    pub(crate) fn on_kill(&mut self, now: Now, kill: &v1::KillCommand) {
        self.note_seq(kill.command_seq);
        let Some(attempt_ref) = &kill.r#ref else { return };
        let key = Key::of(attempt_ref);
        let fence = attempt_ref.fence;
        let status = match self.attempts.get_mut(&key) {
            // Meant for an earlier dispatch, which a later one has replaced.
            Some(attempt) if fence != 0 && fence < attempt.fence => kill_ack::Status::NotFound,
            Some(attempt) => {
                attempt.fence = attempt.fence.max(fence);
                let grace = time::std_duration(kill.grace.as_ref());
                if self.stop(now, &key, StopReason::of(kill.reason), grace) {
                    kill_ack::Status::Signaled
                } else {
                    kill_ack::Status::Finished
                }
            }
            None if self.memory.knows(&key) => kill_ack::Status::Finished,
            None => {
                self.memory.bury(now.mono, key, fence);
                self.wake_at(self.memory.next_expiry());
                kill_ack::Status::NotFound
            }
        };
        self.actions.push(Action::Send(Frame::KillAck(v1::KillAck {
            r#ref: Some(attempt_ref.clone()),
            status: status.into(),
        })));
    }

    fn note_seq(&mut self, seq: u64) {
        self.last_command_seq = self.last_command_seq.max(seq);
    }

    fn answer(&mut self, key: &Key, fence: u64, answer: v1::RunAck) {
        let frame = v1::RunAck { r#ref: Some(key.to_ref(fence)), ..answer };
        self.actions.push(Action::Send(Frame::RunAck(frame)));
    }
}

fn ack(status: run_ack::Status) -> v1::RunAck {
    v1::RunAck { status: status.into(), ..v1::RunAck::default() }
}

fn busy() -> v1::RunAck {
    v1::RunAck { retry_after: Some(time::duration(BUSY_RETRY_AFTER)), ..ack(run_ack::Status::Busy) }
}
