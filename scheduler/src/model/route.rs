//! What a job's route remembers from one run to the next.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Executors whose uses are remembered per job; those used longest ago are forgotten first, and
/// then count as newcomers.
pub const ROUTE_USES_MAX: usize = 512;

/// How often, and when last, an executor got a run of the job. Stored as three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
pub struct Use {
    /// The executor's registration row.
    pub row: u64,
    /// Runs it got; a newcomer begins with the lowest count of the others.
    pub count: u64,
    /// Place of the newest of them among the job's runs: grows with every run.
    pub last: u64,
}

impl From<(u64, u64, u64)> for Use {
    fn from((row, count, last): (u64, u64, u64)) -> Self {
        Self { row, count, last }
    }
}

impl From<Use> for (u64, u64, u64) {
    fn from(used: Use) -> Self {
        (used.row, used.count, used.last)
    }
}

/// The executors that got runs of a job, in order of their rows.
pub type Uses = Arc<Vec<Use>>;

/// Where a job's route stands. Both outlive an owner: uses are written with each dispatch that moves
/// them, and the turn is told by the job's newest dispatch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteCursor {
    /// Row of the executor chosen last by round robin, 0 before the first; None: not read yet.
    pub turn: Option<u64>,
    /// None for the routes that don't count.
    pub uses: Option<Uses>,
}

impl RouteCursor {
    /// The uses of an executor, if any are remembered.
    pub fn of(&self, row: u64) -> Option<Use> {
        let uses = self.uses.as_deref()?;
        uses.binary_search_by_key(&row, |used| used.row).ok().map(|index| uses[index])
    }

    /// Counts a run for an executor. Of the executors that are there, those not remembered yet are
    /// from now on, with a count of `floor` and no run.
    pub fn count(&mut self, row: u64, there: impl Iterator<Item = u64>, floor: u64) {
        let uses = Arc::make_mut(self.uses.get_or_insert_default());
        for row in there {
            if let Err(index) = uses.binary_search_by_key(&row, |used| used.row)
                && uses.len() < ROUTE_USES_MAX
            {
                uses.insert(index, Use { row, count: floor, last: 0 });
            }
        }
        let last = 1 + uses.iter().map(|used| used.last).max().unwrap_or(0);
        match uses.binary_search_by_key(&row, |used| used.row) {
            Ok(index) => {
                uses[index].count = uses[index].count.saturating_add(1);
                uses[index].last = last;
            }
            Err(index) => uses.insert(index, Use { row, count: floor.saturating_add(1), last }),
        }
        if uses.len() > ROUTE_USES_MAX {
            let oldest = uses.iter().enumerate().min_by_key(|(_, used)| used.last);
            if let Some((oldest, _)) = oldest {
                uses.remove(oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_counted_and_bounded() {
        let mut cursor = RouteCursor::default();
        for row in 1..=ROUTE_USES_MAX as u64 + 3 {
            cursor.count(row, [row].into_iter(), 7);
        }
        cursor.count(100, 1..2_000, 0);
        assert_eq!(cursor.uses.as_ref().map(|uses| uses.len()), Some(ROUTE_USES_MAX));
        assert_eq!(cursor.of(3), None, "the longest unused is forgotten");
        let last = ROUTE_USES_MAX as u64 + 4;
        assert_eq!(cursor.of(100), Some(Use { row: 100, count: 9, last }));
    }

    #[test]
    fn who_is_there_is_remembered_with_the_lowest_count_before_its_first_run() {
        let mut cursor = RouteCursor::default();
        cursor.count(2, 1..4, 5);
        let counts: Vec<_> = (1..5).map(|row| cursor.of(row).map(|u| (u.count, u.last))).collect();
        assert_eq!(counts, [Some((5, 0)), Some((6, 1)), Some((5, 0)), None]);
    }

    #[test]
    fn uses_survive_their_stored_form() {
        let used = Use { row: 3, count: 2, last: 9 };
        let text = serde_json::to_string(&[used]).expect("a text");
        assert_eq!(text, "[[3,2,9]]");
        assert_eq!(serde_json::from_str::<Vec<Use>>(&text).expect("uses"), [used]);
    }
}
