//! One session as a pure machine: a frame, a command or a tick goes in; frames for the executor
//! and events for the scheduler come out. No I/O and no clock.

mod commands;
mod frames;
mod offset;
mod opening;
mod sharing;
mod watch;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_proto::v1::{
    Close, KillCommand, RunCommand, SessionResponse, session_response::Frame as Down,
};

use super::{
    event::{EventKind, Origin, SessionEvent},
    settings::HubSettings,
};
use crate::model::ids::{AttemptRef, RunId};

pub use commands::AckStatus;
use offset::ClockReadings;
pub use opening::{Handover, Opening};
use sharing::Sharing;

/// The two times of one instant: wall time to write down, monotonic time to measure with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Wall time.
    pub wall: DateTime<Utc>,
    /// Monotonic time since the clock was made.
    pub elapsed: Duration,
}

/// Why a session ended or must end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A newer session under the executor's name took over.
    Superseded,
    /// A newer session of the same process took over. Should that one come to nothing, as a dial that
    /// was given up does, the process must come again.
    Moved,
    /// The executor does not read or does not answer; in words.
    Unresponsive(String),
    /// Its credential stopped working; in words.
    Revoked(String),
    /// It broke the protocol; in words.
    Protocol(String),
    /// An operator asked for it; in words.
    Disconnected(String),
    /// This node is going, or asked the executor to move; it may come back elsewhere.
    Drained,
    /// The executor said Goodbye.
    Goodbye,
    /// The stream ended without a word.
    Broken,
}

impl End {
    /// The Close frame for it; None when the executor itself ended the session.
    pub fn close(&self) -> Option<Close> {
        use clawjob_proto::v1::close::Reason;
        let (reason, message, reconnect) = match self {
            Self::Superseded => {
                (Reason::Superseded, "a newer session of this executor took over", false)
            }
            Self::Moved => (Reason::Superseded, "a newer session of this process took over", true),
            Self::Unresponsive(message) => (Reason::Unresponsive, message.as_str(), true),
            Self::Revoked(message) => (Reason::Revoked, message.as_str(), false),
            Self::Protocol(message) => (Reason::Protocol, message.as_str(), false),
            Self::Disconnected(message) => (Reason::Error, message.as_str(), true),
            Self::Drained => (Reason::Error, "this node is going away", true),
            Self::Goodbye | Self::Broken => return None,
        };
        Some(Close { reason: reason.into(), message: message.to_owned(), reconnect })
    }
}

/// What a step of the machine brings about.
#[derive(Debug, Default)]
pub struct Effects {
    /// Frames for the executor, in order.
    pub frames: Vec<SessionResponse>,
    /// Events for the scheduler, in order.
    pub events: Vec<SessionEvent>,
    /// The session must end.
    pub end: Option<End>,
    /// Slots may have become free.
    pub capacity: bool,
    /// The executor's clock was found to be so far from this node's, for the first time in the
    /// session.
    pub clock_off: Option<TimeDelta>,
}

impl Effects {
    fn frame(&mut self, frame: Down) {
        self.frames.push(SessionResponse { frame: Some(frame) });
    }
}

/// What every frame about an attempt is found by: its fence may grow while it runs.
pub(super) type Key = (RunId, u32);

/// Where an attempt stands with this executor.
#[derive(Debug)]
pub(super) enum Stage {
    /// Sent, no answer yet.
    Sent {
        /// When it was sent last.
        since: Duration,
        /// It was sent twice already.
        resent: bool,
        /// To send it again.
        command: Box<RunCommand>,
    },
    /// Sent on an earlier session whose end of the stream is not known to have been read.
    Carried,
    /// The executor has it.
    Acked {
        /// When this node received the ack.
        at: Option<DateTime<Utc>>,
    },
    /// Its result is here and is being written.
    Finished,
}

impl Stage {
    fn takes_a_slot(&self) -> bool {
        !matches!(self, Self::Finished)
    }
}

/// An attempt this executor has or may have.
#[derive(Debug)]
pub(super) struct Held {
    fence: u64,
    /// Number of the command that brought it; 0 for one taken over from an earlier session.
    seq: u64,
    /// When this session sent it first; None for one taken over.
    sent_at: Option<DateTime<Utc>>,
    handler: Option<Arc<str>>,
    stage: Stage,
    /// Heartbeats in a row that should have listed it and did not.
    missing: u8,
    log_bytes: u64,
}

impl Held {
    /// One that an earlier session brought.
    fn taken_over(fence: u64, handler: Option<Arc<str>>, stage: Stage) -> Self {
        Self { fence, seq: 0, sent_at: None, handler, stage, missing: 0, log_bytes: 0 }
    }
}

/// A KillCommand on its way.
#[derive(Debug)]
struct PendingKill {
    command: KillCommand,
    first: Duration,
    last: Duration,
    answered: bool,
    /// The attempt is not wanted here; its run is none of this kill's business.
    stale: bool,
}

#[derive(Debug, Default)]
struct HandlerState {
    max_concurrency: u32,
    running: u32,
    reserved: u32,
    paused: bool,
    refused_until: Option<Duration>,
}

impl HandlerState {
    fn takes_runs(&self) -> bool {
        !self.paused && self.refused_until.is_none()
    }
}

/// The last figures of a Heartbeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vitals {
    /// When the last Heartbeat came.
    pub heartbeat_at: Option<DateTime<Utc>>,
    /// Share of the processor, 0..1.
    pub cpu: Option<f32>,
    /// Share of the memory, 0..1.
    pub memory: Option<f32>,
    /// How late the executor's own timer fired.
    pub lag: Duration,
    /// Handlers that ignored their kill and still run.
    pub abandoned: u32,
    /// Log bytes the executor had to drop.
    pub log_bytes_dropped: u64,
    /// Executor's clock − this node's, as far as its runs prove a difference.
    pub clock_offset: Option<TimeDelta>,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    origin: Arc<Origin>,
    settings: Arc<HubSettings>,
    instance_id: String,
    labels: BTreeMap<String, String>,
    slots: u32,
    handlers: HashMap<Arc<str>, HandlerState>,
    held: HashMap<Key, Held>,
    kills: HashMap<Key, PendingKill>,
    command_seq: u64,
    /// Attempts that take a slot.
    running: u32,
    /// Credits taken for dispatches that are being written.
    reserved: u32,
    /// Slots that are busy with something this session does not know of.
    blocked: u32,
    busy_until: Option<Duration>,
    cordoned: bool,
    sharing: Sharing,
    executor_drains: bool,
    /// When it is too old and asked to move.
    old_at: Duration,
    /// When a session that was asked to move is closed.
    moves_until: Option<Duration>,
    heard: Moment,
    suspect: bool,
    /// The scheduler itself does not read now, so silence means nothing.
    stalled: bool,
    /// Since when it reads: what it could not hear before is not overdue.
    reads_from: Duration,
    /// When it was last told that this side is alive though it does not read.
    stall_acked: Duration,
    /// The last heartbeat that this node could vouch for.
    vouched_seq: u64,
    vitals: Vitals,
    clock: ClockReadings,
    /// Somebody was told that the clocks differ.
    clock_told: bool,
    connected_at: DateTime<Utc>,
    /// No earlier than this is any answer overdue.
    next_check: Duration,
    /// Frames since the last count that this version does not know, or that make no sense.
    ignored: u64,
    ended: bool,
}

impl Session {
    /// Who it is.
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// The process behind it.
    pub fn instance_id(&self) -> &str {
        &self.instance_id
    }

    /// The last sign of life.
    pub fn heard(&self) -> Moment {
        self.heard
    }

    /// How long it has been silent; not at all while this side does not read.
    pub fn silence(&self, elapsed: Duration) -> Duration {
        if self.stalled { Duration::ZERO } else { elapsed.saturating_sub(self.heard.elapsed) }
    }

    /// Silent for longer than the heartbeat timeout.
    pub fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// It takes nothing new because it or this node is about to leave.
    pub fn is_draining(&self) -> bool {
        self.executor_drains || self.moves_until.is_some()
    }

    /// It was asked to move: its Goodbye does not mean that the process ends.
    pub fn was_asked_to_move(&self) -> bool {
        self.moves_until.is_some()
    }

    /// Ended: it has no say any more but for results.
    pub fn is_over(&self) -> bool {
        self.ended
    }

    /// How many frames were ignored since this was asked last.
    pub fn take_ignored(&mut self) -> u64 {
        std::mem::take(&mut self.ignored)
    }

    /// The scheduler stops or resumes reading its frames.
    pub fn set_stalled(&mut self, stalled: bool, at: Moment) {
        self.stalled = stalled;
        if !stalled {
            self.heard = at;
            self.reads_from = at.elapsed;
            self.check_by(at.elapsed);
        }
    }

    /// Takes it out of service: what it held is handed to the next session of the executor.
    pub fn end(&mut self) -> Handover {
        self.ended = true;
        Handover {
            instance_id: self.instance_id.clone(),
            command_seq: self.command_seq,
            settled: self.was_asked_to_move(),
            held: std::mem::take(&mut self.held),
        }
    }

    fn event(&self, attempt: AttemptRef, kind: EventKind) -> SessionEvent {
        SessionEvent { origin: self.origin.clone(), attempt, kind }
    }

    /// Puts an attempt into the table and counts its slot.
    fn hold(&mut self, key: Key, held: Held) {
        let handler = held.handler.clone();
        let takes = held.stage.takes_a_slot();
        if let Some(before) = self.held.insert(key, held) {
            self.uncount(&before);
        }
        if takes {
            self.running += 1;
            if let Some(state) = handler.and_then(|name| self.handlers.get_mut(&name)) {
                state.running += 1;
            }
        }
    }

    fn release(&mut self, key: Key) -> Option<Held> {
        let held = self.held.remove(&key)?;
        self.uncount(&held);
        Some(held)
    }

    /// Marks an attempt as finished: its slot is free, its result not yet written.
    fn finish(&mut self, key: Key) {
        if let Some(mut held) = self.held.remove(&key) {
            self.uncount(&held);
            held.stage = Stage::Finished;
            self.held.insert(key, held);
        }
    }

    fn uncount(&mut self, held: &Held) {
        if !held.stage.takes_a_slot() {
            return;
        }
        self.running = self.running.saturating_sub(1);
        if let Some(state) = held.handler.as_ref().and_then(|name| self.handlers.get_mut(name)) {
            state.running = state.running.saturating_sub(1);
        }
    }

    /// Fails unless every count equals what it counts.
    #[cfg(test)]
    pub(super) fn check_counts(&self) {
        let open = || self.held.values().filter(|held| held.stage.takes_a_slot());
        assert_eq!(self.running as usize, open().count());
        for (name, state) in &self.handlers {
            let here = open().filter(|held| held.handler.as_ref() == Some(name)).count();
            assert_eq!(state.running as usize, here, "{name}");
        }
    }
}
