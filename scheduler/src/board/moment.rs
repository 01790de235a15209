//! Instants as small as they can be kept.

use chrono::{DateTime, Utc};

/// An instant in microseconds since 1970, as exact as the stores are, or none: two thirds of what a
/// [`DateTime`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(i64);

impl Moment {
    /// None, which is before all others.
    pub(super) const NONE: Self = Self(i64::MIN);

    /// The instant, if it is one.
    pub(super) fn get(self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_micros(self.0)
    }

    /// The instant, which is known to be one.
    pub(super) fn at(self) -> DateTime<Utc> {
        self.get().unwrap_or(DateTime::<Utc>::MIN_UTC)
    }

    /// How many whole spans of so many microseconds have passed since 1970.
    pub(super) fn spans(self, micros: i64) -> i64 {
        self.0.div_euclid(micros)
    }
}

impl From<DateTime<Utc>> for Moment {
    fn from(at: DateTime<Utc>) -> Self {
        Self(at.timestamp_micros())
    }
}

impl From<Option<DateTime<Utc>>> for Moment {
    fn from(at: Option<DateTime<Utc>>) -> Self {
        at.map_or(Self::NONE, Self::from)
    }
}
