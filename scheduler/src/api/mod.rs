//! The gRPC edge: one file per service, and what they share.
//!
//! Every request passes `Edge`: it gets a request id, the authorisation of `auth`, and goes
//! to a service, to the JSON `bridge`, or to one of the few HTTP pages.

pub mod alarms;
mod apps;
pub mod audit;
pub mod auth;
pub mod bridge;
pub mod calendars;
pub mod caller;
pub mod cancel;
pub mod cluster;
pub mod convert;
pub mod cookie;
pub mod edge;
pub mod feed;
pub mod filter;
pub mod fleet;
pub mod gate;
pub mod health;
pub mod identity;
pub mod intake;
pub mod jobs;
pub mod json_error;
pub mod listen;
pub mod logs;
pub mod mask;
pub mod pages;
pub mod paging;
pub mod request_id;
pub mod rules;
pub mod runs;
#[cfg(test)]
pub(crate) mod sample;
pub mod scope;
pub mod session;
pub mod status;
pub mod strangers;
pub mod streams;
pub mod tls;
pub mod validate;
pub mod watch;

use std::sync::Arc;

use clawjob_proto::v1::{
    alarm_service_server::AlarmServiceServer, calendar_service_server::CalendarServiceServer,
    cluster_service_server::ClusterServiceServer, executor_service_server::ExecutorServiceServer,
    fleet_service_server::FleetServiceServer, identity_service_server::IdentityServiceServer,
    job_service_server::JobServiceServer, run_service_server::RunServiceServer,
};
use tonic::{codec::CompressionEncoding, service::Routes};

use crate::{
    alarm::{ChannelSettings, Channels},
    clock::Clock,
    hub::Hub,
    store::{self, SharedStore},
    telemetry::metrics,
};
use alarms::AlarmsApi;
use auth::Auth;
use calendars::CalendarsApi;
use cluster::ClusterApi;
use cookie::Cookies;
use edge::Edge;
use fleet::FleetApi;
use gate::Gate;
use health::Health;
use identity::IdentityApi;
use jobs::JobsService;
use runs::RunsService;
use session::room::Room;
use strangers::Strangers;

/// Entries on a page when the caller names no size.
pub const PAGE_SIZE_DEFAULT: u32 = 50;
/// Entries on a page at most; larger sizes are cut.
pub const PAGE_SIZE_MAX: u32 = 1000;
/// Jobs of an app that one call of `DeleteApp` deletes at most: some seconds of work.
pub const APP_JOBS_DELETED_MAX: usize = 1_000;
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
    /// A proxy in front ends TLS: cookies are for encrypted connections.
    pub behind_proxy: bool,
    /// Nobody but a proxy reaches this port, and it writes whom it serves into `x-forwarded-for`.
    pub forwarded_for: bool,
    /// How alarms are sent.
    pub channels: ChannelSettings,
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
            behind_proxy: false,
            forwarded_for: false,
            channels: ChannelSettings::default(),
        }
    }
}

/// What every service works with.
pub struct Api {
    /// Where everything is kept.
    pub store: SharedStore,
    /// The executors connected to this node.
    pub hub: Arc<Hub>,
    /// The only source of `now`.
    pub clock: Arc<dyn Clock>,
    /// What the operator set.
    pub settings: ApiSettings,
    /// Where alarms go.
    pub channels: Arc<Channels>,
    /// Signs page tokens and resume tokens of watches; the same on all nodes of a cluster.
    pub page_key: Vec<u8>,
    /// Executors that were turned away.
    pub strangers: Strangers,
    /// Sign-ins of browsers.
    pub cookies: Arc<Cookies>,
    /// How many more executors apps may get.
    room: Room,
}

impl Api {
    /// Reads the cluster's keys, making them at the first start.
    ///
    /// # Errors
    /// The store's, when it can't be read.
    pub async fn new(
        store: SharedStore,
        hub: Arc<Hub>,
        clock: Arc<dyn Clock>,
        settings: ApiSettings,
    ) -> store::Result<Arc<Self>> {
        let fresh: [u8; 32] = rand::random();
        let page_key = store.cluster_secret("page_key", fresh.to_vec()).await?;
        let channels = Arc::new(Channels::new(settings.channels.clone()));
        let strangers = Strangers::default();
        let cookies = Arc::new(Cookies::new(&page_key, &settings));
        let room = Room::default();
        Ok(Arc::new(Self {
            store,
            hub,
            clock,
            settings,
            channels,
            page_key,
            strangers,
            cookies,
            room,
        }))
    }
}

/// Why the edge can't be built: a fault of the build.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// A descriptor set that reflection can't read.
    #[error(transparent)]
    Reflection(#[from] tonic_reflection::server::Error),
    /// Costs of password hashes that the library does not take.
    #[error(transparent)]
    Passwords(#[from] status::ApiError),
}

/// Everything that is served on the one port.
///
/// # Errors
/// See [`EdgeError`].
pub fn edge(api: Arc<Api>, auth: Arc<Auth>, health: &Arc<Health>) -> Result<Arc<Edge>, EdgeError> {
    let frame_bytes_max = api.hub.settings().max_frame_bytes as usize;
    let sessions = session::SessionService::new(api.clone(), api.hub.clone());
    let sessions = ExecutorServiceServer::from_arc(sessions)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(frame_bytes_max);
    let routes = Routes::default()
        .add_service(sessions)
        .add_service(IdentityServiceServer::new(IdentityApi::new(api.clone(), auth.clone())?))
        .add_service(ClusterServiceServer::new(ClusterApi::new(api.clone(), health.clone())))
        .add_service(JobServiceServer::new(JobsService::new(api.clone())))
        .add_service(RunServiceServer::new(RunsService::new(api.clone(), auth.clone())))
        .add_service(FleetServiceServer::new(FleetApi::new(api.clone())))
        .add_service(CalendarServiceServer::new(CalendarsApi::new(api.clone())))
        .add_service(AlarmServiceServer::new(AlarmsApi::new(api.clone())))
        .add_service(health.service())
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let shown =
        pages::Metrics { text: Arc::new(|| metrics().text()), open: api.settings.metrics_open };
    let pages = pages::router(health.clone(), auth.clone(), shown);
    let gate = Gate::new(auth, api.cookies.clone(), api.clock.clone());
    Ok(Edge::new(api, gate, routes, pages))
}

/// The contract, health, and the messages that errors carry, for tools that ask.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(clawjob_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
}
