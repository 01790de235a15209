//! The README's first program and its test.
//!
//! `CLAWJOB_APP=billing CLAWJOB_TOKEN_FILE=billing.token cargo run --example first`

use clawjob_executor::{Ctx, Executor, Failure, log_layer};
use tracing_subscriber::prelude::*;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Report {
    /// Which month, such as 2026-11.
    month: String,
}

async fn nightly_report(report: Report, ctx: Ctx) -> Result<String, Failure> {
    tracing::info!(month = report.month, fire_time = %ctx.fire_time(), "making the report");
    Ok(format!("report for {} is ready", report.month))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What a handler says through `tracing` goes to the terminal and into its run's log.
    tracing_subscriber::registry().with(tracing_subscriber::fmt::layer()).with(log_layer()).init();
    Executor::from_env()?.slots(8).handler("nightly-report", nightly_report).run().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawjob_executor::testing::run_handler;

    #[tokio::test]
    async fn it_makes_the_report() {
        let run =
            run_handler(nightly_report, serde_json::json!({"month": "2026-11"})).attempt(2).await;
        assert_eq!(run.output::<String>().unwrap(), "report for 2026-11 is ready");
        assert!(run.logged("making the report"));
    }

    #[tokio::test]
    async fn it_needs_a_month() {
        let run = run_handler(nightly_report, serde_json::json!({})).await;
        assert_eq!(run.failure().unwrap().code(), "INVALID_PARAMS");
    }

    /// The lines of a text without their indentation.
    fn lines(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_readme_shows_what_is_tested_here() {
        let (readme, here) = (include_str!("../README.md"), lines(include_str!("first.rs")));
        let blocks: Vec<&str> = readme.split("```rust\n").skip(1).collect();
        assert_eq!(blocks.len(), 2);
        for block in blocks {
            let code = lines(block.split("```").next().unwrap());
            assert!(here.contains(&code), "{code}");
        }
    }
}
