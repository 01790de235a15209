//! Frames that no honest executor would write: nothing panics, counts stay true, bounds hold.

use clawjob_proto::v1::{
    AttemptRef as Ref, AttemptStatus, Capacity, ExecutorDrain, Failure, Goodbye, Heartbeat, Hello,
    KillAck, LogChunk, LogRecord, Progress, RunAck, RunResult, SessionRequest,
    session_request::Frame as Up,
};
use proptest::prelude::*;
use prost::Message as _;

use super::*;

const SLOTS: u32 = 4;

/// One frame of each kind, about an attempt.
fn honest(about: &Ref) -> Vec<Up> {
    let r#ref = || Some(about.clone());
    let failure = || Some(Failure { code: "X".to_owned(), ..Failure::default() });
    let listed = AttemptStatus { r#ref: r#ref(), ..AttemptStatus::default() };
    let record = LogRecord { message: "m".to_owned(), ..LogRecord::default() };
    vec![
        Up::Hello(Hello { attempts: vec![listed.clone()], ..Hello::default() }),
        Up::Heartbeat(Heartbeat { attempts: vec![listed], free_slots: 3, ..Heartbeat::default() }),
        Up::RunAck(RunAck { r#ref: r#ref(), status: 1, failure: failure(), ..RunAck::default() }),
        Up::KillAck(KillAck { r#ref: r#ref(), status: 1 }),
        Up::Progress(Progress { r#ref: r#ref(), fraction: Some(0.5), ..Progress::default() }),
        Up::LogChunk(LogChunk {
            r#ref: r#ref(),
            first_seq: 1,
            records: vec![record],
            ..LogChunk::default()
        }),
        Up::Result(RunResult { r#ref: r#ref(), failure: failure(), ..RunResult::default() }),
        Up::Capacity(Capacity { free_slots: 1, ..Capacity::default() }),
        Up::Drain(ExecutorDrain::default()),
        Up::Goodbye(Goodbye::default()),
    ]
}

/// The frame with some of its bytes changed, if that is a frame at all.
fn spoiled(frame: Up, by: &[(usize, u8)]) -> Option<Up> {
    let mut bytes = SessionRequest { frame: Some(frame) }.encode_to_vec();
    for (at, with) in by {
        let at = at % bytes.len();
        bytes[at] = *with;
    }
    SessionRequest::decode(&*bytes).ok()?.frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn spoiled_frames_keep_the_counts_true(
        steps in prop::collection::vec(
            (0..6_i64, any::<usize>(), prop::collection::vec((any::<usize>(), any::<u8>()), 0..4),
                0..400_u64),
            1..60,
        )
    ) {
        let mut world = World::new();
        let mut executor = world.connect("a", SLOTS);
        for (n, kind, by, ms) in steps {
            let about = wire::to_ref(attempt(n));
            let mut frames = honest(&about);
            let frame = frames.swap_remove(kind % frames.len());
            if world.hub.reserve(APP, "a", 1, "hello", 1) {
                world.hub.send_run(APP, "a", 1, command(attempt(n)));
            }
            if let Some(frame) = spoiled(frame, &by) {
                executor.send(frame);
            }
            executor.receive();
            world.pass(Duration::from_millis(ms));
            world.events();
            prop_assert!(world.hub.sessions() <= 1);
            if let Some(live) = world.hub.snapshot(APP, "a") {
                let running = u32::try_from(live.running.len()).expect("few");
                prop_assert!(live.free_slots <= SLOTS.saturating_sub(running), "{live:?}");
                executor.link().session.lock().check_counts();
            }
        }
    }
}
