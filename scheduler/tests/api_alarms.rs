//! AlarmService over a SQLite store, with real receivers on loopback.

#[path = "support/api.rs"]
mod api;
#[path = "support/receivers.rs"]
mod receivers;

use std::{sync::Arc, time::Duration};

use api::{World, admin, by, caller, fields, hello, soon, why};
use chrono::{DateTime, Utc};
use clawjob_proto::v1::{
    self as pb, alarm_rule::Condition, alarm_service_server::AlarmService as _, channel,
};
use clawjob_scheduler::{
    alarm::{
        ChannelSettings, Channels,
        courier::Courier,
        mail::{SmtpSettings, SmtpTls},
        raise::Raiser,
    },
    api::{Api, ApiSettings, alarms::AlarmsApi},
    board::Board,
    follow::Follower,
    hub::{Hub, settings::HubSettings},
    model::{
        alarm::{Channel, DefaultAlarm, Mail, Secret, Webhook},
        principal::Role,
        run::{Failure, Outcome, RunState},
    },
    store::ops::{AttemptEnd, EndRun, StateSet},
};
use hmac::{Hmac, Mac as _};
use receivers::{Answer, MailReceiver, WebReceiver};
use tonic::Code;

struct Alarms {
    world: World,
    api: AlarmsApi,
    channels: Arc<Channels>,
}

/// Alarms of a server whose mail goes to the port.
async fn alarms_with(smtp_port: u16) -> Alarms {
    let world = World::new().await;
    let (hub, _events) = Hub::new(HubSettings::default(), world.clock.clone());
    let smtp = SmtpSettings {
        host: "127.0.0.1".to_owned(),
        port: Some(smtp_port),
        tls: SmtpTls::None,
        login: None,
        from: "ClawJob <jobs@example.com>".to_owned(),
    };
    let channels = ChannelSettings {
        smtp: Some(smtp),
        run_url: Some("https://jobs.example.com/{app}/{job}/{run}".to_owned()),
        timeout: Duration::from_secs(30),
    };
    let settings = ApiSettings { channels, ..ApiSettings::default() };
    let store = world.store.clone();
    let api = Api::new(store, hub, world.clock.clone(), settings).await.expect("an API");
    let channels = api.channels.clone();
    Alarms { world, api: AlarmsApi::new(api), channels }
}

async fn alarms() -> Alarms {
    alarms_with(9).await
}

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
    pb::AlarmRule { condition: Condition::RunFailed.into(), channels, ..Default::default() }
}

fn create(id: &str, rule: pb::AlarmRule) -> pb::CreateAlarmRuleRequest {
    pb::CreateAlarmRuleRequest {
        parent: "apps/a".to_owned(),
        alarm_rule_id: id.to_owned(),
        alarm_rule: Some(rule),
        ..Default::default()
    }
}

fn name(id: &str) -> String {
    format!("apps/a/alarmRules/{id}")
}

impl Alarms {
    async fn made(&self, id: &str, rule: pb::AlarmRule) -> pb::AlarmRule {
        let made = self.api.create_alarm_rule(admin(create(id, rule))).await;
        made.expect("created").into_inner()
    }

    async fn update(
        &self,
        rule: pb::AlarmRule,
        paths: &[&str],
    ) -> Result<pb::AlarmRule, tonic::Status> {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let update_mask = Some(prost_types::FieldMask { paths });
        let request = pb::UpdateAlarmRuleRequest {
            alarm_rule: Some(rule),
            update_mask,
            validate_only: false,
        };
        self.api.update_alarm_rule(admin(request)).await.map(tonic::Response::into_inner)
    }

    async fn list(&self, filter: &str, size: i32, token: &str) -> pb::ListAlarmsResponse {
        let request = pb::ListAlarmsRequest {
            parent: "apps/-".to_owned(),
            page_size: size,
            page_token: token.to_owned(),
            filter: filter.to_owned(),
        };
        self.api.list_alarms(admin(request)).await.expect("listed").into_inner()
    }

    /// A run of `apps/a/jobs/{job}` fails for good.
    async fn fail(&self, job: &str) -> pb::Run {
        let full_name = format!("apps/a/jobs/{job}");
        if self.world.store.get_job("a", job).await.is_err() {
            let owner = "team@example.com".to_owned();
            self.world.create("a", job, pb::Job { owner, ..hello() }).await;
        }
        let run = self.world.trigger(&full_name).await;
        let attempt = self.world.start(&run).await;
        let failure = Failure {
            code: "BOOM".to_owned(),
            message: "it broke".to_owned(),
            ..Failure::default()
        };
        let end = EndRun {
            attempt,
            from: StateSet::SENT,
            to: RunState::Failed,
            end: AttemptEnd {
                outcome: Some(Outcome::Failed),
                failure: Some(failure),
                ..AttemptEnd::default()
            },
            output: None,
            output_truncated: false,
            message: String::new(),
            missed: false,
        };
        self.world.store.end_runs(&[end], self.world.now()).await.expect("ends");
        run
    }

    /// Raises and delivers what is due.
    async fn deliver(&self, default: Option<DefaultAlarm>) {
        let store = &self.world.store;
        let raiser = Raiser::new(store.clone(), default.clone());
        let board = Arc::new(Board::default());
        let mut follower = Follower::new(store.clone(), board, raiser);
        while follower.step(self.world.now()).await.expect("followed up") > 0 {}
        let (clock, channels) = (self.world.clock.clone(), self.channels.clone());
        let mut courier = Courier::new(store.clone(), clock, channels, default);
        while courier.tick(self.world.now()).await.expect("claims") > 0 || courier.in_flight() > 0 {
            let ended = soon(courier.ended()).await;
            courier.record(ended).await;
        }
    }
}

fn signature_of(secret: &str, timestamp: &str, body: &str) -> String {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    mac.update(format!("{timestamp}.{body}").as_bytes());
    format!("v1={}", hex::encode(mac.finalize().into_bytes()))
}

#[tokio::test]
async fn a_failed_run_is_posted_signed_with_everything_one_needs() {
    let alarms = alarms().await;
    let receiver = WebReceiver::start().await;
    let hook = hook(&receiver.url, "s3cret", &[("Authorization", "Bearer t0ken")]);
    alarms.made("failures", rule(vec![hook])).await;
    let run = alarms.fail("nightly").await;
    alarms.deliver(None).await;
    let posted = receiver.posted();
    let [posted] = &posted[..] else { panic!("{posted:?}") };
    assert_eq!(posted.header("authorization"), "Bearer t0ken");
    assert_eq!(posted.header("content-type"), "application/json");
    assert!(posted.header("user-agent").starts_with("clawjob/"));
    let timestamp = posted.header("clawjob-timestamp");
    assert_eq!(timestamp, alarms.world.now().timestamp().to_string());
    assert_eq!(posted.header("clawjob-signature"), signature_of("s3cret", timestamp, &posted.body));
    let body = posted.json();
    assert_eq!(body["id"], posted.header("clawjob-alarm-id"));
    let id = run.name.rsplit('/').next().expect("an id");
    for (key, wanted) in [
        ("rule", name("failures")),
        ("condition", "RUN_FAILED".to_owned()),
        ("subject", "FAILED: a/jobs/nightly".to_owned()),
        ("app", "a".to_owned()),
        ("job", "apps/a/jobs/nightly".to_owned()),
        ("owner", "team@example.com".to_owned()),
        ("run", run.name.clone()),
        ("state", "FAILED".to_owned()),
        ("trigger", "API".to_owned()),
        ("executor", "host-1".to_owned()),
        ("link", format!("https://jobs.example.com/a/nightly/{id}")),
    ] {
        assert_eq!(body[key], wanted, "{key}");
    }
    assert_eq!((&body["attempts"], &body["test"]), (&1.into(), &false.into()));
    assert_eq!(body["failure"]["code"], "BOOM");
    assert_eq!(body["failure"]["message"], "it broke");
    for key in ["alarm_time", "fire_time", "end_time"] {
        let text = body[key].as_str().expect("an instant");
        let at: DateTime<Utc> = text.parse().expect("RFC 3339");
        assert_eq!(at, alarms.world.now(), "{key}");
    }
    let listed = alarms.list("", 10, "").await.alarms;
    assert_eq!((listed.len(), listed[0].deliveries), (1, 1));
}

#[tokio::test]
async fn a_failed_run_is_mailed_to_all_who_are_named() {
    let receiver = MailReceiver::start().await;
    let alarms = alarms_with(receiver.port).await;
    alarms.made("failures", rule(vec![mail(&["a@example.com", "b@example.com"])])).await;
    alarms.fail("nightly").await;
    alarms.deliver(None).await;
    let letters = receiver.wait_for(1).await;
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!(letter.to, ["a@example.com", "b@example.com"]);
    for line in [
        "From: ClawJob <jobs@example.com>",
        "Subject: [ClawJob] FAILED: a/jobs/nightly",
        "Owner: team@example.com",
        "BOOM: it broke",
    ] {
        assert!(letter.text.contains(line), "{line} in {}", letter.text);
    }
    let id = alarms.list("", 10, "").await.alarms[0].name.rsplit('/').next().map(str::to_owned);
    let message_id = format!("Message-ID: <{}.clawjob@example.com>", id.expect("an id"));
    assert!(letter.text.contains(&message_id), "{}", letter.text);
}

#[tokio::test]
async fn a_rule_tells_only_of_its_own_app_and_what_its_filter_lets_through() {
    let alarms = alarms().await;
    let receiver = WebReceiver::start().await;
    let filter = "owner : TEAM AND NOT name = quiet".to_owned();
    let rule = pb::AlarmRule { filter, ..rule(vec![hook(&receiver.url, "", &[])]) };
    alarms.made("failures", rule.clone()).await;
    let elsewhere = pb::CreateAlarmRuleRequest {
        parent: "apps/b".to_owned(),
        ..create("failures", pb::AlarmRule { filter: String::new(), ..rule })
    };
    alarms.api.create_alarm_rule(admin(elsewhere)).await.expect("created");
    alarms.fail("quiet").await;
    alarms.fail("loud").await;
    alarms.deliver(None).await;
    let jobs: Vec<_> = receiver.posted().iter().map(|p| p.json()["job"].clone()).collect();
    assert_eq!(jobs, ["apps/a/jobs/loud"]);
    assert_eq!(receiver.posted()[0].header("clawjob-signature"), "", "no secret, no signature");
}

#[tokio::test]
async fn secrets_are_never_read_back_and_stay_when_they_are_left_empty() {
    let alarms = alarms().await;
    let receiver = WebReceiver::start().await;
    let secret = hook(&receiver.url, "s3cret", &[("x-key", "k3y")]);
    let made = alarms.made("r", rule(vec![secret])).await;
    let got = pb::GetAlarmRuleRequest { name: name("r") };
    let got = alarms.api.get_alarm_rule(admin(got)).await.expect("found").into_inner();
    let list = pb::ListAlarmRulesRequest { parent: "apps/a".to_owned(), ..Default::default() };
    let list = alarms.api.list_alarm_rules(admin(list)).await.expect("listed").into_inner();
    for shown in [&made, &got, &list.alarm_rules[0]] {
        let text = format!("{shown:?}");
        assert!(!text.contains("s3cret") && !text.contains("k3y"), "{text}");
    }
    assert_eq!(made, got);
    // What was read is written back with another threshold, channels and all.
    let back = pb::AlarmRule { display_name: "Mine".to_owned(), ..got };
    let changed = alarms.update(back, &["*"]).await.expect("changed");
    assert_eq!((changed.display_name.as_str(), changed.channels.len()), ("Mine", 1));
    alarms.fail("job").await;
    alarms.deliver(None).await;
    let posted = &receiver.posted()[0];
    assert_eq!(posted.header("x-key"), "k3y");
    let wanted = signature_of("s3cret", posted.header("clawjob-timestamp"), &posted.body);
    assert_eq!(posted.header("clawjob-signature"), wanted);

    let thief = WebReceiver::start().await;
    let stolen = hook(&thief.url, "", &[("x-key", "")]);
    let stolen = pb::AlarmRule { name: name("r"), channels: vec![stolen], ..Default::default() };
    let refused = alarms.update(stolen, &["channels"]).await.expect_err("refused");
    let wanted = [
        "alarm_rule.channels[0].webhook.secret",
        "alarm_rule.channels[0].webhook.headers[\"x-key\"]",
    ];
    assert_eq!(fields(&refused), wanted);
}

#[tokio::test]
async fn a_rule_is_changed_by_mask_and_etag() {
    let alarms = alarms().await;
    let made = alarms.made("r", rule(vec![hook("https://h/", "", &[])])).await;
    let patch =
        pb::AlarmRule { name: name("r"), threshold: 3, disabled: true, ..Default::default() };
    let changed = alarms.update(patch.clone(), &["threshold"]).await.expect("changed");
    assert_eq!((changed.threshold, changed.disabled, changed.channels.len()), (3, false, 1));
    assert_ne!(changed.etag, made.etag);
    let stale = pb::AlarmRule { etag: made.etag.clone(), ..patch.clone() };
    let stale = alarms.update(stale, &["disabled"]).await.expect_err("stale");
    assert_eq!(why(&stale), (Code::Aborted, "ETAG_MISMATCH".to_owned()));
    let same = alarms.update(patch.clone(), &["threshold"]).await.expect("no change");
    assert_eq!(same.etag, changed.etag);
    let unknown = alarms.update(patch, &["colour"]).await.expect_err("unknown");
    assert_eq!(why(&unknown).1, "MASK_UNKNOWN_FIELD");
    let delete = |etag: &str| pb::DeleteAlarmRuleRequest { name: name("r"), etag: etag.to_owned() };
    let stale = alarms.api.delete_alarm_rule(admin(delete(&made.etag))).await.expect_err("stale");
    assert_eq!(why(&stale).1, "ETAG_MISMATCH");
    alarms.api.delete_alarm_rule(admin(delete(&changed.etag))).await.expect("deleted");
    let gone = alarms.api.delete_alarm_rule(admin(delete(""))).await.expect_err("gone");
    assert_eq!(why(&gone), (Code::NotFound, "ALARM_RULE_NOT_FOUND".to_owned()));
}

#[tokio::test]
async fn a_repeated_request_makes_one_rule_and_validate_only_none() {
    let alarms = alarms().await;
    let only = pb::CreateAlarmRuleRequest {
        validate_only: true,
        ..create("r", rule(vec![hook("https://h/", "x", &[])]))
    };
    let shown = alarms.api.create_alarm_rule(admin(only.clone())).await.expect("valid");
    assert_eq!((shown.get_ref().name.clone(), shown.get_ref().etag.as_str()), (name("r"), ""));
    let get = pb::GetAlarmRuleRequest { name: name("r") };
    let missing = alarms.api.get_alarm_rule(admin(get)).await.expect_err("not made");
    assert_eq!(missing.code(), Code::NotFound);
    let request = pb::CreateAlarmRuleRequest {
        validate_only: false,
        request_id: "r-1".to_owned(),
        ..only.clone()
    };
    let first = alarms.api.create_alarm_rule(admin(request.clone())).await.expect("made");
    let again = alarms.api.create_alarm_rule(admin(request.clone())).await.expect("the same");
    assert_eq!(first.get_ref(), again.get_ref());
    let other = pb::CreateAlarmRuleRequest { alarm_rule_id: "r2".to_owned(), ..request };
    let reused = alarms.api.create_alarm_rule(admin(other)).await.expect_err("reused");
    assert_eq!(why(&reused).1, "REQUEST_ID_REUSED");
    let taken = alarms.api.create_alarm_rule(admin(only)).await.expect_err("taken");
    assert_eq!(why(&taken), (Code::AlreadyExists, "ALARM_RULE_EXISTS".to_owned()));
}

#[tokio::test]
async fn a_filter_that_no_job_can_pass_is_refused_with_what_to_write() {
    let alarms = alarms().await;
    for filter in ["name = apps/shop/jobs/nightly", "NOT name : \"jobs/nightly\""] {
        let draft =
            pb::AlarmRule { filter: filter.to_owned(), ..rule(vec![hook("https://h/", "", &[])]) };
        let refused = alarms.api.create_alarm_rule(admin(create("r", draft))).await;
        let refused = refused.expect_err(filter);
        assert_eq!(fields(&refused), ["alarm_rule.filter"]);
        assert!(refused.message().contains("write name = \"nightly\""), "{}", refused.message());
    }
}

#[tokio::test]
async fn what_is_not_supported_yet_is_unimplemented_and_says_what_is() {
    let alarms = alarms().await;
    for condition in [
        Condition::RunSlow,
        Condition::RunMissed,
        Condition::QueueStuck,
        Condition::ExecutorOffline,
        Condition::NoExecutor,
        Condition::Recovered,
    ] {
        let draft = pb::AlarmRule {
            condition: condition.into(),
            ..rule(vec![hook("https://h/", "", &[])])
        };
        let refused = alarms.api.create_alarm_rule(admin(create("r", draft))).await;
        let refused = refused.expect_err("refused");
        assert_eq!(refused.code(), Code::Unimplemented, "{condition:?}");
        let text = refused.message();
        assert!(text.contains(condition.as_str_name()), "{text}");
        assert!(text.contains("use CONDITION_RUN_FAILED, _RUN_LOST or _RUN_SUCCEEDED"), "{text}");
    }
    let robot = channel::Kind::ChatRobot(channel::ChatRobot::default());
    let robot = rule(vec![pb::Channel { kind: Some(robot) }]);
    let refused = alarms.api.create_alarm_rule(admin(create("r", robot))).await;
    assert_eq!(refused.expect_err("refused").code(), Code::Unimplemented);
    // With other faults beside it, all are told at once.
    let draft = pb::AlarmRule { condition: Condition::RunSlow.into(), ..Default::default() };
    let refused = alarms.api.create_alarm_rule(admin(create("R", draft))).await;
    let refused = refused.expect_err("refused");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let wanted = ["alarm_rule_id", "alarm_rule.channels", "alarm_rule.condition"];
    assert_eq!(fields(&refused), wanted);
}

#[tokio::test]
async fn a_test_tells_what_each_channel_answered_and_nothing_of_what_it_said() {
    let mails = MailReceiver::start().await;
    let alarms = alarms_with(mails.port).await;
    let (well, refuses, moved) =
        (WebReceiver::start().await, WebReceiver::start().await, WebReceiver::start().await);
    refuses.answer_all(Answer::Status(403));
    moved.answer_all(Answer::Redirect);
    let closed = "http://127.0.0.1:9/secret-path?key=hidden";
    let channels = [&well.url, &refuses.url, &moved.url, closed];
    let mut channels: Vec<_> = channels.iter().map(|url| hook(url, "s3cret", &[])).collect();
    channels.push(mail(&["ops@example.com"]));
    alarms.made("r", rule(channels)).await;
    let request = pb::TestAlarmRuleRequest { name: name("r") };
    let answer = soon(alarms.api.test_alarm_rule(admin(request))).await.expect("tried");
    let told = answer.into_inner().deliveries;
    let ok: Vec<(u32, bool)> = told.iter().map(|d| (d.channel_index, d.ok)).collect();
    assert_eq!(ok, [(0, true), (1, false), (2, false), (3, false), (4, true)]);
    assert_eq!(told[1].detail, "HTTP 403 Forbidden");
    assert!(told[2].detail.contains("redirects are not followed"), "{}", told[2].detail);
    assert!(told[3].detail.starts_with("can't be reached"), "{}", told[3].detail);
    assert!(!told[3].detail.contains("hidden"), "{}", told[3].detail);
    let posted = &well.posted()[0];
    let body = posted.json();
    assert_eq!((&body["test"], &body["id"]), (&true.into(), &"".into()));
    assert!(posted.header("clawjob-signature").starts_with("v1="));
    assert!(mails.wait_for(1).await[0].text.contains("Subject: [ClawJob] Test: FAILED"));
    assert_eq!(alarms.list("", 10, "").await.alarms, [], "a test raises nothing");
}

#[tokio::test]
async fn alarms_are_listed_in_pages_filtered_and_acknowledged_once() {
    let alarms = alarms().await;
    let receiver = WebReceiver::start().await;
    receiver.answer_all(Answer::Status(500));
    alarms.made("r", rule(vec![hook(&receiver.url, "", &[])])).await;
    for job in ["one", "two", "three"] {
        alarms.world.clock.advance(Duration::from_secs(10));
        alarms.fail(job).await;
        alarms.deliver(None).await;
    }
    let subjects = |alarms: &[pb::Alarm]| -> Vec<String> {
        let jobs = alarms.iter().map(|alarm| alarm.subject.rsplit('/').next().unwrap_or_default());
        jobs.map(str::to_owned).collect()
    };
    let page = alarms.list("", 2, "").await;
    assert_eq!(subjects(&page.alarms), ["three", "two"]);
    let rest = alarms.list("", 2, &page.next_page_token).await;
    assert_eq!((subjects(&rest.alarms), rest.next_page_token.as_str()), (vec!["one".into()], ""));
    let first = &page.alarms[0];
    assert!(first.message.contains("BOOM: it broke"), "{}", first.message);
    assert!(first.last_delivery_error.contains("channel 0: HTTP 500"), "{first:?}");
    assert_eq!((first.rule.clone(), first.deliveries), (name("r"), 0));

    let request =
        pb::AcknowledgeAlarmRequest { name: first.name.clone(), comment: "on it".to_owned() };
    let seen = alarms.api.acknowledge_alarm(admin(request.clone())).await.expect("seen");
    let seen = seen.into_inner();
    assert_eq!(seen.acknowledged_by, "tokens/t1");
    assert!(seen.acknowledge_time.is_some() && seen.message.ends_with("Acknowledged: on it"));
    alarms.world.clock.advance(Duration::from_secs(10));
    let again = alarms.api.acknowledge_alarm(admin(request)).await.expect("no error");
    assert_eq!(again.into_inner(), seen);
    for (filter, wanted) in [
        ("acknowledged = true", vec!["three"]),
        ("acknowledged = false AND job = \"apps/a/jobs/one\"", vec!["one"]),
        ("condition = RUN_LOST", vec![]),
        ("condition = CONDITION_RUN_FAILED", vec!["three", "two", "one"]),
        ("rule = \"apps/a/alarmRules/r\" AND fire_time < \"2027-01-15T08:00:15Z\"", vec!["one"]),
    ] {
        assert_eq!(subjects(&alarms.list(filter, 10, "").await.alarms), wanted, "{filter}");
    }
    for filter in ["labels.a = b", "colour = red", "condition = RUN_SLOW"] {
        let request = pb::ListAlarmsRequest {
            parent: "apps/a".to_owned(),
            filter: filter.to_owned(),
            ..Default::default()
        };
        let refused = alarms.api.list_alarms(admin(request)).await.expect_err("refused");
        assert_eq!(why(&refused).1, "FILTER_INVALID", "{filter}");
    }
}

#[tokio::test]
async fn a_list_over_all_apps_shows_those_of_the_caller_only() {
    let alarms = alarms().await;
    alarms.made("r", rule(vec![hook("http://127.0.0.1:9/", "", &[])])).await;
    alarms.fail("job").await;
    alarms.deliver(None).await;
    let reader = |app| caller(&[(app, Role::Viewer)]);
    for (app, count) in [("a", 1), ("b", 0)] {
        let request = pb::ListAlarmsRequest { parent: "apps/-".to_owned(), ..Default::default() };
        let list = alarms.api.list_alarms(by(reader(app), request)).await.expect("listed");
        assert_eq!(list.into_inner().alarms.len(), count, "{app}");
        let request =
            pb::ListAlarmRulesRequest { parent: "apps/-".to_owned(), ..Default::default() };
        let list = alarms.api.list_alarm_rules(by(reader(app), request)).await.expect("listed");
        assert_eq!(list.into_inner().alarm_rules.len(), count, "{app}");
    }
}

#[tokio::test]
async fn the_configuration_s_alarm_speaks_for_jobs_without_a_rule_by_either_channel() {
    let mails = MailReceiver::start().await;
    let alarms = alarms_with(mails.port).await;
    let web = WebReceiver::start().await;
    let default = |channel| DefaultAlarm { on_failure: true, on_success: false, channel };
    let by_web = default(Channel::Webhook(Webhook {
        url: web.url.clone(),
        secret: Secret::new("k3y"),
        ..Webhook::default()
    }));
    alarms.world.store.wish_default_ends(&by_web.states()).await.expect("wished");
    alarms.fail("one").await;
    alarms.deliver(Some(by_web.clone())).await;
    let posted = web.posted();
    let [posted] = &posted[..] else { panic!("{posted:?}") };
    assert_eq!(posted.json()["rule"], "");
    assert!(posted.header("clawjob-signature").starts_with("v1="));
    alarms.fail("two").await;
    alarms
        .deliver(Some(default(Channel::Mail(Mail { to: vec!["o@example.com".to_owned()] }))))
        .await;
    assert_eq!(mails.wait_for(1).await[0].to, ["o@example.com"]);
    let quiet = WebReceiver::start().await;
    alarms.made("r", rule(vec![hook(&quiet.url, "", &[])])).await;
    alarms.fail("three").await;
    alarms.deliver(Some(by_web)).await;
    assert_eq!((web.posted().len(), quiet.posted().len()), (1, 1), "the rule has the word");
}
