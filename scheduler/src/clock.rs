//! The only reader of machine time.
//!
//! Loops take `now` as a parameter and wait on [`Clock::wait_until`], so that a test can drive a
//! whole day by hand with a [`ManualClock`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::watch;

/// Longest single sleep: a wall clock that is set forward is noticed within this time.
const WAIT_SLICE_MAX: Duration = Duration::from_millis(500);

/// Where `now` comes from.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Wall time in whole microseconds. It may step, as wall clocks do: whoever needs a duration
    /// takes [`Clock::elapsed`]; fire times are kept from doubling by what was planned, not by it.
    fn now(&self) -> DateTime<Utc>;

    /// Monotonic time since the clock was made.
    fn elapsed(&self) -> Duration;

    /// Returns once `now() >= at`.
    async fn wait_until(&self, at: DateTime<Utc>);

    /// Returns after `duration` of monotonic time.
    async fn wait(&self, duration: Duration);

    /// Sets the known offset of the machine's clock against the database's (database − machine);
    /// `now` is corrected by it from then on.
    fn correct(&self, offset: TimeDelta);
}

/// Machine time, corrected by the offset to the database's clock.
pub struct SystemClock {
    started: Instant,
    offset_us: AtomicI64,
}

impl SystemClock {
    /// Machine time without a correction.
    #[allow(clippy::disallowed_methods, reason = "this is the one reader of machine time")]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), offset_us: AtomicI64::new(0) })
    }
}

#[async_trait]
#[allow(clippy::disallowed_methods, reason = "this is the one reader of machine time")]
impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        let us = Utc::now().timestamp_micros() + self.offset_us.load(Ordering::Relaxed);
        DateTime::from_timestamp_micros(us).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    async fn wait_until(&self, at: DateTime<Utc>) {
        while let Ok(left) = (at - self.now()).to_std()
            && !left.is_zero()
        {
            tokio::time::sleep(left.min(WAIT_SLICE_MAX)).await;
        }
    }

    async fn wait(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn correct(&self, offset: TimeDelta) {
        let us = offset.num_microseconds().unwrap_or(0);
        self.offset_us.store(us, Ordering::Relaxed);
    }
}

/// Time that stands still until a test moves it.
pub struct ManualClock {
    now: watch::Sender<(DateTime<Utc>, Duration)>,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn new(now: DateTime<Utc>) -> Arc<Self> {
        Arc::new(Self { now: watch::Sender::new((now, Duration::ZERO)) })
    }

    /// Moves wall and monotonic time forward.
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|(wall, elapsed)| {
            *wall += by;
            *elapsed += by;
        });
    }

    /// Sets the wall clock alone, as an operator or NTP would.
    pub fn step_to(&self, wall: DateTime<Utc>) {
        self.now.send_modify(|(now, _)| *now = wall);
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        self.now.borrow().0
    }

    fn elapsed(&self) -> Duration {
        self.now.borrow().1
    }

    async fn wait_until(&self, at: DateTime<Utc>) {
        let mut seen = self.now.subscribe();
        // The sender lives in self, so waiting can't fail.
        let _ = seen.wait_for(|(now, _)| *now >= at).await;
    }

    async fn wait(&self, duration: Duration) {
        let end = self.elapsed() + duration;
        let mut seen = self.now.subscribe();
        let _ = seen.wait_for(|(_, elapsed)| *elapsed >= end).await;
    }

    fn correct(&self, _offset: TimeDelta) {}
}
