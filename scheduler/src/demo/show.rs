//! What the demo prints.

use std::{collections::HashMap, path::Path};

use chrono::{DateTime, Local};
use clawjob_proto::v1::{Run, RunState, WatchRunsResponse, watch_runs_response::Type};

/// Runs remembered so that a change is printed once; the map is emptied when it grows past this.
const REMEMBERED_MAX: usize = 10_000;

pub(super) fn begin() {
    println!(
        "jobs of app demo: hello every 5 s, sleepy every 20 s, risky every 30 s, \
         report at 09:00 in Shanghai. Ctrl-C ends all.\n"
    );
    println!("{:<9} {:<7} {:<10} {:<8} what happened", "time", "job", "state", "attempt");
}

/// Turns events into lines.
pub(super) struct Lines {
    hints: Option<String>,
    seen: HashMap<String, (i32, u32)>,
}

impl Lines {
    pub(super) fn new(url: &str, data_dir: &Path) -> Self {
        Self { hints: Some(hints(url, data_dir)), seen: HashMap::new() }
    }

    pub(super) fn take(&mut self, event: &WatchRunsResponse) {
        let Some(run) = event.run.as_ref().filter(|_| event.r#type() == Type::Changed) else {
            return;
        };
        let ended = run.end_time.is_some();
        if !ended && run.state() != RunState::RetryWait {
            return;
        }
        if self.seen.len() >= REMEMBERED_MAX {
            self.seen.clear();
        }
        let now = (run.state, run.attempt);
        if self.seen.insert(run.name.clone(), now) == Some(now) {
            return;
        }
        println!("{}", line(run));
        if let Some(hints) = self.hints.take().filter(|_| ended) {
            println!("{hints}");
        }
    }
}

fn line(run: &Run) -> String {
    let at = run.end_time.or(run.attempts.last().and_then(|attempt| attempt.end_time));
    let at = at.and_then(|at| DateTime::from_timestamp(at.seconds, 0));
    let at = at.map_or(String::new(), |at| at.with_timezone(&Local).format("%H:%M:%S").to_string());
    let job = run.job.rsplit('/').next().unwrap_or_default();
    let state = run.state().as_str_name().trim_start_matches("RUN_STATE_").to_owned();
    format!("{at:<9} {job:<7} {state:<10} {:<8} {}", run.attempt, happened(run))
}

fn happened(run: &Run) -> String {
    if let Some(failure) = &run.failure {
        let code = plain(&failure.code);
        return format!("{code}: {}", plain(&failure.message));
    }
    match &run.output {
        Some(output) => plain(&String::from_utf8_lossy(&output.data)),
        None => plain(&run.state_message),
    }
}

/// Text from a handler, on one line and without control characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect()
}

fn hints(url: &str, data_dir: &Path) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "clawjob".into());
    let token = data_dir.join("admin.token");
    let lines = clawjob_cli::hints(&program.display().to_string(), url, &token, super::APP);
    let lines = lines.join("\n    ");
    format!("\n  Look around from another terminal, in this directory:\n    {lines}\n")
}
