//! Builds everything, runs the loops, and ends them in order.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use chrono::{DateTime, Utc};
use clawjob_proto::v1::scheduler_drain::Reason;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::broadcast::{Receiver, error::RecvError},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    api::{
        self, Api, ApiSettings,
        auth::{self, Auth},
        health::{Health, Phase},
        listen::{ListenSettings, Port},
        tls::TlsFiles,
    },
    board::Board,
    clock::{Clock, SystemClock},
    config::Config,
    hub::{Hub, HubSettings},
    janitor::LostRules,
    model::{
        ids::{AttemptRef, JobId, RunId},
        job::JobSpec,
        run::{OpenRun, RunState},
    },
    node::Presence,
    owner::{Nudge, Owner},
    results::{Results, RunListener, Specs},
    store::{
        SharedStore, Topic,
        ops::{NodeRow, Retention},
        postgres::{PostgresConfig, PostgresStore},
        sqlite::SqliteStore,
    },
    telemetry::metrics,
};

/// The hub looks at its sessions' clocks this often.
const HUB_TICK: Duration = Duration::from_millis(100);
/// This node's row is written this often.
const PRESENCE_EVERY: Duration = Duration::from_secs(5);
/// The offset to the database's clock is measured every so many refreshes of the row: 30 s.
const CLOCK_EVERY: u32 = 6;
/// What is past its retention is removed this often, sooner while there is more.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Pause between two steps of pruning, so that it never crowds out scheduling.
const PRUNE_PAUSE: Duration = Duration::from_millis(200);
/// Executors are asked to move within this time at a shutdown.
const RECONNECT_WITHIN: Duration = Duration::from_secs(2);
/// The part of the shutdown's grace that executors have to leave.
const DRAIN_SHARE: u32 = 3;

/// A running scheduler.
pub struct Server {
    address: SocketAddr,
    scheme: &'static str,
    context_path: String,
    admin_token: Option<String>,
    token_file: PathBuf,
    parts: Parts,
}

struct Parts {
    store: SharedStore,
    hub: Arc<Hub>,
    health: Arc<Health>,
    clock: Arc<dyn Clock>,
    grace: Duration,
    node: String,
    /// Stops trigger and dispatch.
    stop_owner: CancellationToken,
    /// Stops taking requests.
    stop_port: CancellationToken,
    /// Stops what writes results, once sessions have ended.
    stop_results: CancellationToken,
    /// Stops the rest.
    stop_rest: CancellationToken,
    owner: JoinHandle<()>,
    port: JoinHandle<()>,
    results: JoinHandle<()>,
    rest: Vec<JoinHandle<()>>,
}

/// Builds and starts a scheduler.
///
/// # Errors
/// A store that can't be opened, an address that can't be had, a file that can't be written.
pub async fn start(config: &Config) -> Result<Server> {
    let clock: Arc<dyn Clock> = SystemClock::new();
    let address: SocketAddr = config.listen.parse().context("listen")?;
    let port = Port::bind(&ListenSettings {
        address,
        tls: tls(config),
        behind_proxy: config.behind_proxy,
        connections_max: config.limits.connections as usize,
    })
    .await?;
    let store = open_store(config).await?;
    let node = uuid::Uuid::new_v4().simple().to_string();
    let (hub, events) = Hub::new(hub_settings(config, &node, &port), clock.clone());
    let board = Arc::new(Board::default());

    let mut presence = Presence::new(store.clone(), clock.clone(), node_row(config, &node, &port));
    presence.measure_clock().await?;
    presence.refresh(&board, 0).await?;
    let admin_token = auth::bootstrap_admin_token(&store, &config.data_dir, clock.now()).await?;

    let settings = ApiSettings {
        node_id: node.clone(),
        context_path: config.context_path.clone(),
        params_bytes_max: config.limits.params_bytes,
        output_bytes_max: config.limits.output_bytes,
        metrics_open: config.metrics_open,
        ..ApiSettings::default()
    };
    let api = Api::new(store.clone(), hub.clone(), clock.clone(), settings).await?;
    let health = Health::new().await;
    let auth = Auth::new(store.clone(), clock.clone());

    let stop_owner = CancellationToken::new();
    let stop_port = CancellationToken::new();
    let stop_results = CancellationToken::new();
    let stop_rest = CancellationToken::new();
    let known = Arc::new(Known(board.clone()));
    let results = Results::new(
        store.clone(),
        hub.clone(),
        known.clone(),
        known,
        clock.clone(),
        stop_results.clone(),
    );
    let rules = LostRules {
        lost_after: config.timings.lost_after,
        takeover_grace: config.timings.takeover_grace,
    };
    let owner = Owner::new(store.clone(), board.clone(), hub.clone(), node.clone(), rules);
    let bound = port.address();
    let scheme = port.scheme();
    let edge = api::edge(api, auth.clone(), &health)?;

    // The one table of background loops.
    let loops = Loops { store: store.clone(), hub: hub.clone(), board, clock: clock.clone() };
    let rest = vec![
        tokio::spawn(hub.clone().upkeep(store.clone(), stop_rest.clone())),
        tokio::spawn(loops.clone().presence(presence, stop_rest.clone())),
        tokio::spawn(loops.clone().prune(retention(config), stop_rest.clone())),
        tokio::spawn({
            let stop = stop_rest.clone();
            async move { auth.upkeep(stop).await }
        }),
    ];
    let parts = Parts {
        owner: tokio::spawn(loops.owner(owner, stop_owner.clone())),
        results: tokio::spawn(results.run(events)),
        port: tokio::spawn(port.serve(
            edge,
            clock.clone(),
            stop_port.clone(),
            config.timings.shutdown_grace / DRAIN_SHARE,
        )),
        rest,
        store,
        hub,
        health: health.clone(),
        clock,
        grace: config.timings.shutdown_grace,
        node,
        stop_owner,
        stop_port,
        stop_results,
        stop_rest,
    };
    health.set(Phase::Serving).await;
    Ok(Server {
        address: bound,
        scheme,
        context_path: config.context_path.clone(),
        admin_token,
        token_file: config.data_dir.join("admin.token"),
        parts,
    })
}

async fn open_store(config: &Config) -> Result<SharedStore> {
    match &config.database {
        None => Ok(SqliteStore::open(&config.data_dir)?),
        Some(url) => {
            std::fs::create_dir_all(&config.data_dir)
                .with_context(|| format!("data_dir {}", config.data_dir.display()))?;
            let settings = PostgresConfig {
                url: url.clone(),
                pool_url: config.database_pool.clone(),
                pool_size: config.database_pool_size,
            };
            Ok(PostgresStore::connect(settings).await?)
        }
    }
}

fn tls(config: &Config) -> Option<TlsFiles> {
    Some(TlsFiles {
        cert: config.tls.cert_file.clone()?,
        key: config.tls.key_file.clone()?,
        client_ca: config.tls.client_ca_file.clone(),
    })
}

fn hub_settings(config: &Config, node: &str, port: &Port) -> HubSettings {
    HubSettings {
        node_id: node.to_owned(),
        peer_endpoints: vec![advertised(config, port)],
        heartbeat_interval: config.timings.heartbeat_interval,
        heartbeat_timeout: config.timings.heartbeat_timeout,
        lost_after: config.timings.lost_after,
        run_ack_timeout: config.timings.run_ack_timeout,
        kill_ack_resend: config.timings.run_ack_timeout,
        admit_per_second: config.limits.sessions_per_second,
        max_sessions: config.limits.sessions as usize,
        max_output_bytes: config.limits.output_bytes,
        ..HubSettings::default()
    }
}

fn advertised(config: &Config, port: &Port) -> String {
    let own = || format!("{}://{}{}", port.scheme(), port.address(), config.context_path);
    config.advertise.clone().unwrap_or_else(own)
}

fn node_row(config: &Config, node: &str, port: &Port) -> NodeRow {
    let at = DateTime::<Utc>::UNIX_EPOCH;
    NodeRow {
        id: node.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        advertise_address: advertised(config, port),
        draining: false,
        gone: false,
        started_at: at,
        last_seen_at: at,
        sessions: 0,
        partitions: Vec::new(),
        clock_offset_us: 0,
        lag: Duration::ZERO,
        database_latency: Duration::ZERO,
    }
}

fn retention(config: &Config) -> Retention {
    Retention { runs: config.retention.runs, logs: config.retention.logs }
}

/// Resolves on SIGTERM, SIGINT or SIGQUIT.
pub async fn stop_signal() {
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut stream) => {
                stream.recv().await;
            }
            Err(fault) => {
                tracing::warn!(%fault, "a signal can't be waited for");
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
        () = wait(SignalKind::quit()) => {}
    }
}

impl Server {
    /// Where clients reach it, such as `http://127.0.0.1:7700`.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.address, self.context_path)
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
        let clock = self.parts.clock.clone();
        let grace = self.parts.grace;
        tokio::select! {
            () = self.parts.stop() => {}
            () = clock.wait(grace) => tracing::warn!(?grace, "the shutdown was cut short"),
        }
    }
}

impl Parts {
    async fn stop(self) {
        self.health.set(Phase::Draining).await;
        self.stop_owner.cancel();
        let _ = self.owner.await;
        let leave = self.grace / DRAIN_SHARE;
        self.hub.drain_all(Reason::Shutdown, RECONNECT_WITHIN.min(leave), leave);
        let left = async {
            while self.hub.sessions() > 0 {
                self.clock.wait(HUB_TICK).await;
            }
        };
        tokio::select! {
            () = left => {}
            () = self.clock.wait(leave) => {}
        }
        self.hub.close_all();
        self.stop_port.cancel();
        let _ = self.port.await;
        self.stop_results.cancel();
        let _ = self.results.await;
        self.stop_rest.cancel();
        for task in self.rest {
            let _ = task.await;
        }
        if let Err(fault) = self.store.remove_node(&self.node, self.clock.now()).await {
            tracing::debug!(%fault, "the node's row could not be closed");
        }
        self.store.close().await;
    }
}

/// The board as results know it.
struct Known(Arc<Board>);

impl Specs for Known {
    fn spec(&self, run: &OpenRun) -> Option<Arc<JobSpec>> {
        self.0.spec_of(run.id)
    }
}

impl RunListener for Known {
    fn ended(&self, run: RunId, _job: JobId, state: RunState, at: DateTime<Utc>) {
        metrics().ended(state.as_str());
        self.0.ended(run, at);
    }

    fn put_back(&self, run: OpenRun) {
        metrics().retries.inc();
        self.0.put_back(run);
    }

    fn acked(&self, attempt: AttemptRef, at: DateTime<Utc>) {
        self.0.acked(attempt, at);
    }
}

/// What the loops work on.
#[derive(Clone)]
struct Loops {
    store: SharedStore,
    hub: Arc<Hub>,
    board: Arc<Board>,
    clock: Arc<dyn Clock>,
}

impl Loops {
    async fn owner(self, mut owner: Owner, stop: CancellationToken) {
        let mut hints = self.store.hints();
        let capacity = self.hub.capacity_changed();
        let mut nudge = Nudge { jobs: true, inbox: true };
        loop {
            let wake = owner.tick(self.clock.now(), nudge).await;
            nudge = Nudge::default();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                hint = hints.recv() => take_hint(hint, &mut nudge),
                () = capacity.notified() => {}
                () = self.board.changed() => {}
                () = self.clock.wait_until(wake) => {}
            }
            drain_hints(&mut hints, &mut nudge);
        }
        owner.stop().await;
    }

    async fn presence(self, mut presence: Presence, stop: CancellationToken) {
        let mut round = 0_u32;
        while self.pause(PRESENCE_EVERY, &stop).await {
            round = round.wrapping_add(1);
            let measured =
                if round % CLOCK_EVERY == 0 { presence.measure_clock().await } else { Ok(()) };
            let written = presence.refresh(&self.board, self.hub.sessions()).await;
            if let Err(fault) = measured.and(written) {
                metrics().store_errors.inc();
                tracing::debug!(%fault, "the node's row could not be written");
            }
            self.show(&presence).await;
        }
    }

    /// Sets the gauges.
    async fn show(&self, presence: &Presence) {
        let now = self.clock.now();
        let gauges = metrics();
        let (jobs, _) = self.board.sizes();
        gauges.jobs.set(i64::try_from(jobs).unwrap_or(i64::MAX));
        gauges.sessions.set(i64::try_from(self.hub.sessions()).unwrap_or(i64::MAX));
        let partitions = self.board.partitions().len();
        gauges.partitions.set(i64::try_from(partitions).unwrap_or(i64::MAX));
        let age = self.board.oldest_waiting().map(|due| metrics::seconds(now - due));
        gauges.queue_age.set(age.unwrap_or(0.0));
        presence.show();
        if let Ok(open) = self.store.count_open(now).await {
            for (state, count) in [
                ("QUEUED", open.queued),
                ("SCHEDULED", open.scheduled),
                ("RUNNING", open.running),
                ("RETRY_WAIT", open.retry_wait),
            ] {
                let gauge = gauges.open_runs.get_or_create(&metrics::StateLabel { state });
                gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }

    async fn prune(self, keep: Retention, stop: CancellationToken) {
        loop {
            let wait = match self.store.prune(&keep, self.clock.now()).await {
                Ok(true) => PRUNE_PAUSE,
                Ok(false) => PRUNE_EVERY,
                Err(fault) => {
                    metrics().store_errors.inc();
                    tracing::debug!(%fault, "old runs could not be removed");
                    PRUNE_EVERY
                }
            };
            if !self.pause(wait, &stop).await {
                return;
            }
        }
    }

    /// Waits; false when it is time to stop.
    async fn pause(&self, wait: Duration, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = stop.cancelled() => false,
            () = self.clock.wait(wait) => true,
        }
    }
}

fn take_hint(hint: Result<Topic, RecvError>, nudge: &mut Nudge) {
    match hint {
        Ok(Topic::Jobs(_)) => nudge.jobs = true,
        Ok(Topic::Inbox(_)) => nudge.inbox = true,
        Ok(_) | Err(RecvError::Closed) => {}
        Err(RecvError::Lagged(_)) => *nudge = Nudge { jobs: true, inbox: true },
    }
}

fn drain_hints(hints: &mut Receiver<Topic>, nudge: &mut Nudge) {
    use tokio::sync::broadcast::error::TryRecvError;
    loop {
        match hints.try_recv() {
            Ok(topic) => take_hint(Ok(topic), nudge),
            Err(TryRecvError::Lagged(n)) => take_hint(Err(RecvError::Lagged(n)), nudge),
            Err(_) => return,
        }
    }
}
