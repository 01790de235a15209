//! The handler `shell`: runs a command of the allow-list.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clawjob_proto::v1::LogLevel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::process;

use super::config::{Command, ShellSection};
use super::group::Group;
use super::lines;
use super::strays::Marks;
use crate::ctx::Ctx;
use crate::failure::{Failure, code};

/// Variables of the agent's environment that commands get. Others, the agent's token among them,
/// stay with it.
const PASSED_ON: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"];
/// How long the output is read on after the command has ended, for a process that left the group
/// with the pipe in its hand.
const PIPE_DRAIN_MAX: Duration = Duration::from_secs(1);

/// Params of the handler.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    /// A name in the agent's list of commands.
    command: String,
    /// Values for the placeholders of the command's arguments.
    #[serde(default)]
    args: BTreeMap<String, Value>,
}

/// The value of a placeholder.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be text, a number, true or false")]
pub(super) enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// `true` or `false`.
    Flag(bool),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
        }
    }
}

/// What a command that succeeded leaves.
#[derive(Debug, Serialize)]
pub(super) struct Output {
    exit_code: i32,
}

/// Runs the command to its end, or until the run is stopped.
pub(super) async fn run(
    section: Arc<ShellSection>,
    params: Params,
    ctx: Ctx,
) -> Result<Output, Failure> {
    let command = section.commands.get(&params.command).ok_or_else(|| {
        let text = format!("the agent's list has no command {:?}", params.command);
        Failure::new("COMMAND_NOT_ALLOWED", text).non_retryable()
    })?;
    let mut process = prepare(command, &params, &ctx)?;
    let mut group = Group::spawn(&mut process, marks(&ctx)).map_err(|error| {
        let text = format!("{} cannot be started: {error}", command.program.display());
        Failure::new("COMMAND_NOT_STARTED", text)
    })?;
    let (stdout, stderr) = (group.child().stdout.take(), group.child().stderr.take());
    let (mut last_out, mut last_err) = (String::new(), String::new());
    let print = async {
        let out = async {
            match stdout {
                Some(pipe) => {
                    lines::copy(pipe, &ctx, LogLevel::Info, "stdout", &mut last_out).await
                }
                None => Ok(()),
            }
        };
        let err = async {
            match stderr {
                Some(pipe) => {
                    lines::copy(pipe, &ctx, LogLevel::Warn, "stderr", &mut last_err).await
                }
                None => Ok(()),
            }
        };
        tokio::try_join!(out, err).map(|_| ())
    };
    let end = async {
        tokio::select! {
            status = group.wait() => (status, false),
            _ = ctx.cancelled() => (group.stop(command.stop_grace()).await, true),
        }
    };
    let (status, stopped) = both(print, end).await;
    let status = status?;
    if stopped {
        return Err(ctx.stopped());
    }
    if status.success() {
        return Ok(Output { exit_code: 0 });
    }
    Err(exit_failure(status, &last_err))
}

/// Runs the two side by side until the command has ended, and a little longer for its output.
async fn both<T>(
    print: impl Future<Output = std::io::Result<()>>,
    end: impl Future<Output = T>,
) -> T {
    tokio::pin!(print, end);
    let mut printed = false;
    let ended = loop {
        tokio::select! {
            ended = &mut end => break ended,
            result = &mut print, if !printed => {
                printed = true;
                if let Err(error) = result {
                    tracing::warn!(%error, "the command's output cannot be read");
                }
            }
        }
    };
    if !printed && tokio::time::timeout(PIPE_DRAIN_MAX, print).await.is_err() {
        tracing::warn!("a process that left the command's group still holds its output");
    }
    ended
}

fn prepare(command: &Command, params: &Params, ctx: &Ctx) -> Result<process::Command, Failure> {
    let mut process = process::Command::new(&command.program);
    process.args(arguments(command, &params.args)?);
    if let Some(cwd) = &command.cwd {
        process.current_dir(cwd);
    }
    process.env_clear();
    process.envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    process.envs(&command.env);
    process.envs(description(ctx));
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(process)
}

/// What the command learns about its run.
fn description(ctx: &Ctx) -> Vec<(&'static str, String)> {
    let mut env = vec![
        ("CLAWJOB_RUN_ID", ctx.run_id().to_owned()),
        ("CLAWJOB_RUN", ctx.run().to_owned()),
        ("CLAWJOB_JOB", ctx.job().to_owned()),
        ("CLAWJOB_ATTEMPT", ctx.attempt().to_string()),
        ("CLAWJOB_MAX_ATTEMPTS", ctx.max_attempts().to_string()),
        ("CLAWJOB_FIRE_TIME", ctx.fire_time().to_rfc3339()),
        ("CLAWJOB_LATENESS_MS", ctx.lateness().as_millis().to_string()),
        ("CLAWJOB_CATCH_UP", ctx.catch_up().to_string()),
    ];
    if let Some(deadline) = ctx.deadline() {
        env.push(("CLAWJOB_DEADLINE", deadline.to_rfc3339()));
    }
    if let Some(shard) = ctx.shard() {
        env.push(("CLAWJOB_SHARD_INDEX", shard.index.to_string()));
        env.push(("CLAWJOB_SHARD_TOTAL", shard.total.to_string()));
    }
    if let Some(traceparent) = ctx.traceparent() {
        env.push(("TRACEPARENT", traceparent.to_owned()));
    }
    env
}

/// What tells the processes of this attempt from all others.
fn marks(ctx: &Ctx) -> Marks {
    let named = ["CLAWJOB_RUN_ID", "CLAWJOB_ATTEMPT"];
    Marks::new(description(ctx).into_iter().filter(|(name, _)| named.contains(name)))
}

fn arguments(command: &Command, values: &BTreeMap<String, Value>) -> Result<Vec<String>, Failure> {
    let invalid = |text: String| Failure::new(code::INVALID_PARAMS, text).non_retryable();
    let mut used = Vec::new();
    let mut arguments = Vec::with_capacity(command.args.len());
    for template in &command.args {
        let mut argument = String::new();
        let pieces = placeholders(template).map_err(|p| invalid(format!("{template:?} {p}")))?;
        for piece in pieces {
            match piece {
                Piece::Text(text) => argument.push_str(&text),
                Piece::Param(name) => {
                    let value = values
                        .get(&name)
                        .ok_or_else(|| invalid(format!("args.{name} is missing")))?
                        .to_string();
                    // Else a value could become an option of the program.
                    if argument.is_empty() && value.starts_with('-') {
                        return Err(invalid(format!("args.{name} must not begin with '-'")));
                    }
                    if value.contains('\0') {
                        return Err(invalid(format!("args.{name} has a NUL byte")));
                    }
                    argument.push_str(&value);
                    used.push(name);
                }
            }
        }
        arguments.push(argument);
    }
    match values.keys().find(|name| !used.contains(name)) {
        Some(name) => Err(invalid(format!("args.{name} is no placeholder of the command"))),
        None => Ok(arguments),
    }
}

/// A part of an argument.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Param(String),
}

/// Takes an argument's template apart.
///
/// # Errors
/// What is wrong with its braces.
pub(super) fn placeholders(template: &str) -> Result<Vec<Piece>, &'static str> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' | '}' if chars.peek() == Some(&c) => {
                chars.next();
                text.push(c);
            }
            '{' => {
                let mut name = String::new();
                loop {
                    match chars.next() {
                        Some('}') => break,
                        Some(c) if c.is_ascii_alphanumeric() || c == '_' => name.push(c),
                        Some(_) => return Err("has a placeholder with more than a-z, 0-9 and _"),
                        None => return Err("has a '{' that is not closed; write '{{' for a brace"),
                    }
                }
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Param(name));
            }
            '}' => return Err("has a '}' that closes nothing; write '}}' for a brace"),
            c => text.push(c),
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

fn exit_failure(status: ExitStatus, last_err: &str) -> Failure {
    let (code, mut text) = match (status.code(), status.signal()) {
        (Some(code), _) => (format!("EXIT_{code}"), format!("the command ended with {code}")),
        (None, Some(signal)) => {
            (format!("SIGNAL_{signal}"), format!("the command was ended by signal {signal}"))
        }
        (None, None) => ("EXIT_UNKNOWN".to_owned(), status.to_string()),
    };
    if !last_err.is_empty() {
        text.push_str(": ");
        text.push_str(last_err);
    }
    Failure::new(code, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(args: &[&str]) -> Command {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        serde_json::from_value(serde_json::json!({"program": "x", "args": args})).unwrap()
    }

    fn values(json: serde_json::Value) -> BTreeMap<String, Value> {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_value_stays_one_argument() {
        let command = command(&["--name={name}", "{n}", "{{{b}}}"]);
        let values = values(serde_json::json!({"name": "a b; rm -rf /", "n": 3, "b": true}));
        let arguments = arguments(&command, &values).unwrap();
        assert_eq!(arguments, ["--name=a b; rm -rf /", "3", "{true}"]);
    }

    #[test]
    fn values_are_neither_missing_nor_unknown_nor_options() {
        let command = command(&["{name}"]);
        for (json, text) in [
            (serde_json::json!({}), "args.name is missing"),
            (serde_json::json!({"name": "a", "x": 1}), "args.x is no placeholder"),
            (serde_json::json!({"name": "-rf"}), "must not begin with '-'"),
            (serde_json::json!({"name": "a\u{0}"}), "NUL"),
        ] {
            let failure = arguments(&command, &values(json)).unwrap_err();
            assert!(failure.message().contains(text), "{failure}");
            assert!(failure.is_non_retryable());
        }
    }

    #[test]
    fn braces_are_checked() {
        for template in ["{", "{a", "}", "{a b}", "{{}"] {
            assert!(placeholders(template).is_err(), "{template}");
        }
        assert_eq!(placeholders("{{}}").unwrap(), [Piece::Text("{}".to_owned())]);
    }
}
