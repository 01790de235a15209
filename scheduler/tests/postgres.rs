//! What only the store on Postgres does: locks, fences, notifications, pooling.

#![allow(clippy::disallowed_methods, reason = "a real server is waited for in real time")]

#[path = "support/pooler.rs"]
mod pooler;
#[path = "support/postgres.rs"]
mod server;
#[path = "support/stores.rs"]
mod stores;

use std::time::Duration;

use clawjob_scheduler::{
    model::{
        executor::ExecutorRef,
        ids::{AttemptRef, JobId, PartitionId, RunId},
        job::{Job, JobState},
        run::{NewRun, Outcome, RunState, TriggerKind},
    },
    store::{
        ClusterStore as _, OWNER_BATCH_MAX, Result, Store, StoreError, Topic,
        cluster::{HANDED_MAX, Hand},
        ops::*,
        postgres::{PostgresConfig, PostgresStore},
    },
};
use stores::{all, at, job, open, until};
use tokio_postgres::Client;

/// The server process of the store's pen: the one that holds advisory locks of its class.
async fn pen_of(watch: &Client) -> i32 {
    let sql = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint = (
            SELECT (get_byte(value, 0)::bigint << 24) + (get_byte(value, 1) << 16)
                + (get_byte(value, 2) << 8) + get_byte(value, 3)
            FROM cluster_secret WHERE name = 'partition_lock_class')
        LIMIT 1";
    watch.query_one(sql, &[]).await.expect("a session holds locks").get(0)
}

async fn terminate(watch: &Client, pid: i32) {
    let done = watch.query_one("SELECT pg_terminate_backend($1)", &[&pid]).await.expect("a word");
    assert!(done.get::<_, bool>(0), "no process {pid}");
}

fn fire(job: &Job, seconds: i64) -> NewRun {
    NewRun {
        id: RunId::scheduled(job.id, at(seconds)),
        job: job.id,
        app: job.app,
        revision: job.revision,
        trigger: TriggerKind::Schedule,
        fire_at: at(seconds),
        due_at: at(seconds),
        extra: None,
    }
}

fn standing(row: &PartitionRow) -> Advance {
    Advance {
        partition: row.id,
        epoch: row.epoch,
        jobs_version: row.jobs_version,
        planned_until: at(100),
        served_until: at(0),
    }
}

fn plan(row: &PartitionRow, run: NewRun) -> Plan {
    Plan { advances: vec![standing(row)], runs: vec![run.into()], ..Plan::default() }
}

async fn take(store: &PostgresStore, node: &str, want: &[PartitionId]) -> Vec<PartitionRow> {
    store.take_partitions(node, want, at(0)).await.expect("an answer")
}

fn is_unavailable<T: std::fmt::Debug>(answer: Result<T>) {
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
}

#[tokio::test]
async fn two_stores_never_hold_one_partition() {
    let schema = server::Schema::create().await;
    let (one, two) = tokio::join!(open(&schema), open(&schema));
    let want = all();
    let (of_one, of_two) = tokio::join!(take(&one, "n1", &want), take(&two, "n2", &want));
    let mut held: Vec<PartitionId> = of_one.iter().chain(&of_two).map(|row| row.id).collect();
    held.sort_unstable();
    assert_eq!(held, all());
    let one_holds: Vec<PartitionId> = of_one.iter().map(|row| row.id).collect();
    one.release_partitions(&one_holds).await.expect("released");
    let moved = take(&two, "n2", &all()).await;
    assert_eq!(moved.iter().map(|row| row.id).collect::<Vec<_>>(), one_holds);
    assert!(moved.iter().all(|row| row.epoch == 2), "{moved:?}");
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn a_database_that_a_newer_version_has_migrated_is_opened_again() {
    let schema = server::Schema::create().await;
    open(&schema).await.close().await;
    let sql = "INSERT INTO refinery_schema_history
        VALUES (9999, 'further', '2027-01-01T00:00:00Z', '1')";
    schema.connect().await.batch_execute(sql).await.expect("a migration of a newer version");
    open(&schema).await.ensure_app("shop", at(0)).await.expect("an app");
}

#[tokio::test]
async fn schemas_of_one_database_are_clusters_of_their_own() {
    let (here, there) = (server::Schema::create().await, server::Schema::create().await);
    let (one, two) = (open(&here).await, open(&there).await);
    assert_eq!(take(&one, "n1", &all()).await.len(), 64);
    assert_eq!(take(&two, "n1", &all()).await.len(), 64);
    job(&one, "a").await;
    let elsewhere = two.get_job("shop", "a").await;
    assert!(matches!(elsewhere, Err(StoreError::NotFound(_))), "{elsewhere:?}");
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn a_pen_that_dies_costs_all_partitions_and_frees_them_for_others() {
    let schema = server::Schema::create().await;
    let (one, two) = (open(&schema).await, open(&schema).await);
    let watch = schema.connect().await;
    take(&one, "n1", &all()).await;
    assert_eq!(take(&two, "n2", &all()).await, []);
    terminate(&watch, pen_of(&watch).await).await;
    let mut got = 0;
    until(async || {
        got += take(&two, "n2", &all()).await.len();
        (got == 64).then_some(())
    })
    .await;
    until(async || one.check_partitions(&all()).await.err()).await;
    is_unavailable(one.dispatch(&Dispatch::default(), at(1)).await);
    is_unavailable(one.take_inbox(&all()).await);
    // The pen is opened anew for whoever asks for partitions.
    assert_eq!(take(&one, "n1", &all()).await, []);
    two.release_partitions(&[PartitionId(5)]).await.expect("released");
    assert_eq!(take(&one, "n1", &all()).await.len(), 1);
    is_unavailable(one.check_partitions(&all()).await);
    assert_eq!(one.check_partitions(&[PartitionId(5)]).await.expect("held").len(), 1);
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn an_idle_owner_keeps_its_partitions() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    take(&store, "n1", &all()).await;
    let watch = schema.connect().await;
    let pid = pen_of(&watch).await;
    // Longer than the server lets a silent session of its kind live.
    let sql = "SELECT pg_sleep(6)";
    watch.batch_execute(sql).await.expect("time passes");
    assert_eq!(pen_of(&watch).await, pid);
    assert_eq!(store.check_partitions(&all()).await.expect("held").len(), 64);
    store.close().await;
}

#[tokio::test]
async fn a_statement_of_an_owner_that_is_cut_off_does_not_commit_after_its_lock_moved() {
    let schema = server::Schema::create().await;
    let (one, two) = (open(&schema).await, open(&schema).await);
    let job = job(&one, "a").await;
    let rows = take(&one, "n1", &[job.partition]).await;
    let planned = one.plan(&plan(&rows[0], fire(&job, 10)), at(1)).await.expect("a plan");
    let attempt = AttemptRef { run: planned.inserted[0], attempt: 1, fence: 0 };
    // Somebody holds the run's row, so the dispatch of the first owner waits in the server.
    let blocker = schema.connect().await;
    let hold = format!("BEGIN; SELECT 1 FROM open_run WHERE job_id = {} FOR UPDATE", job.id.0);
    blocker.batch_execute(&hold).await.expect("holds the row");
    let row = DispatchRow { attempt, to: Addressee { executor: "e1".into(), session_epoch: 1 } };
    let batch = Dispatch { rows: vec![row], uses: Vec::new() };
    let (late, sent) = (one.clone(), batch.clone());
    let late = tokio::spawn(async move { late.dispatch(&sent, at(11)).await });
    let watch = schema.connect().await;
    until(async || {
        let sql = "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'";
        let pid = pen_of(&watch).await;
        watch.query_opt(sql, &[&pid]).await.expect("activity")
    })
    .await;
    terminate(&watch, pen_of(&watch).await).await;
    let taken = until(async || take(&two, "n2", &[job.partition]).await.into_iter().next()).await;
    assert_eq!(taken.epoch, 2);
    blocker.batch_execute("COMMIT").await.expect("lets go");
    is_unavailable(late.await.expect("ends"));
    let open = two.open_runs(&[attempt.run]).await.expect("open runs");
    assert_eq!(open[0].attempt_ref(), attempt, "the late dispatch did nothing");
    assert_eq!(two.dispatch(&batch, at(12)).await.expect("sent").len(), 1);
    one.close().await;
    two.close().await;
}

/// The start of a change of the job, in a transaction of its own.
fn change(job: &Job) -> String {
    format!(
        "BEGIN; UPDATE partition SET jobs_version = jobs_version + 1 WHERE id = {};
        SELECT pg_advisory_xact_lock('job'::regclass::oid::int, {})",
        job.partition.0,
        job.id.stripe()
    )
}

#[tokio::test]
async fn a_plan_does_not_wait_for_a_job_that_is_being_changed() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let job = job(&store, "a").await;
    let rows = take(&store, "n1", &[job.partition]).await;
    let before = plan(&rows[0], fire(&job, 9));
    assert_eq!(store.plan(&before, at(1)).await.expect("a plan").inserted.len(), 1);
    let blocker = schema.connect().await;
    blocker.batch_execute(&change(&job)).await.expect("holds it as whoever changes a job does");
    let made = plan(&rows[0], fire(&job, 10));
    let moved = Plan { advances: made.advances.clone(), ..Plan::default() };
    let refused = store.plan(&made, at(1)).await.expect("an answer at once");
    let advanced = vec![job.partition];
    assert_eq!(refused, Planned { advanced, changed: vec![job.id], inserted: Vec::new() });
    let refused = store.plan(&moved, at(1)).await.expect("an answer at once");
    assert_eq!(refused, Planned::default());
    blocker.batch_execute("ROLLBACK").await.expect("lets go");
    assert_eq!(store.plan(&made, at(1)).await.expect("a plan").inserted.len(), 1);
    store.close().await;
}

/// Nobody changes a job when the plan begins, so it has the gate of its node and no lock of a job.
#[tokio::test]
async fn a_change_of_a_job_waits_for_a_plan_that_is_under_way_and_sees_what_it_added() {
    let schema = server::Schema::create().await;
    let (one, two) = (open(&schema).await, open(&schema).await);
    let job = job(&one, "a").await;
    let rows = take(&one, "n1", &[job.partition]).await;
    let before = plan(&rows[0], fire(&job, 9));
    assert_eq!(one.plan(&before, at(1)).await.expect("a plan").inserted.len(), 1);
    let watch = schema.connect().await;
    let pen = pen_of(&watch).await;
    // Somebody has written a row with the run's key, so the plan waits in the server.
    let (blocker, made) = (schema.connect().await, plan(&rows[0], fire(&job, 10)));
    let key = made.runs[0].run.id.to_uuid();
    let hold = format!(
        "BEGIN; INSERT INTO open_run SELECT (jsonb_populate_record(r, '{{\"id\": \"{key}\"}}')).*
        FROM open_run r"
    );
    blocker.batch_execute(&hold).await.expect("holds the key");
    let own = "SELECT pg_backend_pid()";
    let blocking: i32 = blocker.query_one(own, &[]).await.expect("its number").get(0);
    let planning = tokio::spawn(async move { one.plan(&made, at(2)).await.map(|it| (one, it)) });
    let waits_for = async |pid: i32| {
        let sql = "SELECT FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
        until(async || watch.query_opt(sql, &[&pid]).await.expect("activity")).await;
    };
    waits_for(blocking).await;
    let sql = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND locktype = 'advisory'
        AND classid = 'job'::regclass::oid";
    let locks: i64 = watch.query_one(sql, &[&pen]).await.expect("a count").get(0);
    assert_eq!(locks, 0, "of jobs");
    let stop = JobChange {
        state: Some((JobState::Paused, None, String::new())),
        drop_due: true,
        ..JobChange::by("me")
    };
    let id = job.id;
    let changing = tokio::spawn(async move {
        let changed = two.change_job(id, &stop, Box::new(|_| Vec::new()), at(20)).await;
        changed.map(|_| two)
    });
    waits_for(pen).await;
    blocker.batch_execute("ROLLBACK").await.expect("lets go");
    let (one, planned) = planning.await.expect("ends").expect("a plan");
    assert_eq!(planned.inserted.len(), 1);
    let two = changing.await.expect("ends").expect("changed");
    let open = two.load_open_runs(&RunScope::Jobs(vec![id])).await.expect("open runs");
    assert_eq!(open.runs, [], "a stopped job has runs that wait");
    one.close().await;
    two.close().await;
}

/// Takes runs of these fire times, a batch each, through all their states.
async fn serve(store: &PostgresStore, job: &Job, row: &PartitionRow, batches: &[Vec<i64>]) {
    let mut planned = Vec::new();
    for times in batches {
        let runs = times.iter().map(|time| fire(job, *time).into()).collect();
        let made = Plan { runs, ..plan(row, fire(job, 0)) };
        planned.push(store.plan(&made, at(1)).await.expect("a plan").inserted);
    }
    let executor = ExecutorRef { app: job.app, name: "e1".into() };
    let to = Addressee { executor: executor.name.clone(), session_epoch: 1 };
    let mut sent = Vec::new();
    for runs in planned {
        let attempts = runs.into_iter().map(|run| AttemptRef { run, attempt: 1, fence: 0 });
        let rows = attempts.map(|attempt| DispatchRow { attempt, to: to.clone() }).collect();
        let batch = Dispatch { rows, uses: Vec::new() };
        sent.push(store.dispatch(&batch, at(1)).await.expect("dispatched"));
    }
    for batch in &sent {
        let ack = |attempt: &AttemptRef| Ack { attempt: *attempt, by: executor.clone(), at: at(2) };
        let acks: Vec<Ack> = batch.iter().map(ack).collect();
        store.ack_runs(&acks).await.expect("acknowledged");
    }
    for batch in &sent {
        let end = |run: &AttemptRef| EndRun {
            from: StateSet::SENT,
            to: RunState::Succeeded,
            end: AttemptEnd { outcome: Some(Outcome::Succeeded), ..AttemptEnd::default() },
            ..EndRun::skip(*run, String::new())
        };
        let ends: Vec<EndRun> = batch.iter().map(end).collect();
        store.end_runs(&ends, at(3)).await.expect("ended");
    }
}

/// A statement that was planned when its table was all but empty could read the whole of it later, for
/// each batch.
#[tokio::test]
async fn batches_go_by_key_even_if_they_were_planned_on_an_empty_table() {
    const BATCHES: i64 = 10;
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let job = job(&store, "a").await;
    let row = take(&store, "n1", &[job.partition]).await[0];
    let watch = schema.connect().await;
    watch.batch_execute("VACUUM ANALYZE open_run").await.expect("it is known to be empty");
    serve(&store, &job, &row, &[vec![1]]).await;
    let batch = |number| (0..OWNER_BATCH_MAX as i64).map(|n| 1_000 * number + n).collect();
    serve(&store, &job, &row, &(1..=BATCHES).map(batch).collect::<Vec<_>>()).await;
    // The server counts what a session read when the session ends.
    store.close().await;
    let sql = "SELECT t.n_tup_del, i.idx_tup_read FROM pg_stat_user_tables t
        JOIN pg_stat_user_indexes i ON i.relid = t.relid AND i.indexrelname = 'open_run_pkey'
        WHERE t.relname = 'open_run' AND t.schemaname = current_schema()";
    let runs = BATCHES * OWNER_BATCH_MAX as i64;
    let read: i64 = until(async || {
        let row = watch.query_one(sql, &[]).await.expect("counts");
        (row.get::<_, i64>(0) > runs).then(|| row.get(1))
    })
    .await;
    assert!(read < runs * 10, "{read} rows were read for {runs} runs");
}

/// As above: what nodes leave for each other comes into tables that are empty most of the time.
#[tokio::test]
async fn what_waits_for_a_node_is_read_once_even_if_that_was_planned_on_an_empty_table() {
    const WAITING: i64 = 5_000;
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let held = take(&store, "n1", &all()).await;
    let partitions: Vec<PartitionId> = held.iter().map(|row| row.id).collect();
    let watch = schema.connect().await;
    watch.batch_execute("VACUUM ANALYZE run_inbox, node_inbox").await.expect("known to be empty");
    assert_eq!(store.take_inbox(&partitions).await.expect("taken").ids, []);
    assert_eq!(store.take_handed("n1").await.expect("taken"), []);
    for sql in [
        "INSERT INTO run_inbox (partition, run_id)
            SELECT n % 64, gen_random_uuid() FROM generate_series(1, $1::bigint) AS n",
        "INSERT INTO node_inbox (node, run_id, again)
            SELECT 'n1', gen_random_uuid(), false FROM generate_series(1, $1::bigint)",
    ] {
        watch.execute(sql, &[&WAITING]).await.expect("left there");
    }
    let mut taken = 0;
    while taken < WAITING as usize {
        let batch = store.take_inbox(&partitions).await.expect("taken").ids.len();
        assert!(batch > 0, "{taken} were taken, and no more are found");
        taken += batch;
    }
    // Runs that are not there any more are handed to nobody.
    for _ in 0..(WAITING as usize).div_ceil(HANDED_MAX) {
        assert_eq!(store.take_handed("n1").await.expect("taken"), []);
    }
    // The server counts what a session read when the session ends.
    store.close().await;
    let sql = "SELECT min(t.n_tup_del), max(coalesce(t.idx_tup_fetch, 0) + i.idx_tup_read)::bigint
        FROM pg_stat_user_tables t JOIN pg_stat_user_indexes i ON i.relid = t.relid
        WHERE t.relname IN ('run_inbox', 'node_inbox') AND t.schemaname = current_schema()";
    let read: i64 = until(async || {
        let row = watch.query_one(sql, &[]).await.expect("counts");
        (row.get::<_, i64>(0) >= WAITING).then(|| row.get(1))
    })
    .await;
    // What batches before have removed is passed again by each, while anybody may still see it.
    assert!(read < WAITING * 50, "{read} rows were read for {WAITING} that waited");
}

/// A backup holds a snapshot for hours, and how far partitions are planned is written once a second. What
/// is passed over is in no count of rows, so the pages that were looked at are counted.
#[tokio::test]
async fn a_plan_reads_a_partition_once_however_many_versions_an_old_snapshot_keeps() {
    const VERSIONS: i64 = 400;
    const MOVES: i64 = 20;
    const PLANS: i64 = 10;
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let job = job(&store, "a").await;
    let rows = take(&store, "n1", &all()).await;
    let (backup, watch) = (schema.connect().await, schema.connect().await);
    let sql = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM partition";
    backup.batch_execute(sql).await.expect("a snapshot");
    let earlier = schema.connect().await;
    for _ in 0..VERSIONS {
        let sql = "UPDATE partition SET moves = moves + 1";
        earlier.batch_execute(sql).await.expect("a version of each");
    }
    earlier.batch_execute("ANALYZE partition").await.expect("the planner knows of them");
    drop(earlier);
    // The server counts what a session did when the session ends.
    let looked = async |versions: i64| {
        let sql = "SELECT t.n_tup_upd, b.heap_blks_hit + b.heap_blks_read + b.idx_blks_hit
                + b.idx_blks_read
            FROM pg_stat_user_tables t JOIN pg_statio_user_tables b USING (relid)
            WHERE t.relname = 'partition' AND t.schemaname = current_schema()";
        until(async || {
            let row = watch.query_one(sql, &[]).await.expect("counts");
            (row.get::<_, i64>(0) >= versions * 64).then(|| row.get::<_, i64>(1))
        })
        .await
    };
    let before = looked(VERSIONS).await;
    let mine = rows.iter().find(|row| row.id == job.partition).expect("its row");
    for second in 1..=MOVES {
        let advance = |row: &PartitionRow| Advance { planned_until: at(second), ..standing(row) };
        let moves = Plan { advances: rows.iter().map(advance).collect(), ..Plan::default() };
        let moved = store.plan(&moves, at(second)).await.expect("a plan");
        assert_eq!(moved.advanced.len(), rows.len());
        for n in 0..PLANS {
            let runs = vec![fire(&job, second * PLANS + n).into()];
            let adds = Plan { advances: vec![standing(mine)], runs, ..Plan::default() };
            let added = store.plan(&adds, at(second)).await.expect("a plan");
            assert_eq!(added.inserted.len(), 1);
        }
    }
    backup.batch_execute("COMMIT").await.expect("the end of the snapshot");
    let sql = "SELECT count(*) FROM partition WHERE planned_until = $1";
    let moved: i64 = watch.query_one(sql, &[&at(MOVES)]).await.expect("a count").get(0);
    assert_eq!(moved, 64);
    store.close().await;
    let pages = looked(VERSIONS + MOVES).await - before;
    assert!(pages < MOVES * 64 * 20, "{pages} pages for {MOVES} moves of 64, {PLANS} plans each");
}

#[tokio::test]
async fn runs_of_partitions_that_moved_away_are_not_dispatched() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let job = job(&store, "a").await;
    let rows = take(&store, "n1", &all()).await;
    let row = rows.iter().find(|row| row.id == job.partition).expect("its row");
    let planned = store.plan(&plan(row, fire(&job, 10)), at(1)).await.expect("a plan");
    store.release_partitions(&[job.partition]).await.expect("released");
    let attempt = AttemptRef { run: planned.inserted[0], attempt: 1, fence: 0 };
    let row = DispatchRow { attempt, to: Addressee { executor: "e1".into(), session_epoch: 1 } };
    let batch = Dispatch { rows: vec![row], uses: Vec::new() };
    assert_eq!(store.dispatch(&batch, at(11)).await.expect("an answer"), []);
    store.close().await;
}

#[tokio::test]
async fn a_node_that_was_away_finds_only_the_dispatch_that_it_was_handed() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let job = job(&store, "a").await;
    let rows = take(&store, "n1", &all()).await;
    let row = rows.iter().find(|row| row.id == job.partition).expect("its row");
    let mut attempt = AttemptRef {
        run: store.plan(&plan(row, fire(&job, 10)), at(1)).await.expect("a plan").inserted[0],
        attempt: 1,
        fence: 0,
    };
    let hand = |attempt, node: &str| Hand { node: node.into(), attempt, again: false };
    for (second, executor, node) in [(11, "e1", "away"), (12, "e2", "there")] {
        let to = Addressee { executor: executor.into(), session_epoch: 1 };
        let batch = Dispatch { rows: vec![DispatchRow { attempt, to }], uses: Vec::new() };
        attempt = store.dispatch(&batch, at(second)).await.expect("dispatched")[0];
        store.hand_over(&[hand(attempt, node)]).await.expect("handed over");
        if node == "away" {
            let back = PutBack {
                attempt,
                from: StateSet::SENT,
                due_at: at(second),
                message: String::new(),
                how: PutBackHow::SameAttempt,
            };
            assert_eq!(store.put_back(&[back], at(second)).await.expect("back"), [attempt]);
        }
    }
    assert_eq!(store.take_handed("away").await.expect("an answer"), []);
    let handed = store.take_handed("there").await.expect("an answer");
    let handed: Vec<_> = handed.iter().map(|h| (h.run.attempt_ref(), h.again)).collect();
    assert_eq!(handed, [(attempt, false)]);
    // From a node of an earlier version, that does not say which dispatch it means.
    let id = attempt.run.to_uuid();
    let sql = "INSERT INTO node_inbox (node, run_id, again) VALUES ('old', $1, false)";
    schema.connect().await.execute(sql, &[&id]).await.expect("a row");
    assert!(store.take_handed("old").await.expect("an answer")[0].again, "it proves nothing");
    store.close().await;
}

#[tokio::test]
async fn nodes_that_start_together_migrate_once() {
    let schema = server::Schema::create().await;
    let starts = (0..6).map(|_| PostgresStore::connect(PostgresConfig::new(&schema.url)));
    for store in futures::future::join_all(starts).await {
        store.expect("connects").close().await;
    }
}

#[tokio::test]
async fn other_nodes_hear_of_what_was_committed() {
    let schema = server::Schema::create().await;
    let (one, two) = (open(&schema).await, open(&schema).await);
    let mut hints = two.hints();
    // The listener may not listen yet: what it missed is told again by the next change.
    let mut number = 0;
    let heard = until(async || {
        number += 1;
        let job = job(&one, &format!("j{number}")).await;
        let wait = Duration::from_millis(200);
        match tokio::time::timeout(wait, hints.recv()).await {
            Ok(Ok(topic)) => Some((topic, job.partition)),
            _ => None,
        }
    })
    .await;
    let (topic, _) = heard;
    assert!(matches!(topic, Topic::Jobs(_)), "{topic:?}");
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn events_are_told_in_the_order_of_transaction_numbers_of_any_length() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let ids = [9, 10, 11].map(|second| RunId::scheduled(JobId(1), at(second)));
    for (tx, id) in [9, 10, 11].iter().zip(ids) {
        let sql = format!(
            "INSERT INTO run_event (tx, at, changed) VALUES ('{tx}', now(), ARRAY['{}'::uuid])",
            id.to_uuid()
        );
        schema.connect().await.batch_execute(&sql).await.expect("an event");
    }
    let mut cursor = EventCursor { tx: 0, seq: 0 };
    for id in ids {
        let page = store.run_events(Some(cursor), 1).await.expect("a page");
        assert_eq!(page.changed, [id]);
        cursor = page.cursor;
    }
    store.close().await;
}

#[tokio::test]
async fn a_long_transaction_holds_events_back_only_in_its_own_database() {
    let server = server::Server::start(false);
    let schema = server::Schema::create_on(&server).await;
    let store = open(&schema).await;
    let elsewhere = server::connect(&server.url.replace("/postgres?", "/template1?")).await;
    let here = schema.connect().await;
    let cursor = async || store.run_events(None, 10).await.expect("the end").cursor;
    let write = async |id: RunId| {
        let sql =
            "INSERT INTO run_event (at, changed) VALUES (now() - interval '2 s', ARRAY[$1::uuid])";
        schema.connect().await.execute(sql, &[&id.to_uuid()]).await.expect("an event");
    };
    let [first, second] = [1, 2].map(|second| RunId::scheduled(JobId(1), at(second)));
    let from = cursor().await;
    elsewhere.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.expect("begins");
    write(first).await;
    let page = store.run_events(Some(from), 10).await.expect("a page");
    assert_eq!(page.changed, [first]);
    here.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.expect("begins");
    write(second).await;
    let later = store.run_events(Some(page.cursor), 10).await.expect("the place is still good");
    assert_eq!(later.changed, [], "what the open transaction writes would come before it");
    here.batch_execute("COMMIT").await.expect("ends");
    let last = store.run_events(Some(later.cursor), 10).await.expect("a page");
    assert_eq!(last.changed, [second]);
    store.close().await;
}

/// The server takes its samples while it is busiest: a tenth and more of all that it did went into those
/// of documents and lists of ids, which no plan goes by.
#[tokio::test]
async fn statistics_are_gathered_of_no_document_and_of_all_days_alike() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let watch = schema.connect().await;
    let named = async |sql: &str| -> Vec<String> {
        let rows = watch.query(sql, &[]).await.expect("columns");
        rows.iter().map(|row| row.get(0)).collect()
    };
    let documents = "SELECT format('%s.%s', a.attrelid::regclass, a.attname)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
            AND a.attnum > 0 AND NOT a.attisdropped AND coalesce(a.attstattarget, -1) <> 0
            AND (t.typname IN ('jsonb', 'json', 'bytea') OR t.typcategory = 'A')";
    assert_eq!(named(documents).await, Vec::<String>::new());
    let differ = "SELECT format('%s.%s', day.attrelid::regclass, day.attname)
        FROM pg_inherits i JOIN pg_attribute day ON day.attrelid = i.inhrelid
        JOIN pg_attribute whole ON whole.attrelid = i.inhparent AND whole.attname = day.attname
        WHERE i.inhparent = 'ended_run'::regclass AND day.attnum > 0
            AND day.attstattarget IS DISTINCT FROM whole.attstattarget";
    assert_eq!(named(differ).await, Vec::<String>::new());
    let of_lists =
        ["app_id", "created_at", "ended_at", "executor", "fire_at", "id", "job_id", "state"];
    for sampled in ["coalesce(attstattarget, -1) <> 0", "attstattarget = 20"] {
        let asked_for = format!(
            "SELECT attname::text FROM pg_attribute
            WHERE attrelid = 'ended_run'::regclass AND attnum > 0 AND {sampled} ORDER BY attname"
        );
        assert_eq!(named(&asked_for).await, [&of_lists[..], &["trigger"]].concat());
    }
    store.close().await;
}

#[tokio::test]
async fn a_day_whose_rows_are_in_the_default_partition_stays_there() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let job = job(&store, "a").await;
    let run = NewRun { trigger: TriggerKind::Api, ..fire(&job, 10) };
    store.create_run(&run, None, at(10)).await.expect("a run");
    let attempt = store.open_runs(&[run.id]).await.expect("open")[0].attempt_ref();
    let end = EndRun {
        attempt,
        from: StateSet::OPEN,
        to: RunState::Canceled,
        end: AttemptEnd::default(),
        output: None,
        output_truncated: false,
        message: String::new(),
        missed: false,
    };
    store.end_runs(&[end], at(11)).await.expect("ended");
    let watch = schema.connect().await;
    let days = async || {
        let sql = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'ended_run'::regclass";
        watch.query_one(sql, &[]).await.expect("a count").get::<_, i64>(0)
    };
    let before = days().await;
    let month = Duration::from_secs(30 * 24 * 3600);
    // The days of the real present stay for now.
    let century = month * 1_200;
    store.prune(&Retention { runs: century, logs: century }, at(0)).await.expect("pruned");
    // Of the four days from then on, the one with the run is left out.
    assert_eq!(days().await, before + 3);
    assert_eq!(store.get_run(run.id).await.expect("found").ended_at, Some(at(11)));
    // Whole days go once they are past, the default partition's rows with their time.
    let later = at(40 * 24 * 3600);
    while store.prune(&Retention { runs: month, logs: month }, later).await.expect("pruned") {}
    assert_eq!(days().await, 1 + 4, "the default partition and the days ahead");
    let gone = store.get_run(run.id).await;
    assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
    store.close().await;
}

#[tokio::test]
async fn a_database_out_of_reach_is_unavailable_and_a_bad_schema_names_its_remedy() {
    let config = PostgresConfig::new("postgresql://clawjob@127.0.0.1:1/none?sslmode=disable");
    is_unavailable(PostgresStore::connect(config).await.map(|_| ()));
    let nowhere = server::within(&server::server().url, "no_such_schema");
    let refused = PostgresStore::connect(PostgresConfig::new(nowhere)).await.map(|_| ());
    let Err(StoreError::Conflict(text)) = refused else { panic!("{refused:?}") };
    assert!(text.contains("search_path"), "{text}");
}

#[tokio::test]
async fn a_proxy_with_transaction_pooling_is_refused_for_locks() {
    let server = server::Server::start(false);
    let port = pooler::start(server.port.expect("a private server")).await;
    let config = PostgresConfig::new(server.tcp_url(port));
    let refused = PostgresStore::connect(config).await.map(|_| ());
    let Err(StoreError::Conflict(text)) = refused else { panic!("{refused:?}") };
    assert!(text.contains("transaction pooling") && text.contains("pool URL"), "{text}");
}

#[tokio::test]
async fn a_proxy_with_transaction_pooling_may_carry_the_rest() {
    let server = server::Server::start(false);
    let port = pooler::start(server.port.expect("a private server")).await;
    let config = PostgresConfig {
        pool_url: Some(server.tcp_url(port)),
        pool_size: 1,
        ..PostgresConfig::new(&server.url)
    };
    let store = PostgresStore::connect(config).await.expect("connects");
    let made = job(&store, "a").await;
    assert_eq!(store.get_job("shop", "a").await.expect("found"), made);
    assert_eq!(take(&store, "n1", &all()).await.len(), 64);
    store.close().await;
}
