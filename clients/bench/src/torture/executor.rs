//! The executor process of the harness: the SDK as any program uses it, and a ledger.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Result;
use clawjob_executor::{Ctx, Executor, Failure, Reconnect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ledger::{Ledger, Line, began};
use crate::now_us;

/// What an executor process is told.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Its name.
    #[arg(long)]
    pub name: String,
    /// Where to dial.
    #[arg(long, value_delimiter = ',')]
    pub endpoints: Vec<String>,
    /// Where it writes its ledger.
    #[arg(long)]
    pub ledger: PathBuf,
    /// Sessions, each with an executor id of its own: with several, each dials one scheduler only.
    #[arg(long, default_value_t = 1)]
    pub sessions: u32,
}

impl Args {
    fn endpoints_of(&self, session: u32) -> Vec<String> {
        if self.sessions == 1 {
            return self.endpoints.clone();
        }
        let turn = self.endpoints.iter().cycle().skip(session as usize);
        turn.take(1).cloned().collect()
    }
}

/// What a run is to do.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// How long it takes, milliseconds.
    #[serde(default)]
    pub ms: u64,
    /// Attempts that fail before one succeeds.
    #[serde(default)]
    pub failures: u32,
}

/// Runs until it is killed. The token comes from the environment, where others can't read it.
///
/// # Errors
/// The scheduler refuses it for good.
pub async fn run(args: Args) -> Result<()> {
    let ledger = Arc::new(Ledger::open(&args.ledger)?);
    let mut sessions = tokio::task::JoinSet::new();
    for number in 0..args.sessions {
        let ledger = ledger.clone();
        // Quicker than the default, which spares a scheduler of thousands of executors.
        let reconnect = Reconnect {
            first: Duration::from_millis(500),
            base: Duration::from_millis(250),
            cap: Duration::from_secs(4),
            ..Reconnect::default()
        };
        let executor = Executor::from_env()?
            .endpoints(args.endpoints_of(number))
            .app(super::APP)
            .executor_id(format!("{}-{number}", args.name))
            .slots(200)
            .reconnect(reconnect)
            .keep_trying_when_refused(true)
            .handler("work", move |work: Work, ctx: Ctx| {
                let ledger = ledger.clone();
                async move { work_off(&ledger, work, &ctx).await }
            });
        sessions.spawn(executor.run());
    }
    while let Some(ended) = sessions.join_next().await {
        ended??;
    }
    Ok(())
}

async fn work_off(ledger: &Ledger, work: Work, ctx: &Ctx) -> Result<(), Failure> {
    let (run, attempt) = (ctx.run_id(), ctx.attempt());
    let fire = ctx.fire_time().timestamp_micros();
    let unwritten = |fault: anyhow::Error| Failure::new("LEDGER", fault.to_string());
    ledger.write(&began(ctx.job(), run, attempt, fire)).map_err(unwritten)?;
    let stop = ctx.cancellation_token();
    let stopped = tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(work.ms)) => false,
        () = stop.cancelled() => true,
    };
    let well = !stopped && attempt > work.failures;
    let ended = Line::Ended { at: now_us(), run: run.to_owned(), attempt, well };
    ledger.write(&ended).map_err(unwritten)?;
    match (stopped, well) {
        (true, _) => Err(ctx.stopped()),
        (false, true) => Ok(()),
        (false, false) => Err(Failure::error("it was asked to fail")),
    }
}
