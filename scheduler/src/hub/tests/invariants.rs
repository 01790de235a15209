//! Any order of frames, commands and time: nothing panics, counts stay true, bounds hold.

use clawjob_proto::v1::{
    AttemptStatus, Capacity, Heartbeat, KillAck, RunAck, RunResult, session_request::Frame as Up,
};
use proptest::prelude::*;

use super::*;
use crate::{
    hub::{Kill, session::AckStatus},
    model::run::KillReason,
};

const SLOTS: u32 = 4;

#[derive(Clone, Debug)]
enum Step {
    Send(i64, u64),
    Ack(i64, u64, i32),
    Result(i64, u64),
    Commit(i64, u64),
    Kill(i64, u64),
    KillAck(i64, i32),
    Heartbeat(Vec<(i64, u64, bool)>, u32, u64),
    Capacity(u32, bool),
    Pass(u64),
    Read,
    Reconnect(Vec<(i64, u64, bool)>),
}

fn step() -> impl Strategy<Value = Step> {
    let run = 0..6_i64;
    let fence = 1..4_u64;
    let listed = || prop::collection::vec((0..6_i64, 1..4_u64, any::<bool>()), 0..6);
    prop_oneof![
        (run.clone(), fence.clone()).prop_map(|(n, f)| Step::Send(n, f)),
        (run.clone(), fence.clone(), 0..8_i32).prop_map(|(n, f, s)| Step::Ack(n, f, s)),
        (run.clone(), fence.clone()).prop_map(|(n, f)| Step::Result(n, f)),
        (run.clone(), fence.clone()).prop_map(|(n, f)| Step::Commit(n, f)),
        (run.clone(), fence).prop_map(|(n, f)| Step::Kill(n, f)),
        (run, 0..5_i32).prop_map(|(n, s)| Step::KillAck(n, s)),
        (listed(), 0..9_u32, 0..20_u64).prop_map(|(l, f, s)| Step::Heartbeat(l, f, s)),
        (0..9_u32, any::<bool>()).prop_map(|(f, p)| Step::Capacity(f, p)),
        (0..8_000_u64).prop_map(Step::Pass),
        Just(Step::Read),
        listed().prop_map(Step::Reconnect),
    ]
}

fn named(n: i64, fence: u64) -> AttemptRef {
    AttemptRef { fence, ..attempt(n) }
}

fn act(world: &mut World, executor: &mut LocalExecutor, step: Step) {
    let epoch = executor.link().origin().epoch;
    let reference = |n, fence| Some(wire::to_ref(named(n, fence)));
    match step {
        Step::Send(n, fence) => {
            if world.hub.reserve(APP, "a", epoch, "hello", 1) {
                world.hub.send_run(APP, "a", epoch, command(named(n, fence)));
            }
        }
        Step::Ack(n, fence, status) => {
            let r#ref = reference(n, fence);
            executor.send(Up::RunAck(RunAck { r#ref, status, ..RunAck::default() }));
        }
        Step::Result(n, fence) => {
            let r#ref = reference(n, fence);
            executor.send(Up::Result(RunResult { r#ref, ..RunResult::default() }));
        }
        Step::Commit(n, fence) => {
            world.hub.ack_result(APP, "a", named(n, fence), AckStatus::Committed);
        }
        Step::Kill(n, fence) => {
            let (attempt, reason) = (named(n, fence), KillReason::User);
            let (grace, message) = (seconds(1), String::new());
            world.hub.kill(APP, "a", Kill { attempt, reason, grace, message });
        }
        Step::KillAck(n, status) => {
            executor.send(Up::KillAck(KillAck { r#ref: reference(n, 1), status }));
        }
        Step::Heartbeat(listed, free_slots, last_command_seq) => {
            let attempts = listed.into_iter().map(|(n, fence, finished)| AttemptStatus {
                r#ref: reference(n, fence),
                finished,
                start_time: None,
            });
            let attempts = attempts.collect();
            let heartbeat =
                Heartbeat { attempts, free_slots, last_command_seq, ..Heartbeat::default() };
            executor.send(Up::Heartbeat(heartbeat));
        }
        Step::Capacity(free_slots, paused) => {
            let paused_handlers = if paused { vec!["hello".to_owned()] } else { Vec::new() };
            let capacity = Capacity { free_slots, paused_handlers, ..Capacity::default() };
            executor.send(Up::Capacity(capacity));
        }
        Step::Pass(ms) => world.pass(Duration::from_millis(ms)),
        Step::Read => drop(executor.receive()),
        Step::Reconnect(listed) => {
            let claimed =
                listed.iter().map(|(n, fence, _)| row(named(*n, *fence), RunState::Running));
            let opening = Opening {
                claimed: claimed.collect(),
                listed: listed.iter().map(|(n, f, done)| (named(*n, *f), *done)).collect(),
                ..opening("a", epoch + 1, SLOTS)
            };
            executor.resume(opening).expect("a higher epoch");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_order_of_events_keeps_the_counts_true(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        let mut executor = world.connect("a", SLOTS);
        for step in steps {
            act(&mut world, &mut executor, step);
            world.events();
            prop_assert!(world.hub.sessions() <= 1);
            if let Some(live) = world.hub.snapshot(APP, "a") {
                let running = u32::try_from(live.running.len()).expect("few");
                prop_assert!(live.free_slots <= SLOTS.saturating_sub(running), "{live:?}");
                let link = executor.link();
                link.session.lock().check_counts();
            }
        }
    }
}
