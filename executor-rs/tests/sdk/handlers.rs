//! The handlers that tests run, and the executor that offers them.

use std::time::Duration;

use clawjob_conformance::{Fake, soon};
use clawjob_executor::{Ctx, Error, Executor, Failure, Handle, HandlerOptions, Reconnect};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Deserialize, Serialize, schemars::JsonSchema)]
pub(crate) struct Millis {
    pub(crate) ms: u64,
}

/// What a `gate` handler waits for, and how many have begun.
#[derive(Clone)]
pub(crate) struct Gate {
    open: watch::Sender<bool>,
    begun: watch::Sender<u32>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { open: watch::Sender::new(false), begun: watch::Sender::new(0) }
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until so many `gate` handlers have begun in all.
    pub(crate) async fn begun(&self, count: u32) {
        let mut begun = self.begun.subscribe();
        soon("handlers to begin", begun.wait_for(|n| *n >= count)).await.unwrap();
    }

    async fn wait(&self) {
        self.begun.send_modify(|n| *n += 1);
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

async fn echo(params: serde_json::Value, _ctx: Ctx) -> Result<serde_json::Value, Failure> {
    Ok(params)
}

/// Stops as soon as it is told to.
async fn obedient(_: (), ctx: Ctx) -> Result<(), Failure> {
    ctx.progress(0.5, "half");
    ctx.cancelled().await;
    Err(ctx.stopped())
}

/// Never ends by itself and does not listen.
async fn deaf(_: (), _ctx: Ctx) -> Result<(), Failure> {
    std::future::pending().await
}

/// Blocks its thread, deaf to everything.
#[allow(clippy::disallowed_methods, reason = "the test is about a blocked thread")]
async fn block(params: Millis, _ctx: Ctx) -> Result<(), Failure> {
    std::thread::sleep(Duration::from_millis(params.ms));
    Ok(())
}

/// An executor with these handlers, dialing `urls`, with its waits at a tenth.
pub(crate) fn executor(urls: &[String], gate: &Gate) -> Executor {
    let gate = gate.clone();
    Executor::builder()
        .endpoints(urls.iter().cloned())
        .app("demo")
        .executor_id("tester")
        .token("secret")
        .slots(4)
        .shutdown_grace(Duration::from_millis(2500))
        .reconnect(Reconnect {
            first: Duration::from_millis(200),
            base: Duration::from_millis(50),
            cap: Duration::from_secs(3),
            healthy_after: Duration::from_secs(6),
        })
        .handler("echo", echo)
        .handler("obedient", obedient)
        .handler("deaf", deaf)
        .handler("block", block)
        .handler_with(
            "gate",
            HandlerOptions::new().description("waits to be let through"),
            move |_: (), _ctx: Ctx| {
                let gate = gate.clone();
                async move {
                    gate.wait().await;
                    Ok::<_, Failure>("through")
                }
            },
        )
}

/// A running executor.
pub(crate) struct Running {
    pub(crate) handle: Handle,
    pub(crate) gate: Gate,
    join: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub(crate) fn of(executor: Executor, gate: Gate) -> Self {
        let handle = executor.handle();
        let join = tokio::spawn(executor.run_until(std::future::pending()));
        Self { handle, gate, join }
    }

    /// The handlers against one scheduler.
    pub(crate) fn start(fake: &Fake) -> Self {
        let gate = Gate::new();
        Self::of(executor(&[fake.url()], &gate), gate)
    }

    /// How it ended.
    pub(crate) async fn end(self) -> Result<(), Error> {
        soon("the end of the executor", self.join).await.unwrap()
    }
}
