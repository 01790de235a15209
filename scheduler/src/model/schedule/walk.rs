//! From local times to instants, over the clock changes of a zone.
//!
//! The rules are those of Vixie cron. Where the clock jumps forward, a fixed-time schedule whose
//! time is left out fires once, at the jump, unless that is longer than [`MADE_UP_MAX`]; one that
//! follows the clock has no times there. Where the clock is put back, a fixed-time schedule fires
//! in the first pass only, one that follows the clock in both.

use super::local::Finder;
use super::zone::{Change, Zone};

/// Longest jump forward whose times are made up for, in seconds: 3 h.
pub(super) const MADE_UP_MAX: i64 = 3 * 3600;
/// No clock has been put back by more, in seconds: two passes of a time lie no further apart.
const PUT_BACK_MAX: i64 = 26 * 3600;
/// Bound on the clock changes that one search looks at: 131 years with a few each.
const CHANGES_MAX: usize = 1000;
/// A match farther ahead than twice this, in seconds, is searched for anew from this long before,
/// past the clock changes in between.
const FAR: i64 = 4 * 86_400;

/// The first fire time strictly after `after`, both in seconds since 1970.
pub(super) fn next(finder: &Finder, zone: &Zone, after: i64) -> Option<i64> {
    let mut offset = zone.offset_at(after);
    let follows_clock = finder.spec.follows_clock;
    // Local times up to `base` are over, and there is no match between `base` and `found`.
    let mut base = after + offset;
    if !follows_clock && let Some(change) = put_back_before(zone, after) {
        base = base.max(change.old_local() - 1);
    }
    let mut found = finder.next(base);
    if zone.is_fixed() {
        return found.map(|local| local - offset);
    }
    for change in zone.changes_after(after).take(CHANGES_MAX) {
        if let Some(local) = found
            && local - offset < change.at
        {
            return Some(local - offset);
        }
        let start = change.new_local();
        if change.jump() < 0 {
            if follows_clock && start - 1 < base {
                base = start - 1;
                found = finder.next(base);
            } else if found.is_none() {
                return None;
            }
        } else if found? < start {
            if !follows_clock && change.jump() <= MADE_UP_MAX {
                return Some(change.at);
            }
            base = start - 1;
            found = finder.next(base);
        }
        offset = change.after;
        if let Some(local) = found
            && local - 2 * FAR > start
        {
            return next(finder, zone, local - FAR);
        }
    }
    found.map(|local| local - offset)
}

/// The change that put the clock back so shortly before `at` that times may still repeat.
fn put_back_before(zone: &Zone, at: i64) -> Option<Change> {
    zone.change_before(at).filter(|change| change.jump() < 0 && at - change.at < PUT_BACK_MAX)
}

/// The local time that a fire at this instant stands for, when the clock change that happened at
/// that very instant left it out; else `None`.
pub(super) fn moved_from(finder: &Finder, zone: &Zone, fire: i64) -> Option<i64> {
    let change = zone.change_before(fire).filter(|change| change.at == fire)?;
    if finder.spec.follows_clock || !(1..=MADE_UP_MAX).contains(&change.jump()) {
        return None;
    }
    finder.next(change.old_local() - 1).filter(|local| *local < change.new_local())
}
