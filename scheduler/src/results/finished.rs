//! Results of attempts. A success needs no look at the row: any run that was sent may succeed.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::{FutureExt as _, StreamExt as _, stream};

use super::Results;
use crate::{
    hub::{
        event::{AttemptResult, Origin},
        session::AckStatus,
    },
    model::{
        ids::AttemptRef,
        run::{Failure, Outcome, RunState},
    },
    store::{
        RESULT_BATCH_MAX,
        ops::{AttemptEnd, EndAnswer, EndRun, LateResult, StateSet},
    },
    telemetry::{metrics::metrics, runs},
};

/// Statements that end runs at the same time: while one waits for the disk, the database works on the
/// other.
const ENDS_MAX: usize = 2;
/// Failure code of a result whose text or output the store could not take.
const CODE_RESULT_NOT_STORED: &str = "RESULT_NOT_STORED";

/// A result that waits to be written.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub(super) origin: Arc<Origin>,
    pub(super) attempt: AttemptRef,
    pub(super) acked_at: Option<DateTime<Utc>>,
    pub(super) received_at: DateTime<Utc>,
    pub(super) result: Box<AttemptResult>,
}

impl Finished {
    /// What it says of its attempt.
    pub(super) fn end(&self, acked_at: Option<DateTime<Utc>>) -> AttemptEnd {
        AttemptEnd {
            outcome: Some(self.result.outcome),
            failure: self.result.failure.clone(),
            acked_at: acked_at.or(self.acked_at),
            started_at: self.result.started_at,
            duration: self.result.duration,
            last_log_seq: self.result.last_log_seq,
            by: Some(self.origin.executor_ref()),
        }
    }

    fn end_run(&self, from: StateSet, to: RunState) -> EndRun {
        EndRun {
            attempt: self.attempt,
            from,
            to,
            end: self.end(None),
            output: self.result.output.clone(),
            output_truncated: self.result.output_truncated,
            message: String::new(),
            missed: false,
        }
    }
}

impl Results {
    /// Ends runs whose attempt succeeded.
    pub(super) async fn end_succeeded(&mut self, succeeded: Vec<Finished>) {
        if succeeded.is_empty() {
            return;
        }
        let ends: Vec<EndRun> =
            succeeded.iter().map(|f| f.end_run(StateSet::SENT, RunState::Succeeded)).collect();
        let answers = self.end_runs(ends).await;
        self.answer_results(&succeeded, &answers, RunState::Succeeded).await;
    }

    /// Results whose row has moved on: were they written before, or are they late?
    pub(super) async fn settle_stale(&mut self, stale: Vec<Finished>) {
        if stale.is_empty() {
            return;
        }
        // No state at all matches, so this only asks.
        let nothing = StateSet(&[]);
        let ends: Vec<EndRun> =
            stale.iter().map(|finished| finished.end_run(nothing, RunState::Failed)).collect();
        let answers = self.end_runs(ends).await;
        self.answer_results(&stale, &answers, RunState::Failed).await;
    }

    async fn answer_results(
        &mut self,
        results: &[Finished],
        answers: &[Option<EndAnswer>],
        state: RunState,
    ) {
        let mut late = Vec::new();
        for (finished, answer) in results.iter().zip(answers) {
            let attempt = finished.attempt;
            let status = match answer {
                Some(EndAnswer::Ended(job)) => {
                    let now = self.clock.now();
                    self.refusals.forget(attempt.run);
                    self.listener.ended(attempt.run, *job, state, now);
                    self.changed(attempt.run, Some(*job));
                    runs::result(attempt, state.as_str(), finished.received_at, now);
                    AckStatus::Committed
                }
                Some(EndAnswer::Duplicate) => AckStatus::Duplicate,
                Some(EndAnswer::Stale) => {
                    let by = finished.origin.executor_ref();
                    late.push(LateResult { attempt, by, outcome: finished.result.outcome });
                    AckStatus::Stale
                }
                // Not written: the executor keeps it and brings it again.
                None => continue,
            };
            self.ack_result(&finished.origin, attempt, status);
        }
        if !late.is_empty() {
            let _ = self.persist("late results", || self.store.record_late(&late)).await;
        }
    }

    /// Ends runs. One answer per request, in order; None for what could not be written.
    pub(super) async fn end_runs(&self, ends: Vec<EndRun>) -> Vec<Option<EndAnswer>> {
        let batches: Vec<_> =
            ends.chunks(RESULT_BATCH_MAX).map(|batch| self.end_batch(batch).boxed()).collect();
        stream::iter(batches).buffered(ENDS_MAX).concat().await
    }

    /// All at once if the store takes them, else one by one so that a row the store can't take harms no
    /// other.
    async fn end_batch(&self, batch: &[EndRun]) -> Vec<Option<EndAnswer>> {
        let now = self.clock.now();
        metrics().batch("end", batch.len());
        if let Ok(written) = self.persist("ends of runs", || self.store.end_runs(batch, now)).await
        {
            let written = written.into_iter().map(Some);
            return written.chain(std::iter::repeat(None)).take(batch.len()).collect();
        }
        let mut answers = Vec::with_capacity(batch.len());
        for end in batch {
            answers.push(self.end_one(end.clone()).await);
        }
        answers
    }

    async fn end_one(&self, mut end: EndRun) -> Option<EndAnswer> {
        if self.stop.is_cancelled() {
            return None;
        }
        let now = self.clock.now();
        for stripped in [false, true] {
            if stripped {
                strip(&mut end);
            }
            let one = std::slice::from_ref(&end);
            if let Ok(answers) =
                self.persist("an end of a run", || self.store.end_runs(one, now)).await
            {
                return answers.first().copied();
            }
        }
        None
    }
}

/// Leaves the handler's words and output out: the state must not be lost over them.
fn strip(end: &mut EndRun) {
    end.output_truncated |= end.output.take().is_some();
    if end.end.outcome != Some(Outcome::Succeeded) {
        end.end.failure = Some(Failure {
            code: CODE_RESULT_NOT_STORED.to_owned(),
            message: "the store could not take what the executor reported".to_owned(),
            ..Failure::default()
        });
    }
}
