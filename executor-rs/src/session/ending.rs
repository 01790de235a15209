//! How the executor comes to its end: drain, stop, last words.

use std::time::{Duration, Instant};

use clawjob_proto::v1::{self, session_request::Frame};

use super::driver::Driver;
use crate::ctx::StopReason;
use crate::error::Error;
use crate::handle::Stop;
use crate::time::{self, Now};

/// How long handlers have to stop once the executor ends; then they are abandoned.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// How long the end waits for the acknowledgements of the last results.
const LAST_ACKS_MAX: Duration = Duration::from_secs(2);
/// How long the end waits for the scheduler to end the stream after the Goodbye.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// How far the end has come.
#[derive(Debug)]
pub(super) enum Phase {
    /// No end in sight.
    Serving,
    /// Nothing new is taken; handlers may finish until then.
    Draining(Instant),
    /// Handlers were told to stop; they are abandoned a little before then.
    Stopping(Instant),
    /// The last results wait for their acks until then.
    LastAcks(Instant),
    /// Goodbye was said; the streams end by then.
    Leaving(Instant),
    /// The scheduler refuses this executor: handlers were told to stop, with this error to come.
    Failed(Instant, Option<Error>),
}

impl Phase {
    pub(super) fn next_wake(&self) -> Option<Instant> {
        match self {
            Self::Serving => None,
            Self::Draining(at)
            | Self::Stopping(at)
            | Self::LastAcks(at)
            | Self::Leaving(at)
            | Self::Failed(at, _) => Some(*at),
        }
    }

    /// True while a lost session is worth another dial.
    pub(super) fn dials(&self) -> bool {
        !matches!(self, Self::Leaving(_) | Self::Failed(..))
    }
}

impl Driver {
    /// Moves towards the end as far as `now` allows; the end itself is returned.
    pub(super) fn step_phase(&mut self, now: Now) -> Option<Result<(), Error>> {
        let stop = self.wish.borrow().stop;
        if stop == Stop::Abort {
            self.engine.stop_all(now, StopReason::Shutdown, Duration::ZERO);
            self.engine.tick(now);
            self.act(now);
            return Some(Ok(()));
        }
        if matches!(self.phase, Phase::Serving) && stop == Stop::No {
            return None;
        }
        let (idle, empty) = (self.engine.is_idle(), self.engine.is_empty());
        match &mut self.phase {
            Phase::Serving => {
                tracing::info!("draining: no new runs are taken");
                self.phase = Phase::Draining(now.mono + self.settings.shutdown_grace);
                self.engine.drain();
                self.announce_drain(now);
                return self.step_phase(now);
            }
            Phase::Draining(_) if empty => self.leave(now),
            Phase::Draining(until) if stop >= Stop::Now || now.mono >= *until => {
                self.engine.stop_all(now, StopReason::Shutdown, STOP_GRACE);
                self.act(now);
                self.phase = Phase::Stopping(now.mono + STOP_GRACE);
            }
            Phase::Stopping(until) if idle || now.mono >= *until => {
                self.phase = Phase::LastAcks(now.mono + LAST_ACKS_MAX);
                return self.step_phase(now);
            }
            Phase::LastAcks(until) if empty || now.mono >= *until => self.leave(now),
            Phase::Leaving(until) => {
                let left = self.current.is_none() && self.former.is_none();
                return (left || now.mono >= *until).then_some(Ok(()));
            }
            Phase::Failed(until, error) if idle || now.mono >= *until => {
                return error.take().map(Err);
            }
            _ => {}
        }
        None
    }

    /// Tells the scheduler of the drain, also on a session that begins during it.
    pub(super) fn announce_drain(&mut self, now: Now) {
        if let Phase::Draining(until) = self.phase {
            let expected = until.saturating_duration_since(now.mono);
            let drain = v1::ExecutorDrain { expected: Some(time::duration(expected)) };
            self.send(now, Frame::Drain(drain));
        }
    }

    fn leave(&mut self, now: Now) {
        self.redial.stop();
        for link in [&self.current, &self.former].into_iter().flatten() {
            link.leave("shutdown");
        }
        let wait = if self.current.is_some() { GOODBYE_MAX } else { Duration::ZERO };
        self.phase = Phase::Leaving(now.mono + wait);
    }

    /// The scheduler refuses this executor for good: handlers stop, and the error comes out.
    pub(super) fn fail(&mut self, now: Now, error: Error) {
        tracing::error!(%error, "giving up");
        self.redial.stop();
        self.engine.drain();
        self.engine.stop_all(now, StopReason::Shutdown, STOP_GRACE);
        self.act(now);
        self.phase = Phase::Failed(now.mono + STOP_GRACE, Some(error));
    }
}
