//! Moves what handlers have to say into the outbox: progress, log chunks, results. Within an
//! attempt that is their order; a result waits for its log, but not for long.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use clawjob_proto::v1::{self, session_request::Frame};

use super::driver::Live;
use super::outbox::Outbox;
use crate::engine::{Engine, Key};
use crate::logs::Shipper;
use crate::progress::Due;
use crate::time::Now;

/// How long a talkative handler's records are gathered into a chunk.
const GATHER: Duration = Duration::from_millis(100);
/// How long a result waits for its log to fit into the window; then the rest is dropped and
/// counted.
const LOG_FLUSH_MAX: Duration = Duration::from_millis(500);
/// A result without an answer for this long is sent again on the same session.
const RESULT_RESEND_AFTER: Duration = Duration::from_secs(30);

/// What waits to be sent, and since when.
#[derive(Debug, Default)]
pub(super) struct Pump {
    pub(super) shipper: Shipper,
    /// Attempts with progress or log records to send.
    talkative: BTreeSet<Key>,
    /// Finished attempts whose result is to be sent, and since when.
    ready: BTreeMap<Key, Instant>,
    /// Results sent, and when; acknowledged ones are passed over when their time comes.
    sent: VecDeque<(Instant, Key)>,
    wake: Option<Instant>,
    /// The outbox had no space; the next frame that leaves it makes some.
    blocked: bool,
}

impl Pump {
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.wake
    }

    /// A handler has logged or told its progress.
    pub(super) fn talkative(&mut self, key: Key, now: Instant) {
        self.talkative.insert(key);
        self.wake_at(now + GATHER);
    }

    /// Something can be sent now rather than with the next batch.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.wake_at(now);
    }

    /// A result can be sent.
    pub(super) fn result_ready(&mut self, key: Key, now: Instant) {
        self.ready.entry(key).or_insert(now);
        self.wake_at(now);
    }

    /// A session has begun that has heard nothing yet. The table names the results anew.
    pub(super) fn on_session(
        &mut self,
        now: Instant,
        welcome: &v1::Welcome,
        live: &HashMap<Key, Live>,
    ) {
        self.shipper.on_session(welcome.log_window_bytes, welcome.max_log_chunk_bytes);
        self.ready.clear();
        self.sent.clear();
        self.talkative = live.keys().cloned().collect();
        for live in live.values() {
            live.shared.progress.tell_again();
        }
        self.wake_at(now);
    }

    /// Fills the outbox with what is due.
    pub(super) fn run(
        &mut self,
        now: Now,
        outbox: &Outbox,
        engine: &Engine,
        live: &HashMap<Key, Live>,
    ) {
        let due = self.wake.is_some_and(|at| at <= now.mono);
        if !due && self.ready.is_empty() && !self.blocked {
            return;
        }
        self.blocked = false;
        if due {
            self.wake = None;
            self.resend(now.mono, engine);
        }
        self.send_results(now, outbox, engine, live);
        for key in std::mem::take(&mut self.talkative) {
            if !outbox.has_space() {
                self.blocked = true;
                self.talkative.insert(key);
                continue;
            }
            let (Some(fence), Some(live)) = (engine.fence(&key), live.get(&key)) else { continue };
            if engine.result(&key).is_some() {
                continue;
            }
            self.send_progress(now.mono, outbox, &key, fence, live, false);
            self.send_logs(outbox, &key, fence);
            if !self.shipper.has_sent_records(&key) {
                self.talkative.insert(key);
            }
        }
    }

    /// Results that got no answer on this session for long.
    fn resend(&mut self, now: Instant, engine: &Engine) {
        while self.sent.front().is_some_and(|(sent, _)| *sent + RESULT_RESEND_AFTER <= now) {
            let Some((_, key)) = self.sent.pop_front() else { break };
            if engine.result(&key).is_some() {
                self.ready.insert(key, now);
            }
        }
        if let Some((sent, _)) = self.sent.front() {
            self.wake_at(*sent + RESULT_RESEND_AFTER);
        }
    }

    fn send_results(
        &mut self,
        now: Now,
        outbox: &Outbox,
        engine: &Engine,
        live: &HashMap<Key, Live>,
    ) {
        for (key, since) in std::mem::take(&mut self.ready) {
            if !outbox.has_space() {
                self.blocked = true;
                self.ready.insert(key, since);
                continue;
            }
            let Some(result) = engine.result(&key) else { continue };
            let fence = result.r#ref.as_ref().map_or(0, |attempt| attempt.fence);
            if let Some(live) = live.get(&key) {
                self.send_progress(now.mono, outbox, &key, fence, live, true);
            }
            self.send_logs(outbox, &key, fence);
            if !self.shipper.is_sent(&key) {
                let waits = !self.shipper.has_sent_records(&key);
                if waits && now.mono < since + LOG_FLUSH_MAX {
                    self.wake_at(since + LOG_FLUSH_MAX);
                    self.ready.insert(key, since);
                    continue;
                }
                if let Some(rest) = self.shipper.give_up(&key, fence) {
                    outbox.data(Frame::LogChunk(rest));
                }
            }
            let last_log_seq = self.shipper.last_seq(&key);
            outbox.data(Frame::Result(v1::RunResult { last_log_seq, ..result }));
            self.sent.push_back((now.mono, key));
            self.wake_at(now.mono + RESULT_RESEND_AFTER);
        }
    }

    fn send_progress(
        &mut self,
        now: Instant,
        outbox: &Outbox,
        key: &Key,
        fence: u64,
        live: &Live,
        last: bool,
    ) {
        match live.shared.progress.take(now, last) {
            Due::Nothing => {}
            Due::At(at) => {
                self.talkative.insert(key.clone());
                self.wake_at(at);
            }
            Due::Now(progress) => {
                let progress = v1::Progress { r#ref: Some(key.to_ref(fence)), ..progress };
                // A full lane ends the session at the next heartbeat, and the next one is told.
                outbox.control(Frame::Progress(progress));
            }
        }
    }

    fn send_logs(&mut self, outbox: &Outbox, key: &Key, fence: u64) {
        while outbox.has_space() {
            let Some(chunk) = self.shipper.next_chunk(key, fence) else { return };
            outbox.data(Frame::LogChunk(chunk));
        }
    }

    fn wake_at(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |earlier| earlier.min(at)));
    }
}
