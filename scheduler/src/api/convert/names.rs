//! Resource names: `apps/{app}/jobs/{job}` and its like, with the exact rule of each id.

use clawjob_proto::v1 as pb;

use crate::{
    api::status::Violations,
    model::{alarm::AlarmId, ids::RunId},
};

/// Longest id of an app or a job.
pub const ID_MAX: usize = 63;
/// Longest id of an executor.
pub const EXECUTOR_ID_MAX: usize = 128;
/// The rule of app and job ids, as messages tell it.
pub const ID_RULE: &str = "1 to 63 characters of a-z, 0-9, '.', '_' and '-', the first and the \
                           last a letter or digit";
/// The rule of executor ids, as messages tell it.
pub const EXECUTOR_ID_RULE: &str =
    "1 to 128 characters of a-z, A-Z, 0-9, '.', '_' and '-', the first a letter or digit";

/// Whether the text keeps [`ID_RULE`].
pub fn is_id(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: u8| edge(&byte) || matches!(byte, b'.' | b'_' | b'-');
    let bytes = text.as_bytes();
    (1..=ID_MAX).contains(&bytes.len())
        && bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().copied().all(inner)
}

/// Whether the text keeps [`EXECUTOR_ID_RULE`].
pub fn is_executor_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=EXECUTOR_ID_MAX).contains(&bytes.len())
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// What a list or watch is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// One app.
    App(String),
    /// All that the caller may see: `apps/-`.
    All,
}

/// `apps/{app}/jobs/{job}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobName {
    /// App id.
    pub app: String,
    /// Job id.
    pub job: String,
}

/// `apps/{app}/runs/{ulid}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunName {
    /// App id.
    pub app: String,
    /// Run id.
    pub run: RunId,
}

/// The name of an app.
pub fn app(app: &str) -> String {
    format!("apps/{app}")
}

/// The name of a job.
pub fn job(app: &str, job: &str) -> String {
    format!("apps/{app}/jobs/{job}")
}

/// The name of a run.
pub fn run(app: &str, run: RunId) -> String {
    format!("apps/{app}/runs/{run}")
}

/// The name of a calendar.
pub fn calendar(app: &str, calendar: &str) -> String {
    format!("apps/{app}/calendars/{calendar}")
}

/// The name of an executor.
pub fn executor(app: &str, executor: &str) -> String {
    format!("apps/{app}/executors/{executor}")
}

/// The name of an alarm rule.
pub fn alarm_rule(app: &str, rule: &str) -> String {
    format!("apps/{app}/alarmRules/{rule}")
}

/// The name of an alarm.
pub fn alarm(app: &str, alarm: AlarmId) -> String {
    format!("apps/{app}/alarms/{alarm}")
}

/// Reads `apps/{app}`.
pub fn parse_app(field: &str, text: &str, bad: &mut Violations) -> Option<String> {
    match text.strip_prefix("apps/") {
        Some(app) if is_id(app) => Some(app.to_owned()),
        Some(app) if !app.contains('/') => bad_id(field, "app", app, bad),
        _ => bad_form(field, text, "apps/{app}", bad),
    }
}

/// Reads `apps/{app}` or `apps/-`.
pub fn parse_parent(field: &str, text: &str, bad: &mut Violations) -> Option<Parent> {
    if text == "apps/-" {
        return Some(Parent::All);
    }
    parse_app(field, text, bad).map(Parent::App)
}

/// Reads `apps/{app}/jobs/{job}`.
pub fn parse_job(field: &str, text: &str, bad: &mut Violations) -> Option<JobName> {
    let Some((app, job)) = split(text, "jobs") else {
        return bad_form(field, text, "apps/{app}/jobs/{job}", bad);
    };
    if !is_id(app) {
        return bad_id(field, "app", app, bad);
    }
    if !is_id(job) {
        return bad_id(field, "job", job, bad);
    }
    Some(JobName { app: app.to_owned(), job: job.to_owned() })
}

/// Reads `apps/{app}/calendars/{calendar}` into both ids.
pub fn parse_calendar(field: &str, text: &str, bad: &mut Violations) -> Option<(String, String)> {
    let Some((app, calendar)) = split(text, "calendars") else {
        return bad_form(field, text, "apps/{app}/calendars/{calendar}", bad);
    };
    if !is_id(app) {
        return bad_id(field, "app", app, bad);
    }
    if !is_id(calendar) {
        return bad_id(field, "calendar", calendar, bad);
    }
    Some((app.to_owned(), calendar.to_owned()))
}

/// Reads `apps/{app}/runs/{ulid}`.
pub fn parse_run(field: &str, text: &str, bad: &mut Violations) -> Option<RunName> {
    let Some((app, run)) = split(text, "runs") else {
        return bad_form(field, text, "apps/{app}/runs/{run}", bad);
    };
    if !is_id(app) {
        return bad_id(field, "app", app, bad);
    }
    match run.parse::<RunId>() {
        Ok(run) => Some(RunName { app: app.to_owned(), run }),
        Err(_) => {
            bad.invalid(field, format!("run id {run:?} is no ULID (26 characters)"));
            None
        }
    }
}

/// Reads `apps/{app}/executors/{executor}` into both ids.
pub fn parse_executor(field: &str, text: &str, bad: &mut Violations) -> Option<(String, String)> {
    let Some((app, executor)) = split(text, "executors") else {
        return bad_form(field, text, "apps/{app}/executors/{executor}", bad);
    };
    if !is_id(app) {
        return bad_id(field, "app", app, bad);
    }
    if !is_executor_id(executor) {
        bad.invalid(field, format!("executor id {executor:?} must be {EXECUTOR_ID_RULE}"));
        return None;
    }
    Some((app.to_owned(), executor.to_owned()))
}

/// Reads `apps/{app}/alarmRules/{rule}` into both ids.
pub fn parse_alarm_rule(field: &str, text: &str, bad: &mut Violations) -> Option<(String, String)> {
    let Some((app, rule)) = split(text, "alarmRules") else {
        return bad_form(field, text, "apps/{app}/alarmRules/{rule}", bad);
    };
    if !is_id(app) {
        return bad_id(field, "app", app, bad);
    }
    if !is_id(rule) {
        return bad_id(field, "alarm rule", rule, bad);
    }
    Some((app.to_owned(), rule.to_owned()))
}

/// Reads `apps/{app}/alarms/{alarm}` into both ids.
pub fn parse_alarm(field: &str, text: &str, bad: &mut Violations) -> Option<(String, AlarmId)> {
    let Some((app, alarm)) = split(text, "alarms") else {
        return bad_form(field, text, "apps/{app}/alarms/{alarm}", bad);
    };
    if !is_id(app) {
        return bad_id(field, "app", app, bad);
    }
    match alarm.parse::<AlarmId>() {
        Ok(alarm) => Some((app.to_owned(), alarm)),
        Err(_) => {
            let alarm = shorten(alarm);
            bad.invalid(field, format!("alarm id {alarm:?} is no ULID (26 characters)"));
            None
        }
    }
}

/// Checks a bare id that a caller chose for a new resource.
pub fn check_new_id(field: &str, what: &str, id: &str, bad: &mut Violations) {
    if !is_id(id) {
        let _: Option<()> = bad_id(field, what, id, bad);
    }
}

/// The name of the session an attempt was sent on; empty before the first dispatch.
pub fn session(executor: Option<&str>, epoch: u64) -> String {
    match executor {
        Some(executor) if epoch > 0 => format!("{executor}/{epoch}"),
        _ => String::new(),
    }
}

/// The views a message may ask for: unspecified means `default`.
pub fn full_view(field: &str, view: i32, default: bool, bad: &mut Violations) -> bool {
    match pb::RunView::try_from(view) {
        Ok(pb::RunView::Unspecified) => default,
        Ok(pb::RunView::Basic) => false,
        Ok(pb::RunView::Full) => true,
        Err(_) => {
            bad.invalid(field, format!("{view} is no RunView; use RUN_VIEW_BASIC or _FULL"));
            default
        }
    }
}

fn split<'a>(text: &'a str, kind: &str) -> Option<(&'a str, &'a str)> {
    let mut parts = text.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("apps"), Some(app), Some(given), Some(id), None) if given == kind => Some((app, id)),
        _ => None,
    }
}

fn bad_form<T>(field: &str, text: &str, form: &str, bad: &mut Violations) -> Option<T> {
    bad.invalid(field, format!("{:?} does not have the form {form}", shorten(text)));
    None
}

fn bad_id<T>(field: &str, what: &str, id: &str, bad: &mut Violations) -> Option<T> {
    bad.invalid(field, format!("{what} id {:?} must be {ID_RULE}", shorten(id)));
    None
}

/// Repeats at most so much of a caller's text in a message.
pub fn shorten(text: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(id: &str) -> Option<String> {
        let mut bad = Violations::new();
        check_new_id("job_id", "job", id, &mut bad);
        bad.finish().err().map(|error| error.message().to_owned())
    }

    #[test]
    fn r64_ids_are_taken_or_refused_with_the_exact_rule() {
        let longest = format!("a{}z", "-".repeat(61));
        for good in ["a", "0", "a-b", "a.b_c-d", "reindex_all", longest.as_str()] {
            assert_eq!(fault_of(good), None, "{good}");
        }
        let too_long = "a".repeat(64);
        let very_long = "a".repeat(255);
        for id in [
            "", "A", "a|b", "a@b", "a b", "-a", "a-", ".a", "a_", "ä", "a/b", "-", "a\n",
            &too_long, &very_long,
        ] {
            let message = fault_of(id).unwrap_or_else(|| panic!("{id:?} was taken"));
            assert!(message.contains(ID_RULE), "{message}");
            assert!(message.len() < 400, "{message}");
        }
    }

    #[test]
    fn r63_a_name_is_its_whole_text_and_never_a_prefix() {
        let mut bad = Violations::new();
        let one = parse_job("name", "apps/test/jobs/reindex", &mut bad);
        let other = parse_job("name", "apps/test-1/jobs/reindex_all", &mut bad);
        assert!(bad.is_empty());
        assert_ne!(one, other);
        for name in ["apps/test/jobs", "apps/test/jobs/a/b", "apps//jobs/a", "jobs/a", ""] {
            assert_eq!(parse_job("name", name, &mut bad), None, "{name}");
        }
        let message = bad.finish().expect_err("five faults").message().to_owned();
        assert_eq!(message.matches("form apps/{app}/jobs/{job}").count(), 4, "{message}");
        assert!(message.contains("app id"), "{message}");
    }

    #[test]
    fn names_survive_their_text() {
        let mut bad = Violations::new();
        let id = RunId::by_hand(chrono::DateTime::UNIX_EPOCH, 77);
        let name = RunName { app: "demo".into(), run: id };
        assert_eq!(parse_run("name", &run("demo", id), &mut bad), Some(name));
        let pair = Some(("demo".into(), "Host-1.a".into()));
        assert_eq!(parse_executor("x", &executor("demo", "Host-1.a"), &mut bad), pair);
        assert_eq!(parse_parent("parent", "apps/-", &mut bad), Some(Parent::All));
        assert!(bad.is_empty());
    }
}
