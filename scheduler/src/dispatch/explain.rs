//! Why runs wait, in words, written where an operator looks.

use chrono::{DateTime, Utc};

use super::{Dispatcher, place::eligible};
use crate::{
    board::{Demand, LaneKey},
    store::{OWNER_BATCH_MAX, Result},
};

/// Waiting runs whose reason is written per lane and sweep, and as many over all jobs that keep
/// runs back.
const EXPLAIN_MAX: usize = 256;

impl Dispatcher {
    /// Writes why runs wait: those that their job keeps back, and those that nobody can take.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn explain(&self, now: DateTime<Utc>) -> Result<()> {
        let mut rows = self.board.held_back(EXPLAIN_MAX);
        for lane in self.board.waiting_lanes() {
            let why = self.why(&lane, now);
            let runs = self.board.unexplained(&lane, &why, EXPLAIN_MAX);
            rows.extend(runs.into_iter().map(|run| (run, why.clone())));
        }
        for chunk in rows.chunks(OWNER_BATCH_MAX) {
            self.store.explain_waiting(chunk).await?;
        }
        Ok(())
    }

    fn why(&self, lane: &LaneKey, now: DateTime<Utc>) -> String {
        let limit = self.board.room(lane.app).and_then(|room| room.why_not(&lane.handler));
        if let Some(limit) = limit {
            return limit;
        }
        if !lane.target.is_empty() {
            let name = &lane.target;
            let why = self.reach.hindrance(lane.app, name, &lane.handler, &lane.labels);
            return format!("waits for executor {name}, which {}", why.unwrap_or("is about to"));
        }
        let eligible = eligible(&self.reach, lane, now);
        let Some(first) = eligible.first() else { return self.nobody(lane) };
        if matches!(lane.demand, Demand::Key(_)) {
            return format!(
                "waits for executor {}, which has its key and no free slot",
                first.name
            );
        }
        let has_room = eligible.iter().any(|candidate| candidate.free > 0);
        let over_bound = matches!(lane.demand, Demand::Load(_)) && has_room;
        let (name, count) = (&first.name, eligible.len());
        // Whole sentences: the console translates them.
        match (count, over_bound) {
            (1, true) => format!(
                "executor {name}, which alone could take it, is busier than its route allows"
            ),
            (1, false) => format!("executor {name}, which alone could take it, is busy"),
            (_, true) => {
                format!("all {count} executors that could take it are busier than its route allows")
            }
            (_, false) => format!("all {count} executors that could take it are busy"),
        }
    }

    fn nobody(&self, lane: &LaneKey) -> String {
        let handler = &lane.handler;
        if !self.reach.offers(lane.app, handler) {
            format!("no connected executor offers handler {handler}")
        } else if lane.labels.is_empty() {
            format!("every executor with handler {handler} is cordoned or leaving")
        } else {
            format!("no ready executor with handler {handler} has the labels the job asks for")
        }
    }
}
