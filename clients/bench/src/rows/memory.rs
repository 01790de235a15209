//! B3: what very many schedules weigh in memory, and how soon the first of them fires after a start.

use std::time::{Duration, Instant};

use anyhow::Result;
use clawjob_proto::v1::{Job, OverlapPolicy, Schedule, schedule::Trigger};

use super::{
    fill::{self, Schedules},
    stage::{Database, Settings, Stage},
};
use crate::{
    host,
    row::{Machine, Row},
};

const APP: &str = "many";
/// Everything is loaded and the first fire seen within this time.
const LIMIT: Duration = Duration::from_secs(300);

/// What may be said about it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Schedules.
    #[arg(long, default_value_t = 1_000_000)]
    pub schedules: u32,
}

pub(super) async fn measure(settings: &Settings, args: &Args) -> Result<Vec<Row>> {
    let schedules = if settings.quick { 2_000 } else { args.schedules };
    let mut stage = Stage::start(settings, Database::Postgres, 1).await?;
    stage.admin.create_jobs(APP, [("j-0".to_owned(), job("* * * * * *"))]).await?;
    let (empty, _) = host::resident_bytes(stage.nodes[0].pid());
    stage.nodes[0].kill9()?;
    if let Some(client) = &stage.client {
        fill::copies(client, APP, i64::from(schedules), Schedules::Daily).await?;
    }
    let before = Instant::now();
    stage.nodes[0].restart()?;
    let locked = async {
        while !stage.holds_locks().await? {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        anyhow::Ok(Instant::now())
    };
    let locked = tokio::time::timeout(LIMIT, locked).await??;
    let mut swarm = stage.swarm(APP, 1).await?;
    let first = swarm.wait("a first fire", LIMIT, |report| report.fires > 0).await?;
    let first_us = first.first_us - (crate::now_us() - us(locked.elapsed()));
    // What the start needed for a moment has been given back by then.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (resident, most) = host::resident_bytes(stage.nodes[0].pid());
    let each = resident.saturating_sub(empty) as f64 / f64::from(schedules);
    let more = [
        ("bytes_per_schedule", each),
        ("listening_s", (locked - before).as_secs_f64()),
        ("first_fire_after_lock_s", first_us as f64 / 1e6),
    ];
    Ok(vec![Row {
        id: "b3",
        what: format!("{schedules} schedules, of 1,440 kinds, and one that fires each second"),
        resident_mib: resident as f64 / 1_048_576.0,
        resident_most_mib: most as f64 / 1_048_576.0,
        machine: Machine { load: host::load_average(), ..Machine::default() },
        more: more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ..Row::default()
    }])
}

fn us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn job(cron: &str) -> Job {
    let trigger = Some(Trigger::Cron(cron.to_owned()));
    Job {
        handler: "note".to_owned(),
        schedules: vec![Schedule { trigger, ..Schedule::default() }],
        overlap: OverlapPolicy::Allow.into(),
        ..Job::default()
    }
}
