//! What readers see: lists of jobs, runs in full or in lists.

use std::collections::HashMap;

use chrono::TimeDelta;
use deadpool_postgres::{GenericClient, Object};
use tokio_postgres::Row;

use super::{
    PostgresStore, calendars, days,
    ends::parse_outcome,
    filter::{self, ENDED_RUN_FIELDS, Fields, JOB_FIELDS, OPEN_RUN_FIELDS, OPEN_STATE, Values},
    rows::{self, JOB, OPEN_RUN, Reader, query, query_once, uuids},
};
use crate::{
    model::{
        ids::RunId,
        job::Job,
        run::{Attempt, RunRecord, RunState},
    },
    store::{
        Result, StoreError,
        fields::{named_ends, named_open},
        ops::{Condition, JobOrder, JobQuery, RunPage, RunQuery, Scheduled},
    },
};

pub(super) async fn list_jobs(store: &PostgresStore, query: &JobQuery) -> Result<Vec<Job>> {
    let mut values = Values::default();
    let mut tests = vec!["j.deleted_at IS NULL".to_owned()];
    if let Some(apps) = &query.apps {
        let apps: Vec<i64> = apps.iter().map(|app| app.0).collect();
        tests.push(format!("j.app_id = ANY({}::bigint[])", values.bind(apps)));
    }
    for condition in &query.conditions {
        tests.push(filter::sql(condition, &JOB_FIELDS, &mut values)?);
    }
    if let Some(after) = &query.after {
        let mut bind_id = || format!("{}::bigint", values.bind(after.id.0));
        tests.push(match (query.order, after.next_fire_at) {
            (JobOrder::Name, _) => {
                let app = values.bind(after.app_name.clone());
                format!("(a.name, j.name) > ({app}, {})", values.bind(after.name.clone()))
            }
            (JobOrder::Created, _) => format!("j.id < {}", bind_id()),
            (JobOrder::NextFire, Some(at)) => {
                let id = bind_id();
                let at = format!("{}::timestamptz", values.bind(at));
                format!(
                    "(j.next_fire_at > {at} OR (j.next_fire_at = {at} AND j.id > {id}) \
                    OR j.next_fire_at IS NULL)"
                )
            }
            (JobOrder::NextFire, None) => {
                format!("j.next_fire_at IS NULL AND j.id > {}", bind_id())
            }
        });
    }
    let order = match query.order {
        JobOrder::Name => "a.name, j.name",
        JobOrder::Created => "j.id DESC",
        JobOrder::NextFire => "j.next_fire_at NULLS LAST, j.id",
    };
    let sql = format!(
        "SELECT {JOB} FROM app a JOIN job j ON j.app_id = a.id WHERE {} ORDER BY {order} LIMIT {}",
        tests.join(" AND "),
        query.limit
    );
    let client = store.client().await?;
    let found = query_once(&client, &sql, &values.params()).await?;
    let mut jobs = found.iter().map(rows::job).collect::<Result<Vec<_>>>()?;
    calendars::attach(&client, &mut jobs).await?;
    Ok(jobs)
}

/// Jobs whose runs are listed job by job; of more the runs of all are read by time, and filtered.
const LIST_JOBS_MAX: usize = 500;

/// Columns that [`record`] reads behind [`OPEN_RUN`], of an open run.
const OPEN_REST: &str = "a.name, j.name, NULL::timestamptz, NULL::text, NULL::bytea, false, \
    NULL::text, p.fraction, coalesce(p.message, ''), 0, NULL::timestamptz, NULL::text, \
    NULL::timestamptz, NULL::bigint, NULL::text";
/// Where they come from.
const OPEN_FROM: &str = "open_run r JOIN job j ON j.id = r.job_id JOIN app a ON a.id = r.app_id \
    LEFT JOIN run_progress p ON p.run_id = r.id";
/// The same of an ended run, first what [`OPEN_RUN`] names.
const ENDED_RUN: &str = "r.id, r.job_id, r.app_id, r.revision, r.trigger, r.state, r.fire_at, \
    coalesce(r.due_at, r.fire_at), r.created_at, r.attempt, r.fence, coalesce(r.lost, 0), \
    r.executor, r.session_epoch, r.dispatched_at, coalesce(r.acked_at, r.started_at), \
    r.started_at, r.kill_reason, NULL::timestamptz, NULL::bigint, coalesce(r.message, ''), \
    r.extra::text";
/// Then the rest.
const ENDED_REST: &str = "a.name, j.name, r.ended_at, r.output_type, r.output, \
    coalesce(r.output_truncated, false), r.failure::text, r.progress, \
    coalesce(r.progress_message, ''), coalesce(r.missed_count, 0), r.missed_until, r.outcome, r.handler_start_at, r.duration_us, r.late_outcome";
/// Where they come from.
const ENDED_FROM: &str = "ended_run r JOIN job j ON j.id = r.job_id JOIN app a ON a.id = r.app_id";

/// Reads an open or ended run with, in `attempts`, its current attempt if that was sent.
fn record(row: &Row, full: bool) -> Result<RunRecord> {
    let mut row = Reader::new(row);
    let mut run = rows::read_open_run(&mut row)?;
    if let Some(extra) = run.extra.as_mut().filter(|_| !full) {
        extra.params = None;
    }
    let mut record = RunRecord {
        app_name: row.get::<&str>()?.into(),
        job_name: row.get::<&str>()?.into(),
        ended_at: row.get()?,
        output: row.payload()?,
        output_truncated: row.get()?,
        failure: row.json_opt()?,
        progress: row.get()?,
        progress_message: row.get()?,
        missed_count: row.small()?,
        missed_until: row.get()?,
        attempts: Vec::new(),
        run,
    };
    let outcome = row.word_opt(parse_outcome)?;
    let run = &record.run;
    if full && (run.dispatched_at.is_some() || outcome.is_some()) {
        record.attempts.push(Attempt {
            number: run.attempt,
            fence: run.fence,
            executor: run.executor.as_deref().map(str::to_owned),
            session_epoch: run.session_epoch,
            outcome,
            failure: record.failure.clone(),
            dispatched_at: run.dispatched_at,
            acked_at: run.acked_at,
            started_at: row.get()?,
            ended_at: record.ended_at,
            duration: row.duration()?,
            log_records: 0,
            log_dropped: 0,
            late_outcome: row.word_opt(parse_outcome)?,
        });
    }
    Ok(record)
}

pub(super) async fn get_run(store: &PostgresStore, id: RunId) -> Result<RunRecord> {
    let found = get_runs(store, &[id], true).await?.into_iter().next();
    found.ok_or_else(|| StoreError::NotFound(format!("run {id}")))
}

/// Both tables in one statement: a run that ends meanwhile is seen once.
pub(super) async fn get_runs(
    store: &PostgresStore,
    ids: &[RunId],
    full: bool,
) -> Result<Vec<RunRecord>> {
    let rest = ended_rest(full);
    let sql = format!(
        "SELECT {OPEN_RUN}, {OPEN_REST} FROM {OPEN_FROM} WHERE r.id = ANY($1)
        UNION ALL SELECT {ENDED_RUN}, {rest} FROM {ENDED_FROM} WHERE r.id = ANY($1)"
    );
    let client = store.client().await?;
    let found = query(&client, &sql, &[&uuids(ids)]).await?;
    records(&client, &found, full).await
}

/// The output stays where it is when only the basics are asked for.
fn ended_rest(full: bool) -> String {
    match full {
        true => ENDED_REST.to_owned(),
        false => ENDED_REST.replace("r.output_type, r.output,", "NULL::text, NULL::bytea,"),
    }
}

async fn records(client: &Object, found: &[Row], full: bool) -> Result<Vec<RunRecord>> {
    let mut records: Vec<RunRecord> =
        found.iter().map(|row| record(row, full)).collect::<Result<_>>()?;
    if full && !records.is_empty() {
        add_attempts(client, &mut records).await?;
    }
    Ok(records)
}

/// A page of runs: the first rows of either table by id, and of those the first. A table that has
/// none of the states that are asked for is left alone.
///
/// Open runs are read first: one that ends between the two looks is found twice rather than never.
pub(super) async fn list_runs(
    store: &PostgresStore,
    query: &RunQuery,
    until: Option<RunId>,
) -> Result<Vec<RunRecord>> {
    let client = store.client().await?;
    let mut found = Vec::new();
    if named_open(&query.conditions).is_none_or(|states| !states.is_empty()) {
        found = open_page(&client, query, until).await?;
    }
    let ends = named_ends(&query.conditions);
    let may_have_ended = ends.as_ref().is_none_or(|states| !states.is_empty());
    if query.scheduled != Scheduled::Only && may_have_ended {
        let jobs = few_jobs(&client, query).await?;
        let ids = ended_ids(&client, query, jobs, ends, until).await?;
        found.retain(|open| !ids.contains(&open.run.id));
        found.extend(ended(&client, &ids, query.full).await?);
    }
    found.sort_by_key(|run| run.run.id);
    if !query.ascending {
        found.reverse();
    }
    found.truncate(query.limit as usize);
    if query.full && !found.is_empty() {
        add_attempts(&client, &mut found).await?;
    }
    Ok(found)
}

/// The rows of ended runs. Their ids alone, and not a search, lead to the days they are in: with
/// all days at hand the planner would look at the indexes of each.
async fn ended(client: &Object, ids: &[RunId], full: bool) -> Result<Vec<RunRecord>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rest = ended_rest(full);
    let sql = format!("SELECT {ENDED_RUN}, {rest} FROM {ENDED_FROM} WHERE r.id = ANY($1)");
    let found = query(client, &sql, &[&uuids(ids)]).await?;
    found.iter().map(|row| record(row, full)).collect()
}

/// Runs that one look goes through where no index leads to what is asked for.
const SCAN_ROWS_MAX: u32 = 20_000;

/// A page of what is found among the next runs in order, however few that are.
pub(super) async fn scan_runs(store: &PostgresStore, query: &RunQuery) -> Result<RunPage> {
    let ends = named_ends(&query.conditions);
    let has_ended = ends.as_ref().is_none_or(|states| !states.is_empty());
    let by_index = |c: &Condition| {
        matches!(c, Condition::OneOf { field: "state", .. } | Condition::ShardOf(_))
    };
    let by_index = query.conditions.iter().all(by_index)
        && ends.is_none_or(|states| !states.contains(&RunState::Succeeded));
    let until = match query.scheduled == Scheduled::Only || !has_ended || by_index {
        true => None,
        false => last_seen(store, query).await?,
    };
    Ok(RunPage { runs: list_runs(store, query, until).await?, until })
}

/// The last of the runs that one look goes through, if there are more behind it.
async fn last_seen(store: &PostgresStore, query: &RunQuery) -> Result<Option<RunId>> {
    let mut values = Values::default();
    let mut tests = after(query, &mut values);
    if let Some([job]) = query.jobs.as_deref() {
        tests.push(format!("r.job_id = {}::bigint", values.bind(job.0)));
    }
    tests.push("true".to_owned());
    let (tests, order) = (tests.join(" AND "), direction(query));
    let sql = format!(
        "SELECT r.id FROM ended_run r WHERE {tests} ORDER BY r.id {order}
        OFFSET {} LIMIT 1",
        SCAN_ROWS_MAX - 1
    );
    let found = query_once(&store.client().await?, &sql, &values.params()).await?;
    found.first().map(|row| Reader::new(row).run()).transpose()
}

/// That a run comes behind the place where the page begins.
fn after(query: &RunQuery, values: &mut Values) -> Vec<String> {
    let sign = if query.ascending { ">" } else { "<" };
    let bound = |after: RunId| format!("r.id {sign} {}::uuid", values.bind(after.to_uuid()));
    query.after.map(bound).into_iter().collect()
}

/// That a run does not come behind the place where the look ends.
fn not_behind(query: &RunQuery, until: Option<RunId>, values: &mut Values) -> Vec<String> {
    let sign = if query.ascending { "<=" } else { ">=" };
    let bound = |until: RunId| format!("r.id {sign} {}::uuid", values.bind(until.to_uuid()));
    until.map(bound).into_iter().collect()
}

fn direction(query: &RunQuery) -> &'static str {
    if query.ascending { "ASC" } else { "DESC" }
}

async fn open_page(
    client: &Object,
    query: &RunQuery,
    until: Option<RunId>,
) -> Result<Vec<RunRecord>> {
    let mut values = Values::default();
    values.bind(query.now);
    let mut tests = tests(query, &OPEN_RUN_FIELDS, &mut values)?;
    tests.extend(not_behind(query, until, &mut values));
    match query.scheduled {
        Scheduled::With => {}
        Scheduled::Without => tests.push(format!("{OPEN_STATE} <> 'SCHEDULED'")),
        Scheduled::Only => tests.push(format!("{OPEN_STATE} = 'SCHEDULED'")),
    }
    let (tests, order, limit) = (tests.join(" AND "), direction(query), query.limit);
    let sql = format!(
        "SELECT {OPEN_RUN}, {OPEN_REST} FROM {OPEN_FROM} WHERE {tests} ORDER BY r.id {order}
        LIMIT {limit}"
    );
    let found = query_once(client, &sql, &values.params()).await?;
    found.iter().map(|row| record(row, query.full)).collect()
}

/// A page is most often found within a day of its begin: so far it looks at once.
const NEAR: TimeDelta = TimeDelta::days(1);

/// The ids of a page of ended runs, most of them from an index. Those near the page's begin are
/// looked for first, which leaves all other days alone.
async fn ended_ids(
    client: &Object,
    query: &RunQuery,
    jobs: Option<Vec<i64>>,
    states: Option<Vec<RunState>>,
    until: Option<RunId>,
) -> Result<Vec<RunId>> {
    if let Some(near) = near(client, query).await? {
        let ids = search(client, query, jobs.clone(), states.clone(), [until, Some(near)]).await?;
        if ids.len() >= query.limit as usize {
            return Ok(ids);
        }
    }
    search(client, query, jobs, states, [until, None]).await
}

/// The end of what is near to the page's begin; None when nobody can tell where that is.
async fn near(client: &Object, query: &RunQuery) -> Result<Option<RunId>> {
    if !query.ascending {
        let begin = query.after.map_or(query.now, RunId::time);
        return Ok(Some(RunId::first_at(begin - NEAR)));
    }
    let begin = match query.after {
        Some(after) => Some(after.time()),
        None => days::oldest_filled(client).await?,
    };
    // Short of the next day's first run, so that the day alone is opened.
    let end = begin.and_then(|at| at.checked_add_signed(NEAR - TimeDelta::milliseconds(1)));
    Ok(end.map(RunId::first_at))
}

/// Ended runs of a few jobs are read job by job, and what went wrong state by state, each in the
/// order of its index; none behind the `ends`.
async fn search(
    client: &Object,
    query: &RunQuery,
    jobs: Option<Vec<i64>>,
    states: Option<Vec<RunState>>,
    ends: [Option<RunId>; 2],
) -> Result<Vec<RunId>> {
    let mut values = Values::default();
    values.bind(query.now);
    let states = states.filter(|states| !states.contains(&RunState::Succeeded));
    let searches = states.as_ref().map_or(1, Vec::len);
    let jobs = jobs.filter(|jobs| jobs.len() * searches <= LIST_JOBS_MAX);
    let mut sources = Vec::new();
    let mut tests = match &jobs {
        None => tests(query, &ENDED_RUN_FIELDS, &mut values)?,
        // Saying more than the job would make the planner expect next to nothing.
        Some(_) => conditions(query, &ENDED_RUN_FIELDS, &mut values)?,
    };
    for end in ends {
        tests.extend(not_behind(query, end, &mut values));
    }
    if let Some(jobs) = jobs {
        sources.push(format!("unnest({}::bigint[]) AS w (job_id)", values.bind(jobs)));
        tests.push("r.job_id = w.job_id".to_owned());
    }
    if let Some(states) = states {
        let states: Vec<&'static str> = states.into_iter().map(RunState::as_str).collect();
        sources.push(format!("unnest({}::text[]) AS s (state)", values.bind(states)));
        // The second says in so many words that the partial indexes will do.
        tests.push("r.state = s.state AND r.state <> 'SUCCEEDED'".to_owned());
    }
    let by_label = query.conditions.iter().any(|c| matches!(c, Condition::Label { .. }));
    let job = if by_label { "JOIN job j ON j.id = r.job_id" } else { "" };
    let (tests, order, limit) = (tests.join(" AND "), direction(query), query.limit);
    let mut sql = format!(
        "SELECT r.id FROM ended_run r {job} WHERE {tests} ORDER BY r.id {order} LIMIT {limit}"
    );
    if !sources.is_empty() {
        let sources = sources.join(" CROSS JOIN ");
        sql = format!(
            "SELECT p.id FROM {sources} CROSS JOIN LATERAL ({sql}) AS p
            ORDER BY p.id {order} LIMIT {limit}"
        );
    }
    let found = query_once(client, &sql, &values.params()).await?;
    found.iter().map(|row| Reader::new(row).run()).collect()
}

/// The jobs whose runs are asked for, if they are named or those of the apps that are, and not too
/// many. Ended runs have no index by app: with all of an app's jobs at hand it is not needed, and
/// an app with more jobs than that has a large share of all runs.
async fn few_jobs(client: &Object, query: &RunQuery) -> Result<Option<Vec<i64>>> {
    if query.apps.is_none() && query.jobs.is_none() {
        return Ok(None);
    }
    let apps: Option<Vec<i64>> =
        query.apps.as_ref().map(|apps| apps.iter().map(|app| app.0).collect());
    let jobs: Option<Vec<i64>> =
        query.jobs.as_ref().map(|jobs| jobs.iter().map(|job| job.0).collect());
    let sql = "SELECT id FROM job WHERE ($1::bigint[] IS NULL OR app_id = ANY($1))
        AND ($2::bigint[] IS NULL OR id = ANY($2)) LIMIT $3";
    let max = LIST_JOBS_MAX as i64 + 1;
    let found = rows::query(client, sql, &[&apps, &jobs, &max]).await?;
    let ids: Vec<i64> = found.iter().map(|row| Reader::new(row).get()).collect::<Result<_>>()?;
    Ok((ids.len() <= LIST_JOBS_MAX).then_some(ids))
}

/// What a run of the page must be.
fn tests(query: &RunQuery, fields: &Fields, values: &mut Values) -> Result<Vec<String>> {
    let mut tests = conditions(query, fields, values)?;
    if let Some(apps) = &query.apps {
        let apps: Vec<i64> = apps.iter().map(|app| app.0).collect();
        tests.push(format!("r.app_id = ANY({}::bigint[])", values.bind(apps)));
    }
    if let Some(jobs) = &query.jobs {
        let jobs: Vec<i64> = jobs.iter().map(|job| job.0).collect();
        tests.push(format!("r.job_id = ANY({}::bigint[])", values.bind(jobs)));
    }
    Ok(tests)
}

/// The same but for its app and job.
fn conditions(query: &RunQuery, fields: &Fields, values: &mut Values) -> Result<Vec<String>> {
    // The caller's now is bound even where no condition needs it.
    let mut tests = vec!["$1::timestamptz IS NOT NULL".to_owned()];
    for condition in &query.conditions {
        tests.push(filter::sql(condition, fields, values)?);
    }
    tests.extend(after(query, values));
    Ok(tests)
}

/// Puts the attempts before the current one in front, and counts the log records of all.
async fn add_attempts(client: &impl GenericClient, records: &mut [RunRecord]) -> Result<()> {
    let ids = uuids(records.iter().map(|record| &record.run.id));
    let sql = "SELECT run_id, number, fence, executor, session_epoch, outcome, failure::text,
            dispatched_at, acked_at, handler_start_at, ended_at, duration_us, late_outcome
        FROM attempt WHERE run_id = ANY($1) ORDER BY run_id, fence";
    let mut past: HashMap<RunId, Vec<Attempt>> = HashMap::new();
    for row in query(client, sql, &[&ids]).await? {
        let (run, attempt) = past_attempt(&row)?;
        past.entry(run).or_default().push(attempt);
    }
    let sql = "SELECT run_id, attempt, fence, sum(record_count)::bigint, sum(dropped)::bigint
        FROM log_chunk WHERE run_id = ANY($1) GROUP BY run_id, attempt, fence";
    let mut logs: HashMap<(RunId, u32, u64), (u64, u64)> = HashMap::new();
    for row in query(client, sql, &[&ids]).await? {
        let mut row = Reader::new(&row);
        let key = (row.run()?, row.small()?, row.number()?);
        logs.insert(key, (row.number()?, row.number()?));
    }
    for record in records {
        let mut attempts = past.remove(&record.run.id).unwrap_or_default();
        // While a run waits for its next attempt the row still names the one that is over.
        let last = attempts.last().map_or(0, |attempt| attempt.fence);
        attempts.extend(record.attempts.drain(..).filter(|current| current.fence > last));
        for attempt in &mut attempts {
            // Of chunks without a fence only the attempt is known.
            for fence in [0, attempt.fence] {
                let key = (record.run.id, attempt.number, fence);
                let (records, dropped) = logs.get(&key).copied().unwrap_or_default();
                attempt.log_records += records;
                attempt.log_dropped += dropped;
            }
        }
        record.show_attempts(attempts);
    }
    Ok(())
}

fn past_attempt(row: &Row) -> Result<(RunId, Attempt)> {
    let mut row = Reader::new(row);
    let run = row.run()?;
    let attempt = Attempt {
        number: row.small()?,
        fence: row.number()?,
        executor: row.get()?,
        session_epoch: row.number()?,
        outcome: row.word_opt(parse_outcome)?,
        failure: row.json_opt()?,
        dispatched_at: row.get()?,
        acked_at: row.get()?,
        started_at: row.get()?,
        ended_at: row.get()?,
        duration: row.duration()?,
        log_records: 0,
        log_dropped: 0,
        late_outcome: row.word_opt(parse_outcome)?,
    };
    Ok((run, attempt))
}
