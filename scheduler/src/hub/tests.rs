//! Sessions in the hub, driven by hand.

mod commands;
mod contact;
mod hostile;
mod invariants;
mod reports;
mod resume;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use clawjob_proto::v1::{RunCommand, session_response::Frame as Down};

use super::{
    Candidate, Hub, HubSettings,
    event::{EventKind, EventReceiver, Origin, SessionEvent},
    local::LocalExecutor,
    session::Opening,
    wire,
};
use crate::{
    clock::{Clock as _, ManualClock},
    model::{
        executor::{ExecutorSpec, Handler},
        ids::{AppId, AttemptRef, JobId, RunId},
        run::{OpenRun, RunState},
    },
    results::testing,
};

const APP: AppId = AppId(1);

/// A hub, its time and its events.
struct World {
    clock: Arc<ManualClock>,
    hub: Arc<Hub>,
    events: EventReceiver,
}

impl World {
    fn new() -> Self {
        Self::with(HubSettings::default())
    }

    fn with(settings: HubSettings) -> Self {
        let clock = ManualClock::new(testing::noon());
        let (hub, events) = Hub::new(settings, clock.clone());
        Self { clock, hub, events }
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Moves time and lets the hub look.
    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.hub.tick(self.clock.now(), self.clock.elapsed());
    }

    fn events(&mut self) -> Vec<SessionEvent> {
        let mut events = Vec::new();
        while let Ok(charged) = self.events.try_recv() {
            events.push(charged.into_parts().0);
        }
        events
    }

    /// What was reported, without who.
    fn kinds(&mut self) -> Vec<(AttemptRef, EventKind)> {
        self.events().into_iter().map(|event| (event.attempt, event.kind)).collect()
    }

    fn connect(&self, name: &str, slots: u32) -> LocalExecutor {
        let mut executor =
            LocalExecutor::open(&self.hub, opening(name, 1, slots), "app").expect("opens");
        assert!(matches!(executor.receive()[..], [Down::Welcome(_)]));
        executor
    }

    fn candidates(&self) -> Vec<Candidate> {
        self.hub.candidates(APP, "hello", &BTreeMap::new())
    }

    fn free(&self, name: &str) -> Option<u32> {
        self.candidates().iter().find(|c| &*c.name == name).map(|c| c.free)
    }

    /// Reserves, sends, and lets the executor read the command.
    fn send(&self, executor: &mut LocalExecutor, attempt: AttemptRef) -> RunCommand {
        let origin = executor.link().origin().clone();
        assert!(self.hub.reserve(APP, &origin.executor, origin.epoch, "hello", 1), "no credit");
        assert!(self.hub.send_run(APP, &origin.executor, origin.epoch, command(attempt)));
        read_run(executor)
    }

    /// Sends, and the executor accepts.
    fn start(&mut self, executor: &mut LocalExecutor, attempt: AttemptRef) {
        let run = self.send(executor, attempt);
        executor.accept(&run);
        let acked = EventKind::Acked { at: self.now() };
        assert_eq!(self.kinds(), [(attempt, acked)]);
    }
}

fn read_run(executor: &mut LocalExecutor) -> RunCommand {
    let frames = executor.receive();
    let [Down::Run(run)] = &frames[..] else { panic!("wanted one RunCommand, got {frames:?}") };
    run.clone()
}

fn opening(name: &str, epoch: u64, slots: u32) -> Opening {
    let handler = |name: &str, max_concurrency| Handler {
        name: name.to_owned(),
        max_concurrency,
        params_schema: String::new(),
        description: String::new(),
    };
    let row = i64::try_from(name.bytes().map(u64::from).sum::<u64>()).expect("small");
    Opening {
        origin: Arc::new(Origin { app: APP, executor: name.into(), row, epoch }),
        app_name: "app".to_owned(),
        instance_id: "process-1".to_owned(),
        session_id: format!("{name}-{epoch}"),
        spec: ExecutorSpec {
            handlers: vec![handler("hello", 0), handler("narrow", 1)],
            labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
            slots,
            ..ExecutorSpec::default()
        },
        cordoned: false,
        protocol_minor: 0,
        features: Vec::new(),
        resume_token: "token".to_owned(),
        resumed: epoch > 1,
        replaced: false,
        claimed: Vec::new(),
        listed: Vec::new(),
        last_command_seq: 0,
        unwanted: Vec::new(),
        known_results: Vec::new(),
        auth_expires_at: None,
    }
}

/// What a process that reconnects says, with what the store knows of its attempts.
fn reopening(executor: &LocalExecutor, claimed: Vec<OpenRun>) -> Opening {
    let origin = executor.link().origin();
    Opening {
        claimed,
        listed: executor.listed(),
        last_command_seq: executor.last_command_seq(),
        ..opening(&origin.executor, origin.epoch + 1, 4)
    }
}

fn attempt(n: i64) -> AttemptRef {
    AttemptRef { run: RunId::scheduled(JobId(n), testing::noon()), attempt: 1, fence: 1 }
}

/// The row of an attempt.
fn row(attempt: AttemptRef, state: RunState) -> OpenRun {
    OpenRun {
        id: attempt.run,
        attempt: attempt.attempt,
        fence: attempt.fence,
        ..testing::row(state)
    }
}

fn command(attempt: AttemptRef) -> RunCommand {
    RunCommand {
        r#ref: Some(wire::to_ref(attempt)),
        handler: "hello".to_owned(),
        ..RunCommand::default()
    }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
