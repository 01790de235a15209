//! What only the store on Postgres does: locks, fences, notifications, pooling.

#[path = "support/postgres.rs"]
mod server;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_scheduler::{
    model::{
        ids::{PARTITION_COUNT, PartitionId, RunId},
        job::{JobSpec, JobState},
        run::{NewRun, Outcome, RunState, TriggerKind},
    },
    store::{
        Store,
        ops::*,
        postgres::{PostgresConfig, PostgresStore},
    },
};

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("in range")
}

fn all() -> Vec<PartitionId> {
    (0..PARTITION_COUNT).map(PartitionId).collect()
}

async fn open(schema: &server::Schema) -> Arc<PostgresStore> {
    PostgresStore::connect(PostgresConfig::new(&schema.url)).await.expect("connects")
}

#[tokio::test]
async fn a_run_goes_from_plan_to_end() {
    let schema = server::Schema::create().await;
    let store = open(&schema).await;
    let app = store.ensure_app("shop", at(0)).await.expect("app");
    let new = NewJob {
        app: app.id,
        name: "close".to_owned(),
        state: JobState::Active,
        spec: JobSpec { handler: "h".to_owned(), ..JobSpec::default() },
        updated_by: "me".to_owned(),
        request: None,
    };
    let job = store.create_job(&new, Box::new(|_| Vec::new()), at(0)).await.expect("job");
    assert_eq!(store.get_job("shop", "close").await.expect("found"), job);
    let taken = store.take_partitions("n1", &all(), at(0)).await.expect("taken");
    assert_eq!(taken.len(), 64);
    let row = taken.iter().find(|row| row.id == job.partition).expect("its partition");
    let fire_at = at(3);
    let run = NewRun {
        id: RunId::scheduled(job.id, fire_at),
        job: job.id,
        app: app.id,
        revision: 1,
        trigger: TriggerKind::Schedule,
        fire_at,
        due_at: fire_at,
        extra: None,
    };
    let plan = Plan {
        advances: vec![Advance {
            partition: row.id,
            epoch: row.epoch,
            jobs_version: row.jobs_version,
            planned_until: at(5),
            served_until: at(0),
        }],
        runs: vec![run.clone()],
        skips: Vec::new(),
    };
    let planned = store.plan(&plan, at(1)).await.expect("planned");
    assert_eq!(planned, Planned { advanced: vec![row.id], inserted: vec![run.id] });
    let open = store.load_open_runs(&RunScope::Jobs(vec![job.id])).await.expect("loads");
    let attempt = open.runs[0].attempt_ref();
    let batch = Dispatch {
        rows: vec![DispatchRow { attempt, executor: "e1".into(), session_epoch: 1 }],
        cursors: vec![(job.id, 7)],
    };
    let sent = store.dispatch(&batch, at(3)).await.expect("sent");
    assert_eq!(sent.len(), 1);
    assert_eq!(store.load_cursors(&[job.id]).await.expect("cursors"), [(job.id, 7)]);
    let acks = [Ack { attempt: sent[0], at: at(4) }];
    assert_eq!(store.ack_runs(&acks).await.expect("acked"), sent);
    let end = EndRun {
        attempt: sent[0],
        from: StateSet::SENT,
        to: RunState::Succeeded,
        end: AttemptEnd { outcome: Some(Outcome::Succeeded), ..AttemptEnd::default() },
        output: None,
        output_truncated: false,
        message: String::new(),
    };
    let answers = store.end_runs(&[end.clone(), end.clone()], at(5)).await.expect("ended");
    assert_eq!(answers, [EndAnswer::Ended(job.id), EndAnswer::Duplicate]);
    let record = store.get_run(run.id).await.expect("found");
    assert_eq!(record.run.state, RunState::Succeeded);
    assert_eq!(record.ended_at, Some(at(5)));
    assert_eq!(record.attempts.len(), 1);
    let again = store.plan(&plan, at(6)).await.expect("planned");
    assert_eq!(again.inserted, []);
    assert_eq!(store.last_ends(&[job.id]).await.expect("ends"), [(job.id, at(5))]);
    assert!(store.take_inbox(&all()).await.expect("inbox").ids.is_empty());
    let keep = Retention { runs: Duration::from_secs(60), logs: Duration::from_secs(60) };
    store.prune(&keep, at(10) + TimeDelta::days(3)).await.expect("prunes");
    store.close().await;
}
