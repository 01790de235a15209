//! What ends by the clock: queue timeouts, run timeouts, runs of lost executors.

mod parents;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;

use crate::{
    board::Board,
    fleet::Reach,
    hub::Contact,
    model::{
        ids::{AppId, RunId},
        job::{DisconnectPolicy, JobSpec},
        run::{
            CODE_EXECUTOR_LOST, CODE_QUEUE_EXPIRED, CODE_TIMEOUT, Failure, KillReason, OpenRun,
            Outcome, RunState,
        },
        transition::{Event, Standing, Verdict, last_words, transition},
    },
    store::{
        OWNER_BATCH_MAX, Result, SharedStore,
        ops::{
            AttemptEnd, EndAnswer, EndRun, MarkCanceling, OpenRuns, PutBack, PutBackHow, StateSet,
        },
    },
};

/// The executor keeps the timeout itself; the scheduler waits this much longer before it kills, so
/// that the executor's own word comes first. Below the promised ± 1 s.
const TIMEOUT_SLACK: Duration = Duration::from_millis(500);
/// A dispatch of this age that no session knows of was never sent.
const UNSENT_AGE: Duration = Duration::from_secs(10);
/// A kill of this age is sent again.
const KILL_AGE: Duration = Duration::from_secs(10);
/// Sent runs older than this are verified now and then.
const VERIFY_AGE: Duration = Duration::from_secs(30);
/// Runs verified per sweep.
const VERIFY_MAX: usize = 1_000;

/// Executors that were told to come back later do so within this time: the longest wait between two
/// of their dials.
const COMES_BACK_WITHIN: TimeDelta = TimeDelta::seconds(30);
/// For so many times the grace after a takeover nobody is lost while others are turned away; then
/// a crowd that never ends holds up nothing any more.
const CROWDED_GRACES_MAX: u32 = 10;

/// How long executors may be out of contact.
#[derive(Clone, Copy, Debug)]
pub struct LostRules {
    /// Unless the job or the app says otherwise.
    pub lost_after: Duration,
    /// After a start, a takeover or a database outage nobody is lost before this has passed.
    pub takeover_grace: Duration,
}

/// Ends what the clock ends.
pub struct Janitor {
    store: SharedStore,
    board: Arc<Board>,
    reach: Arc<Reach>,
    rules: LostRules,
    /// The run that was verified last.
    verified: Mutex<Option<RunId>>,
}

/// What is to be written, gathered over a sweep.
#[derive(Default)]
struct Verdicts {
    ends: Vec<EndRun>,
    backs: Vec<PutBack>,
    kills: Vec<MarkCanceling>,
}

impl Janitor {
    /// A janitor for what the board holds.
    pub fn new(store: SharedStore, board: Arc<Board>, reach: Arc<Reach>, rules: LostRules) -> Self {
        Self { store, board, reach, rules, verified: Mutex::default() }
    }

    /// Looks at the runs whose deadline has passed.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn deadlines(&self, now: DateTime<Utc>) -> Result<()> {
        loop {
            let passed = self.board.take_deadlines(now, OWNER_BATCH_MAX);
            if passed.is_empty() {
                return Ok(());
            }
            let ids: Vec<RunId> = passed.iter().map(|(id, _)| *id).collect();
            let rows = self.store.open_runs(&ids).await?;
            let mut verdicts = Verdicts::default();
            for row in &rows {
                if passed.contains(&(row.id, row.fence))
                    && let Some(spec) = self.board.spec_of(row.id)
                {
                    self.judge_deadline(row, &spec, now, &mut verdicts);
                }
            }
            self.board.merge(&ids, OpenRuns { runs: rows, specs: Vec::new() }, now);
            self.write(verdicts, now).await?;
        }
    }

    fn judge_deadline(
        &self,
        row: &OpenRun,
        spec: &JobSpec,
        now: DateTime<Utc>,
        verdicts: &mut Verdicts,
    ) {
        if row.state == RunState::Queued {
            let since = self.board.queued_at(row.id).unwrap_or(row.waits_since());
            if spec.queue_timeout.is_some_and(|limit| since + limit <= now) {
                verdicts.ends.push(queue_expired(row, spec));
            }
            return;
        }
        // When it was really sent, and its ack before that is written, only the board knows.
        let known = self.board.run(row.id).filter(|run| run.fence == row.fence);
        let (acked_at, sent_at) =
            known.map_or((None, None), |run| (run.acked_at, run.dispatched_at));
        let begin = row.acked_at.or(acked_at).or(sent_at).or(row.dispatched_at);
        let (Some(timeout), Some(begin)) = (spec.timeout, begin) else {
            return;
        };
        let timed_out =
            row.state == RunState::Canceling && row.kill_reason == Some(KillReason::Timeout);
        let grace = spec.kill_grace();
        if timed_out {
            let end = begin + timeout + grace;
            if now < end {
                self.board.set_deadline(row.id, row.fence, end);
            } else if spec.disconnect_policy == DisconnectPolicy::Stop
                && !self.is_connected(row, now)
            {
                // Out of contact: only the loss of the executor proves that it has stopped.
            } else {
                let failure =
                    timeout_failure(timeout, "the executor did not end it within its kill grace");
                verdicts.apply(row, spec, &Event::GraceOver, failure, Outcome::TimedOut, now);
            }
        } else if matches!(row.state, RunState::Dispatched | RunState::Running) {
            let kill_at = begin + timeout + TIMEOUT_SLACK.min(grace);
            if now < kill_at {
                self.board.set_deadline(row.id, row.fence, kill_at);
            } else {
                verdicts.kills.push(MarkCanceling {
                    attempt: row.attempt_ref(),
                    from: StateSet::only(row.state),
                    reason: KillReason::Timeout,
                    grace: None,
                    message: format!("passed its timeout of {timeout:?}"),
                });
            }
        }
    }

    fn is_connected(&self, row: &OpenRun, now: DateTime<Utc>) -> bool {
        row.executor.as_ref().is_some_and(|executor| {
            let contact = self.reach.contact(row.app, executor, now);
            matches!(contact, Some(Contact::Connected { .. }))
        })
    }

    /// Since when an executor has been out of contact; None while it is not, or nobody can tell.
    fn away_since(
        &self,
        app: AppId,
        executor: &str,
        recovered_at: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        match self.reach.contact(app, executor, now)? {
            Contact::Connected { .. } => None,
            Contact::Since(at) => Some(at.max(recovered_at)),
            Contact::Unknown => Some(recovered_at),
        }
    }

    /// Gives up the runs of executors that have been out of contact for too long. `recovered_at`
    /// is when this owner began to hear executors again.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn lost(&self, now: DateTime<Utc>, recovered_at: DateTime<Utc>) -> Result<()> {
        let mut verdicts = Verdicts::default();
        let grace_ends = recovered_at + self.rules.takeover_grace;
        // Who waits to be admitted can't show that it lives.
        let crowded =
            self.reach.hub().turned_away_at().is_some_and(|at| now < at + COMES_BACK_WITHIN);
        if crowded && now < recovered_at + self.rules.takeover_grace * CROWDED_GRACES_MAX {
            return Ok(());
        }
        for (app, executor) in self.board.executors_in_use() {
            let Some(since) = self.away_since(app, &executor, recovered_at, now) else { continue };
            for sent in self.board.runs_on(app, &executor) {
                let patience =
                    self.board.lost_after(&sent.run, &sent.spec).unwrap_or(self.rules.lost_after);
                if now < (since + patience).max(grace_ends) {
                    continue;
                }
                let failure = Failure {
                    code: CODE_EXECUTOR_LOST.to_owned(),
                    message: format!(
                        "executor {executor} was out of contact for {patience:?} and is given up"
                    ),
                    ..Failure::default()
                };
                let rows = self.store.open_runs(&[sent.run.id]).await?;
                let Some(row) = rows.first() else {
                    self.board.ended(sent.run.id, now);
                    continue;
                };
                let event = Event::ExecutorLost;
                verdicts.apply(row, &sent.spec, &event, failure, Outcome::Lost, now);
            }
        }
        self.write(verdicts, now).await
    }

    /// Puts back runs whose dispatch was written but never sent, as when the answer of the database
    /// was lost on its way; those of executors elsewhere are handed over again. One that was sent on
    /// an earlier session of its executor is asked for.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn unsent(&self, now: DateTime<Utc>) -> Result<()> {
        let mut verdicts = Verdicts::default();
        for (app, executor) in self.board.executors_in_use() {
            let contact = self.reach.contact(app, &executor, now);
            let Some(Contact::Connected { epoch }) = contact else { continue };
            let node = self.reach.node_of(app, &executor);
            let runs = self.board.runs_on(app, &executor).into_iter().map(|sent| sent.run);
            for run in runs.filter(|run| is_unanswered(run, now)) {
                let (hub, attempt) = (self.reach.hub(), run.attempt_ref());
                if let Some(node) = &node {
                    self.reach.hand(node.clone(), attempt, true);
                } else if run.session_epoch < epoch {
                    hub.look_for(app, &executor, run.session_epoch, attempt);
                } else if hub.never_sent(app, &executor, epoch, attempt) {
                    verdicts.backs.push(PutBack {
                        attempt,
                        from: StateSet::only(RunState::Dispatched),
                        due_at: now,
                        message: "its dispatch was written but never sent".to_owned(),
                        how: PutBackHow::SameAttempt,
                    });
                }
            }
        }
        self.reach.hand_over(&self.store).await;
        self.write(verdicts, now).await
    }

    /// Asks the store about runs that have been under way for long: the end of some may have been
    /// written elsewhere. Kills that were asked for some time ago are sent again, should the first
    /// word have been lost between nodes; a session that has a kill lets it be.
    ///
    /// # Errors
    /// The store's; after any, the partitions must be taken anew.
    pub async fn verify(&self, now: DateTime<Utc>) -> Result<()> {
        let mut ids = self.board.under_way(now - VERIFY_AGE);
        ids.sort_unstable();
        {
            // Each time the next of them, so that all are asked for in the end.
            let mut verified = self.verified.lock();
            let from = ids.partition_point(|id| Some(*id) <= *verified);
            ids.rotate_left(from);
            ids.truncate(VERIFY_MAX);
            *verified = ids.last().copied();
        }
        let open = self.store.still_open(&ids).await?;
        for gone in ids.iter().filter(|id| !open.contains(id)) {
            self.board.ended(*gone, now);
        }
        for (run, spec) in self.board.killed(now - KILL_AGE) {
            self.reach.kill_run(&run, Some(&spec));
        }
        self.reach.hand_over(&self.store).await;
        Ok(())
    }

    async fn write(&self, verdicts: Verdicts, now: DateTime<Utc>) -> Result<()> {
        for chunk in verdicts.ends.chunks(OWNER_BATCH_MAX) {
            let answers = self.store.end_runs(chunk, now).await?;
            for (end, answer) in chunk.iter().zip(answers) {
                if let EndAnswer::Ended(job) = answer {
                    let job = self.board.job(job).map(|job| job.name.resource_name());
                    let (run, state) = (end.attempt.run, end.to.as_str());
                    tracing::warn!(%run, job, state, why = end.message, "run ended by the clock");
                }
                self.board.ended(end.attempt.run, now);
            }
        }
        for chunk in verdicts.backs.chunks(OWNER_BATCH_MAX) {
            let back = self.store.put_back(chunk, now).await?.len();
            tracing::warn!(runs = back, "attempts given up by the clock; their runs wait again");
        }
        for chunk in verdicts.kills.chunks(OWNER_BATCH_MAX) {
            self.store.mark_canceling(chunk, now).await?;
        }
        let backs = verdicts.backs.iter().map(|back| back.attempt.run);
        let kills = verdicts.kills.iter().map(|kill| kill.attempt.run);
        let touched: Vec<RunId> = backs.chain(kills).collect();
        if touched.is_empty() {
            return Ok(());
        }
        let runs = self.store.open_runs(&touched).await?;
        for run in runs.iter().filter(|run| run.state == RunState::Canceling) {
            let spec = self.board.spec_of(run.id);
            self.reach.kill_run(run, spec.as_deref());
        }
        self.reach.hand_over(&self.store).await;
        self.board.merge(&touched, OpenRuns { runs, specs: Vec::new() }, now);
        Ok(())
    }
}

impl Verdicts {
    /// Adds what the transition function says of the event.
    fn apply(
        &mut self,
        row: &OpenRun,
        spec: &JobSpec,
        event: &Event,
        failure: Failure,
        outcome: Outcome,
        now: DateTime<Utc>,
    ) {
        let standing = Standing {
            state: row.state,
            attempt: row.attempt,
            lost: row.lost,
            kill_reason: row.kill_reason,
        };
        let message = failure.message.clone();
        let end =
            AttemptEnd { outcome: Some(outcome), failure: Some(failure), ..AttemptEnd::default() };
        match transition(standing, &spec.retry, spec.lost_policy, event) {
            Verdict::End(to) => self.ends.push(EndRun {
                attempt: row.attempt_ref(),
                from: StateSet::only(row.state),
                to,
                end,
                output: None,
                output_truncated: false,
                message: last_words(row, to, message),
                missed: false,
            }),
            Verdict::RetryWait { lost } => {
                let wait = spec.retry.wait(row.attempt, row.lost, lost, rand::random());
                self.backs.push(PutBack {
                    attempt: row.attempt_ref(),
                    from: StateSet::only(row.state),
                    due_at: now + TimeDelta::from_std(wait).unwrap_or_default(),
                    message,
                    how: PutBackHow::NextAttempt { end, lost },
                });
            }
            _ => {}
        }
    }
}

/// Was dispatched a while ago, and nobody has acknowledged it.
fn is_unanswered(run: &OpenRun, now: DateTime<Utc>) -> bool {
    run.state == RunState::Dispatched && run.dispatched_at.is_some_and(|at| at < now - UNSENT_AGE)
}

fn queue_expired(row: &OpenRun, spec: &JobSpec) -> EndRun {
    let waited = spec.queue_timeout.unwrap_or_default();
    let why = if row.message.is_empty() { "no executor took it" } else { &row.message };
    EndRun {
        attempt: row.attempt_ref(),
        from: StateSet::only(RunState::Queued),
        to: RunState::Failed,
        end: AttemptEnd {
            failure: Some(Failure {
                code: CODE_QUEUE_EXPIRED.to_owned(),
                message: format!("still queued after {waited:?}: {why}"),
                ..Failure::default()
            }),
            ..AttemptEnd::default()
        },
        output: None,
        output_truncated: false,
        message: String::new(),
        missed: false,
    }
}

fn timeout_failure(timeout: Duration, why: &str) -> Failure {
    Failure {
        code: CODE_TIMEOUT.to_owned(),
        message: format!("passed its timeout of {timeout:?}; {why}"),
        ..Failure::default()
    }
}
