//! A whole day on a clock that is moved by hand: a hundred jobs, an executor that is lost, a slow
//! one, and a database that is away for a while. At the end every fire time is accounted for. The
//! same on the days of 23 and of 25 hours.

#[path = "support/flaky.rs"]
mod flaky;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_proto::v1::{Outcome, RunResult, session_response::Frame};
use clawjob_scheduler::{
    board::Board,
    clock::{Clock as _, ManualClock},
    hub::{Hub, HubSettings, event::EventReceiver, local::LocalExecutor},
    janitor::LostRules,
    model::{
        executor::{ExecutorSpec, Handler},
        ids::{AttemptRef, JobId, RunId},
        job::{Job, JobSpec, JobState, MisfirePolicy, OverlapPolicy},
        run::{OpenRun, RunRecord, RunState},
        schedule::{Schedule, Trigger},
    },
    owner::{Nudge, Owner},
    results::{Results, RunListener, Specs},
    store::{
        SharedStore,
        ops::{NewJob, RunQuery, Scheduled},
        sqlite::SqliteStore,
    },
};
use flaky::Flaky;
use tokio_util::sync::CancellationToken;

/// Longest jump of the clock: heartbeats must keep coming.
const STEP_MAX: TimeDelta = TimeDelta::seconds(5);
/// When the database goes away, for so long.
const OUTAGE: (TimeDelta, TimeDelta) = (TimeDelta::hours(13), TimeDelta::seconds(95));
/// When one executor vanishes for good.
const LOSS: TimeDelta = TimeDelta::minutes(6 * 60 + 3);

struct Known(Arc<Board>);

impl Specs for Known {
    fn spec(&self, run: &OpenRun) -> Option<Arc<JobSpec>> {
        self.0.spec_of(run.id)
    }
}

impl RunListener for Known {
    fn ended(&self, run: RunId, _: JobId, _: RunState, at: DateTime<Utc>) {
        self.0.ended(run, at);
    }

    fn put_back(&self, run: OpenRun) {
        self.0.put_back(run);
    }

    fn acked(&self, attempt: AttemptRef, at: DateTime<Utc>) {
        self.0.acked(attempt, at);
    }
}

/// An executor with the runs it is at work on.
struct Worker {
    executor: LocalExecutor,
    takes: TimeDelta,
    busy: BTreeMap<(DateTime<Utc>, RunId), AttemptRef>,
    gone: bool,
}

/// A directory in memory where there is one: loss of power is not the subject here, and a day has
/// some hundred thousand commits.
fn memory_dir() -> tempfile::TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.expect("a directory")
}

struct World {
    clock: Arc<ManualClock>,
    flaky: Arc<Flaky>,
    store: SharedStore,
    board: Arc<Board>,
    hub: Arc<Hub>,
    results: Results,
    events: EventReceiver,
    owner: Owner,
    workers: Vec<Worker>,
    /// (run, attempt) of every execution.
    ledger: HashMap<RunId, Vec<u32>>,
    beat_at: DateTime<Utc>,
    down: bool,
    _dir: tempfile::TempDir,
}

impl World {
    async fn new(begin: DateTime<Utc>) -> Self {
        let dir = memory_dir();
        let clock = ManualClock::new(begin);
        let flaky = Flaky::new(SqliteStore::open(dir.path()).expect("it opens"));
        let store: SharedStore = flaky.clone();
        let board = Arc::new(Board::default());
        let (hub, events) = Hub::new(HubSettings::default(), clock.clone());
        let known = Arc::new(Known(board.clone()));
        let results = Results::new(
            store.clone(),
            hub.clone(),
            known.clone(),
            known,
            clock.clone(),
            CancellationToken::new(),
        );
        let rules = LostRules {
            lost_after: Duration::from_secs(60),
            takeover_grace: Duration::from_secs(60),
        };
        let owner = Owner::new(store.clone(), board.clone(), hub.clone(), "node".to_owned(), rules);
        Self {
            clock,
            flaky,
            store,
            board,
            hub,
            results,
            events,
            owner,
            workers: Vec::new(),
            ledger: HashMap::new(),
            beat_at: begin,
            down: false,
            _dir: dir,
        }
    }

    async fn add_worker(&mut self, name: &str, slots: u32, takes: TimeDelta) {
        let handler = Handler {
            name: "work".to_owned(),
            max_concurrency: 0,
            params_schema: String::new(),
            description: String::new(),
        };
        let spec = ExecutorSpec { handlers: vec![handler], slots, ..ExecutorSpec::default() };
        let store = self.store.clone();
        let executor = LocalExecutor::connect(&self.hub, &*store, "day", name, name, spec)
            .await
            .expect("it connects");
        self.workers.push(Worker { executor, takes, busy: BTreeMap::new(), gone: false });
    }

    async fn run_until(&mut self, begin: DateTime<Utc>, end: DateTime<Utc>) {
        while self.clock.now() < end {
            let now = self.clock.now();
            self.set_down(now >= begin + OUTAGE.0 && now < begin + OUTAGE.0 + OUTAGE.1);
            if now >= begin + LOSS && !self.workers[0].gone {
                self.workers[0].gone = true;
                self.workers[0].executor.break_off();
            }
            self.settle().await;
            let next = self.next_event(now).min(end);
            self.clock.advance((next - now).to_std().expect("time goes forward"));
        }
    }

    fn set_down(&mut self, down: bool) {
        if self.down != down {
            self.down = down;
            self.flaky.set_down(down);
        }
    }

    /// Lets everybody act until nothing moves any more at this instant.
    async fn settle(&mut self) {
        let now = self.clock.now();
        if now >= self.beat_at {
            self.beat_at = now + STEP_MAX;
            for worker in self.workers.iter_mut().filter(|worker| !worker.gone) {
                worker.executor.heartbeat();
            }
            self.hub.tick(now, self.clock.elapsed());
        }
        for _ in 0..50 {
            let mut moved = self.work(now);
            if !self.down {
                while self.results.step(&mut self.events).await > 0 {
                    moved = true;
                }
            }
            let wake = self.owner.tick(now, Nudge { jobs: false, inbox: moved }).await;
            moved |= wake <= now;
            moved |= self.work(now);
            if !moved {
                return;
            }
        }
    }

    fn work(&mut self, now: DateTime<Utc>) -> bool {
        let mut moved = false;
        for worker in self.workers.iter_mut().filter(|worker| !worker.gone) {
            worker.executor.flush();
            for frame in worker.executor.receive() {
                if let Frame::Run(run) = frame
                    && let Some(attempt) = worker.executor.accept(&run)
                {
                    self.ledger.entry(attempt.run).or_default().push(attempt.attempt);
                    worker.busy.insert((now + worker.takes, attempt.run), attempt);
                    moved = true;
                }
            }
            while let Some((&(at, run), &attempt)) = worker.busy.first_key_value()
                && at <= now
            {
                worker.busy.remove(&(at, run));
                let outcome = Outcome::Succeeded.into();
                worker.executor.finish(attempt, RunResult { outcome, ..RunResult::default() });
                moved = true;
            }
        }
        moved
    }

    fn next_event(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        let plan_ahead = TimeDelta::seconds(4);
        let plan = self.board.next_fire().map(|fire| fire - plan_ahead);
        let done = self.workers.iter().filter(|worker| !worker.gone);
        let done = done.filter_map(|worker| worker.busy.first_key_value()).map(|(key, _)| key.0);
        let events = [plan, self.board.next_wake(), done.min(), Some(now + STEP_MAX)];
        let next = events.into_iter().flatten().min().unwrap_or(now + STEP_MAX);
        next.max(now + TimeDelta::milliseconds(20))
    }
}

fn cron(text: &str, time_zone: &str) -> Schedule {
    Schedule {
        trigger: Trigger::Cron { text: text.to_owned(), dialect: None },
        time_zone: time_zone.to_owned(),
        ..Schedule::default()
    }
}

/// A mix of what companies have.
fn spec(index: usize, time_zone: &str) -> JobSpec {
    let minute = index % 60;
    let schedule = match index % 10 {
        0 => cron(&format!("{minute} 2 * * *"), time_zone),
        1 => cron(&format!("{minute} * * * *"), time_zone),
        2 => cron("*/15 * * * *", time_zone),
        3 => cron("0 0/10 * * * ?", time_zone),
        4 => cron(&format!("0 {minute} 1-4 * * *"), time_zone),
        5 => Schedule {
            trigger: Trigger::Interval(Duration::from_secs(300 + index as u64)),
            ..Schedule::default()
        },
        6 => cron(&format!("30 {minute} 2 * * ?"), time_zone),
        7 => cron("*/5 8-18 * * *", time_zone),
        8 => cron(&format!("@every {}m", 7 + index % 5), time_zone),
        _ => cron("* * * * *", time_zone),
    };
    let overlap = match index % 3 {
        0 => OverlapPolicy::Skip,
        1 => OverlapPolicy::Allow,
        _ => OverlapPolicy::Queue,
    };
    let misfire =
        if index.is_multiple_of(2) { MisfirePolicy::FireOnce } else { MisfirePolicy::Skip };
    JobSpec {
        handler: "work".to_owned(),
        schedules: vec![schedule],
        overlap,
        misfire,
        ..JobSpec::default()
    }
}

async fn simulate(begin: DateTime<Utc>, hours: i64, jobs: usize, time_zone: &str) {
    let mut world = World::new(begin).await;
    let app = world.store.ensure_app("day", begin).await.expect("an app");
    let mut made = Vec::new();
    for index in 0..jobs {
        let job = NewJob {
            app: app.id,
            name: format!("job-{index}"),
            state: JobState::Active,
            spec: spec(index, time_zone),
            updated_by: "test".to_owned(),
            request: None,
        };
        let none = Box::new(|_: &_| Vec::new());
        made.push(world.store.create_job(&job, none, begin).await.expect("created"));
    }
    world.add_worker("lost", 20, TimeDelta::seconds(2)).await;
    world.add_worker("slow", 20, TimeDelta::seconds(90)).await;
    world.add_worker("steady", 20, TimeDelta::seconds(1)).await;
    let end = begin + TimeDelta::hours(hours);
    world.run_until(begin, end).await;
    // What was under way ends.
    let rest = end + TimeDelta::minutes(20);
    world.run_until(begin, rest).await;
    let runs = all_runs(&world.store, rest).await;
    let fires = check(&made, &runs, &world.ledger, begin, end);
    println!("{fires} fire times of {jobs} jobs in {hours} h are accounted for");
}

async fn all_runs(store: &SharedStore, now: DateTime<Utc>) -> Vec<RunRecord> {
    let mut all: Vec<RunRecord> = Vec::new();
    loop {
        let query = RunQuery {
            apps: None,
            jobs: None,
            conditions: Vec::new(),
            scheduled: Scheduled::Without,
            ascending: true,
            after: all.last().map(|run| run.run.id),
            limit: 1_000,
            full: false,
            now,
        };
        let page = store.list_runs(&query).await.expect("listed");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// Every fire time has one row of its own, or lies in one recorded gap; what succeeded was executed.
fn check(
    jobs: &[Job],
    runs: &[RunRecord],
    ledger: &HashMap<RunId, Vec<u32>>,
    begin: DateTime<Utc>,
    end: DateTime<Utc>,
) -> usize {
    let mut rows: HashMap<JobId, BTreeMap<DateTime<Utc>, Vec<&RunRecord>>> = HashMap::new();
    for run in runs {
        rows.entry(run.run.job).or_default().entry(run.run.fire_at).or_default().push(run);
    }
    let mut fires = 0;
    let mut faults = BTreeSet::new();
    for job in jobs {
        let compiled = job.spec.schedules[0].compile().expect("a schedule");
        let rows = rows.remove(&job.id).unwrap_or_default();
        let mut next = compiled.next_fire(begin, job.created_at);
        while let Some(fire) = next.filter(|fire| *fire < end) {
            fires += 1;
            let own = rows.get(&fire).map_or(0, Vec::len);
            let gaps = rows.values().flatten().filter(|run| {
                run.missed_count > 1
                    && run.run.fire_at < fire
                    && run.missed_until.is_some_and(|until| fire <= until)
            });
            let gaps = gaps.count();
            if own + gaps != 1 {
                faults.insert(format!("{} at {fire}: {own} rows, {gaps} gaps", job.name));
            }
            next = compiled.next_fire(fire, job.created_at);
        }
    }
    for run in runs {
        let executed = ledger.get(&run.run.id).map_or(0, Vec::len);
        let state = run.run.state;
        if state == RunState::Succeeded && executed == 0 {
            faults.insert(format!("{} succeeded without having been executed", run.run.id));
        }
        if state == RunState::Skipped && executed > 0 {
            faults.insert(format!("{} is skipped but was executed", run.run.id));
        }
        if executed > 1 + run.run.lost as usize {
            faults.insert(format!("{} was executed {executed} times", run.run.id));
        }
        if !state.is_final() && run.run.fire_at < end {
            faults.insert(format!("{} has no end: {state:?}", run.run.id));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{faults:#?}", faults.len());
    fires
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
}

#[tokio::test]
async fn a_dispatch_whose_answer_was_lost_is_sent_after_all() {
    let begin = at("2026-06-10T22:00:00Z");
    let mut world = World::new(begin).await;
    let app = world.store.ensure_app("day", begin).await.expect("an app");
    let job = NewJob {
        app: app.id,
        name: "job".to_owned(),
        state: JobState::Active,
        spec: JobSpec {
            handler: "work".to_owned(),
            schedules: vec![cron("* * * * *", "UTC")],
            ..JobSpec::default()
        },
        updated_by: "test".to_owned(),
        request: None,
    };
    world.store.create_job(&job, Box::new(|_: &_| Vec::new()), begin).await.expect("created");
    world.add_worker("lost", 20, TimeDelta::seconds(1)).await;
    world.run_until(begin, begin + TimeDelta::seconds(150)).await;
    world.flaky.lose_next_dispatch();
    let end = begin + TimeDelta::seconds(330);
    world.run_until(begin, end).await;
    let runs = all_runs(&world.store, end).await;
    let states: Vec<_> = runs.iter().map(|run| run.run.state).collect();
    assert_eq!(states, [RunState::Succeeded; 5]);
    assert!(world.ledger.values().all(|executions| executions.len() == 1), "{:?}", world.ledger);
}

#[tokio::test]
async fn a_day_with_faults_accounts_for_every_fire_time() {
    simulate(at("2026-06-10T22:00:00Z"), 24, 100, "Europe/Berlin").await;
}

#[tokio::test]
async fn r1_a_day_of_25_hours_accounts_for_every_fire_time() {
    simulate(at("2026-10-24T22:00:00Z"), 25, 30, "Europe/Berlin").await;
}

#[tokio::test]
async fn r2_a_day_of_23_hours_accounts_for_every_fire_time() {
    simulate(at("2026-03-28T23:00:00Z"), 23, 30, "Europe/Berlin").await;
}
