//! One executor of a swarm: it keeps its results until they are acknowledged and comes back with
//! them after a break, as the contract asks.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use clawjob_proto::v1::{
    AttemptRef, AttemptStatus, Handler, Heartbeat, Hello, Outcome, RunAck, RunCommand, RunResult,
    SdkInfo, SessionRequest, SessionResponse, Welcome,
    executor_service_client::ExecutorServiceClient, run_ack, session_request::Frame as Up,
    session_response::Frame as Down,
};
use rand::Rng as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming, transport::Channel};

use super::Shared;
use crate::now_us;

/// Frames on their way up; the reader of commands waits for room.
const UP_QUEUE_MAX: usize = 1_024;
/// First wait after a break is up to this; see the contract's timings.
const FIRST_WAIT_MS: u64 = 2_000;
/// Later ones are up to this, doubled each time.
const BASE_WAIT_MS: u64 = 500;
/// No wait is longer.
const CAP_WAIT_MS: u64 = 30_000;
/// Until Welcome tells another one.
const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(5);

struct Executor {
    shared: Arc<Shared>,
    number: u32,
    instance_id: String,
    resume_token: String,
    last_command_seq: u64,
    heartbeats: u64,
    /// Results that were not acknowledged, by run and attempt.
    unacked: HashMap<(String, u32), RunResult>,
}

/// Runs one executor for ever.
pub(super) async fn serve(shared: Arc<Shared>, number: u32) {
    let mut executor = Executor {
        shared,
        number,
        instance_id: uuid::Uuid::new_v4().to_string(),
        resume_token: String::new(),
        last_command_seq: 0,
        heartbeats: 0,
        unacked: HashMap::new(),
    };
    let mut breaks = 0;
    loop {
        let before = executor.heartbeats;
        if let Err(fault) = executor.session().await
            && is_lasting(fault.code())
        {
            eprintln!("executor {number}: {fault}");
        }
        breaks = if executor.heartbeats > before { 0 } else { breaks + 1 };
        let cap = match breaks {
            0 => FIRST_WAIT_MS,
            n => (BASE_WAIT_MS << n.min(8)).min(CAP_WAIT_MS),
        };
        let wait = rand::rng().random_range(0..=cap);
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
}

/// Whether the contract says that trying again does not help. It is tried all the same.
fn is_lasting(code: Code) -> bool {
    use Code::{
        FailedPrecondition, InvalidArgument, PermissionDenied, Unauthenticated, Unimplemented,
    };
    matches!(
        code,
        FailedPrecondition | InvalidArgument | PermissionDenied | Unauthenticated | Unimplemented
    )
}

impl Executor {
    /// One session from Hello to its end.
    async fn session(&mut self) -> Result<(), Status> {
        let (up, frames) = mpsc::channel(UP_QUEUE_MAX);
        // Queued before the call is awaited: the server may read it before it answers.
        self.send(&up, Up::Hello(self.hello())).await?;
        let mut request = Request::new(ReceiverStream::new(frames));
        let bearer = format!("Bearer {}", self.shared.plan.token).parse();
        let bearer = bearer.map_err(|_| Status::unauthenticated("a token is plain text"))?;
        request.metadata_mut().insert("authorization", bearer);
        let mut client = ExecutorServiceClient::new(self.dial().await?);
        let mut down = client.session(request).await?.into_inner();
        let Some(Down::Welcome(welcome)) = next(&mut down).await? else {
            return Err(Status::aborted("the first frame was not Welcome"));
        };
        self.shared.connected.fetch_add(1, Ordering::Relaxed);
        let ended = self.serve(welcome, &up, &mut down).await;
        self.shared.connected.fetch_sub(1, Ordering::Relaxed);
        ended
    }

    async fn dial(&self) -> Result<Channel, Status> {
        let endpoints = &self.shared.plan.endpoints;
        let endpoint = &endpoints[self.number as usize % endpoints.len()];
        let dialed = Channel::from_shared(endpoint.clone())
            .map_err(|fault| Status::invalid_argument(fault.to_string()))?
            .connect_timeout(Duration::from_secs(5))
            .tcp_nodelay(true)
            .connect()
            .await;
        dialed.map_err(|fault| Status::unavailable(fault.to_string()))
    }

    fn hello(&self) -> Hello {
        let handler = Handler { name: "note".to_owned(), ..Handler::default() };
        let sdk = SdkInfo { language: "swarm".to_owned(), ..SdkInfo::default() };
        Hello {
            protocol_major: clawjob_proto::PROTOCOL_MAJOR,
            protocol_minor: clawjob_proto::PROTOCOL_MINOR,
            app: self.shared.plan.app.clone(),
            executor_id: format!("swarm-{}", self.number),
            instance_id: self.instance_id.clone(),
            resume_token: self.resume_token.clone(),
            handlers: vec![handler],
            slots: self.shared.plan.slots,
            sdk: Some(sdk),
            attempts: self.attempts(),
            last_command_seq: self.last_command_seq,
            ..Hello::default()
        }
    }

    async fn serve(
        &mut self,
        welcome: Welcome,
        up: &mpsc::Sender<SessionRequest>,
        down: &mut Streaming<SessionResponse>,
    ) -> Result<(), Status> {
        self.resume_token = welcome.resume_token;
        for known in welcome.known_results {
            self.forget(Some(known));
        }
        let again: Vec<RunResult> = self.unacked.values().cloned().collect();
        for result in again {
            self.send(up, Up::Result(result)).await?;
        }
        let every = welcome.heartbeat_interval.and_then(|every| Duration::try_from(every).ok());
        // Drawn, or all executors of a measurement would report at one moment.
        let every = every.unwrap_or(HEARTBEAT_DEFAULT).mul_f64(rand::rng().random_range(0.9..1.1));
        let first = tokio::time::Instant::now() + every.mul_f64(rand::rng().random_range(0.0..1.0));
        let mut beat = tokio::time::interval_at(first, every);
        loop {
            tokio::select! {
                frame = next(down) => match frame? {
                    Some(Down::Run(command)) => self.execute(command, up).await?,
                    Some(Down::ResultAck(ack)) => {
                        if self.forget(ack.r#ref) {
                            self.shared.tally().acked(now_us());
                        }
                    }
                    Some(_) => {}
                    None => return Ok(()),
                },
                _ = beat.tick() => {
                    let heartbeat = self.heartbeat();
                    self.send(up, Up::Heartbeat(heartbeat)).await?;
                }
            }
        }
    }

    /// Counts the run and says that it is done.
    async fn execute(
        &mut self,
        command: RunCommand,
        up: &mpsc::Sender<SessionRequest>,
    ) -> Result<(), Status> {
        let now = now_us();
        self.last_command_seq = self.last_command_seq.max(command.command_seq);
        let Some(r#ref) = command.r#ref else { return Ok(()) };
        let key = (r#ref.run_id.clone(), r#ref.attempt);
        let known = self.unacked.contains_key(&key);
        if !known {
            let fire = command.fire_time.unwrap_or_default();
            let fire_us = fire.seconds * 1_000_000 + i64::from(fire.nanos) / 1_000;
            self.shared.tally().came(&command.job, fire_us, now);
        }
        let at = Some(prost_types::Timestamp {
            seconds: now / 1_000_000,
            nanos: i32::try_from(now % 1_000_000 * 1_000).unwrap_or(0),
        });
        let result = RunResult {
            r#ref: Some(r#ref.clone()),
            outcome: Outcome::Succeeded.into(),
            start_time: at,
            finish_time: at,
            duration: Some(prost_types::Duration { seconds: 0, nanos: 1_000 }),
            ..RunResult::default()
        };
        // Before anything is sent: where the stream is gone, the next Hello must tell of the run.
        self.unacked.insert(key, result.clone());
        let status = if known { run_ack::Status::Duplicate } else { run_ack::Status::Accepted };
        let ack = RunAck { r#ref: Some(r#ref), status: status.into(), ..RunAck::default() };
        self.send(up, Up::RunAck(ack)).await?;
        self.send(up, Up::Result(result)).await
    }

    fn forget(&mut self, r#ref: Option<AttemptRef>) -> bool {
        let key = r#ref.map(|r#ref| (r#ref.run_id, r#ref.attempt));
        key.is_some_and(|key| self.unacked.remove(&key).is_some())
    }

    fn attempts(&self) -> Vec<AttemptStatus> {
        let status = |result: &RunResult| AttemptStatus {
            r#ref: result.r#ref.clone(),
            finished: true,
            start_time: result.start_time,
        };
        self.unacked.values().map(status).collect()
    }

    fn heartbeat(&mut self) -> Heartbeat {
        self.heartbeats += 1;
        Heartbeat {
            seq: self.heartbeats,
            attempts: self.attempts(),
            free_slots: self.shared.plan.slots,
            last_command_seq: self.last_command_seq,
            ..Heartbeat::default()
        }
    }

    async fn send(&self, up: &mpsc::Sender<SessionRequest>, frame: Up) -> Result<(), Status> {
        let sent = up.send(SessionRequest { frame: Some(frame) }).await;
        sent.map_err(|_| Status::unavailable("the stream is gone"))
    }
}

async fn next(down: &mut Streaming<SessionResponse>) -> Result<Option<Down>, Status> {
    Ok(down.message().await?.and_then(|response| response.frame))
}
