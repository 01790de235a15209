//! Exit codes, how errors read, and repeats over several endpoints.

use std::time::Duration;

use tonic::{Code, Status, transport::Identity};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    fake::Fake,
    harness::{Session, nobody},
};

#[tokio::test]
async fn a_missing_job_exits_3_with_reason_request_id_and_remedy() {
    let (_fake, url) = Fake::start().await;
    let done = Session::new(url).run(&["jobs", "get", "demo/x"]).await;
    assert_eq!(done.exit, 3);
    assert_eq!(done.out, "");
    for wanted in ["NOT_FOUND, JOB_NOT_FOUND", "request id: r-2", "clawjob jobs list"] {
        assert!(done.err.contains(wanted), "{wanted}: {}", done.err);
    }
}

#[tokio::test]
async fn a_missing_or_wrong_token_exits_4() {
    let (_fake, url) = Fake::start().await;
    let mut session = Session::new(url);
    session.token = None;
    let done = session.run(&["whoami"]).await;
    assert_eq!(done.exit, 4);
    assert!(done.err.contains("TOKEN_INVALID") && done.err.contains("CLAWJOB_TOKEN"), "{done:?}");
    assert!(done.err.contains("\n  token: none was given\n"), "{done:?}");
    session.file("wrong", "wrong-word\n");
    let file = session.directory.path().join("wrong");
    let done = session.run(&["whoami", "--token-file", file.to_str().unwrap()]).await;
    assert_eq!(done.exit, 4);
    let used = format!("\n  token: the one of --token-file {}\n", file.display());
    assert!(done.err.contains(&used) && !done.err.contains("wrong-word"), "{done:?}");
}

#[tokio::test]
async fn every_violation_is_told_and_the_exit_code_is_2() {
    let (_fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.file("j", "{name: a/b, cron: '1 2'}");
    let done = session.run(&["jobs", "create", "-f", "j"]).await;
    assert_eq!(done.exit, 2);
    assert!(done.err.contains("\n  job.handler: is empty: name a handler\n"), "{}", done.err);
    assert!(done.err.contains("\n  job.schedules[0].cron: "), "{}", done.err);
}

#[tokio::test]
async fn a_taken_id_exits_6() {
    let (_fake, url) = Fake::start().await;
    let session = Session::new(url);
    let create = ["jobs", "create", "demo/a", "--handler", "h"];
    session.ok(&create).await;
    assert_eq!(session.run(&create).await.exit, 6);
}

#[tokio::test]
async fn wrong_usage_exits_2_without_a_call() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    for args in [
        &["jobs", "get", "no-app"][..],
        &["jobs", "create", "demo/a"],
        &["jobs", "create", "-f", "jobs.yaml", "--cron", "@daily"],
        &["jobs", "create", "-f", "jobs.yaml", "demo/a"],
        &["jobs", "update", "demo/a", "--overlap", "maybe"],
        &["runs", "logs", "a/b/c"],
        &["nonsense"],
        &["--app", "a/b", "jobs", "list"],
        &["tokens", "create", "x"],
    ] {
        let done = session.run(args).await;
        assert_eq!(done.exit, 2, "{args:?} {done:?}");
        assert!(!done.err.is_empty());
    }
    assert!(fake.state().calls.is_empty());
}

#[tokio::test]
async fn no_server_exits_5_and_names_the_url() {
    let (_socket, url) = nobody();
    let done = Session::new(&url).run(&["jobs", "list"]).await;
    assert_eq!(done.exit, 5);
    assert!(done.err.contains(&url) && done.err.contains("clawjob dev"), "{}", done.err);
}

/// A server whose process is stopped: the kernel takes its connections, and nobody answers.
fn hung() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn a_server_that_hangs_exits_5_and_names_the_url() {
    let (_listener, url) = hung();
    // Three rounds of 6 s; a time-out of each call made it 90 s.
    let session = Session::new(&url);
    let done = tokio::time::timeout(Duration::from_secs(80), session.run(&["runs", "list"]));
    let done = done.await.unwrap();
    assert_eq!(done.exit, 5, "{done:?}");
    assert!(done.err.contains(&url) && done.err.contains("does not answer"), "{}", done.err);
}

#[tokio::test]
async fn the_next_endpoint_is_tried_when_one_hangs() {
    let (_listener, hung) = hung();
    let (healthy, url) = Fake::start().await;
    Session::new(format!("{hung},{url}")).ok(&["whoami"]).await;
    assert_eq!(healthy.state().calls, ["who_am_i"]);
}

/// It may have been made, and to make it again could differ.
#[tokio::test]
async fn a_delete_whose_answer_never_came_is_sent_once_and_says_so() {
    let (_listener, hung) = hung();
    let (healthy, url) = Fake::start().await;
    let session = Session::new(format!("{hung},{url}"));
    let done = session.run(&["jobs", "delete", "demo/a", "--yes"]).await;
    assert_eq!(done.exit, 5, "{done:?}");
    assert!(done.err.contains("may have been made"), "{}", done.err);
    assert!(healthy.state().calls.is_empty());
}

#[tokio::test]
async fn the_next_endpoint_is_tried_when_one_is_gone_or_unavailable() {
    let (_socket, gone) = nobody();
    let (draining, second) = Fake::start().await;
    let (healthy, third) = Fake::start().await;
    draining.state().failures.push_back(Status::unavailable("draining"));
    let session = Session::new(format!("{gone},{second},{third}"));
    session.ok(&["whoami"]).await;
    assert_eq!(draining.state().calls, ["who_am_i"]);
    assert_eq!(healthy.state().calls, ["who_am_i"]);
}

#[tokio::test]
async fn a_change_under_a_request_id_is_repeated_and_a_delete_is_not() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(Duration::from_millis(1)));
    let busy = || Status::with_error_details(Code::Unavailable, "busy", details.clone());
    fake.state().failures.extend([busy(), busy()]);
    session.ok(&["jobs", "create", "demo/a", "--handler", "h"]).await;
    assert_eq!(fake.state().calls, ["create_job"; 3]);
    fake.state().failures.push_back(busy());
    let done = session.run(&["jobs", "delete", "demo/a"]).await;
    assert_eq!(done.exit, 5);
    assert_eq!(fake.state().calls.iter().filter(|c| **c == "delete_job").count(), 1);
}

#[tokio::test]
async fn text_of_a_server_never_reaches_the_terminal_raw() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.ok(&["jobs", "create", "demo/a", "--handler", "h\x1b]0;own\x07\u{9b}2J"]).await;
    for format in ["table", "json", "yaml"] {
        for args in [&["-o", format, "jobs", "get", "demo/a"][..], &["-o", format, "jobs", "list"]]
        {
            let out = session.ok(args).await;
            assert!(!out.contains(['\x1b', '\x07', '\u{9b}']), "{out:?}");
        }
    }
    fake.state().failures.push_back(Status::internal("bad \x1b[2J"));
    let done = session.run(&["whoami"]).await;
    assert_eq!(done.exit, 10);
    assert!(!done.err.contains('\x1b'), "{:?}", done.err);
}

#[tokio::test]
async fn a_private_authority_is_trusted_by_its_file_only() {
    let mut params = rcgen::CertificateParams::new(["ClawJob test".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority =
        rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let server = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let server = server.signed_by(&key, &authority).unwrap();
    let identity = Identity::from_pem(server.pem(), key.serialize_pem());
    let (_fake, url) = Fake::start_tls(identity).await;
    let session = Session::new(url);
    session.file("ca.pem", &authority.pem());
    let path = session.directory.path().join("ca.pem");
    session.ok(&["--ca-file", path.to_str().unwrap(), "whoami"]).await;
    let stranger = session.run(&["whoami"]).await;
    assert_eq!(stranger.exit, 5, "{stranger:?}");
    assert!(stranger.err.contains("certificate"), "{}", stranger.err);
}
