//! One field of a cron expression: lists, ranges, steps and names into a set of values.

use super::Dialect;
use super::days::{MonthDay, WeekDay};
use super::fault::quote;
use super::spec::{YEAR_MAX, YEAR_MIN, Years};

/// The fields, by what they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Second,
    Minute,
    Hour,
    MonthDay,
    Month,
    WeekDay,
    Year,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Second => "second",
            Kind::Minute => "minute",
            Kind::Hour => "hour",
            Kind::MonthDay => "day of month",
            Kind::Month => "month",
            Kind::WeekDay => "day of week",
            Kind::Year => "year",
        }
    }
}

/// One field's text within the expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Characters before it in the expression.
    pub(super) start: usize,
    /// Its number in the expression, from 1.
    pub(super) number: usize,
    pub(super) dialect: Dialect,
}

/// What a field holds. Only the kind's own parts are filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Values {
    /// One bit per value; weekdays as 0 (Sunday) – 6. Empty for years.
    pub(super) set: u64,
    pub(super) years: Years,
    pub(super) month_specials: Vec<MonthDay>,
    pub(super) week_specials: Vec<WeekDay>,
}

const MONTHS: [&str; 12] = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
];
const WEEKDAYS: [&str; 7] =
    ["SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"];

/// The first and the last value of a range, with its step.
struct Range {
    from: u32,
    to: u32,
    step: u32,
}

impl<'a> Field<'a> {
    /// Reads the field.
    ///
    /// # Errors
    /// Field, position, fault and remedy.
    pub(super) fn parse(&self) -> Result<Values, String> {
        let mut values = Values {
            set: 0,
            years: Years::NONE,
            month_specials: Vec::new(),
            week_specials: Vec::new(),
        };
        if self.text == "?" {
            self.whole_question_mark(&mut values)?;
            return Ok(values);
        }
        let mut at = 0;
        let listed = self.text.contains(',');
        for item in self.text.split(',') {
            if item.is_empty() {
                return Err(self.fault(at, "a value is missing beside the comma"));
            }
            if !self.special(item, at, listed, &mut values)? {
                let range = self.range(item, at)?;
                self.fill(&range, &mut values);
            }
            at += item.chars().count() + 1;
        }
        Ok(values)
    }

    /// A message on the part that starts `at` characters into the field.
    pub(super) fn fault(&self, at: usize, what: &str) -> String {
        let (number, name, position) = (self.number, self.kind.name(), self.start + at + 1);
        format!("field {number} ({name}), position {position}: {what}")
    }

    fn whole_question_mark(&self, values: &mut Values) -> Result<(), String> {
        if !matches!(self.kind, Kind::MonthDay | Kind::WeekDay) {
            return Err(self.fault(0, "`?` belongs into a day field; write `*` for every value"));
        }
        let (from, to) = self.bounds();
        self.fill(&Range { from, to, step: 1 }, values);
        Ok(())
    }

    /// The least and the greatest number that may be written.
    fn bounds(&self) -> (u32, u32) {
        match self.kind {
            Kind::Second | Kind::Minute => (0, 59),
            Kind::Hour => (0, 23),
            Kind::MonthDay => (1, 31),
            Kind::Month => (1, 12),
            Kind::WeekDay if self.dialect == Dialect::Quartz => (1, 7),
            Kind::WeekDay => (0, 7),
            Kind::Year => (YEAR_MIN, YEAR_MAX),
        }
    }

    /// What `*` stands for. Spring's weekdays begin with Monday, which a step shows.
    fn star(&self) -> (u32, u32) {
        match (self.kind, self.dialect) {
            (Kind::WeekDay, Dialect::Spring) => (1, 7),
            _ => self.bounds(),
        }
    }

    /// The largest step: as many as there are values, for Quartz one less where they begin with 0.
    fn step_max(&self) -> u32 {
        let quartz = self.dialect == Dialect::Quartz;
        match self.kind {
            Kind::Second | Kind::Minute if quartz => 59,
            Kind::Hour if quartz => 23,
            Kind::WeekDay => 7,
            Kind::Second | Kind::Minute => 60,
            Kind::Hour => 24,
            Kind::MonthDay => 31,
            Kind::Month => 12,
            Kind::Year => YEAR_MAX - YEAR_MIN + 1,
        }
    }

    /// `*`, `a`, `a-b`, each with or without `/step`.
    fn range(&self, item: &str, at: usize) -> Result<Range, String> {
        let (base, step) = match item.split_once('/') {
            None => (item, None),
            Some((base, step)) => {
                let step_at = at + base.chars().count() + 1;
                (base, Some(self.step(step, step_at)?))
            }
        };
        let step_or_one = step.unwrap_or(1);
        if base == "*" || (base.is_empty() && self.dialect == Dialect::Quartz) {
            let (from, to) = self.star();
            return Ok(Range { from, to, step: step_or_one });
        }
        if base.is_empty() {
            return Err(self.fault(at, "the step has no start; write `*/n` or `a-b/n`"));
        }
        let Some((low, high)) = split_range(base) else {
            let from = self.value(base, at)?;
            // A step without an end runs to the last value.
            let to = if step.is_some() { self.bounds().1 } else { from };
            return Ok(Range { from, to, step: step_or_one });
        };
        let mut from = self.value(low, at)?;
        let to = self.value(high, at + low.chars().count() + 1)?;
        if self.kind == Kind::WeekDay && self.dialect == Dialect::Spring && from == 7 {
            // Spring reads a Sunday at the start of a range as 0.
            from = 0;
        }
        if self.kind == Kind::Year && from > to {
            return Err(self.fault(at, "the range of years runs backwards; put the earlier first"));
        }
        Ok(Range { from, to, step: step_or_one })
    }

    fn step(&self, text: &str, at: usize) -> Result<u32, String> {
        let max = self.step_max();
        let wanted = || format!("needs a step of 1 to {max} after the `/`, not {}", quote(text));
        match number(text) {
            Some(step) if (1..=max).contains(&step) => Ok(step),
            _ => Err(self.fault(at, &wanted())),
        }
    }

    /// A number or a name.
    pub(super) fn value(&self, text: &str, at: usize) -> Result<u32, String> {
        let (least, greatest) = self.bounds();
        if let Some(value) = number(text) {
            if (least..=greatest).contains(&value) {
                return Ok(value);
            }
            let what = format!("{} is outside {least}-{greatest}", quote(text));
            return Err(self.fault(at, &what));
        }
        if let Some(value) = self.named(text) {
            return Ok(value);
        }
        let names = match self.kind {
            Kind::Month => " or JAN-DEC",
            Kind::WeekDay => " or SUN-SAT",
            _ => "",
        };
        let what = if text.is_empty() {
            format!("a value is missing; use {least}-{greatest}{names}")
        } else {
            format!("{} is not understood; use {least}-{greatest}{names}", quote(text))
        };
        Err(self.fault(at, &what))
    }

    /// Three letters in any case; Quartz also takes the whole English name.
    fn named(&self, text: &str) -> Option<u32> {
        let names: &[&str] = match self.kind {
            Kind::Month => &MONTHS,
            Kind::WeekDay => &WEEKDAYS,
            _ => return None,
        };
        let quartz = self.dialect == Dialect::Quartz;
        let index = names.iter().position(|name| {
            text.eq_ignore_ascii_case(&name[..3]) || (quartz && text.eq_ignore_ascii_case(name))
        })?;
        let index = u32::try_from(index).ok()?;
        Some(match (self.kind, self.dialect) {
            (Kind::Month, _) | (Kind::WeekDay, Dialect::Quartz) => index + 1,
            (_, Dialect::Spring) if index == 0 => 7,
            _ => index,
        })
    }

    /// Sunday 0 – Saturday 6 for a number of this dialect.
    pub(super) fn weekday(&self, value: u32) -> u32 {
        if self.dialect == Dialect::Quartz { value - 1 } else { value % 7 }
    }

    /// Adds a range's values; one that runs backwards goes on at the field's first value.
    fn fill(&self, range: &Range, values: &mut Values) {
        let (least, _) = self.bounds();
        let count = match self.kind {
            Kind::Second | Kind::Minute => 60,
            Kind::Hour => 24,
            Kind::MonthDay => 31,
            Kind::Month => 12,
            Kind::WeekDay => 7,
            Kind::Year => YEAR_MAX - YEAR_MIN + 1,
        };
        let end = if range.from <= range.to { range.to } else { range.to + count };
        let mut value = range.from;
        while value <= end {
            // Past the last value; a weekday 7, where they begin with 0, is Sunday again.
            let wrapped = if value < least + count { value } else { value - count };
            match self.kind {
                Kind::Year => values.years.insert(wrapped),
                Kind::WeekDay => values.set |= 1 << self.weekday(wrapped),
                _ => values.set |= 1 << wrapped,
            }
            value += range.step;
        }
    }
}

/// Splits `a-b`; the first character is never the dash of a range.
fn split_range(text: &str) -> Option<(&str, &str)> {
    text.split_once('-').filter(|(low, _)| !low.is_empty())
}

/// Plain decimal digits, few enough to count with.
pub(super) fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}
