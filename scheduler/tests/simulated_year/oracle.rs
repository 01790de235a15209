//! Fire times as a reader finds them who looks at each minute of the time on a zone's wall clock: no
//! search, nothing of the scheduler's own reading of a schedule.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Timelike, Utc};
use clawjob_scheduler::model::schedule::Trigger;
use jiff::{Timestamp, tz::TimeZone};

/// Minutes before the begin that the reader has seen.
const WARM_UP: i64 = 24 * 60;
/// Longest jump whose times are made up for, in minutes.
const MADE_UP: i64 = 3 * 60;

/// The wall clock of each zone at each minute.
pub(crate) struct Zones {
    /// The minute before the first, since 1970.
    before: i64,
    walls: HashMap<&'static str, Vec<i64>>,
}

impl Zones {
    pub(crate) fn read(names: &[&'static str], begin: DateTime<Utc>, end: DateTime<Utc>) -> Self {
        let before = begin.timestamp().div_euclid(60) - WARM_UP;
        let minutes = end.timestamp().div_euclid(60) - before + 1;
        let wall = |zone: &TimeZone, minute: i64| {
            let at = Timestamp::from_second(minute * 60).expect("in range");
            let seconds = i64::from(zone.to_offset(at).seconds());
            assert_eq!(seconds % 60, 0, "an offset of whole minutes");
            minute + seconds / 60
        };
        let walls = names.iter().map(|name| {
            let zone = TimeZone::get(name).expect("a zone");
            (*name, (0..minutes).map(|n| wall(&zone, before + n)).collect())
        });
        Self { before, walls: walls.collect() }
    }

    /// The local date of an instant.
    pub(crate) fn date(&self, zone: &str, at: DateTime<Utc>) -> NaiveDate {
        let minute = at.timestamp().div_euclid(60);
        local(self.walls[zone][(minute - self.before) as usize]).date_naive()
    }
}

fn local(wall: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(wall * 60, 0).expect("in range")
}

/// What a field of minutes or hours takes.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    At(Vec<u32>),
    Range(u32, u32),
    /// Written with a star: such a schedule follows the real clock.
    Every(u32),
}

impl Field {
    fn takes(&self, value: u32) -> bool {
        match self {
            Self::At(values) => values.contains(&value),
            Self::Range(from, to) => (*from..=*to).contains(&value),
            Self::Every(step) => value.is_multiple_of(*step),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::At(values) => values.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
            Self::Range(from, to) => format!("{from}-{to}"),
            Self::Every(1) => "*".to_owned(),
            Self::Every(step) => format!("*/{step}"),
        }
    }
}

/// A crontab line.
#[derive(Clone, Debug)]
pub(crate) struct Cron {
    pub(crate) minute: Field,
    pub(crate) hour: Field,
    /// Days of the month.
    pub(crate) days: Option<Vec<u32>>,
    /// 0 is Sunday.
    pub(crate) weekdays: Option<Vec<u32>>,
}

impl Cron {
    pub(crate) fn new(minute: Field, hour: Field) -> Self {
        Self { minute, hour, days: None, weekdays: None }
    }

    fn text(&self) -> String {
        let list = |values: &Option<Vec<u32>>| match values {
            Some(values) => values.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
            None => "*".to_owned(),
        };
        let (minute, hour) = (self.minute.text(), self.hour.text());
        format!("{minute} {hour} {} * {}", list(&self.days), list(&self.weekdays))
    }

    fn matches(&self, wall: i64) -> bool {
        let at = local(wall);
        self.minute.takes(at.minute())
            && self.hour.takes(at.hour())
            && self.days.as_ref().is_none_or(|days| days.contains(&at.day()))
            && self
                .weekdays
                .as_ref()
                .is_none_or(|days| days.contains(&at.weekday().num_days_from_sunday()))
    }

    /// What crontab's daemon starts, waking each minute.
    fn starts(&self, walls: &[i64]) -> Vec<usize> {
        let follows =
            matches!(self.minute, Field::Every(_)) || matches!(self.hour, Field::Every(_));
        let mut started = Vec::new();
        let mut seen = walls[0];
        for (index, wall) in walls.iter().enumerate().skip(1) {
            let starts = if follows {
                self.matches(*wall)
            } else if *wall <= seen {
                false
            } else if *wall - seen - 1 <= MADE_UP {
                (seen + 1..=*wall).any(|wall| self.matches(wall))
            } else {
                self.matches(*wall)
            };
            seen = seen.max(*wall);
            if starts {
                started.push(index);
            }
        }
        started
    }
}

/// A fixed rate.
#[derive(Clone, Debug)]
pub(crate) struct Every {
    pub(crate) seconds: i64,
}

/// A schedule in plain terms.
#[derive(Clone, Debug)]
pub(crate) enum Plain {
    Cron(Cron),
    Every(Every),
}

impl Plain {
    /// The same as a job has it.
    pub(crate) fn trigger(&self) -> Trigger {
        match self {
            Self::Cron(cron) => Trigger::Cron { text: cron.text(), dialect: None },
            Self::Every(every) => {
                Trigger::Interval(Duration::from_secs(every.seconds.unsigned_abs()))
            }
        }
    }

    /// Its fire times after the begin, which is the anchor, up to the end.
    pub(crate) fn fires(
        &self,
        zones: &Zones,
        zone: &str,
        begin: DateTime<Utc>,
        end: DateTime<Utc>,
    ) -> Vec<DateTime<Utc>> {
        let mut fires: Vec<DateTime<Utc>> = match self {
            Self::Cron(cron) => {
                let started = cron.starts(&zones.walls[zone]).into_iter();
                started.map(|index| local(zones.before + index as i64)).collect()
            }
            Self::Every(every) => {
                let step = TimeDelta::seconds(every.seconds);
                std::iter::successors(Some(begin + step), |at| Some(*at + step))
                    .take_while(|at| *at <= end)
                    .collect()
            }
        };
        fires.retain(|at| *at > begin && *at <= end);
        fires
    }
}

/// A set of days and windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendar {
    pub(crate) dates: Vec<NaiveDate>,
    /// 1 is Monday.
    pub(crate) weekdays: Vec<u8>,
    pub(crate) windows: Vec<(DateTime<Utc>, DateTime<Utc>)>,
}

impl Calendar {
    pub(crate) fn covers(&self, day: NaiveDate, at: DateTime<Utc>) -> bool {
        let weekday = u8::try_from(day.weekday().number_from_monday()).expect("small");
        self.dates.contains(&day)
            || self.weekdays.contains(&weekday)
            || self.windows.iter().any(|(start, end)| *start <= at && at < *end)
    }
}
