//! Who has a session, and who loses it.

use clawjob_proto::v1::{
    Job, LostPolicy, RunState, close, executor::State, result_ack, session_response::Frame as Down,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::Binary;
use super::raw::{Raw, channel, encoded, hello, succeeded};
use crate::judge::{Scenario, scenarios};

pub(super) const SCENARIOS: &[Scenario<Binary>] = scenarios![
    s01_duplicate_id_alive_refused,
    s02_duplicate_id_dead_replaced,
    s03_stale_stream_end_does_not_unregister,
    s04_slow_consumer_closed_others_unhurt,
    s12_unresponsive_executor_evicted,
    s13_revoked_token_closes_session,
];

/// Answers that one asks for and never reads.
const UNREAD: u64 = 20_000;

/// How another process of this name is received.
async fn rival(url: &str, token: &str) -> Result<Raw, Status> {
    let hello = hello("e1", "process-2");
    let hello = encoded(clawjob_proto::v1::session_request::Frame::Hello(hello));
    Raw::dial(channel(url).await, token, hello).await
}

async fn s01_duplicate_id_alive_refused(binary: Binary) {
    let node = binary.node().await;
    let (token, _) = node.executor_token().await;
    let mut first = Raw::open(node.url(), &token, hello("e1", "process-1")).await;
    let refused = rival(node.url(), &token).await.err().expect("the name is taken");
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused:?}");
    assert_eq!(refused.get_error_details().error_info().unwrap().reason, "EXECUTOR_ID_IN_USE");
    let mut admin = node.admin().await;
    let job = admin.job("job", Job::default()).await;
    admin.trigger(&job).await;
    first.command().await;
}

async fn s02_duplicate_id_dead_replaced(binary: Binary) {
    let times =
        ["--set", "timings.heartbeat_interval=500ms", "--set", "timings.heartbeat_timeout=30s"];
    let node = binary.node_with(&times).await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let once = Job { lost_policy: LostPolicy::Fail.into(), ..Job::default() };
    let job = admin.job("job", once).await;
    let mut dead = Raw::open(node.url(), &token, hello("e1", "process-1")).await;
    let run = admin.trigger(&job).await;
    dead.accept().await;
    admin.until(&run, RunState::Running).await;
    // Its stream stays open, but it says nothing more: after two intervals its name is free.
    let replaced = async {
        loop {
            match rival(node.url(), &token).await {
                Ok(second) => return second,
                Err(refused) => assert_eq!(refused.code(), Code::AlreadyExists, "{refused:?}"),
            }
        }
    };
    let second = clawjob_conformance::soon("the name", replaced).await;
    assert!(!second.welcome.resumed);
    // Known to be dead, long before lost_after.
    admin.until(&run, RunState::Lost).await;
}

async fn s03_stale_stream_end_does_not_unregister(binary: Binary) {
    let node = binary.node().await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let job = admin.job("job", Job::default()).await;
    let mut old = Raw::open(node.url(), &token, hello("e1", "process-1")).await;
    let resume_token = old.welcome.resume_token.clone();
    let again = clawjob_proto::v1::Hello { resume_token, ..hello("e1", "process-1") };
    let mut new = Raw::open(node.url(), &token, again).await;
    assert!(new.welcome.resumed && new.welcome.session_epoch > old.welcome.session_epoch);
    let close = old.expect("a Close", |frame| match frame {
        Down::Close(close) => Some(close.reason()),
        _ => None,
    });
    assert_eq!(close.await, close::Reason::Superseded);
    drop(old);
    for _ in 0..3 {
        let run = admin.trigger(&job).await;
        let command = new.accept().await;
        let status = new.report(succeeded(command.r#ref, "1")).await;
        assert_eq!(status, result_ack::Status::Committed);
        admin.until(&run, RunState::Succeeded).await;
    }
    assert_eq!(admin.executor("e1").await, State::Online);
}

async fn s04_slow_consumer_closed_others_unhurt(binary: Binary) {
    let node = binary.node().await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let job = admin.job("job", Job::default()).await;
    let deaf = Raw::open(node.url(), &token, hello("deaf", "process-1")).await;
    for seq in 1..=UNREAD {
        deaf.beat(seq);
    }
    admin.until_executor("deaf", State::Offline).await;
    let mut other = Raw::open(node.url(), &token, hello("e2", "process-2")).await;
    let run = admin.trigger(&job).await;
    let command = other.accept().await;
    let status = other.report(succeeded(command.r#ref, "1")).await;
    assert_eq!(status, result_ack::Status::Committed);
    admin.until(&run, RunState::Succeeded).await;
}

async fn s12_unresponsive_executor_evicted(binary: Binary) {
    let node = binary.node_with(&["--set", "timings.run_ack_timeout=500ms"]).await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let job = admin.job("job", Job::default()).await;
    let mut mute = Raw::open(node.url(), &token, hello("e1", "process-1")).await;
    admin.trigger(&job).await;
    let first = mute.command().await;
    let again = mute.command().await;
    assert_eq!(first.r#ref, again.r#ref, "it is sent once more");
    let close = mute.expect("a Close", |frame| match frame {
        Down::Close(close) => Some(close.reason()),
        _ => None,
    });
    assert_eq!(close.await, close::Reason::Unresponsive);
}

async fn s13_revoked_token_closes_session(binary: Binary) {
    let node = binary.node().await;
    let (token, name) = node.executor_token().await;
    let mut raw = Raw::open(node.url(), &token, hello("e1", "process-1")).await;
    node.admin().await.revoke(name).await;
    // Tokens are looked up again each 60 s.
    for seq in 1..=3 {
        raw.beat(seq);
        let waited = tokio::time::timeout(clawjob_conformance::PATIENCE, async {
            loop {
                match raw.next().await {
                    Ok(Some(Down::Close(close))) => return close.reason(),
                    Ok(Some(_)) => {}
                    end => panic!("it ended without a Close: {end:?}"),
                }
            }
        });
        if let Ok(reason) = waited.await {
            assert_eq!(reason, close::Reason::Revoked);
            let refused = rival(node.url(), &token).await.err().expect("no session");
            assert_eq!(refused.code(), Code::Unauthenticated);
            return;
        }
    }
    panic!("the session goes on");
}
