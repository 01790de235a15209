//! The few plain HTTP pages beside the RPCs: liveness, readiness, metrics.

use std::sync::Arc;

use axum::{Extension, Router, body::Body, routing::get};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::{
    auth::Auth,
    caller::{EVERY_APP, RequestId},
    health::{Health, Phase},
    json_error,
    status::ApiResult,
};
use crate::model::principal::Role;

/// Gives the metrics as Prometheus text.
pub type MetricsText = Arc<dyn Fn() -> String + Send + Sync>;

/// Who may read the metrics.
#[derive(Clone)]
pub struct Metrics {
    /// Their source.
    pub text: MetricsText,
    /// Anybody; else whoever may read in all apps.
    pub open: bool,
}

/// `GET /healthz`, `/readyz` and `/metrics`.
pub fn router(health: Arc<Health>, auth: Arc<Auth>, metrics: Metrics) -> Router {
    let (live, ready) = (health.clone(), health);
    Router::new()
        .route("/healthz", get(move || async move { told(live.phase() != Phase::Starting) }))
        .route("/readyz", get(move || async move { readiness(&ready) }))
        .route(
            "/metrics",
            get(move |Extension(id): Extension<RequestId>, headers: HeaderMap| async move {
                let answer = show_metrics(&auth, &metrics, &headers).await;
                answer.unwrap_or_else(|error| json_error::respond(error, &id.0))
            }),
        )
}

fn told(yes: bool) -> (StatusCode, String) {
    match yes {
        true => (StatusCode::OK, "ok\n".to_owned()),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_owned()),
    }
}

fn readiness(health: &Health) -> (StatusCode, String) {
    if health.is_stalled() {
        let why = health.problem().map(|problem| format!(" ({problem})")).unwrap_or_default();
        let text = format!("not ready: scheduling makes no progress{why}; see the server's log\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text);
    }
    told(health.is_ready())
}

async fn show_metrics(
    auth: &Auth,
    metrics: &Metrics,
    headers: &HeaderMap,
) -> ApiResult<Response<Body>> {
    if !metrics.open {
        let caller = auth.authenticate(headers).await?;
        caller.require(Role::Viewer, EVERY_APP)?;
    }
    let mut response = Response::new(Body::from((metrics.text)()));
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    Ok(response)
}
