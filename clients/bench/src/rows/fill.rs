//! Very many jobs at once: copies of one, written straight into the database while no scheduler
//! runs. By the contract a million would take longer than what is measured of them.

use anyhow::{Result, bail};
use tokio_postgres::Client;

/// Jobs written by one statement.
const STEP: i64 = 100_000;

/// The job's share, as the scheduler computes it from its id: the upper half of a product modulo
/// 2^64, modulo 64.
const PARTITION: &str = "(div((i.id::numeric * 11400714819323198485) % 18446744073709551616,
    4294967296) % 64)::smallint";

/// What the copies' schedules are, as SQL over `n`, the number of a copy from 1.
#[derive(Clone, Copy, Debug)]
pub(super) enum Schedules {
    /// A cron expression each, once a day, of 1,440.
    Daily,
    /// The original's, each begun so many milliseconds after the one before.
    Shifted {
        /// The original's begin, microseconds since 1970.
        start_us: i64,
    },
}

/// Copies the job named `j-0` of the app: `j-1` to `j-{count}`.
pub(super) async fn copies(
    client: &Client,
    app: &str,
    count: i64,
    schedules: Schedules,
) -> Result<()> {
    let spec = match schedules {
        Schedules::Daily => "jsonb_set(t.spec, '{schedules,0,trigger}', jsonb_build_object('Cron',
            jsonb_build_object('text', format('%s %s * * *', n % 60, n / 60 % 24),
                'dialect', 'UNIX')))"
            .to_owned(),
        Schedules::Shifted { start_us } => format!(
            "jsonb_set(t.spec, '{{schedules,0,start_at}}', to_jsonb(to_char(
                to_timestamp(({start_us} / 1000 + n) / 1000.0) AT TIME ZONE 'UTC',
                'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')))"
        ),
    };
    let sql = format!(
        "WITH t AS MATERIALIZED (
            SELECT j.* FROM job j JOIN app a ON a.id = j.app_id
            WHERE a.name = $1 AND j.name = 'j-0'
        ), i AS MATERIALIZED (
            SELECT n, nextval(pg_get_serial_sequence('job', 'id')) AS id
            FROM generate_series($2::bigint, $3::bigint) AS n
        ), made AS (
            INSERT INTO job (id, app_id, name, partition, state, spec, revision, version,
                jobs_version, created_at, updated_at, updated_by, effective_from)
            OVERRIDING SYSTEM VALUE
            SELECT i.id, t.app_id, 'j-' || n, {PARTITION}, t.state, {spec}, 1, 1, t.jobs_version,
                t.created_at, t.updated_at, t.updated_by, t.effective_from
            FROM t, i
            RETURNING id, spec, updated_at, updated_by
        )
        INSERT INTO job_revision (job_id, revision, spec, updated_at, updated_by)
        SELECT id, 1, spec, updated_at, updated_by FROM made"
    );
    for from in (1..=count).step_by(usize::try_from(STEP)?) {
        client.execute(&sql, &[&app, &from, &count.min(from + STEP - 1)]).await?;
    }
    tidy(client).await
}

/// Changes all copies in one statement; `set` is SQL over their rows.
pub(super) async fn change(client: &Client, app: &str, set: &str) -> Result<()> {
    let sql = format!(
        "UPDATE job SET {set} WHERE name <> 'j-0' AND app_id = (SELECT id FROM app WHERE name = $1)"
    );
    if client.execute(&sql, &[&app]).await? == 0 {
        bail!("no job of {app} to change");
    }
    tidy(client).await
}

/// What was written must not be cleaned up while something is measured.
async fn tidy(client: &Client) -> Result<()> {
    client.batch_execute("VACUUM (ANALYZE) job").await?;
    client.batch_execute("CHECKPOINT").await?;
    Ok(())
}
