//! The executors connected to this node.
//!
//! A [`session::Session`] is a pure machine; a [`Link`] joins it to its [`outbox::Outbox`]; the
//! [`Hub`] is the table of all. Nothing here waits: frames are queued with a bound, events are
//! handed to whoever drives the session, and time is a parameter of the machine.

pub mod admission;
mod drive;
pub mod event;
pub mod handed;
pub mod live;
pub mod local;
pub mod outbox;
pub mod session;
pub mod settings;
mod table;
#[cfg(test)]
mod tests;
pub mod upkeep;
pub mod wire;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
    time::Duration,
};

use chrono::{DateTime, Utc};
use clawjob_proto::v1::{RunCommand, scheduler_drain};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::{
    clock::Clock,
    model::{
        ids::{AppId, AttemptRef, RunId},
        job::{JobSpec, KILL_GRACE_DEFAULT},
        run::{KillReason, OpenRun},
    },
};
use admission::Admission;
use event::{EventReceiver, EventSender, Origin, SessionEvent};
use session::{AckStatus, End, Moment};

use settings::{ADRIFT_CLOSES_AFTER, MOVE_WITHIN};

pub use settings::HubSettings;
pub use table::Link;
use table::Table;

/// An executor that may be given runs of a handler.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Order of registration.
    pub row: i64,
    /// Its name in the app.
    pub name: Arc<str>,
    /// Its session.
    pub epoch: u64,
    /// The node that holds it; None for this one.
    pub node: Option<Arc<str>>,
    /// Runs of the handler it can take now; may be 0.
    pub free: u32,
    /// Runs of any handlers it can take now.
    pub room: u32,
    /// Its slots in use.
    pub used: u32,
    /// Its slots in all.
    pub slots: u32,
    /// Load of its processor, 0..1; 0 when it tells none.
    pub cpu: f32,
    /// Its heartbeat is overdue, not yet for so long that it counts as suspect.
    pub silent: bool,
}

/// A request to stop an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Kill {
    /// Which.
    pub attempt: AttemptRef,
    /// Why.
    pub reason: KillReason,
    /// How long its handler has to end by itself.
    pub grace: Duration,
    /// For the handler, in one line.
    pub message: String,
}

/// How this node stands with an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// It has a session here.
    Connected {
        /// Its epoch.
        epoch: u64,
    },
    /// It had a session here; this was its last sign of life.
    Since(DateTime<Utc>),
    /// It had none here lately.
    Unknown,
}

impl Contact {
    /// What two nodes' word comes to: connected if one says so, else the later sign of life.
    pub fn or_later(self, other: Self) -> Self {
        match (self, other) {
            (Self::Since(a), Self::Since(b)) => Self::Since(a.max(b)),
            (connected @ Self::Connected { .. }, _) | (connected, Self::Unknown) => connected,
            (_, other) => other,
        }
    }
}

/// Who holds an executor's name on this node, as seen by a process that wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nobody, or that process itself.
    Free,
    /// Another process that gave a sign of life within two heartbeat intervals.
    Alive,
    /// Another process that did not.
    Silent,
}

/// Why a session can't begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// More new sessions than this node takes per second.
    #[error("too many new sessions; come back in {0:?}")]
    Rate(Duration),
    /// As many sessions as this node takes at all.
    #[error("this node has as many sessions as it takes")]
    Full,
    /// This node is going away.
    #[error("this node is going away")]
    Draining,
    /// Its database does not answer, or others live that do not see this node: a session could not be
    /// written, or would not count.
    #[error("this node has had no word from its database for some seconds; another one may")]
    Unseen,
}

/// Whoever remembers which runs are with which executor.
pub trait Holdings: Send + Sync + 'static {
    /// All runs that may be with the executor, some of which may have ended; None when some that
    /// are may be unknown.
    fn may_hold(&self, app: AppId, executor: &str) -> Option<Vec<RunId>>;
}

/// The executors connected to this node.
pub struct Hub {
    settings: Arc<HubSettings>,
    clock: Arc<dyn Clock>,
    table: RwLock<Table>,
    admission: Mutex<Admission>,
    events: EventSender,
    /// Events of the hub's own that found no room; bounded by what dispatch has under way.
    backlog: Mutex<VecDeque<SessionEvent>>,
    capacity: Arc<Notify>,
    /// Some token was revoked.
    tokens_changed: Notify,
    draining: Mutex<bool>,
    /// When somebody was last told to come back later.
    turned_away: Mutex<Option<DateTime<Utc>>>,
    holdings: OnceLock<Arc<dyn Holdings>>,
    pruned: Mutex<Duration>,
    /// The other nodes go on without this one, and its executors were asked to move there.
    adrift: Mutex<bool>,
}

impl Hub {
    /// An empty hub and the events of its sessions.
    pub fn new(settings: HubSettings, clock: Arc<dyn Clock>) -> (Arc<Self>, EventReceiver) {
        let (events, receiver) = event::channel();
        let hub = Self {
            admission: Mutex::new(Admission::new(settings.admit_per_second)),
            settings: Arc::new(settings),
            clock,
            table: RwLock::default(),
            events,
            backlog: Mutex::default(),
            capacity: Arc::default(),
            tokens_changed: Notify::new(),
            draining: Mutex::new(false),
            turned_away: Mutex::default(),
            holdings: OnceLock::new(),
            pruned: Mutex::default(),
            adrift: Mutex::new(false),
        };
        (Arc::new(hub), receiver)
    }

    /// Timings and limits.
    pub fn settings(&self) -> &Arc<HubSettings> {
        &self.settings
    }

    /// Where whoever drives a session sends its events.
    pub fn events(&self) -> &EventSender {
        &self.events
    }

    /// Told when slots may have become free.
    pub fn capacity_changed(&self) -> Arc<Notify> {
        self.capacity.clone()
    }

    /// Names whose memory saves a claim from looking through all open runs; the first one counts.
    pub fn know_holdings(&self, holdings: Arc<dyn Holdings>) {
        let _ = self.holdings.set(holdings);
    }

    /// All runs that may be with the executor besides those that it lists itself; None when they
    /// must be looked for.
    pub fn may_hold(&self, app: AppId, executor: &str) -> Option<Vec<RunId>> {
        self.holdings.get()?.may_hold(app, executor)
    }

    fn moment(&self) -> Moment {
        Moment { wall: self.clock.now(), elapsed: self.clock.elapsed() }
    }

    /// The present instant.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    // ---- for dispatch ------------------------------------------------------------------------

    /// Executors of the app that may take a run of the handler now, in order of registration: they
    /// offer it, their labels match, they are not cordoned, draining, suspect, nor have the handler
    /// paused. Those without a free slot are among them, with `free` 0.
    pub fn candidates(
        &self,
        app: AppId,
        handler: &str,
        labels: &BTreeMap<String, String>,
    ) -> Vec<Candidate> {
        let heard_after = self.clock.elapsed().saturating_sub(self.settings.silence());
        let table = self.table.read();
        let links = table.of_app(app);
        links.filter_map(|link| candidate(link, handler, labels, heard_after)).collect()
    }

    /// Whether any connected executor of the app offers the handler, able to take it or not.
    pub fn offers(&self, app: AppId, handler: &str) -> bool {
        self.table.read().of_app(app).any(|link| link.session.lock().offers(handler))
    }

    /// Why an executor takes no run of the handler now, as a predicate; None when it does.
    pub fn hindrance(
        &self,
        app: AppId,
        executor: &str,
        handler: &str,
        labels: &BTreeMap<String, String>,
    ) -> Option<&'static str> {
        let Some(link) = self.current(app, executor) else { return Some("is not connected") };
        link.session.lock().hindrance(handler, labels)
    }

    /// Executors of the app that offer the handler and carry the labels, whether or not they take
    /// runs now.
    pub fn offering(
        &self,
        app: AppId,
        handler: &str,
        labels: &BTreeMap<String, String>,
    ) -> Vec<Arc<str>> {
        let table = self.table.read();
        let links = table.of_app(app);
        let fitting = links.filter(|link| link.session.lock().fits(handler, labels));
        fitting.map(|link| link.origin.executor.clone()).collect()
    }

    /// Takes `n` credits before a dispatch is written; false when the session is gone or has fewer.
    pub fn reserve(&self, app: AppId, executor: &str, epoch: u64, handler: &str, n: u32) -> bool {
        let Some(link) = self.link(app, executor, epoch) else { return false };
        let mut session = link.session.lock();
        // Reserved runs will need room in the outbox too.
        link.outbox.room_for_runs() >= n as usize && session.reserve_own(handler, n)
    }

    /// Gives credits back that no dispatch came of.
    pub fn unreserve(&self, app: AppId, executor: &str, epoch: u64, handler: &str, n: u32) {
        if let Some(link) = self.link(app, executor, epoch) {
            link.session.lock().unreserve(handler, n);
            self.capacity.notify_one();
        }
    }

    /// Sends a written dispatch on one reserved credit; its command number is filled in here.
    /// False: the session is gone, so the run was never sent, and an event says so.
    pub fn send_run(&self, app: AppId, executor: &str, epoch: u64, command: RunCommand) -> bool {
        let Some(attempt) = wire::attempt_ref(command.r#ref.as_ref()) else { return false };
        if let Some(link) = self.link(app, executor, epoch) {
            let sent = self.step(&link, |session, at, out| session.run(attempt, command, at, out));
            if sent.0 {
                return true;
            }
        }
        self.not_sent(app, &executor.into(), epoch, attempt);
        false
    }

    /// Asks an executor to stop an attempt, again and again until it answers; without an answer in
    /// `kill_ack_evict` its session is closed. False when it has no session here.
    pub fn kill(&self, app: AppId, executor: &str, kill: Kill) -> bool {
        let Some(link) = self.current(app, executor) else { return false };
        self.step(&link, |session, at, out| session.kill(&kill, at, out)).0
    }

    /// Kills a CANCELING run's attempt, with the reason, grace and words of its row. False when its
    /// executor has no session here: the next Welcome names the kill.
    pub fn kill_run(&self, run: &OpenRun, spec: Option<&JobSpec>) -> bool {
        let Some(executor) = &run.executor else { return false };
        let kill = Kill {
            attempt: run.attempt_ref(),
            reason: run.kill_reason.unwrap_or(KillReason::User),
            grace: run.kill_grace.unwrap_or(spec.map_or(KILL_GRACE_DEFAULT, JobSpec::kill_grace)),
            message: run.message.clone(),
        };
        self.kill(run.app, executor, kill)
    }

    /// When an executor was last told to come back later, since this node had no room for it or
    /// took no more sessions just then.
    pub fn turned_away_at(&self) -> Option<DateTime<Utc>> {
        *self.turned_away.lock()
    }

    /// How this node stands with an executor.
    pub fn contact(&self, app: AppId, executor: &str) -> Contact {
        let table = self.table.read();
        if let Some(link) = table.get(app, executor) {
            return Contact::Connected { epoch: link.origin.epoch };
        }
        table.parted_since(app, executor).map_or(Contact::Unknown, Contact::Since)
    }

    // ---- for results -------------------------------------------------------------------------

    /// Tells an executor that it may forget a result.
    pub fn ack_result(&self, app: AppId, executor: &str, attempt: AttemptRef, status: AckStatus) {
        if let Some(link) = self.current(app, executor) {
            self.step(&link, |session, _, out| session.ack_result(attempt, status, out));
        }
    }

    /// Tells an executor how far its log is stored.
    pub fn ack_logs(&self, app: AppId, executor: &str, attempt: AttemptRef, through_seq: u64) {
        if let Some(link) = self.current(app, executor) {
            self.step(&link, |session, _, out| session.ack_logs(attempt, through_seq, out));
        }
    }

    /// Whether an attempt dispatched on a session that is still open here was certainly never sent:
    /// only this process could have sent it, and its session knows nothing of it.
    pub fn never_sent(&self, app: AppId, executor: &str, epoch: u64, attempt: AttemptRef) -> bool {
        self.link(app, executor, epoch).is_some_and(|link| {
            let session = link.session.lock();
            // One that has just ended knows of nothing any more.
            !session.is_over() && !session.holds(attempt)
        })
    }

    /// An attempt that the executor runs and the store confirms.
    pub fn adopt(&self, origin: &Origin, run: &OpenRun) {
        if let Some(link) = self.link(origin.app, &origin.executor, origin.epoch) {
            self.step(&link, |session, at, _| session.adopt(run, at));
        }
    }

    // ---- for operators -----------------------------------------------------------------------

    /// No new runs for an executor, or new runs again; nothing happens when it has no session here.
    pub fn set_cordon(&self, app: AppId, executor: &str, cordoned: bool) {
        if let Some(link) = self.current(app, executor) {
            link.session.lock().set_cordon(cordoned);
            self.capacity.notify_one();
        }
    }

    /// Ends an executor's session; it may dial again. False when it has none here.
    pub fn disconnect(&self, app: AppId, executor: &str, message: &str) -> bool {
        let Some(link) = self.current(app, executor) else { return false };
        self.finish(&link, End::Disconnected(message.to_owned()));
        true
    }

    /// Ends the session of an executor row if it is older than the epoch. `instance_id` is the newer
    /// one's process, if that can be told.
    pub fn supersede(&self, row: i64, epoch: u64, instance_id: Option<&str>) {
        let Some(link) = self.older(row, epoch) else { return };
        let other = instance_id.is_some_and(|id| link.session.lock().instance_id() != id);
        self.give_way(&link, if other { End::Superseded } else { End::Moved });
    }

    /// The session of an executor row if it is older than the epoch.
    pub(super) fn older(&self, row: i64, epoch: u64) -> Option<Arc<Link>> {
        let link = self.table.read().by_row(row).cloned();
        link.filter(|link| link.origin.epoch < epoch)
    }

    /// Sessions now.
    pub fn sessions(&self) -> usize {
        self.table.read().len()
    }

    /// Asks all executors to move to another node, and takes no new sessions from now on.
    pub fn drain_all(
        &self,
        reason: scheduler_drain::Reason,
        reconnect_within: Duration,
        closes_after: Duration,
    ) {
        self.close_door();
        self.drain_some(usize::MAX, reason, reconnect_within, closes_after);
    }

    /// Takes no new sessions from now on.
    pub fn close_door(&self) {
        *self.draining.lock() = true;
    }

    /// Asks up to `count` executors to move to another node.
    pub fn drain_some(
        &self,
        count: usize,
        reason: scheduler_drain::Reason,
        reconnect_within: Duration,
        closes_after: Duration,
    ) {
        let links = self.all();
        let links = links.iter().filter(|link| !link.session.lock().is_draining());
        for link in links.take(count) {
            self.step(link, |session, at, out| {
                session.drain(reason, reconnect_within, closes_after, at, out);
            });
        }
    }

    /// Asks all executors to move while the cluster goes on without this node, and lets them stay
    /// when it is seen again. None of their sessions is closed over it: where the database is away
    /// for all nodes, no other takes them.
    fn look_after_the_adrift(&self, elapsed: Duration) {
        let (was, is) = {
            let mut adrift = self.adrift.lock();
            let was = *adrift;
            *adrift = self.settings.cluster.read().is_adrift_at(elapsed, was);
            (was, *adrift)
        };
        if !(was || is) || *self.draining.lock() {
            return;
        }
        let sessions = self.sessions();
        if is && !was {
            tracing::warn!(
                sessions,
                "the database has not seen this node for 5 s: executors are asked to move to others"
            );
        }
        if is {
            // Each time anew: of those asked before nobody is asked again.
            let reason = scheduler_drain::Reason::Rebalance;
            self.drain_some(usize::MAX, reason, MOVE_WITHIN, ADRIFT_CLOSES_AFTER);
        } else {
            tracing::info!(sessions, "the database sees this node again: executors may stay");
            for link in self.all() {
                self.step(&link, |session, _, out| session.stay(out));
            }
        }
    }

    /// Ends all sessions.
    pub fn close_all(&self) {
        for link in self.all() {
            self.finish(&link, End::Drained);
        }
    }

    fn all(&self) -> Vec<Arc<Link>> {
        self.table.read().all()
    }
}

fn candidate(
    link: &Arc<Link>,
    handler: &str,
    labels: &BTreeMap<String, String>,
    heard_after: Duration,
) -> Option<Candidate> {
    let mut session = link.session.lock();
    let offered = session.offer(handler, labels)?;
    let free = session.left_to_own(offered);
    let slots_left = session.free_slots();
    let slots_left = session.left_to_own(slots_left);
    // Where nothing is free there is no use in asking for room.
    let room = if free == 0 { 0 } else { link.outbox.room_for_runs() };
    let room = u32::try_from(room).unwrap_or(u32::MAX);
    Some(Candidate {
        row: link.origin.row,
        name: link.origin.executor.clone(),
        epoch: link.origin.epoch,
        node: None,
        free: free.min(room),
        room: slots_left.min(room),
        used: session.slots().saturating_sub(session.free_slots()),
        slots: session.slots(),
        cpu: session.vitals().cpu.unwrap_or(0.0),
        silent: session.heard().elapsed < heard_after,
    })
}
