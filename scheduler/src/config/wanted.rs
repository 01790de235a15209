//! What a key takes, in words for people: found out by trying, so that no key can be left out.

use serde_json::{Value, json};

/// Characters of a bad text that are shown.
const SHOWN_MAX: usize = 40;

/// The fault of a value that a key does not take. `set` tries a value on the key; `is_group` says
/// that the key holds further ones.
pub(super) fn fault(
    set: impl Fn(Value) -> Result<(), String>,
    is_group: bool,
    given: &Value,
) -> String {
    if is_group {
        return format!("must hold keys of its own, not {}", kind(given));
    }
    let takes = |value: Value| set(value).is_ok();
    // What is wrong for a text may be a secret that only looks like a number.
    if takes(json!("a word")) {
        return format!("must be a text (in quotes where it looks otherwise), not {}", kind(given));
    }
    let wanted = if takes(json!("1h")) {
        "a duration such as 90s, 5m or 2h".to_owned()
    } else if takes(json!(true)) {
        "true or false".to_owned()
    } else if takes(json!(1)) {
        number(&takes)
    } else if takes(json!([])) {
        "a list".to_owned()
    } else {
        words(set(json!("?")))
    };
    format!("must be {wanted}, not {}", shown(given))
}

fn number(takes: &impl Fn(Value) -> bool) -> String {
    let least = if takes(json!(-1)) { "" } else { " from 0" };
    let most =
        [u64::from(u16::MAX), u64::from(u32::MAX)].into_iter().find(|max| !takes(json!(max + 1)));
    let most = most.map_or(String::new(), |max| format!(" up to {max}"));
    format!("a whole number{least}{most}")
}

/// The words that a key knows, from what is said of one that it does not know.
fn words(refusal: Result<(), String>) -> String {
    let said = refusal.err().unwrap_or_default();
    let known = said.split_once("expected ").map(|(_, known)| known.replace('`', ""));
    known.unwrap_or_else(|| "another value".to_owned())
}

fn shown(given: &Value) -> String {
    match given {
        Value::String(text) => {
            let cut: String = text.chars().take(SHOWN_MAX).collect();
            let rest = if cut.len() < text.len() { "…" } else { "" };
            format!("{cut:?}{rest}")
        }
        Value::Bool(_) | Value::Number(_) => given.to_string(),
        _ => kind(given).to_owned(),
    }
}

fn kind(given: &Value) -> &'static str {
    match given {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
