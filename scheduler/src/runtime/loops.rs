//! The background loops, and what they hear of each other.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use tokio::{
    sync::{
        Notify,
        broadcast::{
            Receiver,
            error::{RecvError, TryRecvError},
        },
    },
    time::{Interval, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use super::{progress::Progress, shed::Shedding};
use crate::{
    alarm::courier::{self, Courier},
    board::Board,
    clock::Clock,
    dispatch::handed::{self, HandedRuns},
    fleet::{self, Exchange, Fleet},
    follow::Follower,
    hub::{Holdings, Hub},
    model::{
        ids::{AppId, AttemptRef, JobId, RunId},
        job::JobSpec,
        run::{OpenRun, RunState},
    },
    node::Presence,
    owner::{Nudge, Owner, SWEEP_EVERY},
    results::{RunListener, Specs},
    store::{FOLLOW_BATCH_MAX, SharedStore, Topic, cluster::mark_of, ops::Retention},
    telemetry::metrics,
    trigger::Upkeep,
};

/// How often it is looked whether this node's row is to be written: when its partitions changed.
const PRESENCE_LOOK: Duration = Duration::from_secs(1);
/// It is written anyhow after so many looks: 5 s.
const PRESENCE_EVERY: u32 = 5;
/// The offset to the database's clock is measured after so many looks: 30 s.
const CLOCK_EVERY: u32 = 30;
/// Counting open runs reads them all, and what is left of ended ones while somebody holds an old snapshot:
/// it may take one part of the time in so many.
const COUNTING_PART: u32 = 100;
/// Jobs change by themselves, and their next fire times are shown anew, this often.
const UPKEEP_EVERY: Duration = Duration::from_secs(2);
/// What is past its retention is removed this often, sooner while there is more.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Jobs that changed are read in at once, and again not before this time has passed by the machine's
/// clock: of very many changes, each would otherwise be read by itself. Where it matters before, the store
/// refuses the job's runs.
const RELOAD_PAUSE: Duration = Duration::from_millis(20);
/// Pause between two steps of pruning, so that it never crowds out scheduling.
const PRUNE_PAUSE: Duration = Duration::from_millis(200);
/// The board as results know it.
pub(super) struct Known(pub(super) Arc<Board>);

impl Specs for Known {
    fn spec(&self, run: &OpenRun) -> Option<Arc<JobSpec>> {
        self.0.spec_of(run.id)
    }
}

impl RunListener for Known {
    fn ended(&self, run: RunId, _job: JobId, state: RunState, at: DateTime<Utc>) {
        metrics().ended(state.as_str());
        self.0.ended(run, at);
    }

    fn put_back(&self, run: OpenRun) {
        if run.state == RunState::RetryWait {
            metrics().retries.inc();
        }
        self.0.put_back(run);
    }

    fn acked(&self, attempt: AttemptRef, at: DateTime<Utc>) {
        self.0.acked(attempt, at);
    }

    fn is_elsewhere(&self, run: RunId, job: Option<JobId>) -> bool {
        match job {
            Some(job) => !self.0.holds(job.partition()),
            None => !self.0.is_known(run),
        }
    }
}

impl Holdings for Known {
    fn may_hold(&self, app: AppId, executor: &str) -> Option<Vec<RunId>> {
        self.0.may_hold(app, executor)
    }
}

/// How long things are kept.
pub(super) struct Keep {
    /// Runs, with their alarms, and logs.
    pub(super) runs: Retention,
    /// Events of the audit log.
    pub(super) audit: Duration,
    /// Sign-ins that are not used.
    pub(super) idle: Duration,
}

/// What the loops work on.
#[derive(Clone)]
pub(super) struct Loops {
    pub(super) store: SharedStore,
    pub(super) hub: Arc<Hub>,
    pub(super) fleet: Arc<Fleet>,
    pub(super) board: Arc<Board>,
    pub(super) clock: Arc<dyn Clock>,
    /// Nodes joined or died.
    pub(super) told: Arc<Notify>,
    /// This node was asked to give its work away.
    pub(super) drained: CancellationToken,
    /// This node's id.
    pub(super) node: Arc<str>,
}

impl Loops {
    pub(super) async fn owner(
        self,
        mut owner: Owner,
        progress: Arc<Progress>,
        stop: CancellationToken,
    ) {
        let mut hints = self.store.hints();
        let capacity = self.hub.capacity_changed();
        let mut nudge = Nudge::all();
        let mut pace = reload_pace();
        let mut reload = true;
        let mut left = false;
        'rounds: loop {
            if self.drained.is_cancelled() && !std::mem::replace(&mut left, true) {
                owner.leave(self.clock.now()).await;
            }
            let wake = owner.tick(self.clock.now(), Nudge { jobs: reload, ..nudge }).await;
            progress.round(self.clock.elapsed(), owner.fault());
            nudge = Nudge { jobs: nudge.jobs && !reload, ..Nudge::default() };
            reload = false;
            // What failed waits for its time: news would only make it be tried more often, and to give
            // up what was held is news itself.
            let failing = owner.fault().is_some();
            loop {
                let gather = owner.gathering();
                let gathered = gather.is_zero();
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break 'rounds,
                    // Before what a busy owner always has to do.
                    _ = pace.tick(), if nudge.jobs && !failing => {
                        reload = true;
                        break;
                    }
                    hint = hints.recv() => self.take_hint(hint, &mut nudge),
                    () = self.told.notified() => nudge.partitions = true,
                    () = self.drained.cancelled(), if !left => break,
                    () = self.clock.wait(gather), if !gathered => {}
                    () = capacity.notified(), if gathered && !failing => break,
                    () = self.board.changed(), if gathered && !failing => break,
                    () = self.clock.wait_until(wake), if gathered => break,
                }
                self.drain_hints(&mut hints, &mut nudge);
                if nudge.is_urgent() && !failing {
                    break;
                }
            }
            self.drain_hints(&mut hints, &mut nudge);
        }
        owner.leave(self.clock.now()).await;
    }

    /// Exchanges news with the other nodes.
    pub(super) async fn exchange(
        self,
        mut exchange: Exchange,
        mut shedding: Shedding,
        stop: CancellationToken,
    ) {
        let mut hints = self.store.hints();
        loop {
            match exchange.step().await {
                Ok(news) => {
                    if news.changed {
                        self.told.notify_one();
                    }
                    shedding.heed(&news, self.clock.elapsed()).await;
                }
                Err(fault) => {
                    metrics().store_errors.inc();
                    tracing::debug!(%fault, "no news were exchanged with other nodes");
                }
            }
            let alone = self.fleet.is_alone();
            let pause = if alone { fleet::ALONE_EVERY } else { fleet::EXCHANGE_EVERY };
            let joined = hint_of(&mut hints, |topic| alone && topic == Topic::Partitions);
            tokio::select! {
                () = stop.cancelled() => return,
                () = joined => {}
                () = self.clock.wait(pause) => {}
            }
        }
    }

    /// Sends runs that the owners on other nodes have handed to this one.
    pub(super) async fn handed(self, mut handed: HandedRuns, stop: CancellationToken) {
        let mut hints = self.store.hints();
        let own = mark_of(&self.node);
        let mut told = true;
        loop {
            let sent = match told {
                true => handed.step().await,
                false => handed.send().await,
            };
            if let Err(fault) = sent {
                metrics().store_errors.inc();
                tracing::debug!(%fault, "runs that were handed over wait to be sent");
            }
            let waits = handed.any_waiting();
            let pause = if waits { handed::LOOK_EVERY } else { SWEEP_EVERY };
            told = tokio::select! {
                () = stop.cancelled() => return,
                () = hint_of(&mut hints, |topic| topic == Topic::Handed { node: own }) => true,
                () = self.clock.wait(pause) => !waits && !self.fleet.is_alone(),
            };
        }
    }

    /// Follows up the ends of runs, at once when told of one.
    pub(super) async fn follow(self, mut follower: Follower, stop: CancellationToken) {
        let mut hints = self.store.hints();
        let mut failing = false;
        loop {
            match follower.step(self.clock.now()).await {
                Ok(FOLLOW_BATCH_MAX) if !stop.is_cancelled() => continue,
                Ok(_) => failing = false,
                Err(fault) => {
                    metrics().store_errors.inc();
                    // The first of a row is told; the rest would say the same every second.
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%fault, "ends of runs wait to be followed up");
                    }
                }
            }
            let told = async {
                // While the store fails, its hints would only make it be tried more often.
                if failing {
                    std::future::pending().await
                }
                while !matches!(hints.recv().await, Ok(Topic::Ends) | Err(_)) {}
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = told => {}
                () = self.clock.wait(SWEEP_EVERY) => {}
            }
        }
    }

    /// Changes jobs that change by themselves.
    pub(super) async fn upkeep(self, upkeep: Upkeep, stop: CancellationToken) {
        while self.pause(UPKEEP_EVERY, &stop).await {
            if let Err(fault) = upkeep.step(self.clock.now()).await {
                metrics().store_errors.inc();
                tracing::debug!(%fault, "jobs that change by themselves wait for it");
            }
        }
    }

    pub(super) async fn presence(self, mut presence: Presence, stop: CancellationToken) {
        let (mut round, mut count_at) = (0_u32, Duration::ZERO);
        while self.pause(PRESENCE_LOOK, &stop).await {
            round = round.wrapping_add(1);
            let drained = self.drained.is_cancelled() && presence.drain();
            let changed = drained || presence.holds_others(&self.board);
            if !changed && !round.is_multiple_of(PRESENCE_EVERY) {
                continue;
            }
            let measured = if round.is_multiple_of(CLOCK_EVERY) {
                presence.measure_clock().await
            } else {
                Ok(())
            };
            let written = presence.refresh(&self.board, self.hub.sessions()).await;
            if let Err(fault) = measured.and(written) {
                metrics().store_errors.inc();
                tracing::debug!(%fault, "the node's row could not be written");
            }
            self.show(&presence).await;
            let begun = self.clock.elapsed();
            if begun >= count_at {
                self.show_open().await;
                let ended = self.clock.elapsed();
                count_at = ended + (ended - begun) * COUNTING_PART;
            }
        }
    }

    /// Sets the gauges, but those of open runs.
    async fn show(&self, presence: &Presence) {
        let now = self.clock.now();
        let gauges = metrics();
        let (jobs, _) = self.board.sizes();
        gauges.jobs.set(i64::try_from(jobs).unwrap_or(i64::MAX));
        gauges.sessions.set(i64::try_from(self.hub.sessions()).unwrap_or(i64::MAX));
        let partitions = self.board.partitions().len();
        gauges.partitions.set(i64::try_from(partitions).unwrap_or(i64::MAX));
        let age = self.board.oldest_waiting().map(|due| metrics::seconds(now - due));
        gauges.queue_age.set(age.unwrap_or(0.0));
        presence.show();
        if let Ok(owed) = self.store.count_owed().await {
            gauges.alarms_owed.set(i64::try_from(owed.owed).unwrap_or(i64::MAX));
            let age = owed.oldest.map(|since| metrics::seconds(now - since));
            gauges.alarm_age.set(age.unwrap_or(0.0));
        }
    }

    /// Sets the gauges of open runs.
    async fn show_open(&self) {
        if let Ok(open) = self.store.count_open(self.clock.now()).await {
            for (state, count) in [
                ("QUEUED", open.queued),
                ("SCHEDULED", open.scheduled),
                ("RUNNING", open.running),
                ("RETRY_WAIT", open.retry_wait),
            ] {
                let gauge = metrics().open_runs.get_or_create(&metrics::StateLabel { state });
                gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }

    /// Delivers alarms: at once after a hint, and what is due within each sweep.
    pub(super) async fn courier(self, mut courier: Courier, stop: CancellationToken) {
        let mut hints = self.store.hints();
        loop {
            if let Err(fault) = courier.tick(self.clock.now()).await {
                metrics().store_errors.inc();
                tracing::debug!(%fault, "alarms could not be claimed");
            }
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                ended = courier.ended() => Some(ended),
                () = hint_of(&mut hints, |topic| topic == Topic::Alarms) => None,
                () = self.clock.wait(courier::SWEEP_EVERY) => None,
            };
            if let Some(ended) = ended {
                courier.record(ended).await;
            }
        }
        courier.stop().await;
    }

    pub(super) async fn prune(self, keep: Keep, stop: CancellationToken) {
        loop {
            let now = self.clock.now();
            for (what, removed) in [
                ("alarms", self.store.prune_alarms(now - keep.runs.runs).await),
                ("audit events", self.store.prune_audit(now - keep.audit).await),
                ("sign-ins", self.store.prune_sign_ins(now - keep.idle, now).await),
            ] {
                if let Err(fault) = removed {
                    metrics().store_errors.inc();
                    tracing::debug!(%fault, what, "what is old could not be removed");
                }
            }
            let wait = match self.store.prune(&keep.runs, now).await {
                Ok(true) => PRUNE_PAUSE,
                Ok(false) => PRUNE_EVERY,
                Err(fault) => {
                    metrics().store_errors.inc();
                    tracing::debug!(%fault, "old runs could not be removed");
                    PRUNE_EVERY
                }
            };
            if !self.pause(wait, &stop).await {
                return;
            }
        }
    }

    /// Waits; false when it is time to stop.
    async fn pause(&self, wait: Duration, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = stop.cancelled() => false,
            () = self.clock.wait(wait) => true,
        }
    }
}

/// Ticks at once, and then no sooner than [`RELOAD_PAUSE`] after it was last asked.
#[allow(
    clippy::disallowed_methods,
    reason = "it spares work and decides nothing: changes are read in also where a clock stands still"
)]
fn reload_pace() -> Interval {
    let mut pace = tokio::time::interval(RELOAD_PAUSE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}

/// Returns after a hint that is wanted, or when hints may have been lost.
async fn hint_of(hints: &mut Receiver<Topic>, wanted: impl Fn(Topic) -> bool) {
    loop {
        match hints.recv().await {
            Ok(topic) if wanted(topic) => return,
            Err(RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

impl Loops {
    /// Hints about partitions of other owners are none for this one.
    fn take_hint(&self, hint: Result<Topic, RecvError>, nudge: &mut Nudge) {
        match hint {
            Ok(Topic::Jobs(partition)) => nudge.jobs |= self.board.holds(partition),
            Ok(Topic::Inbox(partition)) => nudge.inbox |= self.board.holds(partition),
            Ok(Topic::Partitions) => nudge.partitions = true,
            Ok(Topic::Permits) => nudge.permits = true,
            Ok(_) | Err(RecvError::Closed) => {}
            Err(RecvError::Lagged(_)) => *nudge = Nudge::all(),
        }
    }

    fn drain_hints(&self, hints: &mut Receiver<Topic>, nudge: &mut Nudge) {
        loop {
            match hints.try_recv() {
                Ok(topic) => self.take_hint(Ok(topic), nudge),
                Err(TryRecvError::Lagged(n)) => self.take_hint(Err(RecvError::Lagged(n)), nudge),
                Err(_) => return,
            }
        }
    }
}
