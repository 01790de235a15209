//! Limits of apps and handlers, and priority where slots are short.

use chrono::TimeDelta;
use clawjob_scheduler::{
    board::PRIORITY_STEP,
    model::{
        app::AppSpec,
        executor::{ExecutorSpec, Handler},
        ids::RunId,
        job::{Job, JobSpec, OverlapPolicy, Placement},
        run::{RunExtra, RunState},
    },
};

use crate::world::{Act, World, at};

const SECOND: TimeDelta = TimeDelta::seconds(1);

async fn world() -> World {
    World::new(at("2026-06-10T12:00:00Z")).await
}

fn handled(handler: &str) -> JobSpec {
    JobSpec {
        handler: handler.to_owned(),
        overlap: OverlapPolicy::Allow,
        max_queued: 10_000,
        ..JobSpec::default()
    }
}

fn offering(handlers: &[&str], slots: u32) -> ExecutorSpec {
    let handlers = handlers.iter().map(|name| Handler {
        name: (*name).to_owned(),
        max_concurrency: 0,
        params_schema: String::new(),
        description: String::new(),
    });
    ExecutorSpec { handlers: handlers.collect(), slots, ..ExecutorSpec::default() }
}

async fn connect(world: &mut World, name: &str, slots: u32, takes: TimeDelta) {
    let spec = offering(&["mail", "report"], slots);
    world.worker_with(name, spec, Box::new(move |_, _| Act::succeed(takes))).await;
}

async fn limit(world: &World, max_concurrency: u32, handlers: &[(&str, u32)]) {
    let handlers = handlers.iter().map(|(name, max)| ((*name).to_owned(), *max));
    let spec = AppSpec {
        max_concurrency,
        handler_max_concurrency: handlers.collect(),
        ..AppSpec::default()
    };
    let app = world.store.get_app(&world.app.name).await.expect("the app");
    world.store.update_app(app.id, &spec, app.version).await.expect("updated");
}

async fn triggered(world: &World, job: &Job, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(world.trigger(job, RunExtra::default()).await);
    }
    runs
}

/// The most executions at once, of all handlers and of one.
fn most_at_once(world: &World, handler: Option<&str>) -> usize {
    let all: Vec<_> = world
        .ledger
        .values()
        .flatten()
        .filter(|execution| handler.is_none_or(|name| execution.command.handler == name))
        .map(|execution| (execution.at, execution.ended.unwrap_or(world.now())))
        .collect();
    let at_once = all.iter().map(|(at, _)| all.iter().filter(|(b, e)| b <= at && at < e).count());
    at_once.max().unwrap_or(0)
}

#[tokio::test]
async fn an_app_never_has_more_runs_at_once_than_it_may() {
    let mut world = world().await;
    limit(&world, 4, &[]).await;
    connect(&mut world, "one", 10, SECOND * 5).await;
    connect(&mut world, "two", 10, SECOND * 5).await;
    let jobs = [world.job("a", handled("mail")).await, world.job("b", handled("report")).await];
    let mut runs = triggered(&world, &jobs[0], 10).await;
    runs.extend(triggered(&world, &jobs[1], 10).await);
    world.pass(SECOND * 3).await;
    let mut waiting = 0;
    for run in &runs {
        let run = world.run(*run).await.run;
        if run.state == RunState::Queued {
            let why = "the app has as many runs under way as it may: 4 (its max_concurrency)";
            assert_eq!(run.message, why);
            waiting += 1;
        }
    }
    assert_eq!(waiting, 16);
    world.pass(TimeDelta::minutes(1)).await;
    assert_eq!(most_at_once(&world, None), 4);
    let runs = world.runs().await;
    assert!(runs.iter().all(|run| run.run.state == RunState::Succeeded));
}

#[tokio::test]
async fn a_handler_s_limit_holds_over_the_app_and_leaves_other_handlers_alone() {
    let mut world = world().await;
    limit(&world, 0, &[("mail", 2)]).await;
    connect(&mut world, "one", 10, SECOND * 5).await;
    connect(&mut world, "two", 10, SECOND * 5).await;
    let mail = world.job("mail", handled("mail")).await;
    let more_mail = world.job("more-mail", handled("mail")).await;
    let report = world.job("report", handled("report")).await;
    let mut mails = triggered(&world, &mail, 4).await;
    mails.extend(triggered(&world, &more_mail, 4).await);
    triggered(&world, &report, 10).await;
    world.pass(SECOND * 3).await;
    assert_eq!(most_at_once(&world, Some("mail")), 2);
    assert_eq!(most_at_once(&world, Some("report")), 10);
    let why = "the app has as many runs of handler mail under way as it may: 2 (its \
               handler_max_concurrency)";
    let mut shown = 0;
    for run in &mails {
        shown += usize::from(world.run(*run).await.run.message == why);
    }
    assert_eq!(shown, 6);
    world.pass(TimeDelta::minutes(1)).await;
    assert_eq!(most_at_once(&world, Some("mail")), 2);
    assert!(world.runs().await.iter().all(|run| run.run.state == RunState::Succeeded));
}

#[tokio::test]
async fn limits_hold_from_the_first_round_of_a_new_owner() {
    let mut world = world().await;
    limit(&world, 3, &[]).await;
    world.worker_with("one", offering(&["mail"], 10), Box::new(|_, _| Act::Forever)).await;
    let job = world.job("a", handled("mail")).await;
    triggered(&world, &job, 2).await;
    world.pass(SECOND).await;
    triggered(&world, &job, 8).await;
    world.restart();
    world.worker_with("two", offering(&["mail"], 10), Box::new(|_, _| Act::Forever)).await;
    world.pass(SECOND * 5).await;
    // Two are still with the executor that is out of contact.
    assert_eq!(world.ledger.values().flatten().filter(|e| e.executor == "two").count(), 1);
}

#[tokio::test]
async fn lanes_that_share_slots_share_them_by_priority() {
    let mut world = world().await;
    let spec = |handler: &str, priority| JobSpec { priority, ..handled(handler) };
    let low = world.job("low", spec("mail", 0)).await;
    let high = world.job("high", spec("report", 10)).await;
    let mut labelled = spec("mail", 5);
    labelled.placement = Placement {
        required_labels: [("zone".to_owned(), "a".to_owned())].into(),
        ..Placement::default()
    };
    let middle = world.job("middle", labelled).await;
    let lows = triggered(&world, &low, 3).await;
    world.pass(SECOND * 10).await;
    let middles = triggered(&world, &middle, 3).await;
    let highs = triggered(&world, &high, 3).await;
    world.pass(SECOND).await;
    let executor = ExecutorSpec {
        labels: [("zone".to_owned(), "a".to_owned())].into(),
        ..offering(&["mail", "report"], 1)
    };
    world.worker_with("one", executor, Box::new(|_, _| Act::succeed(SECOND))).await;
    world.pass(TimeDelta::minutes(1)).await;
    let begun = |run: &RunId| world.ledger[run][0].at;
    let latest = |runs: &[RunId]| runs.iter().map(begun).max();
    let first = |runs: &[RunId]| runs.iter().map(begun).min();
    assert!(latest(&highs) < first(&middles));
    assert!(latest(&middles) < first(&lows));
}

#[tokio::test]
async fn a_low_priority_has_its_turn_while_high_ones_keep_coming() {
    let mut world = world().await;
    let spec = |priority| JobSpec { priority, ..handled("mail") };
    let low = world.job("low", spec(0)).await;
    let high = world.job("high", spec(2)).await;
    connect(&mut world, "one", 1, SECOND * 2).await;
    // Twice as many come as the one slot can take.
    triggered(&world, &high, 5).await;
    let waiting = triggered(&world, &low, 1).await[0];
    let due = world.now();
    for _ in 0..600 {
        triggered(&world, &high, 1).await;
        world.pass(SECOND).await;
    }
    let begun = world.ledger.get(&waiting).map(|executions| executions[0].at - due);
    let begun = begun.expect("it had its turn");
    // Those that fell due within two steps after it go first, each taking two seconds.
    let least = PRIORITY_STEP * 2;
    assert!(begun > least && begun < least * 3, "{begun}");
}
