//! What the scheduler does with a session: credits, RunCommands, kills, acks, drain.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use clawjob_proto::v1::{
    KillCommand, LogAck, ResultAck, RunCommand, SchedulerDrain, result_ack, scheduler_drain,
    session_response::Frame as Down,
};

use super::{Effects, End, HandlerState, Held, Moment, PendingKill, Session, Stage, Vitals};
use crate::{
    hub::{
        Kill,
        wire::{to_duration, to_kill_reason, to_ref},
    },
    model::{
        ids::AttemptRef,
        run::{KillReason, OpenRun},
    },
};

/// What became of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckStatus {
    /// Written now.
    Committed,
    /// Written before.
    Duplicate,
    /// Not current any more.
    Stale,
}

impl Session {
    /// Offers the handler and carries the labels, whether or not it takes anything now.
    pub fn fits(&self, handler: &str, labels: &BTreeMap<String, String>) -> bool {
        self.handlers.contains_key(handler)
            && labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }

    /// Whether it offers the handler.
    pub fn offers(&self, handler: &str) -> bool {
        self.handlers.contains_key(handler)
    }

    /// May be given runs of the handler, now or as soon as a slot is free.
    pub fn takes(&self, handler: &str) -> bool {
        self.takes_runs() && self.handlers.get(handler).is_some_and(HandlerState::takes_runs)
    }

    /// Why it takes no run of the handler now, as a predicate; None when it does.
    pub fn hindrance(
        &self,
        handler: &str,
        labels: &BTreeMap<String, String>,
    ) -> Option<&'static str> {
        let state = self.handlers.get(handler);
        let reasons = [
            (self.ended, "is not connected"),
            (state.is_none(), "does not offer the handler"),
            (!self.fits(handler, labels), "lacks labels that the job asks for"),
            (self.cordoned, "is cordoned"),
            (self.suspect, "is out of contact"),
            (self.is_draining(), "is leaving"),
            (state.is_some_and(|state| state.paused), "has paused the handler"),
            (state.is_some_and(|state| state.refused_until.is_some()), "refused the handler"),
            (self.free(handler) == 0, "has no free slot"),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
    }

    /// Runs of the handler that it can take now.
    pub fn free(&self, handler: &str) -> u32 {
        if self.takes(handler) { self.handlers.get(handler).map_or(0, |s| self.room(s)) } else { 0 }
    }

    /// Runs of the handler that it can take now, if it may be given any at all and carries the
    /// labels. One look for whoever looks at many sessions.
    pub fn offer(&self, handler: &str, labels: &BTreeMap<String, String>) -> Option<u32> {
        if !self.takes_runs() {
            return None;
        }
        let state = self.handlers.get(handler).filter(|state| state.takes_runs())?;
        let fits = labels.iter().all(|(key, value)| self.labels.get(key) == Some(value));
        fits.then(|| self.room(state))
    }

    pub(super) fn room(&self, handler: &HandlerState) -> u32 {
        let free = self.free_slots();
        if handler.max_concurrency == 0 {
            return free;
        }
        free.min(handler.max_concurrency.saturating_sub(handler.running + handler.reserved))
    }

    pub(super) fn takes_runs(&self) -> bool {
        !(self.ended || self.cordoned || self.suspect || self.is_draining())
    }

    /// Slots without a run, a reservation or anything else in them.
    pub fn free_slots(&self) -> u32 {
        if self.busy_until.is_some() {
            return 0;
        }
        self.slots.saturating_sub(self.blocked).saturating_sub(self.running + self.reserved)
    }

    /// Its slots in all.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The last figures it sent.
    pub fn vitals(&self) -> &Vitals {
        &self.vitals
    }

    /// When it began.
    pub fn connected_at(&self) -> chrono::DateTime<chrono::Utc> {
        self.connected_at
    }

    /// Whether the session knows of the attempt: sent, listed by the executor, or finished and not
    /// yet acknowledged.
    pub fn holds(&self, attempt: AttemptRef) -> bool {
        self.held.contains_key(&(attempt.run, attempt.attempt))
    }

    /// The attempts that run in it.
    pub fn running(&self) -> Vec<AttemptRef> {
        let running = self.held.iter().filter(|(_, held)| held.stage.takes_a_slot());
        running.map(|(key, held)| reference(*key, held)).collect()
    }

    /// No new runs, or new runs again.
    pub fn set_cordon(&mut self, cordoned: bool) {
        self.cordoned = cordoned;
    }

    /// Takes `n` credits; false when there are fewer.
    pub fn reserve(&mut self, handler: &str, n: u32) -> bool {
        if self.free(handler) < n {
            return false;
        }
        self.reserved += n;
        if let Some(state) = self.handlers.get_mut(handler) {
            state.reserved += n;
        }
        true
    }

    /// Gives credits back.
    pub fn unreserve(&mut self, handler: &str, n: u32) {
        self.reserved = self.reserved.saturating_sub(n);
        if let Some(state) = self.handlers.get_mut(handler) {
            state.reserved = state.reserved.saturating_sub(n);
        }
    }

    /// Sends a run on one reserved credit. False when it ended meanwhile, or the command names no
    /// attempt.
    pub fn run(
        &mut self,
        attempt: AttemptRef,
        mut command: RunCommand,
        at: Moment,
        out: &mut Effects,
    ) -> bool {
        self.unreserve(&command.handler, 1);
        if self.ended || self.moves_until.is_some() {
            return false;
        }
        let seq = self.next_seq();
        command.command_seq = seq;
        let handler = self.handler_name(&command.handler);
        let stage =
            Stage::Sent { since: at.elapsed, resent: false, command: Box::new(command.clone()) };
        let (fence, sent_at) = (attempt.fence, Some(at.wall));
        let held = Held { seq, sent_at, ..Held::taken_over(fence, handler, stage) };
        self.hold((attempt.run, attempt.attempt), held);
        self.check_by(at.elapsed + self.settings.run_ack_timeout);
        out.frame(Down::Run(command));
        true
    }

    /// Asks for the end of an attempt; repeated until the executor answers. The same kill again
    /// changes nothing; one with another reason or grace replaces the first.
    pub fn kill(&mut self, kill: &Kill, at: Moment, out: &mut Effects) -> bool {
        if self.ended {
            return false;
        }
        let key = (kill.attempt.run, kill.attempt.attempt);
        let mut command = KillCommand {
            r#ref: Some(to_ref(kill.attempt)),
            reason: to_kill_reason(kill.reason).into(),
            grace: Some(to_duration(kill.grace)),
            message: kill.message.clone(),
            command_seq: 0,
        };
        let before = self.kills.get(&key);
        if before.is_some_and(|before| same_kill(&before.command, &command)) {
            return true;
        }
        // An executor that answers nothing is not spared by a change of mind.
        let first = before.filter(|b| !b.answered).map_or(at.elapsed, |before| before.first);
        command.command_seq = self.next_seq();
        out.frame(Down::Kill(command.clone()));
        let pending = PendingKill {
            command,
            first,
            last: at.elapsed,
            answered: false,
            stale: kill.reason == KillReason::StaleAttempt,
        };
        self.kills.insert(key, pending);
        self.check_by(at.elapsed + self.settings.kill_ack_resend);
        true
    }

    /// A result was written, or found to be written or stale: the executor may forget it.
    pub fn ack_result(&mut self, attempt: AttemptRef, status: AckStatus, out: &mut Effects) {
        let key = (attempt.run, attempt.attempt);
        let same = self
            .held
            .get(&key)
            .is_some_and(|held| held.fence <= attempt.fence || status == AckStatus::Duplicate);
        if same && self.held.get(&key).is_some_and(|held| matches!(held.stage, Stage::Finished)) {
            self.release(key);
        }
        if self.ended {
            return;
        }
        let status = match status {
            AckStatus::Committed => result_ack::Status::Committed,
            AckStatus::Duplicate => result_ack::Status::Duplicate,
            AckStatus::Stale => result_ack::Status::Stale,
        };
        out.frame(Down::ResultAck(ResultAck {
            r#ref: Some(to_ref(attempt)),
            status: status.into(),
        }));
    }

    /// Log records up to `through_seq` are stored.
    pub fn ack_logs(&mut self, attempt: AttemptRef, through_seq: u64, out: &mut Effects) {
        if !self.ended {
            out.frame(Down::LogAck(LogAck { r#ref: Some(to_ref(attempt)), through_seq }));
        }
    }

    /// Takes an attempt in that the executor runs and the store confirms.
    pub fn adopt(&mut self, run: &OpenRun, at: Moment) {
        let key = (run.id, run.attempt);
        if self.ended || self.held.contains_key(&key) {
            return;
        }
        let stage = Stage::Acked { at: Some(run.acked_at.unwrap_or(at.wall)) };
        self.hold(key, Held::taken_over(run.fence, None, stage));
    }

    /// Asks the executor to move to another session; it gets no RunCommand from now on.
    pub fn drain(
        &mut self,
        reason: scheduler_drain::Reason,
        reconnect_within: Duration,
        closes_after: Duration,
        at: Moment,
        out: &mut Effects,
    ) {
        if self.ended || self.moves_until.is_some() {
            return;
        }
        self.moves_until = Some(at.elapsed + closes_after);
        out.frame(Down::Drain(SchedulerDrain {
            reason: reason.into(),
            reconnect_within: Some(to_duration(reconnect_within)),
            peer_endpoints: self.settings.cluster.read().peer_endpoints.clone(),
            closes_after: Some(to_duration(closes_after)),
        }));
    }

    /// It need not move after all, though it still may: it gets runs again.
    pub fn stay(&mut self, out: &mut Effects) {
        out.capacity |= self.moves_until.take().is_some();
    }

    /// Ends it from this side.
    pub fn close(&mut self, end: End, out: &mut Effects) {
        if !self.ended {
            out.end = Some(end);
        }
    }

    pub(super) fn next_seq(&mut self) -> u64 {
        self.command_seq += 1;
        self.command_seq
    }

    pub(super) fn check_by(&mut self, elapsed: Duration) {
        self.next_check = self.next_check.min(elapsed);
    }

    pub(super) fn handler_name(&self, name: &str) -> Option<Arc<str>> {
        self.handlers.get_key_value(name).map(|(name, _)| name.clone())
    }
}

fn same_kill(a: &KillCommand, b: &KillCommand) -> bool {
    (&a.r#ref, a.reason, &a.grace) == (&b.r#ref, b.reason, &b.grace)
}

pub(super) fn reference((run, attempt): super::Key, held: &Held) -> AttemptRef {
    AttemptRef { run, attempt, fence: held.fence }
}
