//! The verdict: what the runs' rows, the executors' ledgers and the schedules say of each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use clawjob_proto::v1::{Outcome, Run, RunState};
use prost_types::Timestamp;

use super::{
    APP,
    faults::{Done, Fault},
    jobs::{BY_HAND, Planned},
    ledger::Execution,
    witness::is_final,
};

/// Times on one machine's clock are compared with this much room, microseconds.
const ROOM_US: i64 = 1_000;
/// A fault may show in an executor's contact for so long after it has passed, microseconds.
const AFTERMATH_US: i64 = 20_000_000;

/// All that is known once everything has come to rest.
pub(super) struct Evidence {
    /// Rows of all runs, with their attempts.
    pub(super) runs: Vec<Run>,
    /// What executors did.
    pub(super) executions: Vec<Execution>,
    /// The jobs and when they were to fire.
    pub(super) planned: Vec<Planned>,
    /// What was done to the cluster.
    pub(super) faults: Vec<Done>,
    /// Names of runs that were started by hand.
    pub(super) by_hand: Vec<String>,
    /// Sessions of each executor.
    pub(super) sessions: u32,
    /// Executor processes that were killed, and when.
    pub(super) killed: Vec<(u32, i64)>,
}

/// What must not be.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// (job, fire time) without a row and without a recorded skip.
    pub(super) lost: BTreeSet<(String, i64)>,
    /// (job, fire time) with two rows, or an attempt that was executed twice.
    pub(super) doubled: BTreeSet<(String, i64)>,
    /// Everything else, in words.
    pub(super) other: Vec<String>,
}

impl Findings {
    /// Whether all is well.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty() && self.other.is_empty()
    }
}

impl Evidence {
    /// Compares everything with everything.
    #[must_use]
    pub(super) fn judge(&self) -> Findings {
        let mut findings = Findings::default();
        self.fire_times(&mut findings);
        self.ends(&mut findings);
        self.executed_once(&mut findings);
        self.one_at_a_time(&mut findings);
        self.given_up(&mut findings);
        self.started_by_hand(&mut findings);
        findings
    }

    /// Each (job, fire time) has one row or lies in one recorded stretch of skips, and the stretches
    /// count what they stand for.
    fn fire_times(&self, findings: &mut Findings) {
        let mut of_job: HashMap<&str, Vec<&Run>> = HashMap::new();
        for run in &self.runs {
            of_job.entry(&run.job).or_default().push(run);
        }
        for planned in &self.planned {
            let Some(fires) = &planned.fires else { continue };
            let job = format!("apps/{APP}/jobs/{}", planned.id);
            let runs = of_job.get(job.as_str()).map_or(&[][..], Vec::as_slice);
            let (stretches, alone): (Vec<&Run>, Vec<&Run>) =
                runs.iter().partition(|run| run.missed_count > 0);
            let mut rows: BTreeMap<i64, u32> = BTreeMap::new();
            for run in &alone {
                *rows.entry(us(run.fire_time)).or_default() += 1;
            }
            let skipped = |fire: &i64| {
                let within = |run: &&&Run| {
                    let last = us(run.missed_until_time).max(us(run.fire_time));
                    (us(run.fire_time)..=last).contains(fire)
                };
                stretches.iter().any(|run| within(&run))
            };
            let lost = fires.iter().filter(|fire| !rows.contains_key(fire) && !skipped(fire));
            findings.lost.extend(lost.map(|fire| (job.clone(), *fire)));
            let doubled = rows.iter().filter(|(_, count)| **count > 1);
            findings.doubled.extend(doubled.map(|(fire, _)| (job.clone(), *fire)));
            for fire in rows.keys().filter(|fire| fires.binary_search(fire).is_err()) {
                findings.other.push(format!("{job} fired at {fire}, which its schedule lacks"));
            }
            let missed: u64 = stretches.iter().map(|run| u64::from(run.missed_count)).sum();
            if alone.len() as u64 + missed != fires.len() as u64 {
                findings.other.push(format!(
                    "{job}: {} rows and {missed} recorded skips for {} fire times",
                    alone.len(),
                    fires.len()
                ));
            }
        }
    }

    /// Each run has an end.
    fn ends(&self, findings: &mut Findings) {
        for run in self.runs.iter().filter(|run| !is_final(run.state())) {
            let state = run.state().as_str_name();
            findings.other.push(format!("{} of {} is {state} for ever", run.name, run.job));
        }
    }

    /// What SUCCEEDED was executed, and no attempt was executed twice.
    fn executed_once(&self, findings: &mut Findings) {
        let mut attempts: HashMap<(&str, u32), u32> = HashMap::new();
        let mut well: BTreeSet<&str> = BTreeSet::new();
        for execution in &self.executions {
            let times = attempts.entry((&execution.run, execution.attempt)).or_default();
            *times += 1;
            if *times > 1 {
                findings.doubled.insert((execution.job.clone(), execution.fire));
            }
            if execution.well {
                well.insert(&execution.run);
            }
        }
        let succeeded = self.runs.iter().filter(|run| run.state() == RunState::Succeeded);
        for run in succeeded.filter(|run| !well.contains(id_of(run))) {
            findings.other.push(format!("{} SUCCEEDED and no executor did it", run.name));
        }
    }

    /// No two attempts of a run are under way at one moment.
    fn one_at_a_time(&self, findings: &mut Findings) {
        let mut of_run: HashMap<&str, &Execution> = HashMap::new();
        for execution in &self.executions {
            let before = of_run.insert(&execution.run, execution);
            let Some(before) = before else { continue };
            if before.ended.is_none_or(|ended| ended > execution.began + ROOM_US) {
                findings.other.push(format!(
                    "attempts {} and {} of {} were under way at one moment",
                    before.attempt, execution.attempt, execution.run
                ));
            }
        }
    }

    /// No attempt is given up while its executor lives and can be reached.
    fn given_up(&self, findings: &mut Findings) {
        let mut of_attempt: HashMap<(&str, u32), &Execution> = HashMap::new();
        for execution in &self.executions {
            of_attempt.insert((&execution.run, execution.attempt), execution);
        }
        for run in &self.runs {
            for attempt in run.attempts.iter().filter(|a| a.outcome() == Outcome::Lost) {
                let execution = of_attempt.get(&(id_of(run), attempt.number));
                if execution.is_some_and(|execution| self.was_reachable(execution)) {
                    findings.other.push(format!(
                        "attempt {} of {} was given up though {} lived",
                        attempt.number, run.name, attempt.executor
                    ));
                }
            }
        }
    }

    fn was_reachable(&self, execution: &Execution) -> bool {
        let until = execution.ended.unwrap_or(i64::MAX);
        let killed = self.killed.iter().any(|(pid, _)| *pid == execution.pid);
        let troubled = self.faults.iter().any(|done| {
            let of_executors = matches!(done.fault, Fault::ExecutorStop10 | Fault::ExecutorCut);
            // Who dials one scheduler only is out of contact when that one stands still for long.
            let of_its_node = self.sessions > 1 && done.fault == Fault::NodeStop60;
            (of_executors || of_its_node)
                && done.from < until
                && execution.began < done.until + AFTERMATH_US
        });
        !killed && !troubled
    }

    /// What was started by hand is there, once.
    fn started_by_hand(&self, findings: &mut Findings) {
        let job = format!("apps/{APP}/jobs/{BY_HAND}");
        let there = self.runs.iter().filter(|run| run.job == job).map(|run| run.name.as_str());
        let there: BTreeSet<&str> = there.collect();
        let wanted: BTreeSet<&str> = self.by_hand.iter().map(String::as_str).collect();
        for name in wanted.difference(&there) {
            findings.other.push(format!("{name} was started by hand and is gone"));
        }
        for name in there.difference(&wanted) {
            findings.other.push(format!("{name} was started by hand, but nobody did"));
        }
        if wanted.len() != self.by_hand.len() {
            findings.other.push("two calls by hand were answered with one run".to_owned());
        }
    }
}

/// A run's id: the last part of its name.
#[must_use]
pub(super) fn id_of(run: &Run) -> &str {
    run.name.rsplit('/').next().unwrap_or_default()
}

/// Microseconds since 1970.
#[must_use]
pub(super) fn us(at: Option<Timestamp>) -> i64 {
    at.map_or(0, |at| at.seconds * 1_000_000 + i64::from(at.nanos) / 1_000)
}

#[cfg(test)]
mod tests;
