//! The flags that say when a job fires.

use clap::Args;
use clawjob_proto::v1::{Schedule, schedule::Trigger};
use jiff::tz::TimeZone;
use prost_types::Duration;

use crate::{
    names::{self, Kind},
    values::{self, DIALECTS},
};

/// When a job fires. Several triggers are several schedules of one job.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "When")]
pub(crate) struct ScheduleFlags {
    /// Fire by a cron expression; repeatable
    #[arg(long, value_name = "EXPR")]
    pub(super) cron: Vec<String>,
    /// Fire at a fixed rate; repeatable
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) every: Vec<Duration>,
    /// Fire once, at this instant; repeatable
    #[arg(long, value_name = "TIME")]
    pub(super) at: Vec<String>,
    /// Fire so long after the end of the last run
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) delay: Option<Duration>,
    /// No schedule: the job runs only when triggered
    #[arg(long, conflicts_with_all = ["cron", "every", "at", "delay"])]
    pub(super) no_schedule: bool,
    /// Time zone of the schedules, an IANA name [default: UTC]
    #[arg(long = "tz", value_name = "ZONE")]
    pub(super) time_zone: Option<String>,
    /// No fire before this instant
    #[arg(long, value_name = "TIME")]
    pub(super) start: Option<String>,
    /// No fire after this instant
    #[arg(long, value_name = "TIME")]
    pub(super) end: Option<String>,
    /// Spread fires over this window, each job at its own place in it
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) spread: Option<Duration>,
    /// Leave this day out (in the schedule's zone); repeatable, replaces all; '' is none
    #[arg(long = "exclude-date", value_name = "YYYY-MM-DD")]
    pub(super) excluded_dates: Vec<String>,
    /// Fire only on days of this calendar, APP/CALENDAR or CALENDAR of the job's app; repeatable,
    /// replaces all; '' is none
    #[arg(long = "include-calendar", value_name = "CALENDAR")]
    pub(super) include_calendars: Vec<String>,
    /// Leave the days and windows of this calendar out; repeatable, replaces all; '' is none
    #[arg(long = "exclude-calendar", value_name = "CALENDAR")]
    pub(super) exclude_calendars: Vec<String>,
    /// How to read --cron [default: found from its form]
    #[arg(long, value_name = "DIALECT", value_parser = values::one_of(&DIALECTS))]
    pub(super) dialect: Option<i32>,
}

impl ScheduleFlags {
    /// Changes a job's schedules; false when no flag says anything about them.
    ///
    /// New triggers replace the old ones. What surrounds a trigger (zone, start, end …) stays as
    /// it was unless a flag names it, as far as the old schedules agree on it: a new expression
    /// must not silently move a job to UTC.
    pub(super) fn apply(
        &self,
        schedules: &mut Vec<Schedule>,
        zone: &TimeZone,
        app: Option<&str>,
        faults: &mut Vec<String>,
    ) -> bool {
        let triggers = self.triggers(zone, faults);
        let around = self.around();
        if triggers.is_empty() && !self.no_schedule && !around {
            return false;
        }
        if self.no_schedule {
            if around {
                faults.push("--no-schedule: leave out --tz, --start and the like".into());
            }
            schedules.clear();
            return true;
        }
        if !triggers.is_empty() {
            let template = common(schedules);
            *schedules = triggers
                .into_iter()
                .map(|trigger| Schedule { trigger: Some(trigger), ..template.clone() })
                .collect();
        } else if schedules.is_empty() {
            faults.push("there is no schedule: give --cron, --every, --at or --delay too".into());
        }
        for schedule in schedules.iter_mut() {
            self.surround(schedule, zone, app, faults);
        }
        faults.dedup();
        true
    }

    fn triggers(&self, zone: &TimeZone, faults: &mut Vec<String>) -> Vec<Trigger> {
        let mut triggers: Vec<Trigger> = self.cron.iter().cloned().map(Trigger::Cron).collect();
        triggers.extend(self.every.iter().copied().map(Trigger::Interval));
        for text in &self.at {
            match values::instant(text, zone) {
                Ok(at) => triggers.push(Trigger::At(at)),
                Err(fault) => faults.push(format!("--at: {fault}")),
            }
        }
        triggers.extend(self.delay.map(Trigger::Delay));
        triggers
    }

    /// Whether a flag names what surrounds a trigger.
    fn around(&self) -> bool {
        self.time_zone.is_some()
            || self.start.is_some()
            || self.end.is_some()
            || self.spread.is_some()
            || self.dialect.is_some()
            || !self.excluded_dates.is_empty()
            || !self.include_calendars.is_empty()
            || !self.exclude_calendars.is_empty()
    }

    fn surround(
        &self,
        schedule: &mut Schedule,
        zone: &TimeZone,
        app: Option<&str>,
        faults: &mut Vec<String>,
    ) {
        if let Some(time_zone) = &self.time_zone {
            schedule.time_zone.clone_from(time_zone);
        }
        for (flag, text, place) in [
            ("--start", &self.start, &mut schedule.start_time),
            ("--end", &self.end, &mut schedule.end_time),
        ] {
            match text.as_deref().map(|text| values::instant(text, zone)) {
                Some(Ok(at)) => *place = Some(at),
                Some(Err(fault)) => faults.push(format!("{flag}: {fault}")),
                None => {}
            }
        }
        if self.spread.is_some() {
            schedule.spread = self.spread;
        }
        if !self.excluded_dates.is_empty() {
            let dates = self.excluded_dates.iter().filter(|date| !date.is_empty());
            schedule.excluded_dates = dates.cloned().collect();
        }
        for (flag, texts, place) in [
            ("--include-calendar", &self.include_calendars, &mut schedule.include_calendars),
            ("--exclude-calendar", &self.exclude_calendars, &mut schedule.exclude_calendars),
        ] {
            if texts.is_empty() {
                continue;
            }
            place.clear();
            for text in texts.iter().filter(|text| !text.is_empty()) {
                match names::full(Kind::Calendar, text, app) {
                    Ok(name) => place.push(name),
                    Err(e) => faults.push(format!("{flag}: {e}")),
                }
            }
        }
        if let (Some(dialect), Some(Trigger::Cron(_))) = (self.dialect, &schedule.trigger) {
            schedule.cron_dialect = dialect;
        }
    }
}

/// What all schedules agree on, without trigger and dialect.
fn common(schedules: &[Schedule]) -> Schedule {
    let Some((first, others)) = schedules.split_first() else { return Schedule::default() };
    let mut template = Schedule { trigger: None, cron_dialect: 0, ..first.clone() };
    for other in others {
        if other.time_zone != template.time_zone {
            template.time_zone.clear();
        }
        if other.start_time != template.start_time {
            template.start_time = None;
        }
        if other.end_time != template.end_time {
            template.end_time = None;
        }
        if other.spread != template.spread {
            template.spread = None;
        }
        if other.excluded_dates != template.excluded_dates {
            template.excluded_dates.clear();
        }
        if other.include_calendars != template.include_calendars {
            template.include_calendars.clear();
        }
        if other.exclude_calendars != template.exclude_calendars {
            template.exclude_calendars.clear();
        }
    }
    template
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shanghai(trigger: Trigger) -> Schedule {
        Schedule {
            trigger: Some(trigger),
            time_zone: "Asia/Shanghai".into(),
            cron_dialect: 1,
            ..Schedule::default()
        }
    }

    fn apply(flags: &ScheduleFlags, mut before: Vec<Schedule>) -> (Vec<Schedule>, Vec<String>) {
        let mut faults = Vec::new();
        flags.apply(&mut before, &TimeZone::UTC, Some("demo"), &mut faults);
        (before, faults)
    }

    #[test]
    fn a_new_expression_keeps_the_time_zone_and_forgets_the_dialect() {
        let flags = ScheduleFlags { cron: vec!["0 9 * * *".into()], ..Default::default() };
        let (after, faults) = apply(&flags, vec![shanghai(Trigger::Cron("1 1 * * *".into()))]);
        assert_eq!(faults, Vec::<String>::new());
        let wanted = shanghai(Trigger::Cron("0 9 * * *".into()));
        assert_eq!(after, [Schedule { cron_dialect: 0, ..wanted }]);
    }

    #[test]
    fn a_zone_alone_changes_every_schedule() {
        let flags = ScheduleFlags { time_zone: Some("Europe/Paris".into()), ..Default::default() };
        let before = vec![
            shanghai(Trigger::Cron("1 1 * * *".into())),
            shanghai(Trigger::Cron("2 2 * * *".into())),
        ];
        let (after, _) = apply(&flags, before);
        assert!(after.iter().all(|s| s.time_zone == "Europe/Paris" && s.trigger.is_some()));
    }

    #[test]
    fn each_trigger_is_a_schedule() {
        let flags = ScheduleFlags {
            cron: vec!["@daily".into()],
            every: vec![Duration { seconds: 5, nanos: 0 }],
            at: vec!["2030-01-01T00:00:00Z".into()],
            delay: Some(Duration { seconds: 9, nanos: 0 }),
            ..Default::default()
        };
        assert_eq!(apply(&flags, Vec::new()).0.len(), 4);
    }

    #[test]
    fn flags_that_make_no_sense_are_told_all_at_once() {
        let flags = ScheduleFlags {
            at: vec!["soon".into(), "later".into()],
            start: Some("x".into()),
            ..Default::default()
        };
        let (_, faults) = apply(&flags, Vec::new());
        assert_eq!(faults.len(), 3, "{faults:?}");
        let nothing = ScheduleFlags::default();
        let mut none = Vec::new();
        assert!(!nothing.apply(&mut none, &TimeZone::UTC, None, &mut Vec::new()));
    }

    #[test]
    fn calendars_are_of_the_jobs_app_unless_they_say_otherwise() {
        let flags = ScheduleFlags {
            include_calendars: vec!["work".into(), "other/days".into()],
            exclude_calendars: vec![String::new()],
            ..Default::default()
        };
        let before = Schedule {
            exclude_calendars: vec!["apps/demo/calendars/old".into()],
            ..shanghai(Trigger::Cron("1 1 * * *".into()))
        };
        let (after, faults) = apply(&flags, vec![before]);
        assert_eq!(faults, Vec::<String>::new());
        let wanted = ["apps/demo/calendars/work", "apps/other/calendars/days"];
        assert_eq!(after[0].include_calendars, wanted);
        assert!(after[0].exclude_calendars.is_empty());
    }
}
