//! A scheduler with executors in one process, on a clock that is moved by hand: days pass in
//! seconds, and nothing moves by itself. What executors do is scripted, what happened is kept in a
//! ledger of their own.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use clawjob_proto::v1::{
    Failure, Outcome, RunCommand, RunResult, kill_ack, session_response::Frame,
};
use clawjob_scheduler::{
    alarm::raise::Raiser,
    board::Board,
    clock::{Clock as _, ManualClock},
    fleet::Reach,
    follow::Follower,
    hub::{Holdings, Hub, HubSettings, event::EventReceiver, local::LocalExecutor},
    janitor::LostRules,
    model::{
        app::App,
        executor::{ExecutorSpec, Handler},
        ids::{AppId, AttemptRef, JobId, RunId},
        job::{Job, JobSpec, JobState},
        run::{NewRun, OpenRun, RunExtra, RunRecord, RunState, TriggerKind},
        schedule::{Schedule, Trigger},
    },
    owner::{Nudge, Owner},
    results::{Results, RunListener, Specs},
    store::{
        SharedStore, StoreError, Topic,
        ops::{NewJob, RunQuery, Scheduled},
        sqlite::SqliteStore,
    },
    trigger::Upkeep,
};
use tokio::sync::broadcast::{Receiver, error::TryRecvError};
use tokio_util::sync::CancellationToken;

use super::flaky::Flaky;

/// Longest jump of the clock: heartbeats must keep coming.
pub const STEP_MAX: TimeDelta = TimeDelta::seconds(3);
/// Jobs change by themselves this often.
const UPKEEP_EVERY: TimeDelta = TimeDelta::seconds(2);
/// Rounds in which everybody may act at one instant before the clock moves on.
const ROUNDS_MAX: usize = 200;

/// What an executor does with one run.
#[derive(Clone, Debug)]
pub enum Act {
    /// It ends after so long, in this way; a kill ends it at once.
    End(TimeDelta, Box<RunResult>),
    /// It goes on for ever; a kill ends it at once.
    Forever,
    /// It goes on for ever, and a kill is answered but not obeyed.
    Deaf,
}

impl Act {
    /// It succeeds after so long.
    pub fn succeed(after: TimeDelta) -> Self {
        let outcome = Outcome::Succeeded.into();
        Self::End(after, Box::new(RunResult { outcome, ..RunResult::default() }))
    }

    /// It fails with this code after so long.
    pub fn fail(after: TimeDelta, code: &str) -> Self {
        let failure = Failure { code: code.to_owned(), ..Failure::default() };
        let outcome = Outcome::Failed.into();
        let result = RunResult { outcome, failure: Some(failure), ..RunResult::default() };
        Self::End(after, Box::new(result))
    }
}

/// Decides what an executor does with a run.
pub type Script = Box<dyn FnMut(&RunCommand, DateTime<Utc>) -> Act + Send>;

/// One execution as the executor knows it.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Which attempt.
    pub attempt: u32,
    /// Where.
    pub executor: String,
    /// When it began.
    pub at: DateTime<Utc>,
    /// When it ended there, however it did.
    pub ended: Option<DateTime<Utc>>,
    /// What it was told.
    pub command: RunCommand,
}

/// An executor with the runs it is at work on.
pub struct Worker {
    /// Its side of the session.
    pub executor: LocalExecutor,
    /// Its name.
    pub name: String,
    script: Script,
    busy: HashMap<RunId, Busy>,
    ends: BTreeMap<(DateTime<Utc>, RunId), Box<RunResult>>,
    /// It vanished without a word.
    pub gone: bool,
}

struct Busy {
    attempt: AttemptRef,
    deaf: bool,
}

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

impl Holdings for Known {
    fn may_hold(&self, app: AppId, executor: &str) -> Option<Vec<RunId>> {
        self.0.may_hold(app, executor)
    }
}

/// A directory in memory where there is one: loss of power is not the subject here, and a day has
/// some hundred thousand commits.
fn memory_dir() -> tempfile::TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.expect("a directory")
}

/// The scheduler, its store and its executors.
pub struct World {
    /// Moved by [`World::run_until`] only.
    pub clock: Arc<ManualClock>,
    /// The store can be cut off here.
    pub flaky: Arc<Flaky>,
    /// The same store.
    pub store: SharedStore,
    /// The owner's memory.
    pub board: Arc<Board>,
    /// Sessions.
    pub hub: Arc<Hub>,
    /// Executors.
    pub workers: Vec<Worker>,
    /// Every execution of each run, in order.
    pub ledger: HashMap<RunId, Vec<Execution>>,
    /// The app that all is in.
    pub app: App,
    /// Longest jump of the clock. More than [`STEP_MAX`] is for worlds without executors in which
    /// nothing but schedules matters.
    pub step_max: TimeDelta,
    process: Process,
    beat_at: DateTime<Utc>,
    upkeep_at: DateTime<Utc>,
    down: bool,
    _dir: tempfile::TempDir,
}

/// What dies with the scheduler's process, beside board and hub.
struct Process {
    results: Results,
    events: EventReceiver,
    owner: Owner,
    follower: Follower,
    upkeep: Upkeep,
    /// Tells of ends to follow up.
    hints: Receiver<Topic>,
}

impl Process {
    /// Whether an end may have been written since the last time.
    fn any_ends(&mut self) -> bool {
        let mut any = false;
        loop {
            match self.hints.try_recv() {
                Ok(topic) => any |= topic == Topic::Ends,
                Err(TryRecvError::Lagged(_)) => any = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return any,
            }
        }
    }
}

fn start(store: &SharedStore, clock: &Arc<ManualClock>) -> (Arc<Board>, Arc<Hub>, Process) {
    let board = Arc::new(Board::default());
    let (hub, events) = Hub::new(HubSettings::default(), clock.clone());
    let known = Arc::new(Known(board.clone()));
    hub.know_holdings(known.clone());
    let reach = Reach::alone(hub.clone());
    let results = Results::new(
        store.clone(),
        reach.clone(),
        known.clone(),
        known,
        clock.clone(),
        CancellationToken::new(),
    );
    let rules =
        LostRules { lost_after: Duration::from_secs(60), takeover_grace: Duration::from_secs(60) };
    let (now, node) = (clock.clone(), "node".to_owned());
    let owner = Owner::new(store.clone(), board.clone(), reach, now, node, rules);
    let raiser = Raiser::new(store.clone(), None);
    let follower = Follower::new(store.clone(), board.clone(), raiser);
    let upkeep = Upkeep::new(store.clone(), board.clone());
    let hints = store.hints();
    (board, hub, Process { results, events, owner, follower, upkeep, hints })
}

impl World {
    /// An empty one that begins at this instant.
    pub async fn new(begin: DateTime<Utc>) -> Self {
        let dir = memory_dir();
        let clock = ManualClock::new(begin);
        let flaky = Flaky::new(SqliteStore::open(dir.path()).expect("it opens"));
        let store: SharedStore = flaky.clone();
        let app = store.ensure_app("day", begin).await.expect("an app");
        let (board, hub, process) = start(&store, &clock);
        Self {
            clock,
            flaky,
            store,
            board,
            hub,
            workers: Vec::new(),
            ledger: HashMap::new(),
            app,
            step_max: STEP_MAX,
            process,
            beat_at: begin,
            upkeep_at: begin,
            down: false,
            _dir: dir,
        }
    }

    /// The present instant.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// A job of the world's app whose handler is `work` unless the spec names one.
    pub async fn job(&self, name: &str, spec: JobSpec) -> Job {
        let handler = if spec.handler.is_empty() { "work" } else { &spec.handler };
        let job = NewJob {
            app: self.app.id,
            name: name.to_owned(),
            state: JobState::Active,
            spec: JobSpec { handler: handler.to_owned(), ..spec },
            updated_by: "test".to_owned(),
            request: None,
        };
        let none = Box::new(|_: &_| Vec::new());
        self.store.create_job(&job, none, self.now()).await.expect("created")
    }

    /// A run by hand, due now.
    pub async fn trigger(&self, job: &Job, extra: RunExtra) -> RunId {
        let now = self.now();
        let run = NewRun {
            id: RunId::by_hand(now, rand::random()),
            job: job.id,
            app: job.app,
            revision: job.revision,
            trigger: TriggerKind::Api,
            fire_at: now,
            due_at: now,
            extra: Some(Box::new(RunExtra { follow: job.spec.follow(), ..extra })),
        };
        self.store.create_run(&run, None, now).await.expect("created")
    }

    /// An executor with the handler `work` that does what the script says.
    pub async fn worker(&mut self, name: &str, slots: u32, script: Script) {
        let handler = Handler {
            name: "work".to_owned(),
            max_concurrency: 0,
            params_schema: String::new(),
            description: String::new(),
        };
        let spec = ExecutorSpec { handlers: vec![handler], slots, ..ExecutorSpec::default() };
        self.worker_with(name, spec, script).await;
    }

    /// An executor of any make.
    pub async fn worker_with(&mut self, name: &str, spec: ExecutorSpec, script: Script) {
        let store = self.store.clone();
        let app = self.app.name.clone();
        let executor = LocalExecutor::connect(&self.hub, &*store, &app, name, name, spec)
            .await
            .expect("it connects");
        self.workers.push(Worker::new(name, executor, script));
    }

    /// An executor that succeeds in so long.
    pub async fn steady(&mut self, name: &str, slots: u32, takes: TimeDelta) {
        self.worker(name, slots, Box::new(move |_, _| Act::succeed(takes))).await;
    }

    /// An executor vanishes: its process is killed, its connection breaks.
    pub fn lose(&mut self, name: &str) {
        for worker in self.workers.iter_mut().filter(|worker| worker.name == name) {
            worker.gone = true;
            worker.executor.break_off();
        }
    }

    /// An executor's process is killed and at once another is started under the same name.
    pub async fn replace(&mut self, name: &str, script: Script) {
        self.lose(name);
        let old = self.workers.iter().position(|worker| worker.name == name).expect("it is there");
        let origin = self.workers.remove(old).executor.link().origin().clone();
        let now = self.now();
        let ended = self.store.end_session(origin.row, origin.epoch, false, now).await;
        ended.expect("the server hears of the end");
        let row = self.store.get_executor(self.app.id, name).await.expect("it is known");
        let (app, process) = (self.app.name.clone(), format!("{name}-{}", row.session_epoch + 1));
        let (store, hub) = (self.store.clone(), self.hub.clone());
        let again = LocalExecutor::connect(&hub, &*store, &app, name, &process, row.spec).await;
        self.workers.push(Worker::new(name, again.expect("it connects"), script));
    }

    /// The database can't be reached from now on, or can be again.
    pub fn set_down(&mut self, down: bool) {
        if self.down != down {
            self.down = down;
            self.flaky.set_down(down);
        }
    }

    /// The scheduler's process is killed and another started; no time passes. Executors must be
    /// connected anew.
    pub fn restart(&mut self) {
        for worker in &self.workers {
            worker.executor.break_off();
        }
        self.workers.clear();
        (self.board, self.hub, self.process) = start(&self.store, &self.clock);
    }

    /// Goes on until so long from now.
    pub async fn pass(&mut self, time: TimeDelta) {
        let end = self.now() + time;
        self.run_until(end).await;
    }

    /// Goes on until this instant, and lets everybody act at it.
    pub async fn run_until(&mut self, end: DateTime<Utc>) {
        loop {
            self.settle().await;
            let now = self.now();
            if now >= end {
                return;
            }
            let next = self.next_event(now).min(end);
            self.clock.advance((next - now).to_std().expect("time goes forward"));
        }
    }

    /// How long the owner's loop would leave runs to gather before its next round.
    pub fn gathering(&self) -> Duration {
        self.process.owner.gathering()
    }

    /// Lets everybody act until nothing moves any more at this instant.
    pub async fn settle(&mut self) {
        let now = self.now();
        if now >= self.beat_at {
            self.beat_at = now + STEP_MAX;
            for worker in self.workers.iter_mut().filter(|worker| !worker.gone) {
                worker.executor.heartbeat();
            }
            self.hub.tick(now, self.clock.elapsed());
        }
        let mut first = true;
        for _ in 0..ROUNDS_MAX {
            let mut moved = self.work(now);
            if !self.down {
                while self.process.results.step(&mut self.process.events).await > 0 {
                    moved = true;
                }
                // At once when told of an end, and with the first look, as each second.
                if self.process.any_ends() || first {
                    while self.process.follower.step(now).await.expect("followed up") > 0 {
                        moved = true;
                    }
                }
            }
            if !self.down && now >= self.upkeep_at {
                self.upkeep_at = now + UPKEEP_EVERY;
                // What fails is done at the next time.
                let _ = self.process.upkeep.step(now).await;
                moved = true;
            }
            let nudge =
                Nudge { jobs: first, inbox: first || moved, partitions: first, permits: false };
            first = false;
            let wake = self.process.owner.tick(now, nudge).await;
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
            moved |= worker.work(now, &mut self.ledger);
        }
        moved
    }

    fn next_event(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        let done = self.workers.iter().filter(|worker| !worker.gone);
        let done = done.filter_map(|worker| worker.ends.first_key_value()).map(|(key, _)| key.0);
        let most = now + self.step_max;
        let events = [self.board.next_wake(), done.min(), Some(most)];
        let next = events.into_iter().flatten().min().unwrap_or(most);
        next.max(now + TimeDelta::milliseconds(20))
    }

    /// All runs that are due or have ended, oldest first.
    pub async fn runs(&self) -> Vec<RunRecord> {
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
                now: self.now(),
            };
            let page = self.store.list_runs(&query).await.expect("listed");
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    /// The runs of one job, oldest first.
    pub async fn runs_of(&self, job: &Job) -> Vec<RunRecord> {
        let mut runs = self.runs().await;
        runs.retain(|run| run.run.job == job.id);
        runs
    }

    /// One run with its attempts.
    pub async fn run(&self, id: RunId) -> RunRecord {
        match self.store.get_run(id).await {
            Ok(run) => run,
            Err(StoreError::NotFound(_)) => panic!("run {id} is not there"),
            Err(fault) => panic!("{fault}"),
        }
    }
}

impl Worker {
    fn new(name: &str, executor: LocalExecutor, script: Script) -> Self {
        Self {
            executor,
            name: name.to_owned(),
            script,
            busy: HashMap::new(),
            ends: BTreeMap::new(),
            gone: false,
        }
    }

    fn work(&mut self, now: DateTime<Utc>, ledger: &mut HashMap<RunId, Vec<Execution>>) -> bool {
        let mut moved = false;
        self.executor.flush();
        for frame in self.executor.receive() {
            match frame {
                Frame::Run(command) => {
                    moved = true;
                    self.begin(command, now, ledger);
                }
                Frame::Kill(kill) => {
                    moved = true;
                    let run = kill.r#ref.and_then(|r| r.run_id.parse::<RunId>().ok());
                    self.kill(run.expect("a run"), now, ledger);
                }
                _ => {}
            }
        }
        while let Some((&(at, run), _)) = self.ends.first_key_value()
            && at <= now
        {
            moved = true;
            let result = self.ends.remove(&(at, run)).expect("just seen");
            self.end(run, *result, now, ledger);
        }
        moved
    }

    fn begin(
        &mut self,
        command: RunCommand,
        now: DateTime<Utc>,
        ledger: &mut HashMap<RunId, Vec<Execution>>,
    ) {
        let known = self.executor.listed().len();
        let Some(attempt) = self.executor.accept(&command) else { return };
        if self.executor.listed().len() == known {
            return;
        }
        let act = (self.script)(&command, now);
        ledger.entry(attempt.run).or_default().push(Execution {
            attempt: attempt.attempt,
            executor: self.name.clone(),
            at: now,
            ended: None,
            command,
        });
        let deaf = matches!(act, Act::Deaf);
        self.busy.insert(attempt.run, Busy { attempt, deaf });
        if let Act::End(after, result) = act {
            self.ends.insert((now + after, attempt.run), result);
        }
    }

    fn kill(
        &mut self,
        run: RunId,
        now: DateTime<Utc>,
        ledger: &mut HashMap<RunId, Vec<Execution>>,
    ) {
        let Some(busy) = self.busy.get(&run) else { return };
        let deaf = busy.deaf;
        self.executor.kill_ack(busy.attempt, kill_ack::Status::Signaled);
        if !deaf {
            self.ends.retain(|(_, other), _| *other != run);
            let outcome = Outcome::Canceled.into();
            self.end(run, RunResult { outcome, ..RunResult::default() }, now, ledger);
        }
    }

    fn end(
        &mut self,
        run: RunId,
        result: RunResult,
        now: DateTime<Utc>,
        ledger: &mut HashMap<RunId, Vec<Execution>>,
    ) {
        let Some(busy) = self.busy.remove(&run) else { return };
        let executions = ledger.entry(run).or_default();
        if let Some(execution) = executions.iter_mut().rev().find(|e| e.executor == self.name) {
            execution.ended = Some(now);
        }
        self.executor.finish(busy.attempt, result);
    }
}

/// A cron schedule.
pub fn cron(text: &str, time_zone: &str) -> Schedule {
    Schedule {
        trigger: Trigger::Cron { text: text.to_owned(), dialect: None },
        time_zone: time_zone.to_owned(),
        ..Schedule::default()
    }
}

/// An instant.
pub fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
}
