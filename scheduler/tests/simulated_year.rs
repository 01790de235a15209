//! A year of two hundred mixed jobs in twelve time zones, with three outages: at the end every fire
//! time is accounted for by a row in the store, as a reader finds them who looks at each minute of
//! the year on each zone's wall clock.
//!
//! Planning and the misfire rules are the scheduler's own; executors are left out: what is due ends.
//! Usually a tenth of the year passes, all of it with `CLAWJOB_SOAK=1`.

#[path = "simulated_year/oracle.rs"]
mod oracle;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use clawjob_scheduler::{
    board::Board,
    clock::ManualClock,
    dispatch::Dispatcher,
    fleet::Reach,
    hub::{Hub, HubSettings},
    model::{
        calendar::{CalendarSpec, Window},
        ids::{AttemptRef, PARTITION_COUNT, PartitionId},
        job::{Job, JobSpec, JobState, MisfirePolicy, OverlapPolicy},
        run::{Outcome, RunRecord, RunState},
        schedule::Schedule,
    },
    node::Ownership,
    store::{
        SharedStore,
        ops::{AttemptEnd, EndRun, NewJob, RunQuery, RunScope, Scheduled, StateSet},
        schedules::NewCalendar,
        sqlite::SqliteStore,
    },
    trigger::Trigger,
};
use oracle::{Calendar, Cron, Every, Field, Plain, Zones};

const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Africa/Cairo",
    "Pacific/Chatham",
    "America/Havana",
];
const JOBS: usize = 200;
/// Runs that may be due before they are ended.
const SERVE_AT: usize = 200;
/// Lateness from which a fire time is missed.
const THRESHOLD: TimeDelta = TimeDelta::seconds(5);

/// The clocks of most zones change within the first tenth.
fn begin() -> DateTime<Utc> {
    "2026-03-05T00:00:30Z".parse().expect("an instant")
}

struct Year {
    store: SharedStore,
    board: Arc<Board>,
    trigger: Trigger,
    dispatcher: Dispatcher,
    open: usize,
    _dir: tempfile::TempDir,
}

/// What an owner has, with no executor in reach: what is due waits.
fn loops(store: &SharedStore, board: &Arc<Board>) -> (Trigger, Dispatcher) {
    let (hub, _events) = Hub::new(HubSettings::default(), ManualClock::new(begin()));
    let dispatcher = Dispatcher::new(store.clone(), board.clone(), Reach::alone(hub));
    (Trigger::new(store.clone(), board.clone()), dispatcher)
}

impl Year {
    async fn open() -> Self {
        let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = made.expect("a directory");
        let store: SharedStore = SqliteStore::open(dir.path()).expect("it opens");
        let board = Arc::new(Board::default());
        let (trigger, dispatcher) = loops(&store, &board);
        Self { store, board, trigger, dispatcher, open: 0, _dir: dir }
    }

    /// A scheduler's process begins.
    async fn start(&mut self, now: DateTime<Utc>) {
        self.board = Arc::new(Board::default());
        (self.trigger, self.dispatcher) = loops(&self.store, &self.board);
        let mut owner = Ownership::new(self.store.clone(), self.board.clone(), "node".to_owned());
        let step = owner.step().await.expect("a step");
        let taken = owner.take(&step.take, now).await.expect("taken");
        assert_eq!(taken, usize::from(PARTITION_COUNT));
    }

    /// It works from one instant to another.
    async fn work(&mut self, from: DateTime<Utc>, until: DateTime<Utc>) {
        let mut now = from;
        loop {
            self.trigger.settle_missed(now).await.expect("settled");
            let more = self.dispatcher.tick(now).await.expect("dispatched").more;
            assert!(!self.board.take_refused(), "nobody else changes the jobs");
            self.trigger.keep_standing(now).await.expect("written");
            let (_, runs) = self.board.sizes();
            self.open = runs;
            if runs >= SERVE_AT {
                self.serve(now).await;
            }
            if now >= until {
                self.serve(now).await;
                return;
            }
            if more {
                continue;
            }
            let wakes = [self.board.next_wake(), Some(until)];
            let next = wakes.into_iter().flatten().min().unwrap_or(until);
            now = next.max(now + TimeDelta::milliseconds(1)).min(until);
        }
    }

    /// What is due ends well.
    async fn serve(&mut self, now: DateTime<Utc>) {
        let all = (0..PARTITION_COUNT).map(PartitionId).collect();
        let open = self.store.load_open_runs(&RunScope::Partitions(all)).await.expect("open");
        let due: Vec<AttemptRef> =
            open.runs.iter().filter(|r| r.due_at <= now).map(|r| r.attempt_ref()).collect();
        for chunk in due.chunks(256) {
            let ends: Vec<EndRun> = chunk.iter().map(|attempt| succeeded(*attempt)).collect();
            self.store.end_runs(&ends, now).await.expect("ended");
            for attempt in chunk {
                self.board.ended(attempt.run, now);
            }
        }
    }

    async fn rows(&self, job: &Job, now: DateTime<Utc>) -> Vec<RunRecord> {
        let mut all: Vec<RunRecord> = Vec::new();
        loop {
            let query = RunQuery {
                apps: None,
                jobs: Some(vec![job.id]),
                conditions: Vec::new(),
                scheduled: Scheduled::Without,
                ascending: true,
                after: all.last().map(|run| run.run.id),
                limit: 1_000,
                full: false,
                now,
            };
            let page = self.store.list_runs(&query).await.expect("listed");
            let more = page.len() == 1_000;
            all.extend(page);
            if !more {
                return all;
            }
        }
    }
}

fn succeeded(attempt: AttemptRef) -> EndRun {
    EndRun {
        attempt,
        from: StateSet::only(RunState::Queued),
        to: RunState::Succeeded,
        end: AttemptEnd { outcome: Some(Outcome::Succeeded), ..AttemptEnd::default() },
        output: None,
        output_truncated: false,
        message: String::new(),
        missed: false,
    }
}

/// One job as the oracle knows it.
struct Case {
    spec: JobSpec,
    plain: Plain,
    time_zone: &'static str,
}

fn date(text: &str) -> NaiveDate {
    text.parse().expect("a date")
}

fn calendars() -> BTreeMap<&'static str, Calendar> {
    let at = |text: &str| text.parse::<DateTime<Utc>>().expect("an instant");
    let work = Calendar { weekdays: vec![1, 2, 3, 4, 5], ..Calendar::default() };
    let dates =
        ["2026-03-17", "2026-03-20", "2026-04-03", "2026-04-06", "2026-12-25", "2027-01-01"];
    let holidays = Calendar { dates: dates.map(date).to_vec(), ..Calendar::default() };
    let freeze = Calendar {
        windows: vec![
            (at("2026-03-11T10:30:00Z"), at("2026-03-13T02:15:00Z")),
            (at("2026-03-28T23:30:00Z"), at("2026-03-29T01:30:00Z")),
            (at("2026-11-01T00:00:00Z"), at("2026-11-08T00:00:00Z")),
        ],
        ..Calendar::default()
    };
    BTreeMap::from([("work", work), ("holidays", holidays), ("freeze", freeze)])
}

/// A mix of what companies have.
fn case(n: usize) -> Case {
    let time_zone = ZONES[n % ZONES.len()];
    let minute = (n * 7 % 60) as u32;
    let hour = (n % 4) as u32;
    let fixed = |minute, hour| Cron::new(Field::At(vec![minute]), Field::At(vec![hour]));
    let plain = match n % 10 {
        // Many at night, where clocks change.
        0..=2 => Plain::Cron(fixed(minute, hour)),
        3 => Plain::Cron(Cron { weekdays: Some(vec![1, 5]), ..fixed(minute, 12) }),
        4 => Plain::Cron(Cron { days: Some(vec![1, 15, 29]), ..fixed(minute, 2) }),
        5 => Plain::Cron(Cron::new(
            Field::At(vec![minute, (minute + 31) % 60]),
            Field::At(vec![1, 2, 3]),
        )),
        6 => Plain::Cron(Cron::new(Field::At(vec![minute]), Field::Every(1))),
        7 => Plain::Cron(Cron::new(Field::Every(30), Field::Range(8, 18))),
        8 => Plain::Every(Every { seconds: 3600 * (3 + n as i64 % 9) + n as i64 }),
        _ if n % 20 == 9 => Plain::Cron(Cron::new(Field::Every(20), Field::Every(1))),
        _ => Plain::Every(Every { seconds: 3_600 + n as i64 }),
    };
    let name = |calendar: &&str| format!("apps/day/calendars/{calendar}");
    let (include, exclude): (&[&str], &[&str]) = match n % 8 {
        1 => (&["work"], &["holidays"]),
        3 => (&[], &["freeze"]),
        5 => (&["holidays", "work"], &["freeze"]),
        _ => (&[], &[]),
    };
    let excluded: &[&str] = if n % 9 == 4 { &["2026-03-08", "2026-03-29"] } else { &[] };
    let spread =
        if n % 6 == 2 { Duration::from_secs(60 * (5 + n as u64 % 90)) } else { Duration::ZERO };
    let schedule = Schedule {
        trigger: plain.trigger(),
        time_zone: time_zone.to_owned(),
        end_at: (n % 40 == 7).then(|| begin() + TimeDelta::days(20)),
        spread,
        excluded_dates: excluded.iter().map(|text| date(text)).collect(),
        include_calendars: include.iter().map(name).collect(),
        exclude_calendars: exclude.iter().map(name).collect(),
        ..Schedule::default()
    };
    let misfire = match n % 3 {
        0 => MisfirePolicy::FireOnce,
        1 => MisfirePolicy::FireAll,
        _ => MisfirePolicy::Skip,
    };
    let spec = JobSpec {
        handler: "work".to_owned(),
        schedules: vec![schedule],
        overlap: OverlapPolicy::Allow,
        misfire,
        ..JobSpec::default()
    };
    Case { spec, plain, time_zone }
}

/// The fire times that the policy makes up for, of those missed (oldest first).
fn made_up(
    spec: &JobSpec,
    missed: &[DateTime<Utc>],
    back: DateTime<Utc>,
) -> BTreeSet<DateTime<Utc>> {
    let newest = missed.iter().rev();
    match spec.misfire {
        MisfirePolicy::Skip => BTreeSet::new(),
        MisfirePolicy::FireOnce => newest.take(1).copied().collect(),
        MisfirePolicy::FireAll => {
            newest.take(100).filter(|at| back - **at <= TimeDelta::hours(24)).copied().collect()
        }
    }
}

/// Looks at the rows of one job: each fire time that the oracle knows has run, or is part of one
/// decision, as the policy says; and there are no others. Returns how many ran and how many did not.
fn account(
    name: &str,
    case: &Case,
    fires: &[DateTime<Utc>],
    rows: &[RunRecord],
    outages: &[(DateTime<Utc>, DateTime<Utc>)],
) -> (usize, usize) {
    let schedule = &case.spec.schedules[0];
    let spread = TimeDelta::from_std(schedule.spread).expect("short");
    // The same for each run of the job, and less than the window.
    let own = rows.iter().filter(|row| row.missed_until.is_none());
    let offsets: BTreeSet<TimeDelta> = own
        .clone()
        .filter(|row| row.run.trigger.as_str() == "SCHEDULE")
        .map(|row| row.run.due_at - row.run.fire_at)
        .collect();
    assert!(offsets.len() <= 1, "{name} is spread by {offsets:?}");
    let offset = offsets.first().copied().unwrap_or_default();
    assert!(offset >= TimeDelta::zero() && (offset < spread || offset.is_zero()), "{name}");

    let mut skipped_wanted = BTreeSet::new();
    for (from, back) in outages {
        let missed = fires.iter().filter(|at| {
            let due = **at + offset;
            due > *from && due < *back - THRESHOLD
        });
        let missed: Vec<_> = missed.copied().collect();
        let kept = made_up(&case.spec, &missed, *back);
        skipped_wanted.extend(missed.into_iter().filter(|at| !kept.contains(at)));
    }

    let ran: BTreeSet<_> = own
        .clone()
        .filter(|row| row.run.state == RunState::Succeeded)
        .map(|row| row.run.fire_at)
        .collect();
    let alone: BTreeSet<_> =
        own.filter(|row| row.run.state == RunState::Skipped).map(|row| row.run.fire_at).collect();
    assert_eq!(ran.len() + alone.len(), rows.iter().filter(|r| r.missed_until.is_none()).count());
    let mut skipped = alone;
    for gap in rows.iter().filter(|row| row.missed_until.is_some()) {
        let until = gap.missed_until.expect("a gap");
        let within = fires.iter().filter(|at| (gap.run.fire_at..=until).contains(at));
        let within: Vec<_> = within.filter(|at| !ran.contains(at)).collect();
        assert_eq!(gap.missed_count as usize, within.len(), "{name}: a gap's count");
        for at in within {
            assert!(skipped.insert(*at), "{name}: {at} is decided twice");
        }
    }
    assert_eq!(skipped, skipped_wanted, "{name}: what did not run");
    let known: BTreeSet<_> = fires.iter().copied().collect();
    let all: BTreeSet<_> = ran.union(&skipped).copied().collect();
    let (lost, extra) = (known.difference(&all).next(), all.difference(&known).next());
    assert_eq!((lost, extra), (None, None), "{name} {:?}: lost, and out of turn", schedule);
    (ran.len(), skipped.len())
}

/// Makes the calendars and the jobs.
async fn make_all(
    year: &Year,
    calendars: &BTreeMap<&'static str, Calendar>,
    begin: DateTime<Utc>,
) -> Vec<(Case, Job)> {
    let app = year.store.ensure_app("day", begin).await.expect("an app");
    for (name, calendar) in calendars {
        let windows =
            calendar.windows.iter().map(|(start, end)| Window { start: *start, end: *end });
        let spec = CalendarSpec {
            dates: calendar.dates.clone(),
            weekdays: calendar.weekdays.clone(),
            windows: windows.collect(),
            ..CalendarSpec::default()
        };
        let new = NewCalendar { app: app.id, name: (*name).to_owned(), spec, request: None };
        year.store.create_calendar(&new, begin).await.expect("a calendar");
    }
    let mut jobs = Vec::new();
    for n in 0..JOBS {
        let case = case(n);
        let job = NewJob {
            app: app.id,
            name: format!("job-{n}"),
            state: JobState::Active,
            spec: case.spec.clone(),
            updated_by: "test".to_owned(),
            request: None,
        };
        let none = Box::new(|_: &_| Vec::new());
        let job = year.store.create_job(&job, none, begin).await.expect("created");
        jobs.push((case, job));
    }
    jobs
}

/// The fire times of a job, as the oracle finds them, dates and calendars heeded.
fn wanted(
    case: &Case,
    zones: &Zones,
    calendars: &BTreeMap<&'static str, Calendar>,
    begin: DateTime<Utc>,
    end: DateTime<Utc>,
) -> Vec<DateTime<Utc>> {
    let schedule = &case.spec.schedules[0];
    let mut fires = case.plain.fires(zones, case.time_zone, begin, end);
    fires.retain(|at| {
        let day = zones.date(case.time_zone, *at);
        let covers = |name: &String| {
            let name = name.rsplit('/').next().expect("a name");
            calendars[name].covers(day, *at)
        };
        let include = &schedule.include_calendars;
        (include.is_empty() || include.iter().any(covers))
            && !schedule.exclude_calendars.iter().any(covers)
            && !schedule.excluded_dates.contains(&day)
            && schedule.end_at.is_none_or(|end| *at < end)
    });
    fires
}

#[tokio::test]
async fn a_year_of_two_hundred_jobs_accounts_for_every_fire_time() {
    let soak = std::env::var_os("CLAWJOB_SOAK").is_some();
    let length = if soak { TimeDelta::days(365) } else { TimeDelta::hours(365 * 24 / 10) };
    let (begin, end) = (begin(), begin() + length);
    let mut year = Year::open().await;
    let calendars = calendars();
    let jobs = make_all(&year, &calendars, begin).await;
    let part = |percent: i32| begin + length * percent / 100;
    let outages = [
        (part(25), part(25) + TimeDelta::hours(3)),
        (part(55), part(55) + TimeDelta::hours(26)),
        (part(80), part(80) + TimeDelta::minutes(20)),
    ];
    let mut from = begin;
    for (gone, back) in outages {
        year.start(from).await;
        year.work(from, gone).await;
        from = back;
    }
    year.start(from).await;
    year.work(from, end).await;

    let zones = Zones::read(&ZONES, begin, end);
    let (mut ran, mut skipped) = (0, 0);
    for (n, (case, job)) in jobs.iter().enumerate() {
        let mut fires = wanted(case, &zones, &calendars, begin, end);
        let rows = year.rows(job, end).await;
        // A run that is spread beyond the end is planned, and not due.
        let spread = rows.iter().map(|row| row.run.due_at - row.run.fire_at).max();
        let is_spread = !case.spec.schedules[0].spread.is_zero();
        let spread = spread.filter(|_| is_spread).unwrap_or_default();
        fires.retain(|at| *at + spread <= end);
        let (done, not) = account(&format!("job-{n}"), case, &fires, &rows, &outages);
        ran += done;
        skipped += not;
    }
    assert!(ran > 20_000 && skipped > 200, "{ran} ran, {skipped} did not");
    println!("{ran} fire times ran, {skipped} were skipped with a record");
}
