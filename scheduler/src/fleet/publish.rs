//! What nodes tell each other of their sessions, a few times per second while there are several.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};

use super::Fleet;
use crate::{
    clock::Clock,
    hub::Hub,
    store::{
        Result, SharedStore,
        cluster::{Load, Peer, SessionLoad},
    },
};

/// Pause between two exchanges while several nodes live.
pub const EXCHANGE_EVERY: Duration = Duration::from_millis(250);
/// The same for a node that is alone and looks whether others have come.
pub const ALONE_EVERY: Duration = Duration::from_secs(1);
/// All sessions are read anew this often, to find those whose rows are gone.
const READ_ALL_EVERY: Duration = Duration::from_secs(10);
/// What was written so long before the last look is read again: it may have been committed later.
const OVERLAP: TimeDelta = TimeDelta::seconds(2);
/// A node that is not seen to live for so long is written down as gone; a database that restarts
/// takes all nodes' locks for a moment.
const GONE_AFTER: Duration = Duration::from_secs(5);
/// Sessions told of in one statement.
const PUBLISH_MAX: usize = 1_000;

/// Exchanges news with the other nodes.
pub struct Exchange {
    store: SharedStore,
    hub: Arc<Hub>,
    fleet: Arc<Fleet>,
    clock: Arc<dyn Clock>,
    node: Arc<str>,
    /// Nodes that died, and since when.
    dead: HashMap<Arc<str>, Duration>,
    /// What the others were told last, by the executor's row.
    told: HashMap<i64, SessionLoad>,
    /// The newest that was read, by the database's clock.
    read_until: Option<DateTime<Utc>>,
    /// Monotonic time of the next look at all sessions.
    read_all_at: Duration,
}

/// What one exchange brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Nodes joined or died.
    pub changed: bool,
    /// The nodes that live, as the database knows them.
    pub peers: Vec<Peer>,
}

impl Exchange {
    /// For the node of that id.
    pub fn new(
        store: SharedStore,
        hub: Arc<Hub>,
        fleet: Arc<Fleet>,
        clock: Arc<dyn Clock>,
        node: &str,
    ) -> Self {
        Self {
            store,
            hub,
            fleet,
            clock,
            node: node.into(),
            dead: HashMap::new(),
            told: HashMap::new(),
            read_until: None,
            read_all_at: Duration::ZERO,
        }
    }

    /// One exchange.
    ///
    /// # Errors
    /// The store's; the next one makes up for it.
    pub async fn step(&mut self) -> Result<News> {
        let news = self.exchange().await;
        if news.is_err() {
            // The server may have crashed, and then nothing is left of what was told: looked for at
            // once when it is back.
            self.read_all_at = Duration::ZERO;
        }
        news
    }

    async fn exchange(&mut self) -> Result<News> {
        let asked = self.clock.elapsed();
        let peers = self.store.peers().await?;
        // Who is not found may have died while the answer was made.
        let now = self.clock.now();
        let others = peers.iter().map(|peer| Arc::from(peer.id.as_str()));
        let living: HashSet<Arc<str>> = others.filter(|id| *id != self.node).collect();
        let alone = living.is_empty();
        self.note(&peers, !alone, asked);
        self.dead.retain(|node, _| !living.contains(node));
        let (changed, dead) = self.fleet.set_living(living, now);
        let elapsed = self.clock.elapsed();
        self.dead.extend(dead.into_iter().map(|node| (node, elapsed)));
        if !alone {
            self.publish(now).await?;
            self.read(now).await?;
        }
        self.bury(elapsed, now).await?;
        Ok(News { changed, peers })
    }

    /// Lets the sessions know how this node stands in the cluster. `asked` is when the question was
    /// put: who is named in the answer lived then.
    fn note(&self, peers: &[Peer], has_others: bool, asked: Duration) {
        let lives = peers.iter().any(|peer| *peer.id == *self.node);
        let mut cluster = self.hub.settings().cluster.write();
        cluster.peer_endpoints = self.endpoints(peers);
        cluster.has_others = has_others;
        cluster.answered(asked, lives);
    }

    /// Where executors reach the other nodes, of those that say so. An address for listening on all
    /// interfaces leads nowhere, and a node that is drained takes nobody.
    fn endpoints(&self, peers: &[Peer]) -> Vec<String> {
        let others = peers.iter().filter(|peer| *peer.id != *self.node && !peer.drain_asked);
        let endpoints = others.map(|peer| peer.advertise_address.clone());
        let somewhere = |url: &String| !url.contains("//0.0.0.0:") && !url.contains("//[::]:");
        endpoints.filter(somewhere).collect()
    }

    /// Writes down which nodes are gone.
    async fn bury(&mut self, elapsed: Duration, now: DateTime<Utc>) -> Result<()> {
        let gone = self.dead.iter().filter(|(_, since)| elapsed >= **since + GONE_AFTER);
        let gone: Vec<Arc<str>> = gone.map(|(node, _)| node.clone()).collect();
        for node in gone {
            tracing::warn!(%node, "a node is gone: its executors come back to others");
            self.store.end_sessions_of(&node, now).await?;
            self.store.remove_node(&node, now).await?;
            self.dead.remove(&node);
        }
        Ok(())
    }

    /// Tells of sessions that changed, and of those that ended.
    async fn publish(&mut self, now: DateTime<Utc>) -> Result<()> {
        let loads = self.hub.loads(&self.node);
        let here: HashSet<i64> = loads.iter().map(|session| session.executor).collect();
        let changed = loads.into_iter().filter(|session| {
            let before = self.told.get(&session.executor);
            !before
                .is_some_and(|told| told.epoch == session.epoch && same(&told.load, &session.load))
        });
        let mut news: Vec<SessionLoad> = changed.collect();
        let gone = self.told.values().filter(|told| !here.contains(&told.executor));
        news.extend(gone.map(|told| SessionLoad { ended_at: Some(now), ..told.clone() }));
        for chunk in news.chunks(PUBLISH_MAX) {
            self.store.publish_sessions(chunk).await?;
        }
        for session in news {
            match session.ended_at {
                None => self.told.insert(session.executor, session),
                Some(_) => self.told.remove(&session.executor),
            };
        }
        Ok(())
    }

    /// Reads what the others told, and what operators said of the sessions here.
    async fn read(&mut self, now: DateTime<Utc>) -> Result<()> {
        let elapsed = self.clock.elapsed();
        let all = elapsed >= self.read_all_at || self.read_until.is_none();
        let since = self.read_until.filter(|_| !all).map(|at| at - OVERLAP);
        let (own, others): (Vec<_>, Vec<_>) = self
            .store
            .read_sessions(since)
            .await?
            .into_iter()
            .partition(|session| session.node == self.node);
        let newest = own.iter().chain(&others).map(|session| session.at).max();
        self.read_until = self.read_until.max(newest).or(Some(now));
        for session in &own {
            self.hub.set_cordon(session.app, &session.name, session.cordoned);
        }
        if all {
            self.read_all_at = elapsed + READ_ALL_EVERY;
            // After a crash of the server nothing is left of what was told.
            let there: HashSet<i64> = own.iter().map(|session| session.executor).collect();
            self.told.retain(|row, _| there.contains(row));
        }
        self.fleet.forget(&own);
        self.fleet.hear(others, all, now);
        Ok(())
    }
}

/// Whether two loads say the same, but for small changes of the processor's.
fn same(a: &Load, b: &Load) -> bool {
    const CPU_STEP: f32 = 0.05;
    let close = (a.cpu - b.cpu).abs() < CPU_STEP;
    close && *a == Load { cpu: a.cpu, ..b.clone() }
}
