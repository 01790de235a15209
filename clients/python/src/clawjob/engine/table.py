"""The table of attempts: what it holds, and every event but commands."""

from __future__ import annotations

from collections.abc import Mapping

from clawjob.clock import Now
from clawjob.context import StopReason
from clawjob.ending import Ending
from clawjob.engine.actions import Abandon, Action, Forget, Result, Send, Stop
from clawjob.engine.attempt import Attempt, Key
from clawjob.engine.commands import Commands
from clawjob.engine.memory import Memory
from clawjob.wire import pb, positive, types

#: `lost_after` until a Welcome names one, in seconds.
LOST_AFTER_DEFAULT = 60.0
#: Largest output until a Welcome names a bound, in bytes.
OUTPUT_BYTES_MAX_DEFAULT = 256 * 1024


class Engine(Commands):
    """The table."""

    def __init__(self, slots: int, limits: Mapping[str, int], now: Now) -> None:
        self.slots = slots
        #: Handlers on offer and how many of each may run; 0 means no bound of its own.
        self.limits = dict(limits)
        self.paused: set[str] = set()
        self.attempts: dict[Key, Attempt] = {}
        self.memory = Memory()
        #: Attempts of each run, so that a later attempt finds the earlier ones.
        self.by_run: dict[str, set[Key]] = {}
        #: Attempts reported as abandoned whose handler still runs, with its name.
        self.abandoned: dict[Key, str] = {}
        #: Running, stopping and abandoned handlers.
        self.used = 0
        self.used_by: dict[str, int] = {}
        #: Number of the last command read in the current line of sessions.
        self.last_command_seq = 0
        self.draining = False
        #: When the last frame was sent that the scheduler has acknowledged.
        self.contact = now.mono
        self.lost_after = LOST_AFTER_DEFAULT
        self.output_max = OUTPUT_BYTES_MAX_DEFAULT
        #: Not later than the next moment at which `tick` has something to do.
        self.wake: float | None = None
        self.actions: list[Action] = []

    def take_actions(self) -> list[Action]:
        """What the events so far ask for."""
        actions, self.actions = self.actions, []
        return actions

    def statuses(self) -> list[pb.AttemptStatus]:
        """Every attempt held: running ones and those whose result is not acknowledged."""
        return [attempt.status(key) for key, attempt in self.attempts.items()]

    def heartbeat(self) -> pb.Heartbeat:
        """The fields of a Heartbeat that the table knows."""
        return pb.Heartbeat(
            attempts=self.statuses(),
            free_slots=self.free_slots(),
            last_command_seq=self.last_command_seq,
            abandoned_handlers=len(self.abandoned),
        )

    def free_slots(self) -> int:
        """Slots that take a run now; none while draining."""
        return 0 if self.draining else max(self.slots - self.used, 0)

    def is_idle(self) -> bool:
        """True when no handler runs that has not been abandoned."""
        return all(attempt.result is not None for attempt in self.attempts.values())

    def is_empty(self) -> bool:
        """True when no attempt is held, not even for its result."""
        return not self.attempts

    def fence(self, key: Key) -> int | None:
        """The fence under which the attempt is spoken of."""
        attempt = self.attempts.get(key)
        return None if attempt is None else attempt.fence

    def is_finished(self, key: Key) -> bool:
        """True when the attempt's result can be sent."""
        attempt = self.attempts.get(key)
        return attempt is not None and attempt.result is not None

    def result(self, key: Key) -> pb.RunResult | None:
        """The result to send, without the number of its last log record."""
        attempt = self.attempts.get(key)
        if attempt is None or attempt.result is None:
            return None
        result = pb.RunResult()
        result.CopyFrom(attempt.result)
        result.ref.CopyFrom(key.to_ref(attempt.fence))
        return result

    def on_welcome(self, now: Now, hello_sent: float, welcome: pb.Welcome) -> None:
        """A session has begun. `hello_sent` is when its Hello was sent."""
        self.on_contact(hello_sent)
        self.lost_after = positive(welcome, "lost_after") or LOST_AFTER_DEFAULT
        if welcome.max_output_bytes > 0:
            self.output_max = welcome.max_output_bytes
        if not welcome.resumed:
            self.last_command_seq = 0
        for known in welcome.known_results:
            self._acknowledge(now, known)
        for kill in welcome.kills:
            self.on_kill(now, kill)
        self.actions.extend(
            Result(key) for key, attempt in self.attempts.items() if attempt.result is not None
        )
        if self.paused:
            self.report_capacity("paused")
        self.wake = now.mono

    def on_contact(self, sent: float) -> None:
        """The scheduler has acknowledged a frame that was sent at `sent`."""
        self.contact = max(self.contact, sent)

    def on_result_ack(self, now: Now, ack: pb.ResultAck) -> None:
        """The scheduler has the result, or does not want it."""
        if ack.HasField("ref"):
            self._acknowledge(now, ack.ref)

    def _acknowledge(self, now: Now, acked: types.AttemptRef) -> None:
        key = Key.of(acked)
        attempt = self.attempts.get(key)
        # An answer to a lower fence leaves open what becomes of the result under the higher one.
        if attempt is None or attempt.result is None or acked.fence < attempt.fence:
            return
        self.remove(key)
        self.memory.remember(now.mono, key, attempt)
        self.actions.append(Forget(key))
        self.wake_at(self.memory.next_expiry())

    def on_ending(self, now: Now, key: Key, ending: Ending) -> None:
        """A handler has ended, whether its end is still of interest or not."""
        handler = self.abandoned.pop(key, None)
        if handler is not None:
            self.release(handler)
            self.report_capacity("an abandoned handler has ended")
            return
        attempt = self.attempts.get(key)
        if attempt is None or attempt.result is not None:
            return
        attempt.finish(now, ending, self.output_max)
        self.release(attempt.handler)
        self.actions.append(Result(key))

    def drain(self) -> None:
        """Takes nothing new from now on."""
        self.draining = True

    def stop_all(self, now: Now, reason: StopReason, grace: float) -> None:
        """Tells every running handler to stop; those that do not are abandoned after `grace`."""
        for key in list(self.attempts):
            self.stop(now, key, reason, grace)

    def pause(self, handler: str, paused: bool) -> None:
        """Takes no runs of this handler until it is resumed."""
        if paused == (handler in self.paused):
            return
        if paused:
            self.paused.add(handler)
        else:
            self.paused.discard(handler)
        self.report_capacity("paused" if paused else "resumed")

    def tick(self, now: Now) -> None:
        """Does what is due at `now`: timeouts, self-fences, abandonments, expiry."""
        if self.wake is None or self.wake > now.mono:
            return
        self.wake = None
        self.memory.expire(now.mono)
        for key, attempt in list(self.attempts.items()):
            at = attempt.next_step(self.contact, self.lost_after)
            if at is not None and at <= now.mono:
                self._step(now, key, attempt)
        steps = (a.next_step(self.contact, self.lost_after) for a in self.attempts.values())
        self.wake_at(min((at for at in steps if at is not None), default=None))
        self.wake_at(self.memory.next_expiry())

    def _step(self, now: Now, key: Key, attempt: Attempt) -> None:
        if attempt.stopping is not None:
            attempt.abandon(now, attempt.stopping)
            self.abandoned[key] = attempt.handler
            self.actions.append(Abandon(key))
            self.actions.append(Result(key))
            return
        timed_out = attempt.timeout_at is not None and attempt.timeout_at <= now.mono
        self.stop(now, key, StopReason.TIMEOUT if timed_out else StopReason.DISCONNECTED, None)

    def stop(self, now: Now, key: Key, reason: StopReason, grace: float | None) -> bool:
        """True when the attempt runs (and has been told to stop now, if not before)."""
        attempt = self.attempts.get(key)
        if attempt is None or attempt.result is not None:
            return False
        abandon_at = now.mono + (attempt.kill_grace if grace is None else grace)
        if attempt.stopping is None:
            attempt.stopping = reason
            attempt.abandon_at = abandon_at
            self.actions.append(Stop(key, reason))
        else:
            attempt.abandon_at = min(attempt.abandon_at, abandon_at)
        self.wake_at(abandon_at)
        return True

    def hold(self, key: Key, attempt: Attempt) -> None:
        """Takes an attempt into the table."""
        self.attempts[key] = attempt
        self.by_run.setdefault(key.run_id, set()).add(key)

    def remove(self, key: Key) -> None:
        """Takes an attempt out of the table."""
        del self.attempts[key]
        others = self.by_run[key.run_id]
        others.discard(key)
        if not others:
            del self.by_run[key.run_id]

    def occupy(self, handler: str) -> None:
        self.used += 1
        self.used_by[handler] = self.used_by.get(handler, 0) + 1

    def release(self, handler: str) -> None:
        self.used = max(self.used - 1, 0)
        self.used_by[handler] = max(self.used_by.get(handler, 0) - 1, 0)

    def report_capacity(self, reason: str) -> None:
        capacity = pb.Capacity(
            free_slots=self.free_slots(), paused_handlers=sorted(self.paused), reason=reason
        )
        self.actions.append(Send(pb.SessionRequest(capacity=capacity)))

    def wake_at(self, at: float | None) -> None:
        if at is not None:
            self.wake = at if self.wake is None else min(self.wake, at)
