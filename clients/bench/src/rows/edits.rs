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
use tonic::Status;

use super::stage::{Database, Settings, Stage};
use crate::{admin::Admin, load::Load, now_us, row::Row};

/// Edits per second, whatever single ones take.
const EDITS: u32 = 1_000;
/// Jobs that are edited, by turns.
const JOBS: u32 = 1_000;
/// Calls under way at once.
const CALLS: u32 = 16;
const APP: &str = "edited";
const PROBED: &str = "probed";
/// An edit has taken effect within this time.
const LIMIT: Duration = Duration::from_secs(60);

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
    let effect_s = first_fire_after_an_edit(&stage).await?;
    editors.iter().for_each(tokio::task::JoinHandle::abort);
    during.what += "; while jobs are edited";
    during.more.insert("edits_per_s".to_owned(), edits);
    during.more.insert("first_fire_after_an_edit_s".to_owned(), effect_s);
    Ok(vec![before, during])
}

/// From the answer to an edit until the first run that it makes is with an executor: up to a second
/// of that is the wait for the next full second, when it is to fire.
async fn first_fire_after_an_edit(stage: &Stage) -> Result<f64> {
    let by_hand = Job { schedules: Vec::new(), ..job(0) };
    stage.admin.create_jobs(PROBED, [("probe-0".to_owned(), by_hand)]).await?;
    let mut swarm = stage.swarm(PROBED, 1).await?;
    let trigger = Some(Trigger::Cron("* * * * * *".to_owned()));
    let schedules = vec![Schedule { trigger, ..Schedule::default() }];
    update(&stage.admin, PROBED, "probe-0", Job { schedules, ..job(0) }).await?;
    let edited_us = now_us();
    let seen = swarm.wait("a run after an edit", LIMIT, |report| report.fires > 0).await?;
    Ok((seen.first_us - edited_us) as f64 / 1e6)
}

async fn update(admin: &Admin, app: &str, id: &str, job: Job) -> Result<(), Status> {
    let mask = FieldMask { paths: vec!["schedules".to_owned()] };
    let request = UpdateJobRequest {
        job: Some(Job { name: format!("apps/{app}/jobs/{id}"), ..job }),
        update_mask: Some(mask),
        ..UpdateJobRequest::default()
    };
    admin.jobs().update_job(request).await.map(drop)
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
    let every = Duration::from_secs(1) * CALLS / EDITS;
    // Turns that are missed during a slow edit are made up for: who asks is not slowed down by that.
    let mut pace = tokio::time::interval(every);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    for turn in 0_u32.. {
        pace.tick().await;
        let number = turn.wrapping_mul(CALLS).wrapping_add(editor) % jobs;
        if update(&admin, APP, &format!("j-{number}"), job(turn)).await.is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
