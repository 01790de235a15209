//! Lost sessions and refusals.

use std::time::Duration;

use clawjob_conformance::frames::{attempt, command, ms, welcome};
use clawjob_conformance::{Fake, Relay, Session, soon};
use clawjob_proto::v1::{
    KillCommand, KillReason, Outcome, RunCommand, Welcome, session_response::Frame as Down,
};
use tonic::{Code, Status};

use super::{ENDLESS, listed, open};
use crate::judge::{Scenario, scenarios};
use crate::program::Subject;

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    c29_reconnect_with_resume_token_keeps_runs,
    c30_welcome_kills_applied,
    c33_reconnect_backoff_has_jitter_and_cap,
    c34_permanent_codes_return_error,
    c35_unknown_status_and_internal_are_transient,
    c36_server_killed_mid_run_then_back,
    c37_half_open_detected,
    c59_endpoint_list_failover,
];

/// Dials that say what the waits between them are like.
const DIALS: usize = 20;
/// More dials than a refusal for good may be followed by; a first one may look like a broken
/// connection when it comes before the Hello is written.
const REFUSED_DIALS_MAX: usize = 10;

/// The run goes on in this session, which the same process opened anew.
async fn still_runs(session: &mut Session, before: &Session, run: &str) {
    let hello = &session.hello;
    assert_eq!(hello.instance_id, before.hello.instance_id);
    assert_eq!(hello.resume_token, "resume");
    assert_eq!(hello.last_command_seq, 4);
    assert_eq!(hello.attempts.len(), 1, "{hello:?}");
    assert!(!hello.attempts[0].finished);
    assert_eq!(hello.attempts[0].r#ref, Some(attempt(run, 1, 1)));
    session.send(Down::Welcome(Welcome { resumed: true, ..welcome() })).await;
    session.heartbeat_where("the run", |beat| listed(beat) == [(run.to_owned(), false)]).await;
    session.kill(run, 1, 30_000).await;
    assert_eq!(session.result().await.outcome(), Outcome::Canceled);
}

async fn c29_reconnect_with_resume_token_keeps_runs(subject: Subject) {
    let (mut fake, _program, mut before) = open(&subject).await;
    before.begin(RunCommand { command_seq: 4, ..command("R1", "sleep", ENDLESS) }).await;
    before.end(Status::unavailable("going down")).await;
    let mut session = fake.accept().await;
    still_runs(&mut session, &before, "R1").await;
}

async fn c30_welcome_kills_applied(subject: Subject) {
    let (mut fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "sleep", ENDLESS)).await;
    session.end(Status::unavailable("going down")).await;
    let mut session = fake.accept().await;
    let kill = KillCommand {
        r#ref: Some(attempt("R1", 1, 1)),
        reason: KillReason::StaleAttempt.into(),
        ..KillCommand::default()
    };
    session.send(Down::Welcome(Welcome { kills: vec![kill], ..welcome() })).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert!(!result.failure.unwrap().message.is_empty());
}

// Waits are at 1/50 here: from 10 ms, doubled up to 0.6 s.
async fn c33_reconnect_backoff_has_jitter_and_cap(subject: Subject) {
    let fake = Fake::start().await;
    fake.refuse_all(Some(Status::unavailable("not now")));
    let _program = subject.dialing(fake.url()).env("CLAWJOB_CONFORMANCE_SCALE", "0.02").start();
    // Without a cap the last of these would come after hours.
    let dials = async {
        while fake.dials() < DIALS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("20 dials", dials).await;
    let times = fake.dial_times();
    let waits: Vec<_> = times[..DIALS].windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (early, late) = (&waits[..5], &waits[waits.len() - 10..]);
    let (early_sum, late_sum): (Duration, Duration) = (early.iter().sum(), late.iter().sum());
    assert!(late_sum > early_sum, "the waits do not grow: {waits:?}");
    // Ten waits at random up to the cap differ by half of the cap and more all but surely.
    let spread = *late.iter().max().unwrap() - *late.iter().min().unwrap();
    assert!(spread > Duration::from_millis(100), "the waits are all alike: {waits:?}");
}

async fn c34_permanent_codes_return_error(subject: Subject) {
    for code in [
        Code::Unauthenticated,
        Code::PermissionDenied,
        Code::InvalidArgument,
        Code::FailedPrecondition,
        Code::Unimplemented,
    ] {
        let fake = Fake::start().await;
        fake.refuse_all(Some(Status::new(code, "no")));
        let exit = subject.start(&fake).exit().await;
        assert_eq!(exit.code(), Some(1), "{code:?}");
        assert!(fake.dials() < REFUSED_DIALS_MAX, "{code:?}: {} dials", fake.dials());
    }
}

async fn c35_unknown_status_and_internal_are_transient(subject: Subject) {
    let mut fake = Fake::start().await;
    fake.refuse([Status::unknown("?"), Status::internal("!"), Status::cancelled("…")]);
    let _program = subject.start(&fake);
    let session = fake.open().await;
    assert!(fake.dials() >= 4, "{} dials", fake.dials());
    session.end(Status::unknown("?")).await;
    fake.open().await.heartbeat().await;
}

async fn c36_server_killed_mid_run_then_back(subject: Subject) {
    let (fake, _program, mut before) = open(&subject).await;
    before.begin(RunCommand { command_seq: 4, ..command("R1", "sleep", ENDLESS) }).await;
    let addr = fake.crash().await;
    // The stream breaks with its connection; the Hello is still needed for comparison.
    before.end(Status::unavailable("gone")).await;
    let mut back = Fake::start_at(addr).await;
    let mut session = back.accept().await;
    still_runs(&mut session, &before, "R1").await;
}

async fn c37_half_open_detected(subject: Subject) {
    let mut fake = Fake::start().await;
    let way = Relay::to(fake.addr()).await;
    let _program = subject.dialing(way.url()).start();
    let mut before = fake.accept().await;
    // Long enough for the run to begin on a busy machine.
    let timeout = Some(ms(5_000));
    let impatient = || Welcome { heartbeat_timeout: timeout, ..welcome() };
    before.send(Down::Welcome(impatient())).await;
    before.begin(RunCommand { command_seq: 4, ..command("R1", "sleep", ENDLESS) }).await;
    way.stand_still();
    let mut session = fake.accept().await;
    still_runs(&mut session, &before, "R1").await;
}

async fn c59_endpoint_list_failover(subject: Subject) {
    let mut fake = Fake::start().await;
    let gone = Fake::start().await;
    let url = gone.url();
    gone.crash().await;
    let _program = subject.dialing(format!("{url},{}", fake.url())).start();
    fake.open().await.heartbeat().await;

    // One that gives no answers is left for another.
    let (mut one, mut two) = (Fake::start().await, Fake::start().await);
    let _other = subject.dialing(format!("{},{}", one.url(), two.url())).start();
    let (before, at_one) = tokio::select! {
        session = one.accept() => (session, true),
        session = two.accept() => (session, false),
    };
    before.fall_silent();
    let timeout = Some(ms(1_500));
    before.send(Down::Welcome(Welcome { heartbeat_timeout: timeout, ..welcome() })).await;
    let (silent, other) = if at_one { (one, &mut two) } else { (two, &mut one) };
    let after = other.accept().await;
    assert_eq!(after.hello.instance_id, before.hello.instance_id);
    assert_eq!(silent.dials(), 1, "the silent one is dialed again first");
}
