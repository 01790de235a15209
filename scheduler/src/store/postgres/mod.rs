//! The store on Postgres 14 or newer.
//!
//! Four kinds of connections: the pen (see [`pen`]) holds this node's partitions and carries what
//! only their owner writes; a few *hot* ones carry results, with plans that don't depend on
//! statistics; *keyed* ones, with such plans too, single jobs and executors; *lazy* ones what need not
//! wait for the disk; the pool's carry the rest of the API and upkeep, behind a proxy if one is named.
//! Notifications have two of their own. Nothing is qualified with a schema: the connection's search_path
//! decides.

mod alarms;
mod apps;
mod audit;
mod calendars;
mod chains;
mod changes;
mod cluster;
mod days;
mod deliveries;
mod desk;
mod ends;
mod error;
mod events;
mod executors;
mod filter;
mod follow;
mod identity;
mod jobs;
mod lists;
mod load;
mod logs;
mod nodes;
mod notify;
mod owner;
mod past;
mod pen;
mod permits;
mod planned;
mod pools;
mod prune;
mod put_back;
mod requests;
mod routes;
mod rows;
mod runs;
mod schedules;
mod scribe;
mod seen;
mod session;
mod setup;
mod shards;
mod sign_ins;
mod tls;
mod tokens;
mod users;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::{sync::broadcast, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Result, Store, Topic, ops::*, specs::SharedSpecs};
use crate::model::{
    Payload,
    app::{App, AppSpec},
    executor::Executor,
    ids::{AppId, AttemptRef, JobId, PartitionId, RunId},
    job::Job,
    run::{OpenRun, RunRecord},
};
use changes::{Asked, Changes};
use notify::Hints;
use pen::Pen;
use pools::Pools;
use scribe::Scribe;
use seen::Seen;

/// Connections of the pool unless the configuration says otherwise.
pub const POOL_SIZE_DEFAULT: usize = 8;
/// Longest wait for background tasks at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Where the database is.
#[derive(Clone, Debug)]
pub struct PostgresConfig {
    /// Direct connection string, as URL or `key=value`. It may name a schema with
    /// `options=-csearch_path%3DNAME`.
    pub url: String,
    /// Connection string for lists, searches and upkeep, if these may go through a proxy. A proxy with transaction pooling must know protocol-level prepared statements.
    pub pool_url: Option<String>,
    /// Connections of the pool, at least 1.
    pub pool_size: usize,
}

impl PostgresConfig {
    /// Everything directly, with the default size.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), pool_url: None, pool_size: POOL_SIZE_DEFAULT }
    }
}

/// The store on Postgres.
pub struct PostgresStore {
    pools: Pools,
    pen: Arc<Pen>,
    /// Number of the lock that shows that this process lives.
    node_lock: i32,
    seen: Seen,
    hints: Arc<Hints>,
    changes: Changes,
    scribe: Scribe,
    specs: SharedSpecs,
    pruned: parking_lot::Mutex<prune::Progress>,
    stop: CancellationToken,
    tasks: parking_lot::Mutex<JoinSet<()>>,
}

impl PostgresStore {
    /// Connects, migrates the schema under a lock, and makes the days ahead.
    ///
    /// # Errors
    /// `Conflict` when the configuration can't work as it is (what to change is in the text),
    /// `Unavailable` when another try may help.
    pub async fn connect(config: PostgresConfig) -> Result<Arc<Self>> {
        let target = Arc::new(tls::target(&config.url)?);
        let class = setup::run(&target).await?;
        let pools = Pools::new(&config)?;
        let node_lock = rand::random_range(pen::NODE_LOCK_MIN..=i32::MAX);
        let pen = Arc::new(Pen::new(tls::target(&config.url)?, class, node_lock));
        let stop = CancellationToken::new();
        let channel = format!("clawjob_{:08x}", class.cast_unsigned());
        let node = format!("{:016x}", rand::random::<u64>());
        let (hints, topics) = Hints::new();
        let hints = Arc::new(hints);
        let (scribe, entries) = scribe::new();
        let (changes, asked) = changes::new();
        let mut tasks = JoinSet::new();
        let keeper = pen.clone();
        let stopped = stop.clone();
        tasks.spawn(async move { keeper.keep(stopped).await });
        tasks.spawn(notify::send(
            target.clone(),
            channel.clone(),
            node.clone(),
            topics,
            stop.clone(),
        ));
        tasks.spawn(notify::listen(target, channel, node, hints.local(), stop.clone()));
        tasks.spawn(scribe::run(pools.lazy.clone(), entries, stop.clone()));
        tasks.spawn(changes::run(pools.keyed.clone(), hints.clone(), asked, stop.clone()));
        let tasks = parking_lot::Mutex::new(tasks);
        let pruned = parking_lot::Mutex::default();
        let specs = SharedSpecs::default();
        Ok(Arc::new(Self {
            pools,
            pen,
            node_lock,
            seen: Seen::default(),
            hints,
            changes,
            scribe,
            specs,
            pruned,
            stop,
            tasks,
        }))
    }

    async fn end(&self) {
        self.stop.cancel();
        self.pen.close();
        self.pools.close();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let ended = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSE_TIMEOUT, ended).await.is_err() {
            tracing::debug!("background tasks of the store did not end in time");
        }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.stop.cancel();
        self.pen.close();
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn kind(&self) -> &'static str {
        "postgres"
    }

    fn hints(&self) -> broadcast::Receiver<Topic> {
        self.hints.subscribe()
    }

    async fn database_time(&self) -> Result<DateTime<Utc>> {
        nodes::database_time(self).await
    }

    async fn cluster_secret(&self, name: &str, fresh: Vec<u8>) -> Result<Vec<u8>> {
        nodes::cluster_secret(self, name, &fresh).await
    }

    async fn close(&self) {
        self.end().await;
    }

    async fn put_node(&self, node: &NodeRow) -> Result<()> {
        nodes::put_node(self, node).await
    }

    async fn remove_node(&self, id: &str, now: DateTime<Utc>) -> Result<()> {
        nodes::remove_node(self, id, now).await
    }

    async fn list_nodes(&self, now: DateTime<Utc>) -> Result<Vec<NodeRow>> {
        nodes::list_nodes(self, now).await
    }

    async fn take_partitions(
        &self,
        node: &str,
        want: &[PartitionId],
        now: DateTime<Utc>,
    ) -> Result<Vec<PartitionRow>> {
        nodes::take_partitions(self, node, want, now).await
    }

    async fn release_partitions(&self, partitions: &[PartitionId]) -> Result<()> {
        if self.pen.release(partitions).await? {
            self.hints.tell(Topic::Partitions);
        }
        Ok(())
    }

    async fn check_partitions(&self, partitions: &[PartitionId]) -> Result<Vec<PartitionRow>> {
        nodes::check_partitions(self, partitions).await
    }

    async fn load_jobs(&self, changed: &[(PartitionId, u64)]) -> Result<Vec<Job>> {
        load::load_jobs(self, changed).await
    }

    async fn load_open_runs(&self, scope: &RunScope) -> Result<OpenRuns> {
        load::load_open_runs(self, scope).await
    }

    async fn take_inbox(&self, partitions: &[PartitionId]) -> Result<InboxBatch> {
        load::take_inbox(self, partitions).await
    }

    async fn still_open(&self, runs: &[RunId]) -> Result<Vec<RunId>> {
        load::still_open(self, runs).await
    }

    async fn last_ends(&self, jobs: &[JobId]) -> Result<Vec<(JobId, DateTime<Utc>)>> {
        load::last_ends(self, jobs).await
    }

    async fn show_next_fires(&self, next: &[(JobId, Option<DateTime<Utc>>)]) -> Result<()> {
        load::show_next_fires(self, next).await
    }

    async fn plan(&self, plan: &Plan, now: DateTime<Utc>) -> Result<Planned> {
        owner::plan(self, plan, now).await
    }

    async fn dispatch(&self, batch: &Dispatch, now: DateTime<Utc>) -> Result<Vec<AttemptRef>> {
        owner::dispatch(self, batch, now).await
    }

    async fn wake_retries(
        &self,
        runs: &[AttemptRef],
        now: DateTime<Utc>,
    ) -> Result<Vec<AttemptRef>> {
        owner::wake_retries(self, runs, now).await
    }

    async fn ack_runs(&self, acks: &[Ack]) -> Result<Vec<AttemptRef>> {
        runs::ack_runs(self, acks).await
    }

    async fn end_runs(&self, ends: &[EndRun], now: DateTime<Utc>) -> Result<Vec<EndAnswer>> {
        runs::end_runs(self, ends, now).await
    }

    async fn put_back(&self, runs: &[PutBack], now: DateTime<Utc>) -> Result<Vec<AttemptRef>> {
        put_back::put_back(self, runs, now).await
    }

    async fn mark_canceling(
        &self,
        kills: &[MarkCanceling],
        now: DateTime<Utc>,
    ) -> Result<Vec<AttemptRef>> {
        runs::mark_canceling(self, kills, now).await
    }

    async fn open_runs(&self, runs: &[RunId]) -> Result<Vec<OpenRun>> {
        load::open_runs(self, runs).await
    }

    async fn explain_waiting(&self, runs: &[(RunId, String)]) -> Result<()> {
        runs::explain_waiting(self, runs).await
    }

    async fn record_late(&self, late: &[LateResult]) -> Result<()> {
        runs::record_late(self, late).await
    }

    async fn end_events(&self, limit: u32, aside: &[u64]) -> Result<Vec<EndEvent>> {
        follow::end_events(self, limit, aside).await
    }

    async fn settle_ends(&self, followups: &[Followup], now: DateTime<Utc>) -> Result<Settled> {
        follow::settle_ends(self, followups, now).await
    }

    async fn save_progress(&self, progress: &[ProgressRow]) -> Result<()> {
        logs::save_progress(self, progress).await
    }

    async fn load_checkpoints(&self, runs: &[RunId]) -> Result<Vec<(RunId, Payload)>> {
        logs::load_checkpoints(self, runs).await
    }

    async fn append_logs(&self, chunks: &[LogAppend], now: DateTime<Utc>) -> Result<Vec<u64>> {
        logs::append_logs(self, chunks, now).await
    }

    async fn list_logs(&self, query: &LogQuery) -> Result<LogPage> {
        logs::list_logs(self, query).await
    }

    async fn claim_executor(&self, claim: &Claim, now: DateTime<Utc>) -> Result<Claimed> {
        executors::claim_executor(self, claim, now).await
    }

    async fn room_for_executors(&self, app: AppId, max: u32, now: DateTime<Utc>) -> Result<u32> {
        executors::room_for_executors(self, app, max, now).await
    }

    async fn touch_executors(&self, seen: &[(i64, u64)], now: DateTime<Utc>) -> Result<()> {
        executors::touch_executors(self, seen, now).await
    }

    async fn end_session(
        &self,
        row: i64,
        epoch: u64,
        left: bool,
        now: DateTime<Utc>,
    ) -> Result<()> {
        executors::end_session(self, row, epoch, left, now).await
    }

    async fn end_sessions_of(&self, node: &str, now: DateTime<Utc>) -> Result<u64> {
        executors::end_sessions_of(self, node, now).await
    }

    async fn get_executor(&self, app: AppId, name: &str) -> Result<Executor> {
        executors::get_executor(self, app, name).await
    }

    async fn list_executors(&self, query: &ExecutorQuery) -> Result<Vec<Executor>> {
        executors::list_executors(self, query).await
    }

    async fn cordon_executor(
        &self,
        app: AppId,
        name: &str,
        cordon: Option<&str>,
    ) -> Result<Executor> {
        executors::cordon_executor(self, app, name, cordon).await
    }

    async fn delete_executor(&self, app: AppId, name: &str) -> Result<()> {
        executors::delete_executor(self, app, name).await
    }

    async fn create_job(&self, job: &NewJob, replan: Replan, now: DateTime<Utc>) -> Result<Job> {
        jobs::create_job(self, job, replan, now).await
    }

    async fn change_job(
        &self,
        job: JobId,
        change: &JobChange,
        replan: Replan,
        now: DateTime<Utc>,
    ) -> Result<Job> {
        self.changes.ask(Asked { job, change: change.clone(), replan, now }).await
    }

    async fn get_job(&self, app: &str, name: &str) -> Result<Job> {
        jobs::get_job(self, app, name).await
    }

    async fn jobs_named(&self, app: &str, name: &str) -> Result<Vec<JobId>> {
        jobs::named(self, app, name).await
    }

    async fn list_jobs(&self, query: &JobQuery) -> Result<Vec<Job>> {
        lists::list_jobs(self, query).await
    }

    async fn list_revisions(&self, job: JobId, before: u64, limit: u32) -> Result<Vec<Job>> {
        jobs::list_revisions(self, job, before, limit).await
    }

    async fn create_run(
        &self,
        run: &NewRun,
        request: Option<&RequestKey>,
        now: DateTime<Utc>,
    ) -> Result<RunId> {
        jobs::create_run(self, run, request, now).await
    }

    async fn get_run(&self, id: RunId) -> Result<RunRecord> {
        lists::get_run(self, id).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        lists::list_runs(self, query, None).await
    }

    async fn scan_runs(&self, query: &RunQuery) -> Result<RunPage> {
        lists::scan_runs(self, query).await
    }

    async fn get_runs(&self, ids: &[RunId], full: bool) -> Result<Vec<RunRecord>> {
        lists::get_runs(self, ids, full).await
    }

    async fn count_open(&self, now: DateTime<Utc>) -> Result<OpenCounts> {
        events::count_open(self, now).await
    }

    async fn run_events(&self, after: Option<EventCursor>, limit: u32) -> Result<RunEvents> {
        events::run_events(self, after, limit).await
    }

    async fn ensure_app(&self, name: &str, now: DateTime<Utc>) -> Result<App> {
        apps::ensure_app(self, name, now).await
    }

    async fn create_app(
        &self,
        name: &str,
        spec: &AppSpec,
        request: Option<&RequestKey>,
        now: DateTime<Utc>,
    ) -> Result<App> {
        apps::create_app(self, name, spec, request, now).await
    }

    async fn get_app(&self, name: &str) -> Result<App> {
        apps::get_app(self, name).await
    }

    async fn list_apps(
        &self,
        after: &str,
        only: Option<&[String]>,
        limit: u32,
    ) -> Result<Vec<App>> {
        apps::list_apps(self, after, only, limit).await
    }

    async fn update_app(&self, id: AppId, spec: &AppSpec, version: u64) -> Result<App> {
        apps::update_app(self, id, spec, version).await
    }

    async fn delete_app(&self, id: AppId) -> Result<()> {
        apps::delete_app(self, id).await
    }

    async fn find_answer(&self, request: &RequestKey) -> Result<Option<String>> {
        requests::find_answer(&self.client().await?, request).await
    }

    async fn prune(&self, keep: &Retention, now: DateTime<Utc>) -> Result<bool> {
        prune::prune(self, keep, now).await
    }
}
