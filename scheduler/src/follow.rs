//! What follows from the ends of runs: the runs of other jobs that they start, the ends of parents.
//!
//! Ends that somebody waits for lie in the store's table of events, written with the end itself.
//! Whichever node comes first takes a batch away together with what follows from it, in one
//! transaction, so that a crash at any moment leaves an end either to be followed up or done.

mod aside;

use std::{collections::HashMap, sync::Arc};

use chrono::{DateTime, Utc};

use crate::{
    alarm::raise::Raiser,
    board::Board,
    model::{
        alarm::NewAlarm,
        follow::Follow,
        ids::{JobId, RunId},
        job::{self, Job},
        run::{NewRun, RunExtra, TriggerKind},
    },
    store::{
        FOLLOW_BATCH_MAX, Result, SharedStore, StoreError,
        ops::{EndEvent, Followup, Settled},
    },
    telemetry::metrics,
};
use aside::Aside;

/// Follows ends up.
pub struct Follower {
    store: SharedStore,
    board: Arc<Board>,
    raiser: Raiser,
    aside: Aside,
}

/// What one batch of events has looked up already.
#[derive(Default)]
struct Seen {
    /// Jobs as they were at the revision that a run ran.
    ran: HashMap<(JobId, u64), Option<Job>>,
    /// Jobs by their resource name, as they are.
    named: HashMap<String, Option<Arc<Job>>>,
}

impl Follower {
    /// A follower of all ends that the store has, who tells the board of parents that ended.
    pub fn new(store: SharedStore, board: Arc<Board>, raiser: Raiser) -> Self {
        Self { store, board, raiser, aside: Aside::default() }
    }

    /// Follows up what waits, at most one batch; returns how many ends were taken in hand. As many
    /// as `FOLLOW_BATCH_MAX` mean that more may wait. An end that can't be followed up is set aside
    /// for a while.
    ///
    /// # Errors
    /// The store's. Nothing is lost: what was not settled is found again.
    pub async fn step(&mut self, now: DateTime<Utc>) -> Result<usize> {
        let limit = u32::try_from(FOLLOW_BATCH_MAX).unwrap_or(u32::MAX);
        let events = self.store.end_events(limit, &self.aside.waiting(now)).await?;
        if events.is_empty() {
            return Ok(0);
        }
        let mut seen = Seen::default();
        let mut raised = self.raise(&events).await?;
        let mut followups = Vec::with_capacity(events.len());
        let mut done = 0;
        for event in &events {
            let alarms = raised.remove(&event.run).unwrap_or_default();
            match self.followup(event, alarms, &mut seen, now).await {
                Ok(followup) => followups.push(followup),
                Err(fault) if fault.passes() => return Err(fault),
                Err(fault) => done += self.set_aside(event.seq, &fault, now),
            }
        }
        match self.settle(&followups, now).await {
            Ok(()) => done += followups.len(),
            Err(fault) if fault.passes() => return Err(fault),
            Err(fault) => {
                tracing::error!(%fault, "ends could not be followed up together; one by one now");
                done += self.one_by_one(&followups, now).await?;
            }
        }
        Ok(done)
    }

    /// The alarms that the ends raise, by run.
    async fn raise(&self, events: &[EndEvent]) -> Result<HashMap<RunId, Vec<NewAlarm>>> {
        let ends: Vec<_> = events.iter().map(|event| (event.run, event.app, event.state)).collect();
        match self.raiser.raise(&ends).await {
            Ok(raised) => Ok(raised),
            Err(fault) if fault.passes() => Err(fault),
            // What can't be read once can't be read later: the jobs must not wait for it.
            Err(fault) => {
                tracing::error!(%fault, ends = ends.len(), "alarms of ended runs can't be raised");
                Ok(HashMap::new())
            }
        }
    }

    async fn settle(&mut self, followups: &[Followup], now: DateTime<Utc>) -> Result<()> {
        let settled = self.store.settle_ends(followups, now).await?;
        for (parent, _) in &settled.parents {
            self.board.ended(*parent, now);
        }
        tell(followups, &settled);
        self.aside.settled(followups.iter().map(|followup| followup.seq));
        Ok(())
    }

    /// What can't be written must not keep the others waiting.
    async fn one_by_one(&mut self, followups: &[Followup], now: DateTime<Utc>) -> Result<usize> {
        let mut done = 0;
        for followup in followups {
            match self.settle(std::slice::from_ref(followup), now).await {
                Ok(()) => done += 1,
                Err(fault) if fault.passes() => return Err(fault),
                Err(fault) => done += self.set_aside(followup.seq, &fault, now),
            }
        }
        Ok(done)
    }

    /// Lets the others have their turn; 1, or 0 when too many wait like this already.
    fn set_aside(&mut self, seq: u64, fault: &StoreError, now: DateTime<Utc>) -> usize {
        let kept = self.aside.put(seq, now);
        tracing::error!(%fault, seq, kept, "an end can't be followed up; it is tried again later");
        usize::from(kept)
    }

    async fn followup(
        &self,
        event: &EndEvent,
        alarms: Vec<NewAlarm>,
        seen: &mut Seen,
        now: DateTime<Utc>,
    ) -> Result<Followup> {
        let starts = self.starts(event, seen, now).await?;
        let parent = event.extra.as_ref().and_then(|extra| extra.parent);
        Ok(Followup { seq: event.seq, starts, parent, alarms })
    }

    /// The runs of the jobs that the ended run's job names for such an end, one of each.
    async fn starts(
        &self,
        event: &EndEvent,
        seen: &mut Seen,
        now: DateTime<Utc>,
    ) -> Result<Vec<NewRun>> {
        let told = event.extra.as_ref().map(|extra| extra.follow.at_end(event.state));
        let told = told.unwrap_or_default();
        if !told.has(Follow::ON_SUCCESS) && !told.has(Follow::ON_FAILURE) {
            return Ok(Vec::new());
        }
        let Some(job) = self.job_that_ran(event, seen).await? else { return Ok(Vec::new()) };
        let mut starts: Vec<NewRun> = Vec::new();
        for name in job.spec.followers(event.state) {
            let Some(target) = self.target(name, seen).await? else {
                let (run, from) = (event.run, job.resource_name());
                tracing::info!(%run, from, name, "a job to be started is not there any more");
                continue;
            };
            if starts.iter().all(|run| run.job != target.id) {
                starts.push(chained(event, &job, &target, now));
            }
        }
        Ok(starts)
    }

    async fn job_that_ran(&self, event: &EndEvent, seen: &mut Seen) -> Result<Option<Job>> {
        let key = (event.job, event.revision);
        if let Some(known) = seen.ran.get(&key) {
            return Ok(known.clone());
        }
        let before = event.revision.saturating_add(1);
        let found = self.store.list_revisions(event.job, before, 1).await?;
        let job = found.into_iter().find(|job| job.revision == event.revision);
        seen.ran.insert(key, job.clone());
        Ok(job)
    }

    async fn target(&self, name: &str, seen: &mut Seen) -> Result<Option<Arc<Job>>> {
        if let Some(known) = seen.named.get(name) {
            return Ok(known.clone());
        }
        let Some((app, job)) = job::split_name(name) else { return Ok(None) };
        let found = match self.store.get_job(app, job).await {
            // One whose content can't be read has no handler.
            Ok(job) => (!job.spec.handler.is_empty()).then(|| Arc::new(job)),
            Err(StoreError::NotFound(_)) => None,
            Err(fault) => return Err(fault),
        };
        seen.named.insert(name.to_owned(), found.clone());
        Ok(found)
    }
}

/// Counts and logs the alarms that were raised.
fn tell(followups: &[Followup], settled: &Settled) {
    let mine = followups.iter().filter(|followup| settled.events.contains(&followup.seq));
    for alarm in mine.flat_map(|followup| &followup.alarms) {
        let condition = alarm.condition.as_str();
        metrics().alarm(condition);
        let (id, run, rule) = (alarm.id, &alarm.facts.run, &alarm.rule_name);
        tracing::info!(alarm = %id, run, rule, condition, "alarm raised");
    }
}

/// The run of `target` that the event starts. It carries the fire time of the run before it, so
/// that a chain works on one and the same date.
fn chained(event: &EndEvent, from: &Job, target: &Job, now: DateTime<Utc>) -> NewRun {
    let own_app = target.app_name == from.app_name;
    NewRun {
        id: RunId::chained(event.run, target.id, event.ended_at),
        job: target.id,
        app: target.app,
        revision: target.revision,
        trigger: TriggerKind::Chain,
        fire_at: event.fire_at,
        due_at: now,
        extra: Some(Box::new(RunExtra {
            caused_by: Some(event.run),
            caused_by_app: if own_app { String::new() } else { from.app_name.to_string() },
            follow: target.spec.follow(),
            ..RunExtra::default()
        })),
    }
}
