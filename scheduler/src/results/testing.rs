//! Rows and origins for tests.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::{
    hub::event::Origin,
    model::{
        ids::{AppId, JobId, RunId},
        run::{OpenRun, RunState, TriggerKind},
    },
};

/// A fixed instant.
pub(crate) fn noon() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_800_000_000_000).expect("in range")
}

/// A session of an executor of app 1.
pub(crate) fn origin(name: &str) -> Arc<Origin> {
    Arc::new(Origin { app: AppId(1), executor: name.into(), row: 1, epoch: 1 })
}

/// Attempt 1 of a run of job 1, sent once unless it is queued.
pub(crate) fn row(state: RunState) -> OpenRun {
    let job = JobId(1);
    OpenRun {
        id: RunId::scheduled(job, noon()),
        job,
        app: AppId(1),
        partition: job.partition(),
        revision: 1,
        trigger: TriggerKind::Schedule,
        state,
        fire_at: noon(),
        due_at: noon(),
        created_at: noon(),
        attempt: 1,
        fence: 1,
        lost: 0,
        executor: None,
        session_epoch: 1,
        dispatched_at: None,
        acked_at: None,
        started_at: None,
        kill_reason: None,
        kill_at: None,
        kill_grace: None,
        message: String::new(),
        extra: None,
    }
}
