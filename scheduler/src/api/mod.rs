//! The gRPC edge: one file per service, and what they share.
//!
//! Every request passes `Edge`: it gets a request id, the authorisation of `auth`, and goes
//! to a service, to the JSON `bridge`, or to one of the few HTTP pages.

pub mod auth;
pub mod bridge;
pub mod caller;
pub mod edge;
pub mod gate;
pub mod health;
pub mod json_error;
pub mod listen;
pub mod pages;
pub mod rules;
pub mod session;
pub mod status;
pub mod tls;

use std::sync::Arc;

use crate::{
    clock::Clock,
    store::{self, SharedStore},
};

/// Entries on a page when the caller names no size.
pub const PAGE_SIZE_DEFAULT: u32 = 50;
/// Entries on a page at most; larger sizes are cut.
pub const PAGE_SIZE_MAX: u32 = 1000;
/// Bytes of one request message, gRPC or JSON.
pub const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What an operator may set about the API.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Program version, as GetServerInfo tells it.
    pub version: String,
    /// This process's node id.
    pub node_id: String,
    /// Prefix under which everything is served too, such as `/clawjob`; empty for none.
    pub context_path: String,
    /// Bytes of a job's or run's params.
    pub params_bytes_max: u32,
    /// Bytes of a run's output.
    pub output_bytes_max: u32,
    /// `GET /metrics` needs no credential.
    pub metrics_open: bool,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node_id: String::new(),
            context_path: String::new(),
            params_bytes_max: 256 * 1024,
            output_bytes_max: 256 * 1024,
            metrics_open: false,
        }
    }
}

/// What every service works with.
pub struct Api {
    /// Where everything is kept.
    pub store: SharedStore,
    /// The only source of `now`.
    pub clock: Arc<dyn Clock>,
    /// What the operator set.
    pub settings: ApiSettings,
    /// Signs page tokens and resume tokens of watches; the same on all nodes of a cluster.
    pub page_key: Vec<u8>,
}

impl Api {
    /// Reads the cluster's keys, making them at the first start.
    ///
    /// # Errors
    /// The store's, when it can't be read.
    pub async fn new(
        store: SharedStore,
        clock: Arc<dyn Clock>,
        settings: ApiSettings,
    ) -> store::Result<Arc<Self>> {
        let fresh: [u8; 32] = rand::random();
        let page_key = store.cluster_secret("page_key", fresh.to_vec()).await?;
        Ok(Arc::new(Self { store, clock, settings, page_key }))
    }
}
