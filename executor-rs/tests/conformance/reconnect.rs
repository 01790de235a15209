//! Lost sessions, refusals, moves.

use clawjob_executor::Error;
use clawjob_proto::v1::{
    self, DisconnectPolicy, Outcome, close, scheduler_drain, session_request::Frame as Up,
    session_response::Frame as Down,
};
use tonic::{Code, Status};

use crate::fake::{Fake, attempt, command, ms, welcome};
use crate::handlers::{Gate, Running, executor};

#[tokio::test]
async fn c29_c36_a_run_survives_the_death_of_the_scheduler() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(v1::RunCommand { command_seq: 4, ..command("R1", "gate", "") }).await;
    let instance = session.hello.instance_id.clone();
    drop(session);
    let addr = fake.crash().await;
    let mut fake = Fake::start_at(addr).await;
    let mut session = fake.accept().await;
    assert_eq!(session.hello.instance_id, instance);
    assert_eq!(session.hello.resume_token, "resume");
    assert_eq!(session.hello.last_command_seq, 4);
    assert!(!session.hello.attempts[0].finished);
    session.send(Down::Welcome(v1::Welcome { resumed: true, ..welcome() })).await;
    running.gate.open();
    assert_eq!(session.result().await.outcome(), Outcome::Succeeded);
    assert_eq!(running.gate.count(), 1);
}

#[tokio::test]
async fn c30_kills_of_the_welcome_are_applied() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "obedient", "")).await;
    session.end(Status::unavailable("going down")).await;
    let mut session = fake.accept().await;
    let kill = v1::KillCommand {
        r#ref: Some(attempt("R1", 1, 1)),
        reason: v1::KillReason::StaleAttempt.into(),
        ..v1::KillCommand::default()
    };
    session.send(Down::Welcome(v1::Welcome { kills: vec![kill], ..welcome() })).await;
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.unwrap().message, "a later attempt took over");
}

#[tokio::test]
async fn c34_permanent_codes_end_the_run_with_an_error() {
    for code in [
        Code::Unauthenticated,
        Code::PermissionDenied,
        Code::InvalidArgument,
        Code::FailedPrecondition,
        Code::Unimplemented,
    ] {
        let fake = Fake::start().await;
        fake.refuse([Status::new(code, "no")]);
        let error = Running::start(&fake).end().await.unwrap_err();
        assert!(matches!(&error, Error::Refused { code: c, .. } if *c == format!("{code:?}")));
        assert_eq!(fake.dials(), 1);
    }
}

#[tokio::test]
async fn c35_other_codes_are_tried_again() {
    let mut fake = Fake::start().await;
    fake.refuse([Status::unknown("?"), Status::internal("!"), Status::cancelled("…")]);
    let _running = Running::start(&fake);
    fake.open().await.heartbeat().await;
    assert_eq!(fake.dials(), 4);
}

#[tokio::test]
async fn c37_a_scheduler_that_stands_still_is_noticed() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let session = fake.open().await;
    session.fall_silent();
    let mut again = fake.open().await;
    again.heartbeat().await;
    assert!(running.handle.health().connected);
}

#[tokio::test]
async fn c38_a_draining_scheduler_is_left_only_when_the_next_session_is_open() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut old = fake.open().await;
    old.begin(command("R1", "gate", "")).await;
    old.send(Down::Drain(v1::SchedulerDrain {
        reason: scheduler_drain::Reason::Shutdown.into(),
        reconnect_within: Some(ms(100)),
        closes_after: Some(ms(2000)),
        ..v1::SchedulerDrain::default()
    }))
    .await;
    let mut new = fake.accept().await;
    assert_eq!(new.hello.attempts.len(), 1);
    // The old session lives while the new one is not welcomed yet.
    old.heartbeat().await;
    old.heartbeat().await;
    new.send(Down::Welcome(v1::Welcome { resumed: true, session_epoch: 2, ..welcome() })).await;
    old.expect("a Goodbye", |frame| matches!(frame, Up::Goodbye(_)).then_some(())).await;
    assert!(old.next().await.is_none());
    running.gate.open();
    assert_eq!(new.result().await.outcome(), Outcome::Succeeded);
}

#[tokio::test]
async fn c38_the_close_of_the_old_session_may_come_before_the_new_welcome() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let old = fake.open().await;
    let drain = v1::SchedulerDrain { reconnect_within: Some(ms(1)), ..Default::default() };
    old.send(Down::Drain(drain)).await;
    let mut new = fake.accept().await;
    old.close(close::Reason::Superseded, false).await;
    new.send(Down::Welcome(welcome())).await;
    new.heartbeat().await;
}

#[tokio::test]
async fn c39_a_superseded_executor_stops_without_dialing_again() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "obedient", "")).await;
    session.close(close::Reason::Superseded, false).await;
    let error = running.end().await.unwrap_err();
    assert!(matches!(error, Error::Superseded(_)), "{error}");
    assert_eq!(fake.dials(), 1);
    assert!(fake.has_no_session());
}

#[tokio::test]
async fn a_revoked_executor_stops_and_an_unresponsive_one_dials_again() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    fake.open().await.close(close::Reason::Unresponsive, false).await;
    fake.open().await.close(close::Reason::Revoked, false).await;
    let error = running.end().await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

#[tokio::test]
async fn c55_c56_loss_of_contact_stops_those_that_ask_for_it_and_no_others() {
    let mut fake = Fake::start().await;
    let running = Running::start(&fake);
    let mut session = fake.accept().await;
    let soon_lost = v1::Welcome { lost_after: Some(ms(3500)), ..welcome() };
    session.send(Down::Welcome(soon_lost)).await;
    session.begin(command("R1", "gate", "")).await;
    let stops = v1::RunCommand {
        disconnect_policy: DisconnectPolicy::Stop.into(),
        ..command("R2", "obedient", "")
    };
    session.begin(stops).await;
    drop(session);
    let addr = fake.crash().await;
    // Long enough for the fence: lost_after less the grace of 1 s and the margin of 2 s.
    let silence = tokio::net::TcpListener::bind(addr).await.unwrap();
    let fenced = async {
        loop {
            // Accepted and dropped: the executor dials on.
            let _ = silence.accept().await;
            if running.handle.health().since > std::time::Duration::from_millis(1500) {
                break;
            }
        }
    };
    crate::fake::soon("the fence", fenced).await;
    drop(silence);
    let mut fake = Fake::start_at(addr).await;
    let mut session = fake.accept().await;
    let finished: Vec<bool> = session.hello.attempts.iter().map(|a| a.finished).collect();
    assert_eq!(finished, [false, true]);
    session.send(Down::Welcome(v1::Welcome { resumed: true, ..welcome() })).await;
    let result = session.result().await;
    assert_eq!(result.failure.unwrap().code, "DISCONNECTED");
    running.gate.open();
    assert_eq!(session.result().await.outcome(), Outcome::Succeeded);
}

#[tokio::test]
async fn c57_a_session_is_renewed_before_its_credential_ends() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first\n").unwrap();
    let mut fake = Fake::start().await;
    let gate = Gate::new();
    let _running = Running::of(executor(&[fake.url()], &gate).token_file(file.path()), gate);
    let old = fake.accept().await;
    assert_eq!(old.metadata.get("authorization").unwrap(), "Bearer first");
    std::fs::write(file.path(), "second\n").unwrap();
    let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    // Only the difference counts, not what this machine's clock says.
    let expiring = v1::Welcome { server_time: at(1000), auth_expire_time: at(1001), ..welcome() };
    old.send(Down::Welcome(expiring)).await;
    let mut new = fake.open().await;
    assert_eq!(new.metadata.get("authorization").unwrap(), "Bearer second");
    new.heartbeat().await;
}

#[tokio::test]
async fn c59_another_endpoint_of_the_list_is_tried() {
    let gone = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let mut fake = Fake::start().await;
    let gate = Gate::new();
    let _running = Running::of(executor(&[gone, fake.url()], &gate), gate);
    fake.open().await.heartbeat().await;
}

#[tokio::test]
async fn r39_an_executor_waits_for_a_scheduler_that_is_not_there_yet() {
    let addr = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let gate = Gate::new();
    let running = Running::of(executor(&[format!("http://{addr}")], &gate), gate);
    assert!(!running.handle.health().connected);
    let mut fake = Fake::start_at(addr).await;
    let mut session = fake.open().await;
    session.heartbeat().await;
    let hello = &session.hello;
    assert_eq!((hello.app.as_str(), hello.executor_id.as_str()), ("demo", "tester"));
    assert!(hello.resume_token.is_empty() && hello.attempts.is_empty());
}
