//! Ends that somebody follows up. Two nodes may look at the same events; a row is taken away by one
//! of them, with everything that follows from it, and the other passes over it.

use std::collections::{BTreeSet, HashSet};

use chrono::{DateTime, Utc};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

use super::{
    PostgresStore, alarms,
    planned::insert_runs,
    requests::{begin, commit},
    rows::{Reader, big, query, uuids},
    shards,
};
use crate::{
    model::{
        Payload,
        alarm::NewAlarm,
        ids::{AppId, JobId, RunId},
        run::{NewRun, RunState, TriggerKind},
    },
    store::{
        Result, Topic,
        ops::{EndEvent, Followup, Settled},
    },
};

pub(super) async fn end_events(
    store: &PostgresStore,
    limit: u32,
    aside: &[u64],
) -> Result<Vec<EndEvent>> {
    let sql = "SELECT seq, run_id, job_id, app_id, revision, trigger, state, fire_at, ended_at,
            extra::text
        FROM end_event WHERE seq <> ALL($2) ORDER BY seq LIMIT $1";
    let aside: Vec<i64> = aside.iter().map(|seq| big(*seq)).collect();
    let found = query(&store.hot().await?, sql, &[&i64::from(limit), &aside]).await?;
    found.iter().map(end_event).collect()
}

fn end_event(row: &Row) -> Result<EndEvent> {
    let mut row = Reader::new(row);
    Ok(EndEvent {
        seq: row.number()?,
        run: row.run()?,
        job: JobId(row.get()?),
        app: AppId(row.get()?),
        revision: row.number()?,
        trigger: row.word(TriggerKind::parse)?,
        state: row.word(RunState::parse)?,
        fire_at: row.get()?,
        ended_at: row.get()?,
        extra: row.json_opt()?,
    })
}

pub(super) async fn settle_ends(
    store: &PostgresStore,
    followups: &[Followup],
    now: DateTime<Utc>,
) -> Result<Settled> {
    let mut client = store.hot().await?;
    let tx = begin(&mut client).await?;
    let events = take(&tx, followups).await?;
    let mine: HashSet<u64> = events.iter().copied().collect();
    let mine = || followups.iter().filter(|followup| mine.contains(&followup.seq));
    let starts: Vec<&NewRun> = mine().flat_map(|followup| &followup.starts).collect();
    let started = start(&tx, &starts, now).await?;
    let parents: BTreeSet<RunId> = mine().filter_map(|followup| followup.parent).collect();
    let ended = shards::settle(&tx, &parents, now).await?;
    let raised: Vec<&NewAlarm> = mine().flat_map(|followup| &followup.alarms).collect();
    alarms::insert(&tx, &raised, now).await?;
    commit(tx).await?;
    if !raised.is_empty() {
        store.hints.tell(Topic::Alarms);
    }
    let mut partitions: BTreeSet<_> = starts.iter().map(|run| run.job.partition()).collect();
    partitions.extend(ended.iter().map(|(parent, _)| parent.partition));
    partitions.into_iter().for_each(|partition| store.hints.tell(Topic::Inbox(partition)));
    if !starts.is_empty() || !parents.is_empty() {
        store.hints.tell(Topic::RunEvents);
    }
    if !ended.is_empty() {
        store.hints.tell(Topic::Ends);
    }
    let parents = ended.into_iter().map(|(parent, state)| (parent.id, state)).collect();
    Ok(Settled { events, started, parents })
}

pub(super) async fn load_outputs(
    store: &PostgresStore,
    runs: &[RunId],
) -> Result<Vec<(RunId, Payload)>> {
    // The limit keeps it a search for each: see the settings of such connections.
    let sql = "SELECT w.id, l.output_type, l.output FROM unnest($1::uuid[]) AS w (id)
        CROSS JOIN LATERAL (
            SELECT e.output_type, e.output FROM ended_run e WHERE e.id = w.id LIMIT 1
        ) AS l WHERE l.output IS NOT NULL";
    let found = query(&store.hot().await?, sql, &[&uuids(runs)]).await?;
    let mut outputs = Vec::with_capacity(found.len());
    for row in &found {
        let mut row = Reader::new(row);
        let run = row.run()?;
        outputs.extend(row.payload()?.map(|output| (run, output)));
    }
    Ok(outputs)
}

/// Takes those of the events away that nobody else has, or is taking just now.
async fn take(tx: &Transaction<'_>, followups: &[Followup]) -> Result<Vec<u64>> {
    let sql = "WITH free AS (
            SELECT seq FROM end_event WHERE seq = ANY($1::bigint[]) FOR UPDATE SKIP LOCKED
        )
        DELETE FROM end_event e USING free f WHERE e.seq = ANY(ARRAY[f.seq])
        RETURNING e.seq";
    let seqs: Vec<i64> = followups.iter().map(|followup| big(followup.seq)).collect();
    let taken = query(tx, sql, &[&seqs]).await?;
    taken.iter().map(|row| Reader::new(row).number()).collect()
}

/// Makes the runs whose jobs are still there; these are locked against a deletion.
async fn start(tx: &Transaction<'_>, runs: &[&NewRun], now: DateTime<Utc>) -> Result<Vec<RunId>> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT id FROM job WHERE id = ANY($1::bigint[]) AND deleted_at IS NULL
        ORDER BY id FOR SHARE";
    let jobs: Vec<i64> = runs.iter().map(|run| run.job.0).collect();
    let found = query(tx, sql, &[&jobs]).await?;
    let there: HashSet<i64> =
        found.iter().map(|row| Reader::new(row).get()).collect::<Result<_>>()?;
    let runs: Vec<NewRun> =
        runs.iter().filter(|run| there.contains(&run.job.0)).map(|run| (*run).clone()).collect();
    let made = insert_runs(tx, &runs, now).await?;
    Ok(made.into_iter().map(RunId::from_uuid).collect())
}
