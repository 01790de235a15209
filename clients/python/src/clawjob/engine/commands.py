"""What the table does with RunCommand and KillCommand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clawjob.clock import Now
from clawjob.context import StopReason
from clawjob.engine.actions import Action, Result, Send
from clawjob.engine.attempt import Attempt, Key
from clawjob.engine.memory import Memory
from clawjob.failure import Code, FailureInfo
from clawjob.wire import duration, failure, pb, seconds, types

#: What a BUSY answer asks the scheduler to wait, in seconds.
BUSY_RETRY_AFTER = 1.0

_REASONS: dict[int, StopReason] = {
    types.KILL_REASON_TIMEOUT: StopReason.TIMEOUT,
    types.KILL_REASON_STALE_ATTEMPT: StopReason.STALE_ATTEMPT,
    types.KILL_REASON_REPLACED: StopReason.REPLACED,
    types.KILL_REASON_JOB_DELETED: StopReason.JOB_DELETED,
    types.KILL_REASON_NODE_POLICY: StopReason.NODE_POLICY,
}


class Commands:
    """The part of the table that answers commands."""

    slots: int
    limits: dict[str, int]
    paused: set[str]
    attempts: dict[Key, Attempt]
    by_run: dict[str, set[Key]]
    memory: Memory
    used: int
    used_by: dict[str, int]
    last_command_seq: int
    draining: bool
    contact: float
    lost_after: float
    actions: list[Action]

    if TYPE_CHECKING:

        def stop(self, now: Now, key: Key, reason: StopReason, grace: float | None) -> bool: ...

        def hold(self, key: Key, attempt: Attempt) -> None: ...

        def occupy(self, handler: str) -> None: ...

        def wake_at(self, at: float | None) -> None: ...

    def on_run(
        self, now: Now, command: pb.RunCommand, refusal: FailureInfo | None = None
    ) -> Key | None:
        """A command to run something. `refusal` says why it cannot: no such handler, or params that
        do not fit. The attempt to start is returned; its RunAck is among the actions, so it leaves
        first."""
        self._note_seq(command.command_seq)
        if not command.HasField("ref"):
            return None
        key, fence = Key.of(command.ref), command.ref.fence
        if self._again(now, key, fence):
            return None
        if self.memory.exhume(key, fence):
            self._answer(key, fence, _ack(pb.RunAck.STATUS_ACCEPTED))
            self.hold(key, Attempt.stillborn(now, command, fence))
            self.actions.append(Result(key))
            return None
        answer = self._refusal(now, key, command, refusal)
        if answer is not None:
            self._answer(key, fence, answer)
            return None
        self._answer(key, fence, _ack(pb.RunAck.STATUS_ACCEPTED))
        attempt = Attempt(now, command, fence)
        self.wake_at(attempt.next_step(self.contact, self.lost_after))
        self.hold(key, attempt)
        self.occupy(command.handler)
        return key

    def _again(self, now: Now, key: Key, fence: int) -> bool:
        """A command for an attempt that was here before: it is not started again, its result is
        sent again, and from now on it is spoken of under the higher fence."""
        if key not in self.attempts:
            recalled = self.memory.recall(key)
            if recalled is None:
                return False
            result, known = recalled
            self.hold(key, Attempt.remembered(now, result, known))
        attempt = self.attempts[key]
        attempt.fence = max(attempt.fence, fence)
        self._answer(key, attempt.fence, _ack(pb.RunAck.STATUS_DUPLICATE))
        if attempt.result is not None:
            self.actions.append(Result(key))
        return True

    def _refusal(
        self, now: Now, key: Key, command: pb.RunCommand, refusal: FailureInfo | None
    ) -> pb.RunAck | None:
        displaced = self._displace(now, key)
        if displaced is not None:
            return displaced
        if self.draining:
            return _ack(pb.RunAck.STATUS_DRAINING)
        if refusal is not None:
            return _rejection(refusal)
        limit = self.limits.get(command.handler, 0)
        full = self.used >= self.slots or 0 < limit <= self.used_by.get(command.handler, 0)
        return _busy() if full or command.handler in self.paused else None

    def _displace(self, now: Now, key: Key) -> pb.RunAck | None:
        """Only the highest attempt of a run may go on here: a lower one is told to stop and the
        higher one has to wait for that."""
        others = list(self.by_run.get(key.run_id, ()))
        if any(other.attempt > key.attempt for other in others):
            text = "a later attempt of the run is known here"
            return _rejection(FailureInfo(Code.STALE_ATTEMPT, text))
        waits = [self.stop(now, other, StopReason.STALE_ATTEMPT, None) for other in others]
        return _busy() if any(waits) else None

    def on_kill(self, now: Now, kill: pb.KillCommand) -> None:
        """A command to stop something."""
        self._note_seq(kill.command_seq)
        if not kill.HasField("ref"):
            return
        key, fence = Key.of(kill.ref), kill.ref.fence
        attempt = self.attempts.get(key)
        if attempt is not None and fence != 0 and fence < attempt.fence:
            # Meant for an earlier dispatch, which a later one has replaced.
            status = pb.KillAck.STATUS_NOT_FOUND
        elif attempt is not None:
            attempt.fence = max(attempt.fence, fence)
            reason = _REASONS.get(kill.reason, StopReason.USER)
            running = self.stop(now, key, reason, seconds(kill, "grace"))
            status = pb.KillAck.STATUS_SIGNALED if running else pb.KillAck.STATUS_FINISHED
        elif self.memory.knows(key):
            status = pb.KillAck.STATUS_FINISHED
        else:
            self.memory.bury(now.mono, key, fence)
            self.wake_at(self.memory.next_expiry())
            status = pb.KillAck.STATUS_NOT_FOUND
        ack = pb.KillAck(ref=kill.ref, status=status)
        self.actions.append(Send(pb.SessionRequest(kill_ack=ack)))

    def _note_seq(self, seq: int) -> None:
        self.last_command_seq = max(self.last_command_seq, seq)

    def _answer(self, key: Key, fence: int, answer: pb.RunAck) -> None:
        answer.ref.CopyFrom(key.to_ref(fence))
        self.actions.append(Send(pb.SessionRequest(run_ack=answer)))


def _ack(status: pb.RunAck.Status) -> pb.RunAck:
    return pb.RunAck(status=status)


def _busy() -> pb.RunAck:
    return pb.RunAck(status=pb.RunAck.STATUS_BUSY, retry_after=duration(BUSY_RETRY_AFTER))


def _rejection(info: FailureInfo) -> pb.RunAck:
    """A command that cannot be carried out, as the answer says it."""
    return pb.RunAck(status=pb.RunAck.STATUS_REJECTED, failure=failure(info))
