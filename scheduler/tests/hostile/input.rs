//! Inputs: messages of the contract filled with odd values, and texts near to right ones.

use clawjob_proto::json::pool;
use proptest::{prelude::*, sample::select};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};
use serde_json::{Map, Value, json};

use crate::stage::{STAGE, WELL_KNOWN};

/// Messages within messages that are filled.
const DEPTH: u32 = 3;

/// Texts that mean something somewhere.
const WORDS: [&str; 34] = [
    "",
    "-",
    "*",
    "%",
    "_",
    ".",
    "/",
    "..",
    "apps/",
    "apps/-",
    "apps/*",
    "apps/mine",
    "apps/secret",
    "apps/mine/jobs/known",
    "apps/mine/jobs/",
    "apps/secret/jobs/known",
    "apps/mine/../secret/jobs/known",
    "apps/mine%2F..%2Fsecret",
    "apps/mine/runs/0",
    "apps/mine/runs/7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
    "apps/mine/executors/e",
    "mine",
    "secret",
    "tokens/x",
    "known",
    "h",
    "'; DROP TABLE job; --",
    "\" OR \"1\"=\"1",
    "\u{0}",
    "\u{202e}x",
    "0 9 * * *",
    "* * * * * ? 2099",
    "2026-11-29T20:00:00Z",
    "-0.0s",
];

/// Any text, most of them near to one that means something.
pub(crate) fn text() -> BoxedStrategy<String> {
    let hidden: Vec<String> = STAGE.hidden.clone();
    prop_oneof![
        6 => select(&WORDS[..]).prop_map(str::to_owned),
        2 => select(hidden),
        2 => "\\PC{0,24}",
        1 => "(?s).{0,12}",
        1 => (select(&WORDS[..]), "\\PC{0,4}").prop_map(|(word, rest)| format!("{word}{rest}")),
        1 => (1..6000_usize).prop_map(|len| "x".repeat(len)),
    ]
    .boxed()
}

fn number() -> BoxedStrategy<Value> {
    prop_oneof![
        select(&[0_i64, 1, -1, 50, 1000, 65_536, i64::MAX, i64::MIN][..]).prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(|n| Value::from(n.to_string())),
    ]
    .boxed()
}

/// A value of no type that was asked for.
fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .boxed()
}

fn single(field: &FieldDescriptor, depth: u32) -> BoxedStrategy<Value> {
    match field.kind() {
        Kind::String => text().prop_map(Value::from).boxed(),
        Kind::Bytes => prop_oneof![
            Just(json!("InBsYWluIg==")),
            Just(json!("eyJhIjp7ImEiOnt9fX0=")),
            text().prop_map(Value::from)
        ]
        .boxed(),
        Kind::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Kind::Enum(kind) => {
            let names: Vec<Value> = kind.values().map(|value| Value::from(value.name())).collect();
            prop_oneof![4 => select(names), 1 => number()].boxed()
        }
        Kind::Message(inner) => match WELL_KNOWN.get(inner.full_name()) {
            Some(known) => prop_oneof![
                3 => Just(known.clone()),
                1 => text().prop_map(Value::from),
                1 => "-?[0-9]{1,12}(\\.[0-9]{1,12})?s".prop_map(Value::from),
                1 => "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]Z"
                    .prop_map(Value::from),
            ]
            .boxed(),
            None if depth == 0 => Just(json!({})).boxed(),
            None => message(&inner, depth - 1),
        },
        _ => number(),
    }
}

fn field_value(field: &FieldDescriptor, depth: u32) -> BoxedStrategy<Value> {
    let shape = if field.is_map() {
        let Kind::Message(entry) = field.kind() else { return anything() };
        let of = single(&entry.map_entry_value_field(), depth);
        prop::collection::btree_map(text(), of, 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
            .boxed()
    } else if field.is_list() {
        prop::collection::vec(single(field, depth), 0..4).prop_map(Value::from).boxed()
    } else {
        single(field, depth)
    };
    prop_oneof![12 => shape, 1 => anything()].boxed()
}

/// A message in JSON: some of its fields, most with a value of the right type.
pub(crate) fn message(of: &MessageDescriptor, depth: u32) -> BoxedStrategy<Value> {
    let mut all: BoxedStrategy<Map<String, Value>> = Just(Map::new()).boxed();
    for field in of.fields() {
        let name = field.json_name().to_owned();
        let value = prop::option::weighted(0.4, field_value(&field, depth));
        all = (all, value)
            .prop_map(move |(mut map, value)| {
                map.extend(value.map(|value| (name.clone(), value)));
                map
            })
            .boxed();
    }
    all.prop_map(Value::Object).boxed()
}

/// Every method that can be called as JSON, as `Service/Method`.
pub(crate) fn methods() -> Vec<(String, MethodDescriptor)> {
    let services = pool().services().filter(|service| service.name() != "ExecutorService");
    services
        .flat_map(|service| {
            let named = |m: MethodDescriptor| (format!("{}/{}", service.name(), m.name()), m);
            service.methods().map(named).collect::<Vec<_>>()
        })
        .collect()
}

/// A request of the contract, in JSON.
pub(crate) fn request(of: &MessageDescriptor) -> BoxedStrategy<Value> {
    message(of, DEPTH)
}

/// Bytes that are not quite the given ones.
pub(crate) fn spoil(bytes: &[u8], by: &[(usize, u8, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, how, with) in by {
        let at = if bytes.is_empty() { 0 } else { at % bytes.len() };
        match how % 4 {
            0 if !bytes.is_empty() => bytes[at] = *with,
            1 => bytes.insert(at, *with),
            2 if !bytes.is_empty() => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// How to spoil some bytes.
pub(crate) fn faults() -> BoxedStrategy<Vec<(usize, u8, u8)>> {
    prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 0..4).boxed()
}
