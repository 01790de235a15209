//! The smallest executor: one handler that greets.
//!
//! `CLAWJOB_APP=demo CLAWJOB_TOKEN=… cargo run --example hello`

use clawjob_executor::{Ctx, Executor, Failure, log_layer};
use tracing_subscriber::prelude::*;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Hello {
    /// Who is greeted.
    name: String,
}

async fn hello(params: Hello, ctx: Ctx) -> Result<String, Failure> {
    tracing::info!(fire_time = %ctx.fire_time(), "saying hello");
    Ok(format!("Hello, {}!", params.name))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::registry().with(tracing_subscriber::fmt::layer()).with(log_layer()).init();
    Executor::from_env()?.slots(8).handler("hello", hello).run().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawjob_executor::testing::run_handler;

    #[tokio::test]
    async fn it_greets_by_name() {
        let run = run_handler(hello, serde_json::json!({"name": "Jacky"})).await;
        assert_eq!(run.output::<String>().unwrap(), "Hello, Jacky!");
        assert!(run.logged("saying hello"));
    }

    #[tokio::test]
    async fn it_needs_a_name() {
        let run = run_handler(hello, serde_json::json!({})).await;
        assert_eq!(run.failure().unwrap().code(), "INVALID_PARAMS");
    }
}
