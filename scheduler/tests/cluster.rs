//! Several schedulers on one Postgres, as processes, with the executors' own ledger: who owns what,
//! whom runs reach, and what the death of a node costs.

#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

#[path = "cluster/adrift.rs"]
mod adrift;
#[path = "cluster/balancer.rs"]
mod balancer;
#[path = "cluster/changes.rs"]
mod changes;
#[path = "cluster/deaths.rs"]
mod deaths;
#[path = "cluster/disk.rs"]
mod disk;
#[path = "support/ledger.rs"]
mod ledger;
#[path = "cluster/limits.rs"]
mod limits;
#[path = "cluster/load.rs"]
mod load;
#[path = "support/node.rs"]
mod node;
#[path = "cluster/promotion.rs"]
mod promotion;
#[path = "cluster/reach.rs"]
mod reach;
#[path = "support/relay.rs"]
mod relay;
#[path = "support/replicas.rs"]
mod replicas;
#[path = "support/postgres.rs"]
mod server;
#[path = "cluster/shares.rs"]
mod shares;
#[path = "cluster/stage.rs"]
mod stage;
#[path = "support/tmpfs.rs"]
mod tmpfs;
#[path = "cluster/upgrade.rs"]
mod upgrade;
