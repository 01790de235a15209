//! Credits, RunCommands, kills.

use clawjob_proto::v1::{
    Capacity, RunAck, kill_ack, run_ack, scheduler_drain, session_request::Frame as Up,
};

use super::*;
use crate::{
    hub::{
        Kill,
        event::Decline,
        session::{AckStatus, End},
        settings::SESSION_RUN_QUEUE_MAX,
    },
    model::run::{CODE_UNKNOWN_HANDLER, KillReason},
};

fn kill(attempt: AttemptRef) -> Kill {
    Kill { attempt, reason: KillReason::User, grace: seconds(10), message: "enough".to_owned() }
}

#[test]
fn f9_never_more_run_commands_than_free_slots() {
    let world = World::new();
    let mut executor = world.connect("a", 2);
    assert_eq!(world.free("a"), Some(2));
    assert!(!world.hub.reserve(APP, "a", 1, "hello", 3));
    assert!(world.hub.reserve(APP, "a", 1, "hello", 2));
    assert_eq!(world.free("a"), Some(0), "reserved slots are not free, the executor is listed");
    world.hub.unreserve(APP, "a", 1, "hello", 1);
    assert_eq!(world.free("a"), Some(1));
    assert!(world.hub.send_run(APP, "a", 1, command(attempt(1))));
    assert_eq!(world.free("a"), Some(1), "a credit became a run");
    let run = read_run(&mut executor);
    let taken = executor.accept(&run).expect("an attempt");
    executor.finish(taken, Default::default());
    assert_eq!(world.free("a"), Some(2), "a result frees its slot before it is written");
}

#[test]
fn a_handlers_own_bound_counts_its_runs_and_reservations() {
    let world = World::new();
    let _executor = world.connect("a", 4);
    assert!(world.hub.reserve(APP, "a", 1, "narrow", 1));
    assert!(!world.hub.reserve(APP, "a", 1, "narrow", 1));
    assert!(world.hub.reserve(APP, "a", 1, "hello", 3));
    assert!(!world.hub.reserve(APP, "a", 1, "hello", 1));
}

#[test]
fn candidates_are_those_that_may_take_the_handler_in_order_of_registration() {
    let world = World::new();
    let _b = world.connect("b", 1);
    let mut a = world.connect("a", 1);
    let names = |world: &World, handler: &str, labels: &[(&str, &str)]| -> Vec<String> {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let candidates = world.hub.candidates(APP, handler, &labels);
        candidates.iter().map(|c| c.name.to_string()).collect()
    };
    assert_eq!(names(&world, "hello", &[]), ["a", "b"]);
    assert_eq!(names(&world, "hello", &[("zone", "a")]), ["a", "b"]);
    assert!(names(&world, "hello", &[("zone", "b")]).is_empty());
    assert!(names(&world, "other", &[]).is_empty());
    assert!(world.hub.offers(APP, "hello") && !world.hub.offers(APP, "other"));
    world.hub.set_cordon(APP, "b", true);
    assert_eq!(names(&world, "hello", &[]), ["a"]);
    world.hub.set_cordon(APP, "b", false);
    let paused = vec!["hello".to_owned()];
    a.send(Up::Capacity(Capacity {
        free_slots: 1,
        paused_handlers: paused,
        ..Capacity::default()
    }));
    assert_eq!(names(&world, "hello", &[]), ["b"]);
    assert_eq!(names(&world, "narrow", &[]), ["a", "b"]);
    a.send(Up::Drain(Default::default()));
    assert_eq!(names(&world, "narrow", &[]), ["b"]);
    assert!(world.hub.offers(APP, "hello"), "it is still there for messages");
}

#[test]
fn slots_that_are_busy_otherwise_are_not_given_out() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    assert_eq!(world.free("a"), Some(3));
    executor.send(Up::Capacity(Capacity { free_slots: 1, ..Capacity::default() }));
    assert_eq!(world.free("a"), Some(1));
    executor.heartbeat();
    assert_eq!(world.free("a"), Some(3), "the Heartbeat says that they are free again");
}

#[test]
fn an_unread_queue_bounds_what_one_executor_is_given_at_once() {
    let world = World::new();
    let mut executor = world.connect("a", 10_000);
    let room = u32::try_from(SESSION_RUN_QUEUE_MAX).expect("small");
    assert_eq!(world.free("a"), Some(room));
    for n in 0..i64::from(room) {
        assert!(world.hub.reserve(APP, "a", 1, "hello", 1));
        assert!(world.hub.send_run(APP, "a", 1, command(attempt(n))));
    }
    assert_eq!(world.free("a"), Some(0));
    assert_eq!(executor.receive().len(), SESSION_RUN_QUEUE_MAX);
    assert_eq!(world.free("a"), Some(room), "it read them, so there is room again");
}

#[test]
fn a_run_for_a_session_that_is_gone_was_never_sent_and_an_event_says_so() {
    let mut world = World::new();
    let mut executor = world.connect("a", 1);
    assert!(world.hub.reserve(APP, "a", 1, "hello", 1));
    executor.goodbye();
    assert!(!world.hub.send_run(APP, "a", 1, command(attempt(1))));
    assert_eq!(world.kinds(), [(attempt(1), EventKind::NotHeld)]);
}

#[test]
fn a_run_that_may_have_been_sent_before_is_looked_for_instead_of_sent_again() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    // Its session has answered for it already, and the answer is not written yet.
    world.hub.look_for(APP, "a", 1, attempt(1));
    assert!(executor.receive().is_empty());
    executor.heartbeat();
    executor.heartbeat();
    assert_eq!(world.kinds(), [(attempt(1), EventKind::NotHeld)]);
}

#[test]
fn f3_a_run_without_an_answer_is_sent_once_more_and_then_ends_the_session() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    let first = world.send(&mut executor, attempt(1));
    world.pass(seconds(4));
    assert!(executor.receive().is_empty());
    world.pass(seconds(1));
    let second = read_run(&mut executor);
    assert_eq!(second.r#ref, first.r#ref);
    assert!(second.command_seq > first.command_seq);
    world.pass(seconds(5));
    assert!(matches!(executor.link().end(), Some(End::Unresponsive(_))));
    assert!(matches!(executor.receive()[..], [Down::Close(_)]));
    assert_eq!(world.kinds(), [], "a broken contact alone is no evidence");
}

#[test]
fn what_executors_answer_to_a_run() {
    let rejected = |code: &str| {
        let failure = clawjob_proto::v1::Failure { code: code.to_owned(), ..Default::default() };
        let status = run_ack::Status::Rejected.into();
        RunAck { status, failure: Some(failure), ..RunAck::default() }
    };
    let plain = |status: run_ack::Status| RunAck { status: status.into(), ..RunAck::default() };
    let busy =
        RunAck { retry_after: Some(wire::to_duration(seconds(3))), ..plain(run_ack::Status::Busy) };
    let declined = |why| EventKind::Declined { handler: Some("hello".into()), why };
    let refusal = |code: &str| {
        Decline::Rejected(crate::model::run::Failure {
            code: code.to_owned(),
            ..Default::default()
        })
    };
    let noon = testing::noon();
    let cases = [
        ("accepted", plain(run_ack::Status::Accepted), EventKind::Acked { at: noon }, Some(3)),
        ("duplicate", plain(run_ack::Status::Duplicate), EventKind::Acked { at: noon }, Some(3)),
        ("busy", busy, declined(Decline::Busy { retry_after: Some(seconds(3)) }), Some(0)),
        ("draining", plain(run_ack::Status::Draining), declined(Decline::Draining), None),
        (
            "no handler",
            rejected(CODE_UNKNOWN_HANDLER),
            declined(refusal(CODE_UNKNOWN_HANDLER)),
            None,
        ),
        ("params", rejected("INVALID_PARAMS"), declined(refusal("INVALID_PARAMS")), Some(4)),
        (
            "f13 unknown",
            RunAck { status: 99, ..RunAck::default() },
            declined(refusal("REJECTED")),
            Some(4),
        ),
    ];
    for (name, ack, event, free) in cases {
        let mut world = World::new();
        let mut executor = world.connect("a", 4);
        let run = world.send(&mut executor, attempt(1));
        executor.send(Up::RunAck(RunAck { r#ref: run.r#ref, ..ack }));
        assert_eq!(world.kinds(), [(attempt(1), event)], "{name}");
        assert_eq!(world.free("a"), free, "{name}");
    }
}

#[test]
fn an_executor_that_refused_or_was_busy_is_asked_again_after_a_pause() {
    for status in [run_ack::Status::Busy, run_ack::Status::Rejected] {
        let world = World::new();
        let mut executor = world.connect("a", 4);
        let run = world.send(&mut executor, attempt(1));
        let failure = clawjob_proto::v1::Failure {
            code: CODE_UNKNOWN_HANDLER.to_owned(),
            ..Default::default()
        };
        let (status, failure) = (status.into(), Some(failure));
        let r#ref = run.r#ref;
        executor.send(Up::RunAck(RunAck { r#ref, status, failure, ..RunAck::default() }));
        assert_eq!(world.free("a").unwrap_or(0), 0);
        world.pass(seconds(1));
        assert_eq!(world.free("a"), Some(4));
    }
}

#[test]
fn a_kill_is_repeated_until_it_is_answered() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    assert!(world.hub.kill(APP, "a", kill(attempt(1))));
    world.pass(seconds(5));
    let frames = executor.receive();
    let numbers: Vec<u64> = frames
        .iter()
        .map(|frame| match frame {
            Down::Kill(kill) => kill.command_seq,
            other => panic!("wanted kills, got {other:?}"),
        })
        .collect();
    assert_eq!(numbers, [2, 3], "numbers go on from the RunCommand's");
    executor.kill_ack(attempt(1), kill_ack::Status::Signaled);
    executor.heartbeat();
    world.pass(seconds(6));
    let kills = executor.receive().into_iter().filter(|frame| matches!(frame, Down::Kill(_)));
    assert_eq!(kills.count(), 0);
    assert_eq!(world.free("a"), Some(3), "x37 the slot is not reused before the result");
}

#[test]
fn the_same_kill_again_changes_nothing_and_another_one_replaces_it() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    for _ in 0..3 {
        assert!(world.hub.kill(APP, "a", kill(attempt(1))));
    }
    assert_eq!(executor.receive().len(), 1);
    let harder = Kill { grace: seconds(1), ..kill(attempt(1)) };
    assert!(world.hub.kill(APP, "a", harder));
    assert_eq!(executor.receive().len(), 1);
}

#[test]
fn s12_an_executor_that_answers_no_kill_is_evicted_after_a_minute() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    world.hub.kill(APP, "a", kill(attempt(1)));
    for _ in 0..11 {
        world.pass(seconds(5));
        executor.heartbeat();
        executor.receive();
    }
    assert_eq!(executor.link().end(), None);
    world.pass(seconds(5));
    assert!(matches!(executor.link().end(), Some(End::Unresponsive(_))));
}

#[test]
fn ack_r7_a_kill_of_something_unknown_is_reported_once() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    world.hub.kill(APP, "a", kill(attempt(1)));
    executor.forget(attempt(1));
    executor.kill_ack(attempt(1), kill_ack::Status::NotFound);
    executor.kill_ack(attempt(1), kill_ack::Status::NotFound);
    assert_eq!(world.kinds(), [(attempt(1), EventKind::KillNotFound)]);
    assert_eq!(world.free("a"), Some(4));
}

#[test]
fn f8_a_kill_that_met_a_finished_run_waits_for_its_result() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    world.hub.kill(APP, "a", kill(attempt(1)));
    executor.kill_ack(attempt(1), kill_ack::Status::Finished);
    assert_eq!(world.kinds(), []);
    executor.finish(attempt(1), Default::default());
    assert!(matches!(world.kinds()[..], [(_, EventKind::Finished { .. })]));
}

#[test]
fn a_result_is_acknowledged_once_it_is_written_and_frees_the_table() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    executor.finish(attempt(1), Default::default());
    assert!(executor.receive().is_empty(), "no ack before the write");
    world.hub.ack_result(APP, "a", attempt(1), AckStatus::Committed);
    assert!(matches!(executor.receive()[..], [Down::ResultAck(_)]));
    assert!(executor.listed().is_empty());
}

#[test]
fn f10_a_session_that_was_asked_to_move_gets_nothing_new_and_is_closed_in_time() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    assert!(world.hub.reserve(APP, "a", 1, "hello", 1));
    world.hub.drain_all(scheduler_drain::Reason::Shutdown, seconds(2), seconds(20));
    assert!(matches!(executor.receive()[..], [Down::Drain(_)]));
    assert!(world.candidates().is_empty());
    assert!(!world.hub.send_run(APP, "a", 1, command(attempt(2))), "no run after the drain");
    assert!(world.hub.admit().is_err(), "no new session here");
    for _ in 0..4 {
        world.pass(seconds(5));
        executor.heartbeat();
    }
    world.pass(seconds(1));
    assert_eq!(executor.link().end(), Some(End::Drained));
    assert!(executor.link().was_asked_to_move());
}

/// Measures; `cargo test --release -p clawjob-scheduler --lib ten_thousand -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a test"]
#[allow(clippy::disallowed_methods, reason = "it measures real time")]
fn candidates_among_ten_thousand_sessions() {
    const SESSIONS: i64 = 10_000;
    const LOOKS: u32 = 200;
    let world = World::new();
    let mut executors = Vec::new();
    for row in 0..SESSIONS {
        let opened = opening("e", 1, 4);
        let name = format!("e{row}");
        let origin = Arc::new(Origin { app: APP, executor: name.as_str().into(), row, epoch: 1 });
        let opened = LocalExecutor::open(&world.hub, Opening { origin, ..opened }, "app");
        executors.push(opened.expect("opens"));
    }
    let begun = std::time::Instant::now();
    let found: usize = (0..LOOKS).map(|_| world.candidates().len()).sum();
    let each = begun.elapsed() / LOOKS;
    println!("{each:?} for one look at {SESSIONS} sessions");
    assert_eq!(found, usize::try_from(SESSIONS).expect("small") * LOOKS as usize);
}
