//! B8: jobs are changed all the time while others fire.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use clawjob_proto::v1::{Job, Schedule, UpdateJobRequest, schedule::Trigger};
use prost_types::FieldMask;

use super::stage::{Database, Settings, Stage};
use crate::{admin::Admin, load::Load, row::Row};

/// Edits per second that are tried.
const EDITS: u32 = 1_000;
/// Jobs that are edited, by turns.
const JOBS: u32 = 1_000;
/// Calls under way at once.
const CALLS: u32 = 16;
const APP: &str = "edited";

pub(super) async fn measure(settings: &Settings) -> Result<Vec<Row>> {
    let stage = Stage::start(settings, Database::Postgres, 1).await?;
    let (load, jobs) =
        if settings.quick { (Load::paced(100, 3), 20) } else { (Load::paced(1_000, 30), JOBS) };
    let edited = (0..jobs).map(|number| (format!("j-{number}"), job(number)));
    stage.admin.create_jobs(APP, edited).await?;
    let before = stage.run("b8", "before", load).await?;
    let count = Arc::new(AtomicU64::new(0));
    let editors: Vec<_> = (0..CALLS)
        .map(|editor| tokio::spawn(edit(stage.admin.clone(), editor, jobs, count.clone())))
        .collect();
    let (begun, so_far) = (Instant::now(), count.load(Ordering::Relaxed));
    let mut during = stage.run("b8", "during", load).await?;
    let edits = (count.load(Ordering::Relaxed) - so_far) as f64 / begun.elapsed().as_secs_f64();
    editors.iter().for_each(tokio::task::JoinHandle::abort);
    during.what += "; while jobs are edited";
    during.more.insert("edits_per_s".to_owned(), edits);
    Ok(vec![before, during])
}

fn job(minute: u32) -> Job {
    let trigger = Some(Trigger::Cron(format!("{} 3 * * *", minute % 60)));
    Job {
        handler: "note".to_owned(),
        schedules: vec![Schedule { trigger, ..Schedule::default() }],
        ..Job::default()
    }
}

/// Changes the schedules of every so many-th job, at its share of the pace.
async fn edit(admin: Admin, editor: u32, jobs: u32, count: Arc<AtomicU64>) {
    let mut client = admin.jobs();
    let every = Duration::from_secs(1) * CALLS / EDITS;
    let mut pace = tokio::time::interval(every);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for turn in 0_u32.. {
        pace.tick().await;
        let number = turn.wrapping_mul(CALLS).wrapping_add(editor) % jobs;
        let name = format!("apps/{APP}/jobs/j-{number}");
        let mask = FieldMask { paths: vec!["schedules".to_owned()] };
        let request = UpdateJobRequest {
            job: Some(Job { name, ..job(turn) }),
            update_mask: Some(mask),
            ..UpdateJobRequest::default()
        };
        if client.update_job(request).await.is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
