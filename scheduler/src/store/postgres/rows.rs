//! Rows as values of the model, and statements from prepared text.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use deadpool_postgres::GenericClient;
use futures::TryStreamExt as _;
use serde::{Serialize, de::DeserializeOwned};
use tokio_postgres::{Row, types::FromSql};
use uuid::Uuid;

use super::{error, pen::Params};
use crate::{
    model::{
        Payload,
        calendar::Calendars,
        ids::{AppId, AttemptRef, JobId, PartitionId, RunId},
        job::{Job, JobSpec, JobState},
        run::{KillReason, OpenRun, RunState, TriggerKind},
    },
    store::{Result, StoreError, ops::PartitionRow},
};

/// Columns of `open_run r` that [`open_run`] reads, in its order.
pub(super) const OPEN_RUN: &str = "r.id, r.job_id, r.app_id, r.revision, r.trigger, r.state, \
    r.fire_at, r.due_at, r.created_at, r.attempt, r.fence, r.lost, r.executor, r.session_epoch, \
    r.dispatched_at, r.acked_at, r.started_at, r.kill_reason, r.kill_at, r.kill_grace_us, \
    r.message, r.extra::text";

/// Columns of `job j` and `app a` that [`job`] reads, in its order.
pub(super) const JOB: &str = "j.id, j.app_id, a.name, j.name, j.partition, j.state, j.spec::text, \
    j.revision, j.version, j.created_at, j.updated_at, j.updated_by, j.pause_until, \
    j.pause_reason, j.effective_from, j.next_fire_at, j.problem, j.deleted_at IS NOT NULL";

/// Columns of `partition p` that [`partition`] reads, in its order.
pub(super) const PARTITION: &str = "p.id, p.epoch, p.planned_until, p.served_until, p.jobs_version";

/// Longest wait for the answer to a statement. The server ends one after 10 s by itself and says so; what
/// stays silent for longer is a way that swallows what is sent, which no timeout of TCP may notice.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);

/// Waits for the server, not for ever.
pub(super) async fn in_time<T>(asked: impl Future<Output = T>) -> Result<T> {
    let late = |_| StoreError::Unavailable(format!("no answer within {ANSWER_TIMEOUT:?}"));
    tokio::time::timeout(ANSWER_TIMEOUT, asked).await.map_err(late)
}

/// What the server answers, in time.
pub(super) async fn answer<T>(
    asked: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
) -> Result<T> {
    in_time(asked).await?.map_err(error::db)
}

/// Runs a statement whose text is one of a fixed set, prepared once per connection.
pub(super) async fn query(
    client: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
) -> Result<Vec<Row>> {
    answer(async {
        let statement = client.prepare_cached(sql).await?;
        client.query(&statement, params).await
    })
    .await
}

/// Runs a statement whose text differs each time.
pub(super) async fn query_once(
    client: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
) -> Result<Vec<Row>> {
    answer(client.query(sql, params)).await
}

/// Like [`query`], reading each row as it comes: very many never lie beside what is made of them.
pub(super) async fn read_all<T>(
    client: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
    read: impl Fn(&Row) -> Result<T>,
) -> Result<Vec<T>> {
    let found = answer(async {
        let statement = client.prepare_cached(sql).await?;
        client.query_raw(&statement, params.iter().copied()).await
    });
    let mut found = pin!(found.await?);
    let mut all = Vec::new();
    while let Some(row) = answer(found.try_next()).await? {
        all.push(read(&row)?);
    }
    Ok(all)
}

/// Like [`query`], for at most one row.
pub(super) async fn query_opt(
    client: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
) -> Result<Option<Row>> {
    Ok(query(client, sql, params).await?.into_iter().next())
}

/// Like [`query`], for exactly one row.
pub(super) async fn query_one(
    client: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
) -> Result<Row> {
    let row = query_opt(client, sql, params).await?;
    row.ok_or_else(|| StoreError::Internal("a statement gave no row".to_owned()))
}

/// Like [`query`], for the number of rows changed.
pub(super) async fn execute(
    client: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
) -> Result<u64> {
    answer(async {
        let statement = client.prepare_cached(sql).await?;
        client.execute(&statement, params).await
    })
    .await
}

/// Reads a row's columns from left to right.
pub(super) struct Reader<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(row: &'a Row) -> Self {
        Self { row, next: 0 }
    }

    /// The next column.
    pub(super) fn get<T: FromSql<'a>>(&mut self) -> Result<T> {
        let index = self.next;
        self.next += 1;
        self.row.try_get(index).map_err(|fault| {
            let name = self.row.columns().get(index).map_or("?", |column| column.name());
            StoreError::Corrupt(format!("column {name}: {fault}"))
        })
    }

    /// The next column, a number that is never negative.
    pub(super) fn number(&mut self) -> Result<u64> {
        Ok(self.get::<i64>()?.unsigned_abs())
    }

    /// The next column, a small number that is never negative.
    pub(super) fn small(&mut self) -> Result<u32> {
        Ok(self.get::<i32>()?.unsigned_abs())
    }

    /// The next column, a run's id.
    pub(super) fn run(&mut self) -> Result<RunId> {
        Ok(RunId::from_uuid(self.get::<Uuid>()?))
    }

    /// The next column, microseconds.
    pub(super) fn duration(&mut self) -> Result<Option<Duration>> {
        Ok(self.get::<Option<i64>>()?.map(|us| Duration::from_micros(us.unsigned_abs())))
    }

    /// The next column, one of a closed set of words.
    pub(super) fn word<T>(&mut self, parse: fn(&str) -> Option<T>) -> Result<T> {
        let text: &str = self.get()?;
        parse(text).ok_or_else(|| StoreError::Corrupt(format!("`{text}` is not known here")))
    }

    /// The next column, a word or nothing.
    pub(super) fn word_opt<T>(&mut self, parse: fn(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(text) = self.get::<Option<&str>>()? else { return Ok(None) };
        let word = parse(text);
        word.map(Some).ok_or_else(|| StoreError::Corrupt(format!("`{text}` is not known here")))
    }

    /// The next column, JSON as text.
    pub(super) fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        parse_json(self.get()?)
    }

    /// The next column, JSON as text or nothing.
    pub(super) fn json_opt<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        self.get::<Option<&str>>()?.map(parse_json).transpose()
    }

    /// The next two columns, media type and bytes.
    pub(super) fn payload(&mut self) -> Result<Option<Payload>> {
        let content_type: Option<String> = self.get()?;
        let data: Option<Vec<u8>> = self.get()?;
        let payload = content_type.zip(data);
        Ok(payload.map(|(content_type, data)| Payload { content_type, data: data.into() }))
    }
}

/// JSON text as a value.
pub(super) fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(not_json)
}

fn not_json(fault: serde_json::Error) -> StoreError {
    StoreError::Corrupt(fault.to_string())
}

/// A column of `unnest`, left out where all of it is NULL: what is shorter than the others is filled up
/// with NULLs, which the server then need not read one by one.
pub(super) fn sparse<T>(column: Vec<Option<T>>) -> Vec<Option<T>> {
    if column.iter().all(Option::is_none) { Vec::new() } else { column }
}

/// A value as JSON text.
pub(super) fn to_json<T: Serialize>(value: &T) -> Result<String> {
    let text = serde_json::to_string(value);
    text.map_err(|fault| StoreError::Internal(format!("a value can't be stored: {fault}")))
}

/// A number for a bigint column; what is larger than its range stays at the range's end.
pub(super) fn big(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number for an int column; what is larger than its range stays at the range's end.
pub(super) fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Microseconds for a bigint column.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Partitions for a smallint[] parameter.
pub(super) fn smalls(partitions: impl IntoIterator<Item = PartitionId>) -> Vec<i16> {
    partitions.into_iter().map(small_id).collect()
}

/// A partition for a smallint column.
pub(super) fn small_id(partition: PartitionId) -> i16 {
    i16::try_from(partition.0).unwrap_or(i16::MAX)
}

/// Runs for a uuid[] parameter.
pub(super) fn uuids<'a>(runs: impl IntoIterator<Item = &'a RunId>) -> Vec<Uuid> {
    runs.into_iter().map(|run| run.to_uuid()).collect()
}

/// The state of a job as stored.
pub(super) fn job_state(state: JobState) -> &'static str {
    match state {
        JobState::Active => "ACTIVE",
        JobState::Paused => "PAUSED",
        JobState::Expired => "EXPIRED",
    }
}

fn parse_job_state(text: &str) -> Option<JobState> {
    [JobState::Active, JobState::Paused, JobState::Expired]
        .into_iter()
        .find(|state| job_state(*state) == text)
}

/// Reads [`OPEN_RUN`].
pub(super) fn open_run(row: &Row) -> Result<OpenRun> {
    read_open_run(&mut Reader::new(row))
}

/// Reads [`OPEN_RUN`] from where the reader stands.
pub(super) fn read_open_run(row: &mut Reader<'_>) -> Result<OpenRun> {
    let id = row.run()?;
    let job = JobId(row.get()?);
    Ok(OpenRun {
        id,
        job,
        app: AppId(row.get()?),
        partition: job.partition(),
        revision: row.number()?,
        trigger: row.word(TriggerKind::parse)?,
        state: row.word(RunState::parse)?,
        fire_at: row.get()?,
        due_at: row.get()?,
        created_at: row.get()?,
        attempt: row.small()?,
        fence: row.number()?,
        lost: row.small()?,
        executor: row.get::<Option<&str>>()?.map(Arc::from),
        session_epoch: row.number()?,
        dispatched_at: row.get()?,
        acked_at: row.get()?,
        started_at: row.get()?,
        kill_reason: row.word_opt(KillReason::parse)?,
        kill_at: row.get()?,
        kill_grace: row.duration()?,
        message: row.get()?,
        extra: row.json_opt()?,
    })
}

/// Reads id, attempt and fence.
pub(super) fn attempt_ref(row: &Row) -> Result<AttemptRef> {
    let mut row = Reader::new(row);
    Ok(AttemptRef { run: row.run()?, attempt: row.small()?, fence: row.number()? })
}

/// Reads [`PARTITION`]; a partition that nobody owned yet is planned up to `now`.
pub(super) fn partition(row: &Row, now: DateTime<Utc>) -> Result<PartitionRow> {
    let mut row = Reader::new(row);
    Ok(PartitionRow {
        id: PartitionId(row.get::<i16>()?.unsigned_abs()),
        epoch: row.number()?,
        planned_until: row.get::<Option<_>>()?.unwrap_or(now),
        served_until: row.get::<Option<_>>()?.unwrap_or(now),
        jobs_version: row.number()?,
    })
}

/// Reads [`JOB`]. A spec that can't be read becomes the job's problem: one damaged row must not
/// keep a node from its other jobs.
pub(super) fn job(row: &Row) -> Result<Job> {
    job_with(row, |text| serde_json::from_str(text).map(Arc::new))
}

/// The same, where `read` makes a spec of its text.
pub(super) fn job_with(
    row: &Row,
    read: impl FnOnce(&str) -> serde_json::Result<Arc<JobSpec>>,
) -> Result<Job> {
    let mut row = Reader::new(row);
    let id = JobId(row.get()?);
    let app = AppId(row.get()?);
    let app_name = Arc::from(row.get::<&str>()?);
    let name = Arc::from(row.get::<&str>()?);
    let partition = PartitionId(row.get::<i16>()?.unsigned_abs());
    let state = row.word(parse_job_state)?;
    let spec = read(row.get()?).map_err(not_json);
    let mut job = Job {
        id,
        app,
        app_name,
        name,
        partition,
        state,
        spec: Arc::default(),
        revision: row.number()?,
        version: row.number()?,
        created_at: row.get()?,
        updated_at: row.get()?,
        updated_by: row.get()?,
        pause_until: row.get()?,
        pause_reason: row.get()?,
        effective_from: row.get()?,
        next_fire_at: row.get()?,
        problem: row.get()?,
        deleted: row.get()?,
        calendars: Calendars::default(),
    };
    match spec {
        Ok(spec) => job.spec = spec,
        Err(fault) => job.problem = fault.to_string(),
    }
    Ok(job)
}
