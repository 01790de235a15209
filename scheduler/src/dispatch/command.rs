//! The RunCommand of a dispatch.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clawjob_proto::v1;

use crate::{
    board::Sent,
    model::{
        Payload,
        job::DisconnectPolicy,
        run::{OpenRun, TriggerKind},
    },
    telemetry::runs::traceparent,
};

/// What the executor needs to run it; the hub fills in `command_seq`.
pub(super) fn build(
    sent: &Sent,
    checkpoint: Option<&Payload>,
    cause_output: Option<&Payload>,
    now: DateTime<Utc>,
) -> v1::RunCommand {
    let Sent { run, spec, job } = sent;
    let extra = run.extra.clone().unwrap_or_default();
    let lateness = (now - run.due_at).to_std().unwrap_or(Duration::ZERO);
    let causing_app = if extra.caused_by_app.is_empty() { &*job.app } else { &extra.caused_by_app };
    let caused_by = extra.caused_by.map(|run| format!("apps/{causing_app}/runs/{run}"));
    let mut labels = spec.labels.clone();
    labels.extend(extra.labels);
    let policy = match spec.disconnect_policy {
        DisconnectPolicy::Continue => v1::DisconnectPolicy::Continue,
        DisconnectPolicy::Stop => v1::DisconnectPolicy::Stop,
    };
    v1::RunCommand {
        r#ref: Some(v1::AttemptRef {
            run_id: run.id.to_string(),
            attempt: run.attempt,
            fence: run.fence,
        }),
        job: job.resource_name(),
        run: format!("apps/{}/runs/{}", job.app, run.id),
        handler: spec.handler.clone(),
        params: extra.params.as_ref().or(spec.params.as_ref()).map(payload),
        fire_time: Some(timestamp(run.fire_at)),
        timeout: spec.timeout.map(duration),
        deadline: spec.timeout.map(|timeout| timestamp(now + timeout)),
        shard_index: extra.shard_index,
        shard_total: extra.shard_total,
        traceparent: traceparent(run.attempt_ref()),
        tracestate: String::new(),
        labels: labels.into_iter().collect(),
        disconnect_policy: policy.into(),
        kill_grace: Some(duration(spec.kill_grace())),
        max_attempts: spec.retry.max_attempts,
        checkpoint: checkpoint.map(payload),
        lateness: Some(duration(lateness)),
        catch_up: catches_up(run, lateness, spec.misfire_threshold()),
        command_seq: 0,
        lost_after: spec.lost_after.map(duration),
        job_revision: run.revision,
        caused_by: caused_by.unwrap_or_default(),
        caused_by_output: cause_output.map(payload),
    }
}

/// A first attempt of a fire time that is served later than its misfire threshold.
fn catches_up(run: &OpenRun, lateness: Duration, threshold: Duration) -> bool {
    run.trigger == TriggerKind::Misfire
        || (run.trigger == TriggerKind::Schedule && run.attempt == 1 && lateness > threshold)
}

fn payload(payload: &Payload) -> v1::Payload {
    v1::Payload { content_type: payload.content_type.clone(), data: payload.data.clone() }
}

fn timestamp(at: DateTime<Utc>) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: at.timestamp(),
        nanos: i32::try_from(at.timestamp_subsec_nanos()).unwrap_or(0),
    }
}

fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}
