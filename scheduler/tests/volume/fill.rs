//! Fills a schema with ended runs of many jobs over many days, set by set.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use clawjob_scheduler::{
    model::ids::RunId,
    store::{
        Store,
        ops::{Condition, Retention, RunQuery},
    },
};

use crate::server::Schema;

/// Days over which the runs are spread, up to [`base`].
pub(crate) const DAYS: i64 = 30;
/// Whatever is kept for so long stays, the days of the real present too.
pub(crate) const FOREVER_DAYS: u64 = 100 * 365;
/// Jobs, in apps of a hundred.
const JOBS: i64 = 2_000;
/// Days that one look of the upkeep makes.
const DAYS_MADE: usize = 3;
/// Pause between two looks for a connection that should end.
const LOOK: Duration = Duration::from_millis(20);
/// Runs written by one statement.
const STEP: i64 = 500_000;

/// The present of the runs: noon of a day far ahead, so that no day of the real present is among
/// theirs.
pub(crate) fn base() -> DateTime<Utc> {
    DateTime::from_timestamp(4_000_017_600, 0).expect("in range")
}

/// The instant so many days from [`base`].
pub(crate) fn day(days: i64) -> DateTime<Utc> {
    base() + TimeDelta::days(days)
}

/// What was made.
pub(crate) struct Filled {
    /// A tenth of all runs are its.
    pub(crate) big_job: i64,
    /// It has few runs, which all went well.
    pub(crate) quiet_job: i64,
    /// An app of a hundred jobs.
    pub(crate) app: i64,
    /// A run in the middle of all.
    pub(crate) middle: RunId,
    /// The last one.
    pub(crate) newest: RunId,
    runs: i64,
}

/// Writes the runs: one in ten is the big job's; of a thousand 50 were skipped and 2 failed, one in
/// ten thousand was lost, none was canceled. The quiet job's went well.
pub(crate) async fn fill(schema: &Schema, store: &dyn Store, runs: i64) -> Filled {
    let forever = Duration::from_secs(FOREVER_DAYS * 86_400);
    for days in (0..=DAYS + 1).step_by(DAYS_MADE) {
        let keep = Retention { runs: forever, logs: forever };
        store.prune(&keep, day(-days)).await.expect("days are made");
    }
    let client = schema.connect().await;
    let made = format!(
        "INSERT INTO app (name, spec, version, created_at)
         SELECT 'app' || n, '{{}}', 1, now() FROM generate_series(1, {apps}) AS n;
         INSERT INTO job (app_id, name, partition, state, spec, revision, version, jobs_version,
             created_at, updated_at, updated_by, effective_from)
         SELECT 1 + (n - 1) / 100, 'job' || n, n % 64, 'ACTIVE', '{{\"handler\": \"h\"}}', 1, 1, 1,
             now(), now(), 'fill', now()
         FROM generate_series(1, {JOBS}) AS n;
         INSERT INTO job_revision (job_id, revision, spec, updated_at, updated_by)
         SELECT id, 1, spec, now(), 'fill' FROM job;",
        apps = JOBS / 100,
    );
    client.batch_execute(&made).await.expect("jobs");
    for from in (0..runs).step_by(usize::try_from(STEP).expect("small")) {
        let until = (from + STEP).min(runs);
        client.batch_execute(&insert(from, until, runs)).await.expect("runs");
    }
    // As the server does by itself before long.
    client.batch_execute("VACUUM (ANALYZE)").await.expect("vacuumed");
    let pick = async |sql: &str| {
        let id: uuid::Uuid = client.query_one(sql, &[]).await.expect("a run").get(0);
        RunId::from_uuid(id)
    };
    let filled = Filled {
        big_job: 1,
        quiet_job: JOBS,
        app: 3,
        middle: pick(&format!(
            "SELECT id FROM ended_run WHERE fire_at >= '{}' ORDER BY id LIMIT 1",
            day(-DAYS / 2)
        ))
        .await,
        newest: pick("SELECT id FROM ended_run ORDER BY id DESC LIMIT 1").await,
        runs,
    };
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.expect("a pid").get(0);
    drop(client);
    gone(schema, &format!("pid = {pid}")).await;
    filled
}

/// Waits until no such connection is left: what each has read is counted once it has ended.
pub(crate) async fn gone(schema: &Schema, which: &str) {
    let client = schema.connect().await;
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE {which}");
    let end = async {
        while client.query_one(&sql, &[]).await.expect("a count").get::<_, i64>(0) > 0 {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(crate::TIMEOUT, end).await.expect("the connection ends");
}

fn insert(from: i64, until: i64, runs: i64) -> String {
    let start = day(-DAYS).timestamp_millis();
    let span = DAYS * 86_400_000;
    format!(
        "INSERT INTO ended_run (id, job_id, app_id, revision, fence, session_epoch, fire_at,
             created_at, dispatched_at, started_at, ended_at, handler_start_at, duration_us,
             attempt, trigger, state, outcome, executor)
         SELECT (lpad(to_hex(ms), 12, '0') || substr(md5(i::text), 1, 20))::uuid, job,
             1 + (job - 1) / 100, 1, 1, 1, at, at - interval '5 s', at, at, at + interval '1 s', at,
             1000000, 1, 'SCHEDULE', state,
             CASE state WHEN 'SKIPPED' THEN NULL ELSE state END, 'executor-' || i % 50
         FROM (
             SELECT i, ms, to_timestamp(ms / 1000.0) AS at, job, CASE
                 WHEN job = {JOBS} THEN 'SUCCEEDED' WHEN i % 10000 = 77 THEN 'LOST'
                 WHEN i % 1000 < 50 THEN 'SKIPPED' WHEN i % 500 = 60 THEN 'FAILED'
                 ELSE 'SUCCEEDED' END AS state
             FROM (
                 SELECT i, {start} + i * {span} / {runs} AS ms,
                     CASE WHEN i % 10 = 0 THEN 1 ELSE 2 + i % {others} END AS job
                 FROM generate_series({from}::bigint, {until}::bigint - 1) AS i
             ) AS spread
         ) AS made",
        others = JOBS - 1,
    )
}

impl Filled {
    /// How many runs the question is about, by a plain count.
    pub(crate) async fn count(&self, schema: &Schema, question: &RunQuery) -> i64 {
        let mut tests = vec!["true".to_owned()];
        for condition in &question.conditions {
            let Condition::OneOf { values, .. } = condition else { panic!("not asked here") };
            tests.push(format!("state IN ('{}')", values.join("','")));
        }
        if let Some(jobs) = &question.jobs {
            tests.push(format!("job_id = {}", jobs[0].0));
        }
        if let Some(apps) = &question.apps {
            tests.push(format!("app_id = {}", apps[0].0));
        }
        if let Some(after) = question.after {
            tests.push(format!("id < '{}'", after.to_uuid()));
        }
        self.number(schema, &format!("FROM ended_run WHERE {}", tests.join(" AND "))).await
    }

    /// Runs fired before the instant that are left, of one job or all.
    pub(crate) async fn count_before(
        &self,
        schema: &Schema,
        at: DateTime<Utc>,
        job: Option<i64>,
    ) -> i64 {
        let of = job.map_or(String::new(), |job| format!("AND job_id = {job}"));
        self.number(schema, &format!("FROM ended_run WHERE fire_at < '{at}' {of}")).await
    }

    /// Runs of the big job that were made before the instant.
    pub(crate) fn made_before(&self, at: DateTime<Utc>, job: i64) -> i64 {
        assert_eq!(job, self.big_job);
        let (start, span) = (day(-DAYS).timestamp_millis(), DAYS * 86_400_000);
        let fired = |i: &i64| start + i * span / self.runs < at.timestamp_millis();
        let of_job = (0..self.runs).step_by(10).take_while(fired).count();
        i64::try_from(of_job).expect("few")
    }

    async fn number(&self, schema: &Schema, from: &str) -> i64 {
        let client = schema.connect().await;
        let sql = format!("SELECT count(*) {from}");
        client.query_one(&sql, &[]).await.expect("a count").get(0)
    }

    /// Gives a job a retention of its own.
    pub(crate) async fn keep_runs(&self, schema: &Schema, job: i64, days: i64) {
        let keep = format!("{{\"run_retention\": {{\"secs\": {}, \"nanos\": 0}}}}", days * 86_400);
        let sql = format!("UPDATE job SET spec = spec || '{keep}'::jsonb WHERE id = {job}");
        schema.connect().await.batch_execute(&sql).await.expect("changed");
    }

    /// Days with a partition of their own, those of the real present left out.
    pub(crate) async fn days(&self, schema: &Schema) -> Vec<NaiveDate> {
        let sql = "SELECT relname::text FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
            WHERE inhparent = 'ended_run'::regclass";
        let found = schema.connect().await.query(sql, &[]).await.expect("days");
        let days = found.iter().filter_map(|row| {
            let name: String = row.get(0);
            NaiveDate::parse_from_str(name.strip_prefix("ended_run_")?, "%Y%m%d").ok()
        });
        let first = day(-DAYS - 1).date_naive();
        days.filter(|day| *day >= first).collect()
    }
}
