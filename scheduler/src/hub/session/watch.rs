//! What a session is watched for: heartbeats that list what the executor has, and answers that
//! are overdue.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Utc};
use clawjob_proto::v1::{
    AttemptStatus, Heartbeat, HeartbeatAck, scheduler_drain, session_response::Frame as Down,
};

use super::{Effects, End, Key, Moment, Session, Stage, commands::reference};
use crate::{
    hub::{
        event::EventKind,
        settings::{LISTED_ATTEMPTS_MAX, MOVE_CLOSES_AFTER, MOVE_WITHIN, OUTBOX_PATIENCE},
        wire,
    },
    model::ids::AttemptRef,
};

/// Heartbeats in a row that must leave an attempt out that the executor had, or that an earlier
/// session sent: one may have been on its way when the executor wrote it.
const MISSING_TWICE: u8 = 2;
/// Unknown attempts that one Heartbeat makes the scheduler look up.
const UNKNOWN_PER_HEARTBEAT_MAX: usize = 256;
/// A session that sent nothing for so many heartbeat timeouts is closed.
const SILENCE_TIMEOUTS: u32 = 2;

/// An attempt in a Heartbeat's list.
struct Listed {
    fence: u64,
    finished: bool,
    /// By the executor's clock.
    started: Option<DateTime<Utc>>,
}

impl Session {
    pub(super) fn on_heartbeat(&mut self, heartbeat: Heartbeat, at: Moment, out: &mut Effects) {
        // What the other nodes can't know of is no contact to them. The executor learns that this side
        // is alive, and no more.
        if self.settings.cluster.read().vouches_at(at.elapsed) {
            self.vouched_seq = heartbeat.seq;
        }
        self.acknowledge_heartbeat(at, out);
        let listed = self.listed(&heartbeat.attempts);
        let has = listed.values().filter(|listed| !listed.finished).count();
        self.report_free(heartbeat.free_slots, u32::try_from(has).unwrap_or(u32::MAX));
        self.reconcile(&listed, heartbeat.last_command_seq, at, out);
        let unit = |share: Option<f32>| share.filter(|s| s.is_finite()).map(|s| s.clamp(0.0, 1.0));
        self.vitals.heartbeat_at = Some(at.wall);
        self.vitals.cpu = unit(heartbeat.cpu);
        self.vitals.memory = unit(heartbeat.memory);
        self.vitals.lag = wire::duration(heartbeat.lag.as_ref()).unwrap_or_default();
        self.vitals.abandoned = heartbeat.abandoned_handlers;
        self.vitals.log_bytes_dropped += u64::from(heartbeat.log_bytes_dropped);
        out.capacity = true;
    }

    fn acknowledge_heartbeat(&self, at: Moment, out: &mut Effects) {
        out.frame(Down::HeartbeatAck(HeartbeatAck {
            seq: self.vouched_seq,
            server_time: Some(wire::to_timestamp(at.wall)),
        }));
    }

    fn listed(&mut self, attempts: &[AttemptStatus]) -> HashMap<Key, Listed> {
        let mut listed = HashMap::with_capacity(attempts.len().min(LISTED_ATTEMPTS_MAX));
        for status in attempts.iter().take(LISTED_ATTEMPTS_MAX) {
            match wire::attempt_ref(status.r#ref.as_ref()) {
                Some(attempt) => {
                    let key = (attempt.run, attempt.attempt);
                    let started = wire::timestamp(status.start_time.as_ref());
                    let (fence, finished) = (attempt.fence, status.finished);
                    listed.insert(key, Listed { fence, finished, started });
                }
                None => self.ignored += 1,
            }
        }
        listed
    }

    /// Compares what the executor has with what it should have (R3–R5).
    fn reconcile(
        &mut self,
        listed: &HashMap<Key, Listed>,
        last_command_seq: u64,
        at: Moment,
        out: &mut Effects,
    ) {
        let mut unknown = 0;
        for (key, Listed { fence, finished, started }) in listed {
            match self.held.get_mut(key) {
                // A listing under a lower fence counts for the higher one.
                Some(held) if *fence <= held.fence => {
                    held.missing = 0;
                    let sent_at = held.sent_at.take_if(|_| started.is_some());
                    if let (Some(started), Some(sent_at)) = (started, sent_at) {
                        self.clock_after(*started, sent_at, out);
                    }
                    self.implied_ack(*key, at, out);
                }
                // Its result is on the way or being written; only what runs can be unwanted.
                _ if *finished || self.kills.contains_key(key) => {}
                _ if unknown < UNKNOWN_PER_HEARTBEAT_MAX => {
                    unknown += 1;
                    let attempt = AttemptRef { run: key.0, attempt: key.1, fence: *fence };
                    out.events.push(self.event(attempt, EventKind::Unknown));
                }
                _ => {}
            }
        }
        self.find_missing(listed, last_command_seq, out);
    }

    fn find_missing(
        &mut self,
        listed: &HashMap<Key, Listed>,
        last_command_seq: u64,
        out: &mut Effects,
    ) {
        let mut gone: Vec<(Key, bool)> = Vec::new();
        for (key, held) in &mut self.held {
            let judged = held.seq <= last_command_seq
                && !matches!(held.stage, Stage::Finished)
                && !listed.contains_key(key);
            if !judged {
                continue;
            }
            held.missing = held.missing.saturating_add(1);
            let had_it = matches!(held.stage, Stage::Acked { .. });
            let carried = matches!(held.stage, Stage::Carried);
            if held.missing >= if had_it || carried { MISSING_TWICE } else { 1 } {
                gone.push((*key, had_it));
            }
        }
        for (key, had_it) in gone {
            let Some(held) = self.release(key) else { continue };
            self.kills.remove(&key);
            let kind = if had_it {
                EventKind::Lost { why: "the executor no longer has the attempt" }
            } else {
                EventKind::NotHeld
            };
            out.events.push(self.event(reference(key, &held), kind));
        }
    }

    /// Looks for what is overdue. `outbox_full_since` is when the executor stopped reading.
    pub fn tick(&mut self, outbox_full_since: Option<Duration>, at: Moment, out: &mut Effects) {
        if self.ended {
            return;
        }
        if self.moves_until.is_some_and(|until| at.elapsed >= until) {
            out.end = Some(End::Drained);
            return;
        }
        if outbox_full_since.is_some_and(|since| at.elapsed >= since + OUTBOX_PATIENCE) {
            let text = "it did not read its frames for 5 s".to_owned();
            out.end = Some(End::Unresponsive(text));
            return;
        }
        if at.elapsed >= self.old_at && self.moves_until.is_none() {
            let reason = scheduler_drain::Reason::Rebalance;
            self.drain(reason, MOVE_WITHIN, MOVE_CLOSES_AFTER, at, out);
        }
        self.watch_silence(at, out);
        if out.end.is_none() && at.elapsed >= self.next_check {
            self.next_check = Duration::MAX;
            self.end_pauses(at, out);
            if !self.stalled {
                self.watch_run_acks(at, out);
                self.watch_kill_acks(at, out);
            }
        }
    }

    fn watch_silence(&mut self, at: Moment, out: &mut Effects) {
        if self.stalled {
            if at.elapsed < self.stall_acked + self.settings.heartbeat_interval {
                return;
            }
            // This side does not read, so it can't hear; it says that it is alive.
            self.stall_acked = at.elapsed;
            self.acknowledge_heartbeat(at, out);
            return;
        }
        let silence = at.elapsed.saturating_sub(self.heard.elapsed);
        if silence >= self.settings.heartbeat_timeout * SILENCE_TIMEOUTS {
            out.end = Some(End::Unresponsive(format!("nothing heard for {} s", silence.as_secs())));
        } else if silence >= self.settings.heartbeat_timeout {
            self.suspect = true;
        }
    }

    fn end_pauses(&mut self, at: Moment, out: &mut Effects) {
        let mut next = Duration::MAX;
        let handlers = self.handlers.values_mut().map(|state| &mut state.refused_until);
        for pause in handlers.chain([&mut self.busy_until]) {
            match *pause {
                Some(until) if at.elapsed >= until => {
                    *pause = None;
                    out.capacity = true;
                }
                Some(until) => next = next.min(until),
                None => {}
            }
        }
        self.check_by(next);
    }

    fn watch_run_acks(&mut self, at: Moment, out: &mut Effects) {
        let timeout = self.settings.run_ack_timeout;
        let mut next = Duration::MAX;
        let mut seq = self.command_seq;
        for held in self.held.values_mut() {
            let Stage::Sent { since, resent, command } = &mut held.stage else { continue };
            let due = self.reads_from.max(*since) + timeout;
            if at.elapsed < due {
                next = next.min(due);
                continue;
            }
            if *resent {
                let text = "a RunCommand and its repetition got no answer".to_owned();
                out.end = Some(End::Unresponsive(text));
                return;
            }
            seq += 1;
            command.command_seq = seq;
            (*since, *resent, held.seq) = (at.elapsed, true, seq);
            next = next.min(at.elapsed + timeout);
            out.frame(Down::Run((**command).clone()));
        }
        self.command_seq = seq;
        self.check_by(next);
    }

    fn watch_kill_acks(&mut self, at: Moment, out: &mut Effects) {
        let (resend, evict) = (self.settings.kill_ack_resend, self.settings.kill_ack_evict);
        let mut next = Duration::MAX;
        let mut seq = self.command_seq;
        for kill in self.kills.values_mut().filter(|kill| !kill.answered) {
            let (first, last) = (self.reads_from.max(kill.first), self.reads_from.max(kill.last));
            if at.elapsed >= first + evict {
                let text = format!("a KillCommand got no answer for {} s", evict.as_secs());
                out.end = Some(End::Unresponsive(text));
                return;
            }
            if at.elapsed < last + resend {
                next = next.min(last + resend);
                continue;
            }
            seq += 1;
            kill.command.command_seq = seq;
            kill.last = at.elapsed;
            next = next.min(at.elapsed + resend);
            out.frame(Down::Kill(kill.command.clone()));
        }
        self.command_seq = seq;
        self.check_by(next);
    }
}
