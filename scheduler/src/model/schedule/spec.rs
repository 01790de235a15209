//! The normal form of a cron expression, whatever its dialect.

use super::Dialect;
use super::days::DayFilter;

/// First year a year field may name.
pub(super) const YEAR_MIN: u32 = 1970;
/// Last year a year field may name; fire times end with 2100 all the same.
pub(super) const YEAR_MAX: u32 = 2199;

/// A set of years from [`YEAR_MIN`] to [`YEAR_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Years([u64; 4]);

impl Years {
    pub(super) const NONE: Years = Years([0; 4]);
    pub(super) const ALL: Years = Years([u64::MAX; 4]);

    pub(super) fn insert(&mut self, year: u32) {
        if let Some(index) = year.checked_sub(YEAR_MIN)
            && let Some(word) = self.0.get_mut(index as usize / 64)
        {
            *word |= 1 << (index % 64);
        }
    }

    pub(super) fn contains(&self, year: i32) -> bool {
        u32::try_from(year).ok().and_then(|year| year.checked_sub(YEAR_MIN)).is_some_and(|index| {
            self.0.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
        })
    }
}

/// What a cron expression means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spec {
    /// The dialect it was read in.
    pub(super) dialect: Dialect,
    /// Whether the dialect had to be guessed and another one would read it differently.
    pub(super) ambiguous: bool,
    /// Bits 0–59.
    pub(super) seconds: u64,
    /// Bits 0–59.
    pub(super) minutes: u64,
    /// Bits 0–23.
    pub(super) hours: u64,
    /// Bits 1–12.
    pub(super) months: u64,
    pub(super) years: Years,
    pub(super) days: DayFilter,
    /// A `*` or a `/` stands in the second, minute or hour field: at a clock change the schedule
    /// follows the wall clock. Else it is fixed-time: missing runs are made up, repeated ones not.
    pub(super) follows_clock: bool,
}

/// What a cron text asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed {
    /// Times of the wall clock.
    Spec(Box<Spec>),
    /// `@every`: elapsed time, in whole seconds.
    Every { seconds: u64, dialect: Dialect },
}

/// The members of a bit set, lowest first.
pub(super) fn members(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| set >> bit & 1 == 1)
}
