//! Executors that get no session leave a line in the server's log, and no secret.

use std::process::Stdio;

use clawjob_executor::{Ctx, Error, Executor, Failure};
use nix::sys::signal::Signal;

use crate::{
    fleet::STEP,
    lines::{Process, clawjob},
    raw::executor_token,
};

/// How often each token is tried.
const DIALS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_leaves_one_line_that_names_who_dialled_and_no_secret() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = clawjob();
    command.arg("server").arg("--data-dir").arg(dir.path()).args(["--listen", "127.0.0.1:0"]);
    let mut server = Process::start(command, Stdio::piped());
    let url = server.line_with("listening on ", STEP).rsplit(' ').next().expect("a URL").to_owned();
    let admin = std::fs::read_to_string(dir.path().join("admin.token")).expect("written");
    let foreign = executor_token(&url, admin.trim(), "other").await;
    let unknown = "clawjob_01jq0000000000000000000000_c0ffee";
    for _ in 0..DIALS {
        for token in [unknown, &foreign] {
            let error = refused(&url, token).await;
            assert!(matches!(error, Error::Refused { .. }), "{error}");
        }
    }
    server.line_with("TOKEN_INVALID", STEP);
    server.line_with("ROLE_MISSING", STEP);
    server.signal(Signal::SIGTERM);
    assert!(server.wait(STEP).success());
    let said = server.all().to_vec();
    let refusals: Vec<_> = said.iter().filter(|line| line.contains("session refused")).collect();
    let text = said.join("\n");
    let reasons = ["TOKEN_INVALID", "ROLE_MISSING"];
    let is_known = |line: &str| reasons.iter().any(|reason| line.contains(reason));
    assert!(refusals.iter().all(|line| is_known(line)), "{text}");
    for reason in reasons {
        let own: Vec<_> = refusals.iter().filter(|line| line.contains(reason)).collect();
        assert!(own.iter().all(|line| line.contains("127.0.0.1:")), "{text}");
        let names = ["billing", "worker-7"];
        let named = own.iter().filter(|line| names.iter().all(|name| line.contains(name))).count();
        // Names that come late are not waited for: one more line may be without them.
        assert!((1..DIALS).contains(&named) && own.len() <= named + 1, "{reason}:\n{text}");
    }
    assert!(!text.contains("c0ffee") && !text.contains(foreign.rsplit('_').next().expect("one")));
}

async fn refused(url: &str, token: &str) -> Error {
    let executor = Executor::builder()
        .endpoints([url])
        .token(token)
        .app("billing")
        .executor_id("worker-7")
        .handler("work", async |_: serde_json::Value, _: Ctx| Ok::<_, Failure>(()));
    let run = executor.run_until(std::future::pending());
    tokio::time::timeout(STEP, run).await.expect("it gives up").expect_err("refused")
}
