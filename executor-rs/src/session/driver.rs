//! The loop that ties the table of attempts to sessions, handlers and time. It never waits for
//! a peer or for a handler: everything it does is a queue operation.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawjob_proto::v1::{self, session_request::Frame as Up, session_response::Frame as Down};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;

use super::Start;
use super::dial::Fault;
use super::ending::Phase;
use super::hello::Identity;
use super::link::{Inbound, Link};
use super::outbox::Outbox;
use super::pump::Pump;
use super::redial::{Dialed, Redial};
use crate::config::Checked;
use crate::ctx::Shared;
use crate::engine::{Action, Engine, Key};
use crate::error::Error;
use crate::handle::{HealthState, Wish};
use crate::handler::{Call, Registry};
use crate::logs::LogSink;
use crate::runner::{Ended, Runner};
use crate::time::{self, Now};
use crate::wake::{Wake, Waker};

/// Frames from sessions that wait for the loop.
const INBOUND_MAX: usize = 256;
/// Handler ends that wait for the loop.
const ENDED_MAX: usize = 1024;
/// Steps of dials that wait for the loop.
const DIAL_STEPS_MAX: usize = 8;
/// Shortest time between two Capacity frames; the newest wins.
const CAPACITY_EVERY: Duration = Duration::from_millis(100);
/// Clock difference to the scheduler above which a warning is logged.
const CLOCK_OFFSET_WARN: chrono::TimeDelta = chrono::TimeDelta::seconds(2);

/// An attempt whose handler was started here.
pub(super) struct Live {
    pub(super) shared: Arc<Shared>,
    task: AbortHandle,
}

/// Everything the session's thread works with.
pub(super) struct Driver {
    pub(super) settings: Arc<Checked>,
    registry: Registry,
    identity: Identity,
    pub(super) engine: Engine,
    pub(super) live: HashMap<Key, Live>,
    pub(super) pump: Pump,
    pub(super) current: Option<Link>,
    /// The session that a newer one has replaced, until its peer ends it.
    pub(super) former: Option<Link>,
    pub(super) redial: Redial,
    pub(super) phase: Phase,
    pub(super) wish: watch::Receiver<Wish>,
    runner: Runner,
    wake: Arc<Wake>,
    space: Arc<Notify>,
    health: Arc<HealthState>,
    resume_token: String,
    paused: BTreeSet<String>,
    /// It was told in this session that the clocks differ.
    clock_told: bool,
    /// What to tell of a changed capacity, and when at the earliest.
    capacity: Option<v1::Capacity>,
    capacity_at: Instant,
    links: u64,
    inbound_tx: mpsc::Sender<(u64, Inbound)>,
    inbound: mpsc::Receiver<(u64, Inbound)>,
    ended: mpsc::Receiver<Ended>,
    dials: mpsc::Receiver<(u64, Dialed)>,
}

impl Driver {
    pub(super) fn new(start: &Start) -> Self {
        let now = time::now();
        let settings = Arc::new(start.settings.clone());
        let (inbound_tx, inbound) = mpsc::channel(INBOUND_MAX);
        let (ended_tx, ended) = mpsc::channel(ENDED_MAX);
        let (steps, dials) = mpsc::channel(DIAL_STEPS_MAX);
        Self {
            identity: Identity::new(&settings, &start.registry, now.wall),
            engine: Engine::new(settings.slots, start.limits.clone(), now),
            redial: Redial::new(settings.clone(), steps, now.mono),
            settings,
            registry: start.registry.clone(),
            live: HashMap::new(),
            pump: Pump::default(),
            current: None,
            former: None,
            phase: Phase::Serving,
            wish: start.handle.wishes(),
            runner: Runner::new(start.runtime.clone(), ended_tx),
            wake: Arc::default(),
            space: Arc::default(),
            health: start.handle.health_state(),
            resume_token: String::new(),
            paused: BTreeSet::new(),
            clock_told: false,
            capacity: None,
            capacity_at: now.mono,
            links: 0,
            inbound_tx,
            inbound,
            ended,
            dials,
        }
    }

    /// Runs until the end has been asked for and reached.
    pub(super) async fn run(mut self) -> Result<(), Error> {
        self.wish.mark_changed();
        loop {
            let wake = self.next_wake();
            tokio::select! {
                Ok(()) = self.wish.changed() => self.on_wish(),
                Some(ended) = self.ended.recv() => self.on_ended(ended),
                Some((id, step)) = self.dials.recv() => self.on_dial(id, step),
                Some((id, inbound)) = self.inbound.recv() => self.on_inbound(id, inbound),
                () = self.wake.wait() => self.on_handlers_wake(),
                () = self.space.notified() => {}
                () = time::sleep_until(wake) => {}
            }
            let now = time::now();
            self.tick(now);
            if let Some(end) = self.step_phase(now) {
                return end;
            }
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let times = [
            self.engine.next_wake(),
            self.redial.next_wake(),
            self.capacity.as_ref().map(|_| self.capacity_at),
            self.current.as_ref().map(Link::next_wake),
            self.former.as_ref().map(Link::dead_at),
            // Without a session there is nowhere to send to.
            self.current.as_ref().and_then(|_| self.pump.next_wake()),
            self.phase.next_wake(),
        ];
        times.into_iter().flatten().min()
    }

    fn tick(&mut self, now: Now) {
        self.engine.tick(now);
        self.act(now);
        if self.capacity_at <= now.mono
            && let Some(capacity) = self.capacity.take()
        {
            self.capacity_at = now.mono + CAPACITY_EVERY;
            self.send(now, Up::Capacity(capacity));
        }
        self.tick_link(now);
        self.redial.tick(now.mono, &mut rand::rng());
        if let Some(link) = &self.current {
            self.pump.run(now, &link.outbox, &self.engine, &self.live);
        }
    }

    fn tick_link(&mut self, now: Now) {
        self.former.take_if(|link| link.is_dead(now.mono));
        let Some(link) = &mut self.current else { return };
        if link.is_dead(now.mono) {
            self.redial.on_silence();
            self.lose_session(now, "no answer to heartbeats", None);
            return;
        }
        if link.renew_at.take_if(|at| *at <= now.mono).is_some() {
            let within = Duration::ZERO;
            self.redial.move_to(now.mono, within, &[], &mut rand::rng());
        }
        if let Some(beat) = link.beat(now.mono, &mut rand::rng()) {
            let dropped: u64 =
                self.live.values().map(|live| live.shared.log.take_bytes_dropped()).sum();
            let heartbeat = v1::Heartbeat {
                seq: beat.seq,
                lag: beat.lag,
                log_bytes_dropped: u32::try_from(dropped).unwrap_or(u32::MAX),
                ..self.engine.heartbeat()
            };
            self.send(now, Up::Heartbeat(heartbeat));
        }
    }

    /// Queues a control frame; without a session it is dropped, as the next Hello says it all.
    pub(super) fn send(&mut self, now: Now, frame: Up) {
        let full = self.current.as_ref().is_some_and(|link| !link.outbox.control(frame));
        if full {
            self.lose_session(now, "the scheduler does not read", None);
        }
    }

    /// Carries out what the table asks for.
    pub(super) fn act(&mut self, now: Now) {
        for action in self.engine.take_actions() {
            match action {
                Action::Send(Up::Capacity(capacity)) => self.capacity = Some(capacity),
                Action::Send(frame) => self.send(now, frame),
                Action::Stop(key, reason) => {
                    if let Some(live) = self.live.get(&key) {
                        live.shared.stop(reason);
                    }
                }
                Action::Abandon(key) => {
                    if let Some(live) = self.live.get(&key) {
                        live.task.abort();
                    }
                }
                Action::Result(key) => self.pump.result_ready(key, now.mono),
                Action::Forget(key) => {
                    self.live.remove(&key);
                    self.pump.shipper.forget(&key);
                }
            }
        }
    }

    fn on_wish(&mut self) {
        let now = time::now();
        let paused = self.wish.borrow_and_update().paused.clone();
        for handler in paused.symmetric_difference(&self.paused) {
            self.engine.pause(handler, paused.contains(handler));
        }
        self.paused = paused;
        self.act(now);
    }

    fn on_ended(&mut self, ended: Ended) {
        let now = time::now();
        self.engine.on_ending(now, &ended.key, ended.ending);
        self.act(now);
    }

    fn on_handlers_wake(&mut self) {
        let now = time::now();
        let (keys, urgent) = self.wake.take();
        for key in keys {
            if let Some(waker) = self.live.get(&key).and_then(|live| live.shared.log.waker()) {
                waker.taken();
                self.pump.talkative(key, now.mono);
            }
        }
        if urgent {
            self.pump.hurry(now.mono);
        }
    }

    fn on_dial(&mut self, id: u64, step: Dialed) {
        let now = time::now();
        match step {
            Dialed::Connected(connection) => {
                let outbox = Outbox::new(self.space.clone());
                let hello = self.identity.hello(&self.engine, &self.resume_token);
                outbox.control(Up::Hello(hello));
                self.redial.open(id, *connection, outbox, now.mono);
            }
            Dialed::Opened(opened) => {
                let Some((endpoint, outbox, sent)) = self.redial.succeeded(id) else { return };
                self.links += 1;
                let link = Link::new(
                    self.links,
                    outbox,
                    &opened.welcome,
                    opened.inbound,
                    self.inbound_tx.clone(),
                    now.mono,
                );
                self.begin_session(now, &endpoint, link, sent, &opened.welcome);
            }
            Dialed::Failed(fault) => {
                let rng = &mut rand::rng();
                let open = self.current.is_some();
                if let Some(error) = self.redial.failed(id, fault, open, now.mono, rng) {
                    self.fail(now, error);
                }
            }
        }
    }

    fn begin_session(
        &mut self,
        now: Now,
        endpoint: &str,
        link: Link,
        hello_sent: Instant,
        welcome: &v1::Welcome,
    ) {
        tracing::info!(
            endpoint,
            session_id = welcome.session_id,
            node_id = welcome.node_id,
            resumed = welcome.resumed,
            "session with the scheduler is open"
        );
        if let Some(former) = self.current.replace(link) {
            former.leave("moved to a new session");
            self.former = Some(former);
        }
        if !welcome.resume_token.is_empty() {
            self.resume_token.clone_from(&welcome.resume_token);
        }
        self.health.set(true, now.mono);
        self.redial.know_peers(&welcome.peer_endpoints);
        self.clock_told = false;
        self.compare_clocks(now, hello_sent, welcome.server_time.as_ref());
        self.pump.on_session(now.mono, welcome, &self.live);
        self.engine.on_welcome(now, hello_sent, welcome);
        self.act(now);
        self.announce_drain(now);
    }

    /// The current session is over; the next dial is due after a wait.
    fn lose_session(&mut self, now: Now, why: &str, wait: Option<Duration>) {
        let Some(link) = self.current.take() else { return };
        if self.phase.dials() {
            tracing::warn!(reason = why, "session with the scheduler is lost");
        }
        let lasted = now.mono.saturating_duration_since(link.opened);
        self.health.set(false, now.mono);
        if self.phase.dials() {
            self.redial.on_session_end(now.mono, lasted, wait, &mut rand::rng());
        }
    }

    fn on_inbound(&mut self, id: u64, inbound: Inbound) {
        let now = time::now();
        let is_current = self.current.as_ref().is_some_and(|link| link.id == id);
        let is_former = self.former.as_ref().is_some_and(|link| link.id == id);
        match inbound {
            Inbound::Frame(response) if is_current || is_former => match response.frame {
                Some(Down::Close(close)) => {
                    self.on_fault(now, is_current, Fault::of_close(&close));
                }
                Some(frame) => self.on_frame(now, is_current, frame),
                // A frame of a later contract.
                None => tracing::debug!("a frame of an unknown kind is passed over"),
            },
            Inbound::End(fault) if is_current || is_former => {
                self.on_fault(now, is_current, fault);
            }
            Inbound::Frame(_) | Inbound::End(_) => {}
        }
    }

    fn on_fault(&mut self, now: Now, is_current: bool, fault: Fault) {
        if !is_current {
            self.former = None;
            return;
        }
        self.lose_session(now, &fault.message, fault.retry_after);
        // A session that is being opened beside this one may be what ended it, and its own
        // answer tells whether all is over.
        let open_question = self.redial.is_opening() || self.settings.keep_trying;
        if let Some(error) = fault.permanent.filter(|_| !open_question) {
            self.fail(now, error);
        }
    }

    fn on_frame(&mut self, now: Now, is_current: bool, frame: Down) {
        match frame {
            Down::Run(command) => self.on_run(now, command),
            Down::Kill(kill) => self.engine.on_kill(now, &kill),
            Down::ResultAck(ack) => self.engine.on_result_ack(now, &ack),
            Down::LogAck(ack) => {
                if let Some(attempt) = &ack.r#ref {
                    self.pump.shipper.on_ack(attempt, ack.through_seq);
                    self.pump.hurry(now.mono);
                }
            }
            Down::HeartbeatAck(ack) => {
                let link = if is_current { &mut self.current } else { &mut self.former };
                if let Some(sent) = link.as_mut().and_then(|l| l.on_ack(now.mono, ack.seq)) {
                    self.engine.on_contact(sent);
                    self.compare_clocks(now, sent, ack.server_time.as_ref());
                }
            }
            Down::Drain(drain) => {
                if is_current && self.phase.dials() {
                    let within = time::std_duration(drain.reconnect_within.as_ref());
                    let peers = &drain.peer_endpoints;
                    let within = within.unwrap_or(self.settings.reconnect.first);
                    self.redial.move_to(now.mono, within, peers, &mut rand::rng());
                }
            }
            // A Close is taken care of before; a second Welcome is a fault of the peer's without
            // an effect here.
            Down::Close(_) | Down::Welcome(_) => {}
        }
        self.act(now);
    }

    /// Warns, once per session, of a clock that differs from the scheduler's, whose answer to what
    /// was sent at `sent` says `theirs`. The answer was made between then and now.
    fn compare_clocks(&mut self, now: Now, sent: Instant, theirs: Option<&prost_types::Timestamp>) {
        let Some(theirs) = time::utc(theirs) else { return };
        let trip = now.mono.saturating_duration_since(sent);
        let ours = chrono::DateTime::<chrono::Utc>::from(now.wall - trip / 2);
        let offset = ours - theirs;
        let unsure = chrono::TimeDelta::from_std(trip / 2).unwrap_or_default();
        if self.clock_told || offset.abs() <= CLOCK_OFFSET_WARN + unsure {
            return;
        }
        self.clock_told = true;
        tracing::warn!(
            offset_ms = offset.num_milliseconds(),
            "this machine's clock differs from the scheduler's; times shown will too"
        );
    }

    /// Decoding is all of the user's code that runs here, and a panic in it is caught.
    fn on_run(&mut self, now: Now, command: v1::RunCommand) {
        let prepared = self.registry.prepare(&command.handler, command.params.as_ref());
        let (call, check) = match prepared {
            Ok(call) => (Some(call), Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        if let (Some(key), Some(call)) = (self.engine.on_run(now, &command, check), call) {
            self.start(now, key, call, command);
        }
    }

    fn start(&mut self, now: Now, key: Key, call: Call, command: v1::RunCommand) {
        let sink = LogSink::new(Waker::new(key.clone(), self.wake.clone()));
        let shared = Shared::new(command, sink, now.mono);
        self.pump.shipper.add(key.clone(), shared.log.clone());
        let task = self.runner.start(key.clone(), call, shared.clone());
        self.live.insert(key, Live { shared, task });
    }
}
