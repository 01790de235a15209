//! What the executor says.

use std::{sync::Arc, time::Duration};

use clawjob_proto::v1::{
    Capacity, KillAck, LogChunk, Progress, RunAck, RunResult, SessionRequest, kill_ack, run_ack,
    session_request::Frame as Up,
};

use super::{Effects, End, Key, Moment, Session, Stage, commands::reference};
use crate::{
    hub::{
        event::{Decline, EventKind},
        settings::{ATTEMPT_LOG_BYTES_MAX, LOG_SEQ_MAX, REFUSAL_PAUSE},
        wire,
    },
    model::{
        ids::AttemptRef,
        log::{LogLevel, LogRecord},
        run::{CODE_UNKNOWN_HANDLER, Failure},
        words,
    },
};

/// How long an executor that said BUSY is passed over at least, unless it speaks up before.
const BUSY_PAUSE_MIN: Duration = Duration::from_millis(50);
/// Room that one log record takes beside its text.
const LOG_RECORD_BYTES: u64 = 64;

impl Session {
    /// Takes one frame in.
    pub fn frame(&mut self, frame: SessionRequest, at: Moment, out: &mut Effects) {
        self.heard = at;
        let Some(frame) = frame.frame else {
            self.ignored += 1;
            return;
        };
        if self.ended {
            // An older session may still bring results: they are judged by fence and executor,
            // not by session.
            if let Up::Result(result) = frame {
                self.on_result(result, at, out);
            }
            return;
        }
        if self.suspect {
            self.suspect = false;
            out.capacity = true;
        }
        match frame {
            Up::Hello(_) => {
                out.end = Some(End::Protocol("Hello may be sent once per session".to_owned()));
            }
            Up::Heartbeat(heartbeat) => self.on_heartbeat(heartbeat, at, out),
            Up::RunAck(ack) => self.on_run_ack(ack, at, out),
            Up::KillAck(ack) => self.on_kill_ack(ack, out),
            Up::Progress(progress) => self.on_progress(progress, at, out),
            Up::LogChunk(chunk) => self.on_logs(chunk, at, out),
            Up::Result(result) => self.on_result(result, at, out),
            Up::Capacity(capacity) => self.on_capacity(&capacity, out),
            Up::Drain(_) => self.executor_drains = true,
            Up::Goodbye(_) => out.end = Some(End::Goodbye),
        }
    }

    /// The named attempt if it is in the table under just this fence; else the frame is stale.
    fn current(&mut self, wire: Option<&clawjob_proto::v1::AttemptRef>) -> Option<AttemptRef> {
        let Some(attempt) = wire::attempt_ref(wire) else {
            self.ignored += 1;
            return None;
        };
        let held = self.held.get(&(attempt.run, attempt.attempt))?;
        (held.fence == attempt.fence).then_some(attempt)
    }

    /// The executor has the attempt: says so once.
    pub(super) fn implied_ack(&mut self, key: Key, at: Moment, out: &mut Effects) {
        let Some(held) = self.held.get_mut(&key) else { return };
        if matches!(held.stage, Stage::Sent { .. } | Stage::Carried) {
            held.stage = Stage::Acked { at: Some(at.wall) };
            let attempt = reference(key, held);
            out.events.push(self.event(attempt, EventKind::Acked { at: at.wall }));
        }
    }

    fn on_run_ack(&mut self, ack: RunAck, at: Moment, out: &mut Effects) {
        let Some(attempt) = self.current(ack.r#ref.as_ref()) else { return };
        let key = (attempt.run, attempt.attempt);
        let why = match run_ack::Status::try_from(ack.status) {
            Ok(run_ack::Status::Accepted | run_ack::Status::Duplicate) => {
                return self.implied_ack(key, at, out);
            }
            Ok(run_ack::Status::Busy) => {
                let retry_after = wire::duration(ack.retry_after.as_ref());
                let pause = retry_after.unwrap_or(REFUSAL_PAUSE);
                let pause = pause.clamp(BUSY_PAUSE_MIN, REFUSAL_PAUSE);
                self.busy_until = Some(at.elapsed + pause);
                self.check_by(at.elapsed + pause);
                Decline::Busy { retry_after }
            }
            Ok(run_ack::Status::Draining) => {
                self.executor_drains = true;
                Decline::Draining
            }
            _ => Decline::Rejected(self.rejection(ack.failure)),
        };
        // An attempt that was acknowledged before can't be declined any more.
        let Some(held) = self.held.get(&key) else { return };
        if matches!(held.stage, Stage::Acked { .. } | Stage::Finished) {
            self.ignored += 1;
            return;
        }
        let handler = self.release(key).and_then(|held| held.handler);
        if let Decline::Rejected(failure) = &why
            && failure.code == CODE_UNKNOWN_HANDLER
        {
            self.refuse(handler.as_ref(), at);
        }
        self.kills.remove(&key);
        out.capacity = true;
        out.events.push(self.event(attempt, EventKind::Declined { handler, why }));
    }

    fn rejection(&self, failure: Option<clawjob_proto::v1::Failure>) -> Failure {
        let mut failure =
            failure.map(|failure| wire::failure(failure, &self.settings)).unwrap_or_default();
        if failure.code.is_empty() {
            failure.code = "REJECTED".to_owned();
        }
        failure
    }

    /// Passes the session over for the handler for a while.
    fn refuse(&mut self, handler: Option<&Arc<str>>, at: Moment) {
        let until = at.elapsed + REFUSAL_PAUSE;
        if let Some(state) = handler.and_then(|name| self.handlers.get_mut(name)) {
            state.refused_until = Some(until);
            self.check_by(until);
        }
    }

    fn on_kill_ack(&mut self, ack: KillAck, out: &mut Effects) {
        let Some(attempt) = wire::attempt_ref(ack.r#ref.as_ref()) else {
            self.ignored += 1;
            return;
        };
        let key = (attempt.run, attempt.attempt);
        let Some(kill) = self.kills.get_mut(&key) else { return };
        kill.answered = true;
        let stale = kill.stale;
        match kill_ack::Status::try_from(ack.status) {
            Ok(kill_ack::Status::NotFound) => {
                self.kills.remove(&key);
                let finished =
                    self.held.get(&key).is_some_and(|h| matches!(h.stage, Stage::Finished));
                if !finished {
                    let fence = self.release(key).map_or(attempt.fence, |held| held.fence);
                    out.capacity = true;
                    if !stale {
                        let attempt = AttemptRef { fence, ..attempt };
                        out.events.push(self.event(attempt, EventKind::KillNotFound));
                    }
                }
            }
            Ok(kill_ack::Status::Finished) => {
                self.kills.remove(&key);
            }
            _ => {}
        }
    }

    fn on_progress(&mut self, progress: Progress, at: Moment, out: &mut Effects) {
        let Some(attempt) = self.current(progress.r#ref.as_ref()) else { return };
        let key = (attempt.run, attempt.attempt);
        self.implied_ack(key, at, out);
        if !self.held.get(&key).is_some_and(|held| matches!(held.stage, Stage::Acked { .. })) {
            return;
        }
        let (fraction, message, checkpoint) = wire::progress(progress, &self.settings);
        let kind = EventKind::Progress { fraction, message, checkpoint };
        out.events.push(self.event(attempt, kind));
    }

    /// Stores what comes before the result and within the bound; acknowledges the rest, so that
    /// the executor's window does not close over records nobody wants.
    fn on_logs(&mut self, chunk: LogChunk, at: Moment, out: &mut Effects) {
        let Some(attempt) = wire::attempt_ref(chunk.r#ref.as_ref()) else {
            self.ignored += 1;
            return;
        };
        if chunk.first_seq > LOG_SEQ_MAX {
            let text = format!(
                "log_chunk.first_seq is {}; number the records of each dispatch from 1, without \
                 gaps, up to {LOG_SEQ_MAX}",
                chunk.first_seq
            );
            out.end = Some(End::Protocol(text));
            return;
        }
        let key = (attempt.run, attempt.attempt);
        self.implied_ack(key, at, out);
        let count = chunk.records.len() as u64;
        let through = (chunk.first_seq + count).saturating_sub(1);
        let wanted = (count > 0 || chunk.dropped > 0)
            && self.held.get(&key).is_some_and(|held| {
                matches!(held.stage, Stage::Acked { .. }) && held.fence == attempt.fence
            });
        if !wanted {
            return self.ack_logs(attempt, through, out);
        }
        let mut dropped = chunk.dropped;
        let mut records = wire::log_records(chunk.first_seq, chunk.records, at.wall);
        let bytes: u64 = records.iter().map(log_bytes).sum();
        if let Some(held) = self.held.get_mut(&key) {
            if held.log_bytes >= ATTEMPT_LOG_BYTES_MAX && count > 0 {
                dropped = dropped.saturating_add(count - 1);
                records = vec![over_the_limit(through, count, at)];
            } else {
                held.log_bytes += bytes;
            }
        }
        out.events.push(self.event(attempt, EventKind::Logs { records, dropped }));
    }

    fn on_result(&mut self, result: RunResult, at: Moment, out: &mut Effects) {
        let Some(attempt) = wire::attempt_ref(result.r#ref.as_ref()) else {
            self.ignored += 1;
            return;
        };
        let key = (attempt.run, attempt.attempt);
        let (mut acked_at, mut sent_at) = (None, None);
        if let Some(held) = self.held.get(&key)
            && held.fence <= attempt.fence
        {
            sent_at = held.sent_at;
            acked_at = match &held.stage {
                Stage::Acked { at } => *at,
                _ => Some(at.wall),
            };
            self.finish(key);
            out.capacity = true;
        }
        self.kills.remove(&key);
        if let (Some(started), Some(sent_at)) =
            (wire::timestamp(result.start_time.as_ref()), sent_at)
        {
            self.clock_after(started, sent_at, out);
        }
        if let Some(finished) = wire::timestamp(result.finish_time.as_ref()) {
            self.clock_before(finished, at.wall, out);
        }
        let result = Box::new(wire::result(result, &self.settings));
        let kind = EventKind::Finished { acked_at, received_at: at.wall, result };
        out.events.push(self.event(attempt, kind));
    }

    fn on_capacity(&mut self, capacity: &Capacity, out: &mut Effects) {
        let has = self.held.values().filter(|held| matches!(held.stage, Stage::Acked { .. }));
        let has = u32::try_from(has.count()).unwrap_or(u32::MAX);
        self.report_free(capacity.free_slots, has);
        for (name, state) in &mut self.handlers {
            state.paused = capacity.paused_handlers.iter().any(|paused| **paused == **name);
        }
        out.capacity = true;
    }

    /// The executor has `has` runs and `free` slots left; what remains is busy otherwise.
    pub(super) fn report_free(&mut self, free: u32, has: u32) {
        self.blocked = self.slots.saturating_sub(free).saturating_sub(has);
        self.busy_until = None;
    }
}

fn log_bytes(record: &LogRecord) -> u64 {
    let fields: usize = record.fields.iter().map(|(key, value)| key.len() + value.len()).sum();
    (record.message.len() + fields) as u64 + LOG_RECORD_BYTES
}

fn over_the_limit(seq: u64, count: u64, at: Moment) -> LogRecord {
    LogRecord {
        seq,
        time: at.wall,
        level: LogLevel::Warn,
        message: format!(
            "{} left out: the attempt's log is over its limit",
            words::count(count, "record")
        ),
        fields: std::collections::BTreeMap::new(),
    }
}
