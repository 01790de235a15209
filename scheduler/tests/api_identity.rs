//! People who sign in: users, sign-ins by password, token and cookie, what they may do, how guessing
//! is slowed down, and the audit log. Over a real port.

#[path = "api_identity/audit.rs"]
mod audit;
#[path = "api_identity/browser.rs"]
mod browser;
#[path = "api_identity/console.rs"]
mod console;
#[path = "api_identity/cookies.rs"]
mod cookies;
#[path = "support/flaky.rs"]
mod flaky;
#[path = "api_identity/guessing.rs"]
mod guessing;
#[path = "api_edge/harness.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod harness;
#[path = "api_identity/logs.rs"]
mod logs;
#[path = "api_identity/sign_in.rs"]
mod sign_in;
#[path = "api_identity/users.rs"]
mod users;
#[path = "support/wire.rs"]
mod wire;
