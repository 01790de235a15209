//! What is wrong with a schedule, in words a user can act on.

/// The kind of fault, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The cron text does not parse.
    CronInvalid,
    /// The time zone database of this host lacks the name.
    TimeZoneUnknown,
    /// Well formed, but there is no fire time left.
    NeverFires,
    /// A duration, an instant or a count is outside its bounds.
    OutOfRange,
    /// There is no calendar of that name.
    CalendarUnknown,
}

impl Reason {
    /// The stable spelling in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::CronInvalid => "CRON_INVALID",
            Reason::TimeZoneUnknown => "TIME_ZONE_UNKNOWN",
            Reason::NeverFires => "NEVER_FIRES",
            Reason::OutOfRange => "OUT_OF_RANGE",
            Reason::CalendarUnknown => "CALENDAR_NOT_FOUND",
        }
    }
}

/// One fault of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct ScheduleError {
    /// The field of the schedule as the contract spells it: `cron`, `time_zone`, `interval`, …
    pub field: &'static str,
    /// The kind of fault.
    pub reason: Reason,
    /// Names the place, the fault and the remedy.
    pub message: String,
}

impl ScheduleError {
    pub(super) fn new(field: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self { field, reason, message: message.into() }
    }

    pub(super) fn cron(message: impl Into<String>) -> Self {
        Self::new("cron", Reason::CronInvalid, message)
    }
}

/// Most characters of a user's text that a message repeats.
const QUOTE_MAX: usize = 40;

/// The text in backquotes, cut to a bearable length, control characters made visible.
pub(super) fn quote(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTE_MAX).flat_map(char::escape_debug).collect();
    if text.chars().count() > QUOTE_MAX {
        shown.push('…');
    }
    format!("`{shown}`")
}
