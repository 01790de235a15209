use clawjob_proto::json::pool;

use super::*;
use crate::api::{alarms::show::spec_to_proto, status::ApiError};

fn hook(url: &str, secret: &str, headers: &[(&str, &str)]) -> pb::Channel {
    let headers = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let (url, secret) = (url.to_owned(), secret.to_owned());
    pb::Channel { kind: Some(channel::Kind::Webhook(channel::Webhook { url, secret, headers })) }
}

fn mail(to: &[&str]) -> pb::Channel {
    let to = to.iter().map(|to| (*to).to_owned()).collect();
    pb::Channel { kind: Some(channel::Kind::Email(channel::Email { to })) }
}

fn rule(channels: Vec<pb::Channel>) -> pb::AlarmRule {
    pb::AlarmRule {
        display_name: "Failures".to_owned(),
        condition: Asked::RunFailed.into(),
        filter: "labels.team = data AND NOT handler : mail".to_owned(),
        threshold: 3,
        channels,
        disabled: true,
        ..pb::AlarmRule::default()
    }
}

fn taken(given: &pb::AlarmRule, kept: &[Channel]) -> Result<AlarmRuleSpec, ApiError> {
    let mut bad = Violations::new();
    let draft = read(given, kept, true, &mut bad);
    bad.finish()?;
    assert_eq!(draft.later, []);
    Ok(draft.spec)
}

fn fault(given: &pb::AlarmRule, kept: &[Channel]) -> String {
    taken(given, kept).expect_err("a fault").message().to_owned()
}

#[test]
fn every_field_is_read_and_shown_but_what_is_secret() {
    let given = rule(vec![
        hook("https://h/x", "s3cret", &[("Authorization", "Bearer t0ken")]),
        mail(&["ops@example.com"]),
    ]);
    let spec = taken(&given, &[]).expect("taken");
    let Channel::Webhook(webhook) = &spec.channels[0] else { panic!("{spec:?}") };
    assert_eq!(webhook.secret.expose(), "s3cret");
    assert_eq!(webhook.headers["authorization"].expose(), "Bearer t0ken");
    let shown = spec_to_proto(&spec);
    let json = clawjob_proto::json::to_value(&shown).expect("has a JSON form");
    let text = json.to_string();
    assert!(!text.contains("s3cret") && !text.contains("t0ken"), "{text}");
    assert!(text.contains("authorization"), "the name is shown: {text}");
    let descriptor = pool().get_message_by_name("clawjob.v1.AlarmRule").expect("a message");
    let other = ["name", "etag", "duration", "repeat_interval"];
    for field in descriptor.fields().filter(|field| !other.contains(&field.name())) {
        assert!(json.get(field.json_name()).is_some(), "{} is not shown", field.name());
    }
    assert_eq!(taken(&shown, &spec.channels).expect("read back"), spec, "nothing was lost");
}

#[test]
fn what_is_secret_is_kept_for_the_same_url_only() {
    let before = taken(&rule(vec![hook("https://h/x", "s3cret", &[("x-key", "k3y")])]), &[]);
    let before = before.expect("taken").channels;
    let secret_of = |channels: Vec<pb::Channel>| {
        let spec = taken(&rule(channels), &before).expect("taken");
        let hooks = spec.channels.iter().filter_map(as_webhook);
        hooks.map(|hook| hook.secret.expose().to_owned()).collect::<Vec<_>>()
    };
    let moved = vec![mail(&["a@example.com"]), hook("https://h/x", "", &[("x-key", "")])];
    assert_eq!(secret_of(moved), ["s3cret"]);
    assert_eq!(secret_of(vec![hook("https://h/x", "new", &[])]), ["new"]);
    let elsewhere = hook("https://evil/x", "", &[("x-key", "")]);
    let text = fault(&rule(vec![elsewhere]), &before);
    assert!(text.contains("webhook.secret: is empty, and the URL is another"), "{text}");
    assert!(text.contains(r#"headers["x-key"]: is empty"#), "{text}");
    assert_eq!(secret_of(vec![hook("https://other/x", "new", &[("x-key", "v")])]), ["new"]);
    let added = vec![hook("https://h/x", "", &[]), hook("https://second/", "", &[])];
    assert_eq!(secret_of(added), ["s3cret", ""], "a further one may be unsigned");
}

#[test]
fn all_faults_of_a_rule_are_told_at_once() {
    let given = pb::AlarmRule {
        display_name: "a\nb".to_owned(),
        condition: 0,
        filter: "state = FAILED".to_owned(),
        threshold: THRESHOLD_MAX + 1,
        channels: vec![
            hook("ftp://h/", &"x".repeat(SECRET_MAX + 1), &[("Host", "h"), ("a b", "c")]),
            hook("https://h/", "", &[("Clawjob-Signature", "forged"), ("x", "a\nb")]),
            mail(&["nobody"]),
            pb::Channel { kind: None },
        ],
        ..pb::AlarmRule::default()
    };
    let text = fault(&given, &[]);
    for field in [
        "alarm_rule.display_name",
        "alarm_rule.condition: is missing",
        "alarm_rule.filter",
        "alarm_rule.threshold",
        "channels[0].webhook.url",
        "channels[0].webhook.secret",
        r#"channels[0].webhook.headers["Host"]"#,
        r#"channels[0].webhook.headers["a b"]"#,
        r#"channels[1].webhook.headers["Clawjob-Signature"]"#,
        r#"channels[1].webhook.headers["x"]"#,
        "channels[2].email.to[0]",
        "channels[3]: says nothing",
    ] {
        assert!(text.contains(field), "{field} is not in {text}");
    }
    assert!(fault(&rule(Vec::new()), &[]).contains("name a webhook or a mail"));
}

#[test]
fn what_comes_later_is_named_with_what_there_is() {
    let robot = channel::Kind::ChatRobot(channel::ChatRobot::default());
    let span = prost_types::Duration { seconds: 60, nanos: 0 };
    for number in 3..=9 {
        if number == Asked::RunSucceeded as i32 {
            continue;
        }
        let given = pb::AlarmRule {
            condition: number,
            duration: Some(span),
            repeat_interval: Some(span),
            ..rule(vec![pb::Channel { kind: Some(robot.clone()) }])
        };
        let mut bad = Violations::new();
        let later = read(&given, &[], true, &mut bad).later;
        assert!(bad.is_empty());
        let fields: Vec<&str> = later.iter().map(|(field, _)| field.as_str()).collect();
        let wanted = [
            "alarm_rule.condition",
            "alarm_rule.duration",
            "alarm_rule.repeat_interval",
            "alarm_rule.channels[0].chat_robot",
        ];
        assert_eq!(fields, wanted);
        assert!(later[0].1.contains("CONDITION_RUN_FAILED, _RUN_LOST or _RUN_SUCCEEDED"));
    }
}

#[test]
fn a_mail_needs_a_mail_server() {
    let mut bad = Violations::new();
    read(&rule(vec![mail(&["ops@example.com"])]), &[], false, &mut bad);
    let error = bad.finish().expect_err("a fault");
    assert_eq!(error.reason(), "MAIL_NOT_CONFIGURED");
    assert!(error.message().contains("alarm.smtp.host"), "{}", error.message());
}
