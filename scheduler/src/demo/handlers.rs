//! The demo executor's handlers.

use std::time::Duration;

use clawjob_executor::{Ctx, Executor, Failure};
use schemars::JsonSchema;
use serde::Deserialize;

/// Longer than any timeout the demo sets.
const SLEEP: Duration = Duration::from_secs(3_600);

/// Whom to greet.
#[derive(Deserialize, JsonSchema)]
struct Hello {
    /// The name.
    name: String,
}

/// Nothing to say.
#[derive(Deserialize, JsonSchema)]
struct Nothing {}

pub(super) fn offer(executor: Executor) -> Executor {
    executor.handler("hello", hello).handler("risky", risky).handler("sleepy", sleepy)
}

async fn hello(params: Hello, ctx: Ctx) -> Result<String, Failure> {
    tracing::info!(name = %params.name, late_ms = ctx.lateness().as_millis() as u64, "saying hello");
    Ok(format!("Hello, {}!", params.name))
}

/// Fails twice, then succeeds: what a retry is for.
async fn risky(_: Nothing, ctx: Ctx) -> Result<String, Failure> {
    tracing::info!(attempt = ctx.attempt(), "trying");
    if ctx.attempt() < 3 {
        return Err(Failure::new("OUT_OF_LUCK", format!("attempt {} failed", ctx.attempt())));
    }
    Ok(format!("succeeded on attempt {}", ctx.attempt()))
}

/// Sleeps until it is told to stop.
async fn sleepy(_: Nothing, ctx: Ctx) -> Result<(), Failure> {
    tracing::info!("going to sleep");
    tokio::select! {
        () = ctx.cancellation_token().cancelled_owned() => Err(ctx.stopped()),
        () = nap() => Ok(()),
    }
}

#[allow(clippy::disallowed_methods, reason = "a handler that sleeps is the point of it")]
async fn nap() {
    tokio::time::sleep(SLEEP).await;
}
