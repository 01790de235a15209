//! Runs a handler without a scheduler, under the same rules: timeout, kill, abandonment, panics,
//! bounds.
//!
//! ```
//! use clawjob_executor::{Ctx, Failure, testing::run_handler};
//!
//! async fn double(n: u32, ctx: Ctx) -> Result<u32, Failure> {
//!     ctx.progress(1.0, "done");
//!     Ok(n * 2)
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let run = run_handler(double, 21).attempt(2).await;
//! assert_eq!(run.output::<u32>().unwrap(), 42);
//! assert_eq!(run.progress(), (Some(1.0), "done"));
//! # });
//! ```

use std::future::{Future, IntoFuture, pending};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use clawjob_proto::v1::{self, LogRecord};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::ctx::{Ctx, Shared, StopReason};
use crate::engine::{Action, Ending, Engine, Key};
use crate::failure::{Failure, code};
use crate::handler::{Entry, HandlerOptions, JSON};
use crate::log_layer::log_layer;
use crate::logs::LogSink;
use crate::progress::Due;
use crate::runner;
use crate::time;

pub use clawjob_proto::v1::Outcome;

/// Name of the handler, the job and the app of a run in the harness.
const NAME: &str = "test";
/// The run's id in the harness.
const RUN_ID: &str = "01J00000000000000000000000";

/// Prepares a run of a handler; `.await` runs it. It needs a tokio runtime.
pub fn run_handler<P, O, E, F, Fut>(function: F, params: impl Serialize) -> TestRun
where
    P: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + Send + 'static,
    E: Into<Failure> + Send + 'static,
    F: Fn(P, Ctx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
{
    let params = serde_json::to_vec(&params).map(payload).map_err(|e| e.to_string());
    TestRun {
        entry: Entry::new(NAME, HandlerOptions::new(), function),
        params,
        command: v1::RunCommand {
            r#ref: Some(Key::new(RUN_ID, 1).to_ref(1)),
            job: format!("apps/{NAME}/jobs/{NAME}"),
            run: format!("apps/{NAME}/runs/{RUN_ID}"),
            handler: NAME.to_owned(),
            fire_time: Some(time::timestamp(time::now().wall)),
            max_attempts: 1,
            ..v1::RunCommand::default()
        },
        stop: Box::pin(pending()),
    }
}

fn payload(data: Vec<u8>) -> v1::Payload {
    v1::Payload { content_type: JSON.to_owned(), data: Bytes::from(data) }
}

/// A run that has not begun. Made by [`run_handler`].
#[must_use = "nothing runs until this is awaited"]
pub struct TestRun {
    entry: Entry,
    params: Result<v1::Payload, String>,
    command: v1::RunCommand,
    stop: BoxFuture<'static, StopReason>,
}

impl TestRun {
    /// Makes it this attempt, from 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.command.r#ref = Some(Key::new(RUN_ID, attempt).to_ref(1));
        self
    }

    /// How many attempts the job allows.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.command.max_attempts = attempts;
        self
    }

    /// The instant the schedule named.
    pub fn fire_time(mut self, at: DateTime<Utc>) -> Self {
        self.command.fire_time = Some(time::timestamp(at.into()));
        self
    }

    /// Makes it one share of a sharded run.
    pub fn shard(mut self, index: u32, total: u32) -> Self {
        (self.command.shard_index, self.command.shard_total) = (index, total);
        self
    }

    /// Makes it a chained run, started by the end of the run of that resource name, which returned
    /// `output`; a value that is not JSON counts as none.
    pub fn caused_by(mut self, run: impl Into<String>, output: impl Serialize) -> Self {
        self.command.caused_by = run.into();
        self.command.caused_by_output = serde_json::to_vec(&output).ok().map(payload);
        self
    }

    /// A label of the job.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.command.labels.insert(key.into(), value.into());
        self
    }

    /// The checkpoint that an earlier attempt left; a value that is not JSON leaves none.
    pub fn checkpoint(mut self, value: impl Serialize) -> Self {
        self.command.checkpoint = serde_json::to_vec(&value).ok().map(payload);
        self
    }

    /// The run's time budget.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.command.timeout = Some(time::duration(timeout));
        self
    }

    /// How long the handler has to stop; 10 s when not set.
    pub fn kill_grace(mut self, grace: Duration) -> Self {
        self.command.kill_grace = Some(time::duration(grace));
        self
    }

    /// Tells the handler to stop, for this reason, once `when` resolves.
    pub fn stop(
        mut self,
        reason: StopReason,
        when: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        self.stop = Box::pin(async move {
            when.await;
            reason
        });
        self
    }

    async fn execute(self) -> Finished {
        let now = time::now();
        let mut engine = Engine::new(1, [(NAME.to_owned(), 0)].into(), now);
        let prepared = match &self.params {
            Ok(params) => self.entry.prepare(Some(params)),
            Err(error) => Err(Failure::new(code::INVALID_PARAMS, error.clone())),
        };
        let call = match prepared {
            Ok(call) => call,
            Err(failure) => return Finished::refused(failure),
        };
        let shared = Shared::new(self.command.clone(), LogSink::default(), now.mono);
        let Some(key) = engine.on_run(now, &self.command, Ok(())) else {
            let text = "attempt numbers begin with 1";
            return Finished::refused(Failure::new(code::INVALID_PARAMS, text));
        };
        let subscriber =
            tracing_subscriber::registry().with(log_layer().max_level(tracing::Level::TRACE));
        let run = runner::execute(call, shared.clone()).with_subscriber(subscriber);
        let mut task = tokio::spawn(run);
        let mut stop = Some(self.stop);
        let result = loop {
            let asked = async {
                match &mut stop {
                    Some(stop) => stop.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                joined = &mut task => {
                    let ending: Ending = runner::ending(joined);
                    engine.on_ending(time::now(), &key, ending);
                }
                reason = asked => {
                    stop = None;
                    let grace = time::std_duration(self.command.kill_grace.as_ref());
                    let grace = grace.unwrap_or(Duration::from_secs(10));
                    engine.stop_all(time::now(), reason, grace);
                }
                () = time::sleep_until(engine.next_wake()) => {}
            }
            engine.tick(time::now());
            for action in engine.take_actions() {
                if let Action::Stop(_, reason) = action {
                    shared.stop(reason);
                }
            }
            if let Some(result) = engine.result(&key) {
                break result;
            }
        };
        task.abort();
        Finished::of(result, &shared)
    }
}

impl IntoFuture for TestRun {
    type Output = Finished;
    type IntoFuture = BoxFuture<'static, Finished>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}

/// What a run in the harness left behind.
#[derive(Debug)]
pub struct Finished {
    outcome: Outcome,
    output: Option<Bytes>,
    failure: Option<Failure>,
    logs: Vec<LogRecord>,
    dropped: u64,
    fraction: Option<f32>,
    message: String,
    checkpoint: Option<Bytes>,
}

impl Finished {
    fn refused(failure: Failure) -> Self {
        Self {
            outcome: Outcome::Failed,
            output: None,
            failure: Some(failure),
            logs: Vec::new(),
            dropped: 0,
            fraction: None,
            message: String::new(),
            checkpoint: None,
        }
    }

    fn of(result: v1::RunResult, shared: &Shared) -> Self {
        let (logs, dropped) = shared.log.drain();
        let progress = match shared.progress.take(time::now().mono, true) {
            Due::Now(progress) => progress,
            Due::Nothing | Due::At(_) => v1::Progress::default(),
        };
        Self {
            outcome: result.outcome(),
            output: result.output.map(|payload| payload.data),
            failure: result.failure.map(Failure::from_wire),
            logs,
            dropped,
            fraction: progress.fraction,
            message: progress.message,
            checkpoint: progress.checkpoint.map(|payload| payload.data),
        }
    }

    /// How the attempt ended.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The output; an attempt without one reads as `null`, which `()` and `Option` take.
    ///
    /// # Errors
    /// The attempt's failure, or an output that is no `T`.
    pub fn output<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        Ok(serde_json::from_slice(self.output.as_deref().unwrap_or(b"null"))?)
    }

    /// Why the attempt failed; `None` when it did not.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The log, `tracing` events and [`Ctx::log`] alike; as much of it as the bounds left.
    pub fn logs(&self) -> &[LogRecord] {
        &self.logs
    }

    /// How many log records the bounds dropped.
    pub fn logs_dropped(&self) -> u64 {
        self.dropped
    }

    /// True when a log record has `text` in its message.
    pub fn logged(&self, text: &str) -> bool {
        self.logs.iter().any(|record| record.message.contains(text))
    }

    /// The newest progress: fraction and message.
    pub fn progress(&self) -> (Option<f32>, &str) {
        (self.fraction, &self.message)
    }

    /// The newest checkpoint that this attempt saved.
    ///
    /// # Errors
    /// A checkpoint that is no `T`.
    pub fn checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        match &self.checkpoint {
            Some(data) => Ok(Some(serde_json::from_slice(data)?)),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    struct Params {
        name: String,
    }

    async fn greet(params: Params, ctx: Ctx) -> Result<String, Failure> {
        tracing::info!(shard = ?ctx.shard(), "greeting {}", params.name);
        let spawned = async { tracing::debug!("from a task of its own") };
        tokio::spawn(tracing::Instrument::in_current_span(spawned)).await?;
        ctx.save_checkpoint(&ctx.attempt())?;
        Ok(format!("Hello, {}!", params.name))
    }

    async fn deaf(_: (), _ctx: Ctx) -> Result<(), Failure> {
        pending().await
    }

    async fn obedient(_: (), ctx: Ctx) -> Result<(), Failure> {
        ctx.cancelled().await;
        Err(ctx.stopped())
    }

    #[tokio::test]
    async fn output_log_and_checkpoint_are_seen() {
        let params = serde_json::json!({"name": "Ada"});
        let run = run_handler(greet, params).attempt(3).shard(1, 4).await;
        assert_eq!(run.outcome(), Outcome::Succeeded);
        assert_eq!(run.output::<String>().unwrap(), "Hello, Ada!");
        assert!(run.logged("greeting Ada"), "{:?}", run.logs());
        assert_eq!(run.logs()[0].fields["shard"], "Some(Shard { index: 1, total: 4 })");
        assert_eq!(run.checkpoint::<u32>().unwrap(), Some(3));
    }

    async fn sum(_: (), ctx: Ctx) -> Result<(Option<String>, u64), Failure> {
        let before: Vec<u64> = ctx.caused_by_output()?.unwrap_or_default();
        Ok((ctx.caused_by().map(str::to_owned), before.iter().sum()))
    }

    #[tokio::test]
    async fn a_chained_run_has_the_output_of_the_run_before() {
        let run = run_handler(sum, ()).caused_by("apps/test/runs/R", [1, 2, 3]).await;
        let seen: (Option<String>, u64) = run.output().unwrap();
        assert_eq!(seen, (Some("apps/test/runs/R".to_owned()), 6));
        let run = run_handler(sum, ()).await;
        assert_eq!(run.output::<(Option<String>, u64)>().unwrap(), (None, 0));
        let run = run_handler(sum, ()).caused_by("apps/test/runs/R", "text").await;
        assert_eq!(run.outcome(), Outcome::Failed);
    }

    #[tokio::test]
    async fn params_that_do_not_fit_are_refused() {
        let run = run_handler(greet, serde_json::json!({"name": 1})).await;
        assert_eq!(run.failure().unwrap().code(), "INVALID_PARAMS");
    }

    #[tokio::test]
    async fn timeouts_and_kills_are_as_with_a_scheduler() {
        let short = Duration::from_millis(20);
        let run = run_handler(obedient, ()).timeout(short).await;
        assert_eq!(run.outcome(), Outcome::TimedOut);
        let run = run_handler(obedient, ()).stop(StopReason::User, async {}).await;
        assert_eq!(run.outcome(), Outcome::Canceled);
        let run = run_handler(deaf, ()).stop(StopReason::User, async {}).kill_grace(short).await;
        assert_eq!(run.failure().unwrap().code(), "ABANDONED");
    }
}
