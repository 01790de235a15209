//! `clawjob calendars`.

use clap::{Args, Subcommand};
use clawjob_proto::v1::{
    Calendar, CreateCalendarRequest, DeleteCalendarRequest, GetCalendarRequest,
    ListCalendarsRequest, UpdateCalendarRequest, calendar::Window,
};
use jiff::tz::TimeZone;
use prost_types::FieldMask;
use tonic::Code;

use crate::{
    client::{self, Call, Client, calendars},
    context::Context,
    error::CliError,
    names::{self, Kind},
    output::{self, Columns, Fields},
    paging::{self, ListArgs, Page},
    show::{self, Cell},
    values,
};

/// How often an update is made anew because the calendar changed between reading and writing it.
const UPDATE_TRIES_MAX: u32 = 3;
/// Weekdays as people write them, Monday first.
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Commands about calendars: sets of days that schedules include or exclude. A name is
/// APP/CALENDAR, or CALENDAR with --app.
#[derive(Subcommand, Debug, Clone)]
pub enum CalendarsCommand {
    /// Create a calendar
    Create(CalendarArgs),
    /// Show one calendar
    Get {
        /// APP/CALENDAR
        name: String,
    },
    /// List calendars
    List(CalendarsListArgs),
    /// Change a calendar: only what is named; jobs that use it are planned anew
    Update(CalendarArgs),
    /// Delete a calendar that no job uses
    Delete {
        /// APP/CALENDAR
        name: String,
        /// Only if it is still at this etag
        #[arg(long, default_value = "", hide_default_value = true)]
        etag: String,
    },
}

/// What `calendars list` takes.
#[derive(Args, Debug, Clone)]
pub struct CalendarsListArgs {
    #[command(flatten)]
    list: ListArgs,
}

/// A calendar's name and content.
#[derive(Args, Debug, Clone)]
pub struct CalendarArgs {
    /// APP/CALENDAR
    name: String,
    /// Its name for people
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// A day, in the zone of the schedule that uses it; repeatable, replaces all dates; '' is none
    #[arg(long = "date", value_name = "YYYY-MM-DD")]
    dates: Vec<String>,
    /// Days of each week, such as sat,sun, or 1 (Monday) to 7; replaces all; '' is none
    #[arg(long, value_name = "DAY,…", value_delimiter = ',')]
    weekdays: Vec<String>,
    /// A stretch of time, START/END; repeatable, replaces all; '' is none
    #[arg(long = "window", value_name = "START/END")]
    windows: Vec<String>,
}

const CALENDARS: Columns<Calendar> = Columns {
    headers: &["CALENDAR", "NAME", "WEEKDAYS", "DATES", "WINDOWS"],
    row: |calendar, _| {
        vec![
            names::short(&calendar.name).into(),
            Cell::from(&calendar.display_name),
            weekdays(&calendar.weekdays).into(),
            show::count(calendar.dates.len() as u64).into(),
            show::count(calendar.windows.len() as u64).into(),
        ]
    },
};

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, command: CalendarsCommand) -> Result<(), CliError> {
    match command {
        CalendarsCommand::Create(args) => {
            let name = ctx.name(Kind::Calendar, &args.name)?;
            let mut calendar = Calendar { name, ..Calendar::default() };
            args.apply(&mut calendar, &ctx.term.zone)?;
            let calendar = create(&mut ctx.client, calendar).await?;
            print(ctx, &calendar)
        }
        CalendarsCommand::Get { name } => {
            let name = ctx.name(Kind::Calendar, &name)?;
            let calendar = get(&mut ctx.client, name).await?;
            print(ctx, &calendar)
        }
        CalendarsCommand::List(args) => {
            let parent = ctx.parent();
            paging::print_list(
                ctx,
                &args.list,
                "calendars",
                &CALENDARS,
                async |client, size, token| page(client, parent.clone(), size, token).await,
            )
            .await
        }
        CalendarsCommand::Update(args) => update(ctx, args).await,
        CalendarsCommand::Delete { name, etag } => {
            let name = ctx.name(Kind::Calendar, &name)?;
            delete(&mut ctx.client, name.clone(), etag).await?;
            ctx.done(&format!("deleted {}", names::short(&name)))
        }
    }
}

/// Reads the calendar, changes it by the flags and writes it back under its etag.
async fn update(ctx: &mut Context<'_>, args: CalendarArgs) -> Result<(), CliError> {
    let name = ctx.name(Kind::Calendar, &args.name)?;
    for tried in 1.. {
        let mut calendar = get(&mut ctx.client, name.clone()).await?;
        let paths = args.apply(&mut calendar, &ctx.term.zone)?;
        if paths.is_empty() {
            return Err(CliError::usage("nothing to change: give at least one option"));
        }
        match write(&mut ctx.client, calendar, paths).await {
            Ok(calendar) => return print(ctx, &calendar),
            Err(CliError::Status(status))
                if status.code() == Code::Aborted && tried < UPDATE_TRIES_MAX => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Creates a calendar under its full name.
///
/// # Errors
/// What the server says.
pub(crate) async fn create(client: &mut Client, calendar: Calendar) -> Result<Calendar, CliError> {
    let (app, id) = names::split(&calendar.name)
        .ok_or_else(|| CliError::usage(format!("calendar {:?}: not a name", calendar.name)))?;
    let rq = CreateCalendarRequest {
        parent: format!("apps/{app}"),
        calendar_id: id.into(),
        request_id: client::request_id(),
        calendar: Some(calendar),
    };
    client.call(Call::SAFE, rq, async |ch, rq| calendars(ch).create_calendar(rq).await).await
}

/// One calendar by its full name.
///
/// # Errors
/// What the server says.
pub(crate) async fn get(client: &mut Client, name: String) -> Result<Calendar, CliError> {
    let rq = GetCalendarRequest { name };
    client.call(Call::SAFE, rq, async |ch, rq| calendars(ch).get_calendar(rq).await).await
}

/// One page of calendars.
///
/// # Errors
/// What the server says.
pub(crate) async fn page(
    client: &mut Client,
    parent: String,
    page_size: i32,
    page_token: String,
) -> Result<Page<Calendar>, CliError> {
    let rq = ListCalendarsRequest { parent, page_size, page_token };
    let rpc = async |ch, rq| calendars(ch).list_calendars(rq).await;
    let page = client.call(Call::SAFE, rq, rpc).await?;
    Ok((page.calendars, page.next_page_token))
}

/// Sends an update of these fields, under the calendar's etag.
///
/// # Errors
/// What the server says.
pub(crate) async fn write(
    client: &mut Client,
    calendar: Calendar,
    paths: Vec<String>,
) -> Result<Calendar, CliError> {
    let update_mask = Some(FieldMask { paths });
    let rq = UpdateCalendarRequest { calendar: Some(calendar), update_mask };
    client.call(Call::ONCE, rq, async |ch, rq| calendars(ch).update_calendar(rq).await).await
}

/// Deletes a calendar.
///
/// # Errors
/// What the server says.
pub(crate) async fn delete(
    client: &mut Client,
    name: String,
    etag: String,
) -> Result<(), CliError> {
    let rq = DeleteCalendarRequest { name, etag };
    client.call(Call::ONCE, rq, async |ch, rq| calendars(ch).delete_calendar(rq).await).await
}

impl CalendarArgs {
    /// Changes the calendar as the flags say; returns the paths of the fields they name.
    fn apply(&self, calendar: &mut Calendar, zone: &TimeZone) -> Result<Vec<String>, CliError> {
        let (mut paths, mut faults) = (Vec::new(), Vec::new());
        if let Some(name) = &self.display_name {
            calendar.display_name.clone_from(name);
            paths.push("display_name".into());
        }
        if !self.dates.is_empty() {
            calendar.dates = self.dates.iter().filter(|date| !date.is_empty()).cloned().collect();
            paths.push("dates".into());
        }
        if !self.weekdays.is_empty() {
            let days = self.weekdays.iter().filter(|day| !day.is_empty());
            let days = days.map(|day| weekday(day).map_err(|e| format!("--weekdays: {e}")));
            calendar.weekdays =
                days.filter_map(|day| day.map_err(|fault| faults.push(fault)).ok()).collect();
            paths.push("weekdays".into());
        }
        if !self.windows.is_empty() {
            let windows = self.windows.iter().filter(|window| !window.is_empty());
            let windows = windows.map(|text| window(text, zone));
            calendar.windows = windows
                .filter_map(|window| {
                    window.map_err(|fault| faults.push(format!("--window: {fault}"))).ok()
                })
                .collect();
            paths.push("windows".into());
        }
        if faults.is_empty() { Ok(paths) } else { Err(CliError::Usage(faults)) }
    }
}

/// A weekday by its name, or its number from 1 (Monday).
///
/// # Errors
/// Anything else.
pub(crate) fn weekday(text: &str) -> Result<i32, String> {
    let lower = text.trim().to_lowercase();
    let named = WEEKDAYS.iter().position(|name| lower.starts_with(name));
    let number = match named {
        Some(place) => i32::try_from(place + 1).ok(),
        None => lower.parse().ok().filter(|day| (1..=7).contains(day)),
    };
    number.ok_or_else(|| format!("{text:?} is no weekday; write mon to sun, or 1 to 7"))
}

fn weekdays(days: &[i32]) -> String {
    let name = |day: &i32| {
        let place = usize::try_from(day - 1).ok();
        place.and_then(|place| WEEKDAYS.get(place)).map_or_else(|| day.to_string(), |n| (*n).into())
    };
    days.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn window(text: &str, zone: &TimeZone) -> Result<Window, String> {
    let (start, end) = text.split_once('/').ok_or("write START/END, two instants")?;
    Ok(Window {
        start_time: Some(values::instant(start, zone)?),
        end_time: Some(values::instant(end, zone)?),
    })
}

fn print(ctx: &mut Context<'_>, calendar: &Calendar) -> Result<(), CliError> {
    output::message(ctx.term, ctx.format, calendar, fields)
}

fn fields(calendar: &Calendar, zone: &TimeZone) -> Fields {
    let windows = calendar.windows.iter().map(|window| {
        let at = |at: &Option<prost_types::Timestamp>| show::instant(at.as_ref(), zone);
        format!("{} to {}", at(&window.start_time), at(&window.end_time))
    });
    vec![
        ("calendar", names::short(&calendar.name).into()),
        ("name", Cell::from(&calendar.display_name)),
        ("weekdays", weekdays(&calendar.weekdays).into()),
        ("dates", calendar.dates.join(", ").into()),
        ("windows", windows.collect::<Vec<_>>().join("; ").into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weekdays_are_names_or_numbers() {
        let read: Vec<_> = ["mon", "Saturday", "7", " sun"].map(weekday).into_iter().collect();
        assert_eq!(read, [Ok(1), Ok(6), Ok(7), Ok(7)]);
        assert!(weekday("8").is_err() && weekday("0").is_err() && weekday("day").is_err());
        assert_eq!(weekdays(&[1, 6, 9]), "mon, sat, 9");
    }

    #[test]
    fn flags_replace_what_they_name_and_tell_all_faults() {
        let args = |dates: &[&str], windows: &[&str]| CalendarArgs {
            name: "demo/c".into(),
            display_name: None,
            dates: dates.iter().map(|date| (*date).into()).collect(),
            weekdays: Vec::new(),
            windows: windows.iter().map(|window| (*window).into()).collect(),
        };
        let mut calendar =
            Calendar { dates: vec!["2026-01-01".into()], weekdays: vec![1], ..Calendar::default() };
        let paths = args(&[""], &["2026-01-01T00:00:00Z/2026-01-02T00:00:00Z"])
            .apply(&mut calendar, &TimeZone::UTC)
            .unwrap();
        assert_eq!(paths, ["dates", "windows"]);
        assert!(calendar.dates.is_empty() && calendar.weekdays == [1]);
        assert_eq!(calendar.windows.len(), 1);
        let faults = args(&[], &["x", "y/z"]).apply(&mut calendar, &TimeZone::UTC);
        assert!(matches!(faults, Err(CliError::Usage(faults)) if faults.len() == 2));
    }
}
