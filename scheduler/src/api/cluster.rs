//! ClusterService: the server, its nodes, and apps.

use std::sync::Arc;

use clawjob_proto::{
    PROTOCOL_MAJOR, PROTOCOL_MINOR,
    v1::{self as pb, cluster_service_server::ClusterService},
};
use tonic::{Request, Response, Status};

use super::{
    Api, apps, audit,
    caller::Caller,
    convert::time,
    health::Health,
    session::FEATURES,
    status::{ApiError, ApiResult, Kind, Violations},
};
use crate::store::ops::NodeRow;

/// Serves the cluster and its apps.
pub struct ClusterApi {
    api: Arc<Api>,
    health: Arc<Health>,
}

impl ClusterApi {
    /// On the given store.
    pub fn new(api: Arc<Api>, health: Arc<Health>) -> Self {
        Self { api, health }
    }

    async fn overview(&self) -> ApiResult<pb::Cluster> {
        let now = self.api.clock.now();
        let nodes = self.api.store.list_nodes(now).await?;
        let open = self.api.store.count_open(now).await?;
        let sessions = nodes.iter().filter(|node| !node.gone).map(|node| node.sessions);
        Ok(pb::Cluster {
            queued_runs: open.queued,
            running_runs: open.running,
            online_executors: sessions.sum(),
            storage: self.api.store.kind().to_owned(),
            nodes: nodes.iter().map(node_to_proto).collect(),
            problem: self.health.problem().unwrap_or_default().to_owned(),
        })
    }

    /// Asks a node to give its work to the others, which must be there.
    async fn drain(&self, name: &str) -> ApiResult<pb::Node> {
        let mut bad = Violations::new();
        let id = name.strip_prefix("nodes/").filter(|id| !id.is_empty());
        if id.is_none() {
            bad.invalid("name", "must be nodes/{node}, as GetCluster names it");
        }
        bad.finish()?;
        let id = id.unwrap_or_default();
        let store = &self.api.store;
        let listed = store.list_nodes(self.api.clock.now()).await?;
        let unknown = || ApiError::not_found(Kind::Node, name);
        let node = listed.iter().find(|node| node.id == id && !node.gone).ok_or_else(unknown)?;
        let peers = store.peers().await?;
        if !peers.iter().any(|peer| peer.id != id && !peer.drain_asked) {
            let text = "no other node is there to take its work: start one first";
            return Err(ApiError::precondition("LAST_NODE", "NODE", name, text));
        }
        store
            .ask_to_drain(id)
            .await
            .map_err(|fault| ApiError::of_store(Kind::Node, name, fault))?;
        tracing::info!(node = id, "a node is asked to drain");
        Ok(node_to_proto(&NodeRow { draining: true, ..node.clone() }))
    }
}

fn node_to_proto(node: &NodeRow) -> pb::Node {
    let state = match (node.gone, node.draining) {
        (true, _) => pb::node::State::Gone,
        (false, true) => pb::node::State::Draining,
        (false, false) => pb::node::State::Active,
    };
    pb::Node {
        name: format!("nodes/{}", node.id),
        state: state.into(),
        version: node.version.clone(),
        advertise_address: node.advertise_address.clone(),
        start_time: Some(time::instant_to_proto(node.started_at)),
        last_seen_time: Some(time::instant_to_proto(node.last_seen_at)),
        sessions: node.sessions,
        partitions: node.partitions.iter().map(|partition| u32::from(partition.0)).collect(),
        clock_offset: Some(offset_to_proto(node.clock_offset_us)),
        lag: Some(time::duration_to_proto(node.lag)),
        database_latency: Some(time::duration_to_proto(node.database_latency)),
    }
}

/// A signed difference in microseconds: seconds and nanoseconds have the same sign.
pub(super) fn offset_to_proto(us: i64) -> prost_types::Duration {
    const US_PER_S: i64 = 1_000_000;
    let nanos = (us % US_PER_S) * 1000;
    prost_types::Duration { seconds: us / US_PER_S, nanos: i32::try_from(nanos).unwrap_or(0) }
}

#[tonic::async_trait]
impl ClusterService for ClusterApi {
    async fn get_server_info(
        &self,
        _: Request<pb::GetServerInfoRequest>,
    ) -> Result<Response<pb::ServerInfo>, Status> {
        let settings = &self.api.settings;
        Ok(Response::new(pb::ServerInfo {
            version: settings.version.clone(),
            protocol_major: PROTOCOL_MAJOR,
            protocol_minor: PROTOCOL_MINOR,
            features: FEATURES.iter().map(|feature| (*feature).to_owned()).collect(),
            node_id: settings.node_id.clone(),
            server_time: Some(time::instant_to_proto(self.api.clock.now())),
            max_params_bytes: settings.params_bytes_max,
            max_output_bytes: settings.output_bytes_max,
            context_path: settings.context_path.clone(),
            sign_in_methods: vec!["password".to_owned(), "token".to_owned()],
        }))
    }

    async fn get_cluster(
        &self,
        _: Request<pb::GetClusterRequest>,
    ) -> Result<Response<pb::Cluster>, Status> {
        Ok(Response::new(self.overview().await?))
    }

    async fn drain_node(
        &self,
        request: Request<pb::DrainNodeRequest>,
    ) -> Result<Response<pb::Node>, Status> {
        Ok(Response::new(self.drain(&request.into_inner().name).await?))
    }

    async fn list_apps(
        &self,
        request: Request<pb::ListAppsRequest>,
    ) -> Result<Response<pb::ListAppsResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(apps::list(&self.api, &caller, request.into_inner()).await?))
    }

    async fn create_app(
        &self,
        request: Request<pb::CreateAppRequest>,
    ) -> Result<Response<pb::App>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(apps::create(&self.api, &caller, request.into_inner()).await?))
    }

    async fn update_app(
        &self,
        request: Request<pb::UpdateAppRequest>,
    ) -> Result<Response<pb::App>, Status> {
        Ok(Response::new(apps::update(&self.api, request.into_inner()).await?))
    }

    async fn delete_app(
        &self,
        request: Request<pb::DeleteAppRequest>,
    ) -> Result<Response<()>, Status> {
        let caller = Caller::of(&request)?;
        apps::delete(&self.api, &caller, request.into_inner()).await?;
        Ok(Response::new(()))
    }

    async fn list_audit_events(
        &self,
        request: Request<pb::ListAuditEventsRequest>,
    ) -> Result<Response<pb::ListAuditEventsResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(audit::list(&self.api, &caller, request.into_inner()).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_keep_their_sign() {
        for (us, seconds, nanos) in
            [(0, 0, 0), (1_500_000, 1, 500_000_000), (-1_500_000, -1, -500_000_000), (-7, 0, -7000)]
        {
            let shown = offset_to_proto(us);
            assert_eq!((shown.seconds, shown.nanos), (seconds, nanos));
        }
    }
}
