//! What executors report of their attempts.

use clawjob_proto::v1::{
    AttemptStatus, Heartbeat, LogChunk, LogRecord, Outcome, Progress, RunResult,
    session_request::Frame as Up,
};

use super::*;
use crate::hub::{
    session::End,
    settings::{ATTEMPT_LOG_BYTES_MAX, LOG_SEQ_MAX},
};

fn heartbeat(listed: &[(AttemptRef, bool)], last_command_seq: u64) -> Up {
    let attempts = listed.iter().map(|(attempt, finished)| AttemptStatus {
        r#ref: Some(wire::to_ref(*attempt)),
        finished: *finished,
        start_time: None,
    });
    Up::Heartbeat(Heartbeat {
        attempts: attempts.collect(),
        last_command_seq,
        free_slots: 4,
        ..Heartbeat::default()
    })
}

#[test]
fn ack_r3_a_heartbeat_that_knows_the_command_and_not_the_attempt_is_evidence() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    let run = world.send(&mut executor, attempt(1));
    executor.send(heartbeat(&[], run.command_seq - 1));
    assert_eq!(world.kinds(), [], "the command may be on its way");
    executor.send(heartbeat(&[], run.command_seq));
    assert_eq!(world.kinds(), [(attempt(1), EventKind::NotHeld)]);
    assert_eq!(world.free("a"), Some(4));
    executor.send(heartbeat(&[], run.command_seq));
    assert_eq!(world.kinds(), [], "said once");
}

#[test]
fn ack_r5_a_frame_that_names_an_attempt_implies_its_ack() {
    let progress = |attempt| {
        Up::Progress(Progress { r#ref: Some(wire::to_ref(attempt)), ..Progress::default() })
    };
    let acked = EventKind::Acked { at: testing::noon() };
    for frame in [heartbeat(&[(attempt(1), false)], 0), progress(attempt(1))] {
        let mut world = World::new();
        let mut executor = world.connect("a", 4);
        world.send(&mut executor, attempt(1));
        executor.send(frame);
        assert_eq!(world.kinds().first(), Some(&(attempt(1), acked.clone())));
    }
}

#[test]
fn ack_r4_a_listing_under_a_lower_fence_counts_for_the_higher_one() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    let again = AttemptRef { fence: 2, ..attempt(1) };
    let run = world.send(&mut executor, again);
    executor.send(heartbeat(&[(attempt(1), false)], run.command_seq));
    assert_eq!(world.kinds(), [(again, EventKind::Acked { at: world.now() })]);
}

#[test]
fn an_acknowledged_attempt_that_two_heartbeats_leave_out_is_lost() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    executor.forget(attempt(1));
    executor.heartbeat();
    assert_eq!(world.kinds(), [], "its result may have crossed the Heartbeat");
    executor.heartbeat();
    assert!(matches!(world.kinds()[..], [(_, EventKind::Lost { .. })]));
    assert_eq!(world.free("a"), Some(4));
}

#[test]
fn a_running_attempt_that_nobody_knows_is_asked_about_and_a_finished_one_is_not() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    executor.send(heartbeat(&[(attempt(1), false), (attempt(2), true)], 0));
    assert_eq!(world.kinds(), [(attempt(1), EventKind::Unknown)]);
    world.hub.adopt(executor.link().origin(), &row(attempt(1), RunState::Running));
    executor.send(heartbeat(&[(attempt(1), false)], 0));
    assert_eq!(world.kinds(), [], "taken in");
    assert_eq!(world.hub.snapshot(APP, "a").expect("live").running, [attempt(1)]);
}

#[test]
fn ack_r6_an_older_session_still_brings_results_and_nothing_else() {
    let mut world = World::new();
    let mut old = world.connect("a", 4);
    world.start(&mut old, attempt(1));
    let _new = LocalExecutor::open(&world.hub, opening("a", 2, 4), "app").expect("opens");
    world.events();
    old.heartbeat();
    assert_eq!(world.kinds(), []);
    old.finish(attempt(1), RunResult::default());
    assert!(matches!(world.kinds()[..], [(_, EventKind::Finished { .. })]));
}

#[test]
fn the_ack_of_a_run_travels_with_its_result() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    let run = world.send(&mut executor, attempt(1));
    executor.accept(&run);
    let acked = world.now();
    world.events();
    world.pass(seconds(3));
    let outcome = Outcome::Succeeded.into();
    executor.finish(attempt(1), RunResult { outcome, ..RunResult::default() });
    let kinds = world.kinds();
    let [(_, EventKind::Finished { acked_at, .. })] = &kinds[..] else { panic!("{kinds:?}") };
    assert_eq!(*acked_at, Some(acked));
}

fn chunk(attempt: AttemptRef, first_seq: u64, records: usize, bytes: usize) -> Up {
    let record = LogRecord { message: "x".repeat(bytes), ..LogRecord::default() };
    let r#ref = Some(wire::to_ref(attempt));
    Up::LogChunk(LogChunk { r#ref, first_seq, records: vec![record; records], dropped: 0 })
}

#[test]
fn ack_r9_logs_after_the_result_are_dropped_and_acknowledged() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    executor.send(chunk(attempt(1), 1, 3, 10));
    let kinds = world.kinds();
    let [(_, EventKind::Logs { records, .. })] = &kinds[..] else { panic!("{kinds:?}") };
    assert_eq!(records.iter().map(|r| r.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(executor.receive().is_empty(), "r8 acknowledged once stored");
    executor.finish(attempt(1), RunResult::default());
    world.events();
    executor.send(chunk(attempt(1), 4, 2, 10));
    assert_eq!(world.kinds(), []);
    let frames = executor.receive();
    let [Down::LogAck(ack)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(ack.through_seq, 5);
}

#[test]
fn f25_a_log_over_its_limit_is_counted_and_its_numbers_go_on() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    let mut seq = 1;
    for _ in 0..ATTEMPT_LOG_BYTES_MAX / 65_536 + 1 {
        executor.send(chunk(attempt(1), seq, 2, 32 * 1024));
        seq += 2;
        world.events();
    }
    executor.send(chunk(attempt(1), seq, 5, 100));
    let kinds = world.kinds();
    let [(_, EventKind::Logs { records, dropped })] = &kinds[..] else { panic!("{kinds:?}") };
    assert_eq!((records.len(), *dropped, records[0].seq), (1, 4, seq + 4));
}

#[test]
fn a_record_of_a_number_that_no_log_reaches_is_a_protocol_error() {
    for first_seq in [u64::MAX, u64::MAX - 1, LOG_SEQ_MAX + 1] {
        let mut world = World::new();
        let mut executor = world.connect("a", 4);
        world.start(&mut executor, attempt(1));
        executor.send(chunk(attempt(1), first_seq, 3, 10));
        let Some(End::Protocol(told)) = executor.link().end() else { panic!("goes on") };
        assert!(told.contains(&format!("log_chunk.first_seq is {first_seq}")), "{told}");
    }
}

#[test]
fn a_log_takes_the_highest_number_and_any_count_of_dropped_records() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    for _ in 0..ATTEMPT_LOG_BYTES_MAX / 65_536 + 1 {
        executor.send(chunk(attempt(1), LOG_SEQ_MAX, 2, 32 * 1024));
        world.events();
    }
    let Up::LogChunk(full) = chunk(attempt(1), LOG_SEQ_MAX, 2, 10) else { panic!("a chunk") };
    executor.send(Up::LogChunk(LogChunk { dropped: u64::MAX, ..full }));
    let kinds = world.kinds();
    let [(_, EventKind::Logs { records, dropped })] = &kinds[..] else { panic!("{kinds:?}") };
    assert_eq!((records[0].seq, *dropped), (LOG_SEQ_MAX + 1, u64::MAX));
}

#[test]
fn x46_a_count_of_dropped_records_is_kept_when_no_record_comes_with_it() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    let count = |dropped| {
        let r#ref = Some(wire::to_ref(attempt(1)));
        Up::LogChunk(LogChunk { r#ref, first_seq: 1, records: Vec::new(), dropped })
    };
    executor.send(count(17));
    let logs = EventKind::Logs { records: Vec::new(), dropped: 17 };
    assert_eq!(world.kinds(), [(attempt(1), logs)]);
    executor.send(count(0));
    assert_eq!(world.kinds(), [], "one that says nothing is only acknowledged");
}

#[test]
fn the_executors_clock_is_read_from_its_results() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    let fast = world.now() + chrono::TimeDelta::seconds(5);
    let finish_time = Some(wire::to_timestamp(fast));
    executor.finish(attempt(1), RunResult { finish_time, ..RunResult::default() });
    let live = world.hub.snapshot(APP, "a").expect("live");
    assert_eq!(live.vitals.clock_offset, Some(chrono::TimeDelta::seconds(5)));
}

#[test]
fn f11_the_executors_clock_is_read_from_its_list_of_runs() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    world.start(&mut executor, attempt(1));
    let offset = |world: &World| world.hub.snapshot(APP, "a").expect("live").vitals.clock_offset;
    let slow = world.now() - chrono::TimeDelta::seconds(7);
    let started = AttemptStatus {
        r#ref: Some(wire::to_ref(attempt(1))),
        start_time: Some(wire::to_timestamp(slow)),
        ..Default::default()
    };
    let heartbeat = Heartbeat { attempts: vec![started], ..Heartbeat::default() };
    world.pass(seconds(3));
    assert_eq!(offset(&world), None);
    executor.send(Up::Heartbeat(heartbeat));
    assert_eq!(offset(&world), Some(chrono::TimeDelta::seconds(-7)));
    let finish_time = Some(wire::to_timestamp(world.now() - chrono::TimeDelta::seconds(8)));
    executor.finish(attempt(1), RunResult { finish_time, ..RunResult::default() });
    assert_eq!(offset(&world), Some(chrono::TimeDelta::seconds(-7)), "between -8 s and -7 s");
}
