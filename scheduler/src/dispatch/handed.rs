//! Runs that owners on other nodes have sent to executors which are connected to this one.
//!
//! The owner has written the dispatch; here it is only sent. A run whose session is gone, or for
//! which no slot becomes free in time, goes back to its owner as never sent, which is true: nobody
//! else could have sent it. One that was handed over before may have been sent: its executor's
//! heartbeats tell what became of it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::Given;
use crate::{
    board::Sent,
    clock::Clock,
    hub::{Hub, handed::Slot},
    model::{
        ids::{AppId, JobId, RunId},
        job::Job,
        run::{OpenRun, RunState},
    },
    store::{
        Result, SharedStore,
        cluster::{HANDED_MAX, Handed},
    },
};

/// How long a run waits for a slot before it goes back.
const SLOT_WAIT: Duration = Duration::from_secs(1);
/// Pause between two looks for a slot.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Jobs that are remembered; all are forgotten when there are more.
const JOBS_KEPT_MAX: usize = 10_000;

/// Sends what was handed to this node.
pub struct HandedRuns {
    store: SharedStore,
    hub: Arc<Hub>,
    clock: Arc<dyn Clock>,
    node: String,
    waiting: Vec<Waiting>,
    /// How many wait for each executor, as its session was told.
    told: HashMap<(AppId, Arc<str>), u32>,
    /// Jobs at their revisions.
    jobs: HashMap<(JobId, u64), Arc<Job>>,
}

/// A run that is to be sent.
struct Waiting {
    run: OpenRun,
    /// Monotonic time of its arrival.
    since: Duration,
}

impl HandedRuns {
    /// For the node of that id.
    pub fn new(store: SharedStore, hub: Arc<Hub>, clock: Arc<dyn Clock>, node: &str) -> Self {
        let (waiting, told, jobs) = (Vec::new(), HashMap::new(), HashMap::new());
        Self { store, hub, clock, node: node.to_owned(), waiting, told, jobs }
    }

    /// Whether some wait for a slot.
    pub fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes what was handed over, sends what can be sent, and stops what is to stop.
    ///
    /// # Errors
    /// The store's: what was taken stays here and is looked at again.
    pub async fn step(&mut self) -> Result<()> {
        loop {
            let handed = self.store.take_handed(&self.node).await?;
            let more = handed.len() == HANDED_MAX;
            self.arrive(handed).await?;
            if !more {
                return self.send().await;
            }
        }
    }

    async fn arrive(&mut self, handed: Vec<Handed>) -> Result<()> {
        let (stop, send): (Vec<_>, Vec<_>) =
            handed.into_iter().partition(|handed| handed.run.state == RunState::Canceling);
        let since = self.clock.elapsed();
        let send = send.into_iter().filter(|handed| handed.run.state == RunState::Dispatched);
        let (again, new): (Vec<_>, Vec<_>) = send.partition(|handed| handed.again);
        again.iter().for_each(|handed| self.look_for(&handed.run));
        self.waiting.extend(new.into_iter().map(|Handed { run, .. }| Waiting { run, since }));
        if stop.is_empty() {
            return Ok(());
        }
        let ids: HashSet<RunId> = stop.iter().map(|handed| handed.run.id).collect();
        self.waiting.retain(|waiting| !ids.contains(&waiting.run.id));
        self.learn(stop.iter().map(|handed| &handed.run)).await?;
        for Handed { run, .. } in stop {
            let job = self.jobs.get(&(run.job, run.revision));
            self.hub.kill_run(&run, job.map(|job| &*job.spec));
        }
        Ok(())
    }

    /// Sends the runs for which there is a slot.
    ///
    /// # Errors
    /// The store's.
    pub async fn send(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        let learned = self.learn(waiting.iter().map(|waiting| &waiting.run)).await;
        let elapsed = self.clock.elapsed();
        let mut reserved = Vec::new();
        if learned.is_ok() {
            for waiting in waiting {
                match self.slot(&waiting) {
                    Slot::Reserved => reserved.push(waiting),
                    Slot::Busy if elapsed < waiting.since + SLOT_WAIT => self.waiting.push(waiting),
                    Slot::Busy | Slot::Gone => self.back(&waiting),
                    Slot::Held => {}
                }
            }
        } else {
            self.waiting = waiting;
        }
        self.tell_waiting();
        learned?;
        self.send_reserved(reserved, elapsed).await
    }

    fn slot(&self, Waiting { run, .. }: &Waiting) -> Slot {
        let job = self.jobs.get(&(run.job, run.revision));
        let (Some(executor), Some(job)) = (&run.executor, job) else { return Slot::Gone };
        let (handler, attempt) = (&job.spec.handler, run.attempt_ref());
        self.hub.reserve_handed(run.app, executor, run.session_epoch, handler, attempt)
    }

    fn back(&self, Waiting { run, .. }: &Waiting) {
        if let Some(executor) = &run.executor {
            self.hub.not_sent(run.app, executor, run.session_epoch, run.attempt_ref());
        }
    }

    fn look_for(&self, run: &OpenRun) {
        let executor = run.executor.as_deref().unwrap_or_default();
        self.hub.look_for(run.app, executor, run.session_epoch, run.attempt_ref());
    }

    /// Says to each session how many runs wait for it.
    fn tell_waiting(&mut self) {
        let mut counts: HashMap<(AppId, Arc<str>), u32> = HashMap::new();
        for Waiting { run, .. } in &self.waiting {
            if let Some(executor) = &run.executor {
                *counts.entry((run.app, executor.clone())).or_default() += 1;
            }
        }
        for key in self.told.keys().filter(|key| !counts.contains_key(key)) {
            self.hub.set_handed_waiting(key.0, &key.1, 0);
        }
        for (key, count) in &counts {
            self.hub.set_handed_waiting(key.0, &key.1, *count);
        }
        self.told = counts;
    }

    async fn send_reserved(&mut self, reserved: Vec<Waiting>, elapsed: Duration) -> Result<()> {
        if reserved.is_empty() {
            return Ok(());
        }
        let prepared = self.prepare(&reserved, elapsed).await;
        let now = self.clock.now();
        for waiting in &reserved {
            let run = &waiting.run;
            let executor = run.executor.as_deref().unwrap_or_default();
            let job = self.jobs.get(&(run.job, run.revision));
            let go = prepared.as_ref().ok().filter(|(_, stale)| !stale.contains(&run.id));
            let (Some((given, _)), Some(job)) = (go, job) else {
                let handler = job.map_or("", |job| &job.spec.handler);
                self.hub.unreserve(run.app, executor, run.session_epoch, handler, 1);
                continue;
            };
            let (spec, job) = (job.spec.clone(), job.job_name());
            let command = given.command(&Sent { run: run.clone(), spec, job }, now);
            self.hub.send_run(run.app, executor, run.session_epoch, command);
        }
        if let Err(fault) = prepared {
            self.waiting.extend(reserved);
            return Err(fault);
        }
        Ok(())
    }

    /// What the commands carry, and which of the runs that had to wait are not to be sent any more.
    async fn prepare(
        &self,
        reserved: &[Waiting],
        elapsed: Duration,
    ) -> Result<(Given, HashSet<RunId>)> {
        let waited = reserved.iter().filter(|waiting| waiting.since + LOOK_EVERY <= elapsed);
        let waited: Vec<RunId> = waited.map(|waiting| waiting.run.id).collect();
        let mut stale: HashSet<RunId> = waited.iter().copied().collect();
        if !waited.is_empty() {
            for row in self.store.open_runs(&waited).await? {
                let same = |waiting: &&Waiting| {
                    row.state == RunState::Dispatched
                        && waiting.run.attempt_ref() == row.attempt_ref()
                };
                if reserved.iter().any(|waiting| same(&waiting)) {
                    stale.remove(&row.id);
                }
            }
        }
        let runs = reserved.iter().map(|waiting| {
            let extra = waiting.run.extra.as_ref();
            (waiting.run.attempt_ref(), extra.and_then(|extra| extra.caused_by))
        });
        Ok((Given::load(&self.store, runs).await?, stale))
    }

    /// Makes sure that the jobs of the runs are known.
    async fn learn(&mut self, runs: impl Iterator<Item = &OpenRun>) -> Result<()> {
        let keys: HashSet<(JobId, u64)> = runs.map(|run| (run.job, run.revision)).collect();
        let known = |key: &&(JobId, u64)| self.jobs.contains_key(key);
        let mut unknown: Vec<(JobId, u64)> = keys.iter().filter(|k| !known(k)).copied().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        if self.jobs.len() + unknown.len() > JOBS_KEPT_MAX {
            self.jobs.clear();
            unknown = keys.into_iter().collect();
        }
        for job in self.store.load_revisions(&unknown).await? {
            self.jobs.insert((job.id, job.revision), Arc::new(job));
        }
        Ok(())
    }
}
