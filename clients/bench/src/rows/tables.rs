//! How large the database is, and how many dead rows wait for a vacuum.

use anyhow::Result;
use tokio_postgres::Client;

const NAMES: [&str; 6] = [
    "database_mib",
    "job_mib",
    "open_run_mib",
    "ended_run_mib",
    "dead_rows_of_open_run",
    "dead_rows_of_all",
];

/// Sizes with their indexes, by name with the unit.
pub(super) async fn sizes(client: &Client) -> Result<Vec<(&'static str, f64)>> {
    let sql = "SELECT pg_database_size(current_database())::float8 / 1048576,
            pg_total_relation_size('job')::float8 / 1048576,
            pg_total_relation_size('open_run')::float8 / 1048576,
            (SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::float8 / 1048576
                FROM pg_inherits WHERE inhparent = 'ended_run'::regclass),
            (SELECT n_dead_tup::float8 FROM pg_stat_user_tables WHERE relname = 'open_run'),
            (SELECT sum(n_dead_tup)::float8 FROM pg_stat_user_tables)";
    let row = client.query_one(sql, &[]).await?;
    Ok(NAMES.into_iter().enumerate().map(|(at, name)| (name, row.get(at))).collect())
}
