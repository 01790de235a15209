//! The executor's table of attempts as a pure machine: an event and the time go in, actions come
//! out. No I/O, no clock, no handler runs here.
//!
//! An attempt is *running*, *stopping* (told to stop, with a moment at which it is abandoned) or
//! *finished* (its result waits for the ack). An acknowledged one moves into [`memory`], so that
//! a command that comes again is recognised.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawjob_proto::v1::{self, session_request::Frame};

use crate::ctx::StopReason;
use crate::failure::Failure;
use crate::handler::Returned;
use crate::time::{self, Now};

mod attempt;
mod commands;
mod memory;
#[cfg(test)]
mod tests;

use attempt::{Attempt, State};
use memory::Memory;

/// Grace of a kill when neither the kill nor the job names one.
const KILL_GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// How long before `lost_after`, and before the grace of the kill, a handler is stopped for loss
/// of contact when its job asks for that.
const SELF_FENCE_MARGIN: Duration = Duration::from_secs(2);
/// What a BUSY answer asks the scheduler to wait.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);
/// `lost_after` until a Welcome names one.
const LOST_AFTER_DEFAULT: Duration = Duration::from_secs(60);
/// Largest output until a Welcome names a bound, in bytes.
const OUTPUT_BYTES_MAX_DEFAULT: usize = 256 * 1024;

/// The identity of an attempt: what a repeated command is recognised by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    run_id: Arc<str>,
    attempt: u32,
}

impl Key {
    pub(crate) fn new(run_id: &str, attempt: u32) -> Self {
        Self { run_id: run_id.into(), attempt }
    }

    pub(crate) fn of(attempt: &v1::AttemptRef) -> Self {
        Self::new(&attempt.run_id, attempt.attempt)
    }

    pub(crate) fn to_ref(&self, fence: u64) -> v1::AttemptRef {
        v1::AttemptRef { run_id: self.run_id.to_string(), attempt: self.attempt, fence }
    }
}

/// How a handler ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It returned.
    Returned(Returned),
    /// It panicked, with this message.
    Panicked(String),
    /// It was dropped after having been abandoned, or with its runtime.
    Dropped,
}

/// What the caller has to do, in this order.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// Send this on the current session; without one it is lost, and the next Hello makes up.
    Send(Frame),
    /// Tell the handler to stop.
    Stop(Key, StopReason),
    /// Drop the handler.
    Abandon(Key),
    /// The attempt's result can be sent, after what it logged.
    Result(Key),
    /// The attempt's result is acknowledged; nothing of it is needed any more.
    Forget(Key),
}

/// The table.
#[derive(Debug)]
pub(crate) struct Engine {
    slots: u32,
    /// Handlers on offer and how many of each may run; 0 means no bound of its own.
    limits: BTreeMap<String, u32>,
    paused: HashSet<String>,
    attempts: BTreeMap<Key, Attempt>,
    memory: Memory,
    /// Attempts reported as abandoned whose handler still runs, with its name.
    abandoned: HashMap<Key, String>,
    /// Running, stopping and abandoned handlers.
    used: u32,
    used_by: HashMap<String, u32>,
    last_command_seq: u64,
    draining: bool,
    /// When the last frame was sent that the scheduler has acknowledged.
    contact: Instant,
    lost_after: Duration,
    output_max: usize,
    /// Not later than the next moment at which [`Engine::tick`] has something to do.
    wake: Option<Instant>,
    actions: Vec<Action>,
}

impl Engine {
    pub(crate) fn new(slots: u32, limits: BTreeMap<String, u32>, now: Now) -> Self {
        Self {
            slots,
            limits,
            paused: HashSet::new(),
            attempts: BTreeMap::new(),
            memory: Memory::default(),
            abandoned: HashMap::new(),
            used: 0,
            used_by: HashMap::new(),
            last_command_seq: 0,
            draining: false,
            contact: now.mono,
            lost_after: LOST_AFTER_DEFAULT,
            output_max: OUTPUT_BYTES_MAX_DEFAULT,
            wake: None,
            actions: Vec::new(),
        }
    }

    /// What the events so far ask for.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// When to call [`Engine::tick`] next.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.wake
    }

    /// Number of the last command read in the current line of sessions.
    pub(crate) fn last_command_seq(&self) -> u64 {
        self.last_command_seq
    }

    /// Every attempt held: running ones and those whose result is not acknowledged.
    pub(crate) fn statuses(&self) -> Vec<v1::AttemptStatus> {
        self.attempts.iter().map(|(key, attempt)| attempt.status(key)).collect()
    }

    /// The fields of a Heartbeat that the table knows.
    pub(crate) fn heartbeat(&self) -> v1::Heartbeat {
        v1::Heartbeat {
            attempts: self.statuses(),
            free_slots: self.free_slots(),
            last_command_seq: self.last_command_seq,
            abandoned_handlers: u32::try_from(self.abandoned.len()).unwrap_or(u32::MAX),
            ..v1::Heartbeat::default()
        }
    }

    /// Slots that take a run now; none while draining.
    pub(crate) fn free_slots(&self) -> u32 {
        if self.draining { 0 } else { self.slots.saturating_sub(self.used) }
    }

    /// True when no handler runs that has not been abandoned.
    pub(crate) fn is_idle(&self) -> bool {
        self.attempts.values().all(|attempt| attempt.result().is_some())
    }

    /// True when no attempt is held, not even for its result.
    pub(crate) fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// The fence under which the attempt is spoken of.
    pub(crate) fn fence(&self, key: &Key) -> Option<u64> {
        self.attempts.get(key).map(|attempt| attempt.fence)
    }

    /// The result to send, without the number of its last log record.
    pub(crate) fn result(&self, key: &Key) -> Option<v1::RunResult> {
        let attempt = self.attempts.get(key)?;
        let result = attempt.result()?.clone();
        Some(v1::RunResult { r#ref: Some(key.to_ref(attempt.fence)), ..result })
    }

    /// A session has begun. `hello_sent` is when its Hello was sent.
    pub(crate) fn on_welcome(&mut self, now: Now, hello_sent: Instant, welcome: &v1::Welcome) {
        self.on_contact(hello_sent);
        self.lost_after = time::std_duration(welcome.lost_after.as_ref())
            .filter(|lost_after| !lost_after.is_zero())
            .unwrap_or(LOST_AFTER_DEFAULT);
        if welcome.max_output_bytes > 0 {
            self.output_max = welcome.max_output_bytes as usize;
        }
        if !welcome.resumed {
            self.last_command_seq = 0;
        }
        for known in &welcome.known_results {
            self.acknowledge(now, known);
        }
        for kill in &welcome.kills {
            self.on_kill(now, kill);
        }
        let finished = self.attempts.iter().filter(|(_, attempt)| attempt.result().is_some());
        self.actions.extend(finished.map(|(key, _)| Action::Result(key.clone())));
        if !self.paused.is_empty() {
            self.report_capacity("paused");
        }
        self.wake = Some(now.mono);
    }

    /// The scheduler has acknowledged a frame that was sent at `sent`.
    pub(crate) fn on_contact(&mut self, sent: Instant) {
        self.contact = self.contact.max(sent);
    }

    /// The scheduler has the result, or does not want it.
    pub(crate) fn on_result_ack(&mut self, now: Now, ack: &v1::ResultAck) {
        if let Some(attempt) = &ack.r#ref {
            self.acknowledge(now, attempt);
        }
    }

    fn acknowledge(&mut self, now: Now, acked: &v1::AttemptRef) {
        let key = Key::of(acked);
        let Some(attempt) = self.attempts.get(&key) else { return };
        // An answer to a lower fence leaves open what becomes of the result under the higher one.
        if attempt.result().is_none() || acked.fence < attempt.fence {
            return;
        }
        if let Some(attempt) = self.attempts.remove(&key) {
            self.memory.remember(now.mono, &key, attempt);
        }
        self.actions.push(Action::Forget(key));
        self.wake_at(self.memory.next_expiry());
    }

    /// A handler has ended, whether its end is still of interest or not.
    pub(crate) fn on_ending(&mut self, now: Now, key: &Key, ending: Ending) {
        if let Some(handler) = self.abandoned.remove(key) {
            self.release(&handler);
            self.report_capacity("an abandoned handler has ended");
            return;
        }
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        if attempt.result().is_some() {
            return;
        }
        attempt.finish(now, ending, self.output_max);
        let handler = attempt.handler.clone();
        self.release(&handler);
        self.actions.push(Action::Result(key.clone()));
    }

    /// Takes nothing new from now on.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// Tells every running handler to stop; those that do not are abandoned after `grace`.
    pub(crate) fn stop_all(&mut self, now: Now, reason: StopReason, grace: Duration) {
        let keys: Vec<Key> = self.attempts.keys().cloned().collect();
        for key in keys {
            self.stop(now, &key, reason, Some(grace));
        }
    }

    /// Takes no runs of this handler until it is resumed.
    pub(crate) fn pause(&mut self, handler: &str, paused: bool) {
        let changed = if paused {
            self.paused.insert(handler.to_owned())
        } else {
            self.paused.remove(handler)
        };
        if changed {
            self.report_capacity(if paused { "paused" } else { "resumed" });
        }
    }

    /// Does what is due at `now`: timeouts, self-fences, abandonments, expiry.
    pub(crate) fn tick(&mut self, now: Now) {
        if self.wake.is_none_or(|at| at > now.mono) {
            return;
        }
        self.wake = None;
        self.memory.expire(now.mono);
        let mut due = Vec::new();
        for (key, attempt) in &self.attempts {
            if attempt.next_step(self.contact, self.lost_after).is_some_and(|at| at <= now.mono) {
                due.push(key.clone());
            }
        }
        for key in due {
            self.step(now, &key);
        }
        let next = self
            .attempts
            .values()
            .filter_map(|attempt| attempt.next_step(self.contact, self.lost_after))
            .min();
        self.wake_at(next);
        self.wake_at(self.memory.next_expiry());
    }

    fn step(&mut self, now: Now, key: &Key) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        match attempt.state {
            State::Running => {
                let timed_out = attempt.timeout_at.is_some_and(|at| at <= now.mono);
                let reason = if timed_out { StopReason::Timeout } else { StopReason::Disconnected };
                self.stop(now, key, reason, None);
            }
            State::Stopping { reason, .. } => {
                attempt.abandon(now, reason);
                self.abandoned.insert(key.clone(), attempt.handler.clone());
                self.actions.push(Action::Abandon(key.clone()));
                self.actions.push(Action::Result(key.clone()));
            }
            State::Finished(_) => {}
        }
    }

    /// True when the attempt runs (and has been told to stop now, if not before).
    fn stop(&mut self, now: Now, key: &Key, reason: StopReason, grace: Option<Duration>) -> bool {
        let Some(attempt) = self.attempts.get_mut(key) else { return false };
        let abandon_at = now.mono + grace.unwrap_or(attempt.kill_grace);
        match &mut attempt.state {
            State::Running => {
                attempt.state = State::Stopping { reason, abandon_at };
                self.actions.push(Action::Stop(key.clone(), reason));
            }
            State::Stopping { abandon_at: at, .. } => *at = abandon_at.min(*at),
            State::Finished(_) => return false,
        }
        self.wake_at(Some(abandon_at));
        true
    }

    fn occupy(&mut self, handler: &str) {
        self.used += 1;
        *self.used_by.entry(handler.to_owned()).or_default() += 1;
    }

    fn release(&mut self, handler: &str) {
        self.used = self.used.saturating_sub(1);
        if let Some(count) = self.used_by.get_mut(handler) {
            *count = count.saturating_sub(1);
        }
    }

    fn report_capacity(&mut self, reason: &str) {
        let mut paused_handlers: Vec<String> = self.paused.iter().cloned().collect();
        paused_handlers.sort();
        self.actions.push(Action::Send(Frame::Capacity(v1::Capacity {
            free_slots: self.free_slots(),
            paused_handlers,
            reason: reason.to_owned(),
        })));
    }

    fn wake_at(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            self.wake = Some(self.wake.map_or(at, |earlier| earlier.min(at)));
        }
    }
}

/// A command that cannot be carried out, as the answer says it.
fn rejection(failure: Failure) -> v1::RunAck {
    v1::RunAck {
        status: v1::run_ack::Status::Rejected.into(),
        failure: Some(failure.into_wire()),
        ..v1::RunAck::default()
    }
}
