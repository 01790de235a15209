//! Specs as they are stored, and those that are in use: equal ones are one in memory and are read once.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::{Result, StoreError};
use crate::model::{
    job::JobSpec,
    schedule::Schedule,
    shared::{Fingerprint, Fingerprints, Shared},
};

/// Parts of a spec that are read without some of their own.
const PARTS: [&str; 2] = ["placement", "retry"];

/// What is left out of a stored spec, and of each of its schedules.
static LEFT_OUT: LazyLock<(Value, Value)> = LazyLock::new(|| {
    let of = |value: serde_json::Result<Value>| value.unwrap_or_default();
    (of(serde_json::to_value(JobSpec::default())), of(serde_json::to_value(Schedule::default())))
});

/// The text that is stored for a spec: what is as it is by default is left out, which is most. Of very
/// many jobs this is what a database holds, and what is read when a scheduler starts.
///
/// # Errors
/// `Internal` if it can't be said.
pub(super) fn write(spec: &JobSpec) -> Result<String> {
    let whole = serde_json::to_value(spec)
        .map_err(|fault| StoreError::Internal(format!("a spec can't be stored: {fault}")))?;
    let Value::Object(mut spec) = whole else { return Ok(whole.to_string()) };
    let (default, schedule) = &*LEFT_OUT;
    for part in PARTS {
        if let Some(Value::Object(part_of_it)) = spec.get_mut(part) {
            leave_out(part_of_it, &default[part]);
        }
    }
    for one in spec.get_mut("schedules").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(one) = one {
            leave_out(one, schedule);
        }
    }
    spec.retain(|_, value| value.as_object().is_none_or(|part| !part.is_empty()));
    leave_out(&mut spec, default);
    Ok(Value::Object(spec).to_string())
}

fn leave_out(of: &mut Map<String, Value>, default: &Value) {
    of.retain(|key, value| default.get(key.as_str()) != Some(value));
}

/// The specs of jobs that owners hold, by their stored text.
#[derive(Default)]
pub(super) struct SharedSpecs {
    fingerprints: Fingerprints,
    known: Mutex<Shared<Fingerprint, JobSpec>>,
}

impl SharedSpecs {
    /// The spec of a stored text: the one that is in use, if there is one.
    pub(super) fn read(&self, text: &str) -> serde_json::Result<Arc<JobSpec>> {
        let key = self.fingerprints.of(text);
        let mut known = self.known.lock();
        if let Some(spec) = known.get(&key) {
            return Ok(spec);
        }
        let mut spec: JobSpec = serde_json::from_str(text)?;
        spec.trim();
        Ok(known.put(key, spec))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{job::Placement, retry::RetryPolicy, schedule::Trigger};

    /// What a stored spec leaves out means this for ever: a default that changes would change jobs.
    const DEFAULT: &str = r#"{
        "display_name": "", "description": "", "schedules": [], "handler": "", "params": null,
        "placement": {"required_labels": {}, "shard_total": 0, "broadcast": false,
            "route": "ROUND_ROBIN", "route_key": "", "busy_threshold": 0.0},
        "retry": {"max_attempts": 1, "initial_backoff": {"secs": 1, "nanos": 0}, "multiplier": 2.0,
            "max_backoff": {"secs": 300, "nanos": 0}, "non_retryable_codes": [], "jitter": 0.2,
            "max_lost": 3},
        "timeout": null, "kill_grace": null, "overlap": "SKIP", "misfire": "FIRE_ONCE",
        "misfire_threshold": null, "misfire_max": 0, "misfire_window": null,
        "disconnect_policy": "CONTINUE", "lost_policy": "RETRY", "lost_after": null, "priority": 0,
        "labels": {}, "max_concurrency": 0, "max_queued": 0, "queue_timeout": null,
        "on_success": [], "on_failure": [], "owner": "", "run_retention": null
    }"#;
    const DEFAULT_SCHEDULE: &str = r#"{
        "trigger": "None", "time_zone": "", "start_at": null, "end_at": null,
        "spread": {"secs": 0, "nanos": 0}, "excluded_dates": [], "include_calendars": [],
        "exclude_calendars": []
    }"#;

    fn read(text: &str) -> JobSpec {
        serde_json::from_str(text).expect("a spec")
    }

    #[test]
    fn what_is_left_out_is_what_it_always_was() {
        assert_eq!(write(&JobSpec::default()).expect("text"), "{}");
        let one = JobSpec { schedules: vec![Schedule::default()], ..JobSpec::default() };
        assert_eq!(write(&one).expect("text"), r#"{"schedules":[{}]}"#);
        let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let said = serde_json::to_value(JobSpec::default()).expect("JSON");
        assert_eq!(serde_json::from_value::<JobSpec>(parse(DEFAULT)).expect("a spec"), read("{}"));
        let keys = |value: &Value| {
            let parts = PARTS.iter().filter_map(|part| value[part].as_object());
            let all = value.as_object().into_iter().chain(parts);
            all.flat_map(|part| part.keys().cloned()).collect::<Vec<_>>()
        };
        assert_eq!(keys(&said), keys(&parse(DEFAULT)), "none is missing above");
        let said = serde_json::to_value(Schedule::default()).expect("JSON");
        assert_eq!(said, parse(DEFAULT_SCHEDULE));
    }

    #[test]
    fn what_is_given_is_stored_and_read_again() {
        let schedule = Schedule {
            trigger: Trigger::Interval(Duration::from_millis(1_500)),
            time_zone: "Europe/Berlin".to_owned(),
            spread: Duration::from_secs(3),
            ..Schedule::default()
        };
        let retry = RetryPolicy {
            max_attempts: 4,
            max_backoff: Duration::from_secs(60),
            jitter: 0.3,
            ..RetryPolicy::default()
        };
        let spec = JobSpec {
            handler: "mail".to_owned(),
            owner: "ops".to_owned(),
            schedules: vec![schedule, Schedule::default()],
            retry,
            placement: Placement { shard_total: 4, ..Placement::default() },
            timeout: Some(Duration::ZERO),
            labels: [("team".to_owned(), String::new())].into(),
            ..JobSpec::default()
        };
        let text = write(&spec).expect("text");
        assert_eq!(read(&text), spec);
        assert!(!text.contains("misfire") && !text.contains("multiplier"), "{text}");
        assert!(text.len() < 400, "{} bytes: {text}", text.len());
    }

    fn text(handler: usize) -> String {
        format!(r#"{{"handler": "h-{handler}", "schedules": [{{}}]}}"#)
    }

    #[test]
    fn equal_texts_are_one_spec_as_long_as_it_is_in_use() {
        let shared = SharedSpecs::default();
        let one = shared.read(&text(1)).expect("a spec");
        let other = shared.read(&text(2)).expect("a spec");
        assert!(Arc::ptr_eq(&one, &shared.read(&text(1)).expect("a spec")));
        assert_eq!([&*one.handler, &*other.handler], ["h-1", "h-2"]);
        assert!(shared.read("{").is_err());
        drop(other);
        assert_eq!(shared.read(&text(2)).expect("a spec").handler, "h-2");
    }

    #[test]
    fn a_spec_keeps_no_room_for_schedules_that_it_does_not_have() {
        let spec = SharedSpecs::default().read(&text(1)).expect("a spec");
        assert_eq!(spec.schedules.capacity(), 1);
    }
}
