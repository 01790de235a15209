//! Limits of apps while several owners share the jobs: what was placed is asked for, and what is
//! not granted is left out.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    Dispatcher,
    place::{self, Placement},
};
use crate::{
    model::ids::{AppId, PartitionId, RunId},
    store::{OWNER_BATCH_MAX, Result},
};

/// An app that got less than it asked for asks again after this time, or when told that some run of
/// it has ended.
const ASK_AGAIN: TimeDelta = TimeDelta::milliseconds(200);

/// The permits of this owner's runs.
#[derive(Default)]
pub(super) struct Permits {
    granted: HashMap<RunId, PartitionId>,
    /// The partitions, by epoch, and the limits for which runs under way were counted.
    counted: Option<(Vec<(PartitionId, u64)>, u64)>,
    /// Apps that are at their limit, and when they ask again.
    resting: HashMap<AppId, DateTime<Utc>>,
}

impl Dispatcher {
    /// Writes permits for what is under way in the partitions held, if they or the limits changed
    /// since that was done last. One owner of all counts in memory, until it is `giving` some away.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn count_permits(&self, giving: bool, now: DateTime<Utc>) -> Result<()> {
        let limits = self.board.limits_version();
        if limits == 0 || (self.board.holds_all() && !giving) {
            self.permits.lock().counted = None;
            return Ok(());
        }
        let held = self.board.partitions();
        let held: Vec<_> = held.iter().map(|row| (row.id, row.epoch)).collect();
        let counted = Some((held, limits));
        if self.permits.lock().counted == counted {
            return Ok(());
        }
        let under_way = self.board.limited_runs();
        self.store.count_permits(&under_way, now).await?;
        let mut permits = self.permits.lock();
        permits.counted = counted;
        permits.granted = under_way.into_iter().map(|p| (p.run, p.partition)).collect();
        Ok(())
    }

    /// Some permits were given back: whoever rests asks again.
    pub fn ask_again(&self) {
        self.permits.lock().resting.clear();
    }

    /// Finds executors for waiting runs, as far as the limits of their apps allow over all owners.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub(super) async fn place_permitted(&self, now: DateTime<Utc>) -> Result<Placement> {
        if self.board.holds_all() || self.board.limits_version() == 0 {
            return Ok(place::place(&self.board, &self.reach, now, &|_, _| true));
        }
        let resting: HashSet<AppId> = {
            let mut permits = self.permits.lock();
            permits.resting.retain(|_, until| *until > now);
            permits.resting.keys().copied().collect()
        };
        let may = |app: AppId, _: RunId| !resting.contains(&app);
        let placement = place::place(&self.board, &self.reach, now, &may);
        let asked: Vec<RunId> = {
            let permits = self.permits.lock();
            let runs = placement.runs.iter().map(|run| run.pick.attempt.run);
            runs.filter(|run| !permits.granted.contains_key(run)).collect()
        };
        let (asked, limits) = self.board.to_permit(&asked);
        if asked.is_empty() {
            return Ok(placement);
        }
        let answer = self.store.ask_permits(&asked, &limits, now).await;
        let all = answer.as_ref().is_ok_and(|granted| granted.len() == asked.len());
        if !all {
            placement.runs.iter().for_each(|run| self.reach.unreserve(&run.slot, 1));
        }
        let granted = answer?;
        let mut permits = self.permits.lock();
        let given = asked.iter().filter(|permit| granted.contains(&permit.run));
        permits.granted.extend(given.map(|permit| (permit.run, permit.partition)));
        if all {
            return Ok(placement);
        }
        let denied = asked.iter().filter(|permit| !granted.contains(&permit.run));
        permits.resting.extend(denied.map(|permit| (permit.app, now + ASK_AGAIN)));
        let may = |app: AppId, run: RunId| {
            !self.board.is_limited(app) || permits.granted.contains_key(&run)
        };
        Ok(place::place(&self.board, &self.reach, now, &may))
    }

    /// Gives back the permits of runs that are not under way any more. Those of partitions that are
    /// another owner's by now are its business.
    pub(super) async fn return_permits(&self) {
        let mut over = Vec::new();
        self.permits.lock().granted.retain(|run, partition| {
            let held = self.board.holds(*partition);
            let sent = self.board.is_sent(*run);
            over.extend((held && !sent).then_some(*run));
            held && sent
        });
        for chunk in over.chunks(OWNER_BATCH_MAX) {
            if let Err(fault) = self.store.return_permits(chunk).await {
                tracing::debug!(%fault, "permits were not given back; they are counted anew");
                self.permits.lock().counted = None;
            }
        }
    }
}
