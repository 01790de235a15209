"""One attempt: its state, its deadlines, and the result it ends with."""

from __future__ import annotations

from typing import NamedTuple

from clawjob.clock import Now
from clawjob.context import StopReason
from clawjob.ending import Ending, Failed, Panicked, Returned
from clawjob.failure import Code, FailureInfo
from clawjob.wire import duration, failure, payload, pb, positive, seconds, timestamp, types

#: Grace of a kill when neither the kill nor the job names one, in seconds.
KILL_GRACE_DEFAULT = 10.0
#: How long before `lost_after`, and before the grace of the kill, a handler is stopped for loss of
#: contact when its job asks for that, in seconds.
SELF_FENCE_MARGIN = 2.0


class Key(NamedTuple):
    """The identity of an attempt: what a repeated command is recognised by."""

    run_id: str
    attempt: int

    @classmethod
    def of(cls, ref: types.AttemptRef) -> Key:
        return cls(ref.run_id, ref.attempt)

    def to_ref(self, fence: int) -> types.AttemptRef:
        return types.AttemptRef(run_id=self.run_id, attempt=self.attempt, fence=fence)


class Attempt:
    """An attempt held in the table. It runs while `result` and `stopping` are None."""

    __slots__ = (
        "abandon_at",
        "fence",
        "handler",
        "kill_grace",
        "lost_after",
        "result",
        "started",
        "stop_on_disconnect",
        "stopping",
        "timeout_at",
    )

    def __init__(self, now: Now, command: pb.RunCommand, fence: int) -> None:
        timeout = positive(command, "timeout")
        grace = seconds(command, "kill_grace")
        self.fence = fence
        self.handler = command.handler
        self.started = now
        self.kill_grace = KILL_GRACE_DEFAULT if grace is None else grace
        self.timeout_at = None if timeout is None else now.mono + timeout
        self.stop_on_disconnect = command.disconnect_policy == types.DISCONNECT_POLICY_STOP
        self.lost_after = positive(command, "lost_after")
        #: Why it was told to stop, and when it is abandoned.
        self.stopping: StopReason | None = None
        self.abandon_at = 0.0
        #: The result, without its reference.
        self.result: pb.RunResult | None = None

    @classmethod
    def stillborn(cls, now: Now, command: pb.RunCommand, fence: int) -> Attempt:
        """An attempt that was killed before its command came: it ends without having begun."""
        attempt = cls(now, command, fence)
        info = FailureInfo(Code.STOPPED, "the run was killed before it came here")
        attempt._end(now, types.OUTCOME_CANCELED, None, info)
        return attempt

    @classmethod
    def remembered(cls, now: Now, result: pb.RunResult, fence: int) -> Attempt:
        """A remembered attempt whose result is asked for again."""
        attempt = cls(now, pb.RunCommand(), fence)
        attempt.result = result
        return attempt

    def status(self, key: Key) -> pb.AttemptStatus:
        return pb.AttemptStatus(
            ref=key.to_ref(self.fence),
            finished=self.result is not None,
            start_time=timestamp(self.started.wall),
        )

    def next_step(self, contact: float, lost_after: float) -> float | None:
        """When the attempt has to be looked at: its timeout, its self-fence, its abandonment."""
        if self.result is not None:
            return None
        if self.stopping is not None:
            return self.abandon_at
        if not self.stop_on_disconnect:
            return self.timeout_at
        lost_after = self.lost_after or lost_after
        fence = contact + max(lost_after - self.kill_grace - SELF_FENCE_MARGIN, 0.0)
        return fence if self.timeout_at is None else min(fence, self.timeout_at)

    def finish(self, now: Now, ending: Ending, output_max: int) -> None:
        """The handler has ended. A success stays one even when it was told to stop; an error after
        that is taken for the effect of having been told."""
        reason = self.stopping
        if isinstance(ending, Returned):
            size = len(ending.output or b"")
            if size > output_max:
                text = f"the output has {size} bytes of {output_max}"
                info = FailureInfo(Code.OUTPUT_TOO_LARGE, text, non_retryable=True)
                self._end(now, types.OUTCOME_FAILED, None, info)
            else:
                self._end(now, types.OUTCOME_SUCCEEDED, ending.output, None)
        elif isinstance(ending, Panicked):
            self._end(now, types.OUTCOME_FAILED, None, ending.failure)
        elif isinstance(ending, Failed):
            if reason is None:
                self._end(now, types.OUTCOME_FAILED, None, ending.failure)
            else:
                info = ending.failure.with_code(reason.code)
                self._end(now, _stopped_outcome(reason), None, info)
        else:
            reason = reason or StopReason.SHUTDOWN
            info = FailureInfo(reason.code, f"the handler was ended: {reason}")
            self._end(now, _stopped_outcome(reason), None, info)

    def abandon(self, now: Now, reason: StopReason) -> None:
        """The handler has not ended in its grace."""
        # The scheduler runs these again by their code, so it has to stay.
        kept = reason in (StopReason.SHUTDOWN, StopReason.DISCONNECTED)
        text = f"the handler did not stop in its grace: {reason}"
        info = FailureInfo(reason.code if kept else Code.ABANDONED, text)
        self._end(now, _stopped_outcome(reason), None, info)

    def _end(
        self,
        now: Now,
        outcome: types.Outcome,
        output: bytes | None,
        info: FailureInfo | None,
    ) -> None:
        result = pb.RunResult(
            outcome=outcome,
            start_time=timestamp(self.started.wall),
            finish_time=timestamp(now.wall),
            duration=duration(now.mono - self.started.mono),
        )
        if output is not None:
            result.output.CopyFrom(payload(output))
        if info is not None:
            result.failure.CopyFrom(failure(info))
        self.result = result


def _stopped_outcome(reason: StopReason) -> types.Outcome:
    """A run that was stopped for loss of contact has failed rather than been canceled: nobody asked
    for its end, and another attempt may serve it."""
    if reason is StopReason.TIMEOUT:
        return types.OUTCOME_TIMED_OUT
    if reason is StopReason.DISCONNECTED:
        return types.OUTCOME_FAILED
    return types.OUTCOME_CANCELED
