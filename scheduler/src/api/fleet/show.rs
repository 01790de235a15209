//! An executor as shown, and whether a filter keeps it.

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_proto::v1::{self as pb, executor::State};

use crate::{
    api::{
        cluster::offset_to_proto,
        convert::{names, time},
    },
    hub::live::{LiveExecutor, LiveState},
    model::executor::{Executor, Handler, SdkInfo},
    store::ops::Condition,
};

/// A session of another node is judged by its row: the node writes a sign of life every 10 s, so
/// one older than this means that something is wrong.
pub(super) const ELSEWHERE_SILENCE_MAX: TimeDelta = TimeDelta::seconds(30);

/// Runs of one executor that are shown with it; `ListRuns` by its name has all.
const RUNNING_SHOWN_MAX: usize = 10_000;

/// The executor as shown: its row, and what the hub knows when its session is on this node.
pub(super) fn to_proto(
    row: &Executor,
    live: Option<&LiveExecutor>,
    now: DateTime<Utc>,
) -> pb::Executor {
    let spec = &row.spec;
    let mut shown = pb::Executor {
        name: names::executor(&row.app_name, &row.name),
        state: state_of(row, live, now).into(),
        cordoned: row.cordoned,
        instance_id: row.instance_id.clone(),
        session_epoch: row.session_epoch,
        node_id: row.node.clone(),
        peer_address: row.peer_address.clone(),
        sdk: Some(sdk_to_proto(&spec.sdk)),
        handlers: spec.handlers.iter().map(handler_to_proto).collect(),
        labels: spec.labels.clone().into_iter().collect(),
        slots: spec.slots,
        connect_time: Some(time::instant_to_proto(row.connected_at)),
        last_heartbeat_time: Some(time::instant_to_proto(row.last_seen_at)),
        ..pb::Executor::default()
    };
    if let Some(live) = live {
        let vitals = &live.vitals;
        let heard = vitals.heartbeat_at.unwrap_or(live.heard_at);
        shown.session_id.clone_from(&live.session_id);
        shown.session_epoch = live.epoch;
        shown.slots = live.slots;
        shown.free_slots = live.free_slots;
        shown.running = running(row, live);
        shown.connect_time = Some(time::instant_to_proto(live.connected_at));
        shown.last_heartbeat_time = Some(time::instant_to_proto(heard));
        shown.clock_offset =
            vitals.clock_offset.and_then(|offset| offset.num_microseconds()).map(offset_to_proto);
        shown.lag = Some(time::duration_to_proto(vitals.lag));
        shown.reconnects_last_hour = live.reconnects_last_hour;
        shown.cpu = vitals.cpu;
        shown.memory = vitals.memory;
        shown.abandoned_handlers = vitals.abandoned;
    }
    shown
}

fn running(row: &Executor, live: &LiveExecutor) -> Vec<String> {
    let shown = live.running.iter().take(RUNNING_SHOWN_MAX);
    shown.map(|attempt| names::run(&row.app_name, attempt.run)).collect()
}

fn state_of(row: &Executor, live: Option<&LiveExecutor>, now: DateTime<Utc>) -> State {
    match live.map(|live| live.state) {
        Some(LiveState::Online) => State::Online,
        Some(LiveState::Suspect) => State::Suspect,
        Some(LiveState::Draining) => State::Draining,
        None if !is_connected(row) => State::Offline,
        None if now - row.last_seen_at > ELSEWHERE_SILENCE_MAX => State::Suspect,
        None => State::Online,
    }
}

/// Whether a session of it is open on some node, as far as its row says.
pub(super) fn is_connected(row: &Executor) -> bool {
    row.disconnected_at.is_none() && !row.node.is_empty()
}

/// A handler as shown.
pub(super) fn handler_to_proto(handler: &Handler) -> pb::Handler {
    pb::Handler {
        name: handler.name.clone(),
        max_concurrency: handler.max_concurrency,
        params_schema: handler.params_schema.clone(),
        description: handler.description.clone(),
    }
}

fn sdk_to_proto(sdk: &SdkInfo) -> pb::SdkInfo {
    pb::SdkInfo {
        language: sdk.language.clone(),
        sdk_version: sdk.sdk_version.clone(),
        runtime_version: sdk.runtime_version.clone(),
        os: sdk.os.clone(),
        arch: sdk.arch.clone(),
        hostname: sdk.hostname.clone(),
        pid: sdk.pid,
    }
}

/// Whether all conditions hold for the executor as shown.
pub(super) fn matches(shown: &pb::Executor, conditions: &[Condition]) -> bool {
    conditions.iter().all(|condition| match condition {
        Condition::OneOf { field, values, negated } => {
            let any = texts(shown, field).iter().any(|text| values.iter().any(|v| v == text));
            any != *negated
        }
        Condition::Contains { field, text, negated } => {
            let part = text.to_lowercase();
            let any = texts(shown, field).iter().any(|text| text.to_lowercase().contains(&part));
            any != *negated
        }
        Condition::Label { key, value, negated } => {
            let found = shown.labels.get(key);
            let holds = found.is_some_and(|found| value.as_ref().is_none_or(|v| v == found));
            holds != *negated
        }
        // The list has no field that is an instant or a run.
        Condition::Time { .. } | Condition::ShardOf(_) => false,
    })
}

fn texts<'a>(shown: &'a pb::Executor, field: &str) -> Vec<&'a str> {
    match field {
        "state" => vec![shown.state().as_str_name().trim_start_matches("STATE_")],
        "cordoned" => vec![if shown.cordoned { "true" } else { "false" }],
        "node_id" => vec![&shown.node_id],
        "handler" => shown.handlers.iter().map(|handler| handler.name.as_str()).collect(),
        "name" => vec![shown.name.rsplit('/').next().unwrap_or(&shown.name)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> pb::Executor {
        pb::Executor {
            name: "apps/a/executors/Web-1".into(),
            state: State::Suspect.into(),
            handlers: vec![
                pb::Handler { name: "mail".into(), ..pb::Handler::default() },
                pb::Handler { name: "bill".into(), ..pb::Handler::default() },
            ],
            labels: [("zone".to_owned(), "b".to_owned())].into(),
            ..pb::Executor::default()
        }
    }

    fn one_of(field: &'static str, value: &str, negated: bool) -> Condition {
        Condition::OneOf { field, values: vec![value.to_owned()], negated }
    }

    fn label(key: &str, value: Option<&str>, negated: bool) -> Condition {
        Condition::Label { key: key.into(), value: value.map(str::to_owned), negated }
    }

    #[test]
    fn conditions_look_at_the_executor_as_shown() {
        for (condition, expected) in [
            (one_of("state", "SUSPECT", false), true),
            (one_of("state", "ONLINE", false), false),
            (one_of("state", "ONLINE", true), true),
            (one_of("cordoned", "false", false), true),
            (one_of("handler", "bill", false), true),
            (one_of("handler", "bill", true), false),
            (one_of("handler", "other", false), false),
            (one_of("name", "Web-1", false), true),
            (label("zone", Some("b"), false), true),
            (label("zone", Some("c"), false), false),
            (label("zone", None, false), true),
            (label("zone", None, true), false),
            (label("rack", None, false), false),
            (Condition::Contains { field: "name", text: "wEb".into(), negated: false }, true),
        ] {
            assert_eq!(
                matches(&shown(), std::slice::from_ref(&condition)),
                expected,
                "{condition:?}"
            );
        }
    }
}
