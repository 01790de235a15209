//! The edge over a real port: who may do what, JSON beside gRPC, listening, health, reflection.

#[path = "api_edge/apps.rs"]
mod apps;
#[path = "api_edge/bounds.rs"]
mod bounds;
#[path = "api_edge/bridge.rs"]
mod bridge;
#[path = "api_edge/fleet.rs"]
mod fleet;
#[path = "api_edge/harness.rs"]
mod harness;
#[path = "api_edge/listening.rs"]
mod listening;
#[path = "api_edge/matrix.rs"]
mod matrix;
#[path = "api_edge/requests.rs"]
mod requests;
#[path = "api_edge/secure.rs"]
mod secure;
#[path = "api_edge/tokens.rs"]
mod tokens;
#[path = "support/wire.rs"]
mod wire;
