"""Every state of an attempt against every event."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from clawjob.clock import Now
from clawjob.context import StopReason
from clawjob.engine import (
    Abandon,
    Action,
    Dropped,
    Ending,
    Engine,
    Failed,
    Forget,
    Key,
    Panicked,
    Result,
    Returned,
    Send,
    Stop,
)
from clawjob.failure import Code, FailureInfo
from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import types_pb2 as types
from clawjob.wire import duration

GRACE = 1.0
KEY = Key("R", 1)
ERROR = FailureInfo(Code.HANDLER_ERROR, "x")

ACCEPTED = pb.RunAck.STATUS_ACCEPTED
DUPLICATE = pb.RunAck.STATUS_DUPLICATE
BUSY = pb.RunAck.STATUS_BUSY


class Before(enum.Enum):
    """How an attempt stands before the event."""

    UNKNOWN = enum.auto()
    RUNNING = enum.auto()
    STOPPING = enum.auto()
    FINISHED = enum.auto()
    ABANDONED = enum.auto()
    REMEMBERED = enum.auto()
    BURIED = enum.auto()


LIVE = (Before.RUNNING, Before.STOPPING)
every_state = pytest.mark.parametrize("before", Before)


def command(run: str, handler: str, attempt: int, fence: int, **fields: Any) -> pb.RunCommand:
    return pb.RunCommand(
        ref=Key(run, attempt).to_ref(fence),
        handler=handler,
        kill_grace=duration(GRACE),
        **fields,
    )


class World:
    def __init__(self, before: Before = Before.UNKNOWN) -> None:
        """Attempt 1 of run R under fence 5, brought to this state."""
        self.now = Now(1000.0, 1_700_000_000_000_000_000)
        self.engine = Engine(3, {"h": 0, "one": 1}, self.now)
        if before is Before.BURIED:
            self.kill(5)
        elif before is not Before.UNKNOWN:
            self.run(1, 5)
        if before in (Before.STOPPING, Before.ABANDONED):
            self.kill(5)
        if before is Before.ABANDONED:
            self.wait(GRACE)
        if before in (Before.FINISHED, Before.REMEMBERED):
            self.end(Returned(None))
        if before is Before.REMEMBERED:
            self.ack(5)

    def run(self, attempt: int, fence: int) -> tuple[Key | None, list[Action]]:
        return self.do(command("R", "h", attempt, fence))

    def do(self, sent: pb.RunCommand) -> tuple[Key | None, list[Action]]:
        started = self.engine.on_run(self.now, sent)
        return started, self.engine.take_actions()

    def kill(self, fence: int) -> list[Action]:
        kill = pb.KillCommand(ref=KEY.to_ref(fence), grace=duration(GRACE))
        self.engine.on_kill(self.now, kill)
        return self.engine.take_actions()

    def end(self, ending: Ending) -> list[Action]:
        self.engine.on_ending(self.now, KEY, ending)
        return self.engine.take_actions()

    def ack(self, fence: int) -> list[Action]:
        ack = pb.ResultAck(ref=KEY.to_ref(fence), status=pb.ResultAck.STATUS_COMMITTED)
        self.engine.on_result_ack(self.now, ack)
        return self.engine.take_actions()

    def wait(self, seconds: float) -> list[Action]:
        self.now = self.now.later(seconds)
        self.engine.tick(self.now)
        return self.engine.take_actions()

    def stop(self, reason: StopReason, grace: float = GRACE) -> None:
        self.engine.stop_all(self.now, reason, grace)
        self.engine.take_actions()

    def outcome(self) -> tuple[int, str] | None:
        result = self.engine.result(KEY)
        return None if result is None else (result.outcome, result.failure.code)


def run_answer(actions: list[Action]) -> int:
    return next(
        action.frame.run_ack.status
        for action in actions
        if isinstance(action, Send) and action.frame.HasField("run_ack")
    )


def kill_answer(actions: list[Action]) -> int:
    return next(
        action.frame.kill_ack.status
        for action in actions
        if isinstance(action, Send) and action.frame.HasField("kill_ack")
    )


@pytest.mark.parametrize(
    ("before", "status", "starts", "result"),
    [
        (Before.UNKNOWN, ACCEPTED, True, False),
        (Before.RUNNING, DUPLICATE, False, False),
        (Before.STOPPING, DUPLICATE, False, False),
        (Before.FINISHED, DUPLICATE, False, True),
        (Before.ABANDONED, DUPLICATE, False, True),
        (Before.REMEMBERED, DUPLICATE, False, True),
        (Before.BURIED, ACCEPTED, False, True),
    ],
)
def test_run_in_every_state(before: Before, status: int, starts: bool, result: bool) -> None:
    world = World(before)
    started, actions = world.run(1, 5)
    assert run_answer(actions) == status
    assert (started is not None) == starts
    assert (Result(KEY) in actions) == result
    assert world.engine.fence(KEY) == 5


@every_state
def test_run_under_a_higher_fence_in_every_state(before: Before) -> None:
    world = World(before)
    started, _ = world.run(1, 9)
    assert world.engine.fence(KEY) == 9
    # A dispatch made after a kill was decided on after it.
    assert (started is not None) == (before in (Before.UNKNOWN, Before.BURIED))


@pytest.mark.parametrize(
    ("before", "status", "stops"),
    [
        (Before.UNKNOWN, pb.KillAck.STATUS_NOT_FOUND, False),
        (Before.RUNNING, pb.KillAck.STATUS_SIGNALED, True),
        (Before.STOPPING, pb.KillAck.STATUS_SIGNALED, False),
        (Before.FINISHED, pb.KillAck.STATUS_FINISHED, False),
        (Before.ABANDONED, pb.KillAck.STATUS_FINISHED, False),
        (Before.REMEMBERED, pb.KillAck.STATUS_FINISHED, False),
        (Before.BURIED, pb.KillAck.STATUS_NOT_FOUND, False),
    ],
)
def test_kill_in_every_state(before: Before, status: int, stops: bool) -> None:
    actions = World(before).kill(5)
    assert kill_answer(actions) == status
    assert (Stop(KEY, StopReason.USER) in actions) == stops


@pytest.mark.parametrize("before", [Before.RUNNING, Before.STOPPING, Before.FINISHED])
def test_a_kill_of_an_earlier_dispatch_stops_nothing(before: Before) -> None:
    world = World(before)
    assert kill_answer(world.kill(4)) == pb.KillAck.STATUS_NOT_FOUND
    assert run_answer(world.run(1, 5)[1]) == DUPLICATE


@every_state
def test_end_in_every_state(before: Before) -> None:
    world = World(before)
    actions = world.end(Returned(None))
    assert (Result(KEY) in actions) == (before in LIVE)
    if before in LIVE:
        assert world.outcome() == (types.OUTCOME_SUCCEEDED, "")
    # The slot of an abandoned handler is free once it has really ended.
    capacity = [a for a in actions if isinstance(a, Send) and a.frame.HasField("capacity")]
    assert bool(capacity) == (before is Before.ABANDONED)
    assert world.engine.free_slots() == 3


@every_state
def test_ack_in_every_state(before: Before) -> None:
    world = World(before)
    forgets = before in (Before.FINISHED, Before.ABANDONED)
    assert (world.ack(5) == [Forget(KEY)]) == forgets
    assert world.engine.is_empty() == (before not in LIVE)


def test_an_ack_of_a_lower_fence_leaves_the_result() -> None:
    world = World(Before.FINISHED)
    world.run(1, 6)
    assert world.ack(5) == []
    assert world.ack(6) == [Forget(KEY)]


@every_state
@pytest.mark.parametrize(("named", "resumed"), [(False, True), (True, True), (False, False)])
def test_welcome_in_every_state(before: Before, named: bool, resumed: bool) -> None:
    world = World(before)
    world.engine.last_command_seq = 3
    known = [KEY.to_ref(5)] if named else []
    hello_sent = world.now.mono
    welcome = pb.Welcome(known_results=known, resumed=resumed)
    world.engine.on_welcome(world.now, hello_sent, welcome)
    actions = world.engine.take_actions()
    finished = before in (Before.FINISHED, Before.ABANDONED)
    assert (Result(KEY) in actions) == (finished and not named)
    assert (Forget(KEY) in actions) == (finished and named)
    assert world.engine.last_command_seq == (3 if resumed else 0)


def test_kills_of_the_welcome_are_applied() -> None:
    world = World(Before.RUNNING)
    kill = pb.KillCommand(ref=KEY.to_ref(5), reason=types.KILL_REASON_STALE_ATTEMPT)
    world.engine.on_welcome(world.now, world.now.mono, pb.Welcome(kills=[kill], resumed=True))
    assert Stop(KEY, StopReason.STALE_ATTEMPT) in world.engine.take_actions()


@pytest.mark.parametrize(
    ("reason", "ending", "outcome", "code"),
    [
        (None, Returned(None), types.OUTCOME_SUCCEEDED, ""),
        (None, Failed(ERROR), types.OUTCOME_FAILED, "HANDLER_ERROR"),
        (None, Panicked(ERROR.with_code("HANDLER_PANIC")), types.OUTCOME_FAILED, "HANDLER_PANIC"),
        (StopReason.USER, Returned(None), types.OUTCOME_SUCCEEDED, ""),
        (StopReason.USER, Failed(ERROR), types.OUTCOME_CANCELED, "STOPPED"),
        (StopReason.TIMEOUT, Returned(None), types.OUTCOME_SUCCEEDED, ""),
        (StopReason.TIMEOUT, Failed(ERROR), types.OUTCOME_TIMED_OUT, "TIMEOUT"),
        (StopReason.DISCONNECTED, Failed(ERROR), types.OUTCOME_FAILED, "DISCONNECTED"),
        (StopReason.SHUTDOWN, Failed(ERROR), types.OUTCOME_CANCELED, "SHUTDOWN"),
        (StopReason.SHUTDOWN, Dropped(), types.OUTCOME_CANCELED, "SHUTDOWN"),
        (None, Dropped(), types.OUTCOME_CANCELED, "SHUTDOWN"),
    ],
)
def test_outcomes_by_ending_and_stop_reason(
    reason: StopReason | None, ending: Ending, outcome: int, code: str
) -> None:
    world = World(Before.RUNNING)
    if reason is not None:
        world.stop(reason)
    world.end(ending)
    assert world.outcome() == (outcome, code)


@pytest.mark.parametrize(
    ("reason", "outcome", "code"),
    [
        (StopReason.USER, types.OUTCOME_CANCELED, "ABANDONED"),
        (StopReason.TIMEOUT, types.OUTCOME_TIMED_OUT, "ABANDONED"),
        (StopReason.SHUTDOWN, types.OUTCOME_CANCELED, "SHUTDOWN"),
        (StopReason.DISCONNECTED, types.OUTCOME_FAILED, "DISCONNECTED"),
    ],
)
def test_a_deaf_handler_is_abandoned_after_its_grace(
    reason: StopReason, outcome: int, code: str
) -> None:
    world = World(Before.RUNNING)
    world.stop(reason)
    assert world.wait(0.75) == []
    assert world.wait(0.25) == [Abandon(KEY), Result(KEY)]
    assert world.outcome() == (outcome, code)
    beat = world.engine.heartbeat()
    assert (beat.abandoned_handlers, beat.free_slots) == (1, 2)


def test_a_second_kill_can_shorten_the_grace_but_not_lengthen_it() -> None:
    world = World(Before.STOPPING)
    world.stop(StopReason.USER, GRACE * 10)
    world.stop(StopReason.USER, GRACE / 2)
    assert len(world.wait(GRACE / 2)) == 2


def test_the_timeout_runs_on_the_monotonic_clock() -> None:
    world = World()
    world.do(command("R", "h", 1, 5, timeout=duration(5)))
    world.now = world.now._replace(wall=0)
    assert world.wait(4.75) == []
    assert world.wait(0.25) == [Stop(KEY, StopReason.TIMEOUT)]


def test_a_job_that_stops_on_disconnect_is_fenced_before_it_is_given_up() -> None:
    world = World()
    world.do(command("R", "h", 1, 5, disconnect_policy=types.DISCONNECT_POLICY_STOP))
    world.wait(40)
    world.engine.on_contact(world.now.mono)
    # lost_after 60 s, less 1 s of grace and the margin of 2 s.
    assert world.wait(56.75) == []
    assert world.wait(0.25) == [Stop(KEY, StopReason.DISCONNECTED)]


def test_capacity_is_bounded_by_slots_and_by_the_handler() -> None:
    world = World()
    for run, handler, status in [
        ("A", "one", ACCEPTED),
        ("B", "one", BUSY),
        ("C", "h", ACCEPTED),
        ("D", "h", ACCEPTED),
        ("E", "h", BUSY),
    ]:
        assert run_answer(world.do(command(run, handler, 1, 1))[1]) == status, run
    assert world.engine.free_slots() == 0


def test_a_draining_executor_takes_nothing_new_and_knows_its_duplicates() -> None:
    world = World(Before.RUNNING)
    world.engine.drain()
    assert run_answer(world.run(1, 6)[1]) == DUPLICATE
    started, actions = world.do(command("S", "h", 1, 1))
    assert started is None
    assert run_answer(actions) == pb.RunAck.STATUS_DRAINING
    assert world.engine.free_slots() == 0


def test_the_attempts_of_a_run_take_turns() -> None:
    world = World(Before.RUNNING)
    _, actions = world.run(2, 6)
    assert run_answer(actions) == BUSY
    assert actions[0] == Stop(KEY, StopReason.STALE_ATTEMPT)
    world.end(Failed(ERROR))
    assert run_answer(world.run(2, 7)[1]) == ACCEPTED
    world.ack(5)
    assert run_answer(world.run(1, 8)[1]) == DUPLICATE
    fresh = World()
    fresh.run(2, 1)
    _, actions = fresh.run(1, 2)
    assert run_answer(actions) == pb.RunAck.STATUS_REJECTED


def test_memory_and_tombstones_end_with_their_time() -> None:
    world = World(Before.REMEMBERED)
    world.wait(3599)
    assert run_answer(world.run(1, 5)[1]) == DUPLICATE
    world.ack(5)
    world.wait(3600)
    assert run_answer(world.run(1, 5)[1]) == ACCEPTED
    world = World(Before.BURIED)
    world.wait(600)
    assert world.run(1, 5)[0] is not None


def test_memory_is_bounded_in_number() -> None:
    world = World()
    for number in range(10_001):
        key = Key(f"R{number}", 1)
        world.do(command(key.run_id, "h", 1, 1))
        world.engine.on_ending(world.now, key, Returned(None))
        world.engine.on_result_ack(world.now, pb.ResultAck(ref=key.to_ref(1)))
        world.engine.take_actions()
    for run, status in [("R0", ACCEPTED), ("R1", DUPLICATE)]:
        assert run_answer(world.do(command(run, "h", 1, 1))[1]) == status, run


def test_command_numbers_only_grow() -> None:
    world = World()
    for seq, last in [(3, 3), (2, 3), (4, 4)]:
        world.do(command("R", "h", 1, 1, command_seq=seq))
        assert world.engine.last_command_seq == last


def test_a_large_output_is_a_failure() -> None:
    world = World(Before.RUNNING)
    world.end(Returned(b"x" * (256 * 1024 + 1)))
    assert world.outcome() == (types.OUTCOME_FAILED, "OUTPUT_TOO_LARGE")
    assert world.engine.is_idle()
    assert not world.engine.is_empty()
