//! The nightly report: an executor whose one handler tells its progress, goes on from its
//! checkpoint after a failure, stops when it is told to, and says when another attempt cannot help.
//!
//! `CLAWJOB_APP=billing CLAWJOB_TOKEN_FILE=billing.token cargo run --example nightly_report`

use std::time::Duration;

use clawjob_executor::{Ctx, Executor, Failure, HandlerOptions, log_layer};
use tracing_subscriber::prelude::*;

/// How many rows are read between two checkpoints.
const BATCH: u64 = 100;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Report {
    /// Which month, such as 2026-11.
    month: String,
    /// How many rows it has.
    #[serde(default = "usual_rows")]
    rows: u64,
    /// Shows what a retry does: the source breaks down once, at this row.
    #[serde(default)]
    breaks_at: u64,
    /// How long each hundred rows take.
    #[serde(default)]
    pause_ms: u64,
}

fn usual_rows() -> u64 {
    1000
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Summary {
    month: String,
    rows: u64,
}

async fn nightly_report(report: Report, ctx: Ctx) -> Result<Summary, Failure> {
    if report.rows == 0 {
        return Err(Failure::new("NO_ROWS", "there is nothing to report").non_retryable());
    }
    let mut done: u64 = ctx.checkpoint()?.unwrap_or(0);
    tracing::info!(month = report.month, attempt = ctx.attempt(), done, "making the report");
    while done < report.rows {
        let next = report.rows.min(done + BATCH);
        read(&report, &ctx, done, next).await?;
        done = next;
        ctx.save_checkpoint(&done)?;
        ctx.progress(done as f32 / report.rows as f32, format!("{done} rows"));
    }
    tracing::info!(done, "the report is ready");
    Ok(Summary { month: report.month, rows: done })
}

/// Stands for the work on the rows from first to last.
#[allow(clippy::disallowed_methods, reason = "the work takes time")]
async fn read(report: &Report, ctx: &Ctx, first: u64, last: u64) -> Result<(), Failure> {
    if ctx.attempt() == 1 && first < report.breaks_at && report.breaks_at <= last {
        let message = format!("row {}: the source broke down", report.breaks_at);
        return Err(Failure::new("SOURCE_DOWN", message).retry_after(Duration::from_secs(1)));
    }
    tokio::select! {
        // Canceled, timed out, or the executor ends: the failure says which.
        biased;
        _ = ctx.cancelled() => Err(ctx.stopped()),
        () = tokio::time::sleep(Duration::from_millis(report.pause_ms)) => Ok(()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::registry().with(tracing_subscriber::fmt::layer()).with(log_layer()).init();
    let options =
        HandlerOptions::new().max_concurrency(2).description("Makes the report of a month.");
    let executor = Executor::from_env()?.slots(4);
    executor.handler_with("nightly-report", options, nightly_report).run().await?;
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
        let params = json!({"month": "2026-11", "breaks_at": 550});
        let first = run_handler(nightly_report, &params).await;
        let failure = first.failure().unwrap();
        assert_eq!(failure.code(), "SOURCE_DOWN");
        assert_eq!(failure.message(), "row 550: the source broke down");
        assert_eq!(failure.retry_wait(), Some(Duration::from_secs(1)));
        let saved: u64 = first.checkpoint().unwrap().unwrap();
        assert_eq!(saved, 500);

        let second = run_handler(nightly_report, &params).attempt(2).checkpoint(saved).await;
        let summary = Summary { month: "2026-11".to_owned(), rows: 1000 };
        assert_eq!(second.output::<Summary>().unwrap(), summary);
        assert_eq!(second.progress(), (Some(1.0), "1000 rows"));
        assert!(second.logged("making the report"));
    }

    #[tokio::test]
    async fn it_stops_when_it_is_told_to() {
        let params = json!({"month": "2026-11", "pause_ms": 600_000});
        let run = run_handler(nightly_report, params).stop(StopReason::User, async {}).await;
        assert_eq!(run.outcome(), Outcome::Canceled);
    }

    #[tokio::test]
    async fn an_empty_report_is_not_tried_again() {
        let run = run_handler(nightly_report, json!({"month": "2026-11", "rows": 0})).await;
        assert!(run.failure().unwrap().is_non_retryable());
    }
}
