//! How far an executor's clock is from this node's. No frame is made to tell that; what is used are
//! instants that the executor writes down between two that this node knows.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Effects, Session};

/// A difference from which on an operator is told.
const CLOCK_OFFSET_WARN: TimeDelta = TimeDelta::seconds(2);
/// The part of its way to a new reading that an old bound goes, since clocks drift.
const FADING: i32 = 16;

/// Bounds of the executor's clock − this node's. The way of a frame, and the time for which a result
/// was kept, only ever make them wider, so of two readings the narrower is nearer to the truth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClockReadings {
    least: Option<TimeDelta>,
    most: Option<TimeDelta>,
}

impl ClockReadings {
    /// The executor wrote `theirs` and this node read it at `ours`, later.
    fn before(&mut self, theirs: DateTime<Utc>, ours: DateTime<Utc>) {
        let reading = theirs - ours;
        self.least = Some(reading.max(faded(self.least, reading)));
    }

    /// The executor wrote `theirs` after it had got what this node sent at `ours`.
    fn after(&mut self, theirs: DateTime<Utc>, ours: DateTime<Utc>) {
        let reading = theirs - ours;
        self.most = Some(reading.min(faded(self.most, reading)));
    }

    /// The smallest difference that the bounds allow: none is shown that is not certain.
    fn offset(&self) -> Option<TimeDelta> {
        let none = TimeDelta::zero();
        match (self.least, self.most) {
            (Some(least), Some(most)) if least > most => Some(most + (least - most) / 2),
            (Some(least), Some(most)) => Some(none.clamp(least, most)),
            (Some(least), None) => Some(none.max(least)),
            (None, Some(most)) => Some(none.min(most)),
            (None, None) => None,
        }
    }
}

fn faded(known: Option<TimeDelta>, reading: TimeDelta) -> TimeDelta {
    known.map_or(reading, |known| known + (reading - known) / FADING)
}

impl Session {
    /// An instant by the executor's clock that lies before this node's `ours`.
    pub(super) fn clock_before(
        &mut self,
        theirs: DateTime<Utc>,
        ours: DateTime<Utc>,
        out: &mut Effects,
    ) {
        self.clock.before(theirs, ours);
        self.note_offset(out);
    }

    /// An instant by the executor's clock that lies after this node's `ours`.
    pub(super) fn clock_after(
        &mut self,
        theirs: DateTime<Utc>,
        ours: DateTime<Utc>,
        out: &mut Effects,
    ) {
        self.clock.after(theirs, ours);
        self.note_offset(out);
    }

    fn note_offset(&mut self, out: &mut Effects) {
        let Some(offset) = self.clock.offset() else { return };
        if offset.abs() > CLOCK_OFFSET_WARN && !self.clock_told {
            self.clock_told = true;
            out.clock_off = Some(offset);
        }
        self.vitals.clock_offset = Some(offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_800_000_000_000 + ms).expect("in range")
    }

    #[test]
    fn f11_the_offset_lies_between_what_was_sent_and_what_came_back() {
        let mut clock = ClockReadings::default();
        assert_eq!(clock.offset(), None);
        // The executor is 5 s ahead; the ways take 40 ms and 200 ms, the run 1 s.
        clock.after(at(5_040), at(0));
        assert_eq!(clock.offset(), Some(TimeDelta::zero()), "it may have got it late");
        clock.before(at(6_040), at(1_240));
        assert_eq!(clock.offset(), Some(TimeDelta::milliseconds(4_800)));
        // A slower way tells nothing new.
        clock.before(at(7_000), at(4_000));
        let offset = clock.offset().expect("known").num_milliseconds();
        assert!((4_600..=4_800).contains(&offset), "{offset}");
    }

    #[test]
    fn f11_a_clock_that_is_behind_is_known_by_what_was_sent_to_it() {
        let mut clock = ClockReadings::default();
        clock.before(at(-10_000), at(0));
        assert_eq!(clock.offset(), Some(TimeDelta::zero()), "its result may have been kept");
        clock.after(at(-6_960), at(0));
        assert_eq!(clock.offset(), Some(TimeDelta::milliseconds(-6_960)));
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let mut clock = ClockReadings::default();
        clock.before(at(60_000), at(0));
        assert_eq!(clock.offset(), Some(TimeDelta::seconds(60)));
        for n in 1..100 {
            clock.before(at(n * 1_000), at(n * 1_000));
        }
        assert!(clock.offset().expect("known") < TimeDelta::seconds(1));
    }
}
