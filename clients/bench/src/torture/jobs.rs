//! The load of the harness: jobs of every kind, with the fire times that their schedules name.

use clawjob_proto::v1::{
    DisconnectPolicy, Job, LostPolicy, OverlapPolicy, Payload, RetryPolicy, Schedule,
    schedule::Trigger,
};
use prost_types::Duration;

use super::executor::Work;
use crate::load::timestamp;

/// The job that is started by hand.
pub(super) const BY_HAND: &str = "hand";
/// Jobs of this name fire each second and do nothing: gaps are read from them.
pub(super) const PULSE: &str = "pulse";

/// A job and when it fires.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// Its id.
    pub(super) id: String,
    /// As it is made.
    pub(super) job: Job,
    /// Its fire times, microseconds since 1970; `None` where they depend on its runs.
    pub(super) fires: Option<Vec<i64>>,
}

/// The kinds beside those: name, how many, period in milliseconds.
const KINDS: [(&str, u32, i64); 5] = [
    ("every", 10, 1_300),
    ("skip", 3, 1_000),
    ("queue", 3, 1_000),
    ("flaky", 3, 1_000),
    ("long", 3, 10_000),
];

/// All jobs, `pulses` of them [`PULSE`]; their schedules begin at `from` and end before `until`,
/// microseconds since 1970 in whole seconds.
#[must_use]
pub(super) fn all(pulses: u32, from: i64, until: i64) -> Vec<Planned> {
    let mut jobs = Vec::new();
    for (kind, count, period_ms) in [(PULSE, pulses, 1_000)].into_iter().chain(KINDS) {
        for number in 0..count {
            jobs.push(periodic(kind, number, period_ms, from, until));
        }
    }
    for number in 0..3 {
        let trigger = Trigger::Delay(milliseconds(1_000));
        let mut job = plain("delay", schedule(trigger, from, until));
        job.params = Some(params(Work { ms: 200, failures: 0 }));
        jobs.push(Planned { id: format!("delay-{number}"), job, fires: None });
    }
    let job = Job { schedules: Vec::new(), ..plain(BY_HAND, Schedule::default()) };
    jobs.push(Planned { id: BY_HAND.to_owned(), job, fires: None });
    jobs
}

fn periodic(kind: &str, number: u32, period_ms: i64, from: i64, until: i64) -> Planned {
    let by_cron = matches!(kind, PULSE | "skip" | "flaky");
    // Intervals begin at moments of their own.
    let first = if by_cron { from } else { from + i64::from(number) * 37_000 };
    let trigger = if by_cron {
        Trigger::Cron("* * * * * *".to_owned())
    } else {
        Trigger::Interval(milliseconds(period_ms))
    };
    let fires = (first..until).step_by(usize::try_from(period_ms * 1_000).unwrap_or(1));
    let job = plain(kind, schedule(trigger, first, until));
    Planned { id: format!("{kind}-{number}"), job, fires: Some(fires.collect()) }
}

fn plain(kind: &str, schedule: Schedule) -> Job {
    let (work, overlap) = match kind {
        "skip" => (Work { ms: 1_500, failures: 0 }, OverlapPolicy::Skip),
        "queue" => (Work { ms: 600, failures: 0 }, OverlapPolicy::Queue),
        "flaky" => (Work { ms: 50, failures: 1 }, OverlapPolicy::Allow),
        "long" => (Work { ms: 15_000, failures: 0 }, OverlapPolicy::Allow),
        _ => (Work::default(), OverlapPolicy::Allow),
    };
    Job {
        handler: "work".to_owned(),
        schedules: vec![schedule],
        params: Some(params(work)),
        overlap: overlap.into(),
        retry: Some(RetryPolicy {
            max_attempts: 3,
            initial_backoff: Some(milliseconds(500)),
            // Executors are killed again and again; that ends no run.
            max_lost: 100,
            ..RetryPolicy::default()
        }),
        lost_policy: LostPolicy::Retry.into(),
        disconnect_policy: DisconnectPolicy::Stop.into(),
        ..Job::default()
    }
}

fn schedule(trigger: Trigger, from: i64, until: i64) -> Schedule {
    Schedule {
        trigger: Some(trigger),
        start_time: Some(timestamp(from)),
        // The instant itself belongs to no schedule here.
        end_time: Some(timestamp(until - 1_000)),
        ..Schedule::default()
    }
}

fn params(work: Work) -> Payload {
    let data = serde_json::to_vec(&work).unwrap_or_default();
    Payload { content_type: "application/json".to_owned(), data: data.into() }
}

fn milliseconds(ms: i64) -> Duration {
    let nanos = i32::try_from(ms % 1_000 * 1_000_000).unwrap_or(0);
    Duration { seconds: ms / 1_000, nanos }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_name_the_fire_times_from_the_first_second_to_before_the_last() {
        let (from, until) = (1_700_000_000_000_000, 1_700_000_010_000_000);
        let jobs = all(10, from, until);
        let of = |id: &str| jobs.iter().find(|job| job.id == id).unwrap().fires.clone();
        let pulse = of("pulse-3").unwrap();
        assert_eq!((pulse.len(), pulse[0], pulse[9]), (10, from, from + 9_000_000));
        assert_eq!(of("every-1").unwrap()[1], from + 1_337_000);
        assert_eq!(of("hand"), None);
    }
}
