//! An executor in this process, without a socket: for tests, and for simulations in which time is
//! moved by hand. It keeps the contract as a well-behaved SDK does, one frame at a time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use clawjob_proto::v1::{
    AttemptStatus, Goodbye, Heartbeat, KillAck, RunAck, RunCommand, RunResult, SessionRequest,
    kill_ack, run_ack, session_request::Frame as Up, session_response::Frame as Down,
};

use super::{
    Hub, Link,
    event::{Origin, SessionEvent},
    outbox::Outbox,
    session::{End, Opening},
    wire,
};
use crate::{
    model::{
        executor::ExecutorSpec,
        ids::{AttemptRef, RunId},
    },
    store::{Store, StoreError, ops::Claim},
};

/// An executor in this process.
pub struct LocalExecutor {
    hub: Arc<Hub>,
    link: Arc<Link>,
    app: String,
    name: String,
    spec: ExecutorSpec,
    instance_id: String,
    /// What it runs or has finished without a ResultAck, under its newest fence.
    attempts: BTreeMap<(RunId, u32), (AttemptRef, bool)>,
    last_command_seq: u64,
    heartbeats: u64,
    unsent: VecDeque<SessionEvent>,
}

impl LocalExecutor {
    /// Starts a process and opens its first session: claims the row in the store, as the API does.
    ///
    /// # Errors
    /// The store's; `Conflict` when another living process has the name.
    pub async fn connect(
        hub: &Arc<Hub>,
        store: &dyn Store,
        app: &str,
        name: &str,
        instance_id: &str,
        spec: ExecutorSpec,
    ) -> Result<Self, StoreError> {
        let opening = claim(hub, store, (app, name, instance_id), &spec, Vec::new(), 0).await?;
        Self::open(hub, opening, app)
            .map_err(|end| StoreError::Conflict(format!("the session ended at once: {end:?}")))
    }

    /// Opens the first session without a store.
    ///
    /// # Errors
    /// A newer session of the executor is there already.
    pub fn open(hub: &Arc<Hub>, opening: Opening, app: &str) -> Result<Self, End> {
        let (name, spec) = (opening.origin.executor.to_string(), opening.spec.clone());
        let instance_id = opening.instance_id.clone();
        let (link, events) = hub.open(opening, "", outbox(hub))?;
        let mut executor = Self {
            hub: hub.clone(),
            link,
            app: app.to_owned(),
            name,
            spec,
            instance_id,
            attempts: BTreeMap::new(),
            last_command_seq: 0,
            heartbeats: 0,
            unsent: events.into(),
        };
        executor.flush();
        Ok(executor)
    }

    /// Opens another session of the same process, with all its attempts in Hello.
    ///
    /// # Errors
    /// The store's.
    pub async fn reconnect(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let who = (&*self.app, &*self.name, &*self.instance_id);
        let listed = self.listed();
        let seq = self.last_command_seq;
        let opening = claim(&self.hub, store, who, &self.spec, listed, seq).await?;
        self.resume(opening)
            .map_err(|end| StoreError::Conflict(format!("the session ended at once: {end:?}")))
    }

    /// Goes on in the session that `opening` begins.
    ///
    /// # Errors
    /// A newer session of the executor is there already.
    pub fn resume(&mut self, opening: Opening) -> Result<(), End> {
        let (link, events) = self.hub.open(opening, "", outbox(&self.hub))?;
        self.link = link;
        self.unsent.extend(events);
        self.flush();
        Ok(())
    }

    /// Its session.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// What Hello or a Heartbeat of it lists.
    pub fn listed(&self) -> Vec<(AttemptRef, bool)> {
        self.attempts.values().copied().collect()
    }

    /// Number of the last command it has read.
    pub fn last_command_seq(&self) -> u64 {
        self.last_command_seq
    }

    /// Reads what the scheduler sent. Results that were acknowledged are forgotten.
    pub fn receive(&mut self) -> Vec<Down> {
        let frames = self.link.outbox().take();
        let frames: Vec<Down> = frames.into_iter().filter_map(|frame| frame.frame).collect();
        for frame in &frames {
            match frame {
                Down::Run(run) => self.read_number(run.command_seq),
                Down::Kill(kill) => self.read_number(kill.command_seq),
                Down::ResultAck(ack) => {
                    if let Some(attempt) = wire::attempt_ref(ack.r#ref.as_ref()) {
                        self.attempts.remove(&(attempt.run, attempt.attempt));
                    }
                }
                Down::Welcome(welcome) => {
                    for known in &welcome.known_results {
                        if let Some(attempt) = wire::attempt_ref(Some(known)) {
                            self.attempts.remove(&(attempt.run, attempt.attempt));
                        }
                    }
                }
                _ => {}
            }
        }
        frames
    }

    fn read_number(&mut self, seq: u64) {
        self.last_command_seq = self.last_command_seq.max(seq);
    }

    /// Takes a run: DUPLICATE when it has it already, else ACCEPTED.
    pub fn accept(&mut self, run: &RunCommand) -> Option<AttemptRef> {
        let attempt = wire::attempt_ref(run.r#ref.as_ref())?;
        let key = (attempt.run, attempt.attempt);
        let known = self.attempts.get(&key).copied();
        self.attempts.insert(key, (attempt, known.is_some_and(|(_, finished)| finished)));
        let status =
            if known.is_some() { run_ack::Status::Duplicate } else { run_ack::Status::Accepted };
        self.ack(attempt, status);
        Some(attempt)
    }

    /// Answers a RunCommand.
    pub fn ack(&mut self, attempt: AttemptRef, status: run_ack::Status) {
        let r#ref = Some(wire::to_ref(attempt));
        self.send(Up::RunAck(RunAck { r#ref, status: status.into(), ..RunAck::default() }));
    }

    /// Answers a KillCommand.
    pub fn kill_ack(&mut self, attempt: AttemptRef, status: kill_ack::Status) {
        let r#ref = Some(wire::to_ref(attempt));
        self.send(Up::KillAck(KillAck { r#ref, status: status.into() }));
    }

    /// Reports the end of an attempt; the ref of `result` is filled in.
    pub fn finish(&mut self, attempt: AttemptRef, result: RunResult) {
        let key = (attempt.run, attempt.attempt);
        let newest = self.attempts.get(&key).map_or(attempt, |(newest, _)| *newest);
        self.attempts.insert(key, (newest, true));
        let r#ref = Some(wire::to_ref(newest));
        self.send(Up::Result(RunResult { r#ref, ..result }));
    }

    /// Sends a Heartbeat that lists all it has.
    pub fn heartbeat(&mut self) {
        self.heartbeats += 1;
        let running = self.attempts.values().filter(|(_, finished)| !finished).count();
        let running = u32::try_from(running).unwrap_or(u32::MAX);
        let attempts = self.attempts.values().map(|(attempt, finished)| AttemptStatus {
            r#ref: Some(wire::to_ref(*attempt)),
            finished: *finished,
            start_time: None,
        });
        let heartbeat = Heartbeat {
            seq: self.heartbeats,
            attempts: attempts.collect(),
            free_slots: self.spec.slots.saturating_sub(running),
            last_command_seq: self.last_command_seq,
            ..Heartbeat::default()
        };
        self.send(Up::Heartbeat(heartbeat));
    }

    /// Ends the session cleanly.
    pub fn goodbye(&mut self) {
        self.send(Up::Goodbye(Goodbye::default()));
    }

    /// The connection breaks. The store hears of it from whoever calls this.
    pub fn break_off(&self) {
        self.hub.finish(&self.link, End::Broken);
    }

    /// The process forgets an attempt, as after a crash.
    pub fn forget(&mut self, attempt: AttemptRef) {
        self.attempts.remove(&(attempt.run, attempt.attempt));
    }

    /// Sends any frame.
    pub fn send(&mut self, frame: Up) {
        let events = self.hub.receive(&self.link, SessionRequest { frame: Some(frame) });
        self.unsent.extend(events);
        self.flush();
    }

    /// Hands events on as far as there is room.
    pub fn flush(&mut self) {
        while let Some(event) = self.unsent.pop_front() {
            if let Err(event) = self.hub.events().try_send(event) {
                self.unsent.push_front(event);
                return;
            }
        }
    }
}

fn outbox(hub: &Hub) -> Arc<Outbox> {
    Arc::new(Outbox::new(hub.capacity_changed()))
}

async fn claim(
    hub: &Hub,
    store: &dyn Store,
    (app, name, instance_id): (&str, &str, &str),
    spec: &ExecutorSpec,
    listed: Vec<(AttemptRef, bool)>,
    last_command_seq: u64,
) -> Result<Opening, StoreError> {
    let now = hub.clock.now();
    let app = store.ensure_app(app, now).await?;
    let claim = Claim {
        app: app.id,
        name: name.to_owned(),
        spec: spec.clone(),
        instance_id: instance_id.to_owned(),
        resume_hash: instance_id.as_bytes().to_vec(),
        fresh_resume_hash: instance_id.as_bytes().to_vec(),
        principal: "tokens/local".to_owned(),
        node: hub.settings.node_id.clone(),
        peer_address: "local".to_owned(),
        alive_since: now - hub.settings.heartbeat_interval * 2,
        may_hold: hub.may_hold(app.id, name).map(|mut runs| {
            runs.extend(listed.iter().map(|(attempt, _)| attempt.run));
            runs.sort_unstable();
            runs.dedup();
            runs
        }),
    };
    let claimed = store.claim_executor(&claim, now).await?;
    let row = claimed.executor;
    Ok(Opening {
        origin: Arc::new(Origin {
            app: row.app,
            executor: row.name.as_str().into(),
            row: row.row,
            epoch: row.session_epoch,
        }),
        app_name: row.app_name,
        instance_id: instance_id.to_owned(),
        session_id: format!("{}-{}", row.row, row.session_epoch),
        spec: spec.clone(),
        cordoned: row.cordoned,
        protocol_minor: 0,
        features: Vec::new(),
        resume_token: instance_id.to_owned(),
        resumed: claimed.resumed,
        replaced: claimed.replaced,
        claimed: claimed.attempts,
        listed,
        last_command_seq,
        unwanted: Vec::new(),
        known_results: Vec::new(),
        auth_expires_at: None,
    })
}
