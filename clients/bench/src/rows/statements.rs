//! Where Postgres's time and log go, statement by statement.

use anyhow::Result;
use tokio_postgres::Client;

/// What the server needs to count.
pub(super) const SETTINGS: &str = "\nshared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.track = all
pg_stat_statements.track_planning = on\n";
/// Statements that are told of.
const SHOWN: i64 = 24;

/// Begins to count anew.
pub(super) async fn reset(client: &Client) -> Result<()> {
    let sql =
        "CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SELECT pg_stat_statements_reset()";
    Ok(client.batch_execute(sql).await?)
}

/// Prints what cost the most, per run.
pub(super) async fn print(client: &Client, runs: u64) -> Result<()> {
    let sql = "SELECT total_exec_time * 1000, wal_bytes::bigint, wal_records, wal_fpi, calls, rows,
            regexp_replace(query, '\\s+', ' ', 'g'), total_plan_time * 1000
        FROM pg_stat_statements ORDER BY total_exec_time + total_plan_time DESC LIMIT $1";
    println!(
        "   us/run  planning  calls/run  WAL B/run  records/run  pages/run  rows/call  statement"
    );
    for row in client.query(sql, &[&SHOWN]).await? {
        let per_run = |value: f64| value / runs.max(1) as f64;
        let (us, wal): (f64, i64) = (row.get(0), row.get(1));
        let (records, pages, calls, rows): (i64, i64, i64, i64) =
            (row.get(2), row.get(3), row.get(4), row.get(5));
        let (wal, records) = (per_run(wal as f64), per_run(records as f64));
        let (pages, each) = (per_run(pages as f64), rows as f64 / calls.max(1) as f64);
        let text: String = row.get::<_, String>(6).chars().take(60).collect();
        let (us, planning) = (per_run(us), per_run(row.get(7)));
        let calls = per_run(calls as f64);
        println!(
            "{us:9.2} {planning:9.2} {calls:10.3} {wal:10.1} {records:12.2} {pages:10.3} {each:10.1}  {text}"
        );
    }
    Ok(())
}
