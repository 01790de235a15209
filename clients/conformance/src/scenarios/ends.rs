//! The executor's own end, by signals.

use clawjob_conformance::frames::{command, welcome};
use clawjob_conformance::{Fake, Session};
use clawjob_proto::v1::{
    Outcome, run_ack, session_request::Frame as Up, session_response::Frame as Down,
};
use nix::sys::signal::Signal;

use super::{ENDLESS, listed};
use crate::judge::{Scenario, scenarios};
use crate::program::{Program, Subject};

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    c40_sigterm_drains_and_says_goodbye,
    c41_second_sigterm_cancels_now,
    c42_drain_deadline_reports_shutdown_failure,
];

/// A program whose grace at the end is 25 s times `scale`.
async fn open(subject: &Subject, scale: &str) -> (Fake, Program, Session) {
    let mut fake = Fake::start().await;
    let program = subject.dialing(fake.url()).env("CLAWJOB_CONFORMANCE_SCALE", scale).start();
    let session = fake.accept().await;
    session.send(Down::Welcome(welcome())).await;
    (fake, program, session)
}

async fn drain(session: &mut Session) {
    session.expect("an ExecutorDrain", |f| matches!(f, Up::Drain(_)).then_some(())).await;
}

/// The one result, the Goodbye, and the program's end.
async fn end(mut session: Session, mut program: Program) -> (Outcome, String) {
    let result = session.result().await;
    session.commit(&result).await;
    session.goodbye().await;
    drop(session);
    assert!(program.exit().await.success());
    (result.outcome(), result.failure.map(|failure| failure.code).unwrap_or_default())
}

async fn c40_sigterm_drains_and_says_goodbye(subject: Subject) {
    let (_fake, program, mut session) = open(&subject, "1").await;
    session.begin(command("R1", "sleep", ENDLESS)).await;
    program.signal(Signal::SIGTERM);
    drain(&mut session).await;
    session.run(command("R2", "echo", "1")).await;
    assert_eq!(session.run_ack().await.status(), run_ack::Status::Draining);
    let running = [("R1".to_owned(), false)];
    for _ in 0..3 {
        session.heartbeat_where("R1 to go on", |beat| listed(beat) == running).await;
    }
    // What ends it is this kill: the drain itself would have said SHUTDOWN.
    session.kill("R1", 1, 30_000).await;
    assert_eq!(end(session, program).await, (Outcome::Canceled, "STOPPED".to_owned()));
}

async fn c41_second_sigterm_cancels_now(subject: Subject) {
    let (_fake, program, mut session) = open(&subject, "1").await;
    session.begin(command("R1", "sleep", ENDLESS)).await;
    program.signal(Signal::SIGTERM);
    drain(&mut session).await;
    program.signal(Signal::SIGTERM);
    assert_eq!(end(session, program).await, (Outcome::Canceled, "SHUTDOWN".to_owned()));
}

async fn c42_drain_deadline_reports_shutdown_failure(subject: Subject) {
    let (_fake, program, mut session) = open(&subject, "0.02").await;
    session.begin(command("R1", "sleep", ENDLESS)).await;
    program.signal(Signal::SIGTERM);
    drain(&mut session).await;
    assert_eq!(end(session, program).await, (Outcome::Canceled, "SHUTDOWN".to_owned()));
}
