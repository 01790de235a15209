//! Day partitions of `ended_run`.

use chrono::{DateTime, Days, NaiveDate, Utc};
use tokio_postgres::{Client, error::SqlState};

use super::{
    error,
    rows::{answer, in_time},
};
use crate::{
    model::ids::RunId,
    store::{Result, StoreError},
};

/// Days made ahead of today, so that a cluster whose upkeep stands still goes on in good order.
const DAYS_AHEAD: u64 = 3;
/// Start of a day partition's name; the date follows as `YYYYMMDD`.
const PREFIX: &str = "ended_run_";
/// Making or dropping a partition stops all who read or end runs for a moment, from when it waits
/// for those that are under way: it waits at most this long, and is tried again later.
const LOCK: &str = "SET LOCAL lock_timeout = '100ms'";

/// Makes the partitions of today and the days ahead that are missing.
pub(super) async fn make_ahead(client: &Client, now: DateTime<Utc>) -> Result<()> {
    let today = now.date_naive();
    let existing = list(client).await?;
    for ahead in 0..=DAYS_AHEAD {
        let Some(day) = today.checked_add_days(Days::new(ahead)) else { continue };
        if !existing.contains(&day) {
            make(client, day).await?;
        }
    }
    Ok(())
}

/// Drops partitions of days before `oldest`. Returns how many went.
pub(super) async fn drop_old(client: &Client, oldest: NaiveDate, at_most: usize) -> Result<usize> {
    let mut old: Vec<NaiveDate> =
        list(client).await?.into_iter().filter(|day| *day < oldest).collect();
    old.sort_unstable();
    old.truncate(at_most);
    for day in &old {
        let sql = format!("BEGIN; {LOCK}; DROP TABLE IF EXISTS {}; COMMIT", name(*day));
        run(client, &sql).await?;
    }
    Ok(old.len())
}

/// When the oldest day begins that is known to hold runs: the server counts pages when it vacuums or
/// analyzes. There may be older runs, on days of few and in no day at all.
pub(super) async fn oldest_filled(client: &Client) -> Result<Option<DateTime<Utc>>> {
    let oldest = with_pages(client, 1).await?.into_iter().min();
    Ok(oldest.map(begin_of))
}

/// The days that have a partition.
async fn list(client: &Client) -> Result<Vec<NaiveDate>> {
    with_pages(client, 0).await
}

/// The days whose partition was last seen with so many pages or more.
async fn with_pages(client: &Client, pages: i32) -> Result<Vec<NaiveDate>> {
    let sql = "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'ended_run'::regclass AND c.relpages >= $1";
    let rows = answer(client.query(sql, &[&pages])).await?;
    let days = rows.iter().filter_map(|row| {
        let name: &str = row.try_get(0).ok()?;
        NaiveDate::parse_from_str(name.strip_prefix(PREFIX)?, "%Y%m%d").ok()
    });
    Ok(days.collect())
}

/// Makes a day's partition. Rows of that day that are in the default partition already keep it
/// from being made: the day then stays there.
///
/// It is not analyzed: of a table without statistics the planner expects ten pages and takes the
/// right indexes, of one known to be empty it takes any, and keeps that plan while the table grows. Of
/// which columns statistics are gathered, and of how many rows, is not copied with a table.
async fn make(client: &Client, day: NaiveDate) -> Result<()> {
    let Some(next) = day.succ_opt() else { return Ok(()) };
    let (name, from, until) = (name(day), first_id(day), first_id(next));
    let sql = format!(
        "BEGIN; {LOCK};
         CREATE TABLE {name} (LIKE ended_run INCLUDING ALL);
         DO $$ BEGIN EXECUTE (
             SELECT 'ALTER TABLE {name} '
                 || string_agg(format('ALTER COLUMN %I SET STATISTICS %s', attname, attstattarget), ', ')
             FROM pg_attribute
             WHERE attrelid = 'ended_run'::regclass AND attnum > 0 AND attstattarget >= 0
         ); END $$;
         ALTER TABLE ended_run ATTACH PARTITION {name} FOR VALUES FROM ('{from}') TO ('{until}');
         COMMIT"
    );
    match run(client, &sql).await {
        Err(StoreError::AlreadyExists(_)) => Ok(()),
        done => done,
    }
}

/// Runs a transaction given as text; another node may have done the same before.
async fn run(client: &Client, sql: &str) -> Result<()> {
    let Err(fault) = in_time(client.batch_execute(sql)).await? else { return Ok(()) };
    answer(client.batch_execute("ROLLBACK")).await?;
    let done = [
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::UNIQUE_VIOLATION,
        SqlState::CHECK_VIOLATION,
        SqlState::INVALID_OBJECT_DEFINITION,
    ];
    match fault.code() {
        Some(code) if done.contains(code) => {
            Err(StoreError::AlreadyExists("the day's partition".to_owned()))
        }
        _ => Err(error::db(fault)),
    }
}

fn name(day: NaiveDate) -> String {
    format!("{PREFIX}{}", day.format("%Y%m%d"))
}

/// The smallest run id of a day.
fn first_id(day: NaiveDate) -> uuid::Uuid {
    RunId::first_at(begin_of(day)).to_uuid()
}

fn begin_of(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(chrono::NaiveTime::MIN).and_utc()
}
