//! A cron text of any dialect into the normal form.

use super::days::{ALL_MONTH_DAYS, ALL_WEEK_DAYS, DayFilter, Join};
use super::fault::{ScheduleError, quote};
use super::field::{Field, Kind, Values};
use super::spec::{Parsed, Spec, Years};
use super::{CRON_TEXT_MAX, Dialect, every};

/// The macros, in unix form.
const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
const UNIX_FIELDS: [Kind; 5] =
    [Kind::Minute, Kind::Hour, Kind::MonthDay, Kind::Month, Kind::WeekDay];
const SECONDS_FIRST_FIELDS: [Kind; 7] = [
    Kind::Second,
    Kind::Minute,
    Kind::Hour,
    Kind::MonthDay,
    Kind::Month,
    Kind::WeekDay,
    Kind::Year,
];

/// Reads a cron text in the dialect given, or in the one found.
///
/// # Errors
/// Every fault, at most one per field.
pub(super) fn parse(text: &str, dialect: Option<Dialect>) -> Result<Parsed, Vec<ScheduleError>> {
    let one = |message: String| vec![ScheduleError::cron(message)];
    if text.len() > CRON_TEXT_MAX {
        return Err(one(format!("is longer than {CRON_TEXT_MAX} bytes; split it into schedules")));
    }
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if trimmed.is_empty() {
        return Err(one("is empty; write an expression such as `0 9 * * MON-FRI`".to_owned()));
    }
    if trimmed.starts_with('@') {
        return parse_macro(trimmed, dialect).map_err(one);
    }
    if let Some(prefix) = ["TZ=", "CRON_TZ="].iter().find(|prefix| trimmed.starts_with(**prefix)) {
        return Err(one(format!(
            "position 1: `{prefix}` is not taken here; put the zone into time_zone and leave the \
             expression alone"
        )));
    }
    let words = words(text);
    let dialect_taken = dialect.unwrap_or_else(|| detect(&words));
    let fields = assign(&words, dialect_taken).map_err(one)?;
    let mut spec = read(&fields, dialect_taken)?;
    spec.ambiguous = dialect.is_none() && is_ambiguous(&fields);
    Ok(Parsed::Spec(Box::new(spec)))
}

/// A macro, `@every` included; they are spelled small, but Spring reads them in any case.
fn parse_macro(text: &str, dialect: Option<Dialect>) -> Result<Parsed, String> {
    let dialect = dialect.unwrap_or(Dialect::Unix);
    let spring = dialect == Dialect::Spring;
    if let Some(period) = text.strip_prefix("@every").filter(|rest| !starts_word(rest)) {
        if spring {
            return Err("`@every` is not a macro of spring; use an interval, or another \
                        dialect"
                .to_owned());
        }
        let period = period.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let seconds = every::parse(period)
            .map_err(|what| format!("{} after `@every` {what}", quote(period)))?;
        return Ok(Parsed::Every { seconds, dialect });
    }
    let known = MACROS
        .iter()
        .find(|(name, _)| *name == text || (spring && text.eq_ignore_ascii_case(name)));
    let Some((_, meaning)) = known else {
        return Err(format!(
            "{} is no macro; there are @yearly, @annually, @monthly, @weekly, @daily, @midnight, \
             @hourly (small letters) and @every with a duration",
            quote(text)
        ));
    };
    let fields = assign(&words(meaning), Dialect::Unix)?;
    let spec = read(&fields, Dialect::Unix).map_err(|_| "is not understood".to_owned())?;
    Ok(Parsed::Spec(Box::new(Spec { dialect, ..spec })))
}

/// Whether `@every` goes on as a longer word, such as `@every_minute`.
fn starts_word(rest: &str) -> bool {
    rest.starts_with(|c: char| !c.is_ascii_whitespace())
}

/// The fields' texts, each with the number of characters before it.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut begin = None;
    let ends = text.char_indices().chain([(text.len(), ' ')]).enumerate();
    for (position, (index, c)) in ends {
        match (c.is_ascii_whitespace(), begin) {
            (false, None) => begin = Some((position, index)),
            (true, Some((start, from))) => {
                words.push((start, &text[from..index]));
                begin = None;
            }
            _ => {}
        }
    }
    words
}

/// The dialect that a text without one is taken for.
fn detect(words: &[(usize, &str)]) -> Dialect {
    let question_marks = words.iter().filter(|(_, word)| *word == "?").count();
    match (words.len(), question_marks) {
        (7, _) | (6, 1) => Dialect::Quartz,
        (6, _) => Dialect::Spring,
        _ => Dialect::Unix,
    }
}

/// Gives each word its meaning by the dialect's number of fields.
fn assign<'a>(words: &[(usize, &'a str)], dialect: Dialect) -> Result<Vec<Field<'a>>, String> {
    let (kinds, wanted): (&[Kind], _) = match (dialect, words.len()) {
        (Dialect::Unix, _) => (&UNIX_FIELDS, "5 fields: minute hour day month weekday"),
        (Dialect::Quartz, 7) => (&SECONDS_FIRST_FIELDS, ""),
        (Dialect::Quartz, _) => (
            &SECONDS_FIRST_FIELDS[..6],
            "6 or 7 fields: second minute hour day month weekday [year]",
        ),
        (Dialect::Spring, _) => {
            (&SECONDS_FIRST_FIELDS[..6], "6 fields: second minute hour day month weekday")
        }
    };
    if words.len() != kinds.len() {
        let (found, name) = (words.len(), dialect.name());
        let fields = if found == 1 { "field" } else { "fields" };
        return Err(format!("has {found} {fields}, but {name} takes {wanted}"));
    }
    let numbered = kinds.iter().zip(words).enumerate();
    Ok(numbered
        .map(|(index, (kind, (start, text)))| Field {
            kind: *kind,
            text,
            start: *start,
            number: index + 1,
            dialect,
        })
        .collect())
}

/// Reads every field and puts them together.
fn read(fields: &[Field<'_>], dialect: Dialect) -> Result<Spec, Vec<ScheduleError>> {
    let mut faults = Vec::new();
    let mut found: Vec<(Kind, Values)> = Vec::new();
    for field in fields {
        match field.parse() {
            Ok(values) => found.push((field.kind, values)),
            Err(fault) => faults.push(ScheduleError::cron(fault)),
        }
    }
    if dialect == Dialect::Quartz
        && let Err(fault) = quartz_day_fields(fields)
    {
        faults.push(ScheduleError::cron(fault));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut take = |kind: Kind| {
        let index = found.iter().position(|(other, _)| *other == kind)?;
        Some(found.swap_remove(index).1)
    };
    let second = take(Kind::Second).map_or(1, |values| values.set);
    let mut set = |kind: Kind| take(kind).map_or(0, |values| values.set);
    let (minutes, hours, months) = (set(Kind::Minute), set(Kind::Hour), set(Kind::Month));
    let years = take(Kind::Year).map_or(Years::ALL, |values| values.years);
    let month_day = take(Kind::MonthDay);
    let week_day = take(Kind::WeekDay);
    Ok(Spec {
        dialect,
        ambiguous: false,
        seconds: second,
        minutes,
        hours,
        months,
        years,
        days: DayFilter {
            month_days: month_day.as_ref().map_or(0, |values| values.set as u32) & ALL_MONTH_DAYS,
            month_specials: month_day.map(|values| values.month_specials).unwrap_or_default(),
            week_days: week_day.as_ref().map_or(0, |values| values.set as u8) & ALL_WEEK_DAYS,
            week_specials: week_day.map(|values| values.week_specials).unwrap_or_default(),
            join: join(fields, dialect),
        },
        follows_clock: fields.iter().any(|field| {
            matches!(field.kind, Kind::Second | Kind::Minute | Kind::Hour)
                && field.text.contains(['*', '/'])
        }),
    })
}

/// Unix cron takes either day field unless one of them starts with a star.
fn join(fields: &[Field<'_>], dialect: Dialect) -> Join {
    let open = fields.iter().any(|field| {
        matches!(field.kind, Kind::MonthDay | Kind::WeekDay) && field.text.starts_with(['*', '?'])
    });
    if dialect == Dialect::Unix && !open { Join::Or } else { Join::And }
}

/// Quartz wants `?` in exactly one of its day fields.
fn quartz_day_fields(fields: &[Field<'_>]) -> Result<(), String> {
    let days: Vec<_> = fields
        .iter()
        .filter(|field| matches!(field.kind, Kind::MonthDay | Kind::WeekDay))
        .collect();
    match (days.iter().filter(|field| field.text == "?").count(), days.last()) {
        (1, _) | (_, None) => Ok(()),
        (0, Some(last)) => Err(last.fault(
            0,
            "quartz wants `?` in the day of month or in the day of week, and found it in neither",
        )),
        (_, Some(last)) => {
            Err(last
                .fault(0, "quartz wants `?` in one of the two day fields, and found it in both"))
        }
    }
}

/// Six fields with one `?` and weekdays by number: Quartz counts from Sunday 1, Spring from
/// Monday 1, and either would have taken the text.
fn is_ambiguous(fields: &[Field<'_>]) -> bool {
    let counted = |item: &str| item.starts_with(|c: char| c.is_ascii_digit() || c == '*');
    fields.len() == 6
        && fields.iter().any(|field| field.text == "?")
        && fields.iter().any(|field| {
            field.kind == Kind::WeekDay && field.text != "*" && field.text.split(',').any(counted)
        })
}
