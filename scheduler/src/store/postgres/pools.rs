//! The pools of connections, by what they are for: none takes connections from another.

use deadpool_postgres::{Object, Pool};

use super::{
    PostgresConfig, PostgresStore, error,
    session::{self, Role},
    tls,
};
use crate::store::Result;

/// Connections for results: batches are large, and more of them only wait for the disk.
const HOT_CONNECTIONS_MAX: usize = 3;
/// Connections for what the API finds and changes by key. One of them makes all changes of jobs.
const KEYED_CONNECTIONS_MAX: usize = 4;
/// Connections for what need not wait for the disk.
const LAZY_CONNECTIONS_MAX: usize = 2;

pub(super) struct Pools {
    free: Pool,
    hot: Pool,
    pub(super) keyed: Pool,
    pub(super) lazy: Pool,
}

impl Pools {
    pub(super) fn new(config: &PostgresConfig) -> Result<Self> {
        let pooled = config.pool_url.as_deref().unwrap_or(&config.url);
        let proxied = config.pool_url.is_some();
        let direct = |role, size| session::pool(tls::target(&config.url)?, role, size, false);
        Ok(Self {
            free: session::pool(tls::target(pooled)?, Role::Free, config.pool_size, proxied)?,
            hot: direct(Role::Hot, HOT_CONNECTIONS_MAX)?,
            keyed: direct(Role::Keyed, KEYED_CONNECTIONS_MAX)?,
            lazy: direct(Role::Lazy, LAZY_CONNECTIONS_MAX)?,
        })
    }

    pub(super) fn close(&self) {
        for pool in [&self.free, &self.hot, &self.keyed, &self.lazy] {
            pool.close();
        }
    }
}

impl PostgresStore {
    /// A connection for what finds and changes single jobs, executors and apps by key.
    pub(super) async fn keyed(&self) -> Result<Object> {
        self.pools.keyed.get().await.map_err(error::pool)
    }

    /// A connection for the rest of the API and upkeep.
    pub(super) async fn client(&self) -> Result<Object> {
        self.pools.free.get().await.map_err(error::pool)
    }

    /// A connection for results.
    pub(super) async fn hot(&self) -> Result<Object> {
        self.pools.hot.get().await.map_err(error::pool)
    }

    /// A connection for what need not wait for the disk.
    pub(super) async fn lazy(&self) -> Result<Object> {
        self.pools.lazy.get().await.map_err(error::pool)
    }
}
