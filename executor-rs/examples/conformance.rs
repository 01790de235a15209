//! The program that the conformance runner drives: fixed handlers, settings from the environment.
//! What it must do is written in clients/conformance/README.md.

use std::{
    env,
    error::Error,
    fmt, fs,
    str::FromStr,
    time::{Duration, Instant},
};

use clawjob_executor::{ClientIdentity, Ctx, Executor, Failure, LogLevel, Reconnect, log_layer};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::{filter::LevelFilter, prelude::*};

#[derive(Deserialize, JsonSchema)]
struct Millis {
    #[serde(default)]
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Size {
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Lines {
    count: u32,
    #[serde(default)]
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    count: u32,
}

/// How `fail` fails.
#[derive(Deserialize, JsonSchema)]
#[serde(default)]
struct Fault {
    code: String,
    message: String,
    non_retryable: bool,
    retry_after_ms: Option<u64>,
}

impl Default for Fault {
    fn default() -> Self {
        let message = "the bank is closed".to_owned();
        Self { code: String::new(), message, non_retryable: false, retry_after_ms: None }
    }
}

/// What `fail` returns without a code.
#[derive(Debug)]
struct BankClosed {
    message: String,
    why: std::io::Error,
}

impl fmt::Display for BankClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for BankClosed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.why)
    }
}

async fn echo(params: Value, _ctx: Ctx) -> Result<Value, Failure> {
    Ok(params)
}

async fn fail(fault: Fault, _ctx: Ctx) -> Result<(), Failure> {
    let Fault { code, message, non_retryable, retry_after_ms } = fault;
    if code.is_empty() && !non_retryable && retry_after_ms.is_none() {
        return Err(BankClosed { message, why: std::io::Error::other("it is Sunday") }.into());
    }
    let code = if code.is_empty() { "HANDLER_ERROR" } else { &code };
    let mut failure = Failure::new(code, message);
    if non_retryable {
        failure = failure.non_retryable();
    }
    if let Some(ms) = retry_after_ms {
        failure = failure.retry_after(Duration::from_millis(ms));
    }
    Err(failure)
}

async fn panics(_: (), _ctx: Ctx) -> Result<(), Failure> {
    panic!("out of cheese")
}

/// Ends after its time, or as soon as it is told to.
#[allow(clippy::disallowed_methods, reason = "time is what the handler is about")]
async fn sleep(params: Millis, ctx: Ctx) -> Result<&'static str, Failure> {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(params.ms)) => Ok("slept"),
        _ = ctx.cancelled() => Err(ctx.stopped()),
    }
}

/// Uses the processor, deaf to being told to stop.
#[allow(clippy::disallowed_methods, reason = "time is what the handler is about")]
async fn spin(params: Millis, _ctx: Ctx) -> Result<&'static str, Failure> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(params.ms) {
        std::hint::spin_loop();
    }
    Ok("spun")
}

/// Blocks its thread, deaf to being told to stop.
#[allow(clippy::disallowed_methods, reason = "the handler is there to block its thread")]
async fn block(params: Millis, _ctx: Ctx) -> Result<&'static str, Failure> {
    std::thread::sleep(Duration::from_millis(params.ms));
    Ok("blocked")
}

async fn logs(lines: Lines, ctx: Ctx) -> Result<(), Failure> {
    for number in 1..=lines.count {
        let mut line = format!("line {number}");
        let missing = lines.bytes.saturating_sub(line.len());
        line.extend(std::iter::repeat_n(' ', missing));
        ctx.log(LogLevel::Info, line);
    }
    Ok(())
}

async fn big_output(size: Size, _ctx: Ctx) -> Result<String, Failure> {
    Ok("x".repeat(size.bytes.saturating_sub(2))) // the quotes count, too
}

/// Tells its progress `count` times, then waits until it is told to stop.
async fn progress(params: Count, ctx: Ctx) -> Result<(), Failure> {
    for number in 1..=params.count {
        ctx.progress(number as f32 / params.count as f32, format!("step {number}"));
    }
    ctx.cancelled().await;
    Err(ctx.stopped())
}

/// Returns the number that was saved before and saves that and ten more.
async fn checkpoint(_: (), ctx: Ctx) -> Result<u64, Failure> {
    let done: u64 = ctx.checkpoint()?.unwrap_or(0);
    ctx.save_checkpoint(&(done + 10))?;
    Ok(done)
}

/// Returns what it knows of its run.
async fn context(_: (), ctx: Ctx) -> Result<Value, Failure> {
    let shard = ctx.shard();
    Ok(json!({
        "run_id": ctx.run_id(),
        "run": ctx.run(),
        "job": ctx.job(),
        "attempt": ctx.attempt(),
        "max_attempts": ctx.max_attempts(),
        "fire_time": ctx.fire_time().to_rfc3339(),
        "lateness_ms": ctx.lateness().as_millis() as u64,
        "catch_up": ctx.catch_up(),
        "labels": ctx.labels(),
        "shard_index": shard.map_or(0, |shard| shard.index),
        "shard_total": shard.map_or(0, |shard| shard.total),
        "traceparent": ctx.traceparent().unwrap_or_default(),
        "tracestate": ctx.tracestate(),
    }))
}

/// A variable's value, or what stands for it.
fn setting<T: FromStr>(name: &str, usual: T) -> Result<T, Box<dyn Error>>
where
    T::Err: Error + 'static,
{
    match env::var(name) {
        Ok(text) => text.parse().map_err(|error: T::Err| format!("{name}: {error}").into()),
        Err(_) => Ok(usual),
    }
}

fn executor() -> Result<Executor, Box<dyn Error>> {
    let scale: f64 = setting("CLAWJOB_CONFORMANCE_SCALE", 0.1)?;
    let usual = Reconnect::default();
    let mut executor = Executor::from_env()?
        .slots(setting("CLAWJOB_CONFORMANCE_SLOTS", 4)?)
        .label("zone", "a")
        .shutdown_grace(Duration::from_secs(25).mul_f64(scale))
        .reconnect(Reconnect {
            first: usual.first.mul_f64(scale),
            base: usual.base.mul_f64(scale),
            cap: usual.cap.mul_f64(scale),
            healthy_after: usual.healthy_after.mul_f64(scale),
        });
    if let Ok(certificate) = env::var("CLAWJOB_CONFORMANCE_CLIENT_CERT") {
        let key = env::var("CLAWJOB_CONFORMANCE_CLIENT_KEY")?;
        let (certificate, key) = (fs::read(certificate)?, fs::read(key)?);
        let identity = ClientIdentity { certificate, key };
        executor = executor.client_identity(identity);
    }
    Ok(executor
        .handler("echo", echo)
        .handler("fail", fail)
        .handler("panic", panics)
        .handler("sleep", sleep)
        .handler("spin", spin)
        .handler("block", block)
        .handler("logs", logs)
        .handler("big_output", big_output)
        .handler("progress", progress)
        .handler("checkpoint", checkpoint)
        .handler("context", context))
}

async fn run() -> Result<(), Box<dyn Error>> {
    let executor = executor()?;
    let handle = executor.handle();
    let (mut pause, mut resume) =
        (signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = pause.recv() => handle.pause("echo"),
                _ = resume.recv() => handle.resume("echo"),
            }
        }
    });
    Ok(executor.run().await?)
}

#[tokio::main]
async fn main() {
    let shown = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let shown = shown.with_filter(LevelFilter::INFO);
    tracing_subscriber::registry().with(shown).with(log_layer()).init();
    let ended = run().await;
    if let Err(error) = &ended {
        eprintln!("{error}");
    }
    // A handler that blocks its thread would hold up the end of the runtime.
    std::process::exit(i32::from(ended.is_err()))
}
