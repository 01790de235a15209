//! What is tortured: Postgres, schedulers that reach it over a way that can be cut, executors that
//! reach the schedulers over such ways.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use tempfile::TempDir;

use super::{
    APP, Settings,
    faults::Fault,
    net::{Link, Wire},
    tmpfs::Small,
};
use crate::{
    admin::Admin,
    node::{self, Node},
    now_us,
    postgres::Postgres,
    relay::Relay,
};

/// Where everything listens.
const LOOPBACK: &str = "127.0.0.1";
/// Room for the tables, MiB: more than a day of torture writes, and taken only as it is needed.
const DISK_MIB: u32 = 4_096;
/// Where a scheduler listens that has a network of its own.
const BEHIND_WIRE_PORT: u16 = 7_700;

/// An executor process and how it can be reached.
pub struct Hand {
    name: String,
    child: Child,
    ledger: PathBuf,
    /// To each node.
    pub links: Vec<Relay>,
}

/// All processes.
pub struct Cluster {
    /// The server.
    pub postgres: Postgres,
    /// What its tables lie on, where that can be made full.
    pub disk: Option<Small>,
    /// The schedulers.
    pub nodes: Vec<Node>,
    /// From each scheduler to the rest.
    pub links: Vec<Link>,
    /// The executors.
    pub hands: Vec<Hand>,
    /// Admin of each node.
    pub admins: Vec<Admin>,
    /// Executor processes that were killed: pid and when.
    pub killed: Vec<(u32, i64)>,
    token: String,
    sessions: u32,
    dir: TempDir,
}

impl Cluster {
    /// Starts it all.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start(settings: &Settings) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("clawjob-torture-").tempdir()?;
        let wires = wires(settings.nodes);
        let here = wires.iter().flatten().map(|wire| wire.here.as_str());
        let addresses: Vec<&str> = std::iter::once(LOOPBACK).chain(here).collect();
        let postgres = Postgres::start(&addresses.join(","), "")?;
        let disk = match settings.faults.contains(&Fault::DiskFull) {
            true => disk(&postgres).await?,
            false => None,
        };
        let (mut nodes, mut links, mut admins) = (Vec::new(), Vec::new(), Vec::new());
        let mut wires = wires.into_iter().flatten();
        for number in 0..settings.nodes {
            let dir = dir.path().join(format!("node-{number}"));
            let (plan, link) = join(settings, &postgres, dir, wires.next()).await?;
            nodes.push(Node::start(plan)?);
            links.push(link);
        }
        let token = nodes[0].admin_token()?;
        for node in &nodes {
            admins.push(Admin::new(&node.url(), &token)?);
        }
        let token = admins[0].executor_token(APP).await?;
        let sessions = settings.sessions;
        let mut cluster = Self {
            postgres,
            disk,
            nodes,
            links,
            hands: Vec::new(),
            admins,
            killed: Vec::new(),
            token,
            sessions,
            dir,
        };
        for number in 0..settings.executors {
            cluster.add_hand(number).await?;
        }
        Ok(cluster)
    }

    async fn add_hand(&mut self, number: usize) -> Result<()> {
        let mut links = Vec::new();
        for node in &self.nodes {
            links.push(Relay::to(node.url().trim_start_matches("http://")).await?);
        }
        let name = format!("hand{number}");
        let ledger = self.dir.path().join(format!("{name}.ledger"));
        let child = self.spawn(&name, &ledger, &links)?;
        self.hands.push(Hand { name, child, ledger, links });
        Ok(())
    }

    fn spawn(&self, name: &str, ledger: &Path, links: &[Relay]) -> Result<Child> {
        let urls: Vec<_> = links.iter().map(|link| format!("http://{}", link.address())).collect();
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join(format!("{name}.log")))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["executor", "--name", name, "--endpoints", &urls.join(",")]);
        command.arg("--ledger").arg(ledger).args(["--sessions", &self.sessions.to_string()]);
        command.env("CLAWJOB_TOKEN", &self.token).env_remove("CLAWJOB_ENDPOINTS");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().context("starting an executor")
    }

    /// Kills an executor without a word.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kill_hand(&mut self, index: usize) -> Result<()> {
        let hand = &mut self.hands[index];
        let pid = hand.child.id();
        hand.child.kill()?;
        hand.child.wait()?;
        self.killed.push((pid, now_us()));
        Ok(())
    }

    /// Starts it again, as another process of the same name.
    ///
    /// # Errors
    /// It does not start.
    pub fn restart_hand(&mut self, index: usize) -> Result<()> {
        let hand = &self.hands[index];
        let child = self.spawn(&hand.name, &hand.ledger, &hand.links)?;
        self.hands[index].child = child;
        Ok(())
    }

    /// Sends an executor a signal.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal_hand(&self, index: usize, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.hands[index].child.id().cast_signed());
        Ok(kill(pid, signal)?)
    }

    /// The executors' ledgers.
    #[must_use]
    pub fn ledgers(&self) -> Vec<PathBuf> {
        self.hands.iter().map(|hand| hand.ledger.clone()).collect()
    }

    /// A node that owns partitions, by their rows: what nodes say of themselves is some seconds old.
    /// Any node when none does.
    ///
    /// # Errors
    /// Postgres does not answer.
    pub async fn owner(&self, random: &mut StdRng) -> Result<usize> {
        let sql =
            "SELECT DISTINCT n.advertise_address FROM partition p JOIN node n ON n.id = p.node";
        let rows = self.postgres.connect().await?.query(sql, &[]).await?;
        let owners: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let owns = |node: &Node| owners.iter().any(|address| address.ends_with(node.listen()));
        let owners: Vec<usize> =
            (0..self.nodes.len()).filter(|at| owns(&self.nodes[*at])).collect();
        let any = random.random_range(0..self.nodes.len());
        Ok(owners.choose(random).copied().unwrap_or(any))
    }

    /// Keeps logs and ledgers for whoever looks for a fault, and says where.
    #[must_use]
    pub fn keep(mut self) -> PathBuf {
        self.dir.disable_cleanup(true);
        self.dir.path().to_path_buf()
    }
}

/// A file system for the server's tables, where this process may mount one; the write-ahead log stays
/// where it is, since the server ends without it.
async fn disk(postgres: &Postgres) -> Result<Option<Small>> {
    // Whom the server runs as where this process is root; nobody else may mount.
    let id = Command::new("id").args(["-u", "postgres"]).output()?;
    let user = String::from_utf8_lossy(&id.stdout).trim().to_owned();
    let disk = match Small::mount(DISK_MIB, &format!("mode=0700,uid={user}")) {
        Ok(disk) => disk,
        Err(fault) => {
            println!("the disk does not get full, since none can be mounted: {fault}");
            return Ok(None);
        }
    };
    let path = disk.path().display();
    let client = postgres.connect().await?;
    client.batch_execute(&format!("CREATE TABLESPACE disk LOCATION '{path}'")).await?;
    client.batch_execute("ALTER DATABASE postgres SET default_tablespace = 'disk'").await?;
    Ok(Some(disk))
}

/// A wire for each scheduler, where this process may make them.
fn wires(nodes: usize) -> Option<Vec<Wire>> {
    let made: Result<Vec<Wire>> = (0..nodes).map(|n| Wire::new(u32::try_from(n)?)).collect();
    match made {
        Ok(wires) => Some(wires),
        Err(fault) => {
            println!("schedulers are cut off by relays, since there are no namespaces: {fault}");
            None
        }
    }
}

/// How a scheduler is started behind its link.
async fn join(
    settings: &Settings,
    postgres: &Postgres,
    dir: PathBuf,
    wire: Option<Wire>,
) -> Result<(node::Plan, Link)> {
    let (listen, database, prefix, link) = match wire {
        Some(wire) => {
            let listen = format!("{}:{BEHIND_WIRE_PORT}", wire.there);
            let database = format!("{}:{}", wire.here, postgres.port);
            (listen, database, wire.prefix(), Link::Wire(wire))
        }
        None => {
            let listen = format!("{LOOPBACK}:{}", node::free_port(LOOPBACK)?);
            let relay = Relay::to(&format!("{LOOPBACK}:{}", postgres.port)).await?;
            (listen, relay.address().to_string(), Vec::new(), Link::Relay(relay))
        }
    };
    let url = format!("postgresql://clawjob@{database}/postgres?sslmode=disable");
    // Plain text on the wire, which is nobody else's.
    let own = ["timings.lost_after=30s", "database_pool_size=6", "behind_proxy=true"];
    let set = own.map(str::to_owned).into_iter().chain(settings.set.iter().cloned());
    let set = set.flat_map(|set| ["--set".to_owned(), set]);
    let args = ["--database".to_owned(), url].into_iter().chain(set).collect();
    let binary = settings.binary.clone();
    Ok((node::Plan { binary, dir, listen, args, prefix }, link))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for hand in &mut self.hands {
            let _ = hand.child.kill();
            let _ = hand.child.wait();
        }
    }
}
