//! Sessions that the scheduler ends: drained, superseded, before their credential does.

use std::fs;

use clawjob_conformance::Fake;
use clawjob_conformance::frames::{at, command, ms, welcome};
use clawjob_proto::v1::{
    Outcome, SchedulerDrain, Welcome, close, scheduler_drain, session_response::Frame as Down,
};

use super::{ENDLESS, listed, open};
use crate::judge::{Scenario, scenarios};
use crate::program::Subject;

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    c38_scheduler_drain_make_before_break,
    c39_close_superseded_stops_without_reconnect_loop,
    c57_token_rotation_reconnects_before_expiry,
];

fn drain() -> Down {
    Down::Drain(SchedulerDrain {
        reason: scheduler_drain::Reason::Shutdown.into(),
        reconnect_within: Some(ms(100)),
        closes_after: Some(ms(60_000)),
        ..SchedulerDrain::default()
    })
}

async fn c38_scheduler_drain_make_before_break(subject: Subject) {
    let (mut fake, _program, mut old) = open(&subject).await;
    old.begin(command("R1", "sleep", ENDLESS)).await;
    old.send(drain()).await;
    let new = fake.accept().await;
    assert_eq!(new.hello.attempts.len(), 1);
    // The old session lives while the new one is not welcomed yet.
    let seen = old.heartbeat().await.seq;
    old.heartbeat_where("two more beats", |beat| beat.seq > seen + 1).await;
    let resumed = || Welcome { resumed: true, session_epoch: 2, ..welcome() };
    new.send(Down::Welcome(resumed())).await;
    old.goodbye().await;
    drop(old);
    // The next time the old session is closed before the new one is welcomed.
    new.send(drain()).await;
    let mut newest = fake.accept().await;
    new.close(close::Reason::Superseded, false).await;
    drop(new);
    newest.send(Down::Welcome(resumed())).await;
    let running = [("R1".to_owned(), false)];
    newest.heartbeat_where("the run", |beat| listed(beat) == running).await;
    newest.kill("R1", 1, 30_000).await;
    assert_eq!(newest.result().await.outcome(), Outcome::Canceled);
}

async fn c39_close_superseded_stops_without_reconnect_loop(subject: Subject) {
    let (mut fake, mut program, mut session) = open(&subject).await;
    session.begin(command("R1", "sleep", ENDLESS)).await;
    session.close(close::Reason::Superseded, false).await;
    assert_eq!(program.exit().await.code(), Some(1));
    assert_eq!(fake.dials(), 1);
    assert!(fake.has_no_session());
}

async fn c57_token_rotation_reconnects_before_expiry(subject: Subject) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "first\n").unwrap();
    let mut fake = Fake::start().await;
    let launch = subject.dialing(fake.url()).without("CLAWJOB_TOKEN");
    let _program = launch.env("CLAWJOB_TOKEN_FILE", file.path()).start();
    let mut old = fake.accept().await;
    assert_eq!(old.metadata.get("authorization").unwrap(), "Bearer first");
    fs::write(file.path(), "second\n").unwrap();
    // Only the difference counts, not what this machine's clock says.
    let (server_time, auth_expire_time) = (Some(at(1_000)), Some(at(1_002)));
    let expiring = Welcome { server_time, auth_expire_time, ..welcome() };
    old.send(Down::Welcome(expiring)).await;
    let new = fake.open().await;
    assert_eq!(new.metadata.get("authorization").unwrap(), "Bearer second");
    assert_eq!(new.hello.resume_token, "resume");
    old.goodbye().await;
}
