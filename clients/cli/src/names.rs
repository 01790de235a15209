//! Resource names and their short forms: `app/job`, `apps/app/jobs/job`, or `job` with `--app`.

use crate::error::CliError;

/// Lists over every app that the caller may see.
pub(crate) const ALL_APPS: &str = "apps/-";

/// A kind of thing that lives in an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `apps/{app}/jobs/{job}`
    Job,
    /// `apps/{app}/runs/{run}`
    Run,
    /// `apps/{app}/executors/{executor}`
    Executor,
    /// `apps/{app}/calendars/{calendar}`
    Calendar,
    /// `apps/{app}/alarmRules/{rule}`
    AlarmRule,
    /// `apps/{app}/alarms/{alarm}`
    Alarm,
}

impl Kind {
    fn collection(self) -> &'static str {
        match self {
            Kind::Job => "jobs",
            Kind::Run => "runs",
            Kind::Executor => "executors",
            Kind::Calendar => "calendars",
            Kind::AlarmRule => "alarmRules",
            Kind::Alarm => "alarms",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Kind::Job => "job",
            Kind::Run => "run",
            Kind::Executor => "executor",
            Kind::Calendar => "calendar",
            Kind::AlarmRule => "alarm rule",
            Kind::Alarm => "alarm",
        }
    }
}

/// The full name for what the user wrote.
///
/// # Errors
/// A name of the wrong form, or a bare id without an app.
pub(crate) fn full(kind: Kind, text: &str, app: Option<&str>) -> Result<String, CliError> {
    let (collection, word) = (kind.collection(), kind.word());
    let parts: Vec<&str> = text.split('/').collect();
    let (app, id) = match parts.as_slice() {
        ["apps", app, part, id] if *part == collection => (*app, *id),
        [app, id] => (*app, *id),
        [id] => match app {
            Some(app) => (app_id(app)?, *id),
            None => {
                return Err(CliError::usage(format!(
                    "{word} {text:?}: of which app? Write APP/{text}, or give --app or CLAWJOB_APP"
                )));
            }
        },
        _ => {
            return Err(CliError::usage(format!(
                "{word} {text:?}: not a name; write APP/ID or apps/APP/{collection}/ID"
            )));
        }
    };
    if !is_id(app) || !is_id(id) {
        return Err(CliError::usage(format!(
            "{word} {text:?}: the app and the id must be one word each; write APP/ID"
        )));
    }
    Ok(format!("apps/{app}/{collection}/{id}"))
}

/// Whether it can be one part of a name; what it may be in full is the server's to say.
fn is_id(part: &str) -> bool {
    !part.is_empty() && part != "-" && !part.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// The app's id in `demo` or `apps/demo`.
///
/// # Errors
/// Anything of more parts.
pub(crate) fn app_id(text: &str) -> Result<&str, CliError> {
    let id = text.strip_prefix("apps/").unwrap_or(text);
    if is_id(id) && !id.contains('/') {
        Ok(id)
    } else {
        Err(CliError::usage(format!("app {text:?}: not a name; write one word, such as demo")))
    }
}

/// The full name of a token.
///
/// # Errors
/// Anything of more parts.
pub(crate) fn token(text: &str) -> Result<String, CliError> {
    of_cluster("token", text)
}

/// The full name of a user.
///
/// # Errors
/// Anything of more parts.
pub(crate) fn user(text: &str) -> Result<String, CliError> {
    of_cluster("user", text)
}

/// The full name of a thing in no app.
fn of_cluster(word: &str, text: &str) -> Result<String, CliError> {
    let prefix = format!("{word}s/");
    let id = text.strip_prefix(&prefix).unwrap_or(text);
    if is_id(id) && !id.contains('/') {
        Ok(format!("{prefix}{id}"))
    } else {
        Err(CliError::usage(format!(
            "{word} {text:?}: not a name; `clawjob {word}s list` has them"
        )))
    }
}

/// The short form of a full name, which every command takes back: `demo/hello`.
pub(crate) fn short(name: &str) -> String {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        ["apps", app] => (*app).into(),
        ["apps", app, _, id] => format!("{app}/{id}"),
        ["tokens" | "nodes" | "users", id] => (*id).into(),
        _ => name.into(),
    }
}

/// The app of a full name, and its last part.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    let mut parts = name.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("apps"), Some(app), Some(_), Some(id), None) => Some((app, id)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_job_name_is_understood() {
        for (text, app) in [
            ("demo/hello", None),
            ("apps/demo/jobs/hello", None),
            ("apps/demo/jobs/hello", Some("other")),
            ("hello", Some("demo")),
            ("hello", Some("apps/demo")),
        ] {
            assert_eq!(full(Kind::Job, text, app).unwrap(), "apps/demo/jobs/hello", "{text}");
        }
    }

    #[test]
    fn a_bare_id_without_an_app_says_how_to_name_it() {
        let e = full(Kind::Run, "01J", None).unwrap_err().to_string();
        assert!(e.contains("APP/01J") && e.contains("CLAWJOB_APP"), "{e}");
    }

    #[test]
    fn wrong_forms_are_refused() {
        for text in ["", "/", "a/", "/b", "apps/a/runs/b", "a/b/c", "-/b", "a b/c", "apps/-/jobs/b"]
        {
            assert!(full(Kind::Job, text, Some("demo")).is_err(), "{text}");
        }
        assert!(app_id("apps/").is_err() && app_id("a/b").is_err());
    }

    #[test]
    fn short_names_are_taken_back() {
        for name in ["apps/demo/jobs/hello", "apps/demo/runs/01J"] {
            let kind = if name.contains("jobs") { Kind::Job } else { Kind::Run };
            assert_eq!(full(kind, &short(name), None).unwrap(), name);
        }
        assert_eq!(short("tokens/abc"), "abc");
        assert_eq!(split("apps/demo/jobs/x"), Some(("demo", "x")));
        assert_eq!(split("apps/demo"), None);
    }
}
