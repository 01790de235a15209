//! Events that depend on where a run stands: look, decide, write if it still stands there.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Results,
    decide::{Decision, What, decide},
};
use crate::{
    hub::{event::Origin, session::AckStatus},
    model::{
        ids::{AttemptRef, JobId, RunId},
        job::JobSpec,
        run::{OpenRun, RunState},
    },
    store::ops::{EndAnswer, EndRun, PutBack},
    telemetry::{metrics::metrics, runs},
};

/// How often a row may change between the look and the write before its event counts as stale.
const ROUNDS_MAX: usize = 4;

/// An event that waits to be decided.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) origin: Arc<Origin>,
    pub(super) attempt: AttemptRef,
    pub(super) what: What,
}

/// What a round of decisions leads to.
#[derive(Default)]
struct Round {
    ends: Vec<(Change, OpenRun, EndRun)>,
    put_backs: Vec<(Change, OpenRun, PutBack)>,
    stale: Vec<Change>,
}

impl Results {
    /// Decides and writes; a row that changed meanwhile is looked at again.
    pub(super) async fn apply_changes(&mut self, changes: Vec<Change>) {
        let mut waiting = changes;
        let mut stale = Vec::new();
        for _ in 0..ROUNDS_MAX {
            if waiting.is_empty() {
                break;
            }
            // One event per run and round: the next is judged by what the first led to.
            let mut runs = HashSet::new();
            let (now, later): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|change| runs.insert(change.attempt.run));
            let Some(mut round) = self.decide_all(now).await else { return };
            waiting = later;
            stale.append(&mut round.stale);
            waiting.extend(self.write_ends(round.ends).await);
            waiting.extend(self.write_put_backs(round.put_backs).await);
        }
        stale.append(&mut waiting);
        let late = stale.into_iter().filter_map(|change| match change.what {
            What::Result(finished) => Some(*finished),
            _ => None,
        });
        self.settle_stale(late.collect()).await;
    }

    async fn decide_all(&mut self, changes: Vec<Change>) -> Option<Round> {
        let ids: Vec<RunId> = changes.iter().map(|change| change.attempt.run).collect();
        let rows = self.persist("open runs", || self.store.open_runs(&ids)).await.ok()?;
        let specs = self.specs_of(&rows).await?;
        let rows: HashMap<RunId, OpenRun> = rows.into_iter().map(|run| (run.id, run)).collect();
        let now = self.clock.now();
        let mut round = Round::default();
        for mut change in changes {
            let row = rows.get(&change.attempt.run);
            let current = |run: &&OpenRun| {
                run.attempt_ref() == change.attempt
                    && run.was_sent_to(change.origin.app, &change.origin.executor)
            };
            let Some(run) = row.filter(current) else {
                round.stale.push(change);
                continue;
            };
            let spec = specs.get(&(run.job, run.revision));
            let default = Arc::default();
            let spec: &Arc<JobSpec> = spec.unwrap_or(&default);
            self.judge_refusal(&mut change, run, spec);
            let acked_at = self.acks.take(&change.origin, change.attempt);
            match decide(run, spec, &change.what, acked_at, now, rand::random()) {
                Decision::End(end) => round.ends.push((change, run.clone(), *end)),
                Decision::PutBack(put_back, after) => {
                    round.put_backs.push((change, *after, *put_back));
                }
                Decision::Stale => round.stale.push(change),
            }
        }
        Some(round)
    }

    /// Policies of the runs: from memory, else from the store.
    async fn specs_of(&self, rows: &[OpenRun]) -> Option<HashMap<(JobId, u64), Arc<JobSpec>>> {
        let mut specs = HashMap::new();
        let mut unknown = Vec::new();
        for run in rows {
            match self.specs.spec(run) {
                Some(spec) => {
                    specs.insert((run.job, run.revision), spec);
                }
                None => unknown.push((run.job, run.revision)),
            }
        }
        if unknown.is_empty() {
            return Some(specs);
        }
        unknown.sort_unstable();
        unknown.dedup();
        let jobs = self.persist("specs", || self.store.load_revisions(&unknown)).await.ok()?;
        specs.extend(jobs.into_iter().map(|job| ((job.id, job.revision), job.spec)));
        Some(specs)
    }

    /// Returns the changes whose row did not stand as it was seen.
    async fn write_ends(&mut self, ends: Vec<(Change, OpenRun, EndRun)>) -> Vec<Change> {
        if ends.is_empty() {
            return Vec::new();
        }
        let requests = ends.iter().map(|(_, _, end)| end.clone()).collect();
        let answers = self.end_runs(requests).await;
        let mut again = Vec::new();
        for ((change, run, end), answer) in ends.into_iter().zip(answers) {
            match answer {
                Some(EndAnswer::Ended(job)) => {
                    self.refusals.forget(run.id);
                    self.listener.ended(run.id, job, end.to, self.clock.now());
                    self.changed(run.id, Some(job));
                    self.committed(&change, end.to);
                }
                Some(EndAnswer::Duplicate | EndAnswer::Stale) => again.push(change),
                None => {}
            }
        }
        again
    }

    async fn write_put_backs(&mut self, rows: Vec<(Change, OpenRun, PutBack)>) -> Vec<Change> {
        if rows.is_empty() {
            return Vec::new();
        }
        let requests: Vec<PutBack> = rows.iter().map(|(_, _, put_back)| put_back.clone()).collect();
        let now = self.clock.now();
        metrics().batch("put_back", requests.len());
        let written = self.persist("runs put back", || self.store.put_back(&requests, now)).await;
        let Ok(written) = written else { return Vec::new() };
        let written: HashSet<AttemptRef> = written.into_iter().collect();
        let mut again = Vec::new();
        for (change, after, _) in rows {
            if written.contains(&change.attempt) {
                // First the ack: sent again, the attempt must find its old result forgotten.
                self.committed(&change, after.state);
                self.listener.put_back(after);
            } else {
                again.push(change);
            }
        }
        again
    }

    /// Answers a result that led its run to `state`.
    fn committed(&self, change: &Change, state: RunState) {
        if let What::Result(finished) = &change.what {
            let (received, now) = (finished.received_at, self.clock.now());
            runs::result(change.attempt, state.as_str(), received, now);
            self.ack_result(&change.origin, change.attempt, AckStatus::Committed);
        }
    }
}
