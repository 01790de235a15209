//! One open session: its outbox, its heartbeats, its age.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawjob_proto::v1::{self, SessionResponse, session_request::Frame};
use rand::Rng;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tonic::Streaming;

use super::dial::Fault;
use super::outbox::Outbox;
use crate::time;

/// Heartbeat interval when the Welcome names none.
const HEARTBEAT_INTERVAL_DEFAULT: Duration = Duration::from_secs(5);
/// Shortest heartbeat interval taken from a Welcome.
const HEARTBEAT_INTERVAL_MIN: Duration = Duration::from_millis(50);
/// How long without a HeartbeatAck ends a session, when the Welcome names no time.
const HEARTBEAT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
/// The part of an interval that a heartbeat may come early or late.
const HEARTBEAT_JITTER: f64 = 0.1;
/// The part of a credential's life after which a session with a fresh one is opened.
const CREDENTIAL_LIFE_USED: f64 = 0.8;
/// Shortest life of a session that is renewed for its credential's sake.
const RENEW_AFTER_MIN: Duration = Duration::from_millis(500);

/// Heartbeats that are remembered until they are acknowledged. A scheduler whose database is away
/// acknowledges none; the oldest are forgotten then, as if no ack of them had come.
const UNACKED_MAX: usize = 1_024;

/// What comes from a session's reader.
pub(super) enum Inbound {
    /// A frame.
    Frame(Box<SessionResponse>),
    /// The end of the stream.
    End(Fault),
}

/// An open session.
pub(super) struct Link {
    pub(super) id: u64,
    pub(super) outbox: Arc<Outbox>,
    pub(super) opened: Instant,
    /// When to open the next session because the credential ends.
    pub(super) renew_at: Option<Instant>,
    reader: AbortHandle,
    interval: Duration,
    timeout: Duration,
    next_beat: Instant,
    seq: u64,
    /// Heartbeats without an ack, and when they were sent.
    unacked: VecDeque<(u64, Instant)>,
    heard: Instant,
}

impl Link {
    /// Starts reading from a session that a Welcome has opened.
    pub(super) fn new(
        id: u64,
        outbox: Arc<Outbox>,
        welcome: &v1::Welcome,
        inbound: Streaming<SessionResponse>,
        frames: mpsc::Sender<(u64, Inbound)>,
        now: Instant,
    ) -> Self {
        let positive = |span: Option<&prost_types::Duration>| {
            time::std_duration(span).filter(|span| !span.is_zero())
        };
        let interval = positive(welcome.heartbeat_interval.as_ref())
            .unwrap_or(HEARTBEAT_INTERVAL_DEFAULT)
            .max(HEARTBEAT_INTERVAL_MIN);
        let timeout = positive(welcome.heartbeat_timeout.as_ref())
            .unwrap_or(HEARTBEAT_TIMEOUT_DEFAULT)
            .max(interval.mul_f64(1.0 + HEARTBEAT_JITTER));
        Self {
            id,
            outbox,
            opened: now,
            renew_at: credential_life(welcome)
                .map(|life| now + life.mul_f64(CREDENTIAL_LIFE_USED).max(RENEW_AFTER_MIN)),
            reader: tokio::spawn(read(id, inbound, frames)).abort_handle(),
            interval,
            timeout,
            next_beat: now,
            seq: 0,
            unacked: VecDeque::new(),
            heard: now,
        }
    }

    /// The heartbeat that is due, without what the table adds to it.
    pub(super) fn beat(&mut self, now: Instant, rng: &mut impl Rng) -> Option<v1::Heartbeat> {
        if now < self.next_beat {
            return None;
        }
        let lag = if self.seq == 0 { Duration::ZERO } else { now - self.next_beat };
        let spread = rng.random_range(1.0 - HEARTBEAT_JITTER..=1.0 + HEARTBEAT_JITTER);
        self.next_beat = now + self.interval.mul_f64(spread);
        self.seq += 1;
        if self.unacked.len() >= UNACKED_MAX {
            self.unacked.pop_front();
        }
        self.unacked.push_back((self.seq, now));
        Some(v1::Heartbeat {
            seq: self.seq,
            lag: Some(time::duration(lag)),
            ..v1::Heartbeat::default()
        })
    }

    /// When the acknowledged heartbeat was sent.
    pub(super) fn on_ack(&mut self, now: Instant, seq: u64) -> Option<Instant> {
        let mut sent_at = None;
        while let Some((_, sent)) = self.unacked.front().filter(|(unacked, _)| *unacked <= seq) {
            sent_at = Some(*sent);
            self.unacked.pop_front();
        }
        self.heard = now;
        sent_at
    }

    /// True when the scheduler has not answered for too long.
    pub(super) fn is_dead(&self, now: Instant) -> bool {
        now >= self.dead_at()
    }

    /// When silence makes the session dead.
    pub(super) fn dead_at(&self) -> Instant {
        self.heard + self.timeout
    }

    /// When to look at this session next.
    pub(super) fn next_wake(&self) -> Instant {
        let at = self.next_beat.min(self.dead_at());
        self.renew_at.map_or(at, |renew| renew.min(at))
    }

    /// Says goodbye and ends the upward stream; the reader goes on until the peer ends too.
    pub(super) fn leave(&self, reason: &str) {
        let goodbye = v1::Goodbye { reason: reason.to_owned() };
        self.outbox.close(Some(Frame::Goodbye(goodbye)));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.outbox.close(None);
        self.reader.abort();
    }
}

async fn read(
    id: u64,
    mut inbound: Streaming<SessionResponse>,
    frames: mpsc::Sender<(u64, Inbound)>,
) {
    loop {
        let next = match inbound.message().await {
            Ok(Some(response)) => Inbound::Frame(Box::new(response)),
            Ok(None) => Inbound::End(Fault::transient("the scheduler ended the stream")),
            Err(status) => Inbound::End(Fault::of(&status)),
        };
        let last = matches!(next, Inbound::End(_));
        if frames.send((id, next)).await.is_err() || last {
            return;
        }
    }
}

/// How long the credential works, by the scheduler's clock alone.
fn credential_life(welcome: &v1::Welcome) -> Option<Duration> {
    let end = time::utc(welcome.auth_expire_time.as_ref())?;
    let start = time::utc(welcome.server_time.as_ref())?;
    (end - start).to_std().ok()
}
