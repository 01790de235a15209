//! Changes of jobs: what is asked for at the same time is changed in one transaction.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, LazyLock},
};

use chrono::{DateTime, Utc};
use deadpool_postgres::{Pool, Transaction};
use futures::future::try_join3;
use tokio::sync::mpsc;
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    calendars, chains,
    desk::{self, Desk},
    error,
    jobs::{Locks, RAISE},
    notify::Hints,
    planned::{REMOVE, insert_all, insert_passed, skip_due, tell_gone},
    requests::{begin, commit},
    rows::{self, JOB, Reader, big, job_state, query},
};
use crate::{
    model::{
        ids::{JobId, PartitionId},
        job::{Job, JobSpec},
    },
    store::{
        Result, StoreError, Topic,
        ops::{JobChange, PartitionRow, Replan, ReplanInput},
        specs,
    },
};

/// Changes in one transaction: the partitions of all of them are locked until it ends.
const BATCH_MAX: usize = 32;
/// Changes that wait to be taken; further callers wait for room.
const WAITING_MAX: usize = 1_024;

/// What is to be changed, and when that was asked for.
pub(super) struct Asked {
    pub(super) job: JobId,
    pub(super) change: JobChange,
    pub(super) replan: Replan,
    pub(super) now: DateTime<Utc>,
}

type Order = desk::Order<Asked, Job>;

/// Takes changes, each until it is committed: the answer is the job as it is then. One transaction follows
/// the other: two at a time would each be half as large, and cost nearly as much.
pub(super) type Changes = Desk<Asked, Job>;

/// Hands out the desk and what its task needs.
pub(super) fn new() -> (Changes, mpsc::Receiver<Order>) {
    Desk::new(WAITING_MAX)
}

/// Makes the changes that are ordered until `stop`.
pub(super) async fn run(
    pool: Pool,
    hints: Arc<Hints>,
    mut orders: mpsc::Receiver<Order>,
    stop: CancellationToken,
) {
    let mut waiting = Vec::with_capacity(BATCH_MAX);
    loop {
        if waiting.is_empty() {
            let taken = tokio::select! {
                () = stop.cancelled() => return,
                taken = orders.recv_many(&mut waiting, BATCH_MAX) => taken,
            };
            if taken == 0 {
                return;
            }
        }
        let batch = take_batch(&mut waiting);
        if batch.is_empty() {
            continue;
        }
        let made = tokio::select! {
            () = stop.cancelled() => return,
            made = make_each(&pool, &hints, &batch) => made,
        };
        for (order, made) in batch.into_iter().zip(made) {
            let _ = order.done.send(made);
        }
    }
}

/// Takes out what goes into one transaction: of each job the first change, and of those with chains one:
/// the next is to see what this one adds. What follows of the same jobs stays behind what stays. Whoever
/// stopped waiting before the change began gets none.
fn take_batch(waiting: &mut Vec<Order>) -> Vec<Order> {
    waiting.retain(|order| !order.done.is_closed());
    let (mut jobs, mut chained) = (HashSet::new(), false);
    let joins = |order: &mut Order| {
        let chains = order.what.change.spec.as_ref().is_some_and(JobSpec::starts_others);
        let joins = jobs.insert(order.what.job) && !(chains && chained);
        chained |= chains && joins;
        joins
    };
    waiting.extract_if(.., joins).collect()
}

/// What became of each order.
async fn make_each(pool: &Pool, hints: &Hints, batch: &[Order]) -> Vec<Result<Job>> {
    match make(pool, hints, batch).await {
        Ok(made) => made,
        // One change that the database can't make is nobody else's fault.
        Err(fault) if batch.len() > 1 && !matches!(fault, StoreError::Unavailable(_)) => {
            let mut made = Vec::with_capacity(batch.len());
            for order in batch {
                let alone = make(pool, hints, std::slice::from_ref(order)).await;
                made.extend(alone.unwrap_or_else(|fault| vec![Err(fault)]));
            }
            made
        }
        Err(fault) => batch.iter().map(|_| Err(fault.clone())).collect(),
    }
}

/// Makes the changes in one transaction, all but those that are refused; returns what became of each, in
/// order.
async fn make(pool: &Pool, hints: &Hints, batch: &[Order]) -> Result<Vec<Result<Job>>> {
    let mut client = pool.get().await.map_err(error::pool)?;
    let tx = begin(&mut client).await?;
    // One moment for all of them: what one leaves to the past, none looks for in the future.
    let now = batch.iter().map(|order| order.what.now).max().unwrap_or_default();
    let ids: Vec<JobId> = batch.iter().map(|order| order.what.job).collect();
    let (partitions, mut found) = lock_and_read(&tx, &ids, now).await?;
    let mut answers = Vec::with_capacity(batch.len());
    let mut edits = Vec::with_capacity(batch.len());
    for asked in batch.iter().map(|order| &order.what) {
        let before = found.remove(&asked.job);
        let partition = partitions.get(&asked.job.partition());
        answers.push(match (before, partition) {
            (None, _) => Err(StoreError::NotFound("the job".to_owned())),
            (_, None) => Err(StoreError::Internal(format!("no {:?}", asked.job.partition()))),
            (Some(before), Some(partition)) => match asked.change.refusal(&before) {
                Some(refusal) => Err(refusal),
                None => {
                    edits.push(Edit::new(asked, before, *partition, now));
                    Ok(())
                }
            },
        });
    }
    if edits.is_empty() {
        return Ok(answers.into_iter().map(|answer| answer.and_then(|()| none())).collect());
    }
    let runs_changed = write(&tx, &mut edits, now).await?;
    commit(tx).await?;
    for partition in partitions.into_keys() {
        hints.tell(Topic::Jobs(partition));
        if runs_changed {
            hints.tell(Topic::Inbox(partition));
        }
    }
    if runs_changed {
        hints.tell(Topic::RunEvents);
    }
    let mut after = edits.into_iter().map(|edit| edit.after);
    let made = |answer: Result<()>| answer.and_then(|()| after.next().map_or_else(none, Ok));
    Ok(answers.into_iter().map(made).collect())
}

fn none() -> Result<Job> {
    Err(StoreError::Internal("a change was not made".to_owned()))
}

/// Locks the jobs' partitions, raises their versions, and reads the jobs as they are then, without what
/// their calendars cover. All statements are sent at once: the last sees all that was committed before
/// the others had their locks.
async fn lock_and_read(
    tx: &Transaction<'_>,
    ids: &[JobId],
    now: DateTime<Utc>,
) -> Result<(BTreeMap<PartitionId, PartitionRow>, HashMap<JobId, Job>)> {
    static BY_IDS: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT {JOB} FROM job j JOIN app a ON a.id = j.app_id WHERE j.id = ANY($1)")
    });
    let sql = "SELECT id FROM partition WHERE id = ANY($1) ORDER BY id FOR UPDATE";
    let locks = Locks::of(ids);
    let raise_params = locks.params();
    let raw: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let (_, raised, read) = rows::answer(async {
        // Prepared before any is sent: what is sent first comes first.
        let lock = tx.prepare_cached(sql).await?;
        let raise = tx.prepare_cached(&RAISE).await?;
        let read = tx.prepare_cached(&BY_IDS).await?;
        try_join3(
            tx.query(&lock, &raise_params[..1]),
            tx.query(&raise, &raise_params),
            tx.query(&read, &[&raw]),
        )
        .await
    })
    .await?;
    let mut partitions = BTreeMap::new();
    for row in &raised {
        let partition = rows::partition(row, now)?;
        partitions.insert(partition.id, partition);
    }
    let mut jobs = Vec::with_capacity(read.len());
    for row in &read {
        jobs.push(rows::job(row)?);
    }
    calendars::attach(tx, &mut jobs).await?;
    Ok((partitions, jobs.into_iter().map(|job| (job.id, job)).collect()))
}

/// A change that is not refused.
struct Edit<'a> {
    asked: &'a Asked,
    before: Job,
    after: Job,
    partition: PartitionRow,
}

impl<'a> Edit<'a> {
    fn new(asked: &'a Asked, before: Job, partition: PartitionRow, now: DateTime<Utc>) -> Self {
        let after = asked.change.applied(before.clone(), now);
        Self { asked, before, after, partition }
    }
}

/// Returns whether any runs were changed.
async fn write(tx: &Transaction<'_>, edits: &mut [Edit<'_>], now: DateTime<Utc>) -> Result<bool> {
    for edit in edits.iter() {
        if let Some(spec) = &edit.asked.change.spec {
            chains::refuse_cycle(tx, &edit.before.resource_name(), spec).await?;
        }
    }
    let passed: Vec<_> = edits
        .iter()
        .map(|edit| (&edit.before, edit.partition.planned_until, edit.asked.change.cuts_past()))
        .collect();
    let mut runs_changed = insert_passed(tx, &passed, now).await?;
    let dropping = edits.iter().filter(|edit| edit.asked.change.drop_due);
    let dropped: Vec<_> =
        dropping.map(|edit| (edit.before.id, edit.asked.change.skip_message())).collect();
    runs_changed |= skip_due(tx, &dropped, now).await?;
    let nothing = JobSpec::default();
    for Edit { asked, before, after, .. } in edits.iter() {
        let named = if asked.change.delete { &nothing } else { &*after.spec };
        calendars::link(tx, before.id, &before.spec, named).await?;
    }
    for edit in edits.iter_mut() {
        calendars::attach(tx, std::slice::from_mut(&mut edit.after)).await?;
    }
    let mut gone = update(tx, edits, now).await?;
    let mut runs = Vec::new();
    for edit in edits.iter() {
        let input = ReplanInput { job: edit.after.clone(), partition: edit.partition, now };
        runs.append(&mut (edit.asked.replan)(&input));
    }
    let made = insert_all(tx, &runs, now).await?;
    runs_changed |= !gone.is_empty() || !made.is_empty();
    gone.retain(|run| !made.contains(run));
    tell_gone(tx, &gone, now).await?;
    Ok(runs_changed)
}

/// Writes jobs as they are now, and removes their planned runs like
/// [`remove_planned`](super::planned::remove_planned); returns their ids.
async fn update(tx: &Transaction<'_>, edits: &[Edit<'_>], now: DateTime<Utc>) -> Result<Vec<Uuid>> {
    // Without a new spec the stored text stays, also one that can't be read here.
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "WITH {REMOVE}, w AS MATERIALIZED (
                SELECT w.*, w.text::jsonb AS spec FROM unnest($1::bigint[], $3::text[], $4::text[],
                    $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[], $9::text[],
                    $10::timestamptz[], $11::text[], $12::timestamptz[], $13::text[], $14::bool[])
                    AS w (id, state, text, revision, version, jobs_version, updated_at, updated_by,
                        pause_until, pause_reason, effective_from, problem, deleted)
            ), revised AS (
                INSERT INTO job_revision (job_id, revision, spec, updated_at, updated_by)
                SELECT id, revision, spec, updated_at, updated_by FROM w WHERE spec IS NOT NULL
            ), updated AS (
                UPDATE job j SET state = w.state, spec = coalesce(w.spec, j.spec),
                    revision = w.revision, version = w.version, jobs_version = w.jobs_version,
                    updated_at = w.updated_at, updated_by = w.updated_by,
                    pause_until = w.pause_until, pause_reason = w.pause_reason,
                    effective_from = w.effective_from, problem = w.problem,
                    deleted_at = CASE WHEN w.deleted THEN $2 END, next_fire_at = NULL
                FROM w WHERE j.id = ANY(ARRAY[w.id])
            )
            SELECT id FROM gone"
        )
    });
    let columns = Columns::of(edits)?;
    let gone = query(tx, &SQL, &columns.params(&now)).await?;
    gone.iter().map(|row| Reader::new(row).get()).collect()
}

/// Jobs as they are after their changes, column by column.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<i64>,
    states: Vec<&'static str>,
    specs: Vec<Option<String>>,
    revisions: Vec<i64>,
    versions: Vec<i64>,
    jobs_versions: Vec<i64>,
    updated_at: Vec<DateTime<Utc>>,
    updated_by: Vec<&'a str>,
    pause_until: Vec<Option<DateTime<Utc>>>,
    pause_reasons: Vec<&'a str>,
    effective_from: Vec<DateTime<Utc>>,
    problems: Vec<&'a str>,
    deleted: Vec<bool>,
}

impl<'a> Columns<'a> {
    fn of(edits: &'a [Edit<'_>]) -> Result<Self> {
        let mut columns = Self::default();
        for Edit { asked, after, partition, .. } in edits {
            let revised = asked.change.spec.is_some();
            columns.ids.push(after.id.0);
            columns.states.push(job_state(after.state));
            columns.specs.push(revised.then(|| specs::write(&after.spec)).transpose()?);
            columns.revisions.push(big(after.revision));
            columns.versions.push(big(after.version));
            columns.jobs_versions.push(big(partition.jobs_version));
            columns.updated_at.push(after.updated_at);
            columns.updated_by.push(&after.updated_by);
            columns.pause_until.push(after.pause_until);
            columns.pause_reasons.push(&after.pause_reason);
            columns.effective_from.push(after.effective_from);
            columns.problems.push(&after.problem);
            columns.deleted.push(after.deleted);
        }
        Ok(columns)
    }

    fn params<'b>(&'b self, now: &'b DateTime<Utc>) -> [&'b (dyn ToSql + Sync); 14] {
        [
            &self.ids,
            now,
            &self.states,
            &self.specs,
            &self.revisions,
            &self.versions,
            &self.jobs_versions,
            &self.updated_at,
            &self.updated_by,
            &self.pause_until,
            &self.pause_reasons,
            &self.effective_from,
            &self.problems,
            &self.deleted,
        ]
    }
}
