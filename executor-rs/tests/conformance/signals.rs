//! A process of its own under signals and SIGKILL, configured by its environment alone.

use std::process::Stdio;

use clawjob_executor::{Ctx, Executor, Failure};
use clawjob_proto::v1::{Outcome, session_request::Frame as Up};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::fake::{Fake, command, soon};

/// The executor in the child process; started by the tests below, not by itself.
#[tokio::test]
#[ignore = "the other side of the tests in this file"]
async fn child() {
    let wait = |_: (), ctx: Ctx| async move {
        ctx.cancelled().await;
        Err::<(), _>(ctx.stopped())
    };
    let deaf = |_: (), _ctx: Ctx| std::future::pending::<Result<(), Failure>>();
    let executor = Executor::from_env().unwrap();
    executor.handler("wait", wait).handler("deaf", deaf).run().await.unwrap();
}

fn start(fake: &Fake) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "signals::child", "--ignored"])
        .env("CLAWJOB_ENDPOINTS", fake.url())
        .env("CLAWJOB_APP", "demo")
        .env("CLAWJOB_TOKEN", "secret")
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().unwrap() as i32), signal).unwrap();
}

#[tokio::test]
async fn c40_c41_the_first_sigterm_drains_and_the_second_cancels() {
    let mut fake = Fake::start().await;
    let mut child = start(&fake);
    let mut session = fake.open().await;
    assert!(session.hello.executor_id.len() > 7);
    session.begin(command("R1", "wait", "")).await;
    signal(&child, Signal::SIGTERM);
    session.expect("an ExecutorDrain", |f| matches!(f, Up::Drain(_)).then_some(())).await;
    assert_eq!(session.heartbeat().await.attempts.len(), 1);
    signal(&child, Signal::SIGTERM);
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.as_ref().unwrap().code, "SHUTDOWN");
    session.commit(&result).await;
    session.expect("a Goodbye", |f| matches!(f, Up::Goodbye(_)).then_some(())).await;
    drop(session);
    assert!(soon("the child's end", child.wait()).await.unwrap().success());
}

#[tokio::test]
async fn sigint_ends_an_idle_executor() {
    let mut fake = Fake::start().await;
    let mut child = start(&fake);
    let mut session = fake.open().await;
    session.heartbeat().await;
    signal(&child, Signal::SIGINT);
    session.expect("a Goodbye", |f| matches!(f, Up::Goodbye(_)).then_some(())).await;
    drop(session);
    assert!(soon("the child's end", child.wait()).await.unwrap().success());
}

#[tokio::test]
async fn a_killed_executor_says_no_goodbye() {
    let mut fake = Fake::start().await;
    let mut child = start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "deaf", "")).await;
    child.kill().await.unwrap();
    while let Some(frame) = session.next().await {
        assert!(!matches!(frame, Up::Goodbye(_)));
    }
}
