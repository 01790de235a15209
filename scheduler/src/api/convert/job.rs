//! Jobs.

use std::time::Duration;

use clawjob_proto::v1 as pb;

use super::{enum_value, etag, params, payload_to_proto, schedule, time};
use crate::{
    api::status::Violations,
    model::{
        job::{
            DisconnectPolicy, Job, JobSpec, JobState, LostPolicy, MisfirePolicy, OverlapPolicy,
            Placement, RouteStrategy,
        },
        retry::RetryPolicy,
    },
};

/// Fields of a job that a caller can't set: ignored in a request. `state` is read at creation only.
pub const OUTPUT_ONLY: &[&str] = &[
    "name",
    "state",
    "etag",
    "revision",
    "create_time",
    "update_time",
    "next_fire_time",
    "last_run",
    "pause_until_time",
    "problem",
    "update_by",
    "pause_reason",
    "next_due_time",
];

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Shortest and longest budget of an attempt.
const TIMEOUT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(30 * 86_400));
/// Longest grace after a kill.
const KILL_GRACE_MAX: Duration = Duration::from_secs(3600);
/// A shorter contact gap than this is what a rolling restart makes.
const LOST_AFTER_MIN: Duration = Duration::from_secs(30);
/// Longest wait before another attempt.
const BACKOFF_MAX: Duration = DAY;

/// Reads the content of a job, with params of at most `params_max` bytes. Every fault is added under its path below `job.`; bounds that need
/// no more than the value are checked here, the others by [`crate::api::validate`].
pub fn spec_from_proto(job: &pb::Job, params_max: u32, bad: &mut Violations) -> JobSpec {
    let schedules = job.schedules.iter().enumerate();
    let schedules =
        schedules.map(|(i, s)| schedule::from_proto(&format!("job.schedules[{i}]"), s, bad));
    JobSpec {
        display_name: job.display_name.clone(),
        description: job.description.clone(),
        schedules: schedules.collect(),
        handler: job.handler.clone(),
        params: job.params.as_ref().map(|payload| params("job.params", payload, params_max, bad)),
        placement: job.placement.as_ref().map(|p| placement(p, bad)).unwrap_or_default(),
        retry: job.retry.as_ref().map(|retry| retry_policy(retry, bad)).unwrap_or_default(),
        timeout: within("job.timeout", &job.timeout, TIMEOUT, bad),
        kill_grace: within(
            "job.kill_grace",
            &job.kill_grace,
            (Duration::ZERO, KILL_GRACE_MAX),
            bad,
        ),
        overlap: overlap(job.overlap, bad),
        misfire: misfire(job.misfire, bad),
        misfire_threshold: within(
            "job.misfire_threshold",
            &job.misfire_threshold,
            (Duration::from_millis(100), DAY),
            bad,
        ),
        misfire_max: job.misfire_max,
        misfire_window: within(
            "job.misfire_window",
            &job.misfire_window,
            (Duration::from_secs(1), 31 * DAY),
            bad,
        ),
        disconnect_policy: disconnect_policy(job.disconnect_policy, bad),
        lost_policy: lost_policy(job.lost_policy, bad),
        lost_after: within("job.lost_after", &job.lost_after, (LOST_AFTER_MIN, DAY), bad),
        priority: job.priority,
        labels: job.labels.clone().into_iter().collect(),
        max_concurrency: job.max_concurrency,
        max_queued: job.max_queued,
        queue_timeout: within(
            "job.queue_timeout",
            &job.queue_timeout,
            (Duration::from_secs(1), 31 * DAY),
            bad,
        ),
        on_success: job.on_success.clone(),
        on_failure: job.on_failure.clone(),
        owner: job.owner.clone(),
        run_retention: within(
            "job.run_retention",
            &job.run_retention,
            (Duration::from_secs(3600), 3650 * DAY),
            bad,
        ),
    }
}

/// The state a job is created with.
pub fn new_state(job: &pb::Job, bad: &mut Violations) -> JobState {
    match enum_value::<pb::job::State>("job.state", job.state, bad) {
        pb::job::State::Unspecified | pb::job::State::Active => JobState::Active,
        pb::job::State::Paused => JobState::Paused,
        pb::job::State::Expired => {
            bad.invalid("job.state", "can't be EXPIRED at creation; use ACTIVE or PAUSED");
            JobState::Active
        }
    }
}

fn within(
    field: &str,
    value: &Option<prost_types::Duration>,
    (min, max): (Duration, Duration),
    bad: &mut Violations,
) -> Option<Duration> {
    value.as_ref().and_then(|value| time::duration(field, value, min..=max, bad))
}

fn placement(placement: &pb::Placement, bad: &mut Violations) -> Placement {
    Placement {
        required_labels: placement.required_labels.clone().into_iter().collect(),
        shard_total: placement.shard_total,
        broadcast: placement.broadcast,
        route: route(placement.route, bad),
        route_key: placement.route_key.clone(),
        busy_threshold: placement.busy_threshold,
    }
}

/// A field left out, or 0, means its default.
fn retry_policy(retry: &pb::RetryPolicy, bad: &mut Violations) -> RetryPolicy {
    let usual = RetryPolicy::default();
    let backoff = (Duration::ZERO, BACKOFF_MAX);
    RetryPolicy {
        max_attempts: if retry.max_attempts == 0 { usual.max_attempts } else { retry.max_attempts },
        initial_backoff: within("job.retry.initial_backoff", &retry.initial_backoff, backoff, bad)
            .unwrap_or(usual.initial_backoff),
        multiplier: if retry.multiplier == 0.0 { usual.multiplier } else { retry.multiplier },
        max_backoff: within("job.retry.max_backoff", &retry.max_backoff, backoff, bad)
            .unwrap_or(usual.max_backoff),
        non_retryable_codes: retry.non_retryable_codes.clone(),
        jitter: retry.jitter.unwrap_or(usual.jitter),
        max_lost: if retry.max_lost == 0 { usual.max_lost } else { retry.max_lost },
    }
}

fn overlap(number: i32, bad: &mut Violations) -> OverlapPolicy {
    match enum_value::<pb::OverlapPolicy>("job.overlap", number, bad) {
        pb::OverlapPolicy::Unspecified => OverlapPolicy::default(),
        pb::OverlapPolicy::Allow => OverlapPolicy::Allow,
        pb::OverlapPolicy::Skip => OverlapPolicy::Skip,
        pb::OverlapPolicy::Queue => OverlapPolicy::Queue,
        pb::OverlapPolicy::Replace => OverlapPolicy::Replace,
    }
}

fn misfire(number: i32, bad: &mut Violations) -> MisfirePolicy {
    match enum_value::<pb::MisfirePolicy>("job.misfire", number, bad) {
        pb::MisfirePolicy::Unspecified => MisfirePolicy::default(),
        pb::MisfirePolicy::FireOnce => MisfirePolicy::FireOnce,
        pb::MisfirePolicy::Skip => MisfirePolicy::Skip,
        pb::MisfirePolicy::FireAll => MisfirePolicy::FireAll,
    }
}

fn disconnect_policy(number: i32, bad: &mut Violations) -> DisconnectPolicy {
    match enum_value::<pb::DisconnectPolicy>("job.disconnect_policy", number, bad) {
        pb::DisconnectPolicy::Unspecified => DisconnectPolicy::default(),
        pb::DisconnectPolicy::Continue => DisconnectPolicy::Continue,
        pb::DisconnectPolicy::Stop => DisconnectPolicy::Stop,
    }
}

fn lost_policy(number: i32, bad: &mut Violations) -> LostPolicy {
    match enum_value::<pb::LostPolicy>("job.lost_policy", number, bad) {
        pb::LostPolicy::Unspecified => LostPolicy::default(),
        pb::LostPolicy::Retry => LostPolicy::Retry,
        pb::LostPolicy::Fail => LostPolicy::Fail,
    }
}

fn route(number: i32, bad: &mut Violations) -> RouteStrategy {
    use pb::RouteStrategy as R;
    match enum_value::<R>("job.placement.route", number, bad) {
        R::Unspecified => RouteStrategy::default(),
        R::RoundRobin => RouteStrategy::RoundRobin,
        R::Random => RouteStrategy::Random,
        R::First => RouteStrategy::First,
        R::Last => RouteStrategy::Last,
        R::ConsistentHash => RouteStrategy::ConsistentHash,
        R::LeastFrequentlyUsed => RouteStrategy::LeastFrequentlyUsed,
        R::LeastRecentlyUsed => RouteStrategy::LeastRecentlyUsed,
        R::Failover => RouteStrategy::Failover,
        R::Busyover => RouteStrategy::Busyover,
        R::LeastLoaded => RouteStrategy::LeastLoaded,
    }
}

/// A job as shown, without its `last_run`, which is no part of the stored job.
pub fn to_proto(job: &Job) -> pb::Job {
    pb::Job {
        name: job.resource_name(),
        state: state_to_proto(job.state) as i32,
        etag: etag::of_job(job),
        revision: job.revision,
        create_time: Some(time::instant_to_proto(job.created_at)),
        update_time: Some(time::instant_to_proto(job.updated_at)),
        next_fire_time: job.next_fire_at.map(time::instant_to_proto),
        pause_until_time: job.pause_until.map(time::instant_to_proto),
        pause_reason: job.pause_reason.clone(),
        problem: job.problem.clone(),
        update_by: job.updated_by.clone(),
        ..spec_to_proto(&job.spec)
    }
}

/// The content of a job as shown; the fields of [`OUTPUT_ONLY`] are left empty.
pub fn spec_to_proto(spec: &JobSpec) -> pb::Job {
    let duration = |value: Option<Duration>| value.map(time::duration_to_proto);
    pb::Job {
        display_name: spec.display_name.clone(),
        description: spec.description.clone(),
        schedules: spec.schedules.iter().map(schedule::to_proto).collect(),
        handler: spec.handler.clone(),
        params: spec.params.as_ref().map(payload_to_proto),
        placement: Some(placement_to_proto(&spec.placement)),
        retry: Some(retry_to_proto(&spec.retry)),
        timeout: duration(spec.timeout),
        kill_grace: duration(spec.kill_grace),
        overlap: overlap_to_proto(spec.overlap) as i32,
        misfire: misfire_to_proto(spec.misfire) as i32,
        misfire_threshold: duration(spec.misfire_threshold),
        disconnect_policy: disconnect_policy_to_proto(spec.disconnect_policy) as i32,
        lost_policy: lost_policy_to_proto(spec.lost_policy) as i32,
        lost_after: duration(spec.lost_after),
        priority: spec.priority,
        labels: spec.labels.clone().into_iter().collect(),
        max_concurrency: spec.max_concurrency,
        max_queued: spec.max_queued,
        queue_timeout: duration(spec.queue_timeout),
        on_success: spec.on_success.clone(),
        on_failure: spec.on_failure.clone(),
        owner: spec.owner.clone(),
        run_retention: duration(spec.run_retention),
        misfire_max: spec.misfire_max,
        misfire_window: duration(spec.misfire_window),
        ..pb::Job::default()
    }
}

/// A job's state as shown.
pub fn state_to_proto(state: JobState) -> pb::job::State {
    match state {
        JobState::Active => pb::job::State::Active,
        JobState::Paused => pb::job::State::Paused,
        JobState::Expired => pb::job::State::Expired,
    }
}

fn placement_to_proto(placement: &Placement) -> pb::Placement {
    pb::Placement {
        required_labels: placement.required_labels.clone().into_iter().collect(),
        shard_total: placement.shard_total,
        broadcast: placement.broadcast,
        route: route_to_proto(placement.route) as i32,
        route_key: placement.route_key.clone(),
        busy_threshold: placement.busy_threshold,
    }
}

fn retry_to_proto(retry: &RetryPolicy) -> pb::RetryPolicy {
    pb::RetryPolicy {
        max_attempts: retry.max_attempts,
        initial_backoff: Some(time::duration_to_proto(retry.initial_backoff)),
        multiplier: retry.multiplier,
        max_backoff: Some(time::duration_to_proto(retry.max_backoff)),
        non_retryable_codes: retry.non_retryable_codes.clone(),
        jitter: Some(retry.jitter),
        max_lost: retry.max_lost,
    }
}

fn overlap_to_proto(overlap: OverlapPolicy) -> pb::OverlapPolicy {
    match overlap {
        OverlapPolicy::Allow => pb::OverlapPolicy::Allow,
        OverlapPolicy::Skip => pb::OverlapPolicy::Skip,
        OverlapPolicy::Queue => pb::OverlapPolicy::Queue,
        OverlapPolicy::Replace => pb::OverlapPolicy::Replace,
    }
}

fn misfire_to_proto(misfire: MisfirePolicy) -> pb::MisfirePolicy {
    match misfire {
        MisfirePolicy::FireOnce => pb::MisfirePolicy::FireOnce,
        MisfirePolicy::Skip => pb::MisfirePolicy::Skip,
        MisfirePolicy::FireAll => pb::MisfirePolicy::FireAll,
    }
}

fn disconnect_policy_to_proto(policy: DisconnectPolicy) -> pb::DisconnectPolicy {
    match policy {
        DisconnectPolicy::Continue => pb::DisconnectPolicy::Continue,
        DisconnectPolicy::Stop => pb::DisconnectPolicy::Stop,
    }
}

fn lost_policy_to_proto(policy: LostPolicy) -> pb::LostPolicy {
    match policy {
        LostPolicy::Retry => pb::LostPolicy::Retry,
        LostPolicy::Fail => pb::LostPolicy::Fail,
    }
}

fn route_to_proto(route: RouteStrategy) -> pb::RouteStrategy {
    use pb::RouteStrategy as R;
    match route {
        RouteStrategy::RoundRobin => R::RoundRobin,
        RouteStrategy::Random => R::Random,
        RouteStrategy::First => R::First,
        RouteStrategy::Last => R::Last,
        RouteStrategy::ConsistentHash => R::ConsistentHash,
        RouteStrategy::LeastFrequentlyUsed => R::LeastFrequentlyUsed,
        RouteStrategy::LeastRecentlyUsed => R::LeastRecentlyUsed,
        RouteStrategy::Failover => R::Failover,
        RouteStrategy::Busyover => R::Busyover,
        RouteStrategy::LeastLoaded => R::LeastLoaded,
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::ReflectMessage;

    use super::*;
    use crate::api::sample::{dynamic, full};

    #[test]
    fn every_field_of_a_job_survives_the_model() {
        let mut sent = full::<pb::Job>(0);
        for other in sent.schedules.iter_mut().skip(1) {
            other.cron_dialect = 0;
        }
        let mut bad = Violations::new();
        let spec = spec_from_proto(&sent, 1024, &mut bad);
        bad.finish().expect("a good job");
        let (sent, shown) = (dynamic(&sent), dynamic(&spec_to_proto(&spec)));
        for field in sent.descriptor().fields().filter(|f| !OUTPUT_ONLY.contains(&f.name())) {
            assert_eq!(shown.get_field(&field), sent.get_field(&field), "{}", field.name());
        }
    }

    #[test]
    fn what_is_left_out_has_its_default_and_absent_values_stay_absent() {
        let mut bad = Violations::new();
        let spec = spec_from_proto(&pb::Job::default(), 1024, &mut bad);
        bad.finish().expect("defaults");
        assert_eq!(spec, JobSpec::default());
        let shown = spec_to_proto(&spec);
        assert_eq!(shown.timeout, None);
        assert_eq!(shown.max_queued, 0);
        assert_eq!(shown.overlap(), pb::OverlapPolicy::Skip);
        let retry = shown.retry.expect("shown as it takes effect");
        assert_eq!((retry.max_attempts, retry.jitter, retry.max_lost), (1, Some(0.2), 3));
    }

    #[test]
    fn a_retry_without_jitter_can_be_asked_for() {
        let retry = pb::RetryPolicy { jitter: Some(0.0), ..Default::default() };
        let job = pb::Job { retry: Some(retry), ..Default::default() };
        assert_eq!(spec_from_proto(&job, 1024, &mut Violations::new()).retry.jitter, 0.0);
    }

    #[test]
    fn all_faults_of_a_job_are_told_at_once() {
        let job = pb::Job {
            overlap: 99,
            misfire: -1,
            timeout: Some(prost_types::Duration { seconds: -1, nanos: 0 }),
            lost_after: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
            params: Some(pb::Payload { content_type: String::new(), data: "{".into() }),
            schedules: vec![
                pb::Schedule::default(),
                pb::Schedule {
                    excluded_dates: vec!["2026-2-30".into()],
                    start_time: Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 }),
                    ..Default::default()
                },
            ],
            ..Default::default()
        };
        let mut bad = Violations::new();
        spec_from_proto(&job, 1024, &mut bad);
        let message = bad.finish().expect_err("many faults").message().to_owned();
        for field in [
            "job.overlap: ",
            "job.misfire: ",
            "job.timeout: ",
            "job.lost_after: ",
            "job.params.data: ",
            "job.schedules[1].excluded_dates[0]: ",
            "job.schedules[1].start_time: ",
        ] {
            assert!(message.contains(field), "{field} is missing in {message}");
        }
    }
}
