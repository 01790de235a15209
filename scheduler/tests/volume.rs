//! Very many ended runs on Postgres: what lists read, what the clean-up holds, what a deletion waits
//! for. The tests look at rows and locks, not at time; `ten_million_runs` measures:
//!
//! `cargo test --release --test volume -- --ignored --nocapture` (`CLAWJOB_RUNS` for another number)

#![allow(clippy::disallowed_methods, reason = "it measures real time, and waits for a real server")]

#[path = "volume/fill.rs"]
mod fill;
#[path = "volume/measure.rs"]
mod measure;
#[path = "support/postgres.rs"]
mod server;
#[path = "support/stores.rs"]
mod stores;

use std::{collections::BTreeMap, time::Duration};

use clawjob_scheduler::{
    model::{
        ids::{AppId, JobId, RunId},
        run::RunState,
    },
    store::{
        Store,
        ops::*,
        postgres::{PostgresConfig, PostgresStore},
    },
};
use fill::{DAYS, FOREVER_DAYS, Filled, base, day};
use stores::{TIMEOUT, all, open};

/// Runs of the ordinary tests.
const RUNS: i64 = 60_000;
/// Rows that a list of 50 may read, however many there are: of each day and index one beyond.
const READ_MAX: i64 = 3_000;

fn list(conditions: Vec<Condition>) -> RunQuery {
    RunQuery {
        apps: None,
        jobs: None,
        conditions,
        scheduled: Scheduled::Without,
        ascending: false,
        after: None,
        limit: 50,
        full: false,
        now: base(),
    }
}

fn in_state(states: &[RunState]) -> Vec<Condition> {
    let values = states.iter().map(|state| state.as_str().to_owned()).collect();
    vec![Condition::OneOf { field: "state", values, negated: false }]
}

/// What people and loops ask for, by name.
fn questions(filled: &Filled) -> Vec<(&'static str, RunQuery)> {
    let jobs = |ids: &[i64]| Some(ids.iter().map(|id| JobId(*id)).collect::<Vec<_>>());
    let quiet = filled.quiet_job;
    vec![
        ("newest", list(vec![])),
        ("oldest", RunQuery { ascending: true, ..list(vec![]) }),
        ("a page in the middle", RunQuery { after: Some(filled.middle), ..list(vec![]) }),
        ("of one job", RunQuery { jobs: jobs(&[filled.big_job]), ..list(vec![]) }),
        ("of a quiet job", RunQuery { jobs: jobs(&[quiet]), ..list(vec![]) }),
        ("of one app", RunQuery { apps: Some(vec![AppId(filled.app)]), ..list(vec![]) }),
        ("failed", list(in_state(&[RunState::Failed]))),
        ("lost, of which there are few", list(in_state(&[RunState::Lost]))),
        ("canceled, of which there are none", list(in_state(&[RunState::Canceled]))),
        ("all trouble", list(in_state(&[RunState::Failed, RunState::Lost, RunState::TimedOut]))),
        (
            "failed of one job that never failed",
            RunQuery { jobs: jobs(&[quiet]), ..list(in_state(&[RunState::Failed])) },
        ),
        (
            "lost of one big job",
            RunQuery { jobs: jobs(&[filled.big_job]), ..list(in_state(&[RunState::Lost])) },
        ),
        (
            "failed of one app",
            RunQuery { apps: Some(vec![AppId(filled.app)]), ..list(in_state(&[RunState::Failed])) },
        ),
        ("running now", list(in_state(&[RunState::Running]))),
    ]
}

/// Rows that were read, by scans of tables and by indexes.
const ROWS: &str = "seq_tup_read + coalesce(idx_tup_fetch, 0)";
/// Rows that indexes led to.
const ROWS_BY_INDEX: &str = "coalesce(idx_tup_fetch, 0)";
/// Scans of a table and of its indexes.
const SCANS: &str = "seq_scan + coalesce(idx_scan, 0)";

/// What the server has counted of each day of ended runs. Told by each connection once it has ended.
async fn counted(schema: &server::Schema, what: &str) -> BTreeMap<String, i64> {
    let sql = format!(
        "SELECT relname::text, {what} FROM pg_stat_user_tables
        WHERE schemaname = $1 AND relname LIKE 'ended_run%'"
    );
    let client = schema.connect().await;
    let found = client.query(&sql, &[&schema.name]).await.expect("counts");
    found.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Rows that the work reads on a store of its own.
async fn reads_of(schema: &server::Schema, work: impl AsyncFnOnce(&PostgresStore)) -> i64 {
    counts_of(schema, ROWS, work).await.values().sum()
}

/// What the server counts, by day, of the work on a store of its own; days without any are left out.
async fn counts_of(
    schema: &server::Schema,
    what: &str,
    work: impl AsyncFnOnce(&PostgresStore),
) -> BTreeMap<String, i64> {
    let before = counted(schema, what).await;
    let name = format!("reads_{:x}", rand::random::<u64>());
    let url = format!("{}&application_name={name}", schema.url);
    let store = PostgresStore::connect(PostgresConfig::new(&url)).await.expect("connects");
    work(&store).await;
    store.close().await;
    fill::gone(schema, &format!("application_name = '{name}'")).await;
    let mut counts = counted(schema, what).await;
    for (day, n) in &mut counts {
        *n -= before.get(day).copied().unwrap_or_default();
    }
    counts.retain(|_, n| *n > 0);
    counts
}

#[tokio::test]
async fn x45_lists_and_scans_read_a_page_of_very_many_runs() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let filled = fill::fill(&schema, &*store, RUNS).await;
    store.close().await;
    let mut asked = Vec::new();
    for (name, question) in questions(&filled) {
        let mut found = Vec::new();
        let read = reads_of(&schema, async |store| {
            found = store.list_runs(&question).await.expect("a page");
        })
        .await;
        assert!(found.is_sorted_by_key(|run| std::cmp::Reverse(run.run.id)) || question.ascending);
        assert!(read < READ_MAX, "{name} read {read} rows of {RUNS}");
        asked.push((name, question, found.len()));
    }
    let read = reads_of(&schema, async |store| {
        store.get_run(filled.newest).await.expect("found");
    })
    .await;
    assert!(read < 10, "one run read {read} rows");
    // Last, since a plain count reads them all.
    for (name, question, found) in asked {
        let expected = filled.count(&schema, &question).await.min(50);
        assert_eq!(found as i64, expected, "{name}");
    }
}

#[tokio::test]
async fn x45_the_first_page_of_the_newest_and_of_the_oldest_runs_opens_few_days() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    fill::fill(&schema, &*store, RUNS).await;
    store.close().await;
    for ascending in [false, true] {
        let opened = counts_of(&schema, SCANS, async |store| {
            let question = RunQuery { ascending, ..list(vec![]) };
            assert_eq!(store.list_runs(&question).await.expect("a page").len(), 50);
        })
        .await;
        // The day or two with the page, those that were made ahead and are empty, what is in no day.
        assert!((1..=8).contains(&opened.len()), "{opened:?}");
    }
}

#[tokio::test]
async fn x45_a_list_that_no_index_helps_looks_at_some_runs_and_goes_on() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    fill::fill(&schema, &*store, RUNS).await;
    store.close().await;
    let values = vec!["executor-7".to_owned()];
    let by_executor = vec![Condition::OneOf { field: "executor", values, negated: false }];
    let rare = vec![Condition::OneOf {
        field: "executor",
        values: vec!["nobody".to_owned()],
        negated: false,
    }];
    let all = |conditions: Vec<Condition>| RunQuery { limit: 1000, ..list(conditions) };
    let (mut found, mut pages) = (Vec::new(), 0);
    let store = open(&schema).await;
    let mut question = all(by_executor);
    loop {
        let page = store.scan_runs(&question).await.expect("a page");
        let last = page.runs.last().map(|run| run.run.id).filter(|_| page.runs.len() == 1000);
        found.extend(page.runs.into_iter().map(|run| run.run.id));
        pages += 1;
        question.after = last.or(page.until);
        if question.after.is_none() {
            break;
        }
    }
    assert_eq!(found.len() as i64, RUNS / 50, "each of its runs, once");
    assert!(found.is_sorted_by(|a, b| a > b) && pages > 2);
    store.close().await;
    let mut until = None;
    let read = reads_of(&schema, async |store| {
        let page = store.scan_runs(&all(rare)).await.expect("a page");
        assert!(page.runs.is_empty());
        until = page.until;
    })
    .await;
    assert!(until.is_some(), "there is more to look at");
    assert!(read < RUNS * 3 / 4, "one look read {read} rows of {RUNS}");
}

#[tokio::test]
async fn x45_deleting_a_job_with_very_many_runs_waits_for_none_of_them() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let filled = fill::fill(&schema, &*store, RUNS).await;
    let all = all();
    store.take_partitions("n", &all, base()).await.expect("all partitions");
    // Somebody has every run of the job locked, and goes on reading.
    let other = schema.connect().await;
    let lock = format!("SELECT id FROM ended_run WHERE job_id = {} FOR UPDATE", filled.big_job);
    other.batch_execute("BEGIN").await.expect("begins");
    other.query(&lock, &[]).await.expect("locked");
    let change = JobChange { delete: true, drop_due: true, ..JobChange::by("ann") };
    let none: Replan = Box::new(|_| Vec::new());
    let delete = store.change_job(JobId(filled.big_job), &change, none, base());
    let deleted = tokio::time::timeout(TIMEOUT, delete).await.expect("it waits for the runs");
    assert!(deleted.expect("deleted").deleted);
    let rows = store.check_partitions(&all).await.expect("held");
    let advances = rows.iter().map(|row| Advance {
        partition: row.id,
        epoch: row.epoch,
        jobs_version: row.jobs_version,
        planned_until: base(),
        served_until: base(),
    });
    let plan = Plan { advances: advances.collect(), ..Plan::default() };
    let planned = tokio::time::timeout(TIMEOUT, store.plan(&plan, base())).await;
    let planned = planned.expect("the schedule waits for the deletion").expect("planned");
    assert_eq!(planned.advanced.len(), all.len());
    other.batch_execute("ROLLBACK").await.expect("ends");
    let named = RunQuery { jobs: Some(vec![JobId(filled.big_job)]), ..list(vec![]) };
    assert_eq!(store.list_runs(&named).await.expect("a page").len(), 50, "its runs stay");
}

/// Runs by day, oldest first, those of no day at the end.
async fn left(schema: &server::Schema) -> i64 {
    let client = schema.connect().await;
    client.query_one("SELECT count(*) FROM ended_run", &[]).await.expect("a count").get(0)
}

fn keep(days: u64) -> Retention {
    let day = Duration::from_secs(86_400);
    Retention { runs: day * u32::try_from(days).expect("few"), logs: day }
}

#[tokio::test]
async fn r61_very_many_old_runs_go_by_days_and_small_steps_and_lists_stay_right() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let filled = fill::fill(&schema, &*store, RUNS).await;
    let per_day = RUNS / DAYS;
    // One job keeps its runs for longer than the server: others go row by row. One for shorter.
    filled.keep_runs(&schema, filled.big_job, 365).await;
    filled.keep_runs(&schema, filled.quiet_job, 1).await;
    let (mut steps, mut before) = (0, left(&schema).await);
    loop {
        let more = store.prune(&keep(10), base()).await.expect("a step");
        let now = left(&schema).await;
        assert!(before - now <= 2_000, "one step removed {} runs", before - now);
        before = now;
        steps += 1;
        assert!(steps < 200, "there is no end to it");
        if steps == 5 {
            // In the midst of it a list is whole.
            let newest = store.list_runs(&list(vec![])).await.expect("a page");
            assert_eq!(newest.len(), 50);
            assert_eq!(newest[0].run.id, filled.newest);
        }
        if !more {
            break;
        }
    }
    assert_eq!(filled.count_before(&schema, day(-11), Some(filled.big_job)).await, {
        filled.made_before(day(-11), filled.big_job)
    });
    let all_before = filled.count_before(&schema, day(-11), None).await;
    assert_eq!(all_before, filled.made_before(day(-11), filled.big_job), "others are gone");
    let quiet = RunQuery { jobs: Some(vec![JobId(filled.quiet_job)]), ..list(vec![]) };
    let cutoff = RunId::first_at(day(-1));
    let quiet = store.list_runs(&quiet).await.expect("a page");
    assert!(quiet.iter().all(|run| run.run.id >= cutoff), "the short-lived are still there");

    // Without the long-lived job whole days go, though no statement removes their rows. One whose
    // lock is not to be had at once is left for the next time.
    filled.keep_runs(&schema, filled.big_job, 1).await;
    let first = (base() - chrono::TimeDelta::days(10)).date_naive();
    let gone = async {
        while filled.days(&schema).await.iter().any(|day| *day < first) {
            store.prune(&keep(10), base()).await.expect("a step");
        }
    };
    tokio::time::timeout(TIMEOUT, gone).await.expect("old days go");
    assert!(left(&schema).await <= per_day * 11);
}

#[tokio::test]
async fn r61_a_step_of_the_clean_up_reads_no_more_of_a_big_job_than_it_removes() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let filled = fill::fill(&schema, &*store, RUNS).await;
    store.close().await;
    filled.keep_runs(&schema, filled.big_job, 1).await;
    // Where a step removes a large share of a small day, that is scanned; here the search counts.
    let read = counts_of(&schema, ROWS_BY_INDEX, async |store| {
        let step = store.prune(&keep(FOREVER_DAYS), base()).await;
        assert!(step.expect("a step"), "there is more to remove");
    })
    .await;
    let old = filled.made_before(day(-1), filled.big_job);
    let removed = old - filled.count_before(&schema, day(-1), Some(filled.big_job)).await;
    assert_eq!(removed, 1_000, "of {old}");
    // Each once to find it, and once to remove it.
    let read: i64 = read.values().sum();
    assert!(read <= 2 * removed, "one step read {read} rows to remove {removed} of {old}");
}

#[tokio::test]
async fn r61_a_day_that_is_being_read_is_dropped_later_and_nobody_waits_long() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let filled = fill::fill(&schema, &*store, RUNS / 10).await;
    let days = filled.days(&schema).await.len();
    let reader = schema.connect().await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("begins");
    reader.query("SELECT count(*) FROM ended_run", &[]).await.expect("reads");
    let step = tokio::time::timeout(TIMEOUT, store.prune(&keep(2), base())).await;
    step.expect("it waits for the reader").expect("a step");
    assert_eq!(filled.days(&schema).await.len(), days, "a day was dropped under its reader");
    reader.batch_execute("COMMIT").await.expect("ends");
    let gone = async {
        while filled.days(&schema).await.len() == days {
            store.prune(&keep(2), base()).await.expect("a step");
        }
    };
    tokio::time::timeout(TIMEOUT, gone).await.expect("it is dropped now");
}
