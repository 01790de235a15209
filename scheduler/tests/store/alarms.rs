//! Alarm rules, alarms, and the outbox of what is owed.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clawjob_scheduler::{
    model::{
        alarm::{
            AlarmCondition, AlarmRule, AlarmRuleSpec, Channel, EndedRun, Mail, NewAlarm, Secret,
            Streak, Webhook, raise,
        },
        ids::RunId,
        job::Job,
        run::RunState,
    },
    store::{
        StoreError, Topic,
        ops::{
            AlarmQuery, AlarmRuleQuery, Condition, DeliveryClaim, DeliveryEnd, EndAnswer, EndEvent,
            EndRun, Followup, NewAlarmRule, OwedDelivery, RequestKey, StateSet,
        },
    },
};

use super::fixture::{Fixture, at, ending, failed};

fn hook(url: &str) -> Channel {
    Channel::Webhook(Webhook {
        url: url.to_owned(),
        secret: Secret::new("s3cret"),
        headers: [("x-key".to_owned(), Secret::new("k3y"))].into(),
    })
}

fn spec(condition: AlarmCondition, urls: &[&str]) -> AlarmRuleSpec {
    AlarmRuleSpec {
        condition,
        channels: urls.iter().map(|url| hook(url)).collect(),
        ..AlarmRuleSpec::default()
    }
}

async fn rule_of(f: &Fixture, name: &str, spec: AlarmRuleSpec) -> AlarmRule {
    let new = NewAlarmRule {
        app: f.app.id,
        name: name.to_owned(),
        spec,
        updated_by: "tokens/t".to_owned(),
    };
    f.store.create_alarm_rule(&new, None, at(0)).await.expect("a rule")
}

async fn failing(f: &Fixture, name: &str, urls: &[&str]) -> AlarmRule {
    rule_of(f, name, spec(AlarmCondition::RunFailed, urls)).await
}

/// A new run of the job that ends so, `seconds` after the beginning of time.
async fn ended(f: &Fixture, job: &Job, seconds: i64, to: RunState) -> RunId {
    let attempt = f.planned(job, at(seconds)).await;
    let end = EndRun { from: StateSet::OPEN, ..ending(attempt, to) };
    let end = if to == RunState::Failed { EndRun { end: failed(), ..end } } else { end };
    let answers = f.store.end_runs(&[end], at(seconds + 1)).await.expect("an end");
    assert!(matches!(answers[..], [EndAnswer::Ended(_)]), "{answers:?}");
    attempt.run
}

async fn events(f: &Fixture) -> Vec<EndEvent> {
    f.store.end_events(100, &[]).await.expect("events")
}

async fn facts(f: &Fixture, run: RunId) -> EndedRun {
    let found = f.store.ended_runs(&[run]).await.expect("read");
    found.into_iter().next().expect("it has ended")
}

/// What follows from all that has ended, by the rules there are.
async fn followups(f: &Fixture) -> Vec<Followup> {
    let rules = f.store.watching_rules(&[f.app.id]).await.expect("rules");
    let mut all = Vec::new();
    for event in events(f).await {
        let run = facts(f, event.run).await;
        let alarms = raise(&run, &rules, None, |_| Vec::new());
        all.push(Followup { seq: event.seq, alarms, ..Followup::default() });
    }
    all
}

/// Raises the alarms of all that has ended.
async fn raised(f: &Fixture, now: DateTime<Utc>) -> Vec<NewAlarm> {
    let followups = followups(f).await;
    f.store.settle_ends(&followups, now).await.expect("settled");
    followups.into_iter().flat_map(|followup| followup.alarms).collect()
}

fn claim(now: DateTime<Utc>) -> DeliveryClaim {
    DeliveryClaim {
        without: Vec::new(),
        per_target: 100,
        limit: 100,
        with_default: true,
        given_up_before: now - Duration::from_secs(86_400),
        lease_until: now + Duration::from_secs(60),
    }
}

async fn claimed(f: &Fixture, now: DateTime<Utc>) -> Vec<OwedDelivery> {
    f.store.claim_deliveries(&claim(now), now).await.expect("claimed")
}

async fn alarms(f: &Fixture) -> Vec<clawjob_scheduler::model::alarm::Alarm> {
    let query = AlarmQuery { limit: 100, ..AlarmQuery::default() };
    f.store.list_alarms(&query).await.expect("alarms")
}

pub(crate) async fn a_rule_is_found_as_it_was_stored_with_its_secrets(f: &Fixture) {
    let made = failing(f, "r1", &["https://a/"]).await;
    assert_eq!(f.store.get_alarm_rule(f.app.id, "r1").await.expect("found"), made);
    assert_eq!(made.resource_name(), "apps/shop/alarmRules/r1");
    let Channel::Webhook(webhook) = &made.spec.channels[0] else { panic!("{made:?}") };
    assert_eq!(webhook.secret.expose(), "s3cret");
    assert_eq!(webhook.headers["x-key"].expose(), "k3y");
    let missing = f.store.get_alarm_rule(f.app.id, "r2").await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
    let other = f.store.ensure_app("other", at(0)).await.expect("an app");
    let foreign = f.store.get_alarm_rule(other.id, "r1").await;
    assert!(matches!(foreign, Err(StoreError::NotFound(_))), "{foreign:?}");
}

pub(crate) async fn a_rule_s_name_is_taken_once_and_a_repeated_request_makes_no_second(
    f: &Fixture,
) {
    let key = RequestKey { key: "ann/CreateAlarmRule/1".to_owned(), body_hash: vec![1; 32] };
    let new = NewAlarmRule {
        app: f.app.id,
        name: "r".to_owned(),
        spec: spec(AlarmCondition::RunLost, &["https://a/"]),
        updated_by: "me".to_owned(),
    };
    let made = f.store.create_alarm_rule(&new, Some(&key), at(0)).await.expect("made");
    let again = f.store.create_alarm_rule(&new, Some(&key), at(1)).await.expect("the same");
    assert_eq!(again, made);
    let taken = f.store.create_alarm_rule(&new, None, at(2)).await;
    assert!(matches!(taken, Err(StoreError::AlreadyExists(_))), "{taken:?}");
    let other = RequestKey { body_hash: vec![2; 32], ..key };
    let reused = f.store.create_alarm_rule(&new, Some(&other), at(3)).await;
    assert!(matches!(reused, Err(StoreError::Conflict(_))), "{reused:?}");
}

pub(crate) async fn rules_are_listed_by_app_and_name_page_by_page(f: &Fixture) {
    let other = f.store.ensure_app("attic", at(0)).await.expect("an app");
    for name in ["b", "a"] {
        failing(f, name, &["https://a/"]).await;
    }
    let new = NewAlarmRule {
        app: other.id,
        name: "z".to_owned(),
        spec: spec(AlarmCondition::RunFailed, &["https://a/"]),
        updated_by: String::new(),
    };
    f.store.create_alarm_rule(&new, None, at(0)).await.expect("made");
    let page = async |apps, after: Option<(&str, &str)>, limit| -> Vec<String> {
        let after = after.map(|(app, name)| (app.to_owned(), name.to_owned()));
        let query = AlarmRuleQuery { apps, after, limit };
        let rules = f.store.list_alarm_rules(&query).await.expect("rules");
        rules.into_iter().map(|rule| format!("{}/{}", rule.app_name, rule.name)).collect()
    };
    assert_eq!(page(None, None, 2).await, ["attic/z", "shop/a"]);
    assert_eq!(page(None, Some(("shop", "a")), 2).await, ["shop/b"]);
    assert_eq!(page(Some(vec![f.app.id]), None, 9).await, ["shop/a", "shop/b"]);
    assert_eq!(page(Some(vec![f.app.id, other.id]), None, 9).await.len(), 3);
}

pub(crate) async fn a_rule_changes_and_goes_at_the_version_that_was_seen(f: &Fixture) {
    let rule = failing(f, "r", &["https://a/"]).await;
    let changed = spec(AlarmCondition::RunLost, &["https://b/"]);
    let store = &f.store;
    let new = store.update_alarm_rule(rule.id, &changed, rule.version, "you", at(1)).await;
    let new = new.expect("changed");
    assert_eq!((new.version, &new.spec), (rule.version + 1, &changed));
    let stale = store.update_alarm_rule(rule.id, &rule.spec, rule.version, "you", at(2)).await;
    assert!(matches!(stale, Err(StoreError::Conflict(_))), "{stale:?}");
    let stale = store.delete_alarm_rule(rule.id, Some(rule.version)).await;
    assert!(matches!(stale, Err(StoreError::Conflict(_))), "{stale:?}");
    store.delete_alarm_rule(rule.id, Some(new.version)).await.expect("deleted");
    for gone in [
        store.delete_alarm_rule(rule.id, None).await,
        store.update_alarm_rule(rule.id, &changed, 2, "you", at(3)).await.map(|_| ()),
    ] {
        assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
    }
}

pub(crate) async fn only_ends_that_some_enabled_rule_is_about_leave_an_event(f: &Fixture) {
    let job = f.job("j").await;
    let mut seconds = 0;
    let mut told = async || {
        let mut told = Vec::new();
        for state in [
            RunState::Succeeded,
            RunState::Failed,
            RunState::Canceled,
            RunState::TimedOut,
            RunState::Lost,
        ] {
            seconds += 10;
            let run = ended(f, &job, seconds, state).await;
            told.extend(events(f).await.iter().find(|e| e.run == run).map(|e| e.state));
        }
        told
    };
    assert_eq!(told().await, [], "nobody asked");
    let rule = failing(f, "r", &["https://a/"]).await;
    assert_eq!(told().await, [RunState::Failed, RunState::TimedOut]);
    let success = rule_of(f, "s", spec(AlarmCondition::RunSucceeded, &["https://a/"])).await;
    let all = [RunState::Succeeded, RunState::Failed, RunState::TimedOut];
    assert_eq!(told().await, all);
    let disabled = AlarmRuleSpec { disabled: true, ..rule.spec.clone() };
    f.store.update_alarm_rule(rule.id, &disabled, 1, "me", at(0)).await.expect("changed");
    assert_eq!(told().await, [RunState::Succeeded]);
    f.store.delete_alarm_rule(success.id, None).await.expect("deleted");
    assert_eq!(told().await, []);
    f.store.wish_default_ends(&[RunState::Lost]).await.expect("wished");
    assert_eq!(told().await, [RunState::Lost]);
    f.store.wish_default_ends(&[]).await.expect("wished");
    assert_eq!(told().await, []);
}

pub(crate) async fn an_app_that_is_deleted_takes_its_rules_and_their_wishes_along(f: &Fixture) {
    let other = f.store.ensure_app("other", at(0)).await.expect("an app");
    let new = NewAlarmRule {
        app: other.id,
        name: "r".to_owned(),
        spec: spec(AlarmCondition::RunFailed, &["https://a/"]),
        updated_by: String::new(),
    };
    f.store.create_alarm_rule(&new, None, at(0)).await.expect("made");
    f.store.delete_app(other.id).await.expect("deleted");
    let job = f.job("j").await;
    ended(f, &job, 10, RunState::Failed).await;
    assert_eq!(events(f).await, []);
}

pub(crate) async fn a_rule_that_can_t_be_read_leaves_the_others_watching(f: &Fixture) {
    failing(f, "bad", &["https://a/"]).await;
    let good = failing(f, "good", &["https://a/"]).await;
    f.sql(
        "UPDATE alarm_rule SET spec = '{\"channels\": 7, \"disabled\": false}' WHERE name = 'bad'",
    )
    .await;
    assert_eq!(f.store.watching_rules(&[f.app.id]).await.expect("rules"), [good]);
}

pub(crate) async fn what_a_rule_looks_at_of_a_run_is_told(f: &Fixture) {
    let job = f.job("j").await;
    let run = ended(f, &job, 10, RunState::Failed).await;
    let told = facts(f, run).await;
    assert_eq!((told.run, told.job, told.app), (run, job.id, f.app.id));
    assert_eq!((&*told.app_name, &*told.job_name), ("shop", "j"));
    assert_eq!((told.state, told.attempt), (RunState::Failed, 1));
    assert_eq!((told.fire_at, told.ended_at), (at(10), at(11)));
    assert_eq!(told.failure.expect("why").code, "BOOM");
    assert_eq!(told.spec.handler, "h");
    assert!(!told.is_shard);
    let open = f.planned(&job, at(20)).await;
    assert_eq!(f.store.ended_runs(&[open.run]).await.expect("read"), [], "it goes on");
}

pub(crate) async fn a_row_of_ends_goes_back_to_the_rule_s_last_alarm(f: &Fixture) {
    use RunState::{Canceled, Failed, Skipped, Succeeded, TimedOut};
    let rule = failing(f, "r", &["https://a/"]).await;
    let job = f.job("j").await;
    let row = async |seconds: i64, take| {
        let until = at(seconds + 1);
        let streak = Streak { rule: rule.id, job: job.id, until, take };
        f.store.last_states(&streak).await.expect("states")
    };
    for (seconds, state) in
        [(10, Succeeded), (20, Failed), (30, Canceled), (40, Skipped), (50, TimedOut), (60, Failed)]
    {
        ended(f, &job, seconds, state).await;
    }
    assert_eq!(row(60, 50).await, [Failed, TimedOut, Failed, Succeeded]);
    assert_eq!(row(50, 50).await, [TimedOut, Failed, Succeeded], "as it was then");
    assert_eq!(row(60, 2).await, [Failed, TimedOut]);
    let mut alarms = raised(f, at(60)).await;
    alarms.retain(|alarm| alarm.fire_at == at(51));
    assert_eq!(alarms.len(), 1);
    ended(f, &job, 70, Failed).await;
    assert_eq!(row(70, 50).await, [Failed], "each of the first three raised one");
}

pub(crate) async fn an_alarm_and_what_it_owes_come_with_the_event_that_raised_it(f: &Fixture) {
    let rule = failing(f, "r", &["https://a/x", "https://a/y", "https://b/"]).await;
    let job = f.job("j").await;
    let run = ended(f, &job, 10, RunState::Failed).await;
    let mut hints = f.store.hints();
    let followups = followups(f).await;
    f.store.settle_ends(&followups, at(20)).await.expect("settled");
    while hints.recv().await.expect("a hint") != Topic::Alarms {}
    assert_eq!(events(f).await, [], "the event is gone");
    let [alarm] = &alarms(f).await[..] else { panic!("one alarm") };
    assert_eq!(alarm.rule_name, rule.resource_name());
    assert_eq!((alarm.fire_at, alarm.deliveries), (at(11), 0));
    assert_eq!(alarm.facts.run, format!("apps/shop/runs/{run}"));
    assert_eq!(alarm.facts.failure_code, "BOOM");
    let owed = claimed(f, at(20)).await;
    let targets: Vec<_> = owed.iter().map(|owed| (owed.id.channel, owed.target.as_str())).collect();
    assert_eq!(targets, [(0, "https://a"), (1, "https://a"), (2, "https://b")]);
    assert!(owed.iter().all(|owed| owed.attempt == 1 && owed.spec.as_ref() == Some(&rule.spec)));

    // Somebody who had read the same event comes too late, and a repeat changes nothing.
    let settled = f.store.settle_ends(&followups, at(30)).await.expect("settled");
    assert_eq!(settled.events, Vec::<u64>::new());
    assert_eq!(alarms(f).await.len(), 1);
    assert_eq!(f.store.count_owed().await.expect("counted").owed, 3);
}

pub(crate) async fn x43_a_claim_without_a_word_is_due_again_after_its_lease(f: &Fixture) {
    failing(f, "r", &["https://a/"]).await;
    let job = f.job("j").await;
    ended(f, &job, 10, RunState::Failed).await;
    raised(f, at(20)).await;
    assert_eq!(claimed(f, at(19)).await, [], "not yet due");
    let first = claimed(f, at(20)).await;
    assert_eq!(first.len(), 1);
    // The claimant dies here.
    assert_eq!(claimed(f, at(79)).await, []);
    let second = claimed(f, at(80)).await;
    assert_eq!(second.len(), 1);
    assert_eq!((second[0].id, second[0].attempt), (first[0].id, 2));
    let end = DeliveryEnd::Retry(at(500), "late".to_owned());
    f.store.end_delivery(first[0].id, 1, &end).await.expect("no error");
    let end = DeliveryEnd::GivenUp("late".to_owned());
    f.store.end_delivery(first[0].id, 1, &end).await.expect("no error");
    assert_eq!(alarms(f).await[0].last_error, "", "the first claimant has no say any more");
    f.store.end_delivery(second[0].id, 2, &DeliveryEnd::Delivered).await.expect("noted");
    f.store.end_delivery(first[0].id, 1, &DeliveryEnd::Delivered).await.expect("no error");
    assert_eq!(alarms(f).await[0].deliveries, 1);
    assert_eq!(claimed(f, at(9_999)).await, [], "it is sent once");
    assert_eq!(f.store.count_owed().await.expect("counted").oldest, None);
}

pub(crate) async fn two_claimants_at_once_never_get_the_same_delivery(f: &Fixture) {
    failing(f, "r", &["https://a/"]).await;
    let job = f.job("j").await;
    for seconds in 1..=20 {
        ended(f, &job, seconds * 10, RunState::Failed).await;
    }
    raised(f, at(300)).await;
    let few = DeliveryClaim { limit: 3, ..claim(at(300)) };
    let mut all = Vec::new();
    loop {
        let claims = (0..4).map(|_| f.store.claim_deliveries(&few, at(300)));
        let round = futures::future::join_all(claims).await;
        let round: Vec<_> =
            round.into_iter().flat_map(|claimed| claimed.expect("claimed")).collect();
        if round.is_empty() {
            break;
        }
        all.extend(round.into_iter().map(|owed| owed.id));
    }
    let count = all.len();
    all.sort_unstable_by_key(|id| (id.alarm, id.channel));
    all.dedup();
    assert_eq!((count, all.len()), (20, 20));
}

pub(crate) async fn x42_a_target_gets_a_few_places_and_one_that_rests_none(f: &Fixture) {
    failing(f, "r", &["https://hangs/", "https://well/"]).await;
    let job = f.job("j").await;
    for seconds in 1..=10 {
        ended(f, &job, seconds * 10, RunState::Failed).await;
    }
    raised(f, at(200)).await;
    let targets = async |without: &[&str]| {
        let without = without.iter().map(|target| (*target).to_owned()).collect();
        let wanted = DeliveryClaim { without, per_target: 2, limit: 5, ..claim(at(200)) };
        let claimed = f.store.claim_deliveries(&wanted, at(200)).await.expect("claimed");
        let mut targets: Vec<_> = claimed.into_iter().map(|owed| owed.target).collect();
        targets.sort_unstable();
        targets
    };
    let (hangs, well) = ("https://hangs", "https://well");
    assert_eq!(targets(&[]).await, [hangs, hangs, well, well]);
    assert_eq!(targets(&[hangs]).await, [well, well]);
    assert_eq!(targets(&[hangs, well]).await, Vec::<String>::new());
}

pub(crate) async fn a_delivery_that_failed_is_due_later_and_says_why(f: &Fixture) {
    failing(f, "r", &["https://a/", "https://b/"]).await;
    let job = f.job("j").await;
    ended(f, &job, 10, RunState::Failed).await;
    raised(f, at(20)).await;
    let owed = claimed(f, at(20)).await;
    let end = DeliveryEnd::Retry(at(100), "HTTP 500".to_owned());
    f.store.end_delivery(owed[0].id, 1, &end).await.expect("noted");
    f.store.end_delivery(owed[1].id, 1, &DeliveryEnd::Delivered).await.expect("noted");
    let alarm = &alarms(f).await[0];
    assert_eq!((alarm.deliveries, alarm.last_error.as_str()), (1, "channel 0: HTTP 500"));
    assert_eq!(claimed(f, at(99)).await, []);
    let again = claimed(f, at(100)).await;
    assert_eq!((again.len(), again[0].attempt, again[0].owed_at), (1, 2, at(20)));
    f.store.end_delivery(again[0].id, 2, &DeliveryEnd::Delivered).await.expect("noted");
    let alarm = &alarms(f).await[0];
    assert_eq!((alarm.deliveries, alarm.last_error.as_str()), (2, ""), "it came through");
}

pub(crate) async fn a_delivery_that_is_given_up_is_owed_no_more_and_says_why(f: &Fixture) {
    failing(f, "r", &["https://a/"]).await;
    let job = f.job("j").await;
    ended(f, &job, 10, RunState::Failed).await;
    raised(f, at(20)).await;
    let owed = claimed(f, at(20)).await;
    let end = DeliveryEnd::GivenUp("HTTP 404; given up".to_owned());
    f.store.end_delivery(owed[0].id, 1, &end).await.expect("noted");
    assert_eq!(f.store.count_owed().await.expect("counted").owed, 0);
    let alarm = &alarms(f).await[0];
    assert_eq!((alarm.deliveries, alarm.last_error.as_str()), (0, "channel 0: HTTP 404; given up"));
}

pub(crate) async fn a_rule_that_is_deleted_keeps_its_alarms_and_owes_nothing(f: &Fixture) {
    let rule = failing(f, "r", &["https://a/"]).await;
    let job = f.job("j").await;
    ended(f, &job, 10, RunState::Failed).await;
    raised(f, at(20)).await;
    f.store.delete_alarm_rule(rule.id, None).await.expect("deleted");
    assert_eq!(alarms(f).await.len(), 1);
    assert_eq!(claimed(f, at(20)).await, []);
}

pub(crate) async fn the_default_s_deliveries_go_to_a_node_that_knows_its_channel(f: &Fixture) {
    f.store.wish_default_ends(&[RunState::Failed]).await.expect("wished");
    let job = f.job("j").await;
    let run = ended(f, &job, 10, RunState::Failed).await;
    let default = clawjob_scheduler::model::alarm::DefaultAlarm {
        on_failure: true,
        on_success: false,
        channel: Channel::Mail(Mail { to: vec!["ops@example.com".to_owned()] }),
    };
    let alarms = raise(&facts(f, run).await, &[], Some(&default), |_| Vec::new());
    let seq = events(f).await[0].seq;
    let followup = Followup { seq, alarms, ..Followup::default() };
    f.store.settle_ends(&[followup], at(20)).await.expect("settled");
    let without = DeliveryClaim { with_default: false, ..claim(at(20)) };
    assert_eq!(f.store.claim_deliveries(&without, at(20)).await.expect("claimed"), []);
    let owed = claimed(f, at(20)).await;
    let [owed] = &owed[..] else { panic!("{owed:?}") };
    assert_eq!((owed.rule, &owed.spec, owed.target.as_str()), (None, &None, "mail"));
    // Nobody has the channel any more: whoever comes after a day closes the account.
    let late = at(20 + 90_000);
    let without = DeliveryClaim { with_default: false, ..claim(late) };
    assert_eq!(f.store.claim_deliveries(&without, late).await.expect("claimed").len(), 1);
}

pub(crate) async fn alarms_are_listed_newest_first_and_filtered(f: &Fixture) {
    let rule = failing(f, "r", &["https://a/"]).await;
    let lost = rule_of(f, "l", spec(AlarmCondition::RunLost, &["https://a/"])).await;
    let (one, two) = (f.job("one").await, f.job("two").await);
    ended(f, &one, 10, RunState::Failed).await;
    ended(f, &two, 20, RunState::Failed).await;
    ended(f, &two, 30, RunState::Lost).await;
    raised(f, at(40)).await;
    let list = async |conditions: Vec<Condition>, before, limit| {
        let apps = Some(vec![f.app.id]);
        let query = AlarmQuery { apps, conditions, before, limit };
        f.store.list_alarms(&query).await.expect("alarms")
    };
    let times = |alarms: &[clawjob_scheduler::model::alarm::Alarm]| -> Vec<DateTime<Utc>> {
        alarms.iter().map(|alarm| alarm.fire_at).collect()
    };
    let page = list(Vec::new(), None, 2).await;
    assert_eq!(times(&page), [at(31), at(21)]);
    assert_eq!(times(&list(Vec::new(), Some(page[1].id), 2).await), [at(11)]);
    let is = |field, value: &str| Condition::OneOf {
        field,
        values: vec![value.to_owned()],
        negated: false,
    };
    for (condition, wanted) in [
        (is("rule", &lost.resource_name()), vec![at(31)]),
        (is("rule", &rule.resource_name()), vec![at(21), at(11)]),
        (is("job", "apps/shop/jobs/two"), vec![at(31), at(21)]),
        (is("condition", "RUN_FAILED"), vec![at(21), at(11)]),
        (is("acknowledged", "true"), vec![]),
        (is("acknowledged", "false"), vec![at(31), at(21), at(11)]),
        (
            Condition::Time { field: "fire_time", from: Some(at(15)), until: Some(at(25)) },
            vec![at(21)],
        ),
    ] {
        assert_eq!(times(&list(vec![condition.clone()], None, 9).await), wanted, "{condition:?}");
    }
    let other = f.store.ensure_app("other", at(0)).await.expect("an app");
    let query = AlarmQuery { apps: Some(vec![other.id]), limit: 9, ..AlarmQuery::default() };
    assert_eq!(f.store.list_alarms(&query).await.expect("alarms"), []);
}

pub(crate) async fn the_first_acknowledgement_counts_in_its_own_app_only(f: &Fixture) {
    failing(f, "r", &["https://a/"]).await;
    let job = f.job("j").await;
    ended(f, &job, 10, RunState::Failed).await;
    let id = raised(f, at(20)).await[0].id;
    let store = &f.store;
    let seen = store.acknowledge_alarm(f.app.id, id, "ann", "on it", at(30)).await.expect("seen");
    assert_eq!((seen.acknowledged_at, seen.acknowledged_by.as_str()), (Some(at(30)), "ann"));
    assert_eq!(seen.comment, "on it");
    let again = store.acknowledge_alarm(f.app.id, id, "bob", "me too", at(40)).await;
    assert_eq!(again.expect("no error"), seen);
    let other = store.ensure_app("other", at(0)).await.expect("an app");
    let foreign = store.acknowledge_alarm(other.id, id, "eve", "", at(50)).await;
    assert!(matches!(foreign, Err(StoreError::NotFound(_))), "{foreign:?}");
}

pub(crate) async fn old_alarms_go_with_what_they_owe(f: &Fixture) {
    failing(f, "r", &["https://a/"]).await;
    let job = f.job("j").await;
    ended(f, &job, 10, RunState::Failed).await;
    ended(f, &job, 100, RunState::Failed).await;
    raised(f, at(200)).await;
    assert_eq!(f.store.prune_alarms(at(50)).await.expect("pruned"), 1);
    assert_eq!(f.store.prune_alarms(at(50)).await.expect("pruned"), 0);
    assert_eq!(alarms(f).await.len(), 1);
    assert_eq!(f.store.count_owed().await.expect("counted").owed, 1);
}
