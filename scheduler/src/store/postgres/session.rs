//! One database connection: how it is opened and what is set on it.

use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Hook, HookError, Manager, ManagerConfig, Pool, Runtime};
use tokio::task::AbortHandle;
use tokio_postgres::Connection;

use super::{error, tls::Target};
use crate::store::{Result, StoreError};

/// Longest time to open a connection to the one host that is named.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time for each further one. A host that is gone does not answer: of several none may take
/// the time of those behind it.
const HOST_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait for a free connection of a pool.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection of a pool that was not taken for this long is asked whether it is still one: what is
/// between may have forgotten it, and tells nobody.
const UNASKED_MAX: Duration = Duration::from_secs(2);
/// Longest wait for the answer to that.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Sent bytes that stay unacknowledged this long end the connection, on either side.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(4);
/// Silence before the first TCP keepalive, and between two.
const KEEPALIVE: Duration = Duration::from_secs(2);
/// Unanswered TCP keepalives that end a connection.
const KEEPALIVES_MAX: u32 = 2;

/// On every connection. A transaction that its client left open holds row locks; a just-in-time
/// compiled plan costs more than any statement here takes.
const COMMON: &str = "SET idle_in_transaction_session_timeout = '2s'; SET jit = off;
    SET statement_timeout = '10s'; SET tcp_user_timeout = '4s'; SET tcp_keepalives_idle = 2;
    SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 2";

/// On connections of the hot path, and for what is found by key. Batches are joined to their tables by
/// key, row by row; any other plan can only come from statistics of an empty table, so none is allowed,
/// and the one plan is kept instead of being made anew per statement. A plain `=` would still let the
/// table come first, and be read whole with the batch once for each of its rows: with `= ANY(ARRAY[…])`
/// the order of an index promises nothing for the join, and only a search by key is left. What reads ended
/// runs by less than id, job and app has no place here: the plan would have to choose among their indexes.
const PINNED: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
    SET enable_material = off";

/// On connections with statements of any shape.
const FREE: &str = "SET plan_cache_mode = force_custom_plan";

/// On the pen: the session of a frozen or cut-off owner ends soon.
const PEN: &str = "SET idle_session_timeout = '5s'; SET statement_timeout = '5s'";

/// Where hints are written: a lost one costs a sweep, a waited-for one the disk.
const LAZY: &str = "SET synchronous_commit = off";

/// Ends a running statement soon after its client is gone. Not on every platform of a server.
const CLIENT_CHECK: &str = "SET client_connection_check_interval = '500ms'";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Single jobs, executors and apps: pinned plans.
    Keyed,
    /// The rest of the API and upkeep.
    Free,
    /// Results: pinned plans.
    Hot,
    /// Holds partitions: pinned plans, dies fast.
    Pen,
    /// Sends notifications.
    Sender,
    /// What nodes leave for each other, and the audit log: pinned plans, no waiting for the disk.
    Lazy,
    /// Receives notifications: idle for ever and never in a transaction.
    Listener,
    /// Migrations: may wait for another node's.
    Setup,
}

impl Role {
    fn settings(self) -> String {
        let own = match self {
            Self::Free => FREE.to_owned(),
            Self::Hot | Self::Keyed => PINNED.to_owned(),
            Self::Pen => format!("{PINNED}; {PEN}"),
            Self::Sender => LAZY.to_owned(),
            Self::Lazy => format!("{PINNED}; {LAZY}"),
            Self::Listener => return COMMON.to_owned(),
            Self::Setup => "SET statement_timeout = '120s'".to_owned(),
        };
        format!("{COMMON}; {own}")
    }
}

/// A connection outside a pool. It ends when dropped.
pub(super) struct Session {
    /// To speak on it.
    pub(super) client: ClientWrapper,
    /// Cuts the connection at once, whatever is under way on it.
    pub(super) cut: AbortHandle,
}

/// The driver's half of a connection.
pub(super) type Wire = Connection<
    tokio_postgres::Socket,
    <tokio_postgres_rustls::MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<
        tokio_postgres::Socket,
    >>::Stream,
>;

/// Opens a connection; the caller drives its other half.
pub(super) async fn dial(target: &Target, role: Role) -> Result<(tokio_postgres::Client, Wire)> {
    let mut config = target.config.clone();
    config.application_name(format!("clawjob {role:?}").to_lowercase());
    let limit = bound(&mut config);
    let dialed = tokio::time::timeout(limit, config.connect(target.tls.clone())).await;
    let late = |_| StoreError::Unavailable(format!("no connection within {limit:?}"));
    dialed.map_err(late)?.map_err(|fault| error::connecting(&fault))
}

/// Opens a connection, drives it in a task of its own, and sets it up.
pub(super) async fn open(target: &Target, role: Role) -> Result<Session> {
    let (client, wire) = dial(target, role).await?;
    let task = tokio::spawn(async move {
        if let Err(fault) = wire.await {
            tracing::debug!(error = %fault, "database connection ended");
        }
    });
    let cut = task.abort_handle();
    let session = Session { client: ClientWrapper::new(client, task), cut };
    prepare(&session.client, role).await?;
    Ok(session)
}

/// Sets up a connection for its role.
pub(super) async fn prepare(client: &tokio_postgres::Client, role: Role) -> Result<()> {
    client.batch_execute(&role.settings()).await.map_err(error::db)?;
    if let Err(fault) = client.batch_execute(CLIENT_CHECK).await {
        tracing::debug!(error = %fault, "the server can't watch its clients");
    }
    Ok(())
}

/// Whether the server answers on a connection.
pub(super) async fn alive(client: &tokio_postgres::Client) -> Result<()> {
    let late = |_| StoreError::Unavailable(format!("no answer within {ALIVE_TIMEOUT:?}"));
    let asked = tokio::time::timeout(ALIVE_TIMEOUT, client.check_connection());
    asked.await.map_err(late)?.map_err(error::db)
}

/// A pool of connections to `target`. Behind a proxy nothing is set on them: a setting would stay
/// on whichever server connection it met.
pub(super) fn pool(target: Target, role: Role, size: usize, proxied: bool) -> Result<Pool> {
    let mut config = target.config;
    let limit = bound(&mut config);
    let manager = Manager::from_config(config, target.tls, ManagerConfig::default());
    let mut builder = Pool::builder(manager)
        .max_size(size.max(1))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(ACQUIRE_TIMEOUT))
        .create_timeout(Some(limit))
        .pre_recycle(Hook::async_fn(|client: &mut ClientWrapper, metrics| {
            let is_fresh = metrics.last_used() < UNASKED_MAX;
            Box::pin(async move {
                if is_fresh {
                    return Ok(());
                }
                alive(client).await.map_err(|fault| HookError::message(fault.to_string()))
            })
        }));
    if !proxied {
        builder = builder.post_create(Hook::async_fn(move |client, _| {
            Box::pin(async move {
                prepare(client, role).await.map_err(|e| HookError::message(e.to_string()))
            })
        }));
    }
    builder.build().map_err(|fault| StoreError::Internal(fault.to_string()))
}

/// Bounds the times of a connection; returns the longest that opening one may take, whichever of its
/// hosts it leads to.
fn bound(config: &mut tokio_postgres::Config) -> Duration {
    let hosts = config.get_hosts().len().max(config.get_hostaddrs().len()).max(1);
    let further = u32::try_from(hosts - 1).unwrap_or(u32::MAX);
    config
        .connect_timeout(if further == 0 { CONNECT_TIMEOUT } else { HOST_TIMEOUT })
        .tcp_user_timeout(TCP_USER_TIMEOUT)
        .keepalives(true)
        .keepalives_idle(KEEPALIVE)
        .keepalives_interval(KEEPALIVE)
        .keepalives_retries(KEEPALIVES_MAX);
    CONNECT_TIMEOUT.saturating_add(HOST_TIMEOUT.saturating_mul(further))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_gone_leaves_time_for_those_behind_it() {
        let times = |hosts: &str| {
            let mut config: tokio_postgres::Config =
                format!("postgres://u@{hosts}/d").parse().expect("is read");
            let all = bound(&mut config);
            (*config.get_connect_timeout().expect("bounded"), all)
        };
        assert_eq!(times("a"), (CONNECT_TIMEOUT, CONNECT_TIMEOUT));
        let (each, all) = times("a,b,c");
        assert!(all >= each * 2 + CONNECT_TIMEOUT, "two gone, then one that is slow");
    }
}
