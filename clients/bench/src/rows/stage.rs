//! What nearly every row needs: a database, a scheduler, a swarm, and a load run to its end.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use tempfile::TempDir;
use tokio_postgres::Client;

use super::{samples, statements};
use crate::{
    admin::Admin,
    load::{self, Load},
    meter::{Cost, Meter, Watched},
    node::{self, Node},
    now_us,
    postgres::Postgres,
    profile::Profile,
    row::{Late, Row, Series},
    swarm::{self, Report, Swarm},
};

/// Where everything listens.
const LOOPBACK: &str = "127.0.0.1";
/// Executors of a load, and slots of each.
pub(super) const EXECUTORS: u32 = 16;
const SLOTS: u32 = 10_000;
/// Jobs are made before their first fire time; each takes some milliseconds, many at once.
const MADE_PER_SECOND: i64 = 250;
/// From when the last job should be made to the first fire time, microseconds.
const LEAD_US: i64 = 5_000_000;
/// A busy machine may not have made the jobs by then: so often they are made, each time with twice
/// the time for it.
const PREPARED_MAX: u32 = 3;
/// A load that was too much may take this much longer than planned.
const PATIENCE: Duration = Duration::from_secs(300);
/// A swarm must be connected within this time.
const CONNECT_LIMIT: Duration = Duration::from_secs(180);
/// Shares of the jobs, each with a lock.
const PARTITIONS: i64 = 64;
/// From the end of a window until its late runs are counted, microseconds.
const TAIL_US: i64 = 2_000_000;

/// Which database a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// The private Postgres.
    Postgres,
    /// The embedded one.
    Sqlite,
}

/// What all rows of a command share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The scheduler's program.
    pub binary: PathBuf,
    /// A short look: only what was lost or doubled counts.
    pub quick: bool,
    /// Further `KEY=VALUE` settings of the scheduler.
    pub set: Vec<String>,
    /// Say also which statements cost Postgres what; that itself costs it something.
    pub statements: bool,
}

/// A database and schedulers on it.
pub struct Stage {
    /// The schedulers.
    pub nodes: Vec<Node>,
    /// The admin of the first.
    pub admin: Admin,
    /// Where Postgres is asked about itself.
    pub client: Option<Client>,
    /// The server.
    pub postgres: Option<Postgres>,
    /// Samples are taken during loads, one in this time.
    pub sample_every: Option<Duration>,
    /// A flame graph of the first scheduler is drawn here.
    pub profile: Option<PathBuf>,
    statements: bool,
    // After the processes that use it.
    _dir: TempDir,
}

impl Stage {
    /// Starts them.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start(settings: &Settings, database: Database, nodes: usize) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("clawjob-bench-").tempdir()?;
        let postgres = match database {
            Database::Postgres if settings.statements => {
                Some(Postgres::start(LOOPBACK, statements::SETTINGS)?)
            }
            Database::Postgres => Some(Postgres::start(LOOPBACK, "")?),
            Database::Sqlite => None,
        };
        let client = match &postgres {
            Some(postgres) => Some(postgres.connect().await?),
            None => None,
        };
        if let Some(client) = client.as_ref().filter(|_| !settings.quick) {
            crate::postgres::age(client).await?;
        }
        let url = postgres.as_ref().map(Postgres::url);
        let mut started = Vec::new();
        for number in 0..nodes {
            let args = url.iter().flat_map(|url| ["--database".to_owned(), url.clone()]);
            let set = settings.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]);
            let level = ["--set", "log.level=warn"].map(str::to_owned);
            started.push(Node::start(node::Plan {
                binary: settings.binary.clone(),
                dir: dir.path().join(format!("node-{number}")),
                listen: format!("{LOOPBACK}:{}", node::free_port(LOOPBACK)?),
                args: args.chain(level).chain(set).collect(),
                prefix: Vec::new(),
            })?);
        }
        let admin = Admin::new(&started[0].url(), &started[0].admin_token()?)?;
        let statements = settings.statements && client.is_some();
        let (sample_every, profile) = (None, None);
        let nodes = started;
        Ok(Self { nodes, admin, client, postgres, sample_every, profile, statements, _dir: dir })
    }

    /// A swarm for the app, connected, over all schedulers.
    ///
    /// # Errors
    /// It does not connect.
    pub async fn swarm(&self, app: &str, executors: u32) -> Result<Swarm> {
        self.swarm_at(&self.nodes, app, executors).await
    }

    /// The same over some of the schedulers.
    ///
    /// # Errors
    /// It does not connect.
    pub async fn swarm_at(&self, nodes: &[Node], app: &str, executors: u32) -> Result<Swarm> {
        let mut swarm = Swarm::start(&swarm::Plan {
            endpoints: nodes.iter().map(Node::url).collect(),
            token: self.admin.executor_token(app).await?,
            app: app.to_owned(),
            executors,
            slots: SLOTS,
        })?;
        swarm.connected(CONNECT_LIMIT).await?;
        Ok(swarm)
    }

    /// What a meter reads.
    #[must_use]
    pub fn watched(&self, swarm: &Swarm) -> Watched {
        Watched {
            schedulers: self.nodes.iter().map(Node::pid).collect(),
            postgres: self.postgres.as_ref().map(|postgres| postgres.pid),
            swarm: swarm.pid(),
        }
    }

    /// Runs a load in an app of its own, from before its first fire time until its last result is
    /// on disk.
    ///
    /// # Errors
    /// Something of the stage is gone, or the machine is too busy to make the jobs in time. What
    /// was lost is no error but a figure.
    pub async fn run(&self, id: &'static str, app: &str, load: Load) -> Result<Row> {
        self.run_at(&self.nodes, id, app, load).await
    }

    /// The same with executors at some of the schedulers only.
    ///
    /// # Errors
    /// As [`Stage::run`].
    pub async fn run_at(
        &self,
        nodes: &[Node],
        id: &'static str,
        app: &str,
        load: Load,
    ) -> Result<Row> {
        let mut lead_us = LEAD_US + i64::from(load.jobs) * 1_000_000 / MADE_PER_SECOND;
        for number in 1..=PREPARED_MAX {
            // An app of its own each time, so that nothing of the one before is counted.
            let app = if number == 1 { app.to_owned() } else { format!("{app}-{number}") };
            let swarm = self.swarm_at(nodes, &app, EXECUTORS).await?;
            let start_us = now_us() + lead_us;
            self.admin.create_jobs(&app, load.jobs(start_us)).await?;
            // A job that is made later than its first fire time would never fire at it.
            if now_us() < start_us {
                return self.follow(id, swarm, load, start_us).await;
            }
            drop(swarm);
            self.admin.delete_jobs(&app, load.jobs(start_us).map(|(id, _)| id)).await?;
            lead_us *= 2;
        }
        bail!("{} jobs were not made in {} s; is the machine busy?", load.jobs, lead_us / 2_000_000)
    }

    /// Waits for a load whose jobs are there, and measures it.
    async fn follow(
        &self,
        id: &'static str,
        mut swarm: Swarm,
        load: Load,
        start_us: i64,
    ) -> Result<Row> {
        until(start_us).await;
        let client = self.client.as_ref().filter(|_| self.statements);
        if let Some(client) = client {
            statements::reset(client).await?;
        }
        let meter = Meter::start(self.watched(&swarm), self.client.as_ref()).await?;
        let profile = self.profile.as_ref().map(|svg| Profile::start(self.nodes[0].pid(), svg));
        let profile = profile.transpose()?;
        let planned = Duration::from_millis(load.period_ms.unsigned_abs()) * load.times;
        let series = self.wait_and_sample(&mut swarm, planned).await?;
        let last = wait_for_all(&mut swarm, load.fires()).await?;
        let cost = meter.stop(self.client.as_ref()).await?;
        profile.map_or(Ok(()), Profile::stop)?;
        if let Some(client) = client {
            statements::print(client, last.fires).await?;
        }
        let row = Row { id, what: describe(load), runs: load.fires(), series, ..Row::default() };
        Ok(self.fill(row, &last, &cost, start_us))
    }

    async fn wait_and_sample(&self, swarm: &mut Swarm, length: Duration) -> Result<Series> {
        match self.sample_every {
            Some(every) => samples::take(self, swarm, every, length).await,
            None => {
                tokio::time::sleep(length).await;
                Ok(Series::default())
            }
        }
    }

    /// Measures so many seconds of a load that goes on.
    ///
    /// # Errors
    /// As [`Stage::run`].
    pub async fn window(
        &self,
        id: &'static str,
        mut swarm: Swarm,
        rate: f64,
        seconds: u32,
        start_us: i64,
    ) -> Result<Row> {
        until(start_us).await;
        let meter = Meter::start(self.watched(&swarm), self.client.as_ref()).await?;
        let end_us = start_us + i64::from(seconds) * 1_000_000;
        until(end_us).await;
        let cost = meter.stop(self.client.as_ref()).await?;
        // Those that are late still come.
        until(end_us + TAIL_US).await;
        let mut last = swarm.report()?;
        let seconds_of = (start_us / 1_000_000)..(end_us / 1_000_000);
        let due = last.per_fire_second.range(seconds_of).map(|(_, count)| u64::from(*count));
        last.fires = due.sum();
        let runs = (rate * f64::from(seconds)) as u64;
        let row = Row { id, runs, ..Row::default() };
        let mut row = self.fill(row, &last, &cost, start_us);
        row.took_s = f64::from(seconds);
        row.rate = last.fires as f64 / row.took_s;
        Ok(row)
    }

    fn fill(&self, row: Row, last: &Report, cost: &Cost, start_us: i64) -> Row {
        let (resident, most) = crate::host::resident_bytes(self.nodes[0].pid());
        let took_s = (last.last_ack_us - start_us) as f64 / 1e6;
        let [p50_ms, p99_ms, p999_ms, max_ms] = last.late_us.map(|us| us as f64 / 1e3);
        Row {
            took_s,
            rate: last.acked as f64 / took_s,
            late: Late { p50_ms, p99_ms, p999_ms, max_ms, early_ms: last.early_us as f64 / 1e3 },
            cpu: cost.per_run(last.fires),
            wal_bytes: cost.wal as f64 / last.fires.max(1) as f64,
            resident_mib: resident as f64 / 1_048_576.0,
            resident_most_mib: most as f64 / 1_048_576.0,
            lost: row.runs.saturating_sub(last.fires),
            doubled: last.doubled,
            machine: cost.machine,
            ..row
        }
    }

    /// Whether the schedulers hold a lock of each partition.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn holds_locks(&self) -> Result<bool> {
        let Some(client) = &self.client else { return Ok(true) };
        let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
            AND objsubid = 2 AND mode = 'ExclusiveLock'";
        Ok(client.query_one(sql, &[]).await?.get::<_, i64>(0) >= PARTITIONS)
    }
}

async fn until(us: i64) {
    let wait = Duration::from_micros((us - now_us()).try_into().unwrap_or(0));
    tokio::time::sleep(wait).await;
}

/// Returns when all fire times have come and their results are on disk, or when nothing has moved
/// for a while.
async fn wait_for_all(swarm: &mut Swarm, fires: u64) -> Result<Report> {
    const STILL: Duration = Duration::from_secs(20);
    let begun = std::time::Instant::now();
    let (mut last, mut moved) = (swarm.report()?, begun);
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let report = swarm.report()?;
        if report.acked != last.acked || report.fires != last.fires {
            moved = std::time::Instant::now();
        }
        last = report;
        let over = last.fires >= fires && last.acked >= last.fires + last.doubled;
        if over || moved.elapsed() > STILL || begun.elapsed() > PATIENCE {
            return Ok(last);
        }
    }
}

fn describe(load: Load) -> String {
    let shape = match load.shape {
        load::Shape::Spread => "spread",
        load::Shape::Herd => "at one moment",
    };
    let Load { jobs, times, period_ms, .. } = load;
    format!("{jobs} jobs {shape}, {times} times each, every {period_ms} ms")
}
