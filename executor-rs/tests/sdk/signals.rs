//! A process of its own under signals and SIGKILL, configured by its environment alone.

use std::process::Stdio;

use clawjob_conformance::frames::command;
use clawjob_conformance::{Fake, soon};
use clawjob_executor::{Ctx, Executor, Failure};
use clawjob_proto::v1::session_request::Frame as Up;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// The executor in the child process; started by the tests below, not by itself.
#[tokio::test]
#[ignore = "the other side of the tests in this file"]
async fn child() {
    let deaf = |_: (), _ctx: Ctx| std::future::pending::<Result<(), Failure>>();
    let executor = Executor::from_env().unwrap();
    executor.handler("deaf", deaf).run().await.unwrap();
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
async fn sigint_ends_an_idle_executor() {
    let mut fake = Fake::start().await;
    let mut child = start(&fake);
    let mut session = fake.open().await;
    session.heartbeat().await;
    signal(&child, Signal::SIGINT);
    session.goodbye().await;
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
