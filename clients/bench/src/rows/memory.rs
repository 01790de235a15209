//! B3: what very many schedules weigh in memory, and how soon the first of them fires after a start.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clawjob_proto::v1::{Job, OverlapPolicy, Schedule, schedule::Trigger};
use tokio_postgres::Client;

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
/// What a start needs for a moment has been given back by then.
const SETTLE: Duration = Duration::from_secs(20);
/// All schedules are one.
const ONE_KIND: &str =
    "spec = jsonb_set(spec, '{schedules,0,trigger,Cron,text}', to_jsonb('0 3 * * *'::text))";
/// The same text in each job: what it weighs is not shared.
const EQUAL_TEXT: &str = "spec = jsonb_set(spec, '{description}', to_jsonb(repeat('x', 1024)))";

/// What may be said about it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Schedules.
    #[arg(long, default_value_t = 1_000_000)]
    pub schedules: u32,
}

/// What a start with all jobs has shown.
struct Loaded {
    listening_s: f64,
    first_fire_after_lock_s: f64,
    resident: u64,
    most: u64,
}

pub(super) async fn measure(settings: &Settings, args: &Args) -> Result<Vec<Row>> {
    let (schedules, settle) =
        if settings.quick { (2_000, Duration::from_secs(2)) } else { (args.schedules, SETTLE) };
    let mut stage = Stage::start(settings, Database::Postgres, 1).await?;
    stage.admin.create_jobs(APP, [("j-0".to_owned(), job("* * * * * *"))]).await?;
    let (empty, _) = host::resident_bytes(stage.nodes[0].pid());
    stage.nodes[0].kill9()?;
    fill::copies(client(&stage)?, APP, i64::from(schedules), Schedules::Daily).await?;
    let loaded = load(&mut stage, settle).await?;
    let each = |more: u64, less: u64| (more as f64 - less as f64) / f64::from(schedules);
    let mut more = vec![
        ("bytes_per_schedule", each(loaded.resident, empty)),
        ("listening_s", loaded.listening_s),
        ("first_fire_after_lock_s", loaded.first_fire_after_lock_s),
    ];
    // Each change leaves out one part; the difference is what that part weighs.
    fill::change(client(&stage)?, APP, ONE_KIND).await?;
    let one_kind = load(&mut stage, settle).await?.resident;
    fill::change(client(&stage)?, APP, "state = 'PAUSED'").await?;
    let paused = load(&mut stage, settle).await?.resident;
    fill::change(client(&stage)?, APP, EQUAL_TEXT).await?;
    let described = load(&mut stage, settle).await?.resident;
    more.extend([
        ("bytes_of_job", each(paused, empty)),
        ("bytes_of_next_fire_time", each(one_kind, paused)),
        ("bytes_of_1440_kinds_shared", each(loaded.resident, one_kind)),
        ("bytes_of_equal_kib_of_text", each(described, paused)),
    ]);
    Ok(vec![Row {
        id: "b3",
        what: format!("{schedules} schedules, of 1,440 kinds, and one that fires each second"),
        resident_mib: loaded.resident as f64 / 1_048_576.0,
        resident_most_mib: loaded.most as f64 / 1_048_576.0,
        machine: Machine { load: host::load_average(), ..Machine::default() },
        more: more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ..Row::default()
    }])
}

/// Starts the scheduler, waits for its first fire and until it has settled, and kills it.
async fn load(stage: &mut Stage, settle: Duration) -> Result<Loaded> {
    let before = Instant::now();
    stage.nodes[0].restart()?;
    let locked = async {
        while !stage.holds_locks().await? {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        anyhow::Ok(Instant::now())
    };
    let locked = tokio::time::timeout(LIMIT, locked).await.context("it takes no locks")??;
    let mut swarm = stage.swarm(APP, 1).await?;
    let first = swarm.wait("a first fire", LIMIT, |report| report.fires > 0).await?;
    let first_us = first.first_us - (crate::now_us() - us(locked.elapsed()));
    tokio::time::sleep(settle).await;
    let (resident, most) = host::resident_bytes(stage.nodes[0].pid());
    stage.nodes[0].kill9()?;
    Ok(Loaded {
        listening_s: (locked - before).as_secs_f64(),
        first_fire_after_lock_s: first_us as f64 / 1e6,
        resident,
        most,
    })
}

fn client(stage: &Stage) -> Result<&Client> {
    stage.client.as_ref().context("it runs on Postgres")
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
