//! The items of the day fields that depend on the month: `L`, `W` and `#`.

use super::Dialect;
use super::days::{MonthDay, WeekDay};
use super::fault::quote;
use super::field::{Field, Kind, Values, number};

/// Farthest that `L-n` reaches back.
const FROM_LAST_MAX: u32 = 30;
/// Most times a weekday occurs in a month.
const NTH_MAX: u32 = 5;

impl Field<'_> {
    /// `L`, `W` and `#`; `false` when the item is none of these.
    pub(super) fn special(
        &self,
        item: &str,
        at: usize,
        listed: bool,
        values: &mut Values,
    ) -> Result<bool, String> {
        match self.kind {
            Kind::MonthDay => {
                let Some(day) = self.month_special(item, at)? else { return Ok(false) };
                values.month_specials.push(day);
                Ok(true)
            }
            Kind::WeekDay if self.dialect == Dialect::Quartz && item.eq_ignore_ascii_case("L") => {
                self.alone("L", at, listed)?;
                values.set |= 1 << 6;
                Ok(true)
            }
            Kind::WeekDay => {
                let Some(day) = self.week_special(item, at, listed)? else { return Ok(false) };
                values.week_specials.push(day);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// `L`, `L-n`, `LW`, `L-nW`, `nW`.
    fn month_special(&self, item: &str, at: usize) -> Result<Option<MonthDay>, String> {
        let upper = item.to_ascii_uppercase();
        let (day, weekday) = match upper.strip_suffix('W') {
            Some(day) => (day, true),
            None => (upper.as_str(), false),
        };
        if let Some(rest) = day.strip_prefix('L') {
            let minus = match rest.strip_prefix('-') {
                None if rest.is_empty() => Some(0),
                None => None,
                Some(text) => number(text).filter(|minus| self.reaches_back(*minus, weekday)),
            };
            let what = "use `L`, `L-1` to `L-30`, or `LW`";
            let Some(minus) = minus else {
                return Err(self.fault(at, &format!("{} is not understood; {what}", quote(item))));
            };
            return Ok(Some(match weekday {
                true => MonthDay::WeekdayNearLast(minus),
                false => MonthDay::FromLast(minus),
            }));
        }
        if !weekday {
            return Ok(None);
        }
        match number(day).filter(|day| (1..=31).contains(day)) {
            Some(day) => Ok(Some(MonthDay::WeekdayNear(day))),
            None => {
                let what = format!("{} needs one day 1-31 before the `W`", quote(item));
                Err(self.fault(at, &what))
            }
        }
    }

    /// Whether `L-n` may have this n. Spring knows neither `L-0` nor `L-nW`.
    fn reaches_back(&self, minus: u32, weekday: bool) -> bool {
        let least = u32::from(self.dialect == Dialect::Spring);
        (least..=FROM_LAST_MAX).contains(&minus) && !(weekday && self.dialect == Dialect::Spring)
    }

    /// `d#n` and `dL`, where d is a number or a name.
    fn week_special(&self, item: &str, at: usize, listed: bool) -> Result<Option<WeekDay>, String> {
        if let Some((day, nth)) = item.split_once('#') {
            let weekday = self.weekday(self.value(day, at)?);
            let nth_at = at + day.chars().count() + 1;
            let Some(nth) = number(nth).filter(|nth| (1..=NTH_MAX).contains(nth)) else {
                let what = format!("needs 1 to {NTH_MAX} after the `#`, not {}", quote(nth));
                return Err(self.fault(nth_at, &what));
            };
            self.alone("#", at, listed)?;
            return Ok(Some(WeekDay::Nth(weekday, nth)));
        }
        let Some(day) = item.strip_suffix(['L', 'l']) else { return Ok(None) };
        // `FRIL`, but not `APRIL`: a value must stand before the L.
        let weekday = self.weekday(self.value(day, at)?);
        self.alone("L", at, listed)?;
        Ok(Some(WeekDay::Last(weekday)))
    }

    /// Quartz takes these in the day of week only as the whole field.
    fn alone(&self, what: &str, at: usize, listed: bool) -> Result<(), String> {
        if listed && self.dialect == Dialect::Quartz {
            let message = format!("in Quartz a day of week with `{what}` must stand alone");
            return Err(self.fault(at, &message));
        }
        Ok(())
    }
}
