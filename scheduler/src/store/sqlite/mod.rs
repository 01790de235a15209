//! The embedded store: one SQLite file in a data directory, for one server.
//!
//! All writes go through one thread with group commit ([`writer`]), reads through a few connections
//! of their own ([`readers`]); the WAL lets neither wait for the other. An answer to a write means
//! that it is on disk (`synchronous = FULL`).

mod alarms;
mod apps;
mod audit;
mod calendars;
mod chains;
mod cluster;
mod connection;
mod deliveries;
mod executors;
mod files;
mod filter;
mod follow;
mod identity;
mod jobs;
mod lists;
mod lock;
mod logs;
mod nodes;
mod owner;
mod past;
mod prune;
mod readers;
mod routes;
mod rows;
mod runs;
mod schedules;
mod shards;
mod sign_ins;
mod tokens;
mod users;
mod writer;

use std::{fs::File, path::Path, sync::Arc};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::broadcast;

use self::{connection::set_up, files::Files, readers::Readers, writer::Writer};
use super::{HINTS_MAX, Result, Store, StoreError, Topic, ops::*, specs::SharedSpecs};
use crate::{
    clock::{Clock, SystemClock},
    model::{
        Payload,
        app::{App, AppSpec},
        executor::Executor,
        ids::{AppId, AttemptRef, JobId, PartitionId, RunId},
        job::Job,
        run::{OpenRun, RunRecord},
    },
};

/// The embedded store.
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    specs: Arc<SharedSpecs>,
    hints: broadcast::Sender<Topic>,
    clock: Arc<SystemClock>,
    files: Arc<Files>,
    lock: Mutex<Option<File>>,
}

impl SqliteStore {
    /// Whether `dir` holds a database.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(lock::DATABASE_FILE).exists()
    }

    /// Opens the store in `dir`, which is made if need be (mode 0700; files 0600), and brings its
    /// schema up to date. Blocks for the time of the migrations.
    ///
    /// # Errors
    /// `Conflict` when another server holds the directory, `Unavailable` when it can't be used,
    /// `Internal` when a migration fails.
    pub fn open(dir: &Path) -> Result<Arc<Self>> {
        let (lock, file) = lock::lock_dir(dir)?;
        let mut conn = Connection::open(&file)?;
        set_up(&conn)?;
        migrate(&mut conn)?;
        let (hints, _) = broadcast::channel(HINTS_MAX);
        let readers = Readers::open(&file)?;
        let files = Arc::new(Files::of(&file)?);
        Ok(Arc::new(Self {
            readers,
            specs: Arc::default(),
            writer: Writer::start(conn, files.clone(), hints.clone())?,
            hints,
            clock: SystemClock::new(),
            files,
            lock: Mutex::new(Some(lock)),
        }))
    }
}

fn migrate(conn: &mut Connection) -> Result<()> {
    let failed =
        |fault| StoreError::Internal(format!("a migration of the database failed: {fault}"));
    let runner = clawjob_migrations::sqlite();
    runner.run(conn).map_err(failed)?;
    let applied = runner.get_applied_migrations(conn).map_err(failed)?;
    if let Some(newer) = clawjob_migrations::newer(&runner, &applied) {
        super::warn_of_newer_schema(newer);
    }
    Ok(())
}

/// What a call after `close` gets.
fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}
#[async_trait]
impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn hints(&self) -> broadcast::Receiver<Topic> {
        self.hints.subscribe()
    }

    async fn database_time(&self) -> Result<DateTime<Utc>> {
        // The file has no clock of its own: it is this machine.
        Ok(self.clock.now())
    }

    async fn check_storage(&self) -> Result<()> {
        self.files.check()
    }

    async fn cluster_secret(&self, name: &str, fresh: Vec<u8>) -> Result<Vec<u8>> {
        let name = name.to_owned();
        self.writer.write(move |tx| nodes::cluster_secret(tx, &name, &fresh)).await
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
        drop(self.lock.lock().take());
    }

    async fn put_node(&self, node: &NodeRow) -> Result<()> {
        let node = node.clone();
        self.writer.write(move |tx| nodes::put_node(tx, &node)).await
    }

    async fn remove_node(&self, id: &str, now: DateTime<Utc>) -> Result<()> {
        let id = id.to_owned();
        self.writer.write(move |tx| nodes::remove_node(tx, &id, now)).await
    }

    async fn list_nodes(&self, now: DateTime<Utc>) -> Result<Vec<NodeRow>> {
        self.readers.read(move |conn| nodes::list_nodes(conn, now)).await
    }

    async fn take_partitions(
        &self,
        node: &str,
        want: &[PartitionId],
        now: DateTime<Utc>,
    ) -> Result<Vec<PartitionRow>> {
        let node = node.to_owned();
        let want = want.to_vec();
        self.writer.write(move |tx| nodes::take_partitions(tx, &node, &want, now)).await
    }

    async fn release_partitions(&self, partitions: &[PartitionId]) -> Result<()> {
        let partitions = partitions.to_vec();
        self.writer.write(move |tx| nodes::release_partitions(tx, &partitions)).await
    }

    async fn check_partitions(&self, partitions: &[PartitionId]) -> Result<Vec<PartitionRow>> {
        self.files.check()?;
        let partitions = partitions.to_vec();
        self.readers.read(move |conn| nodes::check_partitions(conn, &partitions)).await
    }

    async fn load_jobs(&self, changed: &[(PartitionId, u64)]) -> Result<Vec<Job>> {
        let changed = changed.to_vec();
        let specs = self.specs.clone();
        self.readers.read(move |conn| owner::load_jobs(conn, &specs, &changed)).await
    }

    async fn load_open_runs(&self, scope: &RunScope) -> Result<OpenRuns> {
        let scope = scope.clone();
        self.readers.read(move |conn| owner::load_open_runs(conn, &scope)).await
    }

    async fn take_inbox(&self, partitions: &[PartitionId]) -> Result<InboxBatch> {
        let partitions = partitions.to_vec();
        self.writer.write(move |tx| owner::take_inbox(tx, &partitions)).await
    }

    async fn still_open(&self, runs: &[RunId]) -> Result<Vec<RunId>> {
        let runs = runs.to_vec();
        self.readers.read(move |conn| owner::still_open(conn, &runs)).await
    }

    async fn last_ends(&self, jobs: &[JobId]) -> Result<Vec<(JobId, DateTime<Utc>)>> {
        let jobs = jobs.to_vec();
        self.readers.read(move |conn| owner::last_ends(conn, &jobs)).await
    }

    async fn show_next_fires(&self, next: &[(JobId, Option<DateTime<Utc>>)]) -> Result<()> {
        let next = next.to_vec();
        self.writer.write(move |tx| owner::show_next_fires(tx, &next)).await
    }

    async fn plan(&self, plan: &Plan, now: DateTime<Utc>) -> Result<Planned> {
        let plan = plan.clone();
        self.writer.write(move |tx| owner::plan(tx, &plan, now)).await
    }

    async fn dispatch(&self, batch: &Dispatch, now: DateTime<Utc>) -> Result<Vec<AttemptRef>> {
        let batch = batch.clone();
        self.writer.write(move |tx| owner::dispatch(tx, &batch, now)).await
    }

    async fn wake_retries(
        &self,
        runs: &[AttemptRef],
        now: DateTime<Utc>,
    ) -> Result<Vec<AttemptRef>> {
        let runs = runs.to_vec();
        self.writer.write(move |tx| owner::wake_retries(tx, &runs, now)).await
    }

    async fn ack_runs(&self, acks: &[Ack]) -> Result<Vec<AttemptRef>> {
        let acks = acks.to_vec();
        self.writer.write(move |tx| runs::ack(tx, &acks)).await
    }

    async fn end_runs(&self, ends: &[EndRun], now: DateTime<Utc>) -> Result<Vec<EndAnswer>> {
        let ends = ends.to_vec();
        self.writer.write(move |tx| runs::end(tx, &ends, now)).await
    }

    async fn put_back(&self, runs: &[PutBack], now: DateTime<Utc>) -> Result<Vec<AttemptRef>> {
        let runs = runs.to_vec();
        self.writer.write(move |tx| runs::put_back(tx, &runs, now)).await
    }

    async fn mark_canceling(
        &self,
        kills: &[MarkCanceling],
        now: DateTime<Utc>,
    ) -> Result<Vec<AttemptRef>> {
        let kills = kills.to_vec();
        self.writer.write(move |tx| runs::mark_canceling(tx, &kills, now)).await
    }

    async fn open_runs(&self, runs: &[RunId]) -> Result<Vec<OpenRun>> {
        let runs = runs.to_vec();
        self.readers.read(move |conn| runs::open_runs(conn, &runs)).await
    }

    async fn explain_waiting(&self, runs: &[(RunId, String)]) -> Result<()> {
        let runs = runs.to_vec();
        self.writer.write(move |tx| runs::explain_waiting(tx, &runs)).await
    }

    async fn record_late(&self, late: &[LateResult]) -> Result<()> {
        let late = late.to_vec();
        self.writer.write(move |tx| runs::record_late(tx, &late)).await
    }

    async fn end_events(&self, limit: u32, aside: &[u64]) -> Result<Vec<EndEvent>> {
        let aside = aside.to_vec();
        self.readers.read(move |conn| follow::end_events(conn, limit, &aside)).await
    }

    async fn settle_ends(&self, followups: &[Followup], now: DateTime<Utc>) -> Result<Settled> {
        let followups = followups.to_vec();
        self.writer.write(move |tx| follow::settle_ends(tx, &followups, now)).await
    }

    async fn save_progress(&self, progress: &[ProgressRow]) -> Result<()> {
        let progress = progress.to_vec();
        self.writer.write(move |tx| logs::save_progress(tx, &progress)).await
    }

    async fn load_checkpoints(&self, runs: &[RunId]) -> Result<Vec<(RunId, Payload)>> {
        let runs = runs.to_vec();
        self.readers.read(move |conn| logs::load_checkpoints(conn, &runs)).await
    }

    async fn append_logs(&self, chunks: &[LogAppend], now: DateTime<Utc>) -> Result<Vec<u64>> {
        let chunks = chunks.to_vec();
        self.writer.write(move |tx| logs::append(tx, &chunks, now)).await
    }

    async fn list_logs(&self, query: &LogQuery) -> Result<LogPage> {
        let query = query.clone();
        self.readers.read(move |conn| logs::list(conn, &query)).await
    }

    async fn claim_executor(&self, claim: &Claim, now: DateTime<Utc>) -> Result<Claimed> {
        let claim = claim.clone();
        self.writer.write(move |tx| executors::claim(tx, &claim, now)).await
    }

    async fn room_for_executors(&self, app: AppId, max: u32, now: DateTime<Utc>) -> Result<u32> {
        self.writer.write(move |tx| executors::make_room(tx, app, max, now)).await
    }

    async fn touch_executors(&self, seen: &[(i64, u64)], now: DateTime<Utc>) -> Result<()> {
        let seen = seen.to_vec();
        self.writer.write(move |tx| executors::touch(tx, &seen, now)).await
    }

    async fn end_session(
        &self,
        row: i64,
        epoch: u64,
        left: bool,
        now: DateTime<Utc>,
    ) -> Result<()> {
        self.writer.write(move |tx| executors::end_session(tx, row, epoch, left, now)).await
    }

    async fn end_sessions_of(&self, _node: &str, now: DateTime<Utc>) -> Result<u64> {
        self.writer.write(move |tx| executors::end_all_sessions(tx, now)).await
    }

    async fn get_executor(&self, app: AppId, name: &str) -> Result<Executor> {
        let name = name.to_owned();
        self.readers.read(move |conn| executors::get(conn, app, &name)).await
    }

    async fn list_executors(&self, query: &ExecutorQuery) -> Result<Vec<Executor>> {
        let query = query.clone();
        self.readers.read(move |conn| executors::list(conn, &query)).await
    }

    async fn cordon_executor(
        &self,
        app: AppId,
        name: &str,
        cordon: Option<&str>,
    ) -> Result<Executor> {
        let name = name.to_owned();
        let cordon = cordon.map(str::to_owned);
        self.writer.write(move |tx| executors::cordon(tx, app, &name, cordon.as_deref())).await
    }

    async fn delete_executor(&self, app: AppId, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.writer.write(move |tx| executors::delete(tx, app, &name)).await
    }

    async fn create_job(&self, job: &NewJob, replan: Replan, now: DateTime<Utc>) -> Result<Job> {
        let job = job.clone();
        self.writer.write(move |tx| jobs::create(tx, &job, replan, now)).await
    }

    async fn change_job(
        &self,
        job: JobId,
        change: &JobChange,
        replan: Replan,
        now: DateTime<Utc>,
    ) -> Result<Job> {
        let change = change.clone();
        self.writer.write(move |tx| jobs::change(tx, job, &change, replan, now)).await
    }

    async fn get_job(&self, app: &str, name: &str) -> Result<Job> {
        let app = app.to_owned();
        let name = name.to_owned();
        self.readers.read(move |conn| jobs::get(conn, &app, &name)).await
    }

    async fn jobs_named(&self, app: &str, name: &str) -> Result<Vec<JobId>> {
        let (app, name) = (app.to_owned(), name.to_owned());
        self.readers.read(move |conn| jobs::named(conn, &app, &name)).await
    }

    async fn list_jobs(&self, query: &JobQuery) -> Result<Vec<Job>> {
        let query = query.clone();
        self.readers.read(move |conn| lists::jobs(conn, &query)).await
    }

    async fn list_revisions(&self, job: JobId, before: u64, limit: u32) -> Result<Vec<Job>> {
        self.readers.read(move |conn| jobs::list_revisions(conn, job, before, limit)).await
    }

    async fn create_run(
        &self,
        run: &NewRun,
        request: Option<&RequestKey>,
        now: DateTime<Utc>,
    ) -> Result<RunId> {
        let run = run.clone();
        let request = request.cloned();
        self.writer.write(move |tx| jobs::create_run(tx, &run, request.as_ref(), now)).await
    }

    async fn get_run(&self, id: RunId) -> Result<RunRecord> {
        self.readers.read(move |conn| lists::run(conn, id)).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        let query = query.clone();
        self.readers.read(move |conn| lists::runs(conn, &query)).await
    }

    async fn get_runs(&self, ids: &[RunId], full: bool) -> Result<Vec<RunRecord>> {
        let ids = ids.to_vec();
        self.readers.read(move |conn| lists::runs_by_id(conn, &ids, full)).await
    }

    async fn count_open(&self, now: DateTime<Utc>) -> Result<OpenCounts> {
        self.readers.read(move |conn| lists::count_open(conn, now)).await
    }

    async fn run_events(&self, after: Option<EventCursor>, limit: u32) -> Result<RunEvents> {
        self.readers.read(move |conn| lists::run_events(conn, after, limit)).await
    }

    async fn ensure_app(&self, name: &str, now: DateTime<Utc>) -> Result<App> {
        let name = name.to_owned();
        self.writer.write(move |tx| apps::ensure(tx, &name, now)).await
    }

    async fn create_app(
        &self,
        name: &str,
        spec: &AppSpec,
        request: Option<&RequestKey>,
        now: DateTime<Utc>,
    ) -> Result<App> {
        let name = name.to_owned();
        let spec = spec.clone();
        let request = request.cloned();
        self.writer.write(move |tx| apps::create(tx, &name, &spec, request.as_ref(), now)).await
    }

    async fn get_app(&self, name: &str) -> Result<App> {
        let name = name.to_owned();
        self.readers.read(move |conn| apps::get(conn, &name)).await
    }

    async fn list_apps(
        &self,
        after: &str,
        only: Option<&[String]>,
        limit: u32,
    ) -> Result<Vec<App>> {
        let after = after.to_owned();
        let only = only.map(<[_]>::to_vec);
        self.readers.read(move |conn| apps::list(conn, &after, only.as_deref(), limit)).await
    }

    async fn update_app(&self, id: AppId, spec: &AppSpec, version: u64) -> Result<App> {
        let spec = spec.clone();
        self.writer.write(move |tx| apps::update(tx, id, &spec, version)).await
    }

    async fn delete_app(&self, id: AppId) -> Result<()> {
        self.writer.write(move |tx| apps::delete(tx, id)).await
    }

    async fn find_answer(&self, request: &RequestKey) -> Result<Option<String>> {
        let request = request.clone();
        self.readers.read(move |conn| jobs::find_answer(conn, &request)).await
    }

    async fn prune(&self, keep: &Retention, now: DateTime<Utc>) -> Result<bool> {
        prune::prune(self, keep, now).await
    }
}
