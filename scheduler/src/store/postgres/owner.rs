//! What only the owner of a partition writes: one statement each, on the pen.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    PostgresStore,
    rows::{Reader, attempt_ref, big, int, query, small_id, sparse, to_json},
};
use crate::{
    model::{
        ids::{AttemptRef, JobId, PartitionId, RunId},
        run::{NewRun, Skip},
    },
    store::{
        OWNER_BATCH_MAX, Result, StoreError, Topic,
        ops::{Addressee, Advance, Dispatch, Plan, PlanRow, Planned, Uses},
    },
};

/// The start of a plan that moves how far its partitions are planned and served, or decides not to run.
/// Partitions whose row somebody holds are left out: that is a change of a job, which would make this
/// plan void anyhow, and the pen must not wait. Their rows have as many versions as moves while somebody
/// holds an old snapshot: the newest is found first, and written where it lies.
const MOVES: &str = "WITH locked AS (
        SELECT p.id, p.place, a.planned_until, a.served_until
        FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $16::timestamptz[],
            $19::timestamptz[]) AS a (id, epoch, jobs_version, planned_until, served_until)
        CROSS JOIN LATERAL (
            SELECT q.id, q.ctid AS place, q.epoch, q.jobs_version FROM partition q
            WHERE q.id = a.id ORDER BY q.moves DESC LIMIT 1 FOR UPDATE SKIP LOCKED
        ) AS p
        WHERE p.epoch = a.epoch AND p.jobs_version = a.jobs_version
    ), moved AS (
        UPDATE partition p SET planned_until = greatest(p.planned_until, l.planned_until),
            served_until = greatest(p.served_until, l.served_until), moves = p.moves + 1
        FROM locked l WHERE p.ctid = l.place AND cardinality($5::uuid[]) = 0
    ), shared AS (SELECT ARRAY(SELECT id FROM locked) AS owned, '{}'::bigint[] AS changed,
        NULL::bigint AS counted)";

/// The start of a plan that only adds runs: no row is locked, since each lock is logged, which for
/// batches of a few runs is as much as the runs themselves. Only jobs that have changed are left out,
/// not all of their partitions.
const ADDS: &str = "WITH shared AS MATERIALIZED (
        SELECT owned, changed, counted FROM share_jobs($6::bigint[], $16::int[], $1::smallint[],
            $2::bigint[], $3::bigint[], $17::int, $18::bigint)
    )";

/// Nobody else inserts planned runs of a partition that is locked, so what exists is asked for: ON
/// CONFLICT costs a further log record per row. Watchers hear of runs that are due at once; the others
/// are shown as SCHEDULED until they are sent.
const RUNS: &str = ", planned AS (
        INSERT INTO open_run (id, job_id, app_id, partition, revision, trigger, state, fire_at,
            due_at, created_at, extra, executor, session_epoch, fence, dispatched_at, waited)
        SELECT r.id, r.job_id, r.app_id, r.partition, r.revision, r.trigger,
            CASE WHEN r.executor IS NULL THEN 'QUEUED' ELSE 'DISPATCHED' END, r.fire_at,
            coalesce(r.due_at, r.fire_at), $4, r.extra::jsonb, r.executor, r.session_epoch,
            CASE WHEN r.executor IS NULL THEN 0 ELSE 1 END,
            CASE WHEN r.executor IS NULL THEN NULL ELSE $4::timestamptz END,
            CASE WHEN r.executor IS NULL THEN true END
        FROM (SELECT unnest($5::uuid[]) AS id, unnest($6::bigint[]) AS job_id,
            unnest($7::bigint[]) AS app_id, unnest($8::smallint[]) AS partition,
            unnest($9::bigint[]) AS revision, unnest($10::text[]) AS trigger,
            unnest($11::timestamptz[]) AS fire_at, unnest($12::timestamptz[]) AS due_at,
            unnest($13::text[]) AS extra, unnest($14::text[]) AS executor,
            unnest($15::bigint[]) AS session_epoch) AS r
        WHERE r.partition = ANY((SELECT owned FROM shared)::smallint[])
            AND r.job_id <> ALL((SELECT changed FROM shared)::bigint[])";

/// What is asked of runs that somebody may have written: two searches for each. The job adds nothing
/// to the id of an ended run, but with both every index of its table is as good as any other: a plan
/// that was made while a day's partition was empty can't have taken the wrong one.
const UNLESS_THERE: &str = " AND NOT EXISTS (
            SELECT FROM ended_run e
            WHERE e.id = r.id AND e.job_id = r.job_id)
            AND NOT EXISTS (SELECT FROM open_run o WHERE o.id = r.id)";

const TOLD: &str = " RETURNING id, due_at
    ), told AS (
        INSERT INTO run_event (at, changed)
        SELECT $4, ARRAY(SELECT id FROM planned WHERE due_at <= $4)
        WHERE EXISTS (SELECT FROM planned WHERE due_at <= $4)
    )";

/// What routes have counted. A statement begins and ends with each table that it may write, which for a
/// few runs costs as much as these: so most plans, whose routes count nothing, are made without.
/// Its parameters begin at `first`.
fn turned(first: usize) -> String {
    let uses = first + 1;
    format!(
        ", turned AS (
        INSERT INTO route_cursor AS c (job_id, cursor, uses)
        SELECT w.job_id, 0, w.uses::jsonb FROM unnest(${first}::bigint[], ${uses}::text[])
            AS w (job_id, uses)
        ON CONFLICT (job_id) DO UPDATE SET uses = excluded.uses
    )"
    )
}

/// Decisions not to run, which are rare: `now` is that parameter's number, theirs begin at `first`.
fn skips(now: usize, first: usize, which: &str) -> String {
    let [ids, jobs, apps, partitions, revisions, fires, messages, counts, untils] =
        std::array::from_fn(|column| first + column);
    format!(
        "skipped AS (
        INSERT INTO ended_run (id, job_id, app_id, revision, trigger, state, fire_at, created_at,
            attempt, fence, session_epoch, ended_at, message, missed_count, missed_until)
        SELECT s.id, s.job_id, s.app_id, s.revision, 'SCHEDULE', 'SKIPPED', s.fire_at, ${now}, 1, 0,
            0, ${now}, s.message, s.missed_count, s.missed_until
        FROM unnest(${ids}::uuid[], ${jobs}::bigint[], ${apps}::bigint[], ${partitions}::smallint[],
            ${revisions}::bigint[], ${fires}::timestamptz[], ${messages}::text[], ${counts}::int[],
            ${untils}::timestamptz[])
            AS s (id, job_id, app_id, partition, revision, fire_at, message, missed_count,
                missed_until)
        WHERE {which} NOT EXISTS (SELECT FROM open_run o WHERE o.id = s.id)
        ON CONFLICT (id) DO NOTHING RETURNING id
    ), told_skips AS (
        INSERT INTO run_event (at, changed) SELECT ${now}, array_agg(id) FROM skipped
        HAVING count(*) > 0
    )"
    )
}

/// What was done: partitions that are the owner's, jobs that were left out, runs that were inserted; and
/// the count of changes at which all partitions are as told.
const DONE: &str = " SELECT owned, changed, ARRAY(SELECT id FROM planned), counted FROM shared";

static PLAN_MOVES: LazyLock<String> =
    LazyLock::new(|| [MOVES, RUNS, UNLESS_THERE, TOLD, &turned(17), DONE].concat());
static PLAN_SKIPS: LazyLock<String> = LazyLock::new(|| {
    let owned = "s.partition = ANY((SELECT owned FROM shared)::smallint[]) AND";
    [MOVES, RUNS, UNLESS_THERE, TOLD, &turned(17), ", ", &skips(4, 20, owned), DONE].concat()
});

/// The statement that only adds runs. Of runs that nobody can have written (`fresh`) none is looked for:
/// should one be there after all, the key refuses the whole plan, and the owner begins anew.
fn adds(fresh: bool, counted: bool) -> &'static str {
    static SQL: LazyLock<[[String; 2]; 2]> = LazyLock::new(|| {
        [UNLESS_THERE, ""].map(|unless_there| {
            ["", &turned(19)].map(|turned| [ADDS, RUNS, unless_there, TOLD, turned, DONE].concat())
        })
    });
    let [looking, unseen] = &*SQL;
    let [uncounted, counting] = if fresh { unseen } else { looking };
    if counted { counting } else { uncounted }
}

pub(super) async fn plan(
    store: &PostgresStore,
    plan: &Plan,
    now: DateTime<Utc>,
) -> Result<Planned> {
    if plan.runs.len() + plan.skips.len() > OWNER_BATCH_MAX {
        return Err(StoreError::Internal(format!("a plan has more than {OWNER_BATCH_MAX} rows")));
    }
    let held = store.pen.partitions();
    let held = plan.advances.iter().filter(|advance| held.contains(&small_id(advance.partition)));
    let advances = Advances::of(held);
    let mut rows: Vec<&PlanRow> = plan.runs.iter().collect();
    rows.sort_by_key(|row| row.run.id);
    rows.dedup_by_key(|row| row.run.id);
    let runs = NewRuns::of(rows.iter().map(|row| &row.run))?;
    let to = Addressees::of(rows.iter().map(|row| row.to.as_ref()));
    let counted = Counted::of(&plan.uses)?;
    let skips = Skips::of(&plan.skips, &runs.ids);
    let stripes: Vec<i32> = rows.iter().map(|row| i32::from(row.run.job.stripe())).collect();
    let only_adds = plan.skips.is_empty() && !plan.runs.is_empty();
    let known = store.seen.known(&advances);
    let mut params: Vec<&(dyn ToSql + Sync)> =
        vec![&advances.ids, &advances.epochs, &advances.versions, &now];
    params.extend(runs.params());
    params.extend(to.params());
    let sql = if only_adds {
        params.extend([&stripes as &(dyn ToSql + Sync), &store.node_lock, &known]);
        if !plan.uses.is_empty() {
            params.extend(counted.params());
        }
        adds(plan.fresh, !plan.uses.is_empty())
    } else {
        params.push(&advances.planned);
        params.extend(counted.params());
        params.push(&advances.served);
        if plan.skips.is_empty() {
            &PLAN_MOVES
        } else {
            params.extend(skips.params());
            &PLAN_SKIPS
        }
    };
    let found = store.pen.write(sql, &params).await?;
    let Some(row) = found.first() else { return Ok(Planned::default()) };
    let mut row = Reader::new(row);
    let mut advanced: Vec<PartitionId> =
        row.get::<Vec<i16>>()?.into_iter().map(|id| PartitionId(id.unsigned_abs())).collect();
    advanced.sort_unstable();
    let changed = row.get::<Vec<i64>>()?.into_iter().map(JobId).collect();
    let inserted: Vec<RunId> = row.get::<Vec<Uuid>>()?.into_iter().map(RunId::from_uuid).collect();
    if let Some(count) = row.get()?
        && known != Some(count)
    {
        store.seen.saw(&advances, count);
    }
    if !inserted.is_empty() || !plan.skips.is_empty() {
        store.hints.tell(Topic::RunEvents);
    }
    Ok(Planned { advanced, changed, inserted })
}

/// Inserts decisions not to run with a change of their jobs.
pub(super) async fn insert_skips(
    tx: &Transaction<'_>,
    decisions: &[Skip],
    now: DateTime<Utc>,
) -> Result<()> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| format!("WITH {} SELECT FROM skipped", skips(1, 2, "")));
    if decisions.is_empty() {
        return Ok(());
    }
    let columns = Skips::of(decisions, &[]);
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&now];
    params.extend(columns.params());
    query(tx, &SQL, &params).await.map(|_| ())
}

/// Partitions as their owner knows them, column by column.
#[derive(Default)]
pub(super) struct Advances {
    ids: Vec<i16>,
    epochs: Vec<i64>,
    versions: Vec<i64>,
    planned: Vec<DateTime<Utc>>,
    served: Vec<DateTime<Utc>>,
}

impl Advances {
    fn of<'a>(advances: impl IntoIterator<Item = &'a Advance>) -> Self {
        let mut columns = Self::default();
        for advance in advances {
            columns.ids.push(small_id(advance.partition));
            columns.epochs.push(big(advance.epoch));
            columns.versions.push(big(advance.jobs_version));
            columns.planned.push(advance.planned_until);
            columns.served.push(advance.served_until);
        }
        columns
    }

    /// Of each partition its id, and its epoch and version of jobs.
    pub(super) fn states(&self) -> impl Iterator<Item = (i16, (i64, i64))> {
        let states = self.epochs.iter().zip(&self.versions);
        self.ids.iter().copied().zip(states.map(|(epoch, version)| (*epoch, *version)))
    }
}

/// Runs to be made, column by column.
#[derive(Default)]
pub(super) struct NewRuns {
    ids: Vec<Uuid>,
    jobs: Vec<i64>,
    apps: Vec<i64>,
    partitions: Vec<i16>,
    revisions: Vec<i64>,
    triggers: Vec<&'static str>,
    fires: Vec<DateTime<Utc>>,
    /// None where it is the fire time.
    dues: Vec<Option<DateTime<Utc>>>,
    extras: Vec<Option<String>>,
}

impl NewRuns {
    /// In the given order: sorted by id, each once.
    pub(super) fn of<'a>(runs: impl IntoIterator<Item = &'a NewRun>) -> Result<Self> {
        let mut columns = Self::default();
        for run in runs {
            columns.ids.push(run.id.to_uuid());
            columns.jobs.push(run.job.0);
            columns.apps.push(run.app.0);
            columns.partitions.push(small_id(run.job.partition()));
            columns.revisions.push(big(run.revision));
            columns.triggers.push(run.trigger.as_str());
            columns.fires.push(run.fire_at);
            columns.dues.push((run.due_at != run.fire_at).then_some(run.due_at));
            columns.extras.push(run.extra.as_deref().map(to_json).transpose()?);
        }
        columns.dues = sparse(columns.dues);
        columns.extras = sparse(columns.extras);
        Ok(columns)
    }

    /// The nine columns, in the order of `unnest` in [`PLAN`].
    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 9] {
        [
            &self.ids,
            &self.jobs,
            &self.apps,
            &self.partitions,
            &self.revisions,
            &self.triggers,
            &self.fires,
            &self.dues,
            &self.extras,
        ]
    }
}

/// Whom runs are sent to, column by column.
#[derive(Default)]
struct Addressees<'a> {
    executors: Vec<Option<&'a str>>,
    epochs: Vec<i64>,
}

impl<'a> Addressees<'a> {
    fn of(all: impl IntoIterator<Item = Option<&'a Addressee>>) -> Self {
        let mut columns = Self::default();
        for to in all {
            columns.executors.push(to.map(|to| &*to.executor));
            columns.epochs.push(to.map_or(0, |to| big(to.session_epoch)));
        }
        columns
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 2] {
        [&self.executors, &self.epochs]
    }
}

#[derive(Default)]
struct Skips<'a> {
    ids: Vec<Uuid>,
    jobs: Vec<i64>,
    apps: Vec<i64>,
    partitions: Vec<i16>,
    revisions: Vec<i64>,
    fires: Vec<DateTime<Utc>>,
    messages: Vec<&'a str>,
    counts: Vec<i32>,
    untils: Vec<DateTime<Utc>>,
}

impl<'a> Skips<'a> {
    /// A fire time that runs after all is not skipped.
    fn of(skips: &'a [Skip], runs: &[Uuid]) -> Self {
        let runs_not = |skip: &&Skip| runs.binary_search(&skip.id.to_uuid()).is_err();
        let mut sorted: Vec<&Skip> = skips.iter().filter(runs_not).collect();
        sorted.sort_unstable_by_key(|skip| skip.id);
        let mut columns = Self::default();
        for skip in sorted {
            columns.ids.push(skip.id.to_uuid());
            columns.jobs.push(skip.job.0);
            columns.apps.push(skip.app.0);
            columns.partitions.push(small_id(skip.job.partition()));
            columns.revisions.push(big(skip.revision));
            columns.fires.push(skip.fire_at);
            columns.messages.push(&skip.message);
            columns.counts.push(int(skip.missed_count));
            columns.untils.push(skip.missed_until);
        }
        columns
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 9] {
        [
            &self.ids,
            &self.jobs,
            &self.apps,
            &self.partitions,
            &self.revisions,
            &self.fires,
            &self.messages,
            &self.counts,
            &self.untils,
        ]
    }
}

const DISPATCH: &str = "WITH sent AS (
        UPDATE open_run r SET state = 'DISPATCHED', executor = w.executor,
            session_epoch = w.session_epoch, fence = r.fence + 1, dispatched_at = $6,
            acked_at = NULL, message = ''
        FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::text[], $5::bigint[])
            AS w (id, attempt, fence, executor, session_epoch)
        WHERE r.id = ANY(ARRAY[w.id]) AND r.state = 'QUEUED' AND r.attempt = w.attempt
            AND r.fence = w.fence AND r.partition = ANY($7::smallint[])
        RETURNING r.id, r.attempt, r.fence
    ), told AS (
        INSERT INTO run_event (at, changed) SELECT $6, array_agg(id) FROM sent HAVING count(*) > 0
    ), turned AS (
        INSERT INTO route_cursor AS c (job_id, cursor, uses)
        SELECT w.job_id, 0, w.uses::jsonb FROM unnest($8::bigint[], $9::text[]) AS w (job_id, uses)
        ON CONFLICT (job_id) DO UPDATE SET uses = excluded.uses
    )
    SELECT id, attempt, fence FROM sent";

pub(super) async fn dispatch(
    store: &PostgresStore,
    batch: &Dispatch,
    now: DateTime<Utc>,
) -> Result<Vec<AttemptRef>> {
    let mut rows: Vec<_> = batch.rows.iter().collect();
    rows.sort_unstable_by_key(|row| row.attempt.run);
    let refs = Refs::of(rows.iter().map(|row| row.attempt));
    let to = Addressees::of(rows.iter().map(|row| Some(&row.to)));
    let counted = Counted::of(&batch.uses)?;
    let held = store.pen.partitions();
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&refs.ids, &refs.attempts, &refs.fences];
    params.extend(to.params());
    params.extend([&now as &(dyn ToSql + Sync), &held]);
    params.extend(counted.params());
    let sent = store.pen.write(DISPATCH, &params).await?;
    if !sent.is_empty() {
        store.hints.tell(Topic::RunEvents);
    }
    sent.iter().map(attempt_ref).collect()
}

/// What routes have counted, column by column.
#[derive(Default)]
struct Counted {
    jobs: Vec<i64>,
    uses: Vec<String>,
}

impl Counted {
    /// A row may be written once in a statement: the last word on a job counts.
    fn of(uses: &[(JobId, Uses)]) -> Result<Self> {
        let mut sorted: Vec<_> = uses.iter().rev().collect();
        sorted.sort_by_key(|(job, _)| *job);
        sorted.dedup_by_key(|(job, _)| *job);
        let mut columns = Self::default();
        for (job, uses) in sorted {
            columns.jobs.push(job.0);
            columns.uses.push(to_json(&**uses)?);
        }
        Ok(columns)
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 2] {
        [&self.jobs, &self.uses]
    }
}

const WAKE: &str = "WITH woken AS (
        UPDATE open_run r SET state = 'QUEUED', attempt = r.attempt + 1,
            dispatched_at = NULL, acked_at = NULL, message = ''
        FROM unnest($1::uuid[], $2::int[], $3::bigint[]) AS w (id, attempt, fence)
        WHERE r.id = ANY(ARRAY[w.id]) AND r.state = 'RETRY_WAIT' AND r.attempt = w.attempt
            AND r.fence = w.fence AND r.partition = ANY($5::smallint[])
        RETURNING r.id, r.attempt, r.fence
    ), told AS (
        INSERT INTO run_event (at, changed) SELECT $4, array_agg(id) FROM woken
        HAVING count(*) > 0
    )
    SELECT id, attempt, fence FROM woken";

pub(super) async fn wake_retries(
    store: &PostgresStore,
    runs: &[AttemptRef],
    now: DateTime<Utc>,
) -> Result<Vec<AttemptRef>> {
    let mut runs = runs.to_vec();
    runs.sort_unstable_by_key(|run| run.run);
    let refs = Refs::of(runs);
    let held = store.pen.partitions();
    let params: [&(dyn ToSql + Sync); 5] = [&refs.ids, &refs.attempts, &refs.fences, &now, &held];
    let woken = store.pen.write(WAKE, &params).await?;
    if !woken.is_empty() {
        store.hints.tell(Topic::RunEvents);
    }
    woken.iter().map(attempt_ref).collect()
}

/// Attempts, column by column.
#[derive(Default)]
pub(super) struct Refs {
    pub(super) ids: Vec<Uuid>,
    pub(super) attempts: Vec<i32>,
    pub(super) fences: Vec<i64>,
}

impl Refs {
    /// In the given order: sort by id before, so that two batches never wait for each other.
    pub(super) fn of(attempts: impl IntoIterator<Item = AttemptRef>) -> Self {
        let mut columns = Self::default();
        for attempt in attempts {
            columns.ids.push(attempt.run.to_uuid());
            columns.attempts.push(int(attempt.attempt));
            columns.fences.push(big(attempt.fence));
        }
        columns
    }
}
