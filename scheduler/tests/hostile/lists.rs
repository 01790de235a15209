//! Filters, orders, page tokens and parents of lists: what comes back is the caller's own.

use clawjob_scheduler::{
    api::{filter, status::Violations},
    store::ops::Condition,
};
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use crate::{
    fuzz::fuzz,
    input::{faults, spoil, text},
    stage::{STAGE, corpus},
};

const LISTS: [&str; 6] = [
    "RunService/ListRuns",
    "JobService/ListJobs",
    "FleetService/ListExecutors",
    "FleetService/ListHandlers",
    "ClusterService/ListApps",
    "IdentityService/ListTokens",
];

/// Pieces of filters; many in a row make one that is nearly right.
const PIECES: [&str; 40] = [
    "state",
    "job",
    "trigger",
    "executor",
    "create_time",
    "fire_time",
    "labels.of",
    "labels",
    "labels.",
    "handler",
    "owner",
    "name",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    ":",
    "AND",
    "OR",
    "NOT",
    "-",
    "(",
    ")",
    "RUNNING",
    "FAILED",
    "SUCCEEDED",
    "SCHEDULED",
    "ACTIVE",
    "*",
    "\"",
    "\\",
    "''",
    "\"2026-01-31T09:00:00Z\"",
    "\"apps/mine/jobs/known\"",
    "\"apps/secret/jobs/known\"",
    "%",
    "TRUE",
    ",",
];

fn filters() -> BoxedStrategy<String> {
    let piece = prop_oneof![8 => select(&PIECES[..]).prop_map(str::to_owned), 1 => text()];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.join(" ")).boxed()
}

fn nested() -> BoxedStrategy<String> {
    (0..3000_usize, select(&["(", "NOT ", "-", "state = FAILED OR "][..]))
        .prop_map(|(times, part)| format!("{}state = FAILED", part.repeat(times)))
        .boxed()
}

#[test]
fn a_filter_is_conditions_or_one_fault_that_says_what_would_be_right() {
    let read = |text: &str| {
        for fields in [&filter::RUN_FIELDS, &filter::JOB_FIELDS, &filter::EXECUTOR_FIELDS] {
            let mut bad = Violations::new();
            let filter = filter::parse(text, fields, &mut bad);
            match bad.finish() {
                Err(error) => assert!(error.message().len() > "filter: ".len(), "{text:?}"),
                Ok(()) => assert!(filter.conditions.iter().all(is_plain), "{text:?}"),
            }
        }
    };
    corpus("filter").iter().for_each(|kept| read(kept["text"].as_str().expect("a text")));
    fuzz("tests/data/fuzz/filters.txt", 4000, |config| {
        proptest!(config, |(text in prop_oneof![8 => filters(), 1 => nested(), 2 => text()])| {
            read(&text);
        });
    });
}

/// A condition that holds any values is no empty one.
fn is_plain(condition: &Condition) -> bool {
    match condition {
        Condition::OneOf { values, .. } => !values.is_empty(),
        Condition::Time { from, until, .. } => from.is_some() || until.is_some(),
        Condition::Label { .. } | Condition::Contains { .. } | Condition::ShardOf(_) => true,
    }
}

fn list(path: &str, body: &Value) -> Result<Value, TestCaseError> {
    let (status, said) = STAGE.post(path, body.to_string().into_bytes());
    prop_assert!(status < 500, "{path} {body}: {status} {said}");
    STAGE.check(&(path, body), &said);
    let answer = serde_json::from_str(&said).unwrap_or(Value::Null);
    prop_assert!(
        status != 200 || !names_secret(&answer),
        "{path} {body} shows what is not the caller's: {said}"
    );
    Ok(answer)
}

/// Whether something of the other app is named. Texts that callers write may hold anything.
fn names_secret(answer: &Value) -> bool {
    match answer {
        Value::Array(all) => all.iter().any(names_secret),
        Value::Object(fields) => fields.iter().any(|(field, value)| match value {
            Value::String(name) => {
                ["name", "job", "parent"].contains(&field.as_str())
                    && name.starts_with("apps/secret")
            }
            value => names_secret(value),
        }),
        _ => false,
    }
}

#[test]
fn a_list_shows_the_callers_own_whatever_it_is_asked() {
    for kept in corpus("list") {
        list(kept["path"].as_str().expect("a path"), &kept["body"]).expect("a kept input");
    }
    fuzz("tests/data/fuzz/lists.txt", 1200, |config| {
        let parents = prop_oneof![
            4 => Just("apps/-".to_owned()),
            4 => Just("apps/mine".to_owned()),
            1 => Just("apps/secret".to_owned()),
            1 => text()
        ];
        let orders = prop_oneof![
            4 => Just(String::new()),
            2 => Just("create_time".to_owned()),
            1 => Just("name desc".to_owned()),
            2 => text()
        ];
        let views = select(&["RUN_VIEW_BASIC", "RUN_VIEW_FULL"][..]);
        proptest!(config, |(
            path in select(&LISTS[..]), parent in parents, filter in filters(), order in orders,
            size in -2..3_i32, view in views, by in faults(), own_token in any::<bool>(),
            random in text(),
        )| {
            let mut body = json!({ "pageSize": size });
            match path {
                "ClusterService/ListApps" | "IdentityService/ListTokens" => {}
                "FleetService/ListHandlers" => body["parent"] = parent.into(),
                "FleetService/ListExecutors" => {
                    body["parent"] = parent.into();
                    body["filter"] = filter.into();
                }
                _ => {
                    body["parent"] = parent.into();
                    body["filter"] = filter.into();
                    body["orderBy"] = order.into();
                }
            }
            if path == "RunService/ListRuns" {
                body["view"] = view.into();
            }
            let first = list(path, &body)?;
            let next = first["nextPageToken"].as_str().unwrap_or_default();
            let token = match own_token {
                true => String::from_utf8_lossy(&spoil(next.as_bytes(), &by)).into_owned(),
                false => random,
            };
            body["pageToken"] = token.into();
            list(path, &body)?;
        });
    });
}

#[test]
fn a_page_token_of_one_list_opens_no_other() {
    let page = json!({ "parent": "apps/mine", "pageSize": 1 });
    for name in ["known", "other"] {
        let made = json!({ "parent": "apps/mine", "jobId": name, "job": { "handler": "h" } });
        STAGE.post("JobService/CreateJob", made.to_string().into_bytes());
    }
    let first = list("JobService/ListJobs", &page).expect("a page");
    let token = first["nextPageToken"].as_str().expect("there is more").to_owned();
    for (path, other) in [
        ("RunService/ListRuns", json!({ "parent": "apps/mine" })),
        ("JobService/ListJobs", json!({ "parent": "apps/-" })),
        ("JobService/ListJobs", json!({ "parent": "apps/mine", "filter": "state = ACTIVE" })),
        ("FleetService/ListExecutors", json!({ "parent": "apps/mine" })),
    ] {
        let mut other = other;
        other["pageToken"] = token.clone().into();
        let answer = list(path, &other).expect("an answer");
        assert_eq!(answer["code"], "invalid_argument", "{path} {other}: {answer}");
    }
}
