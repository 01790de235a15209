//! A longer job: it tells its progress, goes on from its checkpoint after a failure, stops when
//! it is told to, and says when another attempt cannot help.
//!
//! `CLAWJOB_APP=demo CLAWJOB_TOKEN=… cargo run --example import`

use std::time::Duration;

use clawjob_executor::{Ctx, Executor, Failure, HandlerOptions, log_layer};
use tracing_subscriber::prelude::*;

/// Rows that are imported between two checkpoints.
const BATCH: u64 = 100;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Import {
    /// How many rows there are.
    rows: u64,
    /// The source breaks down once, at this row.
    breaks_at: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
#[error("the source broke down at row {0}")]
struct SourceDown(u64);

async fn import(params: Import, ctx: Ctx) -> Result<u64, Failure> {
    if params.rows == 0 {
        return Err(Failure::new("EMPTY_SOURCE", "there is nothing to import").non_retryable());
    }
    let mut done: u64 = ctx.checkpoint()?.unwrap_or(0);
    if done > 0 {
        tracing::info!(done, attempt = ctx.attempt(), "going on where the last attempt ended");
    }
    while done < params.rows {
        if ctx.is_cancelled() {
            return Err(ctx.stopped());
        }
        let next = params.rows.min(done + BATCH);
        if ctx.attempt() == 1 && params.breaks_at.is_some_and(|row| (done..next).contains(&row)) {
            return Err(Failure::from(SourceDown(done)).retry_after(Duration::from_secs(1)));
        }
        tokio::task::yield_now().await;
        done = next;
        ctx.save_checkpoint(&done)?;
        ctx.progress(done as f32 / params.rows as f32, format!("{done} rows"));
    }
    Ok(done)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::registry().with(tracing_subscriber::fmt::layer()).with(log_layer()).init();
    let options = HandlerOptions::new().max_concurrency(2).description("Imports rows");
    Executor::from_env()?.handler_with("import", options, import).run().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawjob_executor::StopReason;
    use clawjob_executor::testing::{Outcome, run_handler};
    use serde_json::json;

    #[tokio::test]
    async fn a_second_attempt_goes_on_from_the_checkpoint_of_the_first() {
        let params = json!({"rows": 1000, "breaks_at": 550});
        let first = run_handler(import, &params).await;
        let failure = first.failure().unwrap();
        assert_eq!(failure.message(), "the source broke down at row 500");
        assert_eq!(failure.retry_wait(), Some(Duration::from_secs(1)));
        let saved: u64 = first.checkpoint().unwrap().unwrap();
        assert_eq!(saved, 500);

        let second = run_handler(import, &params).attempt(2).checkpoint(saved).await;
        assert_eq!(second.output::<u64>().unwrap(), 1000);
        assert_eq!(second.progress(), (Some(1.0), "1000 rows"));
        assert!(second.logged("going on"));
    }

    #[tokio::test]
    async fn it_stops_when_told_to() {
        let params = json!({"rows": u64::MAX / 2});
        let run = run_handler(import, params).stop(StopReason::User, async {}).await;
        assert_eq!(run.outcome(), Outcome::Canceled);
    }

    #[tokio::test]
    async fn an_empty_source_is_not_tried_again() {
        let run = run_handler(import, json!({"rows": 0})).await;
        assert!(run.failure().unwrap().is_non_retryable());
    }
}
