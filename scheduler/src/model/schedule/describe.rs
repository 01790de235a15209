//! A schedule in words.

use super::plan::Compiled;

/// The schedule in English, weekday names included.
pub(super) fn describe(compiled: &Compiled) -> String {
    compiled.time_zone().to_owned()
}
