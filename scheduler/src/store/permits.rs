//! Limits of apps while several owners share the jobs: a run of an app with a limit is sent only
//! with a permit, and permits are given out in one order over all owners.
//!
//! An owner that holds all partitions counts in its memory and needs none. Whoever takes a partition
//! first writes permits for what is under way in it; until every partition has been counted so,
//! nobody gets a new one.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use super::Result;
use crate::model::ids::{AppId, PartitionId, RunId};

/// A run that waits keeps its turn for so long after it was asked for last.
pub const TURN_KEPT: TimeDelta = TimeDelta::seconds(3);

/// A run that is to count, or counts, towards limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The run.
    pub run: RunId,
    /// Its app.
    pub app: AppId,
    /// Its handler.
    pub handler: String,
    /// Its partition.
    pub partition: PartitionId,
    /// Its place among those that wait, earliest first.
    pub place: DateTime<Utc>,
}

/// How many runs of an app may be under way at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The app.
    pub app: AppId,
    /// Of this handler only; empty means of all.
    pub handler: String,
    /// So many.
    pub max: u32,
}

/// Permits, which owners write on their pen.
#[async_trait]
pub trait PermitStore: Send + Sync {
    /// Owner: asks for permits. The limits must be all those of the apps asked for. Returns the
    /// runs that may be sent; the others keep their turn for [`TURN_KEPT`].
    async fn ask_permits(
        &self,
        asked: &[Permit],
        limits: &[Limit],
        now: DateTime<Utc>,
    ) -> Result<Vec<RunId>>;

    /// Owner: of the partitions held, these runs of apps with limits are under way, and no others.
    async fn count_permits(&self, under_way: &[Permit], now: DateTime<Utc>) -> Result<()>;

    /// Runs that are not under way any more.
    async fn return_permits(&self, runs: &[RunId]) -> Result<()>;
}

/// Who of `asked` gets a permit, where `given` are under way and `waiting` wait at other owners.
pub fn give_out(
    given: &[(AppId, String)],
    waiting: &[Permit],
    asked: &[Permit],
    limits: &[Limit],
) -> Vec<RunId> {
    let mut free = Free::of(limits);
    for (app, handler) in given {
        free.take(*app, handler);
    }
    let mut order: Vec<(&Permit, bool)> = waiting.iter().map(|permit| (permit, false)).collect();
    order.extend(asked.iter().map(|permit| (permit, true)));
    order.sort_by_key(|(permit, _)| (permit.place, permit.run));
    let granted = order.into_iter().filter(|(permit, _)| free.take(permit.app, &permit.handler));
    granted.filter(|(_, own)| *own).map(|(permit, _)| permit.run).collect()
}

/// What is left of limits, by app and handler; of all handlers by an empty name.
struct Free<'a>(HashMap<AppId, HashMap<&'a str, u32>>);

impl<'a> Free<'a> {
    fn of(limits: &'a [Limit]) -> Self {
        let mut free: HashMap<AppId, HashMap<&'a str, u32>> = HashMap::new();
        for limit in limits {
            free.entry(limit.app).or_default().insert(&limit.handler, limit.max);
        }
        Self(free)
    }

    /// One more run; false when a limit forbids it.
    fn take(&mut self, app: AppId, handler: &str) -> bool {
        let Some(limits) = self.0.get_mut(&app) else { return true };
        if ["", handler].iter().any(|name| limits.get(*name).is_some_and(|free| *free == 0)) {
            return false;
        }
        for name in ["", handler] {
            if let Some(free) = limits.get_mut(name) {
                *free -= 1;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit(n: u128, handler: &str, second: i64) -> Permit {
        let place = DateTime::from_timestamp(second, 0).expect("in range");
        Permit {
            run: RunId::from_bytes(n.to_be_bytes()),
            app: AppId(1),
            handler: handler.to_owned(),
            partition: PartitionId(1),
            place,
        }
    }

    fn limit(handler: &str, max: u32) -> Limit {
        Limit { app: AppId(1), handler: handler.to_owned(), max }
    }

    fn given(handlers: &[&str]) -> Vec<(AppId, String)> {
        handlers.iter().map(|handler| (AppId(1), (*handler).to_owned())).collect()
    }

    #[test]
    fn no_more_are_given_out_than_the_limit_of_the_app_leaves() {
        let asked = [permit(1, "a", 1), permit(2, "a", 2), permit(3, "b", 3)];
        let limits = [limit("", 3)];
        assert_eq!(give_out(&given(&["a"]), &[], &asked, &limits), [asked[0].run, asked[1].run]);
        assert_eq!(give_out(&given(&["a", "b", "b", "b"]), &[], &asked, &limits), []);
    }

    #[test]
    fn a_handler_at_its_limit_keeps_no_other_back() {
        let asked = [permit(1, "a", 1), permit(2, "b", 2)];
        let limits = [limit("", 10), limit("a", 1)];
        assert_eq!(give_out(&given(&["a"]), &[], &asked, &limits), [asked[1].run]);
    }

    #[test]
    fn who_waits_longer_elsewhere_comes_first() {
        let waiting = [permit(9, "a", 1)];
        let asked = [permit(1, "a", 2), permit(2, "a", 0)];
        assert_eq!(give_out(&[], &waiting, &asked, &[limit("", 2)]), [asked[1].run]);
        assert_eq!(give_out(&[], &waiting, &asked, &[limit("", 1)]), [asked[1].run]);
        assert_eq!(give_out(&[], &waiting, &asked[..1], &[limit("", 1)]), []);
    }
}
