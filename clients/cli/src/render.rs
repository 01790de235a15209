//! Errors for people: what is wrong, where, and what to do about it.

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{error::CliError, text};

/// The error as lines for stderr, without a final line feed.
pub(crate) fn error(error: &CliError) -> String {
    let mut lines = Vec::new();
    match error {
        CliError::Status(status) => status_lines(status, None, &mut lines),
        CliError::Unauthenticated { status, found_in } => {
            let token = match found_in {
                Some(place) => format!("token: the one of {}", text::line(place)),
                None => "token: none was given".to_owned(),
            };
            status_lines(status, Some(token), &mut lines);
        }
        CliError::Unreachable { refusals, .. } => {
            lines.push(format!("error: {error}"));
            for (url, reason) in refusals {
                lines.push(format!(
                    "  {}: {}",
                    text::line(url.trim_end_matches('/')),
                    text::line(reason)
                ));
            }
            lines.push(
                "  try: start one with `clawjob dev`, or name it with --endpoint or \
                 CLAWJOB_ENDPOINTS"
                    .into(),
            );
        }
        CliError::Usage(faults) => {
            lines.extend(faults.iter().map(|fault| format!("error: {}", text::block(fault, "  "))));
        }
        _ => lines.push(format!("error: {}", text::line(&error.to_string()))),
    }
    lines.join("\n")
}

/// A server's error in one line, for lists of several.
pub(crate) fn brief(error: &CliError) -> String {
    let (CliError::Status(status) | CliError::Unauthenticated { status, .. }) = error else {
        return text::line(&error.to_string()).into();
    };
    let details = status.get_error_details();
    let message = text::line(status.message()).into_owned();
    let mut parts = violations(&details);
    // A server may say the violations in its message already.
    parts.retain(|violation| !message.contains(violation.as_str()));
    parts.insert(0, message);
    parts.join("; ")
}

/// `about` is a line on what the error is about, as far as the client knows.
fn status_lines(status: &Status, about: Option<String>, lines: &mut Vec<String>) {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| text::line(&info.reason).into_owned());
    let code = clawjob_proto::code_word(status.code());
    let kind = match &reason {
        Some(reason) if !reason.is_empty() => format!("{code}, {reason}"),
        _ => code.into(),
    };
    let message = match status.message() {
        "" => status.code().description(),
        message => message,
    };
    let mut violations = violations(&details);
    // A server may say the violations in its message already: each is told once.
    let message = if !violations.iter().all(|violation| message.contains(violation.as_str())) {
        text::block(message, "  ").into_owned()
    } else if violations.len() > 1 {
        "several faults".to_owned()
    } else {
        violations.clear();
        text::block(message, "  ").into_owned()
    };
    lines.push(format!("error: {message} ({kind})"));
    lines.extend(violations.into_iter().map(|violation| format!("  {violation}")));
    if let Some(info) = details.error_info() {
        let mut pairs: Vec<_> = info.metadata.iter().collect();
        pairs.sort();
        let pairs = pairs.into_iter().map(|(k, v)| (text::line(k), text::line(v)));
        lines.extend(pairs.map(|(key, value)| format!("  {key}: {value}")));
    }
    lines.extend(about.map(|about| format!("  {about}")));
    if let Some(resource) = details.resource_info()
        && !status.message().contains(&resource.resource_name)
    {
        lines.push(format!("  about: {}", text::line(&resource.resource_name)));
    }
    if let Some(delay) = details.retry_info().and_then(|info| info.retry_delay) {
        lines.push(format!("  again in: {:.1}s", delay.as_secs_f64()));
    }
    if let Some(request) = details.request_info().filter(|info| !info.request_id.is_empty()) {
        lines.push(format!("  request id: {}", text::line(&request.request_id)));
    }
    if let Some(help) = details.help() {
        let links = help.links.iter();
        lines.extend(links.map(|link| {
            format!("  see: {} {}", text::line(&link.description), text::line(&link.url))
        }));
    }
    if let Some(remedy) = remedy(status.code(), reason.as_deref().unwrap_or_default()) {
        lines.push(format!("  try: {remedy}"));
    }
}

/// Every violation of every kind, one text each.
fn violations(details: &ErrorDetails) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(bad) = details.bad_request() {
        found.extend(bad.field_violations.iter().map(|v| match v.field.as_str() {
            "" => text::block(&v.description, "    ").into_owned(),
            field => format!("{}: {}", text::line(field), text::block(&v.description, "    ")),
        }));
    }
    if let Some(failure) = details.precondition_failure() {
        found.extend(failure.violations.iter().map(|v| {
            format!("{} {}: {}", text::line(&v.r#type), text::line(&v.subject), {
                text::block(&v.description, "    ")
            })
        }));
    }
    if let Some(quota) = details.quota_failure() {
        found.extend(quota.violations.iter().map(|v| {
            format!("{}: {}", text::line(&v.subject), text::block(&v.description, "    "))
        }));
    }
    found
}

/// What the caller can do, where the code or the reason alone says it.
fn remedy(code: Code, reason: &str) -> Option<&'static str> {
    Some(match (reason, code) {
        ("ETAG_MISMATCH", _) => "it was changed meanwhile: look at it again, then repeat",
        ("TOKEN_EXPIRED" | "TOKEN_REVOKED", _) => "get a new one with `clawjob tokens create`",
        ("JOB_EXISTS", _) => "change it with `clawjob jobs update` or `clawjob apply`",
        ("EXECUTOR_CONNECTED", _) => "end it first, or `clawjob executors disconnect` it",
        ("APP_NOT_EMPTY", _) => "delete its jobs first, or give --force",
        ("JOB_NOT_FOUND", _) => "`clawjob jobs list` shows what there is",
        ("RUN_NOT_FOUND", _) => "`clawjob runs list` shows what there is",
        ("PAGE_TOKEN_INVALID", _) => "start the list anew without --page-token",
        (_, Code::Unauthenticated) => {
            "give a token by CLAWJOB_TOKEN, CLAWJOB_TOKEN_FILE or --token-file; the first start \
             of the server writes one to admin.token in its data directory"
        }
        (_, Code::PermissionDenied) => "`clawjob whoami` shows what your token may do",
        (_, Code::Unavailable) => "`clawjob status` shows the server's state; repeat later",
        (_, Code::Unimplemented) => "the server is older than this client, or lacks this yet",
        (_, Code::Internal | Code::Unknown) => "the server's log has more under the request id",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_shows_reason_violations_request_id_and_remedy() {
        let mut details = ErrorDetails::new();
        details
            .set_error_info("CRON_INVALID", "clawjob.dev", [("dialect".into(), "unix".into())])
            .add_bad_request_violation("job.schedules[0].cron", "weekday 8: write 0 to 7")
            .add_bad_request_violation("job.handler", "is empty\x1b[2J")
            .set_request_info("req-1", "");
        let status = Status::with_error_details(Code::InvalidArgument, "2 faults", details);
        assert_eq!(
            error(&status.into()),
            "error: 2 faults (INVALID_ARGUMENT, CRON_INVALID)\n  \
             job.schedules[0].cron: weekday 8: write 0 to 7\n  \
             job.handler: is empty\\u{1b}[2J\n  dialect: unix\n  request id: req-1"
        );
    }

    #[test]
    fn a_plain_status_still_says_what_to_do() {
        let shown = error(&Status::unauthenticated("").into());
        assert!(shown.contains("UNAUTHENTICATED") && shown.contains("CLAWJOB_TOKEN"), "{shown}");
    }

    #[test]
    fn a_server_that_is_not_there_names_each_url() {
        let refusals = vec![("http://a:1".into(), "refused".into())];
        let shown = error(&CliError::Unreachable { refusals, broke: false });
        assert!(shown.contains("http://a:1: refused") && shown.contains("clawjob dev"), "{shown}");
    }
}
