mod changes;
mod fires;
mod next_fires;
mod packed;
mod turns;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};

use super::*;
use crate::{
    model::{
        app::App,
        ids::AttemptRef,
        job::{OverlapPolicy, Placement, RouteStrategy},
        plan,
        run::{KillReason, NewRun, RunState, TriggerKind},
        schedule::{Schedule, Trigger},
    },
    store::ops::{Planned, RevisionSpec},
};

const SECOND: TimeDelta = TimeDelta::seconds(1);

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + second, 0).expect("in range")
}

fn row(id: PartitionId) -> PartitionRow {
    PartitionRow { id, epoch: 1, planned_until: at(0), served_until: at(0), jobs_version: 0 }
}

fn every(seconds: u64) -> Schedule {
    Schedule { trigger: Trigger::Interval(Duration::from_secs(seconds)), ..Schedule::default() }
}

fn job(id: i64, spec: JobSpec) -> Job {
    Job {
        id: JobId(id),
        app: AppId(1),
        partition: JobId(id).partition(),
        spec: Arc::new(JobSpec { handler: "hello".to_owned(), ..spec }),
        ..Job::draft("demo", &format!("job-{id}"), at(0))
    }
}

fn board(jobs: Vec<Job>) -> Board {
    let board = Board::default();
    let mut partitions: Vec<_> = jobs.iter().map(|job| row(job.partition)).collect();
    partitions.dedup_by_key(|row| row.id);
    board.adopt(Adoption { partitions, jobs, ..Adoption::default() });
    board
}

/// Takes the fire times before `until`, each at its time, as if the store took all their runs.
fn plan(board: &Board, until: DateTime<Utc>) -> Vec<RunId> {
    let next = || board.inner.lock().fires.next().filter(|fire| *fire < until);
    while let Some(fire) = next() {
        board.fall_due(fire, 1_000);
    }
    write(board, &fires::ids(board), true)
}

/// What becomes of runs that the store takes, or whose partitions it refuses.
fn write(board: &Board, runs: &[RunId], taken: bool) -> Vec<RunId> {
    let advanced = board.partitions().iter().map(|row| row.id).collect();
    let planned = match taken {
        true => Planned { advanced, inserted: runs.to_vec(), ..Planned::default() },
        false => Planned::default(),
    };
    assert_eq!(board.written(runs, &planned), []);
    runs.to_vec()
}

fn lane() -> LaneKey {
    LaneKey {
        app: AppId(1),
        handler: "hello".to_owned(),
        labels: BTreeMap::new(),
        target: String::new(),
        demand: Demand::None,
    }
}

fn waiting(board: &Board) -> Vec<RunId> {
    heads(board, &[lane()], 1_000)
}

fn heads(board: &Board, lanes: &[LaneKey], max: usize) -> Vec<RunId> {
    let lanes: Vec<_> = lanes.iter().map(|lane| (Arc::new(lane.clone()), 1_000)).collect();
    board.heads(&lanes, max).iter().map(|(_, pick)| pick.attempt.run).collect()
}

fn send(board: &Board, run: RunId, now: DateTime<Utc>) {
    let attempt = AttemptRef { run, attempt: 1, fence: 1 };
    board.sent(attempt, &Arc::from("e1"), 1, now).expect("the run is known");
}

#[test]
fn x33_the_overlap_policy_skip_names_the_run_in_the_way() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(1)], ..JobSpec::default() })]);
    let ids = plan(&board, at(3));
    assert!(board.take_due(at(1), 10).conflicts.is_empty());
    send(&board, ids[0], at(1));
    let step = board.take_due(at(2), 10);
    assert_eq!(step.conflicts, [(ids[1], vec![ids[0]])]);
    board.ended(ids[0], at(2));
    assert!(board.retry_admission(ids[1]).conflicts.is_empty());
    assert_eq!(waiting(&board), [ids[1]]);
}

#[test]
fn x34_the_overlap_policy_queue_lets_one_in_at_a_time_up_to_its_bound() {
    let spec = JobSpec {
        schedules: vec![every(1)],
        overlap: OverlapPolicy::Queue,
        max_queued: 2,
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec)]);
    let ids = plan(&board, at(6));
    // The first one waits as well as long as no executor has it.
    let step = board.take_due(at(4), 10);
    assert_eq!(step.crowded, [(ids[2], 2), (ids[3], 2)]);
    assert_eq!(waiting(&board), [ids[0]]);
    send(&board, ids[0], at(4));
    assert!(board.retry_admission(ids[2]).crowded.is_empty());
    assert_eq!(board.retry_admission(ids[3]).crowded, [(ids[3], 2)]);
    assert!(waiting(&board).is_empty());
    board.ended(ids[0], at(4));
    assert_eq!(waiting(&board), [ids[1]]);
    let why = "waits for an earlier run of the job to end (overlap policy QUEUE)".to_owned();
    assert_eq!(board.held_back(10), [(ids[2], why.clone())]);
    assert_eq!(board.run(ids[2]).expect("it is known").message, why);
    assert!(board.held_back(10).is_empty(), "it is shown by now");
}

#[test]
fn r52_the_overlap_policy_allow_bounds_what_waits_and_not_what_runs() {
    let spec = JobSpec {
        schedules: vec![every(1)],
        overlap: OverlapPolicy::Allow,
        max_queued: 2,
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec)]);
    let ids = plan(&board, at(9));
    let crowded: Vec<RunId> = board.take_due(at(4), 10).crowded.iter().map(|c| c.0).collect();
    assert_eq!(crowded, ids[2..4]);
    send(&board, ids[0], at(4));
    send(&board, ids[1], at(4));
    board.due_again(&crowded);
    assert!(board.take_due(at(4), 10).crowded.is_empty());
    assert_eq!(waiting(&board), ids[2..4]);
}

#[test]
fn a_run_that_replaces_waits_until_all_before_it_have_ended() {
    let spec = JobSpec {
        schedules: vec![every(1)],
        overlap: OverlapPolicy::Replace,
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec)]);
    let ids = plan(&board, at(5));
    board.take_due(at(1), 10);
    assert!(board.to_replace().is_empty());
    send(&board, ids[0], at(1));
    board.take_due(at(3), 10);
    let wanted = Replacement { by: ids[2], earlier: vec![ids[0], ids[1]] };
    assert_eq!(board.to_replace(), [wanted]);
    assert_eq!(
        board.held_back(10).iter().map(|(run, _)| *run).collect::<Vec<_>>(),
        [ids[1], ids[2]]
    );
    // The second one, never sent, ends at once; the first is asked to stop.
    board.ended(ids[1], at(3));
    let mut first = board.run(ids[0]).expect("it is known");
    first.state = RunState::Canceling;
    first.kill_reason = Some(KillReason::Replaced);
    board.merge(&[ids[0]], OpenRuns { runs: vec![first], specs: Vec::new() }, at(1));
    assert!(board.to_replace().is_empty(), "nobody is left to be asked");
    assert!(waiting(&board).is_empty());
    board.ended(ids[0], at(4));
    assert_eq!(waiting(&board), [ids[2]]);
}

#[test]
fn a_run_that_its_timeout_stops_may_come_back_and_is_asked_to_stop_for_good() {
    let spec = JobSpec {
        schedules: vec![every(1)],
        overlap: OverlapPolicy::Replace,
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec)]);
    let ids = plan(&board, at(5));
    board.take_due(at(1), 10);
    send(&board, ids[0], at(1));
    let mut first = board.run(ids[0]).expect("it is known");
    first.state = RunState::Canceling;
    first.kill_reason = Some(KillReason::Timeout);
    board.merge(&[ids[0]], OpenRuns { runs: vec![first], specs: Vec::new() }, at(1));
    board.take_due(at(2), 10);
    assert_eq!(board.to_replace(), [Replacement { by: ids[1], earlier: vec![ids[0]] }]);
}

fn app(max_concurrency: u32, handlers: &[(&str, u32)]) -> App {
    let handlers = handlers.iter().map(|(name, max)| ((*name).to_owned(), *max));
    App {
        id: AppId(1),
        name: "demo".to_owned(),
        spec: AppSpec {
            max_concurrency,
            handler_max_concurrency: handlers.collect(),
            ..AppSpec::default()
        },
        created_at: at(0),
        version: 1,
    }
}

#[test]
fn the_limits_of_an_app_count_what_is_with_executors_whenever_they_are_set() {
    let spec =
        JobSpec { schedules: vec![every(1)], overlap: OverlapPolicy::Allow, ..JobSpec::default() };
    let board = board(vec![job(1, spec.clone()), job(2, spec)]);
    let ids = plan(&board, at(3));
    board.take_due(at(3), 10);
    assert!(board.room(AppId(1)).is_none());
    send(&board, ids[0], at(3));
    board.set_apps(vec![app(3, &[("hello", 2), ("other", 0)])]);
    let room = board.room(AppId(1)).expect("it has limits");
    assert_eq!((room.of("hello"), room.of("other")), (1, 2));
    send(&board, ids[1], at(3));
    let mut room = board.room(AppId(1)).expect("it has limits");
    assert_eq!((room.of("hello"), room.of("other")), (0, 1));
    let why = room.why_not("hello").expect("a limit holds");
    assert!(why.contains("handler hello") && why.contains('2'), "{why}");
    assert_eq!(room.why_not("other"), None);
    room.take("other");
    assert_eq!((room.of("hello"), room.of("other")), (0, 0));
    // One ends; one is put back and waits again.
    board.ended(ids[0], at(4));
    let mut back = board.run(ids[1]).expect("it is known");
    back.state = RunState::Queued;
    board.put_back(back);
    board.set_apps(vec![app(3, &[("hello", 2), ("other", 0)])]);
    let room = board.room(AppId(1)).expect("it has limits");
    assert_eq!((room.of("hello"), room.of("other")), (2, 3));
    board.set_apps(vec![app(0, &[])]);
    assert!(board.room(AppId(1)).is_none());
}

#[test]
fn allow_with_a_limit_keeps_back_what_is_over_it() {
    let spec = JobSpec {
        schedules: vec![every(1)],
        overlap: OverlapPolicy::Allow,
        max_concurrency: 2,
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec)]);
    let ids = plan(&board, at(4));
    board.take_due(at(3), 10);
    assert_eq!(waiting(&board), ids[..2]);
    board.ended(ids[1], at(3));
    assert_eq!(waiting(&board), [ids[0], ids[2]]);
}

#[test]
fn higher_priority_goes_first_then_the_longest_due_also_over_lanes() {
    let spec = |priority, handler: &str| JobSpec {
        schedules: vec![every(1)],
        priority,
        placement: Placement {
            required_labels: [("zone".to_owned(), handler.to_owned())].into(),
            ..Placement::default()
        },
        ..JobSpec::default()
    };
    let jobs = [(1, 0, "a"), (2, 5, "b"), (3, 0, "b"), (4, 9, "a"), (5, -1, "b")];
    let jobs = jobs.map(|(id, priority, zone)| job(id, spec(priority, zone)));
    let board = board(jobs.to_vec());
    plan(&board, at(2));
    board.take_due(at(1), 10);
    let lanes = ["a", "b"]
        .map(|zone| LaneKey { labels: [("zone".to_owned(), zone.to_owned())].into(), ..lane() });
    let run = |id| RunId::scheduled(JobId(id), at(1));
    let order = heads(&board, &lanes, 10);
    assert_eq!(order[..2], [run(4), run(2)]);
    let mut equals = [order[2], order[3]];
    equals.sort();
    let mut expected = [run(1), run(3)];
    expected.sort();
    assert_eq!(equals, expected);
    assert_eq!(order[4], run(5));
    assert_eq!(heads(&board, &lanes, 3), order[..3]);
}

#[test]
fn a_low_priority_is_overtaken_for_a_bounded_time_only() {
    let spec = |priority, schedules| JobSpec {
        schedules,
        priority,
        overlap: OverlapPolicy::Allow,
        max_queued: 10_000,
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec(0, vec![every(1_000)])), job(2, spec(2, vec![every(10)]))]);
    plan(&board, at(1_500));
    board.take_due(at(1_500), 10_000);
    let order = waiting(&board);
    let low = order.iter().position(|run| *run == RunId::scheduled(JobId(1), at(1_000)));
    // Of the others those are ahead that fall due before 1,000 s + two steps of priority.
    let ahead = (1..).map(|n| at(n * 10)).take_while(|due| *due < at(1_000) + PRIORITY_STEP * 2);
    assert_eq!(low, Some(ahead.count()));
    assert!(order.len() > low.unwrap_or_default() + 1, "others come after it");
}

#[test]
fn runs_whose_route_asks_for_something_have_a_lane_of_their_own() {
    let spec = |placement| JobSpec { schedules: vec![every(1)], placement, ..JobSpec::default() };
    let route = |route| Placement { route, ..Placement::default() };
    let keyed = Placement { route_key: "k".to_owned(), ..route(RouteStrategy::ConsistentHash) };
    let board = board(vec![
        job(1, spec(route(RouteStrategy::RoundRobin))),
        job(2, spec(route(RouteStrategy::Failover))),
        job(3, spec(route(RouteStrategy::ConsistentHash))),
        job(4, spec(keyed.clone())),
        job(5, spec(keyed)),
        job(6, spec(Placement { busy_threshold: 0.5, ..route(RouteStrategy::Busyover) })),
    ]);
    plan(&board, at(2));
    board.take_due(at(1), 10);
    let mut demands: Vec<_> =
        board.waiting_lanes().iter().map(|lane| lane.demand.clone()).collect();
    demands.sort();
    let key = |text: &str| Demand::Key(text.to_owned());
    let wanted = [Demand::None, key("job-3"), key("k"), Demand::Load(0.5_f32.to_bits())];
    assert_eq!(demands, wanted);
}

#[test]
fn the_queue_timeout_goes_on_while_executors_send_a_run_back() {
    let spec = JobSpec {
        schedules: vec![every(1)],
        queue_timeout: Some(Duration::from_secs(30)),
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec)]);
    let ids = plan(&board, at(2));
    board.take_due(at(1), 10);
    send(&board, ids[0], at(20));
    let mut busy = board.run(ids[0]).expect("it is known");
    (busy.state, busy.due_at) = (RunState::Queued, at(25));
    board.put_back(busy);
    assert_eq!(board.queued_at(ids[0]), Some(at(1)));
    assert_eq!(board.take_deadlines(at(31), 10), [(ids[0], 1)]);
    // Once an executor had taken it, a wait is a new one.
    board.take_due(at(25), 10);
    let attempt = AttemptRef { run: ids[0], attempt: 1, fence: 2 };
    board.sent(attempt, &Arc::from("e1"), 1, at(40)).expect("the run is known");
    board.acked(attempt, at(40));
    let mut stopped = board.run(ids[0]).expect("it is known");
    (stopped.state, stopped.due_at) = (RunState::Queued, at(50));
    board.put_back(stopped);
    assert_eq!(board.queued_at(ids[0]), Some(at(50)));
    assert!(board.take_deadlines(at(79), 10).is_empty());
    assert_eq!(board.take_deadlines(at(80), 10), [(ids[0], 2)]);
}

#[test]
fn a_delay_counts_from_the_end_of_the_last_run() {
    let delay =
        Schedule { trigger: Trigger::Delay(Duration::from_secs(10)), ..Schedule::default() };
    let board = board(vec![job(1, JobSpec { schedules: vec![delay], ..JobSpec::default() })]);
    let first = plan(&board, at(100));
    assert_eq!(first, [RunId::scheduled(JobId(1), at(10))]);
    assert_eq!(plan(&board, at(100)).len(), 0);
    board.take_due(at(10), 10);
    send(&board, first[0], at(10));
    board.ended(first[0], at(33));
    assert_eq!(plan(&board, at(100)), [RunId::scheduled(JobId(1), at(43))]);
}

#[test]
fn a_run_that_was_removed_elsewhere_leaves_its_lane() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(1)], ..JobSpec::default() })]);
    let ids = plan(&board, at(2));
    board.take_due(at(1), 10);
    board.merge(&ids, OpenRuns::default(), at(1));
    assert!(waiting(&board).is_empty());
    assert!(board.run(ids[0]).is_none());
}

#[test]
fn an_older_reading_of_a_sent_run_changes_nothing() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(1)], ..JobSpec::default() })]);
    let ids = plan(&board, at(2));
    board.take_due(at(1), 10);
    let old = board.run(ids[0]).expect("it is known");
    send(&board, ids[0], at(1));
    board.merge(&ids, OpenRuns { runs: vec![old], specs: Vec::new() }, at(1));
    assert_eq!(board.run(ids[0]).expect("it is known").state, RunState::Dispatched);
}

#[test]
fn runs_that_keep_others_waiting_are_under_way_with_and_without_an_executor() {
    let spec =
        JobSpec { overlap: OverlapPolicy::Queue, schedules: vec![every(1)], ..JobSpec::default() };
    let board = board(vec![job(1, spec.clone()), job(2, spec)]);
    let ids = plan(&board, at(3));
    board.take_due(at(2), 10);
    let [mut first, mut second]: [Vec<RunId>; 2] = [1, 2].map(|job| {
        let of = |id: &&RunId| board.run(**id).is_some_and(|run| run.job == JobId(job));
        ids.iter().filter(of).copied().collect()
    });
    first.sort_unstable();
    second.sort_unstable();
    send(&board, second[0], at(2));
    let mut all = board.under_way(at(60));
    all.sort_unstable();
    let mut expected = [first[0], second[0]];
    expected.sort_unstable();
    assert_eq!(all, expected, "and none that only waits");
    assert_eq!(board.under_way(at(1)), []);
}

#[test]
fn missed_fire_times_without_rows_are_late_and_settled_once() {
    let board = board(vec![job(1, JobSpec { schedules: vec![every(60)], ..JobSpec::default() })]);
    let now = at(600) + SECOND;
    let late = board.late(now, 10);
    assert_eq!(late.len(), 1);
    // The one at 600 s is not past the threshold of 5 s yet.
    assert_eq!(late[0].unplanned.newest.len(), 9);
    board.settle_late(JobId(1), now - TimeDelta::seconds(5));
    assert!(board.late(now, 10).is_empty());
    assert_eq!(plan(&board, now), [RunId::scheduled(JobId(1), at(600))]);
}

#[test]
fn a_job_that_can_not_be_read_does_not_hold_up_the_others() {
    let mut broken = job(1, JobSpec { schedules: vec![every(1)], ..JobSpec::default() });
    broken.problem = "unknown time zone Mars/Olympus".to_owned();
    let board =
        board(vec![broken, job(2, JobSpec { schedules: vec![every(1)], ..JobSpec::default() })]);
    assert_eq!(plan(&board, at(2)), [RunId::scheduled(JobId(2), at(1))]);
}

#[test]
fn a_deadline_of_an_older_dispatch_falls_through() {
    let spec = JobSpec {
        schedules: vec![every(1)],
        timeout: Some(Duration::from_secs(3)),
        ..JobSpec::default()
    };
    let board = board(vec![job(1, spec)]);
    let ids = plan(&board, at(2));
    board.take_due(at(1), 10);
    send(&board, ids[0], at(1));
    assert!(board.take_deadlines(at(3), 10).is_empty());
    assert_eq!(board.take_deadlines(at(4), 10), [(ids[0], 1)]);
    board.set_deadline(ids[0], 0, at(5));
    assert!(board.take_deadlines(at(9), 10).is_empty());
}
