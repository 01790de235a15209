//! Stores on the Postgres of the tests, what most tests put there, and waiting for what comes about.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use clawjob_scheduler::{
    model::{
        ids::{PARTITION_COUNT, PartitionId},
        job::{Job, JobSpec, JobState},
    },
    store::{
        Store as _,
        ops::NewJob,
        postgres::{PostgresConfig, PostgresStore},
    },
};

use crate::server::Schema;

/// Longest wait for something that must come about; a test that reaches it fails.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two looks for it.
const LOOK: Duration = Duration::from_millis(20);

/// So many seconds after the tests' present, which is so far ahead that a store makes no day of it by
/// itself.
pub fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(4_000_000_000 + seconds, 0).expect("in range")
}

/// Every partition.
pub fn all() -> Vec<PartitionId> {
    (0..PARTITION_COUNT).map(PartitionId).collect()
}

/// One more store on the schema.
pub async fn open(schema: &Schema) -> Arc<PostgresStore> {
    PostgresStore::connect(PostgresConfig::new(&schema.url)).await.expect("connects")
}

/// Looks every few milliseconds until there is something.
pub async fn until<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        let mut pause = tokio::time::interval(LOOK);
        loop {
            pause.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, looking).await.expect("it comes about in time")
}

/// A job without a schedule.
pub async fn job(store: &PostgresStore, name: &str) -> Job {
    let app = store.ensure_app("shop", at(0)).await.expect("an app");
    let new = NewJob {
        app: app.id,
        name: name.to_owned(),
        state: JobState::Active,
        spec: JobSpec::default(),
        updated_by: "me".to_owned(),
        request: None,
    };
    store.create_job(&new, Box::new(|_| Vec::new()), at(0)).await.expect("a job")
}
