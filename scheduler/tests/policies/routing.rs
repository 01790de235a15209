//! Which executor gets a run, over many runs, over deaths and restarts.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use chrono::TimeDelta;
use clawjob_proto::v1::{Heartbeat, session_request::Frame as Up};
use clawjob_scheduler::model::{
    executor::{ExecutorSpec, Handler},
    ids::RunId,
    job::{Job, JobSpec, OverlapPolicy, Placement, RouteStrategy},
    run::{RunExtra, RunState},
    schedule::{Schedule, Trigger},
};

use crate::world::{Act, World, at};

const SECOND: TimeDelta = TimeDelta::seconds(1);

async fn world() -> World {
    World::new(at("2026-06-10T12:00:00Z")).await
}

fn routed(route: RouteStrategy) -> JobSpec {
    JobSpec {
        overlap: OverlapPolicy::Allow,
        max_queued: 10_000,
        placement: Placement { route, ..Placement::default() },
        ..JobSpec::default()
    }
}

async fn triggered(world: &World, job: &Job, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(world.trigger(job, RunExtra::default()).await);
    }
    runs
}

/// Where a run went first.
fn place(world: &World, run: &RunId) -> String {
    world.ledger[run][0].executor.clone()
}

/// How many runs each executor got.
fn counts(world: &World) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for execution in world.ledger.values().flatten() {
        *counts.entry(execution.executor.clone()).or_default() += 1;
    }
    counts
}

async fn connect(world: &mut World, names: &[&str], slots: u32) {
    for name in names {
        world.steady(name, slots, SECOND).await;
    }
}

#[tokio::test]
async fn x53_round_robin_gives_four_executors_a_thousand_runs_each_across_a_restart() {
    let mut world = world().await;
    let names = ["one", "two", "three", "four"];
    connect(&mut world, &names, 100).await;
    let job = world.job("busy", routed(RouteStrategy::RoundRobin)).await;
    for wave in 0..40 {
        if wave % 13 == 7 {
            world.restart();
            connect(&mut world, &names, 100).await;
        }
        triggered(&world, &job, 100).await;
        world.pass(SECOND * 2).await;
    }
    let counts = counts(&world);
    assert_eq!(counts.values().sum::<usize>(), 4_000);
    assert!(counts.len() == 4 && counts.values().all(|n| (999..=1_001).contains(n)), "{counts:?}");
}

#[tokio::test]
async fn of_jobs_that_fire_one_after_another_all_turns_are_read_together_by_a_new_owner() {
    let mut world = world().await;
    let names = ["one", "two"];
    connect(&mut world, &names, 100).await;
    for n in 0..40 {
        let start = at("2026-06-10T12:01:00Z") + TimeDelta::milliseconds(25 * n);
        let trigger = Trigger::Interval(Duration::from_secs(60));
        let schedule = Schedule { trigger, start_at: Some(start), ..Schedule::default() };
        let spec = JobSpec {
            schedules: vec![schedule],
            placement: Placement { route: RouteStrategy::RoundRobin, ..Placement::default() },
            ..JobSpec::default()
        };
        world.job(&format!("job-{n}"), spec).await;
    }
    world.run_until(at("2026-06-10T12:01:30Z")).await;
    world.restart();
    connect(&mut world, &names, 100).await;
    let asked = world.flaky.asked("last_dispatches");
    world.run_until(at("2026-06-10T12:02:30Z")).await;
    assert_eq!(world.flaky.asked("last_dispatches") - asked, 1);
    let mut went = BTreeMap::<&str, Vec<&str>>::new();
    for execution in world.ledger.values().flatten() {
        went.entry(&execution.command.job).or_default().push(&execution.executor);
    }
    let twice = |to: &&Vec<&str>| to.len() == 2 && to[0] != to[1];
    assert_eq!(went.values().filter(twice).count(), 40, "each went to one, then to the other");
}

#[tokio::test]
async fn the_counts_of_least_frequently_used_are_exact_across_a_restart() {
    let mut world = world().await;
    let names = ["one", "two", "three"];
    connect(&mut world, &names, 10).await;
    let job = world.job("busy", routed(RouteStrategy::LeastFrequentlyUsed)).await;
    triggered(&world, &job, 10).await;
    world.pass(SECOND * 2).await;
    world.restart();
    // The one that has a run more than the others does not come back at first.
    connect(&mut world, &names[1..], 10).await;
    triggered(&world, &job, 4).await;
    world.pass(SECOND * 2).await;
    let so_far: Vec<usize> = counts(&world).into_values().collect();
    assert_eq!(so_far, [4, 5, 5], "one, three, two");
    connect(&mut world, &names[..1], 10).await;
    let first = triggered(&world, &job, 1).await;
    world.pass(SECOND * 2).await;
    assert_eq!(place(&world, &first[0]), "one");
}

#[tokio::test]
async fn the_order_of_least_recently_used_goes_on_across_a_restart() {
    let mut world = world().await;
    let names = ["one", "two", "three"];
    connect(&mut world, &names, 10).await;
    let job = world.job("busy", routed(RouteStrategy::LeastRecentlyUsed)).await;
    let mut order = Vec::new();
    for round in 0..8 {
        if round == 4 {
            world.restart();
            connect(&mut world, &names, 10).await;
        }
        let run = triggered(&world, &job, 1).await;
        world.pass(SECOND * 2).await;
        order.push(place(&world, &run[0]));
    }
    let expected = ["one", "two", "three"].into_iter().cycle().take(8);
    assert_eq!(order, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_key_stays_with_its_executor_and_only_those_of_a_dead_one_move() {
    let mut world = world().await;
    let names = ["one", "two", "three", "four"];
    connect(&mut world, &names, 50).await;
    let mut jobs = Vec::new();
    for n in 0..30 {
        let spec = routed(RouteStrategy::ConsistentHash);
        jobs.push(world.job(&format!("job-{n}"), spec).await);
    }
    let mut owners: BTreeMap<usize, String> = BTreeMap::new();
    for _ in 0..3 {
        for (n, job) in jobs.iter().enumerate() {
            let run = triggered(&world, job, 1).await;
            world.settle().await;
            let owner = place(&world, &run[0]);
            assert_eq!(owners.entry(n).or_insert_with(|| owner.clone()), &owner);
        }
        world.pass(SECOND * 2).await;
    }
    let used: BTreeSet<&String> = owners.values().collect();
    assert!(used.len() > 2, "thirty keys are spread: {used:?}");
    let dead = owners[&0].clone();
    world.lose(&dead);
    for (n, job) in jobs.iter().enumerate() {
        let run = triggered(&world, job, 1).await;
        world.settle().await;
        let now = place(&world, &run[0]);
        if owners[&n] == dead {
            assert_ne!(now, dead);
        } else {
            assert_eq!(now, owners[&n], "job-{n} moved though its executor stayed");
        }
    }
    // It comes back under its name and has its keys again.
    world.steady(&dead, 50, SECOND).await;
    let run = triggered(&world, &jobs[0], 1).await;
    world.pass(SECOND * 2).await;
    assert_eq!(place(&world, &run[0]), dead);
}

#[tokio::test]
async fn a_key_waits_for_its_full_executor_and_keeps_nobody_else_waiting() {
    let mut world = world().await;
    connect(&mut world, &["one", "two", "three"], 1).await;
    let keyed = |key: &str| {
        let mut spec = routed(RouteStrategy::ConsistentHash);
        spec.placement.route_key = key.to_owned();
        spec
    };
    let job = world.job("keyed", keyed("orders")).await;
    let mut other = None;
    let first = triggered(&world, &job, 1).await;
    world.settle().await;
    let owner = place(&world, &first[0]);
    let behind = triggered(&world, &job, 3).await;
    // A key of another executor is found by trying.
    for n in 0..20 {
        let job = world.job(&format!("other-{n}"), keyed(&format!("key-{n}"))).await;
        let run = triggered(&world, &job, 1).await;
        world.settle().await;
        if world.ledger.contains_key(&run[0]) {
            other = Some(run[0]);
            break;
        }
    }
    assert_ne!(place(&world, &other.expect("a key of another executor")), owner);
    world.pass(TimeDelta::milliseconds(500)).await;
    assert!(behind.iter().all(|run| !world.ledger.contains_key(run)));
    world.pass(SECOND * 10).await;
    assert!(behind.iter().all(|run| place(&world, run) == owner));
}

#[tokio::test]
async fn a_run_that_waits_for_the_owner_of_its_key_says_so() {
    let mut world = world().await;
    world.worker("one", 1, Box::new(|_, _| Act::Forever)).await;
    let job = world.job("keyed", routed(RouteStrategy::ConsistentHash)).await;
    triggered(&world, &job, 1).await;
    world.pass(SECOND).await;
    let second = triggered(&world, &job, 1).await;
    world.pass(SECOND * 5).await;
    let message = world.run(second[0]).await.run.message;
    assert_eq!(message, "waits for executor one, which has its key and no free slot");
}

#[tokio::test]
async fn x26_after_a_kill_the_first_executor_gets_no_further_run() {
    for route in [RouteStrategy::First, RouteStrategy::Failover] {
        let mut world = world().await;
        connect(&mut world, &["one", "two"], 5).await;
        let job = world.job("primary", routed(route)).await;
        let before = triggered(&world, &job, 2).await;
        world.pass(SECOND * 2).await;
        world.lose("one");
        let after = triggered(&world, &job, 2).await;
        world.settle().await;
        assert!(before.iter().all(|run| place(&world, run) == "one"), "{route:?}");
        assert!(after.iter().all(|run| place(&world, run) == "two"), "{route:?}");
    }
}

#[tokio::test]
async fn failover_leaves_an_executor_whose_heartbeat_is_overdue() {
    let mut world = world().await;
    connect(&mut world, &["one", "two"], 5).await;
    let failover = world.job("failover", routed(RouteStrategy::Failover)).await;
    let first = world.job("first", routed(RouteStrategy::First)).await;
    world.pass(SECOND).await;
    // It stands still, and no connection breaks.
    world.workers[0].gone = true;
    world.pass(SECOND * 5).await;
    let runs = [triggered(&world, &failover, 1).await[0], triggered(&world, &first, 1).await[0]];
    world.settle().await;
    assert_eq!(place(&world, &runs[0]), "two");
    assert_eq!(world.run(runs[1]).await.run.executor.as_deref(), Some("one"));
    // Suspect by now: nobody gets a run there.
    world.pass(SECOND * 4).await;
    let late = triggered(&world, &first, 1).await;
    world.settle().await;
    assert_eq!(place(&world, &late[0]), "two");
}

fn beat(world: &mut World, worker: usize, cpu: f32, free_slots: u32) {
    let heartbeat = Heartbeat { cpu: Some(cpu), free_slots, ..Heartbeat::default() };
    world.workers[worker].executor.send(Up::Heartbeat(heartbeat));
}

#[tokio::test]
async fn busyover_passes_over_what_is_above_its_threshold_and_waits_when_all_are() {
    let mut world = world().await;
    for name in ["one", "two"] {
        world.worker(name, 4, Box::new(|_, _| Act::Forever)).await;
    }
    let mut spec = routed(RouteStrategy::Busyover);
    spec.placement.busy_threshold = 0.5;
    let job = world.job("spill", spec).await;
    let plain = world.job("plain", routed(RouteStrategy::Last)).await;
    // Used shares of 0, 1/4 and 2/4 are not above a half: three fit on each.
    triggered(&world, &job, 6).await;
    world.pass(SECOND).await;
    let last = triggered(&world, &job, 1).await;
    world.pass(SECOND * 3).await;
    let counts: Vec<usize> = counts(&world).into_values().collect();
    assert_eq!(counts, [3, 3]);
    let waiting = world.run(last[0]).await.run;
    assert_eq!(waiting.state, RunState::Queued);
    let why = "all 2 executors that could take it are busier than its route allows";
    assert_eq!(waiting.message, why);
    let other = triggered(&world, &plain, 1).await;
    world.settle().await;
    assert_eq!(place(&world, &other[0]), "two", "another route goes by slots alone");
}

#[tokio::test]
async fn busyover_goes_by_the_load_that_an_executor_reports() {
    let mut world = world().await;
    connect(&mut world, &["one", "two"], 4).await;
    let mut spec = routed(RouteStrategy::Busyover);
    spec.placement.busy_threshold = 0.8;
    let job = world.job("spill", spec).await;
    world.settle().await;
    beat(&mut world, 0, 0.9, 4);
    beat(&mut world, 1, 0.3, 4);
    let run = triggered(&world, &job, 1).await;
    world.settle().await;
    assert_eq!(place(&world, &run[0]), "two");
    world.pass(SECOND * 2).await;
    beat(&mut world, 0, 0.7, 4);
    let run = triggered(&world, &job, 1).await;
    world.settle().await;
    assert_eq!(place(&world, &run[0]), "one");
}

fn labelled(zone: &str) -> ExecutorSpec {
    let handler = Handler {
        name: "work".to_owned(),
        max_concurrency: 0,
        params_schema: String::new(),
        description: String::new(),
    };
    let labels = [("zone".to_owned(), zone.to_owned()), ("disk".to_owned(), "ssd".to_owned())];
    ExecutorSpec { handlers: vec![handler], slots: 5, labels: labels.into(), ..Default::default() }
}

#[tokio::test]
async fn every_route_keeps_to_the_executors_that_carry_the_labels() {
    use RouteStrategy as R;
    let mut world = world().await;
    for (name, zone) in [("a-1", "a"), ("b-1", "b"), ("a-2", "a"), ("b-2", "b")] {
        world.worker_with(name, labelled(zone), Box::new(|_, _| Act::succeed(SECOND))).await;
    }
    for route in [
        R::RoundRobin,
        R::Random,
        R::First,
        R::Last,
        R::ConsistentHash,
        R::LeastFrequentlyUsed,
        R::LeastRecentlyUsed,
        R::Failover,
        R::Busyover,
        R::LeastLoaded,
    ] {
        let mut spec = routed(route);
        let wanted = [("zone", "b"), ("disk", "ssd")];
        spec.placement.required_labels =
            wanted.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let job = world.job(&format!("{route:?}").to_lowercase(), spec).await;
        let runs = triggered(&world, &job, 4).await;
        world.pass(SECOND * 3).await;
        assert!(runs.iter().all(|run| place(&world, run).starts_with('b')), "{route:?}");
    }
}

#[tokio::test]
async fn a_run_for_one_executor_waits_for_it_and_says_why() {
    let mut world = world().await;
    world.worker("one", 1, Box::new(|_, _| Act::succeed(TimeDelta::seconds(30)))).await;
    connect(&mut world, &["two"], 5).await;
    let job = world.job("directed", routed(RouteStrategy::RoundRobin)).await;
    let to_one = || RunExtra { target_executor: "one".to_owned(), ..RunExtra::default() };
    let first = world.trigger(&job, to_one()).await;
    world.settle().await;
    let second = world.trigger(&job, to_one()).await;
    let free = triggered(&world, &job, 2).await;
    world.pass(SECOND * 3).await;
    assert_eq!(place(&world, &first), "one");
    let waiting = world.run(second).await.run;
    assert_eq!(waiting.state, RunState::Queued);
    assert_eq!(waiting.message, "waits for executor one, which has no free slot");
    assert!(free.iter().all(|run| place(&world, run) == "two"), "the route goes on without it");
    world.pass(SECOND * 29).await;
    assert_eq!(place(&world, &second), "one");
    world.lose("one");
    let third = world.trigger(&job, to_one()).await;
    world.pass(SECOND * 3).await;
    let message = world.run(third).await.run.message;
    assert_eq!(message, "waits for executor one, which is not connected");
    connect(&mut world, &["one"], 1).await;
    world.pass(SECOND * 90).await;
    assert_eq!(place(&world, &third), "one");
}
