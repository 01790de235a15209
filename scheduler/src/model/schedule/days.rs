//! Which days of a month a cron expression names, as 31 bits (bit n is day n).

use chrono::{Datelike, NaiveDate};

/// A day of the month that depends on the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MonthDay {
    /// `L`, `L-n`: n days before the last one.
    FromLast(u32),
    /// `LW`, `L-nW`: the weekday nearest to it.
    WeekdayNearLast(u32),
    /// `nW`: the weekday (Mon–Fri) nearest to day n, within the month.
    WeekdayNear(u32),
}

/// A day of the week that depends on the month; Sunday is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeekDay {
    /// `d#n`: the n-th such day of the month.
    Nth(u32, u32),
    /// `dL`: the last such day of the month.
    Last(u32),
}

/// How the two day fields join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    And,
    Or,
}

/// Both day fields of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DayFilter {
    /// Fixed days of the month, bits 1–31.
    pub(super) month_days: u32,
    pub(super) month_specials: Vec<MonthDay>,
    /// Fixed days of the week, bits 0 (Sunday) – 6.
    pub(super) week_days: u8,
    pub(super) week_specials: Vec<WeekDay>,
    pub(super) join: Join,
}

/// Bits 1–31.
pub(super) const ALL_MONTH_DAYS: u32 = !1;
/// Bits 0–6.
pub(super) const ALL_WEEK_DAYS: u8 = 0x7f;

impl DayFilter {
    /// The days of this month that match; no bits for a month outside the calendar.
    pub(super) fn bits(&self, year: i32, month: u32) -> u32 {
        let Some(first) = NaiveDate::from_ymd_opt(year, month, 1) else { return 0 };
        let shape = MonthShape {
            first_weekday: first.weekday().num_days_from_sunday(),
            last: u32::from(first.num_days_in_month()),
        };
        let exists = ALL_MONTH_DAYS & (u32::MAX >> (31 - shape.last));
        let mut by_month = self.month_days;
        for special in &self.month_specials {
            by_month |= shape.month_day(*special);
        }
        let mut by_week = shape.week_days(self.week_days);
        for special in &self.week_specials {
            by_week |= shape.week_day(*special);
        }
        exists
            & match self.join {
                Join::And => by_month & by_week,
                Join::Or => by_month | by_week,
            }
    }

    /// Whether every day matches, by the fields' own values.
    pub(super) fn is_every_day(&self) -> bool {
        let (month, week) = (self.month_days == ALL_MONTH_DAYS, self.week_days == ALL_WEEK_DAYS);
        match self.join {
            Join::And => month && week,
            Join::Or => month || week,
        }
    }
}

/// All that matters about a month.
struct MonthShape {
    /// Weekday of day 1, Sunday 0.
    first_weekday: u32,
    /// Its last day, 28–31.
    last: u32,
}

impl MonthShape {
    fn weekday(&self, day: u32) -> u32 {
        (self.first_weekday + day - 1) % 7
    }

    fn week_days(&self, set: u8) -> u32 {
        if set == ALL_WEEK_DAYS {
            return ALL_MONTH_DAYS;
        }
        // Rotated so that bit 0 is the weekday of day 1, then repeated over five weeks.
        let week = u64::from(set);
        let turned = ((week | week << 7) >> self.first_weekday) & 0x7f;
        let month = turned | turned << 7 | turned << 14 | turned << 21 | turned << 28;
        (month << 1) as u32
    }

    fn month_day(&self, day: MonthDay) -> u32 {
        match day {
            MonthDay::FromLast(minus) => self.bit(self.before_last(minus)),
            MonthDay::WeekdayNearLast(minus) => self.bit(self.near(self.before_last(minus))),
            MonthDay::WeekdayNear(day) => self.bit(self.near(day)),
        }
    }

    fn week_day(&self, day: WeekDay) -> u32 {
        match day {
            WeekDay::Nth(weekday, nth) => {
                let first = 1 + (weekday + 7 - self.first_weekday) % 7;
                self.bit(first + 7 * (nth - 1))
            }
            WeekDay::Last(weekday) => {
                let back = (self.weekday(self.last) + 7 - weekday) % 7;
                self.bit(self.last - back)
            }
        }
    }

    /// 0, which is no day, when the month is too short.
    fn before_last(&self, minus: u32) -> u32 {
        self.last.saturating_sub(minus)
    }

    /// The weekday nearest to `day` without leaving the month; 0 when the month lacks that day.
    fn near(&self, day: u32) -> u32 {
        if day == 0 || day > self.last {
            return 0;
        }
        match self.weekday(day) {
            6 if day > 1 => day - 1,
            6 => day + 2,
            0 if day < self.last => day + 1,
            0 => day - 2,
            _ => day,
        }
    }

    fn bit(&self, day: u32) -> u32 {
        if (1..=self.last).contains(&day) { 1 << day } else { 0 }
    }
}
