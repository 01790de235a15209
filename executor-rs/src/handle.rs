//! A running executor as seen from outside: is it connected, should it stop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::time;

/// How long without a session makes an executor unhealthy.
const RED_AFTER: Duration = Duration::from_secs(60);

/// How far the end has been asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    /// Not at all.
    #[default]
    No,
    /// Take nothing new, let handlers finish.
    Drain,
    /// Tell handlers to stop now.
    Now,
    /// Whoever waited for the end is gone: drop everything.
    Abort,
}

/// What the outside wants of the session's thread; only the newest counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    pub(crate) stop: Stop,
    pub(crate) paused: BTreeSet<String>,
}

/// How the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// A session is open.
    pub connected: bool,
    /// For how long it has been as it is.
    pub since: Duration,
}

impl Health {
    /// False after 60 s without a session: what a liveness page should say.
    pub fn is_ok(&self) -> bool {
        self.connected || self.since < RED_AFTER
    }
}

#[derive(Debug)]
pub(crate) struct HealthState {
    inner: Mutex<(bool, Instant)>,
}

impl HealthState {
    fn new() -> Self {
        Self { inner: Mutex::new((false, time::now().mono)) }
    }

    pub(crate) fn set(&self, connected: bool, now: Instant) {
        let mut inner = self.inner.lock();
        if inner.0 != connected {
            *inner = (connected, now);
        }
    }
}

/// Watches and ends an executor from outside; cheap to clone. Got from
/// [`crate::Executor::handle`].
#[derive(Debug, Clone)]
pub struct Handle {
    wish: Arc<watch::Sender<Wish>>,
    health: Arc<HealthState>,
}

impl Handle {
    pub(crate) fn new() -> Self {
        Self { wish: Arc::new(watch::Sender::default()), health: Arc::new(HealthState::new()) }
    }

    /// Takes no new runs, lets running handlers finish within the shutdown grace, then ends.
    pub fn drain(&self) {
        self.ask(Stop::Drain);
    }

    /// Tells running handlers to stop at once, then ends.
    pub fn cancel_now(&self) {
        self.ask(Stop::Now);
    }

    /// As SIGTERM: drains at the first call, cancels at the second.
    pub(crate) fn next_stop(&self) {
        self.wish.send_modify(|wish| {
            wish.stop = if wish.stop == Stop::No { Stop::Drain } else { wish.stop.max(Stop::Now) };
        });
    }

    /// Takes no runs of a handler until [`Handle::resume`]; running ones go on.
    pub fn pause(&self, handler: impl Into<String>) {
        let handler = handler.into();
        self.wish.send_modify(|wish| {
            wish.paused.insert(handler);
        });
    }

    /// Takes runs of a paused handler again.
    pub fn resume(&self, handler: &str) {
        self.wish.send_modify(|wish| {
            wish.paused.remove(handler);
        });
    }

    /// How the connection is.
    pub fn health(&self) -> Health {
        let (connected, since) = *self.health.inner.lock();
        Health { connected, since: time::now().mono.saturating_duration_since(since) }
    }

    pub(crate) fn ask(&self, stop: Stop) {
        self.wish.send_modify(|wish| wish.stop = wish.stop.max(stop));
    }

    pub(crate) fn wishes(&self) -> watch::Receiver<Wish> {
        self.wish.subscribe()
    }

    pub(crate) fn health_state(&self) -> Arc<HealthState> {
        self.health.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_turns_red_after_a_minute_without_a_session() {
        let health = |connected, secs| Health { connected, since: Duration::from_secs(secs) };
        assert!(health(false, 59).is_ok());
        assert!(!health(false, 60).is_ok());
        assert!(health(true, 3600).is_ok());
    }
}
