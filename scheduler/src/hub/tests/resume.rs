//! Sessions that follow one another.

use std::collections::HashSet;

use clawjob_proto::v1::{
    AttemptStatus, Heartbeat, KillCommand, RunResult, scheduler_drain, session_request::Frame as Up,
};
use prost::Message as _;

use super::*;
use crate::{
    hub::session::{AckStatus, End},
    model::run::KillReason,
};

fn welcome(executor: &mut LocalExecutor) -> clawjob_proto::v1::Welcome {
    match executor.receive().into_iter().next() {
        Some(Down::Welcome(welcome)) => welcome,
        other => panic!("wanted Welcome first, got {other:?}"),
    }
}

#[test]
fn r36_an_attempt_that_hello_lists_goes_on() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    executor.break_off();
    world.pass(seconds(3));
    let again = reopening(&executor, vec![row(attempt(1), RunState::Running)]);
    executor.resume(again).expect("resumes");
    assert!(welcome(&mut executor).kills.is_empty());
    assert_eq!(world.kinds(), [], "neither re-sent nor lost");
    assert_eq!(world.free("a"), Some(3));
    executor.finish(attempt(1), RunResult::default());
    assert!(matches!(world.kinds()[..], [(_, EventKind::Finished { .. })]));
    assert_eq!(world.free("a"), Some(4));
}

#[test]
fn s11_a_run_missing_in_hello_is_requeued_when_it_was_never_received() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    assert!(world.hub.reserve(APP, "a", 1, "hello", 1));
    assert!(world.hub.send_run(APP, "a", 1, command(attempt(1))));
    executor.break_off();
    let again = reopening(&executor, vec![row(attempt(1), RunState::Dispatched)]);
    executor.resume(again).expect("resumes");
    assert_eq!(world.kinds(), [(attempt(1), EventKind::NotHeld)]);
}

#[test]
fn an_acknowledged_run_missing_in_hello_is_lost() {
    // The ack was written, or is known to this node alone.
    for state in [RunState::Running, RunState::Dispatched] {
        let mut world = World::new();
        let mut executor = world.connect("a", 4);
        world.start(&mut executor, attempt(1));
        executor.break_off();
        executor.forget(attempt(1));
        let again = reopening(&executor, vec![row(attempt(1), state)]);
        executor.resume(again).expect("resumes");
        assert!(matches!(world.kinds()[..], [(_, EventKind::Lost { .. })]), "{state:?}");
    }
}

#[test]
fn a_run_that_was_acknowledged_after_hello_was_written_goes_on() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    // A move begins: Hello is written, and the old session goes on meanwhile.
    let hello = reopening(&executor, vec![]);
    world.start(&mut executor, attempt(2));
    let claimed = [attempt(1), attempt(2)].map(|attempt| row(attempt, RunState::Running)).to_vec();
    executor.resume(Opening { claimed, ..hello }).expect("resumes");
    assert_eq!(world.kinds(), []);
    assert_eq!(world.free("a"), Some(2));
    executor.heartbeat();
    executor.heartbeat();
    assert_eq!(world.kinds(), []);
    executor.forget(attempt(2));
    executor.heartbeat();
    executor.heartbeat();
    assert!(matches!(world.kinds()[..], [(_, EventKind::Lost { .. })]), "its Heartbeats tell");
}

#[test]
fn a_run_that_another_node_sent_just_before_is_judged_by_heartbeats() {
    let mut world = World::new();
    let sent = |seconds: i64| OpenRun {
        dispatched_at: Some(world.now() - chrono::TimeDelta::seconds(seconds)),
        ..row(attempt(seconds), RunState::Running)
    };
    let claimed = vec![sent(5), sent(60)];
    let opening = Opening { claimed, last_command_seq: 7, ..opening("a", 2, 8) };
    let mut executor = LocalExecutor::open(&world.hub, opening, "app").expect("opens");
    let lost = |kinds: Vec<(AttemptRef, EventKind)>| -> Vec<AttemptRef> {
        kinds.into_iter().map(|(attempt, _)| attempt).collect()
    };
    assert_eq!(lost(world.kinds()), [attempt(60)], "its Hello would have listed it");
    executor.heartbeat();
    executor.heartbeat();
    assert_eq!(lost(world.kinds()), [attempt(5)]);
}

#[test]
fn after_a_restart_of_the_scheduler_the_rows_alone_decide() {
    let mut world = World::new();
    let mut executor = world.connect("other", 4);
    executor.goodbye();
    let claimed = vec![
        row(attempt(1), RunState::Dispatched),
        row(attempt(2), RunState::Running),
        row(attempt(3), RunState::Dispatched),
        row(attempt(4), RunState::Running),
    ];
    let listed = vec![(attempt(3), false), (attempt(4), false)];
    let last_command_seq = 7;
    let opening = Opening { claimed, listed, last_command_seq, ..opening("a", 2, 8) };
    let mut executor = LocalExecutor::open(&world.hub, opening, "app").expect("opens");
    let kinds = world.kinds();
    let lost = EventKind::Lost { why: "the executor came back without the attempt" };
    let acked = EventKind::Acked { at: world.now() };
    assert_eq!(kinds, [(attempt(2), lost), (attempt(3), acked)]);
    assert_eq!(world.free("a"), Some(5));
    // The first may still be on its way from the process before; two Heartbeats settle it.
    executor.accept(&command(attempt(3)));
    executor.accept(&command(attempt(4)));
    executor.heartbeat();
    assert_eq!(world.kinds(), []);
    executor.heartbeat();
    assert_eq!(world.kinds(), [(attempt(1), EventKind::NotHeld)]);
}

#[test]
fn command_numbers_go_on_and_never_meet_those_of_an_unknown_session() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    let first = world.send(&mut executor, attempt(1));
    executor.accept(&first);
    executor.break_off();
    let again = reopening(&executor, vec![row(attempt(1), RunState::Running)]);
    executor.resume(again).expect("resumes");
    executor.receive();
    let second = world.send(&mut executor, attempt(2));
    assert_eq!((first.command_seq, second.command_seq), (1, 2));
    let elsewhere = Opening { last_command_seq: 2, ..opening("b", 9, 4) };
    let mut executor = LocalExecutor::open(&world.hub, elsewhere, "app").expect("opens");
    executor.receive();
    let third = world.send(&mut executor, attempt(3));
    assert!(third.command_seq > 1_000_000);
}

#[test]
fn another_process_under_the_name_loses_what_the_first_one_held() {
    let mut world = World::new();
    let mut first = world.connect("a", 4);
    world.start(&mut first, attempt(1));
    first.break_off();
    let claimed = vec![row(attempt(1), RunState::Running), row(attempt(2), RunState::Dispatched)];
    let opening = Opening {
        instance_id: "process-2".to_owned(),
        replaced: true,
        resumed: false,
        claimed,
        ..opening("a", 2, 4)
    };
    let _second = LocalExecutor::open(&world.hub, opening, "app").expect("opens");
    let kinds = world.kinds();
    assert_eq!(kinds.len(), 2);
    assert!(kinds.iter().all(|(_, kind)| matches!(kind, EventKind::Lost { .. })), "{kinds:?}");
    assert_eq!(world.free("a"), Some(4));
}

#[test]
fn c30_kills_under_way_and_unwanted_attempts_are_told_in_welcome() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    world.start(&mut executor, attempt(2));
    executor.break_off();
    let stopping =
        OpenRun { kill_reason: Some(KillReason::User), ..row(attempt(1), RunState::Canceling) };
    let again = Opening { unwanted: vec![attempt(2)], ..reopening(&executor, vec![stopping]) };
    executor.resume(again).expect("resumes");
    let kills = welcome(&mut executor).kills;
    let reasons: Vec<(Option<AttemptRef>, i32)> =
        kills.iter().map(|kill| (wire::attempt_ref(kill.r#ref.as_ref()), kill.reason)).collect();
    let stale = i32::from(clawjob_proto::v1::KillReason::StaleAttempt);
    let user = i32::from(clawjob_proto::v1::KillReason::User);
    assert_eq!(reasons, [(Some(attempt(1)), user), (Some(attempt(2)), stale)]);
    assert_eq!(world.kinds(), []);
}

#[test]
fn c60_a_welcome_to_many_attempts_is_no_longer_than_a_frame_and_the_rest_is_told_later() {
    for message_bytes in [10, 4_000] {
        greets_many(&"x".repeat(message_bytes));
    }
}

fn greets_many(why: &str) {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    executor.break_off();
    let canceling = |n| OpenRun { message: why.to_owned(), ..row(attempt(n), RunState::Canceling) };
    let again = Opening {
        claimed: (1..=300).map(canceling).collect(),
        listed: (1..=30_000).map(|n| (attempt(n), n > 20_000)).collect(),
        unwanted: (301..=20_000).map(attempt).collect(),
        known_results: (20_001..=30_000).map(attempt).collect(),
        ..reopening(&executor, Vec::new())
    };
    executor.resume(again).expect("resumes");
    let first = welcome(&mut executor);
    let max = HubSettings::default().max_frame_bytes as usize;
    assert!((max / 2..=max).contains(&first.encoded_len()), "{}", first.encoded_len());
    let about = |kill: &KillCommand| wire::attempt_ref(kill.r#ref.as_ref()).expect("an attempt");
    let mut told: HashSet<AttemptRef> = first.kills.iter().map(about).collect();
    world.events();
    // What is not wanted and was not told is looked up when it is listed.
    let left = (301..=20_000).map(attempt).find(|left| !told.contains(left)).expect("one");
    let r#ref = Some(wire::to_ref(left));
    let listed = AttemptStatus { r#ref, ..AttemptStatus::default() };
    executor.send(Up::Heartbeat(Heartbeat { attempts: vec![listed], ..Heartbeat::default() }));
    assert_eq!(world.kinds(), [(left, EventKind::Unknown)]);
    // What was being stopped is told when its time for an answer is over.
    world.pass(HubSettings::default().kill_ack_resend);
    told.extend(executor.receive().iter().filter_map(|frame| match frame {
        Down::Kill(kill) => Some(about(kill)),
        _ => None,
    }));
    assert!((1..=300).all(|n| told.contains(&attempt(n))));
}

#[test]
fn f17_a_result_that_was_being_written_when_contact_broke_is_not_lost() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    executor.finish(attempt(1), RunResult::default());
    executor.break_off();
    world.events();
    // The process got no ack, but forgot the attempt: the result in hand counts.
    executor.forget(attempt(1));
    let again = reopening(&executor, vec![row(attempt(1), RunState::Running)]);
    executor.resume(again).expect("resumes");
    executor.receive();
    assert_eq!(world.kinds(), []);
    world.hub.ack_result(APP, "a", attempt(1), AckStatus::Committed);
    assert!(matches!(executor.receive()[..], [Down::ResultAck(_)]));
}

#[test]
fn an_unread_command_of_a_stream_that_is_still_open_is_judged_by_heartbeats() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    assert!(world.hub.reserve(APP, "a", 1, "hello", 1));
    assert!(world.hub.send_run(APP, "a", 1, command(attempt(1))));
    let again = reopening(&executor, vec![row(attempt(1), RunState::Dispatched)]);
    executor.resume(again).expect("resumes");
    executor.receive();
    assert_eq!(world.kinds(), [], "the old stream may still bring it");
    executor.heartbeat();
    executor.heartbeat();
    assert_eq!(world.kinds(), [(attempt(1), EventKind::NotHeld)]);
}

#[test]
fn a_command_read_from_the_old_stream_after_hello_is_taken_in() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    assert!(world.hub.reserve(APP, "a", 1, "hello", 1));
    assert!(world.hub.send_run(APP, "a", 1, command(attempt(1))));
    let again = reopening(&executor, vec![row(attempt(1), RunState::Dispatched)]);
    let run = read_run(&mut executor);
    executor.resume(again).expect("resumes");
    executor.receive();
    executor.accept(&run);
    executor.heartbeat();
    executor.heartbeat();
    assert_eq!(world.kinds(), [(attempt(1), EventKind::Acked { at: world.now() })]);
}

#[test]
fn s06_a_session_that_moves_within_the_node_keeps_its_runs() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    let reason = scheduler_drain::Reason::Rebalance;
    world.hub.drain_some(1, reason, seconds(2), seconds(20));
    executor.receive();
    let old = executor.link().clone();
    let again = reopening(&executor, vec![row(attempt(1), RunState::Running)]);
    executor.resume(again).expect("resumes");
    assert_eq!(old.end(), Some(End::Moved));
    assert!(!old.outbox().is_over(), "the old stream is left for its Goodbye");
    world.hub.close(&old);
    assert_eq!(old.outbox().take().len(), 1, "Close");
    assert_eq!(world.kinds(), []);
    assert_eq!(world.free("a"), Some(3));
}

#[test]
fn a_process_that_left_for_good_loses_what_it_did_not_report() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    executor.goodbye();
    let origin = executor.link().origin().clone();
    let events = world.hub.forsake(&origin);
    assert!(matches!(events[..], [SessionEvent { kind: EventKind::Lost { .. }, .. }]));
    assert!(world.hub.forsake(&origin).is_empty(), "said once");
}
