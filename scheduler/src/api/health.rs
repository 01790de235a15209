//! Whether this process serves, for load balancers and for grpc.health.v1.

use std::sync::Arc;

use clawjob_proto::json::pool;
use parking_lot::RwLock;
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

/// The phase, told to all who ask.
pub struct Health {
    phase: RwLock<Phase>,
    reporter: HealthReporter,
}

impl Health {
    /// A process that starts.
    pub async fn new() -> Arc<Self> {
        let health = Self { phase: RwLock::new(Phase::Starting), reporter: HealthReporter::new() };
        health.report(ServingStatus::NotServing).await;
        Arc::new(health)
    }

    /// Moves on to another phase and tells the watchers.
    pub async fn set(&self, phase: Phase) {
        *self.phase.write() = phase;
        let status = match phase {
            Phase::Serving => ServingStatus::Serving,
            Phase::Starting | Phase::Draining => ServingStatus::NotServing,
        };
        self.report(status).await;
    }

    /// Where the process is.
    pub fn phase(&self) -> Phase {
        *self.phase.read()
    }

    /// The grpc.health.v1 service: one entry per service of the contract, and "".
    pub fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    async fn report(&self, status: ServingStatus) {
        self.reporter.set_service_status("", status).await;
        for service in pool().services() {
            self.reporter.set_service_status(service.full_name(), status).await;
        }
    }
}
