//! What may not change a run.

use clawjob_proto::v1::{
    AttemptRef, Failure, Job, KillAck, Outcome, RetryPolicy, RunAck, RunCommand, RunResult,
    RunState, kill_ack, result_ack::Status, run_ack, session_request::Frame as Up,
};

use super::Binary;
use super::admin::Admin;
use super::node::Node;
use super::raw::{Raw, hello, succeeded};
use crate::judge::{Scenario, scenarios};

pub(super) const SCENARIOS: &[Scenario<Binary>] = scenarios![s14_all_illegal_transitions_refused];

/// A scheduler with an executor, and a job whose runs it holds in one state after the other.
struct Stage {
    admin: Admin,
    raw: Raw,
    job: String,
    _node: Node,
}

impl Stage {
    async fn new(binary: Binary) -> Self {
        let node = binary.node_with(&["--set", "timings.run_ack_timeout=60s"]).await;
        let (token, _) = node.executor_token().await;
        let mut admin = node.admin().await;
        let hour = prost_types::Duration { seconds: 3_600, nanos: 0 };
        let retry = RetryPolicy {
            max_attempts: 2,
            initial_backoff: Some(hour),
            max_backoff: Some(hour),
            ..RetryPolicy::default()
        };
        let job = admin.job("job", Job { retry: Some(retry), ..Job::default() }).await;
        let raw = Raw::open(node.url(), &token, hello("e1", "process-1")).await;
        Self { admin, raw, job, _node: node }
    }

    /// A run that was sent.
    async fn dispatched(&mut self) -> (String, RunCommand) {
        let run = self.admin.trigger(&self.job).await;
        (run, self.raw.command().await)
    }

    /// A run that is running.
    async fn running(&mut self) -> (String, RunCommand) {
        let run = self.admin.trigger(&self.job).await;
        let command = self.raw.accept().await;
        self.admin.until(&run, RunState::Running).await;
        (run, command)
    }

    /// A run that ended in its way.
    async fn reported(&mut self, outcome: Outcome, non_retryable: bool) -> (String, RunCommand) {
        let (run, command) = self.running().await;
        let failure = Failure { code: "NO".to_owned(), non_retryable, ..Failure::default() };
        let result = RunResult {
            r#ref: command.r#ref.clone(),
            outcome: outcome.into(),
            failure: (outcome != Outcome::Succeeded).then_some(failure),
            ..RunResult::default()
        };
        assert_eq!(self.raw.report(result).await, Status::Committed);
        (run, command)
    }

    /// Whatever an executor says of another attempt or under another fence leaves the run alone.
    async fn refuses_strangers(&mut self, run: &str, command: &RunCommand, state: RunState) {
        self.admin.until(run, state).await;
        let own = command.r#ref.clone().unwrap();
        let strangers = [
            AttemptRef { fence: own.fence + 7, ..own.clone() },
            AttemptRef { fence: own.fence + 7, attempt: own.attempt + 1, ..own.clone() },
            AttemptRef { attempt: own.attempt + 1, ..own.clone() },
        ];
        for stranger in strangers {
            let r#ref = Some(stranger.clone());
            for status in [run_ack::Status::Accepted, run_ack::Status::Rejected] {
                let (r#ref, status) = (r#ref.clone(), status.into());
                self.raw.send(Up::RunAck(RunAck { r#ref, status, ..RunAck::default() }));
            }
            let status = kill_ack::Status::NotFound.into();
            self.raw.send(Up::KillAck(KillAck { r#ref: r#ref.clone(), status }));
            let answer = self.raw.report(succeeded(r#ref, "\"stranger\"")).await;
            assert_eq!(answer, Status::Stale, "{stranger:?} for {own:?} in {state:?}");
            let now = self.admin.run(run).await;
            assert_eq!((now.state(), now.attempt), (state, own.attempt), "after {stranger:?}");
        }
    }

    /// A run that has ended stays as it is, whatever comes.
    async fn is_final(&mut self, run: &str, command: &RunCommand, state: RunState) {
        self.refuses_strangers(run, command, state).await;
        let before = self.admin.run(run).await;
        for outcome in [Outcome::Succeeded, Outcome::Failed, Outcome::Canceled, Outcome::TimedOut] {
            let r#ref = command.r#ref.clone();
            let late = RunResult { r#ref, outcome: outcome.into(), ..RunResult::default() };
            let answer = self.raw.report(late).await;
            assert!([Status::Duplicate, Status::Stale].contains(&answer), "{answer:?}");
        }
        match self.admin.cancel(run).await {
            Ok(unchanged) => assert_eq!(unchanged.state(), state),
            Err(refused) => assert_eq!(refused.code(), tonic::Code::FailedPrecondition),
        }
        let after = self.admin.run(run).await;
        assert_eq!((after.state(), &after.output), (state, &before.output));
        assert_eq!((after.end_time, after.attempt), (before.end_time, before.attempt));
    }
}

async fn s14_all_illegal_transitions_refused(binary: Binary) {
    let mut stage = Stage::new(binary).await;

    let (run, command) = stage.dispatched().await;
    stage.refuses_strangers(&run, &command, RunState::Dispatched).await;
    stage.raw.report(succeeded(command.r#ref, "1")).await;

    let (run, command) = stage.running().await;
    stage.refuses_strangers(&run, &command, RunState::Running).await;
    stage.admin.cancel(&run).await.unwrap();
    stage.refuses_strangers(&run, &command, RunState::Canceling).await;
    let r#ref = command.r#ref.clone();
    let canceled = RunResult { r#ref, outcome: Outcome::Canceled.into(), ..RunResult::default() };
    assert_eq!(stage.raw.report(canceled).await, Status::Committed);
    stage.is_final(&run, &command, RunState::Canceled).await;

    let (run, command) = stage.reported(Outcome::Failed, false).await;
    stage.refuses_strangers(&run, &command, RunState::RetryWait).await;
    stage.admin.cancel(&run).await.unwrap();
    stage.is_final(&run, &command, RunState::Canceled).await;

    let (run, command) = stage.reported(Outcome::Succeeded, false).await;
    stage.is_final(&run, &command, RunState::Succeeded).await;
    let (run, command) = stage.reported(Outcome::Failed, true).await;
    stage.is_final(&run, &command, RunState::Failed).await;
    let (run, command) = stage.reported(Outcome::TimedOut, true).await;
    stage.is_final(&run, &command, RunState::TimedOut).await;
}
