//! A schedule made ready: checked, its zone loaded, its next fire time computable.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};

use super::allow::Allow;
use super::fault::{Reason, ScheduleError, quote};
use super::local::Finder;
use super::spec::Parsed;
use super::zone::Zone;
use super::{
    Dialect, EXCLUDED_DATES_MAX, LAST_YEAR, PERIOD_MAX, PERIOD_MIN, SPREAD_MAX, Schedule, Trigger,
    parse, walk,
};
use crate::model::calendar::Calendars;

/// Closed stretches that one search passes. A schedule whose only day a calendar shuts out each
/// week needs some 4,000 to reach the last year; each takes a microsecond or so.
const CLOSED_STEPS_MAX: usize = 20_000;

/// The first second after [`LAST_YEAR`], 2101-01-01T00:00:00Z: a year is dear to compute for each fire.
const AFTER_LAST_YEAR: i64 = 4_133_980_800;

/// A checked schedule. Immutable and free of the job, so that equal schedules can share one.
#[derive(Debug, Clone)]
pub struct Compiled {
    pub(super) plan: Plan,
    pub(super) zone: Zone,
    pub(super) zone_name: String,
    /// In milliseconds since 1970, as all instants here.
    start: Option<i64>,
    end: Option<i64>,
    spread_ms: u64,
    allow: Allow,
}

/// The trigger, made ready.
#[derive(Debug, Clone)]
pub(super) enum Plan {
    Cron(Box<Finder>),
    /// A fixed rate; with a dialect when it was written as `@every`.
    Every {
        period_ms: i64,
        dialect: Option<Dialect>,
    },
    At(i64),
    Delay(Duration),
    None,
}

pub(super) fn compile(
    schedule: &Schedule,
    calendars: &Calendars,
) -> Result<Compiled, Vec<ScheduleError>> {
    let mut faults = Vec::new();
    let plan = plan(&schedule.trigger).unwrap_or_else(|mut found| {
        faults.append(&mut found);
        Plan::None
    });
    let zone = Zone::load(&schedule.time_zone).map_err(|fault| faults.push(fault)).ok();
    let out_of_range =
        |field, message: String| ScheduleError::new(field, Reason::OutOfRange, message);
    if let (Some(start), Some(end)) = (schedule.start_at, schedule.end_at)
        && end <= start
    {
        let message = format!("{end} is not after start_time {start}; put it later");
        faults.push(out_of_range("end_time", message));
    }
    let spread_ms = whole_millis(schedule.spread).filter(|_| schedule.spread <= SPREAD_MAX);
    if spread_ms.is_none() {
        let message = "must be whole milliseconds and at most 24 h; shorten it".to_owned();
        faults.push(out_of_range("spread", message));
    }
    if schedule.excluded_dates.len() > EXCLUDED_DATES_MAX {
        let message = format!(
            "has {} dates, at most {EXCLUDED_DATES_MAX} are taken; use a calendar",
            schedule.excluded_dates.len()
        );
        faults.push(out_of_range("excluded_dates", message));
    }
    let allow = Allow::of(schedule, calendars).unwrap_or_else(|mut found| {
        faults.append(&mut found);
        Allow::default()
    });
    match (zone, spread_ms) {
        (Some(zone), Some(spread_ms)) if faults.is_empty() => Ok(Compiled {
            plan,
            zone,
            zone_name: schedule.time_zone.clone(),
            start: schedule.start_at.map(|start| start.timestamp_millis()),
            end: schedule.end_at.map(|end| end.timestamp_millis()),
            spread_ms: u64::try_from(spread_ms).unwrap_or(0),
            allow,
        }),
        _ => Err(faults),
    }
}

/// Whether schedules still fire then: one that went on for ever would come to instants that neither
/// the contract nor a database can say, and be searched for without end where calendars are closed.
fn in_time(at: &DateTime<Utc>) -> bool {
    at.timestamp() < AFTER_LAST_YEAR
}

fn plan(trigger: &Trigger) -> Result<Plan, Vec<ScheduleError>> {
    match trigger {
        Trigger::Cron { text, dialect } => match parse::parse(text, *dialect)? {
            Parsed::Every { seconds, dialect } => {
                let period_ms = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
                Ok(Plan::Every { period_ms, dialect: Some(dialect) })
            }
            Parsed::Spec(spec) => match Finder::new(*spec) {
                Ok(finder) => Ok(Plan::Cron(Box::new(finder))),
                Err(why) => {
                    let message = format!("{} is not taken: {why}", quote(text));
                    Err(vec![ScheduleError::cron(message)])
                }
            },
        },
        Trigger::Interval(period) => {
            let period_ms = period_millis("interval", *period)?;
            Ok(Plan::Every { period_ms, dialect: None })
        }
        Trigger::At(at) => Ok(Plan::At(at.timestamp_millis())),
        Trigger::Delay(delay) => {
            period_millis("delay", *delay)?;
            Ok(Plan::Delay(*delay))
        }
        Trigger::None => Ok(Plan::None),
    }
}

fn period_millis(field: &'static str, period: Duration) -> Result<i64, Vec<ScheduleError>> {
    let bounded = (PERIOD_MIN..=PERIOD_MAX).contains(&period);
    whole_millis(period).filter(|_| bounded).ok_or_else(|| {
        // Debug's word for nothing is 0ns.
        let shown = if period.is_zero() { "0s".to_owned() } else { format!("{period:?}") };
        let message =
            format!("{shown} is outside the bounds; use whole milliseconds from 1 s to 366 days");
        vec![ScheduleError::new(field, Reason::OutOfRange, message)]
    })
}

fn whole_millis(duration: Duration) -> Option<i64> {
    let whole = duration.subsec_nanos().is_multiple_of(1_000_000);
    i64::try_from(duration.as_millis()).ok().filter(|_| whole)
}

impl Compiled {
    /// The dialect a cron text was read in, to be stored with it; `None` without a cron text.
    pub fn dialect(&self) -> Option<Dialect> {
        match &self.plan {
            Plan::Cron(finder) => Some(finder.spec.dialect),
            Plan::Every { dialect, .. } => *dialect,
            _ => None,
        }
    }

    /// The zone the schedule follows, as stored; `UTC` when none is.
    pub fn time_zone(&self) -> &str {
        if self.zone_name.is_empty() { "UTC" } else { &self.zone_name }
    }

    /// The first fire time strictly after `after`, in whole milliseconds; `None`: never again.
    ///
    /// `anchor` is the job's creation; a schedule with a start counts from its start instead. It
    /// matters for interval and `@every` only. A delay gives `None`, see
    /// [`Compiled::next_delayed`].
    pub fn next_fire(&self, after: DateTime<Utc>, anchor: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.search(after, anchor, !self.allow.everything())
    }

    /// The search; `heeding` says whether excluded dates and calendars count.
    fn search(
        &self,
        after: DateTime<Utc>,
        anchor: DateTime<Utc>,
        heeding: bool,
    ) -> Option<DateTime<Utc>> {
        let anchor = self.start.unwrap_or_else(|| anchor.timestamp_millis());
        let mut after = after.timestamp_millis();
        if let Some(start) = self.start {
            after = after.max(start.saturating_sub(1));
        }
        for _ in 0..CLOSED_STEPS_MAX {
            let fire = self.next_any(after, anchor)?;
            if self.end.is_some_and(|end| fire >= end) {
                return None;
            }
            let at = DateTime::from_timestamp_millis(fire).filter(in_time)?;
            if !heeding {
                return Some(at);
            }
            match self.allow.closed_until(fire, &self.zone) {
                None => return Some(at),
                Some(until) => after = until - 1,
            }
        }
        None
    }

    /// When a delay that counts from `from` is over: not before the start, and on a closed day not
    /// before the next open one; `None` when that is never, or there is no delay.
    pub fn next_delayed(&self, from: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let due = from.checked_add_signed(TimeDelta::from_std(self.delay()?).ok()?)?;
        let start = self.start.and_then(DateTime::from_timestamp_millis);
        let mut due = start.map_or(due, |start| start.max(due));
        for _ in 0..CLOSED_STEPS_MAX {
            if self.end.is_some_and(|end| due.timestamp_millis() >= end) || !in_time(&due) {
                return None;
            }
            match self.allow.closed_until(due.timestamp_millis(), &self.zone) {
                None => return Some(due),
                Some(until) => due = DateTime::from_timestamp_millis(until)?,
            }
        }
        None
    }

    /// The next fire time in milliseconds, whatever its date.
    fn next_any(&self, after: i64, anchor: i64) -> Option<i64> {
        match &self.plan {
            Plan::Cron(finder) => walk::next(finder, &self.zone, after.div_euclid(1000))
                .and_then(|fire| fire.checked_mul(1000)),
            Plan::Every { period_ms, .. } => {
                if after < anchor {
                    return Some(anchor);
                }
                let passed = after.checked_sub(anchor)? / period_ms;
                passed.checked_add(1)?.checked_mul(*period_ms)?.checked_add(anchor)
            }
            Plan::At(at) => (*at > after).then_some(*at),
            Plan::Delay(_) | Plan::None => None,
        }
    }

    /// The pause after a run's end, for a delay trigger.
    pub fn delay(&self) -> Option<Duration> {
        match self.plan {
            Plan::Delay(delay) => Some(delay),
            _ => None,
        }
    }

    /// Whether the ends of runs plan the next one, instead of [`Compiled::next_fire`].
    pub fn is_delay(&self) -> bool {
        self.delay().is_some()
    }

    /// Whether it fires only by hand.
    pub fn is_by_hand(&self) -> bool {
        matches!(self.plan, Plan::None)
    }

    /// Whether runs are due later than their fire time.
    pub fn is_spread(&self) -> bool {
        self.spread_ms > 0
    }

    /// How much later than the fire time a job of this name is due: less than the spread, the
    /// same on every node and in every version, whole milliseconds.
    pub fn spread_offset(&self, job_name: &str) -> Duration {
        if self.spread_ms == 0 {
            return Duration::ZERO;
        }
        let digest = Sha256::digest(job_name.as_bytes());
        let hash = digest.iter().take(8).fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        // The hash as a fraction of the window.
        let offset = (u128::from(hash) * u128::from(self.spread_ms)) >> 64;
        Duration::from_millis(u64::try_from(offset).unwrap_or(0))
    }

    /// Whether a trigger that makes fire times has none left after `after`, whatever its calendars
    /// say: the schedule itself is over.
    pub fn never_fires(&self, after: DateTime<Utc>, anchor: DateTime<Utc>) -> bool {
        match self.plan {
            Plan::None => false,
            Plan::Delay(_) => self.end.is_some_and(|end| after.timestamp_millis() >= end),
            _ => {
                let dates = !self.allow.everything() && !self.allow.has_calendars();
                self.search(after, anchor, dates).is_none()
            }
        }
    }

    /// Why a schedule that is not over has no fire time all the same: its calendars leave none.
    /// `None` when there is one.
    ///
    /// Looks as far as the year 2100, which costs some milliseconds at worst: for a change or an
    /// answer, not for a loop.
    pub fn closed_for_good(&self, after: DateTime<Utc>, anchor: DateTime<Utc>) -> Option<String> {
        if !self.allow.has_calendars() || self.never_fires(after, anchor) {
            return None;
        }
        let open = match self.plan {
            Plan::None => true,
            Plan::Delay(_) => self.next_delayed(after).is_some(),
            _ => self.next_fire(after, anchor).is_some(),
        };
        (!open).then(|| {
            format!(
                "never fires after {}: its calendars and dates leave no fire time up to the year \
                 {LAST_YEAR}; change the schedule or a calendar",
                self.show(after)
            )
        })
    }

    /// Whether calendars have a say.
    pub fn has_calendars(&self) -> bool {
        self.allow.has_calendars()
    }

    /// Refuses a schedule that never fires, as saving a job must.
    ///
    /// # Errors
    /// One fault with [`Reason::NeverFires`], on the trigger's field.
    pub fn check_fires(
        &self,
        after: DateTime<Utc>,
        anchor: DateTime<Utc>,
    ) -> Result<(), ScheduleError> {
        if !self.never_fires(after, anchor) {
            return Ok(());
        }
        let (field, why) = match &self.plan {
            Plan::At(at) if *at > after.timestamp_millis() => {
                ("at", "the instant lies after the year 2100, or outside start and end")
            }
            Plan::At(_) => ("at", "the instant has passed"),
            Plan::Cron(_) => {
                ("cron", "no date up to the year 2100 fits, or none between start and end")
            }
            Plan::Every { dialect: Some(_), .. } => {
                ("cron", "it has ended, or starts after the year 2100")
            }
            _ => ("interval", "it has ended, or starts after the year 2100"),
        };
        let message = format!("never runs after {}: {why}; change the schedule", self.show(after));
        Err(ScheduleError::new(field, Reason::NeverFires, message))
    }

    /// A word on a fire time that is not where the schedule names it: the local time that a clock
    /// change left out. `None` for all others.
    pub fn moved_remark(&self, fire: DateTime<Utc>) -> Option<String> {
        let Plan::Cron(finder) = &self.plan else { return None };
        let local = walk::moved_from(finder, &self.zone, fire.timestamp())?;
        let named = DateTime::from_timestamp(local, 0)?.format("%Y-%m-%d %H:%M:%S");
        Some(format!(
            "{named} does not exist in {}: the clock jumps forward; the run starts at the jump, {}",
            self.time_zone(),
            self.show(fire)
        ))
    }

    /// An instant on the schedule's wall clock.
    pub(super) fn show(&self, at: DateTime<Utc>) -> String {
        let second = at.timestamp();
        let local = second.saturating_add(self.zone.offset_at(second));
        match DateTime::from_timestamp(local, 0) {
            Some(local) => format!(
                "{} {}",
                local.format("%Y-%m-%d %H:%M:%S"),
                self.zone.abbreviation_at(second)
            ),
            None => at.to_string(),
        }
    }
}
