//! The newest progress and checkpoint of one attempt, until the session's thread sends them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use clawjob_proto::v1;
use parking_lot::Mutex;

use crate::failure::cut_middle;

/// Shortest time between two Progress frames of one attempt.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Longest progress message, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Largest checkpoint, in bytes.
pub(crate) const CHECKPOINT_BYTES_MAX: usize = 64 * 1024;

/// What there is to tell; only the newest of each counts.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    fraction: Option<f32>,
    message: String,
    checkpoint: Option<v1::Payload>,
    dirty: bool,
    sent: Option<Instant>,
}

impl Progress {
    /// Notes how far the run is; the fraction is brought into 0..=1.
    pub(crate) fn set(&self, fraction: Option<f32>, message: &str) {
        let mut inner = self.inner.lock();
        inner.fraction = fraction.filter(|f| f.is_finite()).map(|f| f.clamp(0.0, 1.0));
        inner.message = cut_middle(message.to_owned(), MESSAGE_BYTES_MAX);
        inner.dirty = true;
    }

    /// Notes a checkpoint, already in JSON and within its bound.
    pub(crate) fn save(&self, checkpoint: Bytes) {
        let mut inner = self.inner.lock();
        inner.checkpoint =
            Some(v1::Payload { content_type: crate::handler::JSON.to_owned(), data: checkpoint });
        inner.dirty = true;
    }

    /// The last checkpoint saved by this attempt.
    pub(crate) fn saved(&self) -> Option<Bytes> {
        self.inner.lock().checkpoint.as_ref().map(|payload| payload.data.clone())
    }

    /// A new session has heard nothing yet: what was told before is told again.
    pub(crate) fn tell_again(&self) {
        let mut inner = self.inner.lock();
        inner.sent = None;
        inner.dirty = inner.dirty
            || inner.fraction.is_some()
            || inner.checkpoint.is_some()
            || !inner.message.is_empty();
    }

    /// The frame that is due at `now`, or when to ask again. `last` is the last chance before the
    /// result, so it does not wait for its second.
    pub(crate) fn take(&self, now: Instant, last: bool) -> Due {
        let mut inner = self.inner.lock();
        if !inner.dirty {
            return Due::Nothing;
        }
        match inner.sent.map(|sent| sent + PROGRESS_EVERY) {
            Some(next) if next > now && !last => return Due::At(next),
            _ => {}
        }
        inner.dirty = false;
        inner.sent = Some(now);
        Due::Now(v1::Progress {
            r#ref: None,
            fraction: inner.fraction,
            message: inner.message.clone(),
            checkpoint: inner.checkpoint.clone(),
        })
    }
}

/// What to do about an attempt's progress.
#[derive(Debug, PartialEq)]
pub(crate) enum Due {
    /// Nothing new.
    Nothing,
    /// Ask again then.
    At(Instant),
    /// Send this; the reference is the caller's to fill in.
    Now(v1::Progress),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_is_told_and_once_a_second() {
        let progress = Progress::default();
        let start = crate::time::now().mono;
        assert_eq!(progress.take(start, false), Due::Nothing);
        progress.set(Some(0.1), "one");
        assert!(matches!(progress.take(start, false), Due::Now(p) if p.message == "one"));
        progress.set(Some(0.2), "two");
        progress.set(Some(7.0), "three");
        let next = start + PROGRESS_EVERY;
        assert_eq!(progress.take(start, false), Due::At(next));
        assert!(matches!(
            progress.take(next, false),
            Due::Now(p) if p.message == "three" && p.fraction == Some(1.0)
        ));
        progress.set(None, "last");
        assert!(matches!(progress.take(next, true), Due::Now(_)));
        progress.tell_again();
        assert!(matches!(progress.take(next, false), Due::Now(p) if p.message == "last"));
    }
}
