//! A scheduler whose release is apart from the program's.

use clawjob_conformance::frames::{
    attempt, command, kill, ms, unknown_arm, value, welcome, with_later_fields,
};
use clawjob_conformance::{Fake, Session};
use clawjob_proto::v1::{
    KillCommand, Outcome, ResultAck, RunCommand, RunResult, Welcome, result_ack, run_ack,
    session_response::Frame as Down,
};

use super::{ENDLESS, open, open_with};
use crate::judge::{Scenario, scenarios};
use crate::program::Subject;

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    c51_unknown_oneof_arm_ignored,
    c52_unknown_enum_values_fallback,
    c53_unknown_fields_ignored,
    x55_v01_scheduler_of_an_older_minor,
    x55_v02_scheduler_of_a_later_minor,
];

async fn c51_unknown_oneof_arm_ignored(subject: Subject) {
    let mut fake = Fake::start().await;
    let _program = subject.start(&fake);
    let mut session = fake.accept().await;
    session.send_bytes(unknown_arm()).await;
    session.send(Down::Welcome(welcome())).await;
    session.send_bytes(unknown_arm()).await;
    session.begin(command("R1", "echo", "1")).await;
    assert_eq!(session.result().await.outcome(), Outcome::Succeeded);
}

async fn c52_unknown_enum_values_fallback(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    let odd = RunCommand { disconnect_policy: 99, ..command("R1", "sleep", ENDLESS) };
    session.begin(odd).await;
    session.send(Down::Kill(KillCommand { reason: 99, ..kill("R1", 1, 30_000) })).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    let ack = ResultAck { r#ref: result.r#ref, status: 99 };
    session.send(Down::ResultAck(ack)).await;
    session.heartbeat_where("no attempt", |beat| beat.attempts.is_empty()).await;
}

async fn c53_unknown_fields_ignored(subject: Subject) {
    let mut fake = Fake::start().await;
    let _program = subject.start(&fake);
    let mut session = fake.accept().await;
    speak_later(&mut session, welcome()).await;
}

/// Two runs, one to its end and one that is killed, in frames of a later release alone.
async fn speak_later(session: &mut Session, welcome: Welcome) {
    session.send_bytes(with_later_fields(Down::Welcome(welcome))).await;
    for (run, handler, params) in [("R1", "echo", "1"), ("R2", "sleep", ENDLESS)] {
        session.send_bytes(with_later_fields(Down::Run(command(run, handler, params)))).await;
        assert_eq!(session.run_ack().await.status(), run_ack::Status::Accepted);
    }
    let echoed = session.result().await;
    assert_eq!((echoed.outcome(), value(echoed.output.as_ref())), (Outcome::Succeeded, 1.into()));
    session.send_bytes(with_later_fields(Down::Kill(kill("R2", 1, 30_000)))).await;
    let killed = session.result().await;
    assert_eq!(killed.outcome(), Outcome::Canceled);
    for RunResult { r#ref, .. } in [echoed, killed] {
        let ack = ResultAck { r#ref, status: result_ack::Status::Committed.into() };
        session.send_bytes(with_later_fields(Down::ResultAck(ack))).await;
    }
    session.heartbeat_where("no attempt", |beat| beat.attempts.is_empty()).await;
}

// It knows no features and none of the limits and times that can be left out.
async fn x55_v01_scheduler_of_an_older_minor(subject: Subject) {
    let sparse = Welcome {
        session_id: "s".to_owned(),
        session_epoch: 1,
        resume_token: "resume".to_owned(),
        heartbeat_interval: Some(ms(200)),
        heartbeat_timeout: Some(ms(30_000)),
        ..Welcome::default()
    };
    let (_fake, _program, mut session) = open_with(&subject, sparse).await;
    let bare = RunCommand {
        r#ref: Some(attempt("R1", 1, 1)),
        handler: "logs".to_owned(),
        ..command("R1", "logs", r#"{"count":3}"#)
    };
    session.begin(RunCommand { job: String::new(), fire_time: None, ..bare }).await;
    let logged = session.result().await;
    assert_eq!(logged.outcome(), Outcome::Succeeded);
    session.commit(&logged).await;
    session.begin(command("R2", "echo", "[1]")).await;
    assert_eq!(session.result().await.outcome(), Outcome::Succeeded);
    session.begin(command("R3", "sleep", ENDLESS)).await;
    session.kill("R3", 1, 30_000).await;
    let killed = session.expect("the kill's result", |frame| match frame {
        clawjob_proto::v1::session_request::Frame::Result(result) => {
            (result.r#ref == Some(attempt("R3", 1, 1))).then_some(result)
        }
        _ => None,
    });
    assert_eq!(killed.await.outcome(), Outcome::Canceled);
}

async fn x55_v02_scheduler_of_a_later_minor(subject: Subject) {
    let mut fake = Fake::start().await;
    let _program = subject.start(&fake);
    let mut session = fake.accept().await;
    let later = Welcome {
        protocol_minor: session.hello.protocol_minor + 1,
        features: vec!["log".to_owned(), "teleport".to_owned()],
        ..welcome()
    };
    session.send_bytes(unknown_arm()).await;
    speak_later(&mut session, later).await;
    session.send_bytes(unknown_arm()).await;
    session.heartbeat().await;
}
