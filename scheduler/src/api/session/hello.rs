//! Hello: all faults of it at once, and what the credential allows.

use std::collections::{BTreeMap, HashSet};

use clawjob_proto::{PROTOCOL_MAJOR, v1};

use crate::{
    api::{
        caller::Caller,
        status::{ApiError, ApiResult, Violations},
    },
    hub::{
        settings::{
            COMMAND_SEQ_MAX, HANDLERS_BYTES_MAX, HANDLERS_MAX, LABEL_BYTES_MAX, LABELS_MAX,
            LISTED_ATTEMPTS_MAX, PARAMS_SCHEMA_BYTES_MAX, SLOTS_MAX,
        },
        wire,
    },
    model::{
        executor::{ExecutorSpec, Handler, SdkInfo},
        ids::AttemptRef,
        principal::Role,
    },
};

/// Reason of every fault in Hello.
const HELLO_INVALID: &str = "HELLO_INVALID";
/// Bytes of an instance id or a resume token.
const TOKEN_BYTES_MAX: usize = 256;
/// Bytes of a handler's name.
const HANDLER_BYTES_MAX: usize = 128;
/// Bytes of a name of an app or executor.
const NAME_BYTES_MAX: usize = 63;
/// Bytes of a handler's description.
const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;

/// A Hello that may go on.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) protocol_minor: u32,
    pub(super) features: Vec<String>,
    pub(super) app: String,
    pub(super) executor: String,
    pub(super) instance_id: String,
    pub(super) resume_token: String,
    pub(super) spec: ExecutorSpec,
    pub(super) attempts: Vec<(AttemptRef, bool)>,
    pub(super) last_command_seq: u64,
}

/// Checks the version, then the form, then what the credential allows.
pub(super) fn check(hello: v1::Hello, caller: &Caller) -> ApiResult<Checked> {
    if hello.protocol_major != PROTOCOL_MAJOR {
        let text = format!(
            "protocol {} is not spoken here; use an SDK of protocol {PROTOCOL_MAJOR}",
            hello.protocol_major
        );
        let subject = format!("protocol/{}", hello.protocol_major);
        let version = PROTOCOL_MAJOR.to_string();
        return Err(ApiError::precondition(
            "PROTOCOL_VERSION_UNSUPPORTED",
            "PROTOCOL_VERSION",
            subject,
            text,
        )
        .with("min", version.clone())
        .with("max", version));
    }
    let mut faults = Violations::new();
    check_form(&hello, &mut faults);
    let attempts = attempts(&hello, &mut faults);
    faults.finish()?;
    allowed(&hello, caller)?;
    Ok(Checked {
        protocol_minor: hello.protocol_minor,
        features: hello.features.clone(),
        app: hello.app.clone(),
        executor: hello.executor_id.clone(),
        instance_id: hello.instance_id.clone(),
        resume_token: hello.resume_token.clone(),
        last_command_seq: hello.last_command_seq,
        attempts,
        spec: spec(hello),
    })
}

fn check_form(hello: &v1::Hello, faults: &mut Violations) {
    let mut fault = |field: &str, text: String| faults.add(field, HELLO_INVALID, text);
    if !is_name(&hello.app, false) {
        fault("hello.app", format!("{:?} is no app name; {}", cut(&hello.app), rule(false)));
    }
    if !is_name(&hello.executor_id, true) {
        let text = format!("{:?} is no executor id; {}", cut(&hello.executor_id), rule(true));
        fault("hello.executor_id", text);
    }
    if hello.instance_id.is_empty() || hello.instance_id.len() > TOKEN_BYTES_MAX {
        let text = "must be a random text made at process start, 1 to 256 bytes".to_owned();
        fault("hello.instance_id", text);
    }
    if hello.resume_token.len() > TOKEN_BYTES_MAX {
        fault("hello.resume_token", "must be the one of the last Welcome, or empty".to_owned());
    }
    if hello.slots == 0 || hello.slots > SLOTS_MAX {
        let text = format!("is {}; must be between 1 and {SLOTS_MAX}", hello.slots);
        fault("hello.slots", text);
    }
    if hello.last_command_seq > COMMAND_SEQ_MAX {
        let text = "must be the command_seq of the last command that came, or 0".to_owned();
        fault("hello.last_command_seq", text);
    }
    if hello.labels.len() > LABELS_MAX {
        fault("hello.labels", format!("has {}; at most {LABELS_MAX}", hello.labels.len()));
    }
    for (key, value) in &hello.labels {
        if key.is_empty() || key.len().max(value.len()) > LABEL_BYTES_MAX || has_nul(key, value) {
            let text = format!("key and value must be text of at most {LABEL_BYTES_MAX} bytes");
            fault(&format!("hello.labels[{:?}]", cut(key)), text);
        }
    }
    if hello.handlers.len() > HANDLERS_MAX {
        fault("hello.handlers", format!("has {}; at most {HANDLERS_MAX}", hello.handlers.len()));
    }
    let bytes: usize = hello.handlers.iter().map(bytes_of).sum();
    if bytes > HANDLERS_BYTES_MAX {
        let text = format!(
            "has {bytes} bytes of names, schemas and descriptions; at most \
                            {HANDLERS_BYTES_MAX}"
        );
        fault("hello.handlers", text);
    }
    let mut names = HashSet::new();
    for (index, handler) in hello.handlers.iter().enumerate() {
        let field = format!("hello.handlers[{index}]");
        if !is_handler_name(&handler.name) {
            let text = format!(
                "{:?} is no handler name; use 1 to {HANDLER_BYTES_MAX} visible characters",
                cut(&handler.name)
            );
            fault(&format!("{field}.name"), text);
        } else if !names.insert(handler.name.as_str()) {
            fault(&format!("{field}.name"), format!("{:?} is offered twice", handler.name));
        }
        if handler.params_schema.len() > PARAMS_SCHEMA_BYTES_MAX {
            let text = format!("is longer than {PARAMS_SCHEMA_BYTES_MAX} bytes");
            fault(&format!("{field}.params_schema"), text);
        }
        if handler.description.len() > DESCRIPTION_BYTES_MAX {
            let text = format!("is longer than {DESCRIPTION_BYTES_MAX} bytes");
            fault(&format!("{field}.description"), text);
        }
    }
}

fn bytes_of(handler: &v1::Handler) -> usize {
    handler.name.len() + handler.params_schema.len() + handler.description.len()
}

fn attempts(hello: &v1::Hello, faults: &mut Violations) -> Vec<(AttemptRef, bool)> {
    if hello.attempts.len() > LISTED_ATTEMPTS_MAX {
        let text = format!("has {}; at most {LISTED_ATTEMPTS_MAX}", hello.attempts.len());
        faults.add("hello.attempts", HELLO_INVALID, text);
        return Vec::new();
    }
    let mut attempts = Vec::with_capacity(hello.attempts.len());
    for (index, status) in hello.attempts.iter().enumerate() {
        match wire::attempt_ref(status.r#ref.as_ref()) {
            Some(attempt) => attempts.push((attempt, status.finished)),
            None => {
                let field = format!("hello.attempts[{index}].ref.run_id");
                faults.add(field, HELLO_INVALID, "must be the ULID of a run");
            }
        }
    }
    attempts
}

fn allowed(hello: &v1::Hello, caller: &Caller) -> ApiResult<()> {
    caller.require(Role::Executor, &hello.app)?;
    let Some(token) = caller.token() else {
        return Err(ApiError::denied("executors come with a token, not with a user's sign-in"));
    };
    let fits = |patterns: &[String], text: &str| {
        patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, text))
    };
    if !fits(&token.executor_id_patterns, &hello.executor_id) {
        return Err(ApiError::denied(format!(
            "the token does not allow the executor id {}; it allows {}",
            hello.executor_id,
            token.executor_id_patterns.join(", ")
        )));
    }
    let foreign: Vec<&str> = hello
        .handlers
        .iter()
        .map(|handler| handler.name.as_str())
        .filter(|name| !fits(&token.handler_patterns, name))
        .collect();
    if !foreign.is_empty() {
        return Err(ApiError::denied(format!(
            "the token does not allow the handlers {}; it allows {}",
            cut(&foreign.join(", ")),
            token.handler_patterns.join(", ")
        )));
    }
    Ok(())
}

fn spec(hello: v1::Hello) -> ExecutorSpec {
    let handlers = hello.handlers.into_iter().map(|handler| Handler {
        name: handler.name,
        max_concurrency: handler.max_concurrency,
        params_schema: wire::clean(handler.params_schema, PARAMS_SCHEMA_BYTES_MAX),
        description: wire::clean(handler.description, DESCRIPTION_BYTES_MAX),
    });
    let sdk = hello.sdk.unwrap_or_default();
    let short = |text: String| wire::clean(text, LABEL_BYTES_MAX);
    ExecutorSpec {
        handlers: handlers.collect(),
        labels: hello.labels.into_iter().collect::<BTreeMap<_, _>>(),
        slots: hello.slots,
        sdk: SdkInfo {
            language: short(sdk.language),
            sdk_version: short(sdk.sdk_version),
            runtime_version: short(sdk.runtime_version),
            os: short(sdk.os),
            arch: short(sdk.arch),
            hostname: short(sdk.hostname),
            pid: sdk.pid,
        },
    }
}

/// `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`, for executors with `.` and `_` too.
fn is_name(text: &str, executor: bool) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inner = |c: u8| plain(c) || c == b'-' || (executor && (c == b'.' || c == b'_'));
    let bytes = text.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    bytes.len() <= NAME_BYTES_MAX
        && ends.is_some_and(|(first, last)| plain(*first) && plain(*last))
        && bytes.iter().all(|c| inner(*c))
}

fn rule(executor: bool) -> &'static str {
    if executor {
        "use 1 to 63 of a-z, 0-9, '.', '_' and '-', with a letter or digit at both ends"
    } else {
        "use 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends"
    }
}

fn is_handler_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= HANDLER_BYTES_MAX
        && name.chars().all(|c| !c.is_whitespace() && !c.is_control())
}

fn has_nul(key: &str, value: &str) -> bool {
    key.contains('\0') || value.contains('\0')
}

/// The start of a text, for messages.
fn cut(text: &str) -> &str {
    wire::start(text, 100)
}

/// `*` stands for any text; everything else for itself.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in
            [("*", ""), ("*", "x"), ("a*", "a"), ("a*c", "abc"), ("*b*", "abc"), ("a*b*c", "aXbYc")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*", "b"), ("a*a", "a"), ("a*c", "abd"), ("", "x")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn names_follow_their_patterns() {
        for good in ["a", "0", "a-b", &"x".repeat(63)] {
            assert!(is_name(good, false), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", "a b", "é", &"x".repeat(64)] {
            assert!(!is_name(bad, false), "{bad}");
        }
        assert!(is_name("host-1.example_a", true) && !is_name(".a", true));
    }
}
