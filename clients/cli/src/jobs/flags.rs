//! The flags of `jobs create` and `jobs update`, turned into a job and the fields they name.

use clap::Args;
use clawjob_proto::v1::{Job, Placement, RetryPolicy};
use prost_types::Duration;

use crate::{
    error::CliError,
    jobs::schedule::ScheduleFlags,
    names::{self, Kind},
    terminal::Terminal,
    values::{self, DISCONNECTS, LOSTS, MISFIRES, OVERLAPS, ROUTES},
};

/// What a job is; what is not named stays as it is, or at the server's default.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct JobFlags {
    #[command(flatten)]
    pub(super) schedule: ScheduleFlags,
    #[command(flatten)]
    pub(super) what: WhatFlags,
    #[command(flatten)]
    pub(super) place: PlaceFlags,
    #[command(flatten)]
    pub(super) fail: FailFlags,
    #[command(flatten)]
    pub(super) load: LoadFlags,
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "What")]
pub(super) struct WhatFlags {
    /// The handler that executors offer
    #[arg(long, value_name = "NAME")]
    pub(super) handler: Option<String>,
    /// Params: JSON, @FILE with JSON, or - for stdin
    #[arg(long, value_name = "JSON")]
    pub(super) params: Option<String>,
    /// The job's name for people
    #[arg(long, value_name = "TEXT")]
    pub(super) display_name: Option<String>,
    /// What it does
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// Who answers for it
    #[arg(long, value_name = "TEXT")]
    pub(super) owner: Option<String>,
    /// KEY=VALUE sets a label, KEY- removes it; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(super) labels: Vec<String>,
    /// Start this job when a run has succeeded; repeatable; an empty value clears the list
    #[arg(long, value_name = "JOB")]
    pub(super) on_success: Vec<String>,
    /// Start this job when a run has failed; repeatable; an empty value clears the list
    #[arg(long, value_name = "JOB")]
    pub(super) on_failure: Vec<String>,
    /// How long ended runs are kept
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) retention: Option<Duration>,
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Where")]
pub(super) struct PlaceFlags {
    /// Which of the eligible executors gets a run
    #[arg(long, value_name = "STRATEGY", value_parser = values::one_of(&ROUTES))]
    pub(super) route: Option<i32>,
    /// Key for the route consistent-hash
    #[arg(long, value_name = "KEY")]
    pub(super) route_key: Option<String>,
    /// For the route busyover: an executor above this share of used slots or processor is busy
    #[arg(long, value_name = "SHARE")]
    pub(super) busy_threshold: Option<f32>,
    /// Only executors with this label; KEY- drops the demand; repeatable
    #[arg(long = "require", value_name = "KEY=VALUE")]
    pub(super) required: Vec<String>,
    /// Split each run into so many shards; 0 means one run
    #[arg(long, value_name = "COUNT")]
    pub(super) shards: Option<u32>,
    /// One shard on every eligible executor
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(super) broadcast: Option<bool>,
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Failure")]
pub(super) struct FailFlags {
    /// Stop an attempt after this time
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) timeout: Option<Duration>,
    /// Time between asking an attempt to stop and giving it up
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) kill_grace: Option<Duration>,
    /// Repeat a failed attempt so often
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..1_000_000))]
    pub(super) retries: Option<u32>,
    /// Wait before the first retry
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) backoff: Option<Duration>,
    /// Each further wait is so many times as long
    #[arg(long, value_name = "FACTOR")]
    pub(super) backoff_factor: Option<f64>,
    /// No wait is longer
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) max_backoff: Option<Duration>,
    /// Share of each wait that is random, from 0 to 1
    #[arg(long, value_name = "SHARE")]
    pub(super) jitter: Option<f32>,
    /// Never repeat an attempt that failed with this code; repeatable; an empty value clears the list
    #[arg(long, value_name = "CODE")]
    pub(super) no_retry: Vec<String>,
    /// How often a run may lose its executor before it ends as lost
    #[arg(long, value_name = "COUNT")]
    pub(super) max_lost: Option<u32>,
    /// What a run does while its executor is out of contact
    #[arg(long, value_name = "POLICY", value_parser = values::one_of(&DISCONNECTS))]
    pub(super) disconnect: Option<i32>,
    /// What becomes of a run whose executor is lost
    #[arg(long, value_name = "POLICY", value_parser = values::one_of(&LOSTS))]
    pub(super) lost: Option<i32>,
    /// An executor out of contact for so long is lost
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) lost_after: Option<Duration>,
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadFlags {
    /// What to do when a run is due while the last one still runs
    #[arg(long, value_name = "POLICY", value_parser = values::one_of(&OVERLAPS))]
    pub(super) overlap: Option<i32>,
    /// At most so many runs at once; 0 means no limit
    #[arg(long, value_name = "COUNT")]
    pub(super) concurrency: Option<u32>,
    /// At most so many waiting runs
    #[arg(long, value_name = "COUNT")]
    pub(super) max_queued: Option<u32>,
    /// A run that no executor took within this time fails
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) queue_timeout: Option<Duration>,
    /// What to do with fire times that passed unserved
    #[arg(long, value_name = "POLICY", value_parser = values::one_of(&MISFIRES))]
    pub(super) misfire: Option<i32>,
    /// A fire time served later than this is a misfire
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) misfire_threshold: Option<Duration>,
    /// With --misfire fire-all: at most so many, the newest; 0 means 100
    #[arg(long, value_name = "COUNT")]
    pub(super) misfire_max: Option<u32>,
    /// With --misfire fire-all: none older than this
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) misfire_window: Option<Duration>,
    /// Runs of a higher priority go first
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(super) priority: Option<i32>,
}

/// Sets a field when its flag is given, and notes its path.
macro_rules! set {
    ($paths:ident, $flag:expr => $place:expr, $path:literal) => {
        if let Some(value) = $flag.clone() {
            $place = value.into();
            note(&mut $paths, $path);
        }
    };
}

fn note(paths: &mut Vec<String>, path: &str) {
    if !paths.iter().any(|known| known == path) {
        paths.push(path.into());
    }
}

impl JobFlags {
    /// Changes the job as the flags say; returns the paths of the fields they name.
    ///
    /// # Errors
    /// All flags that make no sense, at once.
    pub(super) fn apply(
        &self,
        job: &mut Job,
        term: &mut Terminal,
        app: Option<&str>,
    ) -> Result<Vec<String>, CliError> {
        let (mut paths, mut faults) = (Vec::new(), Vec::new());
        let own_app = names::split(&job.name).map(|(app, _)| app.to_owned());
        let of_app = own_app.as_deref().or(app);
        if self.schedule.apply(&mut job.schedules, &term.zone, of_app, &mut faults) {
            note(&mut paths, "schedules");
        }
        match self.what.params.as_deref().map(|text| values::params(text, term)) {
            Some(Ok(payload)) => {
                job.params = Some(payload);
                note(&mut paths, "params");
            }
            Some(Err(e)) => faults.push(e.to_string()),
            None => {}
        }
        self.what.apply(job, app, &mut paths, &mut faults);
        self.place.apply(job, &mut paths, &mut faults);
        self.fail.apply(job, &mut paths);
        self.load.apply(job, &mut paths);
        if faults.is_empty() { Ok(paths) } else { Err(CliError::Usage(faults)) }
    }
}

impl WhatFlags {
    fn apply(
        &self,
        job: &mut Job,
        app: Option<&str>,
        into: &mut Vec<String>,
        faults: &mut Vec<String>,
    ) {
        let mut paths = std::mem::take(into);
        set!(paths, self.handler => job.handler, "handler");
        set!(paths, self.display_name => job.display_name, "display_name");
        set!(paths, self.description => job.description, "description");
        set!(paths, self.owner => job.owner, "owner");
        set!(paths, self.retention => job.run_retention, "run_retention");
        if values::edit_pairs(&self.labels, "--label", &mut job.labels, faults) {
            note(&mut paths, "labels");
        }
        let own_app = names::split(&job.name).map(|(app, _)| app.to_owned());
        let app = own_app.as_deref().or(app);
        for (flag, texts, place, path) in [
            ("--on-success", &self.on_success, &mut job.on_success, "on_success"),
            ("--on-failure", &self.on_failure, &mut job.on_failure, "on_failure"),
        ] {
            if texts.is_empty() {
                continue;
            }
            place.clear();
            for text in texts.iter().filter(|text| !text.is_empty()) {
                match names::full(Kind::Job, text, app) {
                    Ok(name) => place.push(name),
                    Err(e) => faults.push(format!("{flag}: {e}")),
                }
            }
            note(&mut paths, path);
        }
        *into = paths;
    }
}

impl PlaceFlags {
    fn apply(&self, job: &mut Job, paths: &mut Vec<String>, faults: &mut Vec<String>) {
        let mut place: Placement = job.placement.clone().unwrap_or_default();
        let before = place.clone();
        let mut named =
            values::edit_pairs(&self.required, "--require", &mut place.required_labels, faults);
        named |= self.route.is_some() || self.route_key.is_some();
        named |= self.busy_threshold.is_some();
        named |= self.shards.is_some() || self.broadcast.is_some();
        if !named {
            return;
        }
        place.route = self.route.unwrap_or(before.route);
        place.route_key = self.route_key.clone().unwrap_or(before.route_key);
        place.busy_threshold = self.busy_threshold.unwrap_or(before.busy_threshold);
        place.shard_total = self.shards.unwrap_or(before.shard_total);
        place.broadcast = self.broadcast.unwrap_or(before.broadcast);
        job.placement = Some(place);
        note(paths, "placement");
    }
}

impl FailFlags {
    fn apply(&self, job: &mut Job, into: &mut Vec<String>) {
        let mut paths = std::mem::take(into);
        set!(paths, self.timeout => job.timeout, "timeout");
        set!(paths, self.kill_grace => job.kill_grace, "kill_grace");
        set!(paths, self.disconnect => job.disconnect_policy, "disconnect_policy");
        set!(paths, self.lost => job.lost_policy, "lost_policy");
        set!(paths, self.lost_after => job.lost_after, "lost_after");
        let mut retry: RetryPolicy = job.retry.clone().unwrap_or_default();
        // Attempts count the first try too.
        set!(paths, self.retries.map(|n| n + 1) => retry.max_attempts, "retry");
        set!(paths, self.backoff => retry.initial_backoff, "retry");
        set!(paths, self.backoff_factor => retry.multiplier, "retry");
        set!(paths, self.max_backoff => retry.max_backoff, "retry");
        set!(paths, self.jitter => retry.jitter, "retry");
        set!(paths, self.max_lost => retry.max_lost, "retry");
        if !self.no_retry.is_empty() {
            let codes = self.no_retry.iter().filter(|code| !code.is_empty());
            retry.non_retryable_codes = codes.cloned().collect();
            note(&mut paths, "retry");
        }
        if paths.iter().any(|path| path == "retry") {
            job.retry = Some(retry);
        }
        *into = paths;
    }
}

impl LoadFlags {
    fn apply(&self, job: &mut Job, into: &mut Vec<String>) {
        let mut paths = std::mem::take(into);
        set!(paths, self.overlap => job.overlap, "overlap");
        set!(paths, self.concurrency => job.max_concurrency, "max_concurrency");
        set!(paths, self.max_queued => job.max_queued, "max_queued");
        set!(paths, self.queue_timeout => job.queue_timeout, "queue_timeout");
        set!(paths, self.misfire => job.misfire, "misfire");
        set!(paths, self.misfire_threshold => job.misfire_threshold, "misfire_threshold");
        set!(paths, self.misfire_max => job.misfire_max, "misfire_max");
        set!(paths, self.misfire_window => job.misfire_window, "misfire_window");
        set!(paths, self.priority => job.priority, "priority");
        *into = paths;
    }
}

#[cfg(test)]
#[path = "flags_tests.rs"]
mod tests;
