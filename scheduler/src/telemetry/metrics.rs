//! Metrics, as Prometheus text. [`METRICS`] is the one table of names, units and meanings.

use std::sync::{LazyLock, atomic::AtomicU64};

use chrono::{DateTime, TimeDelta, Utc};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

type Float = Gauge<f64, AtomicU64>;

/// A metric's row in the table: name (with `clawjob_` before and unit behind), unit, meaning.
pub type Row = (&'static str, &'static str, &'static str);

/// Every metric there is.
pub const METRICS: [Row; 24] = [
    ("fires", "", "Runs that schedules made"),
    ("missed_fires", "", "Fire times that passed unserved and were settled by the misfire policy"),
    ("dispatches", "", "Runs sent to executors"),
    ("lateness", "seconds", "Dispatch after the due time, first attempts of schedules"),
    ("run_ends", "", "Ended runs by final state"),
    ("retries", "", "Attempts that failed or were lost and wait for another"),
    ("open_runs", "", "Runs that have not ended, by what they do"),
    ("queue_age", "seconds", "How long the oldest due run has been waiting"),
    ("sessions", "", "Executor sessions on this node"),
    ("sessions_opened", "", "Executor sessions that began"),
    ("frames_ignored", "", "Frames of executors that were not understood"),
    ("batch_rows", "", "Rows per batch written, by operation"),
    ("database_latency", "seconds", "Round trip to the database, last measured"),
    ("store_errors", "", "Store operations that failed and were tried again"),
    ("partitions", "", "Partitions this node owns"),
    ("jobs", "", "Jobs in the owner's memory"),
    ("clock_offset", "seconds", "The database's clock minus this machine's"),
    ("api_requests", "", "API requests by method and status code"),
    ("ends_aside", "", "Ends of runs that can't be followed up and are tried again later"),
    ("alarms", "", "Alarms raised, by condition"),
    ("alarm_deliveries", "", "Tries to deliver alarms, by outcome: delivered, failed, given_up"),
    ("alarms_owed", "", "Deliveries of alarms that are owed"),
    ("alarm_age", "seconds", "How long the oldest delivery of an alarm has been owed"),
    ("progress_age", "seconds", "Since scheduling last went on, here or on another node"),
];

/// Label of a run's state or of what it does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StateLabel {
    /// The state.
    pub state: &'static str,
}

/// Label of a store operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperationLabel {
    /// The operation.
    pub operation: &'static str,
}

/// Label of an alarm's condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ConditionLabel {
    /// The condition.
    pub condition: &'static str,
}

/// Label of what became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabel {
    /// The outcome.
    pub outcome: &'static str,
}

/// Labels of an API request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabel {
    /// `Service/Method`, of the contract's own only.
    pub method: String,
    /// gRPC status code by name.
    pub code: &'static str,
}

/// The process's metrics; fields as [`METRICS`] names them.
#[allow(missing_docs, reason = "the table says what each means")]
pub struct Metrics {
    registry: Registry,
    pub fires: Counter,
    pub missed_fires: Counter,
    pub dispatches: Counter,
    pub lateness: Histogram,
    pub run_ends: Family<StateLabel, Counter>,
    pub retries: Counter,
    pub open_runs: Family<StateLabel, Gauge>,
    pub queue_age: Float,
    pub sessions: Gauge,
    pub sessions_opened: Counter,
    pub frames_ignored: Counter,
    pub batch_rows: Family<OperationLabel, Histogram>,
    pub database_latency: Float,
    pub store_errors: Counter,
    pub partitions: Gauge,
    pub jobs: Gauge,
    pub clock_offset: Float,
    pub api_requests: Family<RequestLabel, Counter>,
    pub ends_aside: Gauge,
    pub alarms: Family<ConditionLabel, Counter>,
    pub alarm_deliveries: Family<OutcomeLabel, Counter>,
    pub alarms_owed: Gauge,
    pub alarm_age: Float,
    pub progress_age: Float,
}

static PROCESS: LazyLock<Metrics> = LazyLock::new(Metrics::new);

/// The process's metrics.
pub fn metrics() -> &'static Metrics {
    &PROCESS
}

impl Metrics {
    fn new() -> Self {
        let batches = || Histogram::new(exponential_buckets(1.0, 2.0, 10));
        let mut metrics = Self {
            registry: Registry::with_prefix("clawjob"),
            fires: Counter::default(),
            missed_fires: Counter::default(),
            dispatches: Counter::default(),
            lateness: Histogram::new(exponential_buckets(0.000_5, 2.0, 18)),
            run_ends: Family::default(),
            retries: Counter::default(),
            open_runs: Family::default(),
            queue_age: Float::default(),
            sessions: Gauge::default(),
            sessions_opened: Counter::default(),
            frames_ignored: Counter::default(),
            batch_rows: Family::new_with_constructor(batches),
            database_latency: Float::default(),
            store_errors: Counter::default(),
            partitions: Gauge::default(),
            jobs: Gauge::default(),
            clock_offset: Float::default(),
            api_requests: Family::default(),
            ends_aside: Gauge::default(),
            alarms: Family::default(),
            alarm_deliveries: Family::default(),
            alarms_owed: Gauge::default(),
            alarm_age: Float::default(),
            progress_age: Float::default(),
        };
        for row in METRICS {
            metrics.register(row);
        }
        metrics
    }

    /// Registers the field of a row. A name without a field is left out, which the test sees.
    fn register(&mut self, (name, unit, help): Row) {
        let Self { registry, .. } = self;
        macro_rules! put {
            ($($field:ident)*) => {
                match name {
                    $(stringify!($field) if unit.is_empty() => {
                        registry.register(name, help, self.$field.clone());
                    }
                    stringify!($field) => {
                        registry.register_with_unit(name, help, Unit::Seconds, self.$field.clone());
                    })*
                    _ => {}
                }
            };
        }
        put!(fires missed_fires dispatches lateness run_ends retries open_runs queue_age sessions
            sessions_opened frames_ignored batch_rows database_latency store_errors partitions jobs
            clock_offset api_requests ends_aside alarms alarm_deliveries alarms_owed alarm_age progress_age);
    }

    /// Counts one batch of an operation.
    pub fn batch(&self, operation: &'static str, rows: usize) {
        self.batch_rows.get_or_create(&OperationLabel { operation }).observe(rows as f64);
    }

    /// Counts an ended run.
    pub fn ended(&self, state: &'static str) {
        self.run_ends.get_or_create(&StateLabel { state }).inc();
    }

    /// Counts an alarm that was raised.
    pub fn alarm(&self, condition: &'static str) {
        self.alarms.get_or_create(&ConditionLabel { condition }).inc();
    }

    /// Counts a try to deliver an alarm.
    pub fn delivery(&self, outcome: &'static str) {
        self.alarm_deliveries.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Counts a first dispatch of a schedule's run.
    pub fn late(&self, due: DateTime<Utc>, at: DateTime<Utc>) {
        self.lateness.observe(seconds(at - due).max(0.0));
    }

    /// All of them as Prometheus text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// A time difference in seconds.
pub fn seconds(delta: TimeDelta) -> f64 {
    delta.num_microseconds().unwrap_or(i64::MAX) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_shown_with_its_unit_and_meaning() {
        // A family shows itself with its first member.
        metrics().ended("SUCCEEDED");
        metrics().batch("plan", 3);
        metrics().alarm("RUN_LOST");
        metrics().delivery("failed");
        metrics().open_runs.get_or_create(&StateLabel { state: "QUEUED" }).set(1);
        let request = RequestLabel { method: "JobService/GetJob".to_owned(), code: "OK" };
        metrics().api_requests.get_or_create(&request).inc();
        let text = metrics().text();
        for (name, unit, help) in METRICS {
            let full = if unit.is_empty() { name.to_owned() } else { format!("{name}_{unit}") };
            assert!(text.contains(&format!("# HELP clawjob_{full} {help}")), "{name}\n{text}");
        }
    }
}
