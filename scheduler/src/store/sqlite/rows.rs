//! Between SQLite's values and the model's: instants are INTEGER microseconds, run ids 16-byte
//! BLOBs, JSON is TEXT.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use rusqlite::{Row, types::Type};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    model::{
        Payload,
        app::App,
        calendar::Calendars,
        executor::Executor,
        ids::{AppId, JobId, PartitionId, RunId},
        job::{Job, JobSpec, JobState},
        run::{Failure, KillReason, OpenRun, Outcome, RunState, TriggerKind},
    },
    store::{Result, StoreError, ops::PartitionRow},
};

/// Columns that [`open_run`] reads, in order, of a table or alias `r`.
pub(super) const OPEN_RUN: &str = "r.id, r.job_id, r.app_id, r.partition, r.revision, r.trigger, \
     r.state, r.fire_at, r.due_at, r.created_at, r.attempt, r.fence, r.lost, r.executor, \
     r.session_epoch, r.dispatched_at, r.acked_at, r.started_at, r.kill_reason, r.kill_at, \
     r.kill_grace_us, r.message, r.extra";

/// Columns that [`job`] reads, in order, of `job j JOIN app a`.
pub(super) const JOB: &str = "j.id, j.app_id, a.name, j.name, j.partition, j.state, j.spec, \
     j.revision, j.version, j.created_at, j.updated_at, j.updated_by, j.pause_until, \
     j.pause_reason, j.effective_from, j.next_fire_at, j.problem, j.deleted_at";

/// Columns that [`partition`] reads, in order.
pub(super) const PARTITION: &str = "id, epoch, planned_until, served_until, jobs_version";

/// Columns that [`executor`] reads, in order, of `executor e JOIN app a`.
pub(super) const EXECUTOR: &str = "e.id, e.app_id, a.name, e.name, e.spec, e.instance_id, \
     e.resume_hash, e.principal, e.session_epoch, e.node, e.cordoned, e.cordon_reason, \
     e.peer_address, e.connected_at, e.disconnected_at, e.gone, e.last_seen_at";

/// Columns that [`app`] reads, in order.
pub(super) const APP: &str = "id, name, spec, version, created_at";

/// An instant as stored.
pub(super) fn us(at: DateTime<Utc>) -> i64 {
    at.timestamp_micros()
}

/// A stored instant; one beyond chrono's range becomes the nearest bound.
pub(super) fn at(us: i64) -> DateTime<Utc> {
    let bound = if us < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    DateTime::from_timestamp_micros(us).unwrap_or(bound)
}

/// A duration as stored; longer than 292,000 years becomes just that.
pub(super) fn span_us(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A stored duration; a negative one is none.
pub(super) fn span(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

/// Counters are kept as INTEGER; one beyond its range becomes the largest.
pub(super) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A length or bound, as a parameter.
pub(super) fn number(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A stored counter.
pub(super) fn counted(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A stored small counter.
pub(super) fn counted32(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

/// JSON text of a value of the model.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| StoreError::Internal(format!("can't encode: {e}")))
}

/// Reads column `index` as JSON.
pub(super) fn from_json<T: DeserializeOwned>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    serde_json::from_str(text).map_err(|error| bad(index, error))
}

/// Reads column `index` as JSON if there is any.
pub(super) fn from_json_opt<T: DeserializeOwned>(
    row: &Row<'_>,
    index: usize,
) -> rusqlite::Result<Option<T>> {
    let Some(text) = row.get_ref(index)?.as_str_or_null()? else { return Ok(None) };
    serde_json::from_str(text).map(Some).map_err(|error| bad(index, error))
}

/// The error of a column whose text means nothing.
fn bad(index: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error))
}

/// Reads a word of a closed set.
pub(super) fn word<T>(
    row: &Row<'_>,
    index: usize,
    parse: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    parse(text).ok_or_else(|| bad(index, std::io::Error::other(format!("unknown word {text:?}"))))
}

/// Reads an instant.
pub(super) fn get_at(row: &Row<'_>, index: usize) -> rusqlite::Result<DateTime<Utc>> {
    row.get(index).map(at)
}

/// Reads an instant if there is one.
pub(super) fn get_at_opt(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<DateTime<Utc>>> {
    Ok(row.get::<_, Option<i64>>(index)?.map(at))
}

/// Reads a duration if there is one.
pub(super) fn get_span_opt(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Duration>> {
    Ok(row.get::<_, Option<i64>>(index)?.map(span))
}

/// Reads a run id.
pub(super) fn get_run_id(row: &Row<'_>, index: usize) -> rusqlite::Result<RunId> {
    row.get(index).map(RunId::from_bytes)
}

/// Reads a payload of the columns (media type, bytes) if there is one.
pub(super) fn get_payload(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Payload>> {
    let content_type: Option<String> = row.get(index)?;
    let data: Option<Vec<u8>> = row.get(index + 1)?;
    Ok(content_type
        .zip(data)
        .map(|(content_type, data)| Payload { content_type, data: data.into() }))
}

/// Reads a partition number.
pub(super) fn get_partition(row: &Row<'_>, index: usize) -> rusqlite::Result<PartitionId> {
    row.get(index).map(PartitionId)
}

/// Text of an outcome.
pub(super) fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "SUCCEEDED",
        Outcome::Failed => "FAILED",
        Outcome::Canceled => "CANCELED",
        Outcome::TimedOut => "TIMED_OUT",
        Outcome::Lost => "LOST",
    }
}

/// Reads an outcome if there is one; an unknown word is none.
pub(super) fn get_outcome(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Outcome>> {
    use Outcome as O;
    let text = row.get_ref(index)?.as_str_or_null()?;
    Ok(text.and_then(|text| {
        [O::Succeeded, O::Failed, O::Canceled, O::TimedOut, O::Lost]
            .into_iter()
            .find(|outcome| outcome_text(*outcome) == text)
    }))
}

/// Reads a failure if there is one.
pub(super) fn get_failure(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Failure>> {
    from_json_opt(row, index)
}

/// Text of a job's state.
pub(super) fn job_state_text(state: JobState) -> &'static str {
    match state {
        JobState::Active => "ACTIVE",
        JobState::Paused => "PAUSED",
        JobState::Expired => "EXPIRED",
    }
}

/// Reads [`OPEN_RUN`].
pub(super) fn open_run(row: &Row<'_>) -> rusqlite::Result<OpenRun> {
    Ok(OpenRun {
        id: get_run_id(row, 0)?,
        job: JobId(row.get(1)?),
        app: AppId(row.get(2)?),
        partition: get_partition(row, 3)?,
        revision: counted(row.get(4)?),
        trigger: word(row, 5, TriggerKind::parse)?,
        state: word(row, 6, RunState::parse)?,
        fire_at: get_at(row, 7)?,
        due_at: get_at(row, 8)?,
        created_at: get_at(row, 9)?,
        attempt: counted32(row.get(10)?),
        fence: counted(row.get(11)?),
        lost: counted32(row.get(12)?),
        executor: row.get::<_, Option<String>>(13)?.map(Arc::from),
        session_epoch: counted(row.get(14)?),
        dispatched_at: get_at_opt(row, 15)?,
        acked_at: get_at_opt(row, 16)?,
        started_at: get_at_opt(row, 17)?,
        kill_reason: row.get_ref(18)?.as_str_or_null()?.and_then(KillReason::parse),
        kill_at: get_at_opt(row, 19)?,
        kill_grace: get_span_opt(row, 20)?,
        message: row.get(21)?,
        extra: from_json_opt(row, 22)?,
    })
}

/// Reads [`JOB`]. A spec that can't be read comes back empty, with `problem` set.
pub(super) fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    job_with(row, |text| serde_json::from_str(text).map(Arc::new))
}

/// The same, where `read` makes a spec of its text.
pub(super) fn job_with(
    row: &Row<'_>,
    read: impl FnOnce(&str) -> serde_json::Result<Arc<JobSpec>>,
) -> rusqlite::Result<Job> {
    let mut problem: String = row.get(16)?;
    let text = row.get_ref(6)?.as_str().map_err(rusqlite::Error::from);
    let spec = text.and_then(|text| read(text).map_err(|error| bad(6, error)));
    let spec = spec.unwrap_or_else(|error| {
        problem = format!("the stored job can't be read: {error}");
        Arc::default()
    });
    let state = match row.get_ref(5)?.as_str()? {
        "ACTIVE" => JobState::Active,
        "PAUSED" => JobState::Paused,
        _ => JobState::Expired,
    };
    Ok(Job {
        id: JobId(row.get(0)?),
        app: AppId(row.get(1)?),
        app_name: row.get::<_, String>(2)?.into(),
        name: row.get::<_, String>(3)?.into(),
        partition: get_partition(row, 4)?,
        state,
        spec,
        revision: counted(row.get(7)?),
        version: counted(row.get(8)?),
        created_at: get_at(row, 9)?,
        updated_at: get_at(row, 10)?,
        updated_by: row.get(11)?,
        pause_until: get_at_opt(row, 12)?,
        pause_reason: row.get(13)?,
        effective_from: get_at(row, 14)?,
        next_fire_at: get_at_opt(row, 15)?,
        problem,
        deleted: row.get::<_, Option<i64>>(17)?.is_some(),
        calendars: Calendars::default(),
    })
}

/// Reads [`PARTITION`]; one that nobody has planned yet is planned up to `now`.
pub(super) fn partition(row: &Row<'_>, now: DateTime<Utc>) -> rusqlite::Result<PartitionRow> {
    Ok(PartitionRow {
        id: get_partition(row, 0)?,
        epoch: counted(row.get(1)?),
        planned_until: get_at_opt(row, 2)?.unwrap_or(now),
        served_until: get_at_opt(row, 3)?.unwrap_or(now),
        jobs_version: counted(row.get(4)?),
    })
}

/// Reads [`EXECUTOR`].
pub(super) fn executor(row: &Row<'_>) -> rusqlite::Result<Executor> {
    Ok(Executor {
        row: row.get(0)?,
        app: AppId(row.get(1)?),
        app_name: row.get(2)?,
        name: row.get(3)?,
        spec: from_json(row, 4)?,
        instance_id: row.get(5)?,
        resume_hash: row.get(6)?,
        principal: row.get(7)?,
        session_epoch: counted(row.get(8)?),
        node: row.get(9)?,
        cordoned: row.get(10)?,
        cordon_reason: row.get(11)?,
        peer_address: row.get(12)?,
        connected_at: get_at(row, 13)?,
        disconnected_at: get_at_opt(row, 14)?,
        left: row.get(15)?,
        last_seen_at: get_at(row, 16)?,
    })
}

/// Reads [`APP`].
pub(super) fn app(row: &Row<'_>) -> rusqlite::Result<App> {
    Ok(App {
        id: AppId(row.get(0)?),
        name: row.get(1)?,
        spec: from_json(row, 2)?,
        version: counted(row.get(3)?),
        created_at: get_at(row, 4)?,
    })
}

/// What an error of SQLite means to the caller.
pub(super) fn store_error(error: rusqlite::Error) -> StoreError {
    use rusqlite::{Error as E, ErrorCode as C};
    let text = error.to_string();
    match &error {
        E::SqliteFailure(failure, _) => match failure.code {
            C::DiskFull => StoreError::Full(text),
            C::ReadOnly => StoreError::ReadOnly(text),
            C::DatabaseBusy
            | C::DatabaseLocked
            | C::SystemIoFailure
            | C::CannotOpen
            | C::OutOfMemory
            | C::OperationInterrupted
            | C::PermissionDenied => StoreError::Unavailable(text),
            C::DatabaseCorrupt | C::NotADatabase => StoreError::Corrupt(text),
            _ => StoreError::Internal(text),
        },
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::InvalidColumnType(..) => StoreError::Corrupt(text),
        _ => StoreError::Internal(text),
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        store_error(error)
    }
}
