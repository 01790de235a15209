//! What is done to the cluster, and for how long.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use nix::sys::signal::Signal;
use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::cluster::Cluster;
use crate::{now_us, relay::Cut};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub enum Fault {
    /// `kill -9` of a scheduler that owns partitions, started again after a while.
    NodeKill9,
    /// SIGSTOP of such a one for 10 s.
    NodeStop10,
    /// The same for 60 s.
    NodeStop60,
    /// `kill -9` of an executor, started again after a while.
    ExecutorKill9,
    /// SIGSTOP of an executor for 10 s.
    ExecutorStop10,
    /// The session that holds locks is terminated.
    LockSession,
    /// Postgres crashes and is started again.
    PostgresCrash,
    /// A table that every fire needs is locked for some seconds.
    PostgresSlow,
    /// The disk of Postgres's tables is full for some seconds.
    DiskFull,
    /// Nothing passes between a scheduler and Postgres.
    NodeCut,
    /// Nothing from Postgres comes to a scheduler.
    NodeDeaf,
    /// Nothing from a scheduler comes to Postgres.
    NodeMute,
    /// Nothing passes between an executor and the schedulers.
    ExecutorCut,
}

/// A fault that happened.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Which.
    pub fault: Fault,
    /// From when, microseconds since 1970.
    pub from: i64,
    /// Until when it lasted, the same.
    pub until: i64,
}

/// How long a dead process stays away.
const AWAY: std::ops::Range<u64> = 1_000..5_000;
/// How long a way is cut: more than any timeout of a lock session, less than executors are given up
/// after.
const CUT: std::ops::Range<u64> = 8_000..20_000;
/// How long a table is locked.
const LOCKED: std::ops::Range<u64> = 2_000..6_000;
/// How long the disk is full.
const FULL: std::ops::Range<u64> = 4_000..12_000;
/// How long a crashed Postgres stays away.
const DOWN: std::ops::Range<u64> = 100..4_000;

impl Fault {
    /// The longest that it lasts, with some room.
    #[must_use]
    pub fn lasts_at_most(self) -> Duration {
        Duration::from_secs(match self {
            Self::NodeStop60 => 62,
            Self::NodeCut | Self::NodeDeaf | Self::NodeMute | Self::ExecutorCut => 21,
            Self::NodeStop10 | Self::ExecutorStop10 => 12,
            Self::DiskFull => 13,
            _ => 8,
        })
    }

    /// Whether nothing can fire before it has passed: then its end, when Postgres takes connections
    /// or writes again, is what gaps are also counted from.
    #[must_use]
    pub fn stops_all(self) -> bool {
        matches!(self, Self::PostgresCrash | Self::DiskFull)
    }

    /// Does it, and undoes it.
    ///
    /// # Errors
    /// What was to be broken is not there.
    pub async fn inflict(self, cluster: &mut Cluster, random: &mut StdRng) -> Result<Done> {
        let node = cluster.owner(random).await?;
        let hand = random.random_range(0..cluster.hands.len());
        let from = now_us();
        match self {
            Self::NodeKill9 => {
                cluster.nodes[node].kill9()?;
                pause(random, AWAY).await;
                cluster.nodes[node].restart()?;
            }
            Self::NodeStop10 | Self::NodeStop60 => {
                let seconds = if self == Self::NodeStop10 { 10 } else { 60 };
                cluster.nodes[node].signal(Signal::SIGSTOP)?;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                cluster.nodes[node].signal(Signal::SIGCONT)?;
            }
            Self::ExecutorKill9 => {
                cluster.kill_hand(hand)?;
                pause(random, AWAY).await;
                cluster.restart_hand(hand)?;
            }
            Self::ExecutorStop10 => {
                cluster.signal_hand(hand, Signal::SIGSTOP)?;
                tokio::time::sleep(Duration::from_secs(10)).await;
                cluster.signal_hand(hand, Signal::SIGCONT)?;
            }
            Self::LockSession => terminate_lock_session(cluster, random).await?,
            Self::PostgresCrash => {
                cluster.postgres.crash()?;
                pause(random, DOWN).await;
                cluster.postgres.restart()?;
            }
            Self::PostgresSlow => lock_table(cluster, random).await?,
            Self::DiskFull => {
                let disk = cluster.disk.as_ref().context("a disk that can be made full")?;
                disk.fill().map_err(|fault| anyhow!(fault))?;
                pause(random, FULL).await;
                disk.free().map_err(|fault| anyhow!(fault))?;
            }
            Self::NodeCut | Self::NodeDeaf | Self::NodeMute => {
                let cut =
                    Cut { to_target: self != Self::NodeDeaf, from_target: self != Self::NodeMute };
                cluster.links[node].set(cut)?;
                pause(random, CUT).await;
                cluster.links[node].set(Cut::default())?;
            }
            Self::ExecutorCut => {
                let set = |cut| cluster.hands[hand].links.iter().for_each(|link| link.set(cut));
                set(Cut { to_target: true, from_target: true });
                pause(random, CUT).await;
                set(Cut::default());
            }
        }
        Ok(Done { fault: self, from, until: now_us() })
    }
}

async fn pause(random: &mut StdRng, range: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(random.random_range(range))).await;
}

async fn terminate_lock_session(cluster: &Cluster, random: &mut StdRng) -> Result<()> {
    let client = cluster.postgres.connect().await?;
    let holders = "SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND granted";
    let rows = client.query(holders, &[]).await?;
    let pids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    if let Some(pid) = pids.choose(random) {
        client.query("SELECT pg_terminate_backend($1)", &[pid]).await?;
    }
    Ok(())
}

async fn lock_table(cluster: &Cluster, random: &mut StdRng) -> Result<()> {
    let client = cluster.postgres.connect().await?;
    client.batch_execute("BEGIN; LOCK TABLE open_run IN ACCESS EXCLUSIVE MODE").await?;
    pause(random, LOCKED).await;
    client.batch_execute("COMMIT").await?;
    Ok(())
}
