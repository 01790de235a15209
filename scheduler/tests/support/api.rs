//! Job and run services over a SQLite store, with a clock that a test moves. The owner's and the
//! executor's part is played by calls of the store.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use clawjob_proto::v1::{self as pb, job_service_server::JobService as _};
use clawjob_scheduler::{
    api::{
        Api, ApiSettings,
        auth::{Auth, SignInTimes},
        caller::Caller,
        jobs::JobsService,
        runs::RunsService,
    },
    clock::{Clock as _, ManualClock},
    hub::{Hub, settings::HubSettings},
    model::{
        executor::ExecutorRef,
        ids::{AttemptRef, PARTITION_COUNT, PartitionId, RunId},
        principal::{Grant, Role, Token},
        run::{Outcome, RunState},
    },
    store::{
        SharedStore,
        ops::{
            Ack, Addressee, Advance, AttemptEnd, Dispatch, DispatchRow, EndAnswer, EndRun, Plan,
            StateSet,
        },
        sqlite::SqliteStore,
    },
};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

/// No step of a test takes this long unless it hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub struct World {
    pub api: Arc<Api>,
    pub jobs: Arc<JobsService>,
    pub runs: Arc<RunsService>,
    pub clock: Arc<ManualClock>,
    pub store: SharedStore,
    _dir: tempfile::TempDir,
}

impl World {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store: SharedStore = SqliteStore::open(dir.path()).expect("a store");
        let start = DateTime::from_timestamp(1_800_000_000, 0).expect("in range");
        let clock = ManualClock::new(start);
        let (hub, _events) = Hub::new(HubSettings::default(), clock.clone());
        let settings = ApiSettings::default();
        let api = Api::new(store.clone(), hub, clock.clone(), settings).await.expect("an API");
        store.create_token(&token(&[]), None).await.expect("the callers' token");
        let auth = Auth::new(store.clone(), clock.clone(), SignInTimes::default());
        Self {
            jobs: Arc::new(JobsService::new(api.clone())),
            runs: Arc::new(RunsService::new(api.clone(), auth)),
            api,
            clock,
            store,
            _dir: dir,
        }
    }

    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Plays the owner: all partitions are planned up to `ahead` from now.
    pub async fn own(&self, ahead: Duration) {
        let all: Vec<PartitionId> = (0..PARTITION_COUNT).map(PartitionId).collect();
        let mut rows = self.store.take_partitions("n", &all, self.now()).await.expect("all");
        if rows.is_empty() {
            rows = self.store.check_partitions(&all).await.expect("held");
        }
        let advances = rows.iter().map(|row| Advance {
            partition: row.id,
            epoch: row.epoch,
            jobs_version: row.jobs_version,
            planned_until: self.now() + ahead,
            served_until: self.now(),
        });
        let plan = Plan { advances: advances.collect(), ..Plan::default() };
        let planned = self.store.plan(&plan, self.now()).await.expect("plans");
        assert_eq!(planned.advanced.len(), usize::from(PARTITION_COUNT));
    }

    pub async fn create(&self, app: &str, id: &str, job: pb::Job) -> pb::Job {
        let request = pb::CreateJobRequest {
            parent: format!("apps/{app}"),
            job_id: id.to_owned(),
            job: Some(job),
            ..Default::default()
        };
        self.jobs.create_job(admin(request)).await.expect("created").into_inner()
    }

    pub async fn trigger(&self, job: &str) -> pb::Run {
        let request = pb::TriggerJobRequest { name: job.to_owned(), ..Default::default() };
        self.jobs.trigger_job(admin(request)).await.expect("triggered").into_inner()
    }

    /// Sends a queued run to an executor and acknowledges it; gives the attempt.
    pub async fn start(&self, run: &pb::Run) -> AttemptRef {
        let id = run_id(run);
        let open = self.store.open_runs(&[id]).await.expect("reads");
        let attempt = open.first().expect("open").attempt_ref();
        let row =
            DispatchRow { attempt, to: Addressee { executor: "host-1".into(), session_epoch: 1 } };
        let batch = Dispatch { rows: vec![row], uses: Vec::new() };
        let sent = self.store.dispatch(&batch, self.now()).await.expect("dispatches");
        let attempt = *sent.first().expect("sent");
        let by = ExecutorRef { app: open[0].app, name: "host-1".into() };
        let ack = Ack { attempt, by, at: self.now() };
        assert_eq!(self.store.ack_runs(&[ack]).await.expect("acks"), [attempt]);
        attempt
    }

    /// The executor reports that the attempt succeeded.
    pub async fn succeed(&self, attempt: AttemptRef) {
        let end = EndRun {
            attempt,
            from: StateSet::SENT,
            to: RunState::Succeeded,
            end: AttemptEnd { outcome: Some(Outcome::Succeeded), ..AttemptEnd::default() },
            output: None,
            output_truncated: false,
            message: String::new(),
            missed: false,
        };
        let answers = self.store.end_runs(&[end], self.now()).await.expect("ends");
        assert!(matches!(answers[..], [EndAnswer::Ended(_)]), "{answers:?}");
    }
}

/// A job whose handler is `hello`.
pub fn hello() -> pb::Job {
    pb::Job { handler: "hello".to_owned(), ..Default::default() }
}

/// The same, each so many seconds.
pub fn every(seconds: i64) -> pb::Job {
    let period = prost_types::Duration { seconds, nanos: 0 };
    let schedule = pb::Schedule {
        trigger: Some(pb::schedule::Trigger::Interval(period)),
        ..Default::default()
    };
    pb::Job { schedules: vec![schedule], ..hello() }
}

pub fn caller(grants: &[(&str, Role)]) -> Caller {
    Caller::new(Arc::new(token(grants)))
}

/// An admin whose token has a display name.
pub fn called(display_name: &str) -> Caller {
    let token = token(&[("*", Role::Admin)]);
    Caller::new(Arc::new(Token { display_name: display_name.to_owned(), ..token }))
}

/// The token of all callers.
fn token(grants: &[(&str, Role)]) -> Token {
    let grants = grants.iter().map(|(app, role)| Grant { app: (*app).to_owned(), role: *role });
    Token {
        id: "t1".to_owned(),
        secret_hash: Vec::new(),
        display_name: String::new(),
        grants: grants.collect(),
        executor_id_patterns: Vec::new(),
        handler_patterns: Vec::new(),
        owner: String::new(),
        created_at: DateTime::UNIX_EPOCH,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    }
}

pub fn by<T>(caller: Caller, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(caller);
    request
}

pub fn admin<T>(message: T) -> Request<T> {
    by(caller(&[("*", Role::Admin)]), message)
}

pub fn run_id(run: &pb::Run) -> RunId {
    let id = run.name.rsplit('/').next().expect("a name");
    id.parse().expect("a ULID")
}

/// Code and reason of an error.
pub fn why(status: &Status) -> (Code, String) {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.clone()).unwrap_or_default();
    (status.code(), reason)
}

/// Fields that an INVALID_ARGUMENT names, in order.
pub fn fields(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    let bad = details.bad_request().map(|bad| bad.field_violations.clone()).unwrap_or_default();
    bad.into_iter().map(|violation| violation.field).collect()
}

/// The work's result, unless it hangs.
pub async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("hangs")
}
