//! The beginning of a session: what Hello lists against what the store knows, and Welcome.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_proto::v1::{KillCommand, Welcome, session_response::Frame as Down};
use prost::Message as _;

use super::{
    Effects, HandlerState, Held, Key, Moment, PendingKill, Session, Stage, Vitals,
    commands::reference, offset::ClockReadings, sharing::Sharing,
};
use crate::{
    hub::{
        Kill,
        event::{EventKind, Origin, SessionEvent},
        settings::HubSettings,
        wire::{to_duration, to_kill_reason, to_ref, to_timestamp},
    },
    model::{
        executor::ExecutorSpec,
        ids::AttemptRef,
        job::KILL_GRACE_DEFAULT,
        run::{KillReason, OpenRun, RunState},
    },
};

/// How far the numbers of commands jump when an earlier session's last number is not known, so that
/// a command of that session which is still on its way is never mistaken for one of this session.
const COMMAND_SEQ_GAP: u64 = 1 << 20;

/// A Hello may be written this long before its session opens: what was sent beside it on an earlier
/// session of the process is not in its list.
const HELLO_AGE_MAX: TimeDelta = TimeDelta::seconds(30);

/// All that is known when a session begins: Hello, checked, and what the claim found.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Who.
    pub origin: Arc<Origin>,
    /// Name of its app.
    pub app_name: String,
    /// The process.
    pub instance_id: String,
    /// Name of the session in logs.
    pub session_id: String,
    /// What it offers.
    pub spec: ExecutorSpec,
    /// No new runs.
    pub cordoned: bool,
    /// Protocol minor both sides speak.
    pub protocol_minor: u32,
    /// Features both sides have.
    pub features: Vec<String>,
    /// For its next Hello.
    pub resume_token: String,
    /// The store took the session for the next one of the same process.
    pub resumed: bool,
    /// Another process had the name before: what that one held is lost.
    pub replaced: bool,
    /// Open runs whose current attempt is with this executor, as the store knows them.
    pub claimed: Vec<OpenRun>,
    /// What Hello lists, with whether it is finished.
    pub listed: Vec<(AttemptRef, bool)>,
    /// Last command the process has read.
    pub last_command_seq: u64,
    /// Listed, running, and not wanted any more.
    pub unwanted: Vec<AttemptRef>,
    /// Listed, finished, and already written.
    pub known_results: Vec<AttemptRef>,
    /// When the credential ends.
    pub auth_expires_at: Option<DateTime<Utc>>,
}

/// What an ended session leaves to the next one of the same process.
#[derive(Debug)]
pub struct Handover {
    pub(in crate::hub) instance_id: String,
    pub(super) command_seq: u64,
    /// All it had sent was read, or never will be.
    pub(super) settled: bool,
    pub(super) held: HashMap<Key, Held>,
}

impl Handover {
    /// The stream is known to be gone.
    pub fn settle(&mut self) {
        self.settled = true;
    }

    /// What is lost when the process does not come back; results that are being written are not.
    pub(in crate::hub) fn forsaken(self, origin: &Arc<Origin>) -> Vec<SessionEvent> {
        let open = self.held.into_iter().filter(|(_, held)| held.stage.takes_a_slot());
        let why = "the executor left without its result";
        open.map(|(key, held)| SessionEvent {
            origin: origin.clone(),
            attempt: reference(key, &held),
            kind: EventKind::Lost { why },
        })
        .collect()
    }
}

impl Session {
    /// Begins a session. The first frame is Welcome; the events tell what became of the attempts
    /// that the executor had before.
    pub fn open(
        opening: Opening,
        before: Option<Handover>,
        settings: Arc<HubSettings>,
        at: Moment,
        out: &mut Effects,
    ) -> Self {
        let before = before.filter(|before| before.instance_id == opening.instance_id);
        let mut session = Self::blank(&opening, before.as_ref(), settings, at);
        let mut welcome = session.welcome(&opening, at);
        session.fill(&mut welcome, &opening, at);
        out.frame(Down::Welcome(welcome));
        session.take_over(&opening, before, at, out);
        session
    }

    fn blank(
        opening: &Opening,
        before: Option<&Handover>,
        settings: Arc<HubSettings>,
        at: Moment,
    ) -> Self {
        let handlers = opening.spec.handlers.iter().map(|handler| {
            let max_concurrency = handler.max_concurrency;
            (handler.name.as_str().into(), HandlerState { max_concurrency, ..Default::default() })
        });
        let command_seq = match before {
            Some(before) => before.command_seq.max(opening.last_command_seq),
            None if opening.last_command_seq == 0 && opening.claimed.is_empty() => 0,
            None => opening.last_command_seq.saturating_add(COMMAND_SEQ_GAP),
        };
        Self {
            origin: opening.origin.clone(),
            instance_id: opening.instance_id.clone(),
            labels: opening.spec.labels.clone(),
            slots: opening.spec.slots,
            handlers: handlers.collect(),
            held: HashMap::new(),
            kills: HashMap::new(),
            command_seq,
            running: 0,
            reserved: 0,
            blocked: 0,
            busy_until: None,
            cordoned: opening.cordoned,
            sharing: Sharing::default(),
            executor_drains: false,
            old_at: at.elapsed.saturating_add(lifetime(&opening.origin, settings.session_max_age)),
            moves_until: None,
            heard: at,
            suspect: false,
            stalled: false,
            reads_from: Duration::ZERO,
            stall_acked: Duration::ZERO,
            vouched_seq: 0,
            vitals: Vitals::default(),
            clock: ClockReadings::default(),
            clock_told: false,
            connected_at: at.wall,
            next_check: Duration::MAX,
            ignored: 0,
            ended: false,
            settings,
        }
    }

    /// What goes out with Welcome: kills of what was being stopped when contact was lost and of what
    /// is not wanted, and results that need not be sent again. What makes it longer than a frame
    /// may be is left out: a kill of the first kind is sent when its time for an answer is over,
    /// what is not wanted shows in the next heartbeats, and a result that comes again is answered.
    fn fill(&mut self, welcome: &mut Welcome, opening: &Opening, at: Moment) {
        /// A field's number and length.
        const TAG_BYTES_MAX: usize = 8;
        let mut room = (self.settings.max_frame_bytes as usize)
            .saturating_sub(welcome.encoded_len() + TAG_BYTES_MAX);
        let mut fits = move |bytes: usize| {
            room = room.saturating_sub(bytes + TAG_BYTES_MAX);
            room > 0
        };
        for kill in stopping(opening) {
            let command = self.first_kill(&kill, at);
            if fits(command.encoded_len()) {
                welcome.kills.push(command);
            }
        }
        for kill in opening.unwanted.iter().copied().map(stale) {
            let command = self.first_kill(&kill, at);
            if !fits(command.encoded_len()) {
                self.kills.remove(&(kill.attempt.run, kill.attempt.attempt));
                break;
            }
            welcome.kills.push(command);
        }
        let known = opening.known_results.iter().copied().map(to_ref);
        welcome.known_results = known.take_while(|known| fits(known.encoded_len())).collect();
    }

    fn first_kill(&mut self, kill: &Kill, at: Moment) -> KillCommand {
        let command = KillCommand {
            r#ref: Some(to_ref(kill.attempt)),
            reason: to_kill_reason(kill.reason).into(),
            grace: Some(to_duration(kill.grace)),
            message: kill.message.clone(),
            command_seq: self.next_seq(),
        };
        let pending = PendingKill {
            command: command.clone(),
            first: at.elapsed,
            last: at.elapsed,
            answered: false,
            stale: kill.reason == KillReason::StaleAttempt,
        };
        self.kills.insert((kill.attempt.run, kill.attempt.attempt), pending);
        self.check_by(at.elapsed + self.settings.kill_ack_resend);
        command
    }

    fn welcome(&self, opening: &Opening, at: Moment) -> Welcome {
        let settings = &self.settings;
        Welcome {
            protocol_minor: opening.protocol_minor,
            features: opening.features.clone(),
            session_id: opening.session_id.clone(),
            session_epoch: opening.origin.epoch,
            resume_token: opening.resume_token.clone(),
            resumed: opening.resumed,
            node_id: settings.node_id.clone(),
            server_time: Some(to_timestamp(at.wall)),
            heartbeat_interval: Some(to_duration(settings.heartbeat_interval)),
            heartbeat_timeout: Some(to_duration(settings.heartbeat_timeout)),
            lost_after: Some(to_duration(settings.lost_after)),
            run_ack_timeout: Some(to_duration(settings.run_ack_timeout)),
            max_frame_bytes: settings.max_frame_bytes,
            max_output_bytes: settings.max_output_bytes,
            max_log_chunk_bytes: settings.max_log_chunk_bytes,
            log_window_bytes: settings.log_window_bytes,
            peer_endpoints: settings.cluster.read().peer_endpoints.clone(),
            auth_expire_time: opening.auth_expires_at.map(to_timestamp),
            kills: Vec::new(),
            known_results: Vec::new(),
        }
    }

    /// Decides for each attempt of the executor: it goes on, it never began, or it is lost.
    fn take_over(
        &mut self,
        opening: &Opening,
        before: Option<Handover>,
        at: Moment,
        out: &mut Effects,
    ) {
        let listed: BTreeMap<Key, bool> = opening
            .listed
            .iter()
            .map(|(attempt, finished)| ((attempt.run, attempt.attempt), *finished))
            .collect();
        let settled = before.as_ref().is_some_and(|before| before.settled);
        let mut memory = before.map(|before| before.held).unwrap_or_default();
        for run in &opening.claimed {
            let known = memory.remove(&(run.id, run.attempt));
            let known = known.filter(|held| held.fence == run.fence);
            if opening.replaced {
                let why = "another process came up under the executor's name";
                out.events.push(self.event(run.attempt_ref(), EventKind::Lost { why }));
                continue;
            }
            match listed.get(&(run.id, run.attempt)) {
                Some(finished) => self.go_on(run, known, *finished, at, out),
                None => {
                    // Read after the list was made, as far as the numbers or the row can tell.
                    let younger = match &known {
                        Some(held) => held.seq > opening.last_command_seq,
                        None => {
                            run.dispatched_at.is_some_and(|sent| sent + HELLO_AGE_MAX > at.wall)
                        }
                    };
                    self.not_listed(run, known, settled, younger, out);
                }
            }
        }
        // Sent after the claim looked: their rows say so by now. The rest has ended meanwhile.
        for (key, held) in memory {
            match held.stage {
                Stage::Finished => self.hold(key, held),
                Stage::Sent { .. } | Stage::Carried if !listed.contains_key(&key) => {
                    self.carry(key, held.fence, held.handler);
                }
                _ => {}
            }
        }
    }

    fn go_on(
        &mut self,
        run: &OpenRun,
        known: Option<Held>,
        finished: bool,
        at: Moment,
        out: &mut Effects,
    ) {
        let handler = known.as_ref().and_then(|held| held.handler.clone());
        let acked_at = match known.as_ref().map(|held| &held.stage) {
            Some(Stage::Acked { at }) => *at,
            _ => run.acked_at,
        };
        let known_finished = known.is_some_and(|held| matches!(held.stage, Stage::Finished));
        if run.state == RunState::Dispatched && acked_at.is_none() && !finished {
            let kind = EventKind::Acked { at: at.wall };
            out.events.push(self.event(run.attempt_ref(), kind));
        }
        let stage = if known_finished {
            Stage::Finished
        } else {
            Stage::Acked { at: Some(acked_at.unwrap_or(at.wall)) }
        };
        let held = Held::taken_over(run.fence, handler, stage);
        self.hold((run.id, run.attempt), held);
    }

    fn not_listed(
        &mut self,
        run: &OpenRun,
        known: Option<Held>,
        settled: bool,
        younger: bool,
        out: &mut Effects,
    ) {
        let key = (run.id, run.attempt);
        let had_it = run.state == RunState::Running
            || run.acked_at.is_some()
            || known.as_ref().is_some_and(|held| matches!(held.stage, Stage::Acked { .. }));
        let kind = match known {
            Some(held) if matches!(held.stage, Stage::Finished) => return self.hold(key, held),
            known if had_it && younger => {
                // The next Heartbeats tell.
                let handler = known.and_then(|held| held.handler);
                let handler = handler.and_then(|name| self.handler_name(&name));
                let stage = Stage::Acked { at: run.acked_at };
                return self.hold(key, Held::taken_over(run.fence, handler, stage));
            }
            _ if had_it => EventKind::Lost { why: "the executor came back without the attempt" },
            Some(_) if settled => EventKind::NotHeld,
            known => return self.carry(key, run.fence, known.and_then(|held| held.handler)),
        };
        out.events.push(self.event(run.attempt_ref(), kind));
    }

    /// Keeps an attempt in sight that may still be on its way to the executor.
    pub(super) fn carry(&mut self, key: Key, fence: u64, handler: Option<Arc<str>>) {
        let handler = handler.and_then(|name| self.handler_name(&name));
        let stage = Stage::Carried;
        self.hold(key, Held::taken_over(fence, handler, stage));
    }
}

/// Kills of what was being stopped when contact was lost.
fn stopping(opening: &Opening) -> Vec<Kill> {
    let running: HashSet<Key> = opening
        .listed
        .iter()
        .filter(|(_, finished)| !finished)
        .map(|(attempt, _)| (attempt.run, attempt.attempt))
        .collect();
    let stopping = opening
        .claimed
        .iter()
        .filter(|run| run.state == RunState::Canceling && running.contains(&(run.id, run.attempt)));
    let kill = |run: &OpenRun| Kill {
        attempt: run.attempt_ref(),
        reason: run.kill_reason.unwrap_or(KillReason::User),
        grace: run.kill_grace.unwrap_or(KILL_GRACE_DEFAULT),
        message: run.message.clone(),
    };
    stopping.map(kill).collect()
}

/// The kill of what is not wanted any more.
fn stale(attempt: AttemptRef) -> Kill {
    Kill {
        attempt,
        reason: KillReason::StaleAttempt,
        grace: KILL_GRACE_DEFAULT,
        message: "this attempt is no longer wanted".to_owned(),
    }
}

/// The age up to which a session is left alone: spread by ± 20 %, so that those which began
/// together do not move together.
fn lifetime(origin: &Origin, max_age: Option<Duration>) -> Duration {
    let seed = origin.row.cast_unsigned() ^ (origin.epoch << 40);
    let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let per_mille = 800 + u32::try_from(mixed % 401).unwrap_or(0);
    max_age.map_or(Duration::MAX, |age| age.saturating_mul(per_mille) / 1_000)
}
