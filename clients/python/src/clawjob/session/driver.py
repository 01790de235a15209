"""The loop that ties the table of attempts to sessions, handlers and time. It never waits for a
peer or for a handler: everything it does is a queue operation."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from clawjob import clock, wire
from clawjob.clock import Now
from clawjob.config import Checked
from clawjob.context import Context
from clawjob.engine import Abandon, Ending, Engine, Failed, Forget, Key, Result, Send, Stop
from clawjob.failure import FailureInfo, describe
from clawjob.handle import Handle
from clawjob.handler import Call, Registry
from clawjob.live import Buffers, Live, run_info
from clawjob.logs import LogSink
from clawjob.runner import Runner
from clawjob.session.dial import Connected, Fault, Opened
from clawjob.session.ending import End
from clawjob.session.hello import Identity
from clawjob.session.link import Link
from clawjob.session.outbox import Outbox
from clawjob.session.pump import Pump
from clawjob.session.redial import Redial, Step
from clawjob.wake import Wake
from clawjob.wire import pb

#: Shortest time between two Capacity frames, in seconds; the newest wins.
CAPACITY_EVERY = 0.1
#: Clock difference to the scheduler above which a warning is logged, in seconds.
CLOCK_OFFSET_WARN = 2.0
#: Longest time for closing connections at the end, in seconds.
SHUT_MAX = 1.0

_LOG = logging.getLogger("clawjob")


class Driver:
    """Everything the session's thread works with. Made and used on that thread alone."""

    def __init__(
        self,
        settings: Checked,
        registry: Registry,
        handle: Handle,
        handlers_loop: asyncio.AbstractEventLoop,
    ) -> None:
        now = clock.now()
        self.settings = settings
        self.handle = handle
        self.engine = Engine(settings.slots, registry.limits(), now)
        self.pump = Pump()
        self.redial = Redial(settings, self._on_dial, now.mono)
        self.live: dict[Key, Live] = {}
        self.current: Link | None = None
        #: The session that a newer one has replaced, until its peer ends it.
        self.former: Link | None = None
        self.end = End(self)
        self._registry = registry
        self._identity = Identity(settings, registry, now.wall)
        self._loop = asyncio.get_running_loop()
        self._runner = Runner(handlers_loop, self._on_ending_elsewhere)
        self._wake = Wake(partial(self._from_elsewhere, self._on_handlers_wake))
        self._rng = random.Random()
        self._resume_token = ""
        self._paused: frozenset[str] = frozenset()
        #: It was told in this session that the clocks differ.
        self._clock_told = False
        #: What to tell of a changed capacity, and when at the earliest.
        self._capacity: pb.SessionRequest | None = None
        self._capacity_at = now.mono
        self._news = asyncio.Event()
        #: Closing connections, so that they are not forgotten by the loop.
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Runs until the end has been asked for and reached. Raises what it ended with."""
        self.handle.attach(partial(self._from_elsewhere, self._on_wish))
        self._on_wish()
        try:
            while True:
                now = clock.now()
                self._tick(now)
                if self.end.step(now):
                    return
                await self._sleep(self._next_wake())
        finally:
            await self._shut()

    async def _sleep(self, until: float | None) -> None:
        """Until then, or until something has happened."""
        timer = None if until is None else self._loop.call_at(until, self._news.set)
        await self._news.wait()
        self._news.clear()
        if timer is not None:
            timer.cancel()

    async def _shut(self) -> None:
        self.redial.stop()
        for live in self.live.values():
            live.running.abandon()
        for link in (self.current, self.former):
            if link is not None:
                self._close(link)
        self.current = self.former = None
        if self._closing:
            await asyncio.wait(self._closing, timeout=SHUT_MAX)

    def _from_elsewhere(self, call: Callable[..., None], *arguments: object) -> None:
        """Calls on the session's thread; nothing is done once that has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(partial(call, *arguments))

    def _next_wake(self) -> float | None:
        times = [
            self.engine.wake,
            self.redial.next_wake(),
            None if self._capacity is None else self._capacity_at,
            None if self.current is None else self.current.next_wake(),
            None if self.former is None else self.former.dead_at(),
            # Without a session there is nowhere to send to.
            None if self.current is None else self.pump.next_wake(),
            self.end.next_wake(),
        ]
        return min((at for at in times if at is not None), default=None)

    def _tick(self, now: Now) -> None:
        self.engine.tick(now)
        self.act(now)
        if self._capacity is not None and self._capacity_at <= now.mono:
            frame, self._capacity = self._capacity, None
            self._capacity_at = now.mono + CAPACITY_EVERY
            self.send(now, frame)
        self._tick_link(now)
        self.redial.tick(now.mono, self._rng)
        if self.current is not None:
            self.pump.run(now, self.current.outbox, self.engine, self.live)

    def _tick_link(self, now: Now) -> None:
        if self.former is not None and self.former.is_dead(now.mono):
            self._drop_former()
        link = self.current
        if link is None:
            return
        if link.is_dead(now.mono):
            self.redial.on_silence()
            self._lose_session(now, "no answer to heartbeats", None)
            return
        if link.renew_at is not None and link.renew_at <= now.mono:
            link.renew_at = None
            self.redial.move_to(now.mono, 0.0, (), self._rng)
        beat = link.beat(now.mono, self._rng)
        if beat is not None:
            dropped = sum(a.buffers.log_sink.take_bytes_dropped() for a in self.live.values())
            beat.log_bytes_dropped = min(dropped, 2**32 - 1)
            beat.MergeFrom(self.engine.heartbeat())
            self.send(now, pb.SessionRequest(heartbeat=beat))

    def send(self, now: Now, frame: pb.SessionRequest) -> None:
        """Queues a control frame; without a session it is dropped: the next Hello says it all."""
        if self.current is not None and not self.current.outbox.control(frame):
            self._lose_session(now, "the scheduler does not read", None)

    def act(self, now: Now) -> None:
        """Carries out what the table asks for."""
        for action in self.engine.take_actions():
            if isinstance(action, Send):
                if action.frame.HasField("capacity"):
                    self._capacity = action.frame
                else:
                    self.send(now, action.frame)
            elif isinstance(action, Stop):
                if action.key in self.live:
                    self.live[action.key].running.stop(action.reason)
            elif isinstance(action, Abandon):
                if action.key in self.live:
                    self.live[action.key].running.abandon()
            elif isinstance(action, Result):
                self.pump.result_ready(action.key, now.mono)
            elif isinstance(action, Forget):
                self.live.pop(action.key, None)
                self.pump.shipper.forget(action.key)

    def _on_wish(self) -> None:
        now, paused = clock.now(), self.handle.paused
        for handler in paused ^ self._paused:
            self.engine.pause(handler, handler in paused)
        self._paused = paused
        self.act(now)
        self._news.set()

    def _on_ending_elsewhere(self, key: Key, ending: Ending) -> None:
        self._from_elsewhere(self._on_ending, key, ending)

    def _on_ending(self, key: Key, ending: Ending) -> None:
        now = clock.now()
        self.engine.on_ending(now, key, ending)
        self.act(now)
        self._news.set()

    def _on_handlers_wake(self) -> None:
        now = clock.now()
        keys, urgent = self._wake.take()
        for key in keys:
            if key in self.live:
                self.pump.talkative(key, now.mono)
        if urgent:
            self.pump.hurry(now.mono)
        self._news.set()

    def _on_dial(self, number: int, step: Step) -> None:
        now = clock.now()
        if isinstance(step, Connected):
            outbox = Outbox(self._news.set)
            hello = self._identity.hello(self.engine, self._resume_token)
            outbox.control(pb.SessionRequest(hello=hello))
            self.redial.open(number, step, outbox, now.mono)
        elif isinstance(step, Opened):
            dialed = self.redial.succeeded(number)
            if dialed is not None:
                endpoint, outbox, sent = dialed
                link = Link(outbox, step, self._on_inbound, now.mono)
                self._begin_session(now, endpoint, link, sent, step.welcome)
        else:
            open_now = self.current is not None
            error = self.redial.failed(
                number, step, has_session=open_now, now=now.mono, rng=self._rng
            )
            if error is not None:
                self.end.fail(now, error)
        self._news.set()

    def _begin_session(
        self, now: Now, endpoint: str, link: Link, hello_sent: float, welcome: pb.Welcome
    ) -> None:
        _LOG.info(
            "session %s with the scheduler at %s (node %s) is %s",
            welcome.session_id,
            endpoint,
            welcome.node_id,
            "resumed" if welcome.resumed else "open",
        )
        former, self.current = self.current, link
        if former is not None:
            self._drop_former()
            former.leave("moved to a new session")
            self.former = former
        if welcome.resume_token:
            self._resume_token = welcome.resume_token
        self.handle.set_connected(True, now.mono)
        self.redial.know_peers(welcome.peer_endpoints)
        self._clock_told = False
        self._compare_clocks(now, hello_sent, welcome)
        self.pump.on_session(now.mono, welcome, self.live)
        self.engine.on_welcome(now, hello_sent, welcome)
        self.act(now)
        self.end.announce_drain(now)

    def _lose_session(self, now: Now, why: str, wait: float | None) -> None:
        """The current session is over; the next dial is due after a wait."""
        link, self.current = self.current, None
        if link is None:
            return
        self._close(link)
        self.handle.set_connected(False, now.mono)
        if self.end.dials():
            _LOG.warning("the session with the scheduler is lost: %s", why)
            self.redial.on_session_end(now.mono, now.mono - link.opened_at, wait, self._rng)

    def _drop_former(self) -> None:
        link, self.former = self.former, None
        if link is not None:
            self._close(link)

    def _close(self, link: Link) -> None:
        task = self._loop.create_task(link.shut())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _on_inbound(self, link: Link, inbound: pb.SessionResponse | Fault) -> None:
        now = clock.now()
        if link is not self.current and link is not self.former:
            return
        if isinstance(inbound, Fault):
            self._on_fault(now, link, inbound)
        elif inbound.HasField("close"):
            self._on_fault(now, link, Fault.of_close(inbound.close))
        else:
            self._on_frame(now, link, inbound)
        self._news.set()

    def _on_fault(self, now: Now, link: Link, fault: Fault) -> None:
        if link is self.former:
            self._drop_former()
            return
        self._lose_session(now, fault.message, fault.retry_after)
        # A session that is being opened beside this one may be what ended it, and its own answer
        # tells whether all is over.
        open_question = self.redial.is_opening() or self.settings.keep_trying
        if fault.permanent is not None and not open_question:
            self.end.fail(now, fault.permanent)

    def _on_frame(self, now: Now, link: Link, response: pb.SessionResponse) -> None:
        kind = response.WhichOneof("frame")
        if kind == "run":
            self._on_run(now, response.run)
        elif kind == "kill":
            self.engine.on_kill(now, response.kill)
        elif kind == "result_ack":
            self.engine.on_result_ack(now, response.result_ack)
        elif kind == "log_ack":
            if response.log_ack.HasField("ref"):
                self.pump.shipper.on_ack(response.log_ack.ref, response.log_ack.through_seq)
                self.pump.hurry(now.mono)
        elif kind == "heartbeat_ack":
            sent = link.on_ack(now.mono, response.heartbeat_ack.seq)
            if sent is not None:
                self.engine.on_contact(sent)
                self._compare_clocks(now, sent, response.heartbeat_ack)
        elif kind == "drain":
            if link is self.current and self.end.dials():
                within = wire.seconds(response.drain, "reconnect_within")
                within = self.settings.reconnect.first if within is None else within
                self.redial.move_to(now.mono, within, response.drain.peer_endpoints, self._rng)
        elif kind is None:
            _LOG.debug("a frame of an unknown kind is passed over")
        # A second Welcome is a fault of the peer's without an effect here.
        self.act(now)

    def _on_run(self, now: Now, command: pb.RunCommand) -> None:
        """Reading the params is all of the user's code that runs here."""
        data = command.params.data if command.HasField("params") else None
        prepared = self._registry.prepare(command.handler, data, command.params.content_type)
        refusal = prepared if isinstance(prepared, FailureInfo) else None
        key = self.engine.on_run(now, command, refusal)
        # The RunAck leaves before the handler's first line.
        self.act(now)
        if key is not None and isinstance(prepared, Call):
            self._start(now, key, prepared, command)

    def _start(self, now: Now, key: Key, call: Call, command: pb.RunCommand) -> None:
        sink = LogSink(lambda urgent: self._wake.add(key, urgent=urgent))
        buffers = Buffers(sink, lambda: self._wake.add(key, urgent=False))
        info = run_info(command, with_params=call.handler.process)
        context = Context(info, buffers, now.mono)
        self.pump.shipper.add(key, sink)
        try:
            running = self._runner.start(key, call, context, info)
        except RuntimeError as error:  # the system gives no thread
            self.engine.on_ending(now, key, Failed(describe(error)))
            self.act(now)
            return
        self.live[key] = Live(buffers, running)

    def _compare_clocks(self, now: Now, sent: float, answer: pb.Welcome | pb.HeartbeatAck) -> None:
        """Warns, once per session, of a clock that differs from the scheduler's, whose answer says
        the time. The answer was made between `sent`, when it was asked for, and now."""
        theirs = wire.utc(answer, "server_time")
        if theirs is None or self._clock_told:
            return
        unsure = max(now.mono - sent, 0.0) / 2
        offset = (clock.utc(now.wall) - theirs).total_seconds() - unsure
        if abs(offset) > CLOCK_OFFSET_WARN + unsure:
            self._clock_told = True
            _LOG.warning(
                "this machine's clock is %.1f s ahead of the scheduler's; times shown will be too",
                offset,
            )
