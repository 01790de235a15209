//! Runs and their logs, as shown.

use chrono::{DateTime, Utc};
use clawjob_proto::v1 as pb;

use super::{etag, names, payload_to_proto, time};
use crate::{
    model::{
        Payload,
        ids::RunId,
        log::{LogLevel, LogRecord},
        run::{Attempt, Failure, KillReason, OpenRun, Outcome, RunRecord, RunState, TriggerKind},
    },
    telemetry::runs::traceparent,
};

/// A run as shown at `now`. `full` adds params (the run's own, else `job_params`), output and
/// attempts.
pub fn to_proto(
    record: &RunRecord,
    job_params: Option<&Payload>,
    full: bool,
    now: DateTime<Utc>,
) -> pb::Run {
    let mut shown = basic(record, now);
    if full {
        let own = record.run.extra.as_ref().and_then(|extra| extra.params.as_ref());
        shown.params = own.or(job_params).map(payload_to_proto);
        shown.output = record.output.as_ref().map(payload_to_proto);
        let app = &record.app_name;
        shown.attempts = record.attempts.iter().map(|a| attempt_to_proto(a, app)).collect();
    }
    shown
}

fn basic(record: &RunRecord, now: DateTime<Utc>) -> pb::Run {
    let run = &record.run;
    let app = record.app_name.as_ref();
    let extra = run.extra.as_deref().cloned().unwrap_or_default();
    let sibling = |id: Option<RunId>| id.map(|id| names::run(app, id)).unwrap_or_default();
    let causing_app = if extra.caused_by_app.is_empty() { app } else { &extra.caused_by_app };
    let caused_by = extra.caused_by.map(|id| names::run(causing_app, id));
    let waits = run.state == RunState::RetryWait;
    pb::Run {
        name: names::run(app, run.id),
        job: names::job(app, &record.job_name),
        job_revision: run.revision,
        state: shown_state(run, now) as i32,
        trigger: trigger_to_proto(run.trigger) as i32,
        triggered_by: extra.triggered_by,
        fire_time: Some(time::instant_to_proto(run.fire_at)),
        create_time: Some(time::instant_to_proto(run.created_at)),
        start_time: run.started_at.map(time::instant_to_proto),
        end_time: record.ended_at.map(time::instant_to_proto),
        attempt: run.attempt,
        failure: record.failure.as_ref().map(failure_to_proto),
        kill_reason: run.kill_reason.map_or(0, |reason| kill_reason_to_proto(reason) as i32),
        parent_run: sibling(extra.parent),
        shard_index: extra.shard_index,
        shard_total: extra.shard_total,
        progress: record.progress,
        progress_message: record.progress_message.clone(),
        traceparent: traceparent(run.attempt_ref()),
        labels: extra.labels.into_iter().collect(),
        etag: etag::of_run(run),
        state_message: state_message(run, now),
        next_attempt_time: waits.then(|| time::instant_to_proto(run.due_at)),
        due_time: Some(time::instant_to_proto(run.due_at)),
        executor: run.executor.as_deref().map(|id| names::executor(app, id)).unwrap_or_default(),
        rerun_of: sibling(extra.rerun_of),
        caused_by: caused_by.unwrap_or_default(),
        missed_count: record.missed_count,
        missed_until_time: record.missed_until.map(time::instant_to_proto),
        ..pb::Run::default()
    }
}

/// Why the run is in its state. That one of a backfill waits for its turn is written nowhere.
fn state_message(run: &OpenRun, now: DateTime<Utc>) -> String {
    let backfill = run.extra.as_ref().and_then(|extra| extra.backfill);
    let unsent = run.fence == 0 && shown_state(run, now) == pb::RunState::Queued;
    match backfill {
        Some(group) if unsent && run.message.is_empty() => format!(
            "waits for its turn: the backfill runs {} at once, and none beside other runs of a job \
             whose overlap policy is not ALLOW",
            group.at_once.max(1)
        ),
        _ => run.message.clone(),
    }
}

/// The state as shown: a QUEUED run that is not due yet is SCHEDULED.
pub fn shown_state(run: &OpenRun, now: DateTime<Utc>) -> pb::RunState {
    match run.state {
        RunState::Queued if run.is_scheduled(now) => pb::RunState::Scheduled,
        RunState::Queued => pb::RunState::Queued,
        RunState::Dispatched => pb::RunState::Dispatched,
        RunState::Running => pb::RunState::Running,
        RunState::Canceling => pb::RunState::Canceling,
        RunState::RetryWait => pb::RunState::RetryWait,
        RunState::Succeeded => pb::RunState::Succeeded,
        RunState::Failed => pb::RunState::Failed,
        RunState::Canceled => pb::RunState::Canceled,
        RunState::TimedOut => pb::RunState::TimedOut,
        RunState::Lost => pb::RunState::Lost,
        RunState::Skipped => pb::RunState::Skipped,
    }
}

fn trigger_to_proto(trigger: TriggerKind) -> pb::run::Trigger {
    match trigger {
        TriggerKind::Schedule => pb::run::Trigger::Schedule,
        TriggerKind::Api => pb::run::Trigger::Api,
        TriggerKind::Rerun => pb::run::Trigger::Rerun,
        TriggerKind::Misfire => pb::run::Trigger::Misfire,
        TriggerKind::Chain => pb::run::Trigger::Chain,
        TriggerKind::Backfill => pb::run::Trigger::Backfill,
    }
}

fn kill_reason_to_proto(reason: KillReason) -> pb::KillReason {
    match reason {
        KillReason::User => pb::KillReason::User,
        KillReason::Timeout => pb::KillReason::Timeout,
        KillReason::StaleAttempt => pb::KillReason::StaleAttempt,
        KillReason::Replaced => pb::KillReason::Replaced,
        KillReason::JobDeleted => pb::KillReason::JobDeleted,
        KillReason::NodePolicy => pb::KillReason::NodePolicy,
    }
}

fn outcome_to_proto(outcome: Outcome) -> pb::Outcome {
    match outcome {
        Outcome::Succeeded => pb::Outcome::Succeeded,
        Outcome::Failed => pb::Outcome::Failed,
        Outcome::Canceled => pb::Outcome::Canceled,
        Outcome::TimedOut => pb::Outcome::TimedOut,
        Outcome::Lost => pb::Outcome::Lost,
    }
}

fn failure_to_proto(failure: &Failure) -> pb::Failure {
    pb::Failure {
        code: failure.code.clone(),
        message: failure.message.clone(),
        r#type: failure.kind.clone(),
        stack: failure.stack.clone(),
        non_retryable: failure.non_retryable,
        retry_after: failure.retry_after.map(time::duration_to_proto),
    }
}

fn attempt_to_proto(attempt: &Attempt, app: &str) -> pb::Attempt {
    let outcome = |outcome: Option<Outcome>| outcome.map_or(0, |o| outcome_to_proto(o) as i32);
    let executor = attempt.executor.as_deref();
    pb::Attempt {
        number: attempt.number,
        executor: executor.map(|id| names::executor(app, id)).unwrap_or_default(),
        session_id: names::session(executor, attempt.session_epoch),
        outcome: outcome(attempt.outcome),
        failure: attempt.failure.as_ref().map(failure_to_proto),
        dispatch_time: attempt.dispatched_at.map(time::instant_to_proto),
        ack_time: attempt.acked_at.map(time::instant_to_proto),
        start_time: attempt.started_at.map(time::instant_to_proto),
        end_time: attempt.ended_at.map(time::instant_to_proto),
        duration: attempt.duration.map(time::duration_to_proto),
        disconnected_since: None,
        log_records: attempt.log_records,
        log_records_dropped: attempt.log_dropped,
        late_outcome: outcome(attempt.late_outcome),
    }
}

/// The model's level of the contract's; unspecified and unknown ones ask for everything.
pub fn log_level(level: i32) -> LogLevel {
    match pb::LogLevel::try_from(level) {
        Ok(pb::LogLevel::Debug) => LogLevel::Debug,
        Ok(pb::LogLevel::Info) => LogLevel::Info,
        Ok(pb::LogLevel::Warn) => LogLevel::Warn,
        Ok(pb::LogLevel::Error) => LogLevel::Error,
        Ok(pb::LogLevel::Unspecified | pb::LogLevel::Trace) | Err(_) => LogLevel::Trace,
    }
}

/// A log record of an attempt as shown.
pub fn log_record_to_proto(record: LogRecord, attempt: u32) -> pb::StoredLogRecord {
    let level = match record.level {
        LogLevel::Trace => pb::LogLevel::Trace,
        LogLevel::Debug => pb::LogLevel::Debug,
        LogLevel::Info => pb::LogLevel::Info,
        LogLevel::Warn => pb::LogLevel::Warn,
        LogLevel::Error => pb::LogLevel::Error,
    };
    pb::StoredLogRecord {
        seq: record.seq,
        record: Some(pb::LogRecord {
            time: Some(time::instant_to_proto(record.time)),
            level: level as i32,
            message: record.message,
            fields: record.fields.into_iter().collect(),
        }),
        attempt,
    }
}
