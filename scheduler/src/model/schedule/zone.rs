//! A time zone as a list of clock changes. Seconds since 1970 throughout.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::fault::{Reason, ScheduleError, quote};

/// Longest zone name in the database, with room to grow.
const NAME_MAX: usize = 64;

/// One change of the zone's offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// The instant of the change.
    pub(super) at: i64,
    /// Offset from UTC until then, in seconds.
    pub(super) before: i64,
    /// Offset from then on.
    pub(super) after: i64,
}

impl Change {
    /// How far the clock jumps forward; negative when it is put back.
    pub(super) fn jump(self) -> i64 {
        self.after - self.before
    }

    /// What the clock would have shown at that instant without the change.
    pub(super) fn old_local(self) -> i64 {
        self.at + self.before
    }

    /// What the clock shows at that instant.
    pub(super) fn new_local(self) -> i64 {
        self.at + self.after
    }
}

/// A zone, loaded.
#[derive(Debug, Clone)]
pub(super) struct Zone {
    zone: TimeZone,
    /// The offset, when it never changes.
    fixed: Option<i64>,
}

impl Zone {
    /// Loads the zone of that name; empty means UTC.
    pub(super) fn load(name: &str) -> Result<Self, ScheduleError> {
        if name.is_empty() {
            return Ok(Self { zone: TimeZone::UTC, fixed: Some(0) });
        }
        let unknown = || {
            ScheduleError::new(
                "time_zone",
                Reason::TimeZoneUnknown,
                format!(
                    "{} is not in this host's time zone database; use an IANA name such as \
                     Europe/Berlin, or update tzdata",
                    quote(name)
                ),
            )
        };
        if !is_iana_name(name) {
            return Err(unknown());
        }
        let zone = TimeZone::get(name).map_err(|_| unknown())?;
        if zone.is_unknown() {
            return Err(unknown());
        }
        let fixed = zone.to_fixed_offset().ok().map(|offset| i64::from(offset.seconds()));
        Ok(Self { zone, fixed })
    }

    /// Whether the offset never changes.
    pub(super) fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// Offset from UTC at this instant.
    pub(super) fn offset_at(&self, at: i64) -> i64 {
        self.fixed.unwrap_or_else(|| i64::from(self.zone.to_offset(timestamp(at)).seconds()))
    }

    /// The zone's short name at this instant, such as CEST.
    pub(super) fn abbreviation_at(&self, at: i64) -> String {
        self.zone.to_offset_info(timestamp(at)).abbreviation().to_owned()
    }

    /// The changes strictly after this instant, in order.
    pub(super) fn changes_after(&self, at: i64) -> impl Iterator<Item = Change> {
        let mut before = self.offset_at(at);
        let moments = if self.is_fixed() { None } else { Some(self.zone.following(timestamp(at))) };
        moments.into_iter().flatten().filter_map(move |moment| {
            let change = Change {
                at: moment.timestamp().as_second(),
                before,
                after: i64::from(moment.offset().seconds()),
            };
            before = change.after;
            // Some entries of the database rename the time without moving the clock.
            (change.jump() != 0).then_some(change)
        })
    }

    /// The last change at or before this instant.
    pub(super) fn change_before(&self, at: i64) -> Option<Change> {
        if self.is_fixed() {
            return None;
        }
        let moment = self.zone.preceding(timestamp(at + 1)).next()?;
        let at = moment.timestamp().as_second();
        let after = i64::from(moment.offset().seconds());
        Some(Change { at, before: self.offset_at(at - 1), after })
    }
}

/// The nearest instant that the zone library can name.
fn timestamp(at: i64) -> Timestamp {
    let bounded = at.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(bounded).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Keeps out paths and the database's own auxiliary files.
fn is_iana_name(name: &str) -> bool {
    let charset = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
    let lower = name.to_ascii_lowercase();
    name.len() <= NAME_MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(charset)
        && !["posix/", "right/"].iter().any(|folder| lower.starts_with(folder))
        && !["posixrules", "localtime", "factory"].contains(&lower.as_str())
}

/// The version of the host's time zone database, such as `2026b`, for the start log.
/// `None` when the host doesn't tell.
pub fn tzdata_version() -> Option<String> {
    let folder = std::env::var_os("TZDIR").filter(|dir| !dir.is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("/usr/share/zoneinfo"), PathBuf::from);
    let plain = fs::read_to_string(folder.join("+VERSION")).ok();
    let version = plain.or_else(|| {
        let source = fs::read_to_string(folder.join("tzdata.zi")).ok()?;
        Some(source.lines().next()?.strip_prefix("# version ")?.to_owned())
    })?;
    let version = version.trim();
    (!version.is_empty()).then(|| version.to_owned())
}
