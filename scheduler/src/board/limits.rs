//! What operators allow an app: runs at once over all its jobs, and the same by handler.
//!
//! Counted are runs that are with an executor. Only apps with a limit are counted at all.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use super::{Board, Inner, Live, runs::Stage};
use crate::{
    model::{
        app::{App, AppSpec},
        ids::{AppId, RunId},
    },
    store::permits::{Limit, Permit},
};

/// The limits of an app with what counts towards them.
#[derive(Default)]
pub(super) struct Limited {
    /// 0 means none.
    max: u32,
    running: u32,
    handlers: BTreeMap<String, HandlerLimit>,
}

#[derive(Clone, Copy)]
struct HandlerLimit {
    max: u32,
    running: u32,
}

/// How many more runs of an app may be sent.
#[derive(Clone, Debug, Default)]
pub struct AppRoom {
    /// Of all handlers, with the limit; None without one.
    total: Option<(u32, u32)>,
    handlers: BTreeMap<String, (u32, u32)>,
}

impl AppRoom {
    /// Runs of a handler that may be sent.
    pub fn of(&self, handler: &str) -> u32 {
        let total = self.total.map_or(u32::MAX, |(free, _)| free);
        total.min(self.handlers.get(handler).map_or(u32::MAX, |(free, _)| *free))
    }

    /// One is sent.
    pub fn take(&mut self, handler: &str) {
        let own = self.handlers.get_mut(handler);
        for (free, _) in own.into_iter().chain(self.total.as_mut()) {
            *free = free.saturating_sub(1);
        }
    }

    /// The limit that keeps runs of a handler back, in words; None when none does.
    pub fn why_not(&self, handler: &str) -> Option<String> {
        if let Some((0, max)) = self.total {
            return Some(format!(
                "the app has as many runs under way as it may: {max} (its max_concurrency)"
            ));
        }
        match self.handlers.get(handler) {
            Some((0, max)) => Some(format!(
                "the app has as many runs of handler {handler} under way as it may: {max} (its \
                 handler_max_concurrency)"
            )),
            _ => None,
        }
    }
}

impl Board {
    /// Sets what operators said of the apps.
    pub fn set_apps(&self, apps: Vec<App>) {
        let mut inner = self.inner.lock();
        let apps: HashMap<AppId, AppSpec> =
            apps.into_iter().map(|app| (app.id, app.spec)).collect();
        let old = std::mem::take(&mut inner.limits);
        let mut anew = false;
        for (id, spec) in apps.iter().filter(|(_, spec)| has_limits(spec)) {
            let same = inner.apps.get(id).is_some_and(|before| {
                before.max_concurrency == spec.max_concurrency
                    && before.handler_max_concurrency == spec.handler_max_concurrency
            });
            anew |= !same;
            inner.limits.insert(*id, limited(spec));
        }
        inner.apps = apps;
        if anew || inner.limits.len() != old.len() {
            inner.count_all();
        } else {
            inner.limits = old;
        }
    }

    /// A number for the limits of all apps, which changes with them; 0 when there are none.
    pub fn limits_version(&self) -> u64 {
        let inner = self.inner.lock();
        let mut apps: Vec<_> = inner.limits.iter().collect();
        apps.sort_unstable_by_key(|(app, _)| **app);
        let mut hash = DefaultHasher::new();
        for (app, limited) in &apps {
            (app, limited.max).hash(&mut hash);
            limited.handlers.iter().for_each(|(name, own)| (name, own.max).hash(&mut hash));
        }
        if apps.is_empty() { 0 } else { hash.finish() | 1 }
    }

    /// Whether runs of the app are counted.
    pub fn is_limited(&self, app: AppId) -> bool {
        self.inner.lock().limits.contains_key(&app)
    }

    /// Runs of apps with limits that are with an executor.
    pub fn limited_runs(&self) -> Vec<Permit> {
        let inner = self.inner.lock();
        let sent = inner.runs.values().filter(|live| live.stage == Stage::Sent);
        sent.filter(|live| inner.limits.contains_key(&live.run.app)).map(permit).collect()
    }

    /// Those of the runs that are of apps with limits, and these limits.
    pub fn to_permit(&self, runs: &[RunId]) -> (Vec<Permit>, Vec<Limit>) {
        let inner = self.inner.lock();
        let live = runs.iter().filter_map(|id| inner.runs.get(id));
        let limited = live.filter(|live| inner.limits.contains_key(&live.run.app));
        let permits: Vec<Permit> = limited.map(permit).collect();
        let apps: BTreeSet<AppId> = permits.iter().map(|permit| permit.app).collect();
        let mut limits = Vec::new();
        for app in apps {
            let Some(limited) = inner.limits.get(&app) else { continue };
            if limited.max > 0 {
                limits.push(Limit { app, handler: String::new(), max: limited.max });
            }
            let handlers = limited.handlers.iter();
            let own =
                handlers.map(|(name, own)| Limit { app, handler: name.clone(), max: own.max });
            limits.extend(own);
        }
        (permits, limits)
    }

    /// How many more runs of an app may be sent; None when it has no limits.
    pub fn room(&self, app: AppId) -> Option<AppRoom> {
        let inner = self.inner.lock();
        let limited = inner.limits.get(&app)?;
        let free = |max: u32, running: u32| (max.saturating_sub(running), max);
        let handlers = limited.handlers.iter();
        let handlers = handlers.map(|(name, own)| (name.clone(), free(own.max, own.running)));
        Some(AppRoom {
            total: (limited.max > 0).then(|| free(limited.max, limited.running)),
            handlers: handlers.collect(),
        })
    }
}

impl Inner {
    /// Counts a run of an app in that is with an executor now, or out.
    pub(super) fn count_sent(&mut self, app: AppId, handler: &str, sent: bool) {
        let Some(limited) = self.limits.get_mut(&app) else { return };
        let own = limited.handlers.get_mut(handler).map(|own| &mut own.running);
        for running in own.into_iter().chain([&mut limited.running]) {
            *running = if sent { *running + 1 } else { running.saturating_sub(1) };
        }
    }

    fn count_all(&mut self) {
        let sent = self.runs.values().filter(|live| live.stage == Stage::Sent);
        let sent: Vec<_> = sent
            .filter(|live| self.limits.contains_key(&live.run.app))
            .map(|live| (live.run.app, live.spec.clone()))
            .collect();
        for (app, spec) in sent {
            self.count_sent(app, &spec.handler, true);
        }
    }
}

fn permit(live: &Live) -> Permit {
    Permit {
        run: live.run.id,
        app: live.run.app,
        handler: live.spec.handler.clone(),
        partition: live.run.partition,
        place: live.place(),
    }
}

fn has_limits(spec: &AppSpec) -> bool {
    spec.max_concurrency > 0 || spec.handler_max_concurrency.values().any(|max| *max > 0)
}

fn limited(spec: &AppSpec) -> Limited {
    let handlers = spec.handler_max_concurrency.iter().filter(|(_, max)| **max > 0);
    let handlers =
        handlers.map(|(name, max)| (name.clone(), HandlerLimit { max: *max, running: 0 }));
    Limited { max: spec.max_concurrency, running: 0, handlers: handlers.collect() }
}
