//! A store that is out of reach for a while: for tests of what outlives an outage.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clawjob_scheduler::{
    model::{
        alarm::{Alarm, AlarmId, AlarmRule, AlarmRuleId, AlarmRuleSpec, EndedRun, Streak},
        app::{App, AppSpec},
        audit::{AuditEvent, AuditId},
        calendar::{Calendar, CalendarSpec, Calendars},
        executor::Executor,
        ids::{AppId, AttemptRef, JobId, PartitionId, RunId},
        job::Job,
        misfire::Decided,
        principal::{Holder, SignIn, Token, User},
        run::{OpenRun, RunRecord, RunState},
        shards::Split,
    },
    store::{
        ClusterStore, FamilyStore, PermitStore, Result, RouteStore, ScheduleStore, Store,
        StoreError, Topic,
        alarms::AlarmStore,
        audit::{AuditQuery, AuditStore},
        cluster::{Hand, Handed, Peer, SessionLoad, Survey},
        identity::{EndSignIns, IdentityStore},
        ops::*,
        permits::{Limit, Permit},
        schedules::{Backfill, Backfilled, CalendarQuery, NewCalendar, ReplanEach},
    },
};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::broadcast;

/// Hands everything on to another store, unless it is told to fail.
pub struct Flaky {
    inner: Arc<dyn Store>,
    down: AtomicBool,
    deaf: AtomicBool,
    failing: Mutex<&'static str>,
    damaged: AtomicU64,
    fresh: Mutex<BTreeSet<RunId>>,
    asked: Mutex<BTreeMap<String, usize>>,
    meanwhile: Mutex<Option<(&'static str, BoxFuture<'static, ()>)>>,
}

impl Flaky {
    /// A store that works.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let (down, deaf) = (AtomicBool::new(false), AtomicBool::new(false));
        let (failing, damaged) = (Mutex::default(), AtomicU64::new(0));
        let (fresh, meanwhile) = (Mutex::default(), Mutex::default());
        let asked = Mutex::default();
        Arc::new(Self { inner, down, deaf, failing, damaged, fresh, asked, meanwhile })
    }

    /// Every operation fails from now on, or works again.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    /// One operation fails from now on, and all others work.
    pub fn fail_only(&self, operation: &'static str) {
        *self.failing.lock() = operation;
    }

    /// The next dispatch is written, but its answer is lost on its way.
    pub fn lose_next_dispatch(&self) {
        self.deaf.store(true, Ordering::Relaxed);
    }

    /// Something happens once, while the caller of this operation waits for its answer.
    pub fn meanwhile(
        &self,
        operation: &'static str,
        happens: impl Future<Output = ()> + Send + 'static,
    ) {
        *self.meanwhile.lock() = Some((operation, Box::pin(happens)));
    }

    /// Ends of runs up to this event can't be settled.
    pub fn damage_ends_up_to(&self, seq: u64) {
        self.damaged.store(seq, Ordering::Relaxed);
    }

    /// Runs that were to be inserted without a look at whether they have ended.
    pub fn fresh(&self) -> BTreeSet<RunId> {
        self.fresh.lock().clone()
    }

    /// How often an operation was asked for.
    pub fn asked(&self, operation: &str) -> usize {
        self.asked.lock().get(operation).copied().unwrap_or(0)
    }

    async fn let_happen(&self, operation: &str) {
        let happens = {
            let mut meanwhile = self.meanwhile.lock();
            meanwhile.take_if(|(awaited, _)| *awaited == operation)
        };
        if let Some((_, happens)) = happens {
            happens.await;
        }
    }

    fn answer<T>(&self, operation: &str, answer: Result<T>) -> Result<T> {
        if operation == "dispatch" && self.deaf.swap(false, Ordering::Relaxed) {
            return Err(StoreError::Unavailable("the test has lost the answer".to_owned()));
        }
        answer
    }

    fn check(&self, operation: &str) -> Result<()> {
        *self.asked.lock().entry(operation.to_owned()).or_default() += 1;
        if self.down.load(Ordering::Relaxed) || *self.failing.lock() == operation {
            return Err(StoreError::Unavailable("the test has cut it off".to_owned()));
        }
        Ok(())
    }
}

macro_rules! forward {
    (impl $store:ident { $($own:item)* } $(async fn $name:ident(&self $(, $arg:ident: $ty:ty)*) -> $ret:ty;)*) => {
        #[async_trait]
        impl $store for Flaky {
            $($own)*

            $(async fn $name(&self $(, $arg: $ty)*) -> $ret {
                self.check(stringify!($name))?;
                self.let_happen(stringify!($name)).await;
                let answer = self.inner.$name($($arg),*).await;
                self.answer(stringify!($name), answer)
            })*
        }
    };
}

forward! {
    impl ClusterStore {}
    async fn survey(&self) -> Result<Survey>;
    async fn resign(&self) -> Result<()>;
    async fn peers(&self) -> Result<Vec<Peer>>;
    async fn ask_to_drain(&self, node: &str) -> Result<()>;
    async fn publish_sessions(&self, sessions: &[SessionLoad]) -> Result<()>;
    async fn read_sessions(&self, since: Option<DateTime<Utc>>) -> Result<Vec<SessionLoad>>;
    async fn hand_over(&self, hands: &[Hand]) -> Result<()>;
    async fn take_handed(&self, node: &str) -> Result<Vec<Handed>>;
    async fn tell_owners(&self, runs: &[(RunId, Option<PartitionId>)]) -> Result<()>;
    async fn load_revisions(&self, revisions: &[(JobId, u64)]) -> Result<Vec<Job>>;
}

forward! {
    impl PermitStore {}
    async fn ask_permits(&self, asked: &[Permit], limits: &[Limit], now: DateTime<Utc>) -> Result<Vec<RunId>>;
    async fn count_permits(&self, under_way: &[Permit], now: DateTime<Utc>) -> Result<()>;
    async fn return_permits(&self, runs: &[RunId]) -> Result<()>;
}

forward! {
    impl RouteStore {}
    async fn load_uses(&self, jobs: &[JobId]) -> Result<Vec<(JobId, Uses)>>;
    async fn last_dispatches(&self, jobs: &[JobId], now: DateTime<Utc>) -> Result<Vec<(JobId, u64)>>;
}

forward! {
    impl FamilyStore {}
    async fn split_run(&self, parent: AttemptRef, split: &Split, now: DateTime<Utc>) -> Result<bool>;
    async fn start_parents(&self, parents: &[(RunId, DateTime<Utc>)]) -> Result<()>;
    async fn load_outputs(&self, runs: &[RunId]) -> Result<Vec<(RunId, clawjob_scheduler::model::Payload)>>;
    async fn chain_leads_to(&self, from: &[String], to: &str) -> Result<bool>;
}

forward! {
    impl Store {
        fn kind(&self) -> &'static str {
            self.inner.kind()
        }

        fn hints(&self) -> broadcast::Receiver<Topic> {
            self.inner.hints()
        }

        async fn close(&self) {
            self.inner.close().await;
        }

        async fn plan(&self, plan: &Plan, now: DateTime<Utc>) -> Result<Planned> {
            self.check("plan")?;
            if plan.fresh {
                self.fresh.lock().extend(plan.runs.iter().map(|row| row.run.id));
            }
            let planned = self.inner.plan(plan, now).await;
            // What only moves partitions is nothing to wait for.
            if !plan.runs.is_empty() {
                self.let_happen("plan").await;
            }
            planned
        }

        async fn settle_ends(&self, followups: &[Followup], now: DateTime<Utc>) -> Result<Settled> {
            self.check("settle_ends")?;
            let damaged = self.damaged.load(Ordering::Relaxed);
            if followups.iter().any(|followup| followup.seq <= damaged) {
                return Err(StoreError::Corrupt("the test has damaged it".to_owned()));
            }
            self.inner.settle_ends(followups, now).await
        }
    }
    async fn database_time(&self) -> Result<DateTime<Utc>>;
    async fn cluster_secret(&self, name: &str, fresh: Vec<u8>) -> Result<Vec<u8>>;
    async fn put_node(&self, node: &NodeRow) -> Result<()>;
    async fn remove_node(&self, id: &str, now: DateTime<Utc>) -> Result<()>;
    async fn list_nodes(&self, now: DateTime<Utc>) -> Result<Vec<NodeRow>>;
    async fn take_partitions(&self, node: &str, want: &[PartitionId], now: DateTime<Utc>) -> Result<Vec<PartitionRow>>;
    async fn release_partitions(&self, partitions: &[PartitionId]) -> Result<()>;
    async fn check_partitions(&self, partitions: &[PartitionId]) -> Result<Vec<PartitionRow>>;
    async fn load_jobs(&self, changed: &[(PartitionId, u64)]) -> Result<Vec<Job>>;
    async fn load_open_runs(&self, scope: &RunScope) -> Result<OpenRuns>;
    async fn take_inbox(&self, partitions: &[PartitionId]) -> Result<InboxBatch>;
    async fn still_open(&self, runs: &[RunId]) -> Result<Vec<RunId>>;
    async fn last_ends(&self, jobs: &[JobId]) -> Result<Vec<(JobId, DateTime<Utc>)>>;
    async fn show_next_fires(&self, next: &[(JobId, Option<DateTime<Utc>>)]) -> Result<()>;
    async fn dispatch(&self, batch: &Dispatch, now: DateTime<Utc>) -> Result<Vec<AttemptRef>>;
    async fn wake_retries(&self, runs: &[AttemptRef], now: DateTime<Utc>) -> Result<Vec<AttemptRef>>;
    async fn ack_runs(&self, acks: &[Ack]) -> Result<Vec<AttemptRef>>;
    async fn end_runs(&self, ends: &[EndRun], now: DateTime<Utc>) -> Result<Vec<EndAnswer>>;
    async fn put_back(&self, runs: &[PutBack], now: DateTime<Utc>) -> Result<Vec<AttemptRef>>;
    async fn mark_canceling(&self, kills: &[MarkCanceling], now: DateTime<Utc>) -> Result<Vec<AttemptRef>>;
    async fn open_runs(&self, runs: &[RunId]) -> Result<Vec<OpenRun>>;
    async fn explain_waiting(&self, runs: &[(RunId, String)]) -> Result<()>;
    async fn record_late(&self, late: &[LateResult]) -> Result<()>;
    async fn end_events(&self, limit: u32, aside: &[u64]) -> Result<Vec<EndEvent>>;
    async fn save_progress(&self, progress: &[ProgressRow]) -> Result<()>;
    async fn load_checkpoints(&self, runs: &[RunId]) -> Result<Vec<(RunId, clawjob_scheduler::model::Payload)>>;
    async fn append_logs(&self, chunks: &[LogAppend], now: DateTime<Utc>) -> Result<Vec<u64>>;
    async fn list_logs(&self, query: &LogQuery) -> Result<LogPage>;
    async fn claim_executor(&self, claim: &Claim, now: DateTime<Utc>) -> Result<Claimed>;
    async fn room_for_executors(&self, app: AppId, max: u32, now: DateTime<Utc>) -> Result<u32>;
    async fn touch_executors(&self, seen: &[(i64, u64)], now: DateTime<Utc>) -> Result<()>;
    async fn end_session(&self, row: i64, epoch: u64, left: bool, now: DateTime<Utc>) -> Result<()>;
    async fn end_sessions_of(&self, node: &str, now: DateTime<Utc>) -> Result<u64>;
    async fn get_executor(&self, app: AppId, name: &str) -> Result<Executor>;
    async fn list_executors(&self, query: &ExecutorQuery) -> Result<Vec<Executor>>;
    async fn cordon_executor(&self, app: AppId, name: &str, cordon: Option<&str>) -> Result<Executor>;
    async fn delete_executor(&self, app: AppId, name: &str) -> Result<()>;
    async fn create_job(&self, job: &NewJob, replan: Replan, now: DateTime<Utc>) -> Result<Job>;
    async fn change_job(&self, job: JobId, change: &JobChange, replan: Replan, now: DateTime<Utc>) -> Result<Job>;
    async fn get_job(&self, app: &str, name: &str) -> Result<Job>;
    async fn jobs_named(&self, app: &str, name: &str) -> Result<Vec<JobId>>;
    async fn list_jobs(&self, query: &JobQuery) -> Result<Vec<Job>>;
    async fn list_revisions(&self, job: JobId, before: u64, limit: u32) -> Result<Vec<Job>>;
    async fn create_run(&self, run: &NewRun, request: Option<&RequestKey>, now: DateTime<Utc>) -> Result<RunId>;
    async fn get_run(&self, id: RunId) -> Result<RunRecord>;
    async fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>>;
    async fn get_runs(&self, ids: &[RunId], full: bool) -> Result<Vec<RunRecord>>;
    async fn count_open(&self, now: DateTime<Utc>) -> Result<OpenCounts>;
    async fn run_events(&self, after: Option<EventCursor>, limit: u32) -> Result<RunEvents>;
    async fn ensure_app(&self, name: &str, now: DateTime<Utc>) -> Result<App>;
    async fn create_app(&self, name: &str, spec: &AppSpec, request: Option<&RequestKey>, now: DateTime<Utc>) -> Result<App>;
    async fn get_app(&self, name: &str) -> Result<App>;
    async fn list_apps(&self, after: &str, only: Option<&[String]>, limit: u32) -> Result<Vec<App>>;
    async fn update_app(&self, id: AppId, spec: &AppSpec, version: u64) -> Result<App>;
    async fn delete_app(&self, id: AppId) -> Result<()>;
    async fn find_answer(&self, request: &RequestKey) -> Result<Option<String>>;
    async fn prune(&self, keep: &Retention, now: DateTime<Utc>) -> Result<bool>;
}

forward! {
    impl ScheduleStore {}
    async fn create_calendar(&self, new: &NewCalendar, now: DateTime<Utc>) -> Result<Calendar>;
    async fn get_calendar(&self, app: &str, name: &str) -> Result<Calendar>;
    async fn list_calendars(&self, query: &CalendarQuery) -> Result<Vec<Calendar>>;
    async fn load_calendars(&self, names: &BTreeSet<String>) -> Result<Calendars>;
    async fn update_calendar(&self, id: i64, spec: &CalendarSpec, version: u64, replan: ReplanEach, now: DateTime<Utc>) -> Result<Calendar>;
    async fn delete_calendar(&self, id: i64) -> Result<()>;
    async fn load_decided(&self, spans: &[(JobId, DateTime<Utc>, DateTime<Utc>)]) -> Result<Vec<(JobId, Decided)>>;
    async fn backfill(&self, backfill: &Backfill, now: DateTime<Utc>) -> Result<Backfilled>;
}

forward! {
    impl IdentityStore {}
    async fn create_token(&self, token: &Token, request: Option<&RequestKey>) -> Result<()>;
    async fn find_token(&self, id: &str) -> Result<Token>;
    async fn list_tokens(&self, after: &str, limit: u32) -> Result<Vec<Token>>;
    async fn revoke_token(&self, id: &str, now: DateTime<Utc>) -> Result<Token>;
    async fn touch_tokens(&self, ids: &[String], now: DateTime<Utc>) -> Result<()>;
    async fn create_user(&self, user: &User, request: Option<&RequestKey>) -> Result<User>;
    async fn find_user(&self, id: &str) -> Result<User>;
    async fn list_users(&self, after: &str, limit: u32) -> Result<Vec<User>>;
    async fn update_user(&self, user: &User, end: &EndSignIns) -> Result<User>;
    async fn delete_user(&self, id: &str, now: DateTime<Utc>) -> Result<()>;
    async fn create_sign_in(&self, sign_in: &SignIn, instead_of: Option<&str>) -> Result<()>;
    async fn find_sign_in(&self, id: &str) -> Result<SignIn>;
    async fn end_sign_in(&self, id: &str) -> Result<()>;
    async fn end_sign_ins(&self, holder: &Holder) -> Result<()>;
    async fn touch_sign_ins(&self, used: &[(String, DateTime<Utc>)]) -> Result<()>;
    async fn prune_sign_ins(&self, used_before: DateTime<Utc>, now: DateTime<Utc>) -> Result<u64>;
}

forward! {
    impl AuditStore {}
    async fn write_audit(&self, event: &AuditEvent) -> Result<()>;
    async fn end_audit(&self, id: AuditId, code: i32, resource: &str) -> Result<()>;
    async fn list_audit(&self, query: &AuditQuery) -> Result<Vec<AuditEvent>>;
    async fn prune_audit(&self, before: DateTime<Utc>) -> Result<u64>;
}

forward! {
    impl AlarmStore {}
    async fn create_alarm_rule(&self, rule: &NewAlarmRule, request: Option<&RequestKey>, now: DateTime<Utc>) -> Result<AlarmRule>;
    async fn get_alarm_rule(&self, app: AppId, name: &str) -> Result<AlarmRule>;
    async fn list_alarm_rules(&self, query: &AlarmRuleQuery) -> Result<Vec<AlarmRule>>;
    async fn update_alarm_rule(&self, id: AlarmRuleId, spec: &AlarmRuleSpec, version: u64, by: &str, now: DateTime<Utc>) -> Result<AlarmRule>;
    async fn delete_alarm_rule(&self, id: AlarmRuleId, version: Option<u64>) -> Result<()>;
    async fn wish_default_ends(&self, states: &[RunState]) -> Result<()>;
    async fn watching_rules(&self, apps: &[AppId]) -> Result<Vec<AlarmRule>>;
    async fn ended_runs(&self, runs: &[RunId]) -> Result<Vec<EndedRun>>;
    async fn last_states(&self, streak: &Streak) -> Result<Vec<RunState>>;
    async fn claim_deliveries(&self, claim: &DeliveryClaim, now: DateTime<Utc>) -> Result<Vec<OwedDelivery>>;
    async fn end_delivery(&self, id: DeliveryId, attempt: u32, end: &DeliveryEnd) -> Result<()>;
    async fn count_owed(&self) -> Result<OwedCounts>;
    async fn list_alarms(&self, query: &AlarmQuery) -> Result<Vec<Alarm>>;
    async fn acknowledge_alarm(&self, app: AppId, id: AlarmId, by: &str, comment: &str, now: DateTime<Utc>) -> Result<Alarm>;
    async fn prune_alarms(&self, before: DateTime<Utc>) -> Result<u64>;
}
