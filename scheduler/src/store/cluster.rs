//! What nodes on one database have to do with each other: who shares the partitions, what the
//! sessions of each can take, and runs that are handed from the owner to the node that reaches
//! their executor.
//!
//! Only the share of partitions is an owner's; the rest are hints of the moment, written without
//! waiting for the disk. The rows of runs are the truth, and sweeps make up for hints that are lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Result;
use crate::model::{
    ids::{AppId, AttemptRef, JobId, PartitionId, RunId},
    job::Job,
    run::OpenRun,
};

/// Runs that a node takes out of its inbox at once.
pub const HANDED_MAX: usize = 256;

/// Who shares the partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Nodes that want a share, this one included unless it resigned.
    pub owners: u32,
    /// Partitions that some node holds, sorted.
    pub locked: Vec<PartitionId>,
}

/// A node whose process lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub id: String,
    /// Where executors and clients reach it.
    pub advertise_address: String,
    /// Somebody asked it to give its work away.
    pub drain_asked: bool,
    /// Sessions it held when it wrote its row.
    pub sessions: u32,
}

/// What a session can take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The handlers it offers.
    pub handlers: BTreeSet<String>,
    /// Of those, the ones that are bounded by more than its slots, with how many runs it can take
    /// now; none at all while one is paused or was refused.
    pub rooms: BTreeMap<String, Option<u32>>,
    /// Slots in all.
    pub slots: u32,
    /// Slots without a run.
    pub free: u32,
    /// Share of the processor, 0..1.
    pub cpu: f32,
    /// It may be given runs: neither cordoned, nor leaving, nor out of contact.
    pub takes: bool,
    /// Its heartbeat is overdue.
    pub silent: bool,
}

/// A session as its node tells of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionLoad {
    /// The executor's row.
    pub executor: i64,
    /// Its app.
    pub app: AppId,
    /// Its name.
    pub name: Arc<str>,
    /// The node that holds the session.
    pub node: Arc<str>,
    /// The session's epoch.
    pub epoch: u64,
    /// When this was written, by the database's clock; the store's to say.
    pub at: DateTime<Utc>,
    /// When the session ended, if it has.
    pub ended_at: Option<DateTime<Utc>>,
    /// What it can take.
    pub load: Load,
    /// An operator wants no new runs there; the store's to say.
    pub cordoned: bool,
}

/// A run that another node is to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hand {
    /// The node that holds the session of the run's executor.
    pub node: Arc<str>,
    /// The run, and the dispatch that is to be sent or stopped.
    pub attempt: AttemptRef,
    /// It may have been handed over before: that the session is gone proves nothing then.
    pub again: bool,
}

/// A run that was handed to this node.
#[derive(Clone, Debug, PartialEq)]
pub struct Handed {
    /// Its row as it stands, of the dispatch that was handed over.
    pub run: OpenRun,
    /// See [`Hand::again`].
    pub again: bool,
}

/// A number for a node's id, by which hints name it.
pub fn mark_of(node: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    node.bytes().fold(0xCBF2_9CE4_8422_2325, step)
}

/// Operations among nodes.
#[async_trait]
pub trait ClusterStore: Send + Sync {
    /// Owner: who shares the partitions. The caller counts as one who wants a share from now on,
    /// unless it resigned.
    async fn survey(&self) -> Result<Survey>;

    /// Owner: wants no partitions any more, for as long as the process lives. It is still seen to
    /// live as long as it asks for a survey now and then.
    async fn resign(&self) -> Result<()>;

    /// The nodes whose processes live, this one among them once it took part in a survey.
    async fn peers(&self) -> Result<Vec<Peer>>;

    /// Asks a node to give its work away. `NotFound` for one that is not listed.
    async fn ask_to_drain(&self, node: &str) -> Result<()>;

    /// Tells the other nodes of sessions. A newer epoch of an executor stands against an older one.
    async fn publish_sessions(&self, sessions: &[SessionLoad]) -> Result<()>;

    /// Sessions of all nodes that were told of after `since`; None means all. Also those whose
    /// cordon was changed since.
    async fn read_sessions(&self, since: Option<DateTime<Utc>>) -> Result<Vec<SessionLoad>>;

    /// Leaves runs to the nodes that reach their executors.
    async fn hand_over(&self, hands: &[Hand]) -> Result<()>;

    /// Takes what was handed to the node, oldest first, at most [`HANDED_MAX`]: rows of runs that
    /// are still open.
    async fn take_handed(&self, node: &str) -> Result<Vec<Handed>>;

    /// Leaves runs that somebody else than their owner acknowledged or ended in the inbox of their
    /// partition. The partition of a run that is still open need not be known.
    async fn tell_owners(&self, runs: &[(RunId, Option<PartitionId>)]) -> Result<()>;

    /// Jobs as they were at the given revisions, those that are kept, in no order.
    async fn load_revisions(&self, revisions: &[(JobId, u64)]) -> Result<Vec<Job>>;
}
