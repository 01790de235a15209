//! Executors wherever they are connected: the hub knows those of this node, the [`Fleet`] those of
//! the others, as their nodes tell of them. [`Reach`] answers the owner's questions over both.

mod publish;
mod table;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;

use crate::{
    hub::{Candidate, Contact, Hub},
    model::{
        ids::{AppId, AttemptRef},
        job::JobSpec,
        run::OpenRun,
    },
    store::{SharedStore, cluster::Hand},
};

pub use publish::{ALONE_EVERY, EXCHANGE_EVERY, Exchange, News};
pub use table::Fleet;

/// Runs handed over in one statement.
const HAND_OVER_MAX: usize = 256;

/// The executors of all nodes.
pub struct Reach {
    hub: Arc<Hub>,
    fleet: Arc<Fleet>,
    /// What is to be handed over with the next statement.
    hands: Mutex<Vec<Hand>>,
}

impl Reach {
    /// Over the sessions here and those elsewhere.
    pub fn new(hub: Arc<Hub>, fleet: Arc<Fleet>) -> Arc<Self> {
        Arc::new(Self { hub, fleet, hands: Mutex::default() })
    }

    /// For a node that is alone.
    pub fn alone(hub: Arc<Hub>) -> Arc<Self> {
        let capacity = hub.capacity_changed();
        Self::new(hub, Fleet::new(capacity))
    }

    /// The sessions of this node.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// See [`Hub::candidates`]; of all nodes, in order of registration.
    pub fn candidates(
        &self,
        app: AppId,
        handler: &str,
        labels: &BTreeMap<String, String>,
        now: DateTime<Utc>,
    ) -> Vec<Candidate> {
        let mut found = self.hub.candidates(app, handler, labels);
        if self.fleet.is_alone() {
            return found;
        }
        let here: Vec<i64> = found.iter().map(|candidate| candidate.row).collect();
        let elsewhere = self.fleet.candidates(app, handler, labels, now);
        found.extend(elsewhere.into_iter().filter(|c| here.binary_search(&c.row).is_err()));
        found.sort_by_key(|candidate| candidate.row);
        found
    }

    /// Where nobody has a free slot, one run may wait at an executor of another node: that node
    /// shares out the next free slot, so that jobs of all owners have their turn.
    pub fn lend(&self, app: AppId, candidates: &mut [Candidate], now: DateTime<Utc>) {
        if candidates.iter().all(|candidate| candidate.free == 0)
            && let Some(candidate) = candidates.iter_mut().find(|candidate| {
                candidate.node.is_some() && self.fleet.may_wait(app, candidate.row, now)
            })
        {
            (candidate.free, candidate.room) = (1, 1);
        }
    }

    /// Whether any connected executor of the app offers the handler, able to take it or not.
    pub fn offers(&self, app: AppId, handler: &str) -> bool {
        self.hub.offers(app, handler) || self.fleet.offers(app, handler)
    }

    /// See [`Hub::offering`]; of all nodes.
    pub fn offering(
        &self,
        app: AppId,
        handler: &str,
        labels: &BTreeMap<String, String>,
    ) -> Vec<Arc<str>> {
        let mut names = self.hub.offering(app, handler, labels);
        names.extend(self.fleet.offering(app, handler, labels));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// See [`Hub::hindrance`].
    pub fn hindrance(
        &self,
        app: AppId,
        executor: &str,
        handler: &str,
        labels: &BTreeMap<String, String>,
    ) -> Option<&'static str> {
        if self.node_of(app, executor).is_some() {
            return self.fleet.hindrance(app, executor, handler, labels);
        }
        self.hub.hindrance(app, executor, handler, labels)
    }

    /// Takes `n` credits of a candidate before a dispatch is written.
    pub fn reserve(&self, slot: &Slot, n: u32, now: DateTime<Utc>) -> bool {
        match slot.node {
            None => self.hub.reserve(slot.app, &slot.executor, slot.epoch, &slot.handler, n),
            Some(_) => self.fleet.reserve(slot, n, now),
        }
    }

    /// Gives credits back that no dispatch came of.
    pub fn unreserve(&self, slot: &Slot, n: u32) {
        match slot.node {
            None => self.hub.unreserve(slot.app, &slot.executor, slot.epoch, &slot.handler, n),
            Some(_) => self.fleet.unreserve(slot, n),
        }
    }

    /// A run that was with an executor is not any more: it has `ended` there, or was never sent.
    pub fn freed(&self, run: &OpenRun, handler: &str, ended: bool, now: DateTime<Utc>) {
        self.fleet.freed(run, handler, ended, now);
    }

    /// How the cluster stands with an executor. None: it can't be told now, since nothing was heard
    /// of the other nodes for too long.
    pub fn contact(&self, app: AppId, executor: &str, now: DateTime<Utc>) -> Option<Contact> {
        let here = self.hub.contact(app, executor);
        if matches!(here, Contact::Connected { .. }) || self.fleet.is_alone() {
            return Some(here.or_later(self.fleet.contact(app, executor)));
        }
        self.fleet.is_fresh(now).then(|| here.or_later(self.fleet.contact(app, executor)))
    }

    /// The other node that the executor is connected to, if it is.
    pub fn node_of(&self, app: AppId, executor: &str) -> Option<Arc<str>> {
        match self.hub.contact(app, executor) {
            Contact::Connected { .. } => None,
            _ => self.fleet.node_of(app, executor),
        }
    }

    /// Leaves a run to the node that reaches its executor, with the next [`Reach::hand_over`].
    pub fn hand(&self, node: Arc<str>, attempt: AttemptRef, again: bool) {
        self.hands.lock().push(Hand { node, attempt, again });
    }

    /// Kills a CANCELING run's attempt, wherever its executor is connected; where it is not, the
    /// next Welcome names the kill.
    pub fn kill_run(&self, run: &OpenRun, spec: Option<&JobSpec>) {
        if self.hub.kill_run(run, spec) {
            return;
        }
        let executor = run.executor.as_deref().unwrap_or_default();
        if let Some(node) = self.fleet.node_of(run.app, executor) {
            self.hand(node, run.attempt_ref(), true);
        }
    }

    /// Writes what is to be handed over. What can't be written is found by the sweep over attempts
    /// without an answer.
    pub async fn hand_over(&self, store: &SharedStore) {
        let hands = std::mem::take(&mut *self.hands.lock());
        for chunk in hands.chunks(HAND_OVER_MAX) {
            if let Err(fault) = store.hand_over(chunk).await {
                tracing::warn!(%fault, runs = chunk.len(), "runs were not handed over; later again");
            }
        }
    }
}

/// Where a run is to go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The app.
    pub app: AppId,
    /// The executor.
    pub executor: Arc<str>,
    /// Its row.
    pub row: i64,
    /// Its session.
    pub epoch: u64,
    /// The node that holds it; None for this one.
    pub node: Option<Arc<str>>,
    /// The run's handler.
    pub handler: String,
}
