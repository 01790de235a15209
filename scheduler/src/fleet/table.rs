//! The sessions of the other nodes, as they tell of them.
//!
//! What is told is a quarter of a second old. The owner adds what it knows better: which of its own
//! runs it has sent there since, and which of them have ended.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::RwLock;
use tokio::sync::Notify;

use super::Slot;
use crate::{
    hub::{Candidate, Contact},
    model::{ids::AppId, run::OpenRun},
    store::cluster::{Load, SessionLoad},
};

/// A run that was sent this long before a node told of its session is counted in what it told.
const ON_ITS_WAY: TimeDelta = TimeDelta::milliseconds(30);
/// What was sent or has ended is known to the session's node after this time at the latest.
const TOLD_WITHIN: TimeDelta = TimeDelta::seconds(1);
/// Pause between two runs that are lent to one busy executor: twice as long each time none of them
/// was taken, at most so many times the first.
const LEND_EVERY: TimeDelta = TimeDelta::seconds(1);
/// See [`LEND_EVERY`].
const LEND_DOUBLED_MAX: u32 = 6;
/// Without word of the others for longer, nothing is said about their sessions.
const FRESH: TimeDelta = TimeDelta::seconds(5);

/// The sessions of the other nodes.
pub struct Fleet {
    inner: RwLock<Inner>,
    /// Told when slots may have become free.
    capacity: Arc<Notify>,
}

#[derive(Default)]
struct Inner {
    /// The other nodes that live.
    living: HashSet<Arc<str>>,
    /// When nodes were found dead.
    died: HashMap<Arc<str>, DateTime<Utc>>,
    /// By app and the executor's row.
    apps: HashMap<AppId, BTreeMap<i64, Remote>>,
    rows: HashMap<(AppId, Arc<str>), i64>,
    heard_at: Option<DateTime<Utc>>,
}

/// A session elsewhere.
struct Remote {
    told: SessionLoad,
    /// Own runs sent since, by handler.
    sent: VecDeque<(DateTime<Utc>, String)>,
    /// Own runs that ended since, by handler.
    ended: VecDeque<(DateTime<Utc>, String)>,
    /// How many runs were lent in a row, and when the next may be.
    lent: u32,
    lend_at: DateTime<Utc>,
}

impl Remote {
    fn new(told: SessionLoad) -> Self {
        let (sent, ended) = (VecDeque::new(), VecDeque::new());
        Self { told, sent, ended, lent: 0, lend_at: DateTime::<Utc>::MIN_UTC }
    }

    fn takes(&self, handler: &str, labels: &BTreeMap<String, String>) -> bool {
        let Load { takes, rooms, .. } = &self.told.load;
        *takes
            && !self.told.cordoned
            && self.fits(handler, labels)
            && rooms.get(handler).is_none_or(Option::is_some)
    }

    fn fits(&self, handler: &str, labels: &BTreeMap<String, String>) -> bool {
        let load = &self.told.load;
        load.handlers.contains(handler)
            && labels.iter().all(|(key, value)| load.labels.get(key) == Some(value))
    }

    /// Runs of the handler, and of any, that it can take now.
    fn free(&self, handler: &str, now: DateTime<Utc>) -> (u32, u32) {
        let since = now - TOLD_WITHIN;
        let count = |list: &VecDeque<(DateTime<Utc>, String)>, of: Option<&str>| {
            let recent = list.iter().filter(|(at, _)| *at > since);
            let count = recent.filter(|(_, name)| of.is_none_or(|of| name == of)).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        };
        let left = |told: u32, of: Option<&str>| {
            let left = i64::from(told) + count(&self.ended, of) - count(&self.sent, of);
            u32::try_from(left.clamp(0, i64::from(self.told.load.slots))).unwrap_or(0)
        };
        let room = left(self.told.load.free, None);
        let own = self.told.load.rooms.get(handler).copied().flatten();
        (own.map_or(room, |own| left(own, Some(handler)).min(room)), room)
    }

    /// One that was counted as sent was not.
    fn take_back(&mut self, handler: &str) {
        let last = self.sent.iter().rposition(|(_, name)| name == handler);
        last.and_then(|last| self.sent.remove(last));
    }

    /// Forgets what the other node must know by now.
    fn settle(&mut self, now: DateTime<Utc>) {
        let (told, since) = (self.told.at, now - TOLD_WITHIN);
        self.sent.retain(|(at, _)| *at > since && *at > told - ON_ITS_WAY);
        self.ended.retain(|(at, _)| *at > since && *at > told);
    }
}

impl Inner {
    fn get(&self, app: AppId, name: &str) -> Option<&Remote> {
        let row = self.rows.get(&(app, Arc::from(name)))?;
        self.apps.get(&app)?.get(row)
    }

    fn lives(&self, remote: &Remote) -> bool {
        remote.told.ended_at.is_none() && self.living.contains(&remote.told.node)
    }

    fn of_app(&self, app: AppId) -> impl Iterator<Item = &Remote> {
        let all = self.apps.get(&app).into_iter().flat_map(BTreeMap::values);
        all.filter(|remote| self.lives(remote))
    }
}

impl Fleet {
    /// An empty one, which tells `capacity` of free slots.
    pub fn new(capacity: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { inner: RwLock::default(), capacity })
    }

    /// No other node lives.
    pub fn is_alone(&self) -> bool {
        self.inner.read().living.is_empty()
    }

    /// What the others told is not too old to judge by.
    pub(super) fn is_fresh(&self, now: DateTime<Utc>) -> bool {
        self.inner.read().heard_at.is_some_and(|at| now - at < FRESH)
    }

    pub(super) fn candidates(
        &self,
        app: AppId,
        handler: &str,
        labels: &BTreeMap<String, String>,
        now: DateTime<Utc>,
    ) -> Vec<Candidate> {
        let inner = self.inner.read();
        let fitting = inner.of_app(app).filter(|remote| remote.takes(handler, labels));
        let candidate = |remote: &Remote| {
            let (free, room) = remote.free(handler, now);
            let SessionLoad { executor, name, node, epoch, load, .. } = &remote.told;
            Candidate {
                row: *executor,
                name: name.clone(),
                epoch: *epoch,
                node: Some(node.clone()),
                free,
                room,
                used: load.slots.saturating_sub(room),
                slots: load.slots,
                cpu: load.cpu,
                silent: load.silent,
            }
        };
        fitting.map(candidate).collect()
    }

    pub(super) fn offers(&self, app: AppId, handler: &str) -> bool {
        self.inner.read().of_app(app).any(|remote| remote.told.load.handlers.contains(handler))
    }

    pub(super) fn offering(
        &self,
        app: AppId,
        handler: &str,
        labels: &BTreeMap<String, String>,
    ) -> Vec<Arc<str>> {
        let inner = self.inner.read();
        let fitting = inner.of_app(app).filter(|remote| remote.fits(handler, labels));
        fitting.map(|remote| remote.told.name.clone()).collect()
    }

    /// See [`crate::hub::Hub::hindrance`].
    pub(super) fn hindrance(
        &self,
        app: AppId,
        executor: &str,
        handler: &str,
        labels: &BTreeMap<String, String>,
    ) -> Option<&'static str> {
        let inner = self.inner.read();
        let Some(remote) = inner.get(app, executor).filter(|remote| inner.lives(remote)) else {
            return Some("is not connected");
        };
        let load = &remote.told.load;
        let reasons = [
            (!load.handlers.contains(handler), "does not offer the handler"),
            (!remote.fits(handler, labels), "lacks labels that the job asks for"),
            (remote.told.cordoned, "is cordoned"),
            (!load.takes, "is leaving or out of contact"),
            (load.rooms.get(handler) == Some(&None), "has paused or refused the handler"),
            (load.free == 0, "has no free slot"),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
    }

    pub(super) fn reserve(&self, slot: &Slot, n: u32, now: DateTime<Utc>) -> bool {
        let mut inner = self.inner.write();
        let Some(remote) = inner.slot(slot) else { return false };
        if remote.free(&slot.handler, now).0 < n {
            if n > 1 || now < remote.lend_at {
                return false;
            }
            remote.lend_at = now + LEND_EVERY * 2_i32.pow(remote.lent.min(LEND_DOUBLED_MAX));
            remote.lent += 1;
        }
        remote.sent.extend((0..n).map(|_| (now, slot.handler.clone())));
        true
    }

    pub(super) fn unreserve(&self, slot: &Slot, n: u32) {
        let mut inner = self.inner.write();
        let Some(remote) = inner.slot(slot) else { return };
        (0..n).for_each(|_| remote.take_back(&slot.handler));
    }

    /// Whether one more run may wait there though no slot is free.
    pub(super) fn may_wait(&self, app: AppId, row: i64, now: DateTime<Utc>) -> bool {
        let inner = self.inner.read();
        let remote = inner.apps.get(&app).and_then(|app| app.get(&row));
        remote.is_some_and(|remote| now >= remote.lend_at)
    }

    /// A run of this owner is not with its executor any more: it has ended there, or was never sent.
    pub(super) fn freed(&self, run: &OpenRun, handler: &str, ended: bool, now: DateTime<Utc>) {
        let Some(executor) = run.executor.clone() else { return };
        let mut inner = self.inner.write();
        let Some(row) = inner.rows.get(&(run.app, executor)).copied() else { return };
        let remote = inner.apps.get_mut(&run.app).and_then(|app| app.get_mut(&row));
        let Some(remote) = remote.filter(|remote| remote.told.epoch == run.session_epoch) else {
            return;
        };
        if ended {
            remote.ended.push_back((now, handler.to_owned()));
            remote.lent = 0;
            self.capacity.notify_one();
        } else {
            remote.take_back(handler);
        }
    }

    /// How the other nodes stand with an executor.
    pub(super) fn contact(&self, app: AppId, executor: &str) -> Contact {
        let inner = self.inner.read();
        let Some(remote) = inner.get(app, executor) else { return Contact::Unknown };
        if inner.lives(remote) {
            return Contact::Connected { epoch: remote.told.epoch };
        }
        let died = inner.died.get(&remote.told.node).copied();
        remote.told.ended_at.or(died).map_or(Contact::Unknown, Contact::Since)
    }

    pub(super) fn node_of(&self, app: AppId, executor: &str) -> Option<Arc<str>> {
        let inner = self.inner.read();
        let remote = inner.get(app, executor).filter(|remote| inner.lives(remote))?;
        Some(remote.told.node.clone())
    }

    /// The other nodes that live now. Returns those that did until now and don't any more.
    pub(super) fn set_living(
        &self,
        living: HashSet<Arc<str>>,
        now: DateTime<Utc>,
    ) -> (bool, Vec<Arc<str>>) {
        let mut inner = self.inner.write();
        inner.heard_at = Some(now);
        let dead: Vec<Arc<str>> = inner.living.difference(&living).cloned().collect();
        let joined = living.difference(&inner.living).next().is_some();
        for node in &dead {
            inner.died.insert(node.clone(), now);
        }
        inner.died.retain(|node, _| !living.contains(node));
        inner.living = living;
        (joined || !dead.is_empty(), dead)
    }

    /// These executors are connected to this node now.
    pub(super) fn forget(&self, own: &[SessionLoad]) {
        let mut inner = self.inner.write();
        for session in own {
            let known = inner.apps.get_mut(&session.app);
            known.and_then(|app| app.remove(&session.executor));
        }
    }

    /// What nodes told of sessions; `all` if that was all they have.
    pub(super) fn hear(&self, told: Vec<SessionLoad>, all: bool, now: DateTime<Utc>) {
        let mut inner = self.inner.write();
        let mut old = match all {
            true => {
                inner.rows.clear();
                std::mem::take(&mut inner.apps)
            }
            false => HashMap::new(),
        };
        let mut more = false;
        for told in told {
            let (app, row) = (told.app, told.executor);
            inner.rows.insert((app, told.name.clone()), row);
            let before = old.get_mut(&app).and_then(|rows| rows.remove(&row));
            let rows = inner.apps.entry(app).or_default();
            if let Some(before) = before {
                rows.insert(row, before);
            }
            match rows.get_mut(&row).filter(|known| known.told.epoch == told.epoch) {
                Some(known) => {
                    more |= told.load.free > known.told.load.free || known.told.cordoned;
                    if told.load.free > 0 {
                        known.lent = 0;
                    }
                    known.told = told;
                    known.settle(now);
                }
                None => {
                    more = true;
                    rows.insert(row, Remote::new(told));
                }
            }
        }
        if more {
            self.capacity.notify_one();
        }
    }
}

impl Inner {
    fn slot(&mut self, slot: &Slot) -> Option<&mut Remote> {
        let remote = self.apps.get_mut(&slot.app)?.get_mut(&slot.row)?;
        (remote.told.epoch == slot.epoch).then_some(remote)
    }
}
