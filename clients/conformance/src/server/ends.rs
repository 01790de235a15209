//! Schedulers that end, or die, while runs are in flight.

use clawjob_proto::v1::{
    AttemptStatus, Hello, Job, RunCommand, RunState, result_ack::Status,
    session_request::Frame as Up, session_response::Frame as Down,
};

use super::raw::{Raw, hello, succeeded};
use super::{Binary, postgres};
use crate::judge::{Scenario, scenarios};

pub(super) const SCENARIOS: &[Scenario<Binary>] = scenarios![
    s06_rolling_restart_no_attempt_used,
    s07_two_nodes_kill_one_resume_on_other,
    s10_result_commit_before_ack,
    s11_run_missing_in_hello_requeued,
];

/// The Hello of the same process, which still holds that attempt.
fn holding(resume_token: String, command: &RunCommand, finished: bool) -> Hello {
    let r#ref = command.r#ref.clone();
    Hello {
        resume_token,
        attempts: vec![AttemptStatus { r#ref, finished, start_time: None }],
        last_command_seq: command.command_seq,
        ..hello("e1", "process-1")
    }
}

async fn s06_rolling_restart_no_attempt_used(binary: Binary) {
    let mut node = binary.node_with(&["--set", "timings.shutdown_grace=3s"]).await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let job = admin.job("job", Job::default()).await;
    let mut raw = Raw::open(node.url(), &token, hello("e1", "process-1")).await;
    let resume_token = raw.welcome.resume_token.clone();
    let run = admin.trigger(&job).await;
    let command = raw.accept().await;
    admin.until(&run, RunState::Running).await;
    node.terminate();
    raw.expect("a SchedulerDrain", |frame| matches!(frame, Down::Drain(_)).then_some(())).await;
    // Until the scheduler ends the stream.
    while let Ok(Some(_)) = raw.next().await {}
    assert!(node.exit().await.success());
    node.restart().await;
    let held = holding(resume_token, &command, false);
    let mut raw = Raw::open(node.url(), &token, held).await;
    assert!(raw.welcome.resumed && raw.welcome.kills.is_empty(), "{:?}", raw.welcome);
    assert_eq!(raw.report(succeeded(command.r#ref, "1")).await, Status::Committed);
    let ended = node.admin().await.until(&run, RunState::Succeeded).await;
    assert_eq!((ended.attempt, ended.attempts.len()), (1, 1), "{ended:?}");
}

async fn s07_two_nodes_kill_one_resume_on_other(binary: Binary) {
    // Starting a server blocks; its own thread may.
    tokio::task::spawn_blocking(postgres::server).await.unwrap();
    let schema = postgres::Schema::create().await;
    let database = ["--database", schema.url.as_str()];
    let mut first = binary.another().node_with(&database).await;
    let (token, _) = first.executor_token().await;
    let mut admin = first.admin().await;
    let job = admin.job("job", Job::default()).await;
    let mut raw = Raw::open(first.url(), &token, hello("e1", "process-1")).await;
    let run = admin.trigger(&job).await;
    let command = raw.accept().await;
    admin.until(&run, RunState::Running).await;
    let second = binary.node_with(&database).await;
    let admin_token = first.admin_token();
    first.kill9().await;
    let held = holding(raw.welcome.resume_token.clone(), &command, false);
    let mut raw = Raw::open(second.url(), &token, held).await;
    assert!(raw.welcome.resumed && raw.welcome.kills.is_empty(), "{:?}", raw.welcome);
    assert_eq!(raw.report(succeeded(command.r#ref, "1")).await, Status::Committed);
    let mut admin = super::admin::Admin::connect(second.url(), admin_token).await;
    let ended = admin.until(&run, RunState::Succeeded).await;
    assert_eq!((ended.attempt, ended.attempts.len()), (1, 1), "{ended:?}");
    // The other node goes on with what is due.
    admin.trigger(&job).await;
    raw.command().await;
}

async fn s10_result_commit_before_ack(binary: Binary) {
    let mut node = binary.node().await;
    let (token, _) = node.executor_token().await;
    let job = node.admin().await.job("job", Job::default()).await;
    let mut raw = Raw::open(node.url(), &token, hello("e1", "process-1")).await;
    for round in 0..4 {
        let run = node.admin().await.trigger(&job).await;
        let command = raw.accept().await;
        let (result, resume_token) =
            (succeeded(command.r#ref.clone(), "1"), raw.welcome.resume_token.clone());
        // Killed with its ack, or at some moment before that.
        let acknowledged = round % 2 == 0;
        if acknowledged {
            assert_eq!(raw.report(result.clone()).await, Status::Committed);
        } else {
            raw.send(Up::Result(result.clone()));
        }
        node.kill9().await;
        node.restart().await;
        if acknowledged {
            let state = node.admin().await.run(&run).await.state();
            assert_eq!(state, RunState::Succeeded, "an acknowledged result is on disk");
        }
        raw = Raw::open(node.url(), &token, holding(resume_token, &command, true)).await;
        if raw.welcome.known_results.is_empty() {
            let status = raw.report(result).await;
            assert!([Status::Committed, Status::Duplicate].contains(&status), "{status:?}");
        }
        let ended = node.admin().await.until(&run, RunState::Succeeded).await;
        assert_eq!(ended.attempt, 1);
    }
}

async fn s11_run_missing_in_hello_requeued(binary: Binary) {
    let node = binary.node().await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let job = admin.job("job", Job::default()).await;
    let mut raw = Raw::open(node.url(), &token, hello("e1", "process-1")).await;
    let run = admin.trigger(&job).await;
    let lost = raw.command().await;
    let resume_token = raw.welcome.resume_token.clone();
    drop(raw);
    // The same process says that it has never read that command.
    let unread =
        Hello { resume_token, last_command_seq: lost.command_seq - 1, ..hello("e1", "process-1") };
    let mut raw = Raw::open(node.url(), &token, unread).await;
    let again = raw.accept().await;
    let (lost, again) = (lost.r#ref.unwrap(), again.r#ref.unwrap());
    assert_eq!((&lost.run_id, lost.attempt), (&again.run_id, again.attempt));
    assert!(again.fence > lost.fence, "{again:?}");
    // What the first sending might still bring is out of date only by its fence.
    assert_eq!(raw.report(succeeded(Some(again), "1")).await, Status::Committed);
    assert_eq!(admin.until(&run, RunState::Succeeded).await.attempt, 1);
}
