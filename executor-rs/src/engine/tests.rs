//! Every state of an attempt against every event.

use super::*;
use clawjob_proto::v1::{kill_ack, result_ack, run_ack};

const GRACE: Duration = Duration::from_secs(1);

/// How an attempt stands before the event.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    Unknown,
    Running,
    Stopping,
    Finished,
    Abandoned,
    Remembered,
    Buried,
}

const ALL: [Before; 7] = [
    Before::Unknown,
    Before::Running,
    Before::Stopping,
    Before::Finished,
    Before::Abandoned,
    Before::Remembered,
    Before::Buried,
];

struct World {
    engine: Engine,
    now: Now,
}

impl World {
    fn new() -> Self {
        let now = time::now();
        let limits = [("h".to_owned(), 0), ("one".to_owned(), 1)].into();
        Self { engine: Engine::new(3, limits, now), now }
    }

    /// Attempt 1 of run R under fence 5, brought to this state.
    fn with(before: Before) -> Self {
        let mut world = Self::new();
        match before {
            Before::Unknown => {}
            Before::Buried => {
                world.kill(5);
            }
            Before::Running => {
                world.run(1, 5);
            }
            Before::Stopping => {
                world.run(1, 5);
                world.kill(5);
            }
            Before::Abandoned => {
                world.run(1, 5);
                world.kill(5);
                world.pass(GRACE);
            }
            Before::Finished | Before::Remembered => {
                world.run(1, 5);
                world.end(Ending::Returned(Ok(None)));
            }
        }
        if before == Before::Remembered {
            world.ack(5);
        }
        world.engine.take_actions();
        world
    }

    fn run(&mut self, attempt: u32, fence: u64) -> (Option<Key>, Vec<Action>) {
        self.run_handler("h", attempt, fence)
    }

    fn run_handler(&mut self, h: &str, attempt: u32, fence: u64) -> (Option<Key>, Vec<Action>) {
        let command = command("R", h, attempt, fence);
        let start = self.engine.on_run(self.now, &command, Ok(()));
        (start, self.engine.take_actions())
    }

    fn kill(&mut self, fence: u64) -> Vec<Action> {
        let kill = v1::KillCommand {
            r#ref: Some(Key::new("R", 1).to_ref(fence)),
            grace: Some(time::duration(GRACE)),
            ..v1::KillCommand::default()
        };
        self.engine.on_kill(self.now, &kill);
        self.engine.take_actions()
    }

    fn end(&mut self, ending: Ending) -> Vec<Action> {
        self.engine.on_ending(self.now, &key(), ending);
        self.engine.take_actions()
    }

    fn ack(&mut self, fence: u64) -> Vec<Action> {
        let ack = v1::ResultAck {
            r#ref: Some(key().to_ref(fence)),
            status: result_ack::Status::Committed.into(),
        };
        self.engine.on_result_ack(self.now, &ack);
        self.engine.take_actions()
    }

    fn pass(&mut self, time: Duration) -> Vec<Action> {
        self.now.mono += time;
        self.now.wall += time;
        self.engine.tick(self.now);
        self.engine.take_actions()
    }

    fn outcome(&self) -> Option<(v1::Outcome, String)> {
        let result = self.engine.result(&key())?;
        Some((result.outcome(), result.failure.map(|f| f.code).unwrap_or_default()))
    }
}

fn key() -> Key {
    Key::new("R", 1)
}

fn command(run: &str, handler: &str, attempt: u32, fence: u64) -> v1::RunCommand {
    v1::RunCommand {
        r#ref: Some(Key::new(run, attempt).to_ref(fence)),
        handler: handler.to_owned(),
        kill_grace: Some(time::duration(GRACE)),
        ..v1::RunCommand::default()
    }
}

fn run_answer(actions: &[Action]) -> run_ack::Status {
    match &actions[0] {
        Action::Send(Frame::RunAck(ack)) => ack.status(),
        other => panic!("{other:?} is no RunAck"),
    }
}

fn kill_answer(actions: &[Action]) -> kill_ack::Status {
    let found = actions.iter().find_map(|action| match action {
        Action::Send(Frame::KillAck(ack)) => Some(ack.status()),
        _ => None,
    });
    found.expect("a KillAck")
}

fn sends_result(actions: &[Action]) -> bool {
    actions.contains(&Action::Result(key()))
}

#[test]
fn run_in_every_state() {
    use run_ack::Status::{Accepted, Duplicate};
    for (before, status, starts, result) in [
        (Before::Unknown, Accepted, true, false),
        (Before::Running, Duplicate, false, false),
        (Before::Stopping, Duplicate, false, false),
        (Before::Finished, Duplicate, false, true),
        (Before::Abandoned, Duplicate, false, true),
        (Before::Remembered, Duplicate, false, true),
        (Before::Buried, Accepted, false, true),
    ] {
        let mut world = World::with(before);
        let (start, actions) = world.run(1, 5);
        assert_eq!(run_answer(&actions), status, "{before:?}");
        assert_eq!(start.is_some(), starts, "{before:?}");
        assert_eq!(sends_result(&actions), result, "{before:?}");
        assert_eq!(world.engine.fence(&key()), Some(5), "{before:?}");
    }
}

#[test]
fn run_under_a_higher_fence_in_every_state() {
    for before in ALL {
        let mut world = World::with(before);
        let (start, _) = world.run(1, 9);
        assert_eq!(world.engine.fence(&key()), Some(9), "{before:?}");
        // A dispatch made after a kill was decided on after it.
        let runs = matches!(before, Before::Unknown | Before::Buried);
        assert_eq!(start.is_some(), runs, "{before:?}");
    }
}

#[test]
fn kill_in_every_state() {
    use kill_ack::Status::{Finished, NotFound, Signaled};
    for (before, status, stops) in [
        (Before::Unknown, NotFound, false),
        (Before::Running, Signaled, true),
        (Before::Stopping, Signaled, false),
        (Before::Finished, Finished, false),
        (Before::Abandoned, Finished, false),
        (Before::Remembered, Finished, false),
        (Before::Buried, NotFound, false),
    ] {
        let mut world = World::with(before);
        let actions = world.kill(5);
        assert_eq!(kill_answer(&actions), status, "{before:?}");
        let stop = Action::Stop(key(), StopReason::User);
        assert_eq!(actions.contains(&stop), stops, "{before:?}");
    }
}

#[test]
fn a_kill_of_an_earlier_dispatch_stops_nothing() {
    for before in [Before::Running, Before::Stopping, Before::Finished] {
        let mut world = World::with(before);
        assert_eq!(kill_answer(&world.kill(4)), kill_ack::Status::NotFound);
        world.pass(Duration::from_millis(1));
        let killed = world.run(1, 5);
        assert_eq!(run_answer(&killed.1), run_ack::Status::Duplicate);
    }
}

#[test]
fn end_in_every_state() {
    for before in ALL {
        let mut world = World::with(before);
        let actions = world.end(Ending::Returned(Ok(None)));
        let live = matches!(before, Before::Running | Before::Stopping);
        assert_eq!(sends_result(&actions), live, "{before:?}");
        if live {
            assert_eq!(world.outcome().unwrap().0, v1::Outcome::Succeeded, "{before:?}");
        }
        // The slot of an abandoned handler is free once it has really ended.
        let capacity = matches!(actions.first(), Some(Action::Send(Frame::Capacity(_))));
        assert_eq!(capacity, before == Before::Abandoned);
        assert_eq!(world.engine.free_slots(), 3, "{before:?}");
    }
}

#[test]
fn ack_in_every_state() {
    for before in ALL {
        let mut world = World::with(before);
        let actions = world.ack(5);
        let forgets = matches!(before, Before::Finished | Before::Abandoned);
        assert_eq!(actions == [Action::Forget(key())], forgets, "{before:?}");
        let held = matches!(before, Before::Running | Before::Stopping);
        assert_eq!(!world.engine.is_empty(), held, "{before:?}");
    }
}

#[test]
fn an_ack_of_a_lower_fence_leaves_the_result() {
    let mut world = World::with(Before::Finished);
    world.run(1, 6);
    assert!(world.ack(5).is_empty());
    assert_eq!(world.ack(6), [Action::Forget(key())]);
}

#[test]
fn welcome_in_every_state() {
    for before in ALL {
        for (named, resumed) in [(false, true), (true, true), (false, false)] {
            let mut world = World::with(before);
            let seq = world.engine.last_command_seq;
            let known_results = if named { vec![key().to_ref(5)] } else { vec![] };
            let welcome = v1::Welcome { known_results, resumed, ..v1::Welcome::default() };
            world.engine.on_welcome(world.now, world.now.mono, &welcome);
            let actions = world.engine.take_actions();
            let finished = matches!(before, Before::Finished | Before::Abandoned);
            assert_eq!(sends_result(&actions), finished && !named, "{before:?}");
            assert_eq!(actions.contains(&Action::Forget(key())), finished && named);
            assert_eq!(world.engine.last_command_seq, if resumed { seq } else { 0 });
        }
    }
}

#[test]
fn kills_of_the_welcome_are_applied() {
    let mut world = World::with(Before::Running);
    let kills = vec![v1::KillCommand {
        r#ref: Some(key().to_ref(5)),
        reason: v1::KillReason::StaleAttempt.into(),
        ..v1::KillCommand::default()
    }];
    let welcome = v1::Welcome { kills, resumed: true, ..v1::Welcome::default() };
    world.engine.on_welcome(world.now, world.now.mono, &welcome);
    let actions = world.engine.take_actions();
    assert!(actions.contains(&Action::Stop(key(), StopReason::StaleAttempt)));
}

#[test]
fn outcomes_by_ending_and_stop_reason() {
    use v1::Outcome::{Canceled, Failed, Succeeded, TimedOut};
    type End = fn() -> Ending;
    let ok: End = || Ending::Returned(Ok(None));
    let err: End = || Ending::Returned(Err(Failure::error("x")));
    let panic: End = || Ending::Panicked("x".to_owned());
    let user = Some(StopReason::User);
    let timeout = Some(StopReason::Timeout);
    let cut = Some(StopReason::Disconnected);
    let shutdown = Some(StopReason::Shutdown);
    for (reason, end, outcome, code) in [
        (None, ok, Succeeded, ""),
        (None, err, Failed, "HANDLER_ERROR"),
        (None, panic, Failed, "HANDLER_PANIC"),
        (user, ok, Succeeded, ""),
        (user, err, Canceled, "STOPPED"),
        (user, panic, Failed, "HANDLER_PANIC"),
        (timeout, ok, Succeeded, ""),
        (timeout, err, TimedOut, "TIMEOUT"),
        (cut, err, Failed, "DISCONNECTED"),
        (shutdown, err, Canceled, "SHUTDOWN"),
        (shutdown, || Ending::Dropped, Canceled, "SHUTDOWN"),
    ] {
        let mut world = World::with(Before::Running);
        if let Some(reason) = reason {
            world.engine.stop_all(world.now, reason, GRACE);
        }
        world.end(end());
        assert_eq!(world.outcome(), Some((outcome, code.to_owned())), "{reason:?}");
    }
}

#[test]
fn a_deaf_handler_is_abandoned_after_its_grace() {
    for (reason, outcome, code) in [
        (StopReason::User, v1::Outcome::Canceled, "ABANDONED"),
        (StopReason::Timeout, v1::Outcome::TimedOut, "ABANDONED"),
        (StopReason::Shutdown, v1::Outcome::Canceled, "SHUTDOWN"),
        (StopReason::Disconnected, v1::Outcome::Failed, "DISCONNECTED"),
    ] {
        let mut world = World::with(Before::Running);
        world.engine.stop_all(world.now, reason, GRACE);
        world.engine.take_actions();
        assert!(world.pass(GRACE - Duration::from_millis(1)).is_empty());
        let actions = world.pass(Duration::from_millis(1));
        assert_eq!(actions, [Action::Abandon(key()), Action::Result(key())]);
        assert_eq!(world.outcome(), Some((outcome, code.to_owned())));
        let beat = world.engine.heartbeat();
        assert_eq!((beat.abandoned_handlers, beat.free_slots), (1, 2));
    }
}

#[test]
fn a_second_kill_can_shorten_the_grace_but_not_lengthen_it() {
    let mut world = World::with(Before::Stopping);
    world.engine.stop_all(world.now, StopReason::User, GRACE * 10);
    world.engine.stop_all(world.now, StopReason::User, GRACE / 2);
    world.engine.take_actions();
    assert_eq!(world.pass(GRACE / 2).len(), 2);
}

#[test]
fn the_timeout_runs_on_the_monotonic_clock() {
    let mut world = World::new();
    let limited = v1::RunCommand {
        timeout: Some(time::duration(Duration::from_secs(5))),
        ..command("R", "h", 1, 5)
    };
    world.engine.on_run(world.now, &limited, Ok(()));
    world.engine.take_actions();
    assert!(world.pass(Duration::from_millis(4_999)).is_empty());
    assert_eq!(world.pass(Duration::from_millis(1)), [Action::Stop(key(), StopReason::Timeout)]);
}

#[test]
fn a_job_that_stops_on_disconnect_is_fenced_before_it_is_given_up() {
    let mut world = World::new();
    let fenced = v1::RunCommand {
        disconnect_policy: v1::DisconnectPolicy::Stop.into(),
        ..command("R", "h", 1, 5)
    };
    world.engine.on_run(world.now, &fenced, Ok(()));
    world.engine.take_actions();
    world.pass(Duration::from_secs(40));
    let acked = world.now.mono;
    world.engine.on_contact(acked);
    // lost_after 60 s, less 1 s of grace and the margin of 2 s.
    assert!(world.pass(Duration::from_millis(56_999)).is_empty());
    let stop = Action::Stop(key(), StopReason::Disconnected);
    assert_eq!(world.pass(Duration::from_millis(1)), [stop]);
}

#[test]
fn capacity_is_bounded_by_slots_and_by_the_handler() {
    let mut world = World::new();
    for (run, handler, status) in [
        ("A", "one", run_ack::Status::Accepted),
        ("B", "one", run_ack::Status::Busy),
        ("C", "h", run_ack::Status::Accepted),
        ("D", "h", run_ack::Status::Accepted),
        ("E", "h", run_ack::Status::Busy),
    ] {
        world.engine.on_run(world.now, &command(run, handler, 1, 1), Ok(()));
        assert_eq!(run_answer(&world.engine.take_actions()), status, "{run}");
    }
    assert_eq!(world.engine.free_slots(), 0);
}

#[test]
fn a_draining_executor_takes_nothing_new_and_knows_its_duplicates() {
    let mut world = World::with(Before::Running);
    world.engine.drain();
    assert_eq!(run_answer(&world.run(1, 6).1), run_ack::Status::Duplicate);
    let other = command("S", "h", 1, 1);
    assert!(world.engine.on_run(world.now, &other, Ok(())).is_none());
    assert_eq!(run_answer(&world.engine.take_actions()), run_ack::Status::Draining);
    assert_eq!(world.engine.free_slots(), 0);
}

#[test]
fn the_attempts_of_a_run_take_turns() {
    let mut world = World::with(Before::Running);
    let (_, actions) = world.run(2, 6);
    assert_eq!(run_answer(&actions[1..]), run_ack::Status::Busy);
    assert_eq!(actions[0], Action::Stop(key(), StopReason::StaleAttempt));
    world.end(Ending::Returned(Err(Failure::error("x"))));
    assert_eq!(run_answer(&world.run(2, 7).1), run_ack::Status::Accepted);
    world.ack(5);
    assert_eq!(run_answer(&world.run(1, 8).1), run_ack::Status::Duplicate);
    let mut fresh = World::new();
    fresh.run(2, 1);
    assert_eq!(run_answer(&fresh.run(1, 2).1), run_ack::Status::Rejected);
}

#[test]
fn memory_and_tombstones_end_with_their_time() {
    let mut world = World::with(Before::Remembered);
    world.pass(Duration::from_secs(3599));
    assert_eq!(run_answer(&world.run(1, 5).1), run_ack::Status::Duplicate);
    world.ack(5);
    world.pass(Duration::from_secs(3600));
    assert_eq!(run_answer(&world.run(1, 5).1), run_ack::Status::Accepted);

    let mut world = World::with(Before::Buried);
    world.pass(Duration::from_secs(600));
    assert!(world.run(1, 5).0.is_some());
}

#[test]
fn memory_is_bounded_in_number() {
    let mut world = World::new();
    for i in 0..10_001 {
        let run = format!("R{i}");
        world.engine.on_run(world.now, &command(&run, "h", 1, 1), Ok(()));
        let key = Key::new(&run, 1);
        world.engine.on_ending(world.now, &key, Ending::Returned(Ok(None)));
        let ack = v1::ResultAck { r#ref: Some(key.to_ref(1)), status: 1 };
        world.engine.on_result_ack(world.now, &ack);
        world.engine.take_actions();
    }
    for (run, status) in [("R0", run_ack::Status::Accepted), ("R1", run_ack::Status::Duplicate)] {
        world.engine.on_run(world.now, &command(run, "h", 1, 1), Ok(()));
        assert_eq!(run_answer(&world.engine.take_actions()), status, "{run}");
    }
}

#[test]
fn command_numbers_only_grow() {
    let mut world = World::new();
    for (seq, last) in [(3, 3), (2, 3), (4, 4)] {
        let numbered = v1::RunCommand { command_seq: seq, ..command("R", "h", 1, 1) };
        world.engine.on_run(world.now, &numbered, Ok(()));
        assert_eq!(world.engine.last_command_seq(), last);
    }
}

#[test]
fn a_large_output_is_a_failure() {
    let mut world = World::with(Before::Running);
    let data = bytes::Bytes::from(vec![b'x'; 256 * 1024 + 1]);
    let output = v1::Payload { content_type: String::new(), data };
    world.end(Ending::Returned(Ok(Some(output))));
    assert_eq!(world.outcome(), Some((v1::Outcome::Failed, "OUTPUT_TOO_LARGE".to_owned())));
}
