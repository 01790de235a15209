//! What a command says beside the handler and its params.

use std::collections::HashMap;

use clawjob_conformance::frames::{command, ms, value, welcome};
use clawjob_proto::v1::{DisconnectPolicy, Outcome, RunCommand, Welcome};

use super::{ENDLESS, listed, open, open_with};
use crate::judge::{Scenario, scenarios};
use crate::program::Subject;

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    c49_shard_index_total_visible,
    c50_traceparent_continued,
    c55_disconnect_policy_stop_self_fences,
    c56_disconnect_policy_continue_keeps_running,
];

/// Trace id of a traceparent.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn c49_shard_index_total_visible(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let sharded = RunCommand {
        shard_index: 2,
        shard_total: 5,
        labels: HashMap::from([("team".to_owned(), "money".to_owned())]),
        lateness: Some(ms(1_500)),
        catch_up: true,
        ..command("R1", "context", "")
    };
    session.begin(sharded).await;
    let known = value(session.result().await.output.as_ref());
    assert_eq!((&known["shard_index"], &known["shard_total"]), (&2.into(), &5.into()), "{known}");
    assert_eq!((&known["run_id"], &known["attempt"]), (&"R1".into(), &1.into()), "{known}");
    assert_eq!((&known["job"], &known["max_attempts"]), (&"apps/demo/jobs/j".into(), &3.into()));
    assert_eq!((&known["lateness_ms"], &known["catch_up"]), (&1_500.into(), &true.into()));
    assert_eq!(known["labels"]["team"], "money", "{known}");
    assert!(known["fire_time"].as_str().unwrap().starts_with("2023-11-14T22:13:20"), "{known}");
}

async fn c50_traceparent_continued(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let traced = RunCommand {
        traceparent: format!("00-{TRACE}-00f067aa0ba902b7-01"),
        tracestate: "rojo=1".to_owned(),
        ..command("R1", "context", "")
    };
    session.begin(traced).await;
    let known = value(session.result().await.output.as_ref());
    let traceparent = known["traceparent"].as_str().unwrap();
    assert!(traceparent.starts_with(&format!("00-{TRACE}-")), "{traceparent}");
    assert_eq!(known["tracestate"], "rojo=1");
}

/// A run that the contract's fence would stop 6 s after the last acknowledged Heartbeat.
fn fenced(run: &str, policy: DisconnectPolicy) -> RunCommand {
    RunCommand {
        disconnect_policy: policy.into(),
        lost_after: Some(ms(9_000)),
        kill_grace: Some(ms(1_000)),
        ..command(run, "sleep", ENDLESS)
    }
}

async fn c55_disconnect_policy_stop_self_fences(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(fenced("R1", DisconnectPolicy::Stop)).await;
    let running = [("R1".to_owned(), false)];
    // In contact it goes on for longer than that.
    for _ in 0..40 {
        assert_eq!(listed(&session.heartbeat().await), running);
    }
    session.fall_silent();
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Failed);
    assert_eq!(result.failure.unwrap().code, "DISCONNECTED");
}

async fn c56_disconnect_policy_continue_keeps_running(subject: Subject) {
    // On a busy machine the heartbeats below take longer than the usual session bears silence.
    let timeout = Some(ms(600_000));
    let patient = Welcome { lost_after: Some(ms(9_000)), heartbeat_timeout: timeout, ..welcome() };
    let (_fake, _program, mut session) = open_with(&subject, patient).await;
    session.begin(fenced("R1", DisconnectPolicy::Continue)).await;
    session.fall_silent();
    let running = [("R1".to_owned(), false)];
    // Far into the silence, past its fence had it one, and past lost_after.
    for _ in 0..55 {
        assert_eq!(listed(&session.heartbeat().await), running);
    }
    session.kill("R1", 1, 30_000).await;
    assert_eq!(session.result().await.outcome(), Outcome::Canceled);
}
