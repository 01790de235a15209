//! Whether this process serves, for load balancers and for grpc.health.v1.

use std::sync::Arc;

use clawjob_proto::json::pool;
use parking_lot::RwLock;
use tokio::sync::Mutex;
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not ready yet.
    Starting,
    /// Serves.
    Serving,
    /// Serves what is under way; new work goes to others.
    Draining,
}

/// The phase, and whether scheduling goes on, told to all who ask.
pub struct Health {
    state: RwLock<State>,
    reporter: HealthReporter,
    /// One report after the other, so that the newest state is the last that is told.
    reporting: Mutex<()>,
}

#[derive(Clone, Copy)]
struct State {
    phase: Phase,
    stalled: bool,
    problem: Option<&'static str>,
}

impl State {
    fn serves(self) -> bool {
        self.phase == Phase::Serving && !self.stalled
    }
}

impl Health {
    /// A process that starts.
    pub async fn new() -> Arc<Self> {
        let state = RwLock::new(State { phase: Phase::Starting, stalled: false, problem: None });
        let reporting = Mutex::new(());
        let health = Self { state, reporter: HealthReporter::new(), reporting };
        health.report().await;
        Arc::new(health)
    }

    /// Moves on to another phase and tells the watchers.
    pub async fn set(&self, phase: Phase) {
        self.state.write().phase = phase;
        self.report().await;
    }

    /// Says whether scheduling has stalled: a process that serves but fires nothing is not well.
    pub async fn set_stalled(&self, stalled: bool) {
        let before = std::mem::replace(&mut self.state.write().stalled, stalled);
        if before != stalled {
            self.report().await;
        }
    }

    /// Says what keeps this process from scheduling, if anything does.
    pub fn set_problem(&self, problem: Option<&'static str>) {
        self.state.write().problem = problem;
    }

    /// What keeps this process from scheduling: it may be so for a moment, or have stalled.
    pub fn problem(&self) -> Option<&'static str> {
        self.state.read().problem
    }

    /// Where the process is.
    pub fn phase(&self) -> Phase {
        self.state.read().phase
    }

    /// Whether it is ready: serves, and scheduling goes on.
    pub fn is_ready(&self) -> bool {
        self.state.read().serves()
    }

    /// Whether scheduling has stalled.
    pub fn is_stalled(&self) -> bool {
        self.state.read().stalled
    }

    /// The grpc.health.v1 service: one entry per service of the contract, and "".
    pub fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    async fn report(&self) {
        let _turn = self.reporting.lock().await;
        let status = match self.is_ready() {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        self.reporter.set_service_status("", status).await;
        for service in pool().services() {
            self.reporter.set_service_status(service.full_name(), status).await;
        }
    }
}
