//! The sessions of this node, by app and name, and what is remembered of those that ended.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    event::Origin,
    outbox::Outbox,
    session::{End, Handover, Session},
    settings::PARTED_KEPT,
};
use crate::model::ids::AppId;

/// Reconnects of one executor that are counted.
const RECONNECTS_COUNTED_MAX: usize = 1_000;
/// The time over which they are counted.
const RECONNECTS_OVER: Duration = Duration::from_secs(3600);

/// A session with its way to the executor.
#[derive(Debug)]
pub struct Link {
    pub(super) origin: Arc<Origin>,
    pub(super) app_name: String,
    pub(super) principal: String,
    pub(super) session_id: String,
    pub(super) session: Mutex<Session>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) end: Mutex<Option<End>>,
    pub(super) ended: Notify,
}

impl Link {
    /// Who it is.
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Name of its app.
    pub fn app_name(&self) -> &str {
        &self.app_name
    }

    /// Frames on their way to the executor.
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Why it ended; None while it goes on.
    pub fn end(&self) -> Option<End> {
        self.end.lock().clone()
    }

    /// Returns why it ended, once it has.
    pub async fn ended(&self) -> End {
        loop {
            let told = self.ended.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if let Some(end) = self.end() {
                return end;
            }
            told.await;
        }
    }

    /// `tokens/{id}` of its credential.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The process was asked to move, so its Goodbye is no farewell.
    pub fn was_asked_to_move(&self) -> bool {
        self.session.lock().was_asked_to_move()
    }

    /// The last sign of life.
    pub fn heard_at(&self) -> DateTime<Utc> {
        self.session.lock().heard().wall
    }

    pub(super) fn set_end(&self, end: End) {
        self.end.lock().get_or_insert(end);
        self.ended.notify_waiters();
    }
}

/// What is remembered of an executor beyond its session.
#[derive(Debug, Default)]
struct History {
    /// Begins of sessions after the first.
    reconnects: VecDeque<Duration>,
    seen: bool,
    parted: Option<Parted>,
}

#[derive(Debug)]
struct Parted {
    handover: Handover,
    since: DateTime<Utc>,
    at: Duration,
}

#[derive(Debug, Default)]
struct AppTable {
    by_name: HashMap<Arc<str>, Arc<Link>>,
    /// In order of registration.
    by_row: BTreeMap<i64, Arc<Link>>,
    histories: HashMap<Arc<str>, History>,
}

/// The sessions of this node.
#[derive(Debug, Default)]
pub(super) struct Table {
    apps: HashMap<AppId, AppTable>,
    /// By the executor's row.
    rows: HashMap<i64, Arc<Link>>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn by_row(&self, row: i64) -> Option<&Arc<Link>> {
        self.rows.get(&row)
    }

    pub(super) fn get(&self, app: AppId, name: &str) -> Option<&Arc<Link>> {
        self.apps.get(&app)?.by_name.get(name)
    }

    /// Sessions of an app in order of registration.
    pub(super) fn of_app(&self, app: AppId) -> impl Iterator<Item = &Arc<Link>> {
        self.apps.get(&app).into_iter().flat_map(|app| app.by_row.values())
    }

    pub(super) fn all(&self) -> Vec<Arc<Link>> {
        self.rows.values().cloned().collect()
    }

    pub(super) fn insert(&mut self, link: Arc<Link>, elapsed: Duration) {
        let app = self.apps.entry(link.origin.app).or_default();
        let history = app.histories.entry(link.origin.executor.clone()).or_default();
        if history.seen {
            if history.reconnects.len() >= RECONNECTS_COUNTED_MAX {
                history.reconnects.pop_front();
            }
            history.reconnects.push_back(elapsed);
        }
        history.seen = true;
        history.parted = None;
        self.rows.insert(link.origin.row, link.clone());
        app.by_row.insert(link.origin.row, link.clone());
        app.by_name.insert(link.origin.executor.clone(), link);
    }

    /// Takes a session out if it is the current one of its executor.
    pub(super) fn remove(&mut self, origin: &Origin) -> Option<Arc<Link>> {
        let app = self.apps.get_mut(&origin.app)?;
        let current = app.by_name.get(&origin.executor)?;
        if current.origin.epoch != origin.epoch {
            return None;
        }
        app.by_row.remove(&origin.row);
        self.rows.remove(&origin.row);
        app.by_name.remove(&origin.executor)
    }

    /// Keeps what an ended session held for the process to come back to.
    pub(super) fn part(
        &mut self,
        origin: &Origin,
        handover: Handover,
        since: DateTime<Utc>,
        at: Duration,
    ) {
        let app = self.apps.entry(origin.app).or_default();
        let history = app.histories.entry(origin.executor.clone()).or_default();
        history.parted = Some(Parted { handover, since, at });
    }

    pub(super) fn take_handover(&mut self, app: AppId, name: &str) -> Option<Handover> {
        let history = self.apps.get_mut(&app)?.histories.get_mut(name)?;
        history.parted.take().map(|parted| parted.handover)
    }

    pub(super) fn parted_since(&self, app: AppId, name: &str) -> Option<DateTime<Utc>> {
        Some(self.apps.get(&app)?.histories.get(name)?.parted.as_ref()?.since)
    }

    pub(super) fn reconnects(&self, app: AppId, name: &str, elapsed: Duration) -> u32 {
        let history = self.apps.get(&app).and_then(|app| app.histories.get(name));
        let recent = history.map_or(0, |history| {
            let after = elapsed.saturating_sub(RECONNECTS_OVER);
            history.reconnects.iter().filter(|at| **at >= after).count()
        });
        u32::try_from(recent).unwrap_or(u32::MAX)
    }

    /// Forgets what is older than it is kept, and apps without anything.
    pub(super) fn prune(&mut self, elapsed: Duration) {
        let after = elapsed.saturating_sub(RECONNECTS_OVER);
        for app in self.apps.values_mut() {
            let connected = &app.by_name;
            app.histories.retain(|name, history| {
                history.reconnects.retain(|at| *at >= after);
                let old = |parted: &Parted| elapsed >= parted.at + PARTED_KEPT;
                if history.parted.as_ref().is_some_and(old) {
                    history.parted = None;
                }
                connected.contains_key(name) || history.parted.is_some()
            });
        }
        self.apps.retain(|_, app| !app.by_row.is_empty() || !app.histories.is_empty());
    }
}
