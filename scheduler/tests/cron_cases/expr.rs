//! Random cron expressions as trees, with their texts and a plain reading of what they match.

use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, Timelike, Weekday};
use clawjob_scheduler::model::schedule::Dialect;
use proptest::prelude::*;

/// One item of a list, with the dialect's own numbers.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Star,
    Value(u32),
    Range(u32, u32, u32),
    StarStep(u32),
    FromStep(u32, u32),
    LastDay(u32),
    WeekdayNearLast,
    WeekdayNear(u32),
    Nth(u32, u32),
    LastWeekday(u32),
}

impl Item {
    fn text(&self) -> String {
        match *self {
            Item::Star => "*".to_owned(),
            Item::Value(value) => value.to_string(),
            Item::Range(from, to, 1) => format!("{from}-{to}"),
            Item::Range(from, to, step) => format!("{from}-{to}/{step}"),
            Item::StarStep(step) => format!("*/{step}"),
            Item::FromStep(from, step) => format!("{from}/{step}"),
            Item::LastDay(0) => "L".to_owned(),
            Item::LastDay(minus) => format!("L-{minus}"),
            Item::WeekdayNearLast => "LW".to_owned(),
            Item::WeekdayNear(day) => format!("{day}W"),
            Item::Nth(day, nth) => format!("{day}#{nth}"),
            Item::LastWeekday(day) => format!("{day}L"),
        }
    }

    /// Whether a number is among the item's, by walking it one number at a time.
    fn takes(&self, wanted: u32, least: u32, greatest: u32) -> bool {
        let (from, to, step) = match *self {
            Item::Star => (least, greatest, 1),
            Item::Value(value) => (value, value, 1),
            Item::Range(from, to, step) => (from, to, step),
            Item::StarStep(step) => (least, greatest, step),
            Item::FromStep(from, step) => (from, greatest, step),
            _ => return false,
        };
        let (mut at, mut steps) = (from, 0);
        loop {
            if at == wanted && steps % step == 0 {
                return true;
            }
            if at == to {
                return false;
            }
            at = if at == greatest { least } else { at + 1 };
            steps += 1;
        }
    }
}

/// An expression as a tree. `None` in a day field is `?`.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) dialect: Dialect,
    pub(crate) second: Vec<Item>,
    pub(crate) minute: Vec<Item>,
    pub(crate) hour: Vec<Item>,
    pub(crate) month_day: Option<Vec<Item>>,
    pub(crate) month: Vec<Item>,
    pub(crate) week_day: Option<Vec<Item>>,
}

fn list(items: &[Item]) -> String {
    items.iter().map(Item::text).collect::<Vec<_>>().join(",")
}

fn any(items: &[Item], wanted: u32, least: u32, greatest: u32) -> bool {
    items.iter().any(|item| item.takes(wanted, least, greatest))
}

impl Expr {
    pub(crate) fn text(&self) -> String {
        let day = |items: &Option<Vec<Item>>| items.as_deref().map_or("?".to_owned(), list);
        let mut fields = vec![
            list(&self.minute),
            list(&self.hour),
            day(&self.month_day),
            list(&self.month),
            day(&self.week_day),
        ];
        if self.dialect != Dialect::Unix {
            fields.insert(0, list(&self.second));
        }
        fields.join(" ")
    }

    /// Whether the second, minute or hour field has a star or a slash.
    pub(crate) fn follows_clock(&self) -> bool {
        let unix = self.dialect == Dialect::Unix;
        let second = if unix { String::new() } else { list(&self.second) };
        format!("{second}{}{}", list(&self.minute), list(&self.hour)).contains(['*', '/'])
    }

    pub(crate) fn matches(&self, local: NaiveDateTime) -> bool {
        let unix = self.dialect == Dialect::Unix;
        let second = unix && local.second() == 0 || any(&self.second, local.second(), 0, 59);
        second
            && any(&self.minute, local.minute(), 0, 59)
            && any(&self.hour, local.hour(), 0, 23)
            && self.matches_date(local.date())
    }

    pub(crate) fn matches_date(&self, date: NaiveDate) -> bool {
        let by_month = self
            .month_day
            .as_ref()
            .is_none_or(|items| items.iter().any(|item| month_day(item, date)));
        let by_week = self
            .week_day
            .as_ref()
            .is_none_or(|items| items.iter().any(|item| self.takes_weekday(item, date)));
        let open = |items: &Option<Vec<Item>>| {
            items.as_ref().is_none_or(|items| list(items).starts_with('*'))
        };
        let either =
            self.dialect == Dialect::Unix && !open(&self.month_day) && !open(&self.week_day);
        let day = if either { by_month || by_week } else { by_month && by_week };
        day && any(&self.month, date.month(), 1, 12)
    }

    fn takes_weekday(&self, item: &Item, date: NaiveDate) -> bool {
        let weekday = |number: u32| match self.dialect {
            Dialect::Quartz => number == date.weekday().number_from_sunday(),
            _ => number % 7 == date.weekday().num_days_from_sunday(),
        };
        match *item {
            Item::Nth(number, nth) => weekday(number) && (date.day() - 1) / 7 + 1 == nth,
            Item::LastWeekday(number) => {
                weekday(number) && (date + Days::new(7)).month() != date.month()
            }
            Item::Star => true,
            _ => {
                let (least, greatest) = match (self.dialect, item) {
                    (Dialect::Quartz, _) => (1, 7),
                    (Dialect::Spring, Item::StarStep(_)) => (1, 7),
                    (_, Item::Range(from, to, _)) if from > to => (0, 6),
                    _ => (0, 7),
                };
                (0..=7).any(|number| weekday(number) && item.takes(number, least, greatest))
            }
        }
    }
}

fn last_of_month(date: NaiveDate) -> NaiveDate {
    let mut day = date;
    while (day + Days::new(1)).month() == date.month() {
        day = day + Days::new(1);
    }
    day
}

fn month_day(item: &Item, date: NaiveDate) -> bool {
    match *item {
        Item::LastDay(minus) => date + Days::new(u64::from(minus)) == last_of_month(date),
        Item::WeekdayNearLast => nearest(last_of_month(date)) == date,
        Item::WeekdayNear(day) => date.with_day(day).is_some_and(|day| nearest(day) == date),
        _ => item.takes(date.day(), 1, 31),
    }
}

/// The closest day of the same month that is no weekend.
fn nearest(day: NaiveDate) -> NaiveDate {
    let works = |other: &NaiveDate| !matches!(other.weekday(), Weekday::Sat | Weekday::Sun);
    let distance = |other: &NaiveDate| (*other - day).num_days().abs();
    (1..=31).filter_map(|n| day.with_day(n)).filter(works).min_by_key(distance).unwrap()
}

fn plain(least: u32, greatest: u32, step_max: u32) -> impl Strategy<Value = Item> {
    let value = least..=greatest;
    prop_oneof![
        4 => value.clone().prop_map(Item::Value),
        2 => (value.clone(), value.clone(), 1..=step_max.min(7))
            .prop_map(|(from, to, step)| Item::Range(from, to, step)),
        1 => (1..=step_max).prop_map(Item::StarStep),
        1 => (value, 1..=step_max).prop_map(|(from, step)| Item::FromStep(from, step)),
        1 => Just(Item::Star),
    ]
}

fn lists(item: impl Strategy<Value = Item>) -> impl Strategy<Value = Vec<Item>> {
    prop::collection::vec(item, 1..4)
}

fn month_days() -> impl Strategy<Value = Vec<Item>> {
    lists(prop_oneof![
        4 => plain(1, 31, 31),
        1 => (0u32..=30).prop_map(Item::LastDay),
        1 => Just(Item::WeekdayNearLast),
        2 => (1u32..=31).prop_map(Item::WeekdayNear),
    ])
}

fn week_days(dialect: Dialect) -> BoxedStrategy<Vec<Item>> {
    let (least, greatest) = if dialect == Dialect::Quartz { (1u32, 7u32) } else { (0, 6) };
    let special = prop_oneof![
        (least..=greatest, 1u32..=5).prop_map(|(day, nth)| Item::Nth(day, nth)),
        (least..=greatest).prop_map(Item::LastWeekday),
    ];
    if dialect == Dialect::Quartz {
        let alone = special.prop_map(|item| vec![item]);
        prop_oneof![3 => lists(plain(1, 7, 7)), 1 => alone].boxed()
    } else {
        let sunday = Just(Item::Value(7));
        lists(prop_oneof![4 => plain(0, 6, 7), 1 => special, 1 => sunday]).boxed()
    }
}

/// Any expression of the dialect that the dialect takes.
pub(crate) fn expr(dialect: Dialect) -> impl Strategy<Value = Expr> {
    // Quartz refuses steps as large as the field.
    let less = u32::from(dialect == Dialect::Quartz);
    let star = || Just(vec![Item::Star]);
    let second = prop_oneof![3 => Just(vec![Item::Value(0)]), 1 => lists(plain(0, 59, 60 - less))];
    let minute = prop_oneof![1 => star(), 3 => lists(plain(0, 59, 60 - less))];
    let hour = prop_oneof![1 => star(), 3 => lists(plain(0, 23, 24 - less))];
    let month = prop_oneof![3 => star(), 1 => lists(plain(1, 12, 12))];
    let month_day = prop_oneof![1 => star(), 1 => month_days()];
    let week_day = prop_oneof![1 => star().boxed(), 1 => week_days(dialect)];
    let open = 0..3;
    (second, minute, hour, month_day, month, week_day, open).prop_map(
        move |(second, minute, hour, month_day, month, week_day, open)| {
            let (mut month_day, mut week_day) = (Some(month_day), Some(week_day));
            match (dialect, open) {
                (Dialect::Quartz, 0) | (_, 1) => month_day = None,
                (Dialect::Quartz, _) => week_day = None,
                _ => {}
            }
            let second = if dialect == Dialect::Unix { vec![Item::Value(0)] } else { second };
            Expr { dialect, second, minute, hour, month_day, month, week_day }
        },
    )
}
