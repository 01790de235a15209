"""Moves what handlers have to say into the outbox: progress, log chunks, results. Within an attempt
that is their order; a result waits for its log, but not for long."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from clawjob.clock import Now
from clawjob.engine import Engine, Key
from clawjob.live import Live
from clawjob.session.outbox import Outbox
from clawjob.ship import Shipper
from clawjob.wire import pb

#: How long a talkative handler's records are gathered into a chunk, in seconds.
GATHER = 0.1
#: How long a result waits for its log to fit into the window, in seconds; then the rest is dropped
#: and counted.
LOG_FLUSH_MAX = 0.5
#: A result without an answer for this long is sent again on the same session, in seconds.
RESULT_RESEND_AFTER = 30.0


class Pump:
    """What waits to be sent, and since when."""

    def __init__(self) -> None:
        self.shipper = Shipper()
        #: Attempts with progress or log records to send.
        self._talkative: dict[Key, None] = {}
        #: Finished attempts whose result is to be sent, and since when.
        self._ready: dict[Key, float] = {}
        #: Results sent, and when; acknowledged ones are passed over when their time comes.
        self._sent: deque[tuple[float, Key]] = deque()
        self._wake: float | None = None
        #: The outbox had no space; the next frame that leaves it makes some.
        self._blocked = False

    def next_wake(self) -> float | None:
        return self._wake

    def talkative(self, key: Key, now: float) -> None:
        """A handler has logged or told its progress."""
        self._talkative[key] = None
        self._wake_at(now + GATHER)

    def hurry(self, now: float) -> None:
        """Something can be sent now rather than with the next batch."""
        self._wake_at(now)

    def result_ready(self, key: Key, now: float) -> None:
        """A result can be sent."""
        self._ready.setdefault(key, now)
        self._wake_at(now)

    def on_session(self, now: float, welcome: pb.Welcome, live: Mapping[Key, Live]) -> None:
        """A session has begun that has heard nothing yet. The table names the results anew."""
        self.shipper.on_session(welcome.log_window_bytes, welcome.max_log_chunk_bytes)
        self._ready.clear()
        self._sent.clear()
        self._talkative = dict.fromkeys(live)
        for attempt in live.values():
            attempt.buffers.news.tell_again()
        self._wake_at(now)

    def run(self, now: Now, outbox: Outbox, engine: Engine, live: Mapping[Key, Live]) -> None:
        """Fills the outbox with what is due."""
        due = self._wake is not None and self._wake <= now.mono
        if not due and not self._ready and not self._blocked:
            return
        self._blocked = False
        if due:
            self._wake = None
            self._resend(now.mono, engine)
        self._send_results(now.mono, outbox, engine, live)
        talkative, self._talkative = self._talkative, {}
        for key in talkative:
            if not outbox.has_space():
                self._blocked = True
                self._talkative[key] = None
                continue
            fence, attempt = engine.fence(key), live.get(key)
            if fence is None or attempt is None or engine.is_finished(key):
                continue
            self._send_progress(now.mono, outbox, key, fence, attempt, last=False)
            self._send_logs(outbox, key, fence)
            if not self.shipper.has_sent_records(key):
                self._talkative[key] = None

    def _resend(self, now: float, engine: Engine) -> None:
        """Results that got no answer on this session for long."""
        while self._sent and self._sent[0][0] + RESULT_RESEND_AFTER <= now:
            _, key = self._sent.popleft()
            if engine.is_finished(key):
                self._ready[key] = now
        if self._sent:
            self._wake_at(self._sent[0][0] + RESULT_RESEND_AFTER)

    def _send_results(
        self, now: float, outbox: Outbox, engine: Engine, live: Mapping[Key, Live]
    ) -> None:
        ready, self._ready = self._ready, {}
        for key, since in ready.items():
            if not outbox.has_space():
                self._blocked = True
                self._ready[key] = since
                continue
            result = engine.result(key)
            if result is None:
                continue
            fence = result.ref.fence
            attempt = live.get(key)
            if attempt is not None:
                self._send_progress(now, outbox, key, fence, attempt, last=True)
            self._send_logs(outbox, key, fence)
            if not self.shipper.is_sent(key):
                if not self.shipper.has_sent_records(key) and now < since + LOG_FLUSH_MAX:
                    self._wake_at(since + LOG_FLUSH_MAX)
                    self._ready[key] = since
                    continue
                rest = self.shipper.give_up(key, fence)
                if rest is not None:
                    outbox.data(pb.SessionRequest(log_chunk=rest))
            result.last_log_seq = self.shipper.last_seq(key)
            outbox.data(pb.SessionRequest(result=result))
            self._sent.append((now, key))
            self._wake_at(now + RESULT_RESEND_AFTER)

    def _send_progress(
        self, now: float, outbox: Outbox, key: Key, fence: int, live: Live, *, last: bool
    ) -> None:
        due = live.buffers.news.take(now, last=last)
        if isinstance(due, float):
            self._talkative[key] = None
            self._wake_at(due)
        elif due is not None:
            due.ref.CopyFrom(key.to_ref(fence))
            # A full lane ends the session at the next heartbeat, and the next one is told.
            outbox.control(pb.SessionRequest(progress=due))

    def _send_logs(self, outbox: Outbox, key: Key, fence: int) -> None:
        while outbox.has_space():
            chunk = self.shipper.next_chunk(key, fence)
            if chunk is None:
                return
            outbox.data(pb.SessionRequest(log_chunk=chunk))

    def _wake_at(self, at: float) -> None:
        self._wake = at if self._wake is None else min(self._wake, at)
