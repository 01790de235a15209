//! `alarms` and `alarm-rules`.

use clawjob_proto::v1::{alarm_rule::Condition, channel};

use crate::{fake::Fake, harness::Session};

#[tokio::test]
async fn a_rule_is_made_of_flags_with_its_secret_from_a_file() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.file("key", "k3y\n");
    let out = session
        .ok(&[
            "alarm-rules",
            "create",
            "demo/failures",
            "--on",
            "run-failed",
            "--threshold",
            "3",
            "--filter",
            "owner : ops",
            "--webhook",
            "https://h/x",
            "--secret-file",
            "key",
            "--header",
            "x-a=1",
            "--mail",
            "ops@example.com",
        ])
        .await;
    assert!(out.contains("demo/failures") && out.contains("run-failed"), "{out}");
    let state = fake.state();
    let rule = &state.rules["apps/demo/alarmRules/failures"];
    assert_eq!((rule.condition(), rule.threshold), (Condition::RunFailed, 3));
    assert_eq!(rule.filter, "owner : ops");
    let Some(channel::Kind::Webhook(hook)) = &rule.channels[0].kind else { panic!("{rule:?}") };
    assert_eq!((hook.secret.as_str(), hook.headers["x-a"].as_str()), ("k3y", "1"));
    let Some(channel::Kind::Email(mail)) = &rule.channels[1].kind else { panic!("{rule:?}") };
    assert_eq!(mail.to, ["ops@example.com"]);
}

#[tokio::test]
async fn an_update_names_what_was_given_and_nothing_else() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    session.ok(&["alarm-rules", "update", "demo/r", "--threshold", "2", "--disabled"]).await;
    session.ok(&["alarm-rules", "update", "demo/r", "--disabled", "false"]).await;
    session.ok(&["alarm-rules", "update", "demo/r", "--mail", "a@b"]).await;
    assert_eq!(
        fake.state().masks,
        [vec!["threshold", "disabled"], vec!["disabled"], vec!["channels"]]
    );
    let nothing = session.run(&["alarm-rules", "update", "demo/r"]).await;
    assert!(nothing.err.contains("nothing to change"), "{nothing:?}");
}

#[tokio::test]
async fn a_test_shows_each_answer_and_fails_when_one_channel_did() {
    let (_fake, url) = Fake::start().await;
    let done = Session::new(url).run(&["alarm-rules", "test", "demo/r"]).await;
    assert_eq!(done.exit, 1);
    assert!(done.out.contains("delivered") && done.out.contains("HTTP 403 Forbidden"), "{done:?}");
    assert!(done.err.contains("1 channel did not take the sample"), "{done:?}");
}

#[tokio::test]
async fn alarms_are_listed_by_job_and_rule_and_acknowledged() {
    let (fake, url) = Fake::start().await;
    let session = Session::new(url);
    let out = session
        .ok(&["alarms", "list", "--app", "demo", "--job", "hello", "--rule", "r", "--open"])
        .await;
    assert!(out.contains("demo/A1") && out.contains("(configuration)"), "{out}");
    let wanted = "job = \"apps/demo/jobs/hello\" AND rule = \"apps/demo/alarmRules/r\" \
                  AND acknowledged = \"false\"";
    assert_eq!(fake.state().filters, [wanted]);
    let out = session.ok(&["alarms", "ack", "demo/A1", "--comment", "on it"]).await;
    assert!(out.contains("me, saying on it"), "{out}");
    let message = ["message:", "Reason: none"].map(|text| out.lines().find_map(|l| l.find(text)));
    assert!(message[0] == Some(0) && message[1] > Some(0), "in lines of its own: {out}");
}
