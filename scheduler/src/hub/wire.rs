//! Frames to values and back: what executors say is cut to the limits and made valid text here.

use std::{ops::RangeInclusive, time::Duration};

use chrono::{DateTime, Utc};
use clawjob_proto::v1;

use super::{event::AttemptResult, settings::HubSettings};
use crate::model::{
    Payload,
    ids::{AttemptRef, RunId},
    log::{LogLevel, LogRecord},
    run::{Failure, KillReason, Outcome},
};

/// First second of year 1 and last of year 9999: what the contract's Timestamp can say.
pub const TIMESTAMP_SECONDS: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// Bytes of a failure's code and type.
const CODE_BYTES_MAX: usize = 128;
/// Bytes of a progress message.
const PROGRESS_MESSAGE_BYTES_MAX: usize = 1024;
/// Bytes of one log record's message.
const LOG_MESSAGE_BYTES_MAX: usize = 32 * 1024;
/// Fields of one log record, and bytes of a key or value.
const LOG_FIELDS_MAX: usize = 32;
const LOG_FIELD_BYTES_MAX: usize = 1024;
/// Longest wait a handler may ask for before its next attempt.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// Stands where text was cut.
const CUT_MARK: &str = " … ";

/// The attempt a frame names; None when its id is no ULID.
pub fn attempt_ref(wire: Option<&v1::AttemptRef>) -> Option<AttemptRef> {
    let wire = wire?;
    let run: RunId = wire.run_id.parse().ok()?;
    Some(AttemptRef { run, attempt: wire.attempt, fence: wire.fence })
}

/// The attempt as frames name it.
pub fn to_ref(attempt: AttemptRef) -> v1::AttemptRef {
    v1::AttemptRef {
        run_id: attempt.run.to_string(),
        attempt: attempt.attempt,
        fence: attempt.fence,
    }
}

/// A duration for the wire.
pub fn to_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: duration.subsec_nanos().cast_signed(),
    }
}

/// A duration from the wire; a negative one is none.
pub fn duration(wire: Option<&prost_types::Duration>) -> Option<Duration> {
    let wire = wire?;
    let seconds = u64::try_from(wire.seconds).ok()?;
    let nanos = u32::try_from(wire.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

/// An instant for the wire.
pub fn to_timestamp(at: DateTime<Utc>) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: at.timestamp(),
        nanos: at.timestamp_subsec_nanos().min(999_999_999).cast_signed(),
    }
}

/// An instant from the wire, in whole microseconds; one out of range is none, since not every store
/// has it.
pub fn timestamp(wire: Option<&prost_types::Timestamp>) -> Option<DateTime<Utc>> {
    let wire = wire.filter(|wire| TIMESTAMP_SECONDS.contains(&wire.seconds))?;
    DateTime::from_timestamp_micros(wire.seconds * 1_000_000 + i64::from(wire.nanos / 1_000))
}

/// A kill's reason for the wire.
pub fn to_kill_reason(reason: KillReason) -> v1::KillReason {
    match reason {
        KillReason::User => v1::KillReason::User,
        KillReason::Timeout => v1::KillReason::Timeout,
        KillReason::StaleAttempt => v1::KillReason::StaleAttempt,
        KillReason::Replaced => v1::KillReason::Replaced,
        KillReason::JobDeleted => v1::KillReason::JobDeleted,
        KillReason::NodePolicy => v1::KillReason::NodePolicy,
    }
}

/// Text that every store and terminal can take: without NUL, at most `max` bytes, with a mark at
/// the place where it was cut.
pub fn clean(text: String, max: usize) -> String {
    let text = if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text };
    if text.len() <= max {
        return text;
    }
    let keep = max.saturating_sub(CUT_MARK.len());
    let (head, tail) = (keep - keep / 3, keep / 3);
    let tail = text.len() - tail;
    let tail = (tail..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    format!("{}{CUT_MARK}{}", start(&text, head), &text[tail..])
}

/// The start of a text: whole characters in at most `max` bytes.
pub fn start(text: &str, max: usize) -> &str {
    let end = max.min(text.len());
    let end = (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// A failure, cut and clean.
pub fn failure(wire: v1::Failure, settings: &HubSettings) -> Failure {
    let long = settings.max_stack_bytes as usize;
    Failure {
        code: clean(wire.code, CODE_BYTES_MAX),
        message: clean(wire.message, long),
        kind: clean(wire.r#type, CODE_BYTES_MAX),
        stack: clean(wire.stack, long),
        non_retryable: wire.non_retryable,
        retry_after: duration(wire.retry_after.as_ref()).map(|wait| wait.min(RETRY_AFTER_MAX)),
    }
}

/// A payload of at most `max` bytes and whether it had to be cut.
pub fn payload(wire: v1::Payload, max: u32) -> (Payload, bool) {
    let max = max as usize;
    let cut = wire.data.len() > max;
    let data = if cut { wire.data.slice(..max) } else { wire.data };
    (Payload { content_type: clean(wire.content_type, CODE_BYTES_MAX), data }, cut)
}

/// What a RunResult says.
pub fn result(wire: v1::RunResult, settings: &HubSettings) -> AttemptResult {
    let outcome = match v1::Outcome::try_from(wire.outcome) {
        Ok(v1::Outcome::Succeeded) => Outcome::Succeeded,
        Ok(v1::Outcome::Canceled) => Outcome::Canceled,
        Ok(v1::Outcome::TimedOut) => Outcome::TimedOut,
        _ => Outcome::Failed,
    };
    let output = wire.output.map(|output| payload(output, settings.max_output_bytes));
    AttemptResult {
        outcome,
        output_truncated: wire.output_truncated || output.as_ref().is_some_and(|(_, cut)| *cut),
        output: output.map(|(output, _)| output),
        failure: wire.failure.map(|wire| failure(wire, settings)),
        started_at: timestamp(wire.start_time.as_ref()),
        duration: duration(wire.duration.as_ref()),
        last_log_seq: wire.last_log_seq,
    }
}

/// The words and the checkpoint of a Progress; a checkpoint over the limit is left out, since half
/// of one is of no use.
pub fn progress(
    wire: v1::Progress,
    settings: &HubSettings,
) -> (Option<f32>, String, Option<Payload>) {
    let fraction = wire.fraction.filter(|f| f.is_finite()).map(|f| f.clamp(0.0, 1.0));
    let checkpoint = wire
        .checkpoint
        .filter(|checkpoint| checkpoint.data.len() <= settings.max_checkpoint_bytes as usize)
        .map(|checkpoint| payload(checkpoint, settings.max_checkpoint_bytes).0);
    (fraction, clean(wire.message, PROGRESS_MESSAGE_BYTES_MAX), checkpoint)
}

/// The records of a LogChunk, numbered from `first_seq`. A record without a time gets `now`.
pub fn log_records(
    first_seq: u64,
    records: Vec<v1::LogRecord>,
    now: DateTime<Utc>,
) -> Vec<LogRecord> {
    let first = first_seq.max(1);
    records.into_iter().zip(first..).map(|(record, seq)| log_record(record, seq, now)).collect()
}

fn log_record(wire: v1::LogRecord, seq: u64, now: DateTime<Utc>) -> LogRecord {
    let level = match v1::LogLevel::try_from(wire.level) {
        Ok(v1::LogLevel::Trace) => LogLevel::Trace,
        Ok(v1::LogLevel::Debug) => LogLevel::Debug,
        Ok(v1::LogLevel::Warn) => LogLevel::Warn,
        Ok(v1::LogLevel::Error) => LogLevel::Error,
        _ => LogLevel::Info,
    };
    let fields = wire.fields.into_iter().take(LOG_FIELDS_MAX);
    LogRecord {
        seq,
        time: timestamp(wire.time.as_ref()).unwrap_or(now),
        level,
        message: clean(wire.message, LOG_MESSAGE_BYTES_MAX),
        fields: fields
            .map(|(k, v)| (clean(k, LOG_FIELD_BYTES_MAX), clean(v, LOG_FIELD_BYTES_MAX)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_that_not_every_store_has_is_none() {
        let (first, last) = (*TIMESTAMP_SECONDS.start(), *TIMESTAMP_SECONDS.end());
        let read = |seconds| timestamp(Some(&prost_types::Timestamp { seconds, nanos: 1_999 }));
        for seconds in [i64::MIN, first - 1, last + 1, i64::MAX] {
            assert_eq!(read(seconds), None, "{seconds}");
        }
        assert_eq!(read(first).map(|at| at.timestamp_subsec_micros()), Some(1));
        assert_eq!(read(last).map(|at| at.timestamp()), Some(last));
    }

    #[test]
    fn x48_text_is_cut_in_the_middle_at_a_character_and_keeps_both_ends() {
        let text = format!("begin{}end", "é".repeat(1_000));
        let cut = clean(text, 101);
        assert!(cut.len() <= 101, "{}", cut.len());
        assert!(cut.starts_with("begin") && cut.ends_with("end") && cut.contains(CUT_MARK));
    }

    #[test]
    fn r49_nul_is_replaced_and_other_unicode_stays() {
        assert_eq!(clean("a\0b\u{1F980}\u{202E}".into(), 100), "a\u{FFFD}b\u{1F980}\u{202E}");
    }

    #[test]
    fn an_output_over_the_limit_is_cut_and_marked() {
        let settings = HubSettings { max_output_bytes: 4, ..HubSettings::default() };
        let wire = v1::RunResult {
            outcome: v1::Outcome::Succeeded.into(),
            output: Some(v1::Payload { content_type: "text/plain".into(), data: "123456".into() }),
            ..v1::RunResult::default()
        };
        let result = result(wire, &settings);
        assert!(result.output_truncated);
        assert_eq!(result.output.map(|output| output.data), Some("1234".into()));
    }

    #[test]
    fn an_unknown_outcome_counts_as_failed_and_lost_is_not_the_executors_to_say() {
        let settings = HubSettings::default();
        for outcome in [99, i32::from(v1::Outcome::Lost), 0] {
            let wire = v1::RunResult { outcome, ..v1::RunResult::default() };
            assert_eq!(result(wire, &settings).outcome, Outcome::Failed);
        }
    }

    #[test]
    fn times_out_of_range_are_none_instead_of_a_panic() {
        let far = prost_types::Timestamp { seconds: i64::MAX, nanos: i32::MAX };
        assert_eq!(timestamp(Some(&far)), None);
        let negative = prost_types::Duration { seconds: -1, nanos: 0 };
        assert_eq!(duration(Some(&negative)), None);
    }
}
