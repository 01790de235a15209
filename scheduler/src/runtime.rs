//! Builds everything, runs the loops, and ends them in order.

mod loops;
mod progress;
mod settings;
mod shed;
mod signals;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use clawjob_proto::v1::scheduler_drain::Reason;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    alarm::{Channels, courier::Courier, raise::Raiser},
    api::{
        self, Api,
        auth::{self, Auth},
        edge::Edge,
        health::{Health, Phase},
        listen::Port,
    },
    board::Board,
    clock::{Clock, SystemClock},
    config::Config,
    dispatch::handed::HandedRuns,
    fleet::{Exchange, Fleet, Reach},
    follow::Follower,
    hub::{Hub, event::EventReceiver},
    model::alarm::DefaultAlarm,
    node::Presence,
    owner::Owner,
    results::Results,
    store::SharedStore,
    trigger::Upkeep,
};
use loops::{Known, Loops};
use progress::{Progress, Watch};
use shed::Shedding;
pub use signals::{StopSignals, start_unless};

/// Executors are asked to move within this time at a shutdown.
const RECONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Sessions still here after this long at a shutdown are closed; their runs go on regardless.
const LEAVE_WITHIN: Duration = Duration::from_secs(4);
/// How often it is looked whether all have left.
const LEAVE_CHECK: Duration = Duration::from_millis(100);
/// The part of the shutdown's grace that requests under way have to end.
const DRAIN_SHARE: u32 = 3;

/// A running scheduler.
pub struct Server {
    url: String,
    admin_token: Option<String>,
    token_file: PathBuf,
    parts: Parts,
}

/// What ends when, in this order: the owner (trigger and dispatch), the port, what writes results
/// once sessions have ended, and the rest.
#[derive(Clone, Default)]
struct Stops {
    owner: CancellationToken,
    port: CancellationToken,
    results: CancellationToken,
    rest: CancellationToken,
}

struct Parts {
    foundation: Foundation,
    health: Arc<Health>,
    grace: Duration,
    stops: Stops,
    owner: JoinHandle<()>,
    port: JoinHandle<()>,
    results: JoinHandle<()>,
    rest: Vec<JoinHandle<()>>,
}

/// What all parts stand on.
struct Foundation {
    clock: Arc<dyn Clock>,
    store: SharedStore,
    hub: Arc<Hub>,
    fleet: Arc<Fleet>,
    reach: Arc<Reach>,
    board: Arc<Board>,
    /// This node's id.
    node: String,
}

/// What makes the ends of runs known: to other jobs, and to people.
struct Telling {
    follower: Follower,
    courier: Courier,
}

/// Builds and starts a scheduler.
///
/// # Errors
/// A store that can't be opened, an address that can't be had, a file that can't be written.
pub async fn start(config: &Config) -> Result<Server> {
    let port = Port::bind(&settings::listen(config)?).await?;
    let (foundation, events) = Foundation::lay(config).await?;
    let presence = foundation.announce(config, &port).await?;
    let Foundation { clock, store, .. } = &foundation;
    let admin_token = auth::bootstrap_admin_token(store, &config.data_dir, clock.now()).await?;
    let health = Health::new().await;
    let times = settings::sign_in_times(config);
    let auth = Auth::new(store.clone(), clock.clone(), times);
    let (edge, channels) = foundation.edge(config, &auth, &health).await?;
    let telling = foundation.telling(config, channels).await?;
    let url = format!("{}://{}{}", port.scheme(), port.address(), config.context_path);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), %url, store = store.kind(), node = foundation.node,
        "scheduler started"
    );
    let parts =
        Parts::run(foundation, config, port, edge, events, presence, telling, auth, health.clone());
    health.set(Phase::Serving).await;
    let token_file = config.data_dir.join("admin.token");
    Ok(Server { url, admin_token, token_file, parts })
}

impl Foundation {
    async fn lay(config: &Config) -> Result<(Self, EventReceiver)> {
        let clock: Arc<dyn Clock> = SystemClock::new();
        let store = settings::open_store(config).await?;
        let node = uuid::Uuid::new_v4().simple().to_string();
        let hub_settings = settings::hub_settings(config, &node, clock.elapsed());
        let (hub, events) = Hub::new(hub_settings, clock.clone());
        let board = Arc::new(Board::default());
        hub.know_holdings(Arc::new(Known(board.clone())));
        let fleet = Fleet::new(hub.capacity_changed());
        let reach = Reach::new(hub.clone(), fleet.clone());
        Ok((Self { clock, store, hub, fleet, reach, board, node }, events))
    }

    /// Measures the clock and writes this node's row.
    async fn announce(&self, config: &Config, port: &Port) -> Result<Presence> {
        let row = settings::node_row(config, &self.node, port, self.clock.now());
        let mut presence = Presence::new(self.store.clone(), self.clock.clone(), row);
        presence.measure_clock().await?;
        presence.refresh(&self.board, 0).await?;
        Ok(presence)
    }

    async fn edge(
        &self,
        config: &Config,
        auth: &Arc<Auth>,
        health: &Arc<Health>,
    ) -> Result<(Arc<Edge>, Arc<Channels>)> {
        let settings = settings::api(config, &self.node)?;
        let (store, hub, clock) = (self.store.clone(), self.hub.clone(), self.clock.clone());
        let api = Api::new(store, hub, clock, settings).await?;
        let channels = api.channels.clone();
        Ok((api::edge(api, auth.clone(), health)?, channels))
    }

    /// Says to the store which ends the configuration's alarm is about, so that all from here on
    /// are followed up.
    async fn telling(&self, config: &Config, channels: Arc<Channels>) -> Result<Telling> {
        let default = settings::default_alarm(config)?;
        let wished = default.as_ref().map(DefaultAlarm::states).unwrap_or_default();
        self.store.wish_default_ends(&wished).await?;
        let raiser = Raiser::new(self.store.clone(), default.clone());
        let (store, clock) = (self.store.clone(), self.clock.clone());
        Ok(Telling {
            follower: Follower::new(self.store.clone(), self.board.clone(), raiser),
            courier: Courier::new(store, clock, channels, default),
        })
    }

    fn results(&self, stop: CancellationToken) -> Results {
        let known = Arc::new(Known(self.board.clone()));
        let (store, reach, clock) = (self.store.clone(), self.reach.clone(), self.clock.clone());
        Results::new(store, reach, known.clone(), known, clock, stop)
    }

    fn owner(&self, config: &Config) -> Owner {
        let (store, board, reach) = (self.store.clone(), self.board.clone(), self.reach.clone());
        let (clock, node) = (self.clock.clone(), self.node.clone());
        Owner::new(store, board, reach, clock, node, settings::lost_rules(config))
    }

    fn exchange(&self) -> Exchange {
        let (store, hub, fleet) = (self.store.clone(), self.hub.clone(), self.fleet.clone());
        Exchange::new(store, hub, fleet, self.clock.clone(), &self.node)
    }

    fn handed(&self) -> HandedRuns {
        let (store, hub) = (self.store.clone(), self.hub.clone());
        HandedRuns::new(store, hub, self.clock.clone(), &self.node)
    }
}

impl Parts {
    /// Starts the loops: the one table of them.
    #[allow(clippy::too_many_arguments, reason = "each is one part, handed over once")]
    fn run(
        foundation: Foundation,
        config: &Config,
        port: Port,
        edge: Arc<Edge>,
        events: EventReceiver,
        presence: Presence,
        telling: Telling,
        auth: Arc<Auth>,
        health: Arc<Health>,
    ) -> Self {
        let stops = Stops::default();
        let grace = config.timings.shutdown_grace;
        let Foundation { clock, store, hub, board, .. } = &foundation;
        let loops = Loops {
            store: store.clone(),
            hub: hub.clone(),
            fleet: foundation.fleet.clone(),
            board: board.clone(),
            clock: clock.clone(),
            told: Arc::default(),
            drained: CancellationToken::new(),
            node: foundation.node.as_str().into(),
        };
        let rest = || stops.rest.clone();
        let authenticated = rest();
        let progress = Progress::new(clock.elapsed());
        let watch = Watch {
            progress: progress.clone(),
            store: store.clone(),
            board: board.clone(),
            clock: clock.clone(),
            health: health.clone(),
        };
        Self {
            owner: tokio::spawn(loops.clone().owner(
                foundation.owner(config),
                progress,
                stops.owner.clone(),
            )),
            results: tokio::spawn(foundation.results(stops.results.clone()).run(events)),
            port: tokio::spawn(port.serve(
                edge,
                clock.clone(),
                stops.port.clone(),
                grace / DRAIN_SHARE,
            )),
            rest: vec![
                tokio::spawn(hub.clone().upkeep(store.clone(), rest())),
                tokio::spawn(watch.run(rest())),
                tokio::spawn(loops.clone().courier(telling.courier, rest())),
                tokio::spawn(loops.clone().presence(presence, rest())),
                tokio::spawn(loops.clone().follow(telling.follower, rest())),
                tokio::spawn(
                    loops.clone().upkeep(Upkeep::new(store.clone(), board.clone()), rest()),
                ),
                tokio::spawn(loops.clone().exchange(
                    foundation.exchange(),
                    Shedding::new(
                        hub.clone(),
                        health.clone(),
                        loops.node.clone(),
                        loops.drained.clone(),
                    ),
                    rest(),
                )),
                tokio::spawn(loops.clone().handed(foundation.handed(), rest())),
                tokio::spawn(loops.prune(settings::keep(config), rest())),
                tokio::spawn(async move { auth.upkeep(authenticated).await }),
            ],
            foundation,
            health,
            grace,
            stops,
        }
    }
}

impl Server {
    /// Where clients reach it, such as `http://127.0.0.1:7700`.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The admin token, if this start made it.
    pub fn admin_token(&self) -> Option<&str> {
        self.admin_token.as_deref()
    }

    /// The file that holds it.
    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// Ends it: not ready, no new fires, executors leave, results are written, the store closes.
    /// Bounded by the configured grace.
    pub async fn stop(self) {
        let clock = self.parts.foundation.clock.clone();
        let grace = self.parts.grace;
        tracing::info!(sessions = self.parts.foundation.hub.sessions(), "scheduler stopping");
        tokio::select! {
            () = self.parts.stop() => tracing::info!("scheduler stopped"),
            () = clock.wait(grace) => tracing::warn!(?grace, "the shutdown was cut short"),
        }
    }
}

impl Parts {
    async fn stop(self) {
        let Foundation { clock, store, hub, node, .. } = self.foundation;
        self.health.set(Phase::Draining).await;
        self.stops.owner.cancel();
        let _ = self.owner.await;
        let leave = LEAVE_WITHIN.min(self.grace / DRAIN_SHARE);
        hub.drain_all(Reason::Shutdown, RECONNECT_WITHIN.min(leave), leave);
        let left = async {
            while hub.sessions() > 0 {
                clock.wait(LEAVE_CHECK).await;
            }
        };
        tokio::select! {
            () = left => {}
            () = clock.wait(leave) => {}
        }
        hub.close_all();
        self.stops.port.cancel();
        let _ = self.port.await;
        self.stops.results.cancel();
        let _ = self.results.await;
        self.stops.rest.cancel();
        for task in self.rest {
            let _ = task.await;
        }
        if let Err(fault) = store.remove_node(&node, clock.now()).await {
            tracing::debug!(%fault, "the node's row could not be closed");
        }
        store.close().await;
    }
}
