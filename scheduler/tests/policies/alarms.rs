//! Alarms: one for each run that ended badly for good, delivered whatever dies meanwhile.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use clawjob_proto::v1::RunCommand;
use clawjob_scheduler::{
    alarm::{
        ChannelSettings, Channels,
        courier::{Courier, LEASE, OWED_MAX},
    },
    model::{
        alarm::{Alarm, AlarmCondition, AlarmRuleSpec, Channel, JobField, JobTest, Webhook},
        job::{JobSpec, LostPolicy, OverlapPolicy, Placement},
        retry::RetryPolicy,
        run::{RunExtra, RunState},
    },
    store::ops::{AlarmQuery, DeliveryClaim, NewAlarmRule},
};

use crate::{
    receivers::{Answer, WebReceiver},
    world::{Act, World, at},
};

const NOON: &str = "2026-06-10T12:00:00Z";
/// A target that answers is waited for so long, in real time, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where one that hangs is waited for, too.
const LITTLE_PATIENCE: Duration = Duration::from_secs(10);

fn hook(receiver: &WebReceiver) -> Channel {
    Channel::Webhook(Webhook { url: receiver.url.clone(), ..Webhook::default() })
}

/// A rule about one job.
async fn rule(world: &World, name: &str, spec: AlarmRuleSpec) {
    let new = NewAlarmRule {
        app: world.app.id,
        name: name.to_owned(),
        spec,
        updated_by: "test".to_owned(),
    };
    world.store.create_alarm_rule(&new, None, world.now()).await.expect("a rule");
}

async fn watch(world: &World, job: &str, condition: AlarmCondition, receiver: &WebReceiver) {
    let only =
        JobTest::OneOf { field: JobField::Name, values: vec![job.to_owned()], negated: false };
    let spec = AlarmRuleSpec {
        condition,
        tests: vec![only],
        channels: vec![hook(receiver)],
        ..AlarmRuleSpec::default()
    };
    let name = format!("{job}-{}", condition.as_str().to_lowercase());
    rule(world, &name, spec).await;
}

/// A courier, as a node that has just started has one.
fn courier(world: &World) -> Courier {
    courier_with(world, PATIENCE)
}

fn courier_with(world: &World, timeout: Duration) -> Courier {
    let settings = ChannelSettings { timeout, ..ChannelSettings::default() };
    let channels = Arc::new(Channels::new(settings));
    Courier::new(world.store.clone(), world.clock.clone(), channels, None)
}

/// Delivers what is due now and can be.
async fn deliver(world: &World, courier: &mut Courier) {
    while courier.tick(world.now()).await.expect("claims") > 0 || courier.in_flight() > 0 {
        // What was given up when it was claimed is not sent, and never comes to an end.
        if courier.in_flight() > 0 {
            let ended = courier.ended().await;
            courier.record(ended).await;
        }
    }
}

async fn alarms(world: &World) -> Vec<Alarm> {
    let query = AlarmQuery { limit: 1_000, ..AlarmQuery::default() };
    world.store.list_alarms(&query).await.expect("alarms")
}

/// A worker that fails runs of jobs whose name begins with `bad`.
async fn worker(world: &mut World) {
    let script = |command: &RunCommand, _| match command.job.contains("/jobs/bad") {
        true => Act::fail(TimeDelta::seconds(1), "BOOM"),
        false => Act::succeed(TimeDelta::seconds(1)),
    };
    world.worker("one", 100, Box::new(script)).await;
}

#[tokio::test]
async fn x41_three_retries_after_1_5_and_20_minutes_are_one_run_and_give_one_alarm_at_the_end() {
    let mut world = World::new(at(NOON)).await;
    let receiver = WebReceiver::start().await;
    watch(&world, "bad", AlarmCondition::RunFailed, &receiver).await;
    let retry = RetryPolicy {
        max_attempts: 4,
        initial_backoff: Duration::from_secs(60),
        multiplier: 5.0,
        max_backoff: Duration::from_secs(20 * 60),
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let job = world.job("bad", JobSpec { retry, ..JobSpec::default() }).await;
    worker(&mut world).await;
    let run = world.trigger(&job, RunExtra::default()).await;
    let mut courier = courier(&world);
    for _ in 0..26 {
        world.pass(TimeDelta::minutes(1)).await;
        deliver(&world, &mut courier).await;
        assert_eq!(receiver.posted().len(), 0, "not while it is tried again");
    }
    world.pass(TimeDelta::minutes(4)).await;
    deliver(&world, &mut courier).await;

    let began: Vec<i64> =
        world.ledger[&run].iter().map(|e| (e.at - at(NOON)).num_seconds()).collect();
    // Each wait begins with the end of the attempt before, a second after its start.
    assert_eq!(began, [0, 61, 362, 1563]);
    assert_eq!(world.runs_of(&job).await.len(), 1);
    let attempts = world.run(run).await.attempts;
    assert_eq!(attempts.iter().map(|a| a.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let posted = receiver.posted();
    let [posted] = &posted[..] else { panic!("{posted:?}") };
    let body = posted.json();
    assert_eq!(body["run"], format!("apps/day/runs/{run}"));
    assert_eq!((&body["state"], &body["attempts"]), (&"FAILED".into(), &4.into()));
    assert_eq!(body["failure"]["code"], "BOOM");
    assert_eq!(alarms(&world).await.len(), 1);
}

/// Two shards fail, one is lost with its executor; only the whole tells, and that once.
#[tokio::test]
async fn a_sharded_run_gives_one_alarm_by_its_parent_and_its_shards_none() {
    let mut world = World::new(at(NOON)).await;
    let receiver = WebReceiver::start().await;
    for condition in AlarmCondition::ALL {
        watch(&world, "bad", condition, &receiver).await;
    }
    let spec = JobSpec {
        placement: Placement { shard_total: 4, ..Placement::default() },
        overlap: OverlapPolicy::Allow,
        lost_policy: LostPolicy::Fail,
        ..JobSpec::default()
    };
    let job = world.job("bad", spec).await;
    let script = |command: &RunCommand, _| match command.shard_index {
        0 | 1 => Act::fail(TimeDelta::seconds(1), "BOOM"),
        2 => Act::succeed(TimeDelta::seconds(20)),
        _ => Act::Forever,
    };
    world.worker("one", 8, Box::new(script)).await;
    let failed = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(30)).await;
    let mut courier = courier(&world);
    deliver(&world, &mut courier).await;
    assert_eq!(receiver.posted().len(), 0, "a shard goes on");
    world.lose("one");
    world.pass(TimeDelta::minutes(3)).await;
    deliver(&world, &mut courier).await;
    assert_eq!(world.run(failed).await.run.state, RunState::Lost);
    let posted = receiver.posted();
    let [posted] = &posted[..] else { panic!("{posted:?}") };
    let body = posted.json();
    assert_eq!(body["run"], format!("apps/day/runs/{failed}"));
    assert_eq!(body["state"], "LOST");
    assert_eq!(alarms(&world).await.len(), 1);
}

#[tokio::test]
async fn each_end_raises_what_was_asked_for_and_skipped_and_canceled_runs_nothing() {
    let mut world = World::new(at(NOON)).await;
    let receiver = WebReceiver::start().await;
    let spec = JobSpec {
        overlap: OverlapPolicy::Skip,
        lost_policy: LostPolicy::Fail,
        retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
        ..JobSpec::default()
    };
    for name in ["bad", "good", "late", "lost"] {
        for condition in AlarmCondition::ALL {
            watch(&world, name, condition, &receiver).await;
        }
    }
    let bad = world.job("bad", spec.clone()).await;
    let good = world.job("good", spec.clone()).await;
    let late =
        world.job("late", JobSpec { timeout: Some(Duration::from_secs(10)), ..spec.clone() }).await;
    let lost = world.job("lost", spec.clone()).await;
    let script = |command: &RunCommand, _| match command.job.rsplit('/').next() {
        Some("bad") => Act::fail(TimeDelta::seconds(1), "BOOM"),
        Some("good") => Act::succeed(TimeDelta::seconds(1)),
        _ => Act::Forever,
    };
    world.worker("one", 100, Box::new(script)).await;
    for job in [&bad, &good, &late, &lost] {
        world.trigger(job, RunExtra::default()).await;
    }
    world.settle().await;
    let skipped = world.trigger(&lost, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(60)).await;
    assert_eq!(world.run(skipped).await.run.state, RunState::Skipped);
    world.lose("one");
    world.pass(TimeDelta::minutes(3)).await;
    let mut courier = courier(&world);
    deliver(&world, &mut courier).await;
    let mut told: Vec<String> = receiver
        .posted()
        .iter()
        .map(|posted| {
            let body = posted.json();
            let job = body["job"].as_str().expect("a name").rsplit('/').next();
            format!(
                "{} {} {}",
                job.expect("a name"),
                body["condition"].as_str().expect("a word"),
                body["state"].as_str().expect("a word")
            )
        })
        .collect();
    told.sort();
    let wanted = [
        "bad RUN_FAILED FAILED",
        "good RUN_SUCCEEDED SUCCEEDED",
        "late RUN_FAILED TIMED_OUT",
        "lost RUN_LOST LOST",
    ];
    assert_eq!(told, wanted);
}

#[tokio::test]
async fn x42_a_target_that_hangs_delays_no_retries_and_no_other_alarms() {
    let mut world = World::new(at(NOON)).await;
    let (hangs, well) = (WebReceiver::start().await, WebReceiver::start().await);
    hangs.answer_all(Answer::Hang);
    watch(&world, "bad-a", AlarmCondition::RunFailed, &hangs).await;
    watch(&world, "bad-b", AlarmCondition::RunFailed, &well).await;
    let retry = RetryPolicy {
        max_attempts: 2,
        initial_backoff: Duration::from_secs(10),
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let spec = JobSpec { retry, overlap: OverlapPolicy::Allow, ..JobSpec::default() };
    let (a, b) = (world.job("bad-a", spec.clone()).await, world.job("bad-b", spec).await);
    worker(&mut world).await;
    for _ in 0..50 {
        world.trigger(&a, RunExtra::default()).await;
    }
    world.pass(TimeDelta::minutes(1)).await;
    let mut courier = courier_with(&world, LITTLE_PATIENCE);
    courier.tick(world.now()).await.expect("claims");
    let asked = hangs.wait_for(1).await.len();
    assert!(asked <= 2, "{asked} at once");
    assert!(courier.in_flight() <= 2, "of 50 that are owed");

    // The target hangs on; another run fails, is tried again, and its alarm goes out.
    let run = world.trigger(&b, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(1)).await;
    assert_eq!(world.run(run).await.attempts.len(), 2);
    courier.tick(world.now()).await.expect("claims");
    well.wait_for(1).await;

    deliver(&world, &mut courier).await;
    assert!(hangs.posted().len() <= 4, "it rests: {}", hangs.posted().len());
    assert_eq!(world.store.count_owed().await.expect("counted").owed, 50);
}

#[tokio::test]
async fn x42_after_a_restart_what_is_owed_does_not_come_as_a_flood() {
    let mut world = World::new(at(NOON)).await;
    let receiver = WebReceiver::start().await;
    watch(&world, "bad", AlarmCondition::RunFailed, &receiver).await;
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let spec = JobSpec { retry, overlap: OverlapPolicy::Allow, ..JobSpec::default() };
    let job = world.job("bad", spec).await;
    worker(&mut world).await;
    for _ in 0..40 {
        world.trigger(&job, RunExtra::default()).await;
    }
    world.pass(TimeDelta::minutes(1)).await;
    let mut first = courier(&world);
    deliver(&world, &mut first).await;
    assert_eq!(receiver.posted().len(), 40, "each once");
    drop(first);
    world.restart();
    let mut second = courier(&world);
    world.pass(TimeDelta::minutes(5)).await;
    deliver(&world, &mut second).await;
    assert_eq!(receiver.posted().len(), 40, "nothing is sent again");
    let mut ids: Vec<_> =
        receiver.posted().iter().map(|p| p.header("clawjob-alarm-id").to_owned()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 40);
}

#[tokio::test]
async fn x43_a_crash_between_claim_and_send_delays_the_alarm_and_sends_it_once() {
    let mut world = World::new(at(NOON)).await;
    let receiver = WebReceiver::start().await;
    watch(&world, "bad", AlarmCondition::RunFailed, &receiver).await;
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let job = world.job("bad", JobSpec { retry, ..JobSpec::default() }).await;
    worker(&mut world).await;
    world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(10)).await;
    let now = world.now();
    let claim = DeliveryClaim {
        without: Vec::new(),
        per_target: 2,
        limit: 9,
        with_default: false,
        given_up_before: now - OWED_MAX,
        lease_until: now + LEASE,
    };
    assert_eq!(world.store.claim_deliveries(&claim, now).await.expect("claims").len(), 1);
    // The process that has claimed it is killed here.
    world.restart();

    let mut courier = courier(&world);
    deliver(&world, &mut courier).await;
    assert_eq!(receiver.posted().len(), 0, "the dead one may still be at it");
    for _ in 0..3 {
        world.pass(TimeDelta::minutes(2)).await;
        deliver(&world, &mut courier).await;
    }
    let [alarm] = &alarms(&world).await[..] else { panic!("one alarm") };
    assert_eq!((alarm.deliveries, alarm.last_error.as_str()), (1, ""));
    let posted = receiver.posted();
    let [posted] = &posted[..] else { panic!("{posted:?}") };
    assert_eq!(posted.header("clawjob-alarm-id"), alarm.id.to_string());
    assert_eq!(posted.header("clawjob-attempt"), "2");
}

#[tokio::test]
async fn what_is_given_up_since_nobody_could_send_it_for_a_day_still_says_what_failed_before() {
    let mut world = World::new(at(NOON)).await;
    let receiver = WebReceiver::start().await;
    receiver.answer_all(Answer::Status(500));
    watch(&world, "bad", AlarmCondition::RunFailed, &receiver).await;
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let job = world.job("bad", JobSpec { retry, ..JobSpec::default() }).await;
    worker(&mut world).await;
    world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(10)).await;
    let mut courier = courier(&world);
    deliver(&world, &mut courier).await;
    world.clock.advance(Duration::from_secs(25 * 3_600));
    deliver(&world, &mut courier).await;
    let [alarm] = &alarms(&world).await[..] else { panic!("one alarm") };
    assert!(alarm.last_error.contains("HTTP 500"), "{}", alarm.last_error);
    assert!(alarm.last_error.ends_with("; given up after 1 attempt"), "{}", alarm.last_error);
}

#[tokio::test]
async fn a_refusal_is_tried_again_later_and_later_and_given_up_after_a_day() {
    let mut world = World::new(at(NOON)).await;
    let receiver = WebReceiver::start().await;
    receiver.answer_all(Answer::Status(500));
    watch(&world, "bad", AlarmCondition::RunFailed, &receiver).await;
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let job = world.job("bad", JobSpec { retry, ..JobSpec::default() }).await;
    worker(&mut world).await;
    world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::seconds(10)).await;
    let mut courier = courier(&world);
    for _ in 0..(25 * 12) {
        world.clock.advance(Duration::from_secs(300));
        deliver(&world, &mut courier).await;
    }
    let tries = receiver.posted().len();
    assert!((20..=45).contains(&tries), "{tries}");
    let [alarm] = &alarms(&world).await[..] else { panic!("one alarm") };
    assert_eq!(alarm.deliveries, 0);
    assert!(alarm.last_error.contains("HTTP 500"), "{}", alarm.last_error);
    assert!(alarm.last_error.contains("given up"), "{}", alarm.last_error);
    assert_eq!(world.store.count_owed().await.expect("counted").owed, 0);
}

#[tokio::test]
async fn a_threshold_speaks_after_so_many_failures_in_a_row_and_then_after_as_many_more() {
    let mut world = World::new(at(NOON)).await;
    let receiver = WebReceiver::start().await;
    let spec =
        AlarmRuleSpec { threshold: 3, channels: vec![hook(&receiver)], ..AlarmRuleSpec::default() };
    rule(&world, "three", spec).await;
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let job = world.job("job", JobSpec { retry, ..JobSpec::default() }).await;
    // F F S F F F F F F F: the sixth and the ninth are the third in a row.
    let mut ends = "FFSFFFFFFF".chars();
    let script = move |_: &RunCommand, _| match ends.next() {
        Some('S') => Act::succeed(TimeDelta::seconds(1)),
        _ => Act::fail(TimeDelta::seconds(1), "BOOM"),
    };
    world.worker("one", 1, Box::new(script)).await;
    let mut fired = Vec::new();
    for turn in 1..=10 {
        world.trigger(&job, RunExtra::default()).await;
        world.pass(TimeDelta::seconds(30)).await;
        if alarms(&world).await.len() > fired.len() {
            fired.push(turn);
        }
    }
    assert_eq!(fired, [6, 9]);
    assert!(alarms(&world).await[0].facts.subject().ends_with("(3 in a row)"));
}
