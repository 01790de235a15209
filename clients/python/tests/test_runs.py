"""RunCommand: answers, duplicates, results."""

from __future__ import annotations

import json

from google.protobuf.timestamp_pb2 import Timestamp

from clawjob import App
from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import types_pb2 as types
from clawjob.wire import duration
from tests.fake import Fake, attempt, command, json_payload
from tests.handlers import Gate


def test_c08_c15_a_run_is_acknowledged_then_succeeds_with_its_output(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "echo", '{"a":1}'))
    result = session.result()
    assert result.outcome == types.OUTCOME_SUCCEEDED
    assert json.loads(result.output.data) == {"a": 1}
    assert result.output.content_type == "application/json"
    assert result.ref == attempt("R1")
    assert result.HasField("start_time")
    assert result.HasField("finish_time")
    assert result.HasField("duration")


def test_c09_a_run_sent_twice_is_started_once_and_adopts_the_higher_fence(
    fake: Fake, app: App, gate: Gate
) -> None:
    session = fake.open()
    session.begin(command("R1", "gate"))
    gate.begun(1)
    session.run(command("R1", "gate", ref=attempt("R1", 1, 7)))
    assert session.run_ack().status == pb.RunAck.STATUS_DUPLICATE
    gate.open()
    assert session.result().ref.fence == 7
    assert gate.count == 1


def test_c10_a_run_sent_again_after_its_end_gets_its_result_again(
    fake: Fake, app: App, gate: Gate
) -> None:
    session = fake.open()
    gate.open()
    session.begin(command("R1", "gate"))
    first = session.result()
    session.ack(first)
    session.run(command("R1", "gate", ref=attempt("R1", 1, 2)))
    assert session.run_ack().status == pb.RunAck.STATUS_DUPLICATE
    second = session.result()
    assert second.output == first.output
    assert second.ref.fence == 2
    assert gate.count == 1


def test_c11_c12_what_cannot_be_run_is_rejected(fake: Fake, app: App) -> None:
    session = fake.open()
    for handler, params, code in [
        ("nobody", "", "UNKNOWN_HANDLER"),
        ("block", '{"ms":"soon"}', "INVALID_PARAMS"),
        ("block", "", "INVALID_PARAMS"),
        ("block", "{", "INVALID_PARAMS"),
        ("block", "[" * 100_000, "INVALID_PARAMS"),
    ]:
        session.run(command(code, handler, params))
        ack = session.run_ack()
        assert ack.status == pb.RunAck.STATUS_REJECTED
        assert ack.failure.code == code
    assert not session.heartbeat().attempts


def test_c13_c14_a_full_or_paused_executor_is_busy(fake: Fake, app: App, gate: Gate) -> None:
    session = fake.open()
    for run in ("R1", "R2", "R3", "R4"):
        session.begin(command(run, "gate"))
    session.run(command("R5", "echo", "1"))
    ack = session.run_ack()
    assert ack.status == pb.RunAck.STATUS_BUSY
    assert ack.HasField("retry_after")
    gate.open()
    for _ in range(4):
        session.result()
    app.pause("echo")
    assert list(session.capacity().paused_handlers) == ["echo"]
    session.run(command("R6", "echo", "1"))
    assert session.run_ack().status == pb.RunAck.STATUS_BUSY
    app.resume("echo")
    assert list(session.capacity().paused_handlers) == []
    session.begin(command("R6", "echo", "1"))


def test_c16_an_exception_carries_its_type_and_stack(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "fail"))
    result = session.result()
    assert result.outcome == types.OUTCOME_FAILED
    failure = result.failure
    assert (failure.code, failure.message) == ("HANDLER_ERROR", "the bank is closed")
    assert failure.type == "tests.handlers.BankClosedError"
    assert "it is Sunday" in failure.stack
    assert 'raise BankClosedError("the bank is closed")' in failure.stack
    assert "runner.py" not in failure.stack
    assert not failure.non_retryable


def test_c17_a_handler_that_exits_fails_and_the_executor_lives(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "panic"))
    result = session.result()
    assert result.outcome == types.OUTCOME_FAILED
    assert (result.failure.code, result.failure.message) == ("HANDLER_PANIC", "out of cheese")
    session.begin(command("R2", "echo", "1"))
    assert session.result().outcome == types.OUTCOME_SUCCEEDED


def test_c18_what_the_handler_says_about_retries_is_carried(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "fail_for_good"))
    failure = session.result().failure
    assert (failure.code, failure.message) == ("NO_SUCH_CUSTOMER", "gone")
    assert failure.non_retryable
    assert failure.retry_after == duration(9)


def test_c19_an_output_that_is_too_large_is_a_failure_not_a_disconnect(
    fake: Fake, app: App
) -> None:
    session = fake.open()
    session.begin(command("R1", "big_output", '{"count":300000}'))
    result = session.result()
    assert result.outcome == types.OUTCOME_FAILED
    assert result.failure.code == "OUTPUT_TOO_LARGE"
    session.begin(command("R2", "echo", "1"))
    assert fake.has_no_session()


def test_c20_the_timeout_is_kept_here_whatever_the_schedulers_clock_says(
    fake: Fake, app: App
) -> None:
    session = fake.open(server_time=Timestamp(seconds=1))
    timed = command(
        "R1", "obedient", timeout=duration(0.2), deadline=Timestamp(seconds=4_000_000_000)
    )
    session.begin(timed)
    result = session.result()
    assert result.outcome == types.OUTCOME_TIMED_OUT
    assert result.failure.code == "TIMEOUT"


def test_c48_checkpoints_go_round(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "checkpoint", checkpoint=json_payload("32")))
    told = session.progress()
    assert told.checkpoint.data == b"42"
    assert (told.fraction, told.message) == (0.5, "half")
    assert session.result().output.data == b"32"


def test_c49_a_handler_sees_its_shard(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "shard", shard_index=2, shard_total=5))
    assert json.loads(session.result().output.data) == [2, 5]
    session.begin(command("R2", "shard"))
    assert not session.result().HasField("output")


def test_c50_a_handler_sees_its_trace_and_all_that_is_known_of_its_run(
    fake: Fake, app: App
) -> None:
    session = fake.open()
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = command(
        "R1",
        "facts",
        ref=attempt("R1", 2, 3),
        labels={"team": "billing"},
        traceparent=traceparent,
        lateness=duration(1.5),
        catch_up=True,
        timeout=duration(60),
        deadline=Timestamp(seconds=1_700_000_060),
    )
    session.begin(sent)
    assert json.loads(session.result().output.data) == {
        "run_id": "R1",
        "run": "apps/demo/runs/R1",
        "job": "apps/demo/jobs/j",
        "attempt": 2,
        "max_attempts": 3,
        "fire_time": "2023-11-14T22:13:20+00:00",
        "lateness": 1.5,
        "catch_up": True,
        "labels": {"team": "billing"},
        "traceparent": traceparent,
        "timeout": 60.0,
        "deadline": "2023-11-14T22:14:20+00:00",
        "has_time_left": True,
    }


def test_c52_unknown_enum_values_fall_back(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "obedient", disconnect_policy=77))
    session.kill("R1", reason=99)
    result = session.result()
    assert result.outcome == types.OUTCOME_CANCELED
    assert result.failure.message == "the run was canceled"


def test_c54_a_higher_attempt_replaces_the_running_one(fake: Fake, app: App) -> None:
    session = fake.open()
    session.begin(command("R1", "obedient"))
    session.run(command("R1", "echo", "1", ref=attempt("R1", 2, 2)))
    assert session.run_ack().status == pb.RunAck.STATUS_BUSY
    first = session.result()
    assert (first.ref.attempt, first.outcome) == (1, types.OUTCOME_CANCELED)
    session.begin(command("R1", "echo", "1", ref=attempt("R1", 2, 3)))
    assert session.result().ref.attempt == 2
    session.run(command("R1", "echo", "1", ref=attempt("R1", 1, 4)))
    assert session.run_ack().status == pb.RunAck.STATUS_DUPLICATE
