//! The torture harness: a cluster under a load of mixed jobs, a seeded sequence of faults, and a
//! verdict over what the schedules, the rows and the executors' ledgers say.

mod check;
mod cluster;
pub mod executor;
pub mod faults;
mod jobs;
mod ledger;
mod net;
mod table;
#[path = "../../../../scheduler/tests/support/tmpfs.rs"]
mod tmpfs;
mod witness;

use std::{
    collections::BTreeMap,
    ops::Range,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use crate::{admin::Admin, host, now_us};
use check::{Evidence, Findings};
use cluster::Cluster;
use faults::{Done, Fault};
pub use table::Line;
use witness::Witness;

/// The app of all jobs.
pub const APP: &str = "torture";
/// From the start to the first fire time, microseconds.
const LEAD_US: i64 = 8_000_000;
/// The same for each job more, microseconds.
const LEAD_PER_JOB_US: i64 = 5_000;
/// Quiet before the first fault and after the last.
const QUIET: Duration = Duration::from_secs(3);
/// Pause between two faults, milliseconds: some come while the last one's damage is still being mended.
pub const PAUSE_MS: Range<u64> = 500..8_000;
/// A job is started by hand this often.
const BY_HAND_EVERY: Duration = Duration::from_millis(500);
/// Whoever starts one asks again until this has passed.
const BY_HAND_LIMIT: Duration = Duration::from_secs(120);
/// Everything has come to rest within this time after the last fire time.
const REST_LIMIT: Duration = Duration::from_secs(240);
/// So many looks, each about a second after the other, without a run that is under way: what an owner has
/// still to make up for comes sooner.
const QUIET_LOOKS: u32 = 10;
/// A job that fires each second may stand still for so long, seconds: no bar, but a bound that a busy
/// machine keeps too.
const GAP_MAX_S: f64 = 30.0;
/// Lines of a kind that are printed.
const SHOWN_MAX: usize = 20;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The scheduler's program.
    pub binary: PathBuf,
    /// How long faults come.
    pub length: Duration,
    /// What decides which.
    pub seed: u64,
    /// Schedulers.
    pub nodes: usize,
    /// Executor processes.
    pub executors: usize,
    /// Sessions of each.
    pub sessions: u32,
    /// Jobs that fire each second and do nothing.
    pub pulses: u32,
    /// The faults to choose from.
    pub faults: Vec<Fault>,
    /// Pause between two of them, milliseconds.
    pub pause_ms: Range<u64>,
    /// Further `KEY=VALUE` settings of the schedulers.
    pub set: Vec<String>,
    /// Logs and ledgers stay even when all is well.
    pub keep: bool,
}

/// What came of it.
pub struct Outcome {
    /// Nothing was lost, nothing doubled, and nothing else is wrong.
    pub well: bool,
    /// What each kind of fault did.
    pub lines: BTreeMap<Fault, Line>,
}

/// Tortures a cluster.
///
/// # Errors
/// Something does not start or comes to no rest: then nothing can be said.
pub async fn run(settings: &Settings) -> Result<Outcome> {
    let mut random = StdRng::seed_from_u64(settings.seed);
    let mut cluster = Cluster::start(settings).await?;
    let lead = LEAD_US + i64::from(settings.pulses) * LEAD_PER_JOB_US;
    let from = (now_us() + lead) / 1_000_000 * 1_000_000;
    let length = i64::try_from((settings.length + QUIET * 2).as_micros())?;
    let until = from + length / 1_000_000 * 1_000_000;
    let planned = jobs::all(settings.pulses, from, until);
    let made = planned.iter().map(|planned| (planned.id.clone(), planned.job.clone()));
    cluster.admins[0].create_jobs(APP, made).await?;
    if now_us() >= from {
        bail!("the jobs were made after their first fire time: nothing can be said of that");
    }
    let witness = Witness::default();
    let watching = witness.start(cluster.admins.clone());
    let by_hand = tokio::spawn(start_by_hand(cluster.admins.clone(), until));
    let begin = Duration::from_micros((from - now_us()).try_into().unwrap_or(0));
    tokio::time::sleep(begin + QUIET).await;
    let faults = torment(&mut cluster, settings, &mut random).await?;
    let rest = Duration::from_micros((until - now_us()).try_into().unwrap_or(0));
    tokio::time::sleep(rest).await;
    let by_hand = by_hand.await??;
    let runs = at_rest(&cluster).await?;
    watching.abort();
    let executions = ledger::read(&cluster.ledgers(), &cluster.killed)?;
    let killed = cluster.killed.clone();
    let sessions = settings.sessions;
    let evidence = Evidence { runs, executions, planned, faults, by_hand, sessions, killed };
    let mut findings = evidence.judge();
    evidence.runs.iter().for_each(|run| witness.hear(run));
    let (taken_back, words) = witness.faults();
    findings.other.extend(taken_back);
    let lines = table::lines(&evidence, &findings);
    let gaps = lines.iter().filter(|(_, line)| line.stood_still_s() > GAP_MAX_S);
    let long = gaps
        .map(|(fault, line)| format!("nothing fired for {} s: {fault:?}", line.stood_still_s()));
    findings.other.extend(long);
    table::print(&lines);
    tell(&evidence, &findings, words);
    if settings.keep || !findings.is_empty() {
        println!("logs and ledgers: {}", cluster.keep().display());
    }
    Ok(Outcome { well: findings.is_empty(), lines })
}

/// One fault after the other while there is time.
async fn torment(
    cluster: &mut Cluster,
    settings: &Settings,
    random: &mut StdRng,
) -> Result<Vec<Done>> {
    let mut done = Vec::new();
    let begun = Instant::now();
    let possible = |fault: &Fault| *fault != Fault::DiskFull || cluster.disk.is_some();
    let faults: Vec<Fault> = settings.faults.iter().copied().filter(possible).collect();
    // Each once in an order of its own, then by chance.
    let mut next = faults.clone();
    rand::seq::SliceRandom::shuffle(&mut next[..], random);
    loop {
        let left = settings.length.saturating_sub(begun.elapsed());
        let fits = |fault: &Fault| fault.lasts_at_most() <= left;
        let fault = match next.iter().position(fits) {
            Some(at) => next.remove(at),
            None => {
                let fitting: Vec<Fault> = faults.iter().copied().filter(fits).collect();
                let Some(fault) = fitting.choose(random) else { break };
                *fault
            }
        };
        println!("{:6.1} s {fault:?}", begun.elapsed().as_secs_f64());
        done.push(fault.inflict(cluster, random).await?);
        tokio::time::sleep(Duration::from_millis(random.random_range(settings.pause_ms.clone())))
            .await;
    }
    tokio::time::sleep(settings.length.saturating_sub(begun.elapsed())).await;
    Ok(done)
}

/// Starts a job by hand again and again, each time until some node has answered. Returns the names
/// of the runs.
async fn start_by_hand(admins: Vec<Admin>, until: i64) -> Result<Vec<String>> {
    let job = format!("apps/{APP}/jobs/{}", jobs::BY_HAND);
    let mut names = Vec::new();
    while now_us() < until {
        let request_id = format!("by-hand-{}", names.len());
        let begun = Instant::now();
        let name = 'asked: loop {
            for admin in &admins {
                let call = admin.trigger(&job, &request_id);
                match tokio::time::timeout(Duration::from_secs(3), call).await {
                    Ok(Ok(name)) => break 'asked name,
                    Ok(Err(_)) | Err(_) if begun.elapsed() < BY_HAND_LIMIT => {}
                    Ok(Err(fault)) => bail!("no node starts a job by hand: {fault}"),
                    Err(_) => bail!("no node answers within {BY_HAND_LIMIT:?}"),
                }
            }
            tokio::time::sleep(BY_HAND_EVERY).await;
        };
        names.push(name);
        tokio::time::sleep(BY_HAND_EVERY).await;
    }
    Ok(names)
}

/// All runs, once none has been under way for some looks, or the limit has passed. Very many take minutes
/// to be listed: what was still under way when that began would be judged as if it had ended so.
async fn at_rest(cluster: &Cluster) -> Result<Vec<clawjob_proto::v1::Run>> {
    let begun = Instant::now();
    let mut quiet = 0;
    while quiet < QUIET_LOOKS && begun.elapsed() < REST_LIMIT {
        tokio::time::sleep(Duration::from_secs(1)).await;
        quiet = match is_quiet(&cluster.admins[0]).await {
            Ok(true) => quiet + 1,
            Ok(false) | Err(_) => 0,
        };
    }
    cluster.admins[0].all_runs(APP, "").await
}

async fn is_quiet(admin: &Admin) -> Result<bool> {
    let open = ["QUEUED", "DISPATCHED", "RUNNING", "RETRY_WAIT", "CANCELING"];
    let filter = open.map(|state| format!("state = {state}")).join(" OR ");
    Ok(admin.all_runs(APP, &filter).await?.is_empty())
}

fn tell(evidence: &Evidence, findings: &Findings, words: u64) {
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for run in &evidence.runs {
        *states.entry(run.state().as_str_name()).or_default() += 1;
    }
    let states: Vec<_> = states.iter().map(|(name, count)| format!("{count} {name}")).collect();
    println!("runs: {}", states.join(", "));
    println!(
        "{} executions, {} started by hand, {words} words of watches; load {:.1}",
        evidence.executions.len(),
        evidence.by_hand.len(),
        host::load_average()
    );
    let lines = |what: &str, found: &std::collections::BTreeSet<(String, i64)>| {
        println!("{what}: {}", found.len());
        found.iter().take(SHOWN_MAX).for_each(|(job, fire)| println!("  {job} at {fire}"));
    };
    lines("lost", &findings.lost);
    lines("doubled", &findings.doubled);
    println!("other violations: {}", findings.other.len());
    findings.other.iter().take(SHOWN_MAX).for_each(|line| println!("  {line}"));
}
