//! What happens when a run is due while another of its job is active.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::{
    model::{
        ids::RunId,
        job::{Job, JobSpec, OverlapPolicy, Placement, RouteStrategy},
        retry::RetryPolicy,
        run::{KillReason, RunExtra, RunState},
    },
    store::ops::{EndAnswer, EndRun, JobChange},
};

use crate::world::{Act, World, at, cron};

const SECOND: TimeDelta = TimeDelta::seconds(1);

async fn world() -> World {
    World::new(at("2026-06-10T12:00:00Z")).await
}

fn with(overlap: OverlapPolicy) -> JobSpec {
    JobSpec { overlap, ..JobSpec::default() }
}

/// Begin and end of an execution.
type Span = (DateTime<Utc>, DateTime<Utc>);

/// The executions of each job's runs, in order.
fn spans(world: &World) -> HashMap<String, Vec<Span>> {
    let mut spans: HashMap<String, Vec<Span>> = HashMap::new();
    for execution in world.ledger.values().flatten() {
        let span = (execution.at, execution.ended.unwrap_or(world.now()));
        spans.entry(execution.command.job.clone()).or_default().push(span);
    }
    spans.values_mut().for_each(|spans| spans.sort());
    spans
}

fn overlaps(spans: &[Span]) -> usize {
    spans.windows(2).filter(|pair| pair[1].0 < pair[0].1).count()
}

async fn states(world: &World, runs: &[RunId]) -> Vec<RunState> {
    let mut states = Vec::new();
    for run in runs {
        states.push(world.run(*run).await.run.state);
    }
    states
}

/// Ends a run that waits, as whoever cancels it does.
async fn cancel(world: &World, job: &Job, run: RunId) {
    let row = world.store.open_runs(&[run]).await.expect("rows").remove(0);
    let end = EndRun::unheard(&row, RunState::Canceled, "not wanted".to_owned());
    let ended = world.store.end_runs(&[end], world.now()).await.expect("ended");
    assert_eq!(ended, [EndAnswer::Ended(job.id)]);
    world.store.tell_owners(&[(run, Some(job.partition))]).await.expect("told");
}

#[tokio::test]
async fn a_canceled_run_that_kept_others_waiting_lets_them_in() {
    for told in [true, false] {
        let mut world = world().await;
        let spec = JobSpec { handler: "mistyped".to_owned(), ..with(OverlapPolicy::Queue) };
        let job = world.job("job", spec).await;
        let first = world.trigger(&job, RunExtra::default()).await;
        world.settle().await;
        let spec = JobSpec { handler: "work".to_owned(), ..with(OverlapPolicy::Queue) };
        let none = Box::new(|_: &_| Vec::new());
        let change = JobChange { spec: Some(spec), ..JobChange::by("test") };
        let job = world.store.change_job(job.id, &change, none, world.now()).await.expect("mended");
        world.steady("one", 4, SECOND).await;
        let second = world.trigger(&job, RunExtra::default()).await;
        world.pass(SECOND * 5).await;
        assert_eq!(states(&world, &[first, second]).await, [RunState::Queued; 2]);
        if told {
            cancel(&world, &job, first).await;
            world.pass(SECOND * 3).await;
        } else {
            // Its owner was not told, and finds out by itself.
            let row = world.store.open_runs(&[first]).await.expect("rows").remove(0);
            let end = EndRun::unheard(&row, RunState::Canceled, "not wanted".to_owned());
            world.store.end_runs(&[end], world.now()).await.expect("ended");
            world.pass(SECOND * 70).await;
        }
        assert_eq!(
            states(&world, &[first, second]).await,
            [RunState::Canceled, RunState::Succeeded],
            "told: {told}"
        );
    }
}

#[tokio::test]
async fn x32_two_runs_of_a_job_never_overlap_over_three_executors_and_any_route() {
    use RouteStrategy as R;
    let mut world = world().await;
    let routes = [
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
    ];
    for route in routes {
        for overlap in [OverlapPolicy::Skip, OverlapPolicy::Queue, OverlapPolicy::Replace] {
            let spec = JobSpec {
                schedules: vec![cron("* * * * *", "UTC")],
                placement: Placement { route, ..Placement::default() },
                ..with(overlap)
            };
            world.job(&format!("{route:?}-{overlap:?}").to_lowercase(), spec).await;
        }
    }
    for name in ["one", "two", "three"] {
        world.steady(name, 40, TimeDelta::seconds(90)).await;
    }
    world.pass(TimeDelta::minutes(20)).await;
    let spans = spans(&world);
    assert_eq!(spans.len(), 30);
    for (job, spans) in spans {
        assert_eq!(overlaps(&spans), 0, "{job}: {spans:?}");
        // Runs of 90 s one after the other, or one that is replaced each minute.
        let least = if job.ends_with("replace") { 19 } else { 10 };
        assert!(spans.len() >= least, "{job} ran {} times", spans.len());
    }
}

#[tokio::test]
async fn x33_a_skipped_run_is_no_failure_and_is_not_tried_again() {
    let mut world = world().await;
    let retry = RetryPolicy { max_attempts: 5, ..RetryPolicy::default() };
    let job = world.job("slow", JobSpec { retry, ..with(OverlapPolicy::Skip) }).await;
    world.steady("one", 5, TimeDelta::seconds(10)).await;
    let first = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND).await;
    let second = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(10)).await;
    let skipped = world.run(second).await;
    assert_eq!(skipped.run.state, RunState::Skipped);
    let why = format!("run {first} of the job had not ended (overlap policy SKIP)");
    assert_eq!(skipped.run.message, why);
    assert_eq!((skipped.failure, skipped.run.attempt, skipped.run.fence), (None, 1, 0));
    assert!(!world.ledger.contains_key(&second));
    assert_eq!(world.run(first).await.run.state, RunState::Succeeded);
}

#[tokio::test]
async fn x30_of_two_triggers_at_once_none_is_killed_unexecuted() {
    let mut world = world().await;
    let policies = [OverlapPolicy::Allow, OverlapPolicy::Skip, OverlapPolicy::Queue];
    let mut jobs = Vec::new();
    for overlap in policies {
        jobs.push((
            overlap,
            world.job(&format!("{overlap:?}").to_lowercase(), with(overlap)).await,
        ));
    }
    world.steady("one", 20, TimeDelta::milliseconds(30)).await;
    world.steady("two", 20, TimeDelta::milliseconds(30)).await;
    let mut pairs = Vec::new();
    for _ in 0..1_000 {
        for (overlap, job) in &jobs {
            let one = world.trigger(job, RunExtra::default()).await;
            let other = world.trigger(job, RunExtra::default()).await;
            pairs.push((*overlap, [one, other]));
        }
        world.pass(TimeDelta::milliseconds(100)).await;
    }
    world.pass(TimeDelta::seconds(5)).await;
    let states: HashMap<RunId, RunState> =
        world.runs().await.into_iter().map(|run| (run.run.id, run.run.state)).collect();
    for (overlap, pair) in pairs {
        let mut ended = pair.map(|run| states[&run]);
        ended.sort();
        let second =
            if overlap == OverlapPolicy::Skip { RunState::Skipped } else { RunState::Succeeded };
        assert_eq!(ended, [RunState::Succeeded, second], "{overlap:?}");
        let executed = pair.iter().filter_map(|run| world.ledger.get(run)).flatten().count();
        assert_eq!(executed, if overlap == OverlapPolicy::Skip { 1 } else { 2 });
    }
}

#[tokio::test]
async fn x34_a_job_slower_than_its_period_has_a_bounded_queue_for_a_day() {
    let mut world = world().await;
    let spec = JobSpec {
        schedules: vec![cron("* * * * *", "UTC")],
        max_queued: 20,
        ..with(OverlapPolicy::Queue)
    };
    let job = world.job("slow", spec).await;
    world.steady("one", 5, TimeDelta::seconds(90)).await;
    let mut most = 0;
    for _ in 0..24 {
        world.pass(TimeDelta::hours(1)).await;
        most = most.max(world.board.sizes().1);
    }
    // Twenty that wait, one that runs, and what is planned ahead.
    assert!((20..=22).contains(&most), "{most} runs in memory");
    let runs = world.runs_of(&job).await;
    assert_eq!(runs.len(), 1_440);
    let skipped: Vec<_> = runs.iter().filter(|run| run.run.state == RunState::Skipped).collect();
    let succeeded = runs.iter().filter(|run| run.run.state == RunState::Succeeded).count();
    assert!((959..=960).contains(&succeeded), "{succeeded} ran");
    assert_eq!(skipped.len() + succeeded, 1_440 - 21);
    let why = "20 runs of the job wait already, as many as may (max_queued)";
    assert!(skipped.iter().all(|run| run.run.message == why));
    // The newest may be due at this very moment, and reasons are written within seconds.
    let waiting = runs.iter().find(|run| run.run.state == RunState::Queued).expect("one waits");
    let why = "waits for an earlier run of the job to end (overlap policy QUEUE)";
    assert_eq!(waiting.run.message, why);
}

#[tokio::test]
async fn r52_three_days_without_an_executor_leave_a_bounded_queue() {
    let mut world = world().await;
    world.step_max = TimeDelta::minutes(1);
    let mut jobs: Vec<(OverlapPolicy, Job)> = Vec::new();
    for overlap in
        [OverlapPolicy::Allow, OverlapPolicy::Skip, OverlapPolicy::Queue, OverlapPolicy::Replace]
    {
        let spec = JobSpec { schedules: vec![cron("* * * * *", "UTC")], ..with(overlap) };
        jobs.push((overlap, world.job(&format!("{overlap:?}").to_lowercase(), spec).await));
    }
    world.pass(TimeDelta::days(3)).await;
    assert!(world.board.sizes().1 <= 210, "{} runs in memory", world.board.sizes().1);
    for (overlap, job) in &jobs {
        let runs = world.runs_of(job).await;
        assert_eq!(runs.len(), 3 * 1_440, "{overlap:?}: one row for each fire time");
        let queued: Vec<_> = runs.iter().filter(|run| !run.run.state.is_final()).collect();
        let most = match overlap {
            OverlapPolicy::Allow | OverlapPolicy::Queue => 100,
            OverlapPolicy::Skip | OverlapPolicy::Replace => 1,
        };
        assert_eq!(queued.len(), most, "{overlap:?}");
        let failed = runs.iter().filter(|run| run.run.state == RunState::Failed).count();
        assert_eq!(failed, 0, "{overlap:?}: nothing that an alarm would be raised for");
        let first = &queued[0].run;
        assert_eq!(first.message, "no connected executor offers handler work", "{overlap:?}");
    }
}

#[tokio::test]
async fn replace_stops_the_earlier_run_and_begins_once_it_has_ended() {
    let mut world = world().await;
    let job = world.job("newest", with(OverlapPolicy::Replace)).await;
    world.worker("one", 5, Box::new(|_, _| Act::Forever)).await;
    let first = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND).await;
    let second = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND).await;
    let old = world.run(first).await;
    assert_eq!(old.run.state, RunState::Canceled);
    assert_eq!(old.run.kill_reason, Some(KillReason::Replaced));
    assert_eq!(world.run(second).await.run.state, RunState::Running);
    let (ended, began) = (world.ledger[&first][0].ended, world.ledger[&second][0].at);
    assert!(ended.expect("it has ended") <= began);
}

#[tokio::test]
async fn replace_waits_for_a_handler_that_does_not_stop() {
    let mut world = world().await;
    let job = world.job("newest", with(OverlapPolicy::Replace)).await;
    world.worker("one", 5, Box::new(|_, _| Act::Deaf)).await;
    let first = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND).await;
    let second = world.trigger(&job, RunExtra::default()).await;
    let third = world.trigger(&job, RunExtra::default()).await;
    world.pass(TimeDelta::minutes(2)).await;
    let stopping = world.run(first).await.run;
    assert_eq!(stopping.state, RunState::Canceling);
    assert_eq!(stopping.kill_reason, Some(KillReason::Replaced));
    let expected = format!("replaced by run {second} of the job (overlap policy REPLACE)");
    let other = format!("replaced by run {third} of the job (overlap policy REPLACE)");
    assert!([expected, other].contains(&stopping.message), "{}", stopping.message);
    // Of the two that came later one gave way to the other, which waits.
    let mut later = states(&world, &[second, third]).await;
    later.sort();
    assert_eq!(later, [RunState::Queued, RunState::Canceled]);
    for run in [second, third] {
        let run = world.run(run).await.run;
        if run.state == RunState::Queued {
            assert_eq!(run.message, "waits for the run that it replaces to stop");
        }
    }
    assert!(!world.ledger.contains_key(&second) && !world.ledger.contains_key(&third));
}

#[tokio::test]
async fn replace_ends_what_waits_for_an_executor_or_for_its_next_attempt() {
    let mut world = world().await;
    let retry = RetryPolicy {
        max_attempts: 5,
        initial_backoff: Duration::from_secs(600),
        max_backoff: Duration::from_secs(600),
        ..RetryPolicy::default()
    };
    let job = world.job("newest", JobSpec { retry, ..with(OverlapPolicy::Replace) }).await;
    let queued = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND).await;
    let failing = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND).await;
    assert_eq!(world.run(queued).await.run.state, RunState::Canceled);
    let mut first = true;
    let script = move |_: &_, _| {
        let fails = std::mem::take(&mut first);
        if fails { Act::fail(SECOND, "NO_LUCK") } else { Act::succeed(SECOND) }
    };
    world.worker("one", 5, Box::new(script)).await;
    world.pass(SECOND * 3).await;
    assert_eq!(world.run(failing).await.run.state, RunState::RetryWait);
    let last = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND * 3).await;
    let replaced = world.run(failing).await.run;
    assert_eq!(replaced.state, RunState::Canceled);
    let why = format!("replaced by run {last} of the job (overlap policy REPLACE)");
    assert_eq!(replaced.message, why);
    assert_eq!(world.run(last).await.run.state, RunState::Succeeded);
}

#[tokio::test]
async fn replace_stops_all_shards_of_the_earlier_run() {
    let mut world = world().await;
    let placement = Placement { shard_total: 3, ..Placement::default() };
    let job = world.job("split", JobSpec { placement, ..with(OverlapPolicy::Replace) }).await;
    world.worker("one", 5, Box::new(|_, _| Act::Forever)).await;
    let first = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND * 2).await;
    let second = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND * 3).await;
    let old = world.run(first).await.run;
    assert_eq!(old.state, RunState::Canceled);
    assert_eq!(old.kill_reason, Some(KillReason::Replaced));
    let shards = world.runs().await;
    let of = |parent| shards.iter().filter(move |run| run.run.parent() == Some(parent));
    assert!(of(first).all(|shard| shard.run.state == RunState::Canceled));
    assert!(of(second).all(|shard| shard.run.state == RunState::Running));
    assert_eq!((of(first).count(), of(second).count()), (3, 3));
}

#[tokio::test]
async fn replace_goes_on_after_the_scheduler_was_killed() {
    let mut world = world().await;
    let job = world.job("newest", with(OverlapPolicy::Replace)).await;
    world.worker("one", 5, Box::new(|_, _| Act::Deaf)).await;
    let first = world.trigger(&job, RunExtra::default()).await;
    world.pass(SECOND).await;
    let second = world.trigger(&job, RunExtra::default()).await;
    world.restart();
    world.pass(SECOND * 2).await;
    assert_eq!(world.run(first).await.run.state, RunState::Canceling);
    assert_eq!(world.run(second).await.run.state, RunState::Queued);
    // Its executor never comes back: it is given up, and the other begins elsewhere.
    world.steady("two", 5, SECOND).await;
    world.pass(TimeDelta::minutes(3)).await;
    assert_eq!(world.run(first).await.run.state, RunState::Canceled);
    assert_eq!(world.run(second).await.run.state, RunState::Succeeded);
}

#[tokio::test]
async fn r46_a_job_whose_executor_dies_is_never_running_for_ever() {
    let mut world = world().await;
    let spec = JobSpec {
        schedules: vec![cron("* * * * *", "UTC")],
        lost_policy: clawjob_scheduler::model::job::LostPolicy::Fail,
        ..with(OverlapPolicy::Skip)
    };
    let job = world.job("lonely", spec).await;
    world.worker("one", 5, Box::new(|_, _| Act::Forever)).await;
    world.pass(TimeDelta::seconds(90)).await;
    world.lose("one");
    world.steady("two", 5, SECOND).await;
    world.pass(TimeDelta::minutes(4)).await;
    let runs = world.runs_of(&job).await;
    assert_eq!(runs[0].run.state, RunState::Lost);
    let failure = runs[0].failure.clone().expect("why");
    assert_eq!(failure.code, "EXECUTOR_LOST");
    let last = runs.last().expect("runs");
    assert_eq!(last.run.state, RunState::Succeeded);
    assert!(runs.iter().all(|run| run.run.state.is_final()));
}

#[tokio::test]
async fn allow_with_a_limit_never_runs_more_than_that() {
    let mut world = world().await;
    let spec = JobSpec { max_concurrency: 3, ..with(OverlapPolicy::Allow) };
    let job = world.job("three", spec).await;
    for name in ["one", "two"] {
        world.steady(name, 10, TimeDelta::seconds(10)).await;
    }
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(world.trigger(&job, RunExtra::default()).await);
    }
    world.pass(SECOND * 3).await;
    let why = "the job has as many runs under way as it may: 3 (its max_concurrency)";
    let mut shown = 0;
    for run in &runs {
        shown += usize::from(world.run(*run).await.run.message == why);
    }
    assert_eq!(shown, 7);
    world.pass(TimeDelta::minutes(1)).await;
    assert_eq!(states(&world, &runs).await, [RunState::Succeeded; 10]);
    let spans = &spans(&world)[&job.resource_name()];
    for (begin, _) in spans {
        let at_once = spans.iter().filter(|(b, e)| b <= begin && begin < e).count();
        assert!(at_once <= 3, "{at_once} at {begin}");
    }
}
