//! What executors themselves saw, against what the scheduler says happened.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use clawjob_executor::{Ctx, Executor, Failure, Reconnect};
use clawjob_proto::v1::{
    CreateJobRequest, Job, ListRunsRequest, MisfirePolicy, OverlapPolicy, Run, RunState, Schedule,
    job_service_client::JobServiceClient, run_service_client::RunServiceClient, schedule::Trigger,
};
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::node::Authorized;

/// Nothing takes this long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that will change.
pub const LOOK: Duration = Duration::from_millis(50);

/// One execution as its executor knows it.
#[derive(Clone, Debug)]
pub struct Execution {
    pub job: String,
    /// Fire time in seconds.
    pub fire: i64,
    pub run: String,
    pub attempt: u32,
    pub executor: String,
    pub began: Instant,
    /// How long after its fire time it began.
    pub late_ms: i64,
    /// None while it runs, and for one that was stopped.
    pub ended: Option<Instant>,
}

/// Every execution of all executors that write into it.
#[derive(Clone, Default)]
pub struct Ledger {
    all: Arc<Mutex<Vec<Execution>>>,
    /// How often those that wait were let go.
    gate: watch::Sender<u64>,
}

impl Ledger {
    /// An executor that notes each run of the handler `note`, which takes as many `ms` as its
    /// params say, and where they say that it `waits`, until it is let go. It runs until `stop`.
    pub fn executor(
        &self,
        endpoints: &[String],
        token: &str,
        named: (&str, &str),
        slots: u32,
        stop: &CancellationToken,
    ) -> JoinHandle<Result<(), clawjob_executor::Error>> {
        let executor = self.noting(endpoints, token, named).slots(slots);
        tokio::spawn(executor.run_until(stop.clone().cancelled_owned()))
    }

    /// Such an executor before its start.
    pub fn noting(&self, endpoints: &[String], token: &str, (app, id): (&str, &str)) -> Executor {
        let quick = Duration::from_millis(50);
        let reconnect =
            Reconnect { first: quick, base: quick, cap: quick * 4, ..Reconnect::default() };
        let (ledger, name) = (self.clone(), id.to_owned());
        Executor::builder()
            .endpoints(endpoints.to_vec())
            .token(token)
            .app(app)
            .executor_id(id)
            .reconnect(reconnect)
            .handler("note", move |order: serde_json::Value, ctx: Ctx| {
                let (ledger, name) = (ledger.clone(), name.clone());
                async move {
                    let mut gate = ledger.gate.subscribe();
                    let before = *gate.borrow();
                    let place = ledger.begin(&ctx, name);
                    tracing::info!("noted {}", ctx.run_id());
                    let takes = Duration::from_millis(order["ms"].as_u64().unwrap_or(0));
                    tokio::time::sleep(takes).await;
                    if order["waits"].as_bool() == Some(true) {
                        let _ = gate.wait_for(|times| *times > before).await;
                    }
                    ledger.all.lock()[place].ended = Some(Instant::now());
                    Ok::<_, Failure>(())
                }
            })
    }

    fn begin(&self, ctx: &Ctx, executor: String) -> usize {
        let mut all = self.all.lock();
        all.push(Execution {
            job: ctx.job().to_owned(),
            fire: ctx.fire_time().timestamp(),
            run: ctx.run_id().to_owned(),
            attempt: ctx.attempt(),
            executor,
            began: Instant::now(),
            late_ms: (chrono::Utc::now() - ctx.fire_time()).num_milliseconds(),
            ended: None,
        });
        all.len() - 1
    }

    /// Lets the executions go that have begun and wait.
    pub fn let_go(&self) {
        self.gate.send_modify(|times| *times += 1);
    }

    /// All executions so far, in the order they began.
    pub fn all(&self) -> Vec<Execution> {
        self.all.lock().clone()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.lock().len()
    }

    /// Executions of one run.
    pub fn of_run(&self, run: &str) -> Vec<Execution> {
        self.all.lock().iter().filter(|execution| execution.run == run).cloned().collect()
    }

    /// How many each executor had.
    pub fn by_executor(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for execution in self.all.lock().iter() {
            *counts.entry(execution.executor.clone()).or_default() += 1;
        }
        counts
    }

    /// The newest fire time that was executed.
    pub fn newest(&self) -> i64 {
        self.all.lock().iter().map(|execution| execution.fire).max().unwrap_or(0)
    }

    /// The fire time that each of the jobs that fire each second has come to.
    pub fn newest_of_all(&self, app: &str, jobs: usize) -> i64 {
        let mut newest: BTreeMap<String, i64> = BTreeMap::new();
        for execution in self.all.lock().iter() {
            let own = newest.entry(execution.job.clone()).or_default();
            *own = execution.fire.max(*own);
        }
        let of = |index| newest.get(&format!("apps/{app}/jobs/{}", name_of(index))).copied();
        (0..jobs).map(|index| of(index).unwrap_or(0)).min().unwrap_or(0)
    }
}

/// Name of a job that fires each second.
pub fn name_of(index: usize) -> String {
    format!("second-{index}")
}

/// Makes jobs that fire each second and only note it, and make up for all that they miss.
pub async fn create_lasting_jobs(
    client: &mut JobServiceClient<Authorized>,
    app: &str,
    count: usize,
) {
    create_all(client, app, count, MisfirePolicy::FireAll).await;
}

/// Makes jobs that fire each second and only note it.
pub async fn create_jobs(client: &mut JobServiceClient<Authorized>, app: &str, count: usize) {
    create_all(client, app, count, MisfirePolicy::Unspecified).await;
}

async fn create_all(
    client: &mut JobServiceClient<Authorized>,
    app: &str,
    count: usize,
    misfire: MisfirePolicy,
) {
    for index in 0..count {
        let trigger = Some(Trigger::Cron("* * * * * *".to_owned()));
        let schedule = Schedule { trigger, ..Schedule::default() };
        let job = Job {
            handler: "note".to_owned(),
            schedules: vec![schedule],
            overlap: OverlapPolicy::Allow.into(),
            misfire: misfire.into(),
            ..Job::default()
        };
        create_job(client, app, &name_of(index), job).await;
    }
}

/// Makes a job.
pub async fn create_job(
    client: &mut JobServiceClient<Authorized>,
    app: &str,
    name: &str,
    job: Job,
) -> Job {
    let request = CreateJobRequest {
        parent: format!("apps/{app}"),
        job_id: name.to_owned(),
        job: Some(job),
        ..CreateJobRequest::default()
    };
    client.create_job(request).await.expect("created").into_inner()
}

/// All runs with a fire time in `[from, until]`, once none of them is open.
pub async fn settled_runs(
    client: &mut RunServiceClient<Authorized>,
    app: &str,
    from: i64,
    until: i64,
) -> Vec<Run> {
    let end = Instant::now() + PATIENCE;
    loop {
        let runs = list_runs(client, app).await;
        let wanted: Vec<Run> =
            runs.into_iter().filter(|run| (from..=until).contains(&fire_second(run))).collect();
        let open: Vec<_> = wanted.iter().filter(|run| run.end_time.is_none()).collect();
        if open.is_empty() {
            return wanted;
        }
        assert!(Instant::now() < end, "these never end: {open:#?}");
        tokio::time::sleep(LOOK * 4).await;
    }
}

/// All runs of an app.
pub async fn list_runs(client: &mut RunServiceClient<Authorized>, app: &str) -> Vec<Run> {
    let mut all = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListRunsRequest {
            parent: format!("apps/{app}"),
            page_size: 1_000,
            page_token,
            ..ListRunsRequest::default()
        };
        let page = client.list_runs(request).await.expect("listed").into_inner();
        all.extend(page.runs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

/// The second a run's fire time is in.
pub fn fire_second(run: &Run) -> i64 {
    run.fire_time.expect("every run has one").seconds
}

/// Every fire time of the jobs that fire each second became one run, which was executed once.
pub fn check(runs: &[Run], ledger: &Ledger, app: &str, jobs: usize, from: i64, until: i64) {
    let mut rows: BTreeMap<(String, i64), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        rows.entry((run.job.clone(), fire_second(run))).or_default().push(run);
    }
    let mut executed: BTreeMap<(String, i64), usize> = BTreeMap::new();
    for execution in ledger.all() {
        *executed.entry((execution.job, execution.fire)).or_default() += 1;
    }
    let mut lost = BTreeSet::new();
    let mut doubled = BTreeSet::new();
    for index in 0..jobs {
        for second in from..=until {
            let key = (format!("apps/{app}/jobs/{}", name_of(index)), second);
            match rows.get(&key).map_or(0, Vec::len) {
                0 => lost.insert(key.clone()),
                1 => false,
                _ => doubled.insert(key.clone()),
            };
            let times = executed.get(&key).copied().unwrap_or(0);
            let row = rows.get(&key).and_then(|rows| rows.first());
            if times == 0 && row.is_some_and(|run| run.state() == RunState::Succeeded) {
                lost.insert(key.clone());
            }
            if times > 1 {
                doubled.insert(key);
            }
        }
    }
    let fires = jobs as i64 * (until - from + 1);
    println!("{fires} fire times: {} lost, {} doubled", lost.len(), doubled.len());
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(doubled.is_empty(), "doubled: {doubled:?}");
}

/// Every fire time of the jobs that fire each second became one run that succeeded, or is recorded as
/// skipped; none was executed twice.
pub fn check_accounted(
    runs: &[Run],
    ledger: &Ledger,
    app: &str,
    jobs: usize,
    from: i64,
    until: i64,
) {
    let mut rows: BTreeMap<(&str, i64), usize> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.state() == RunState::Succeeded) {
        *rows.entry((&run.job, fire_second(run))).or_default() += 1;
    }
    assert!(rows.values().all(|count| *count == 1), "doubled: {rows:?}");
    for index in 0..jobs {
        let job = format!("apps/{app}/jobs/{}", name_of(index));
        let own: Vec<_> = runs.iter().filter(|run| run.job == job).collect();
        for second in from..=until {
            let covers = own.iter().any(|run| {
                let first = fire_second(run);
                let last = run.missed_until_time.as_ref().map_or(first, |until| until.seconds);
                (first..=last).contains(&second)
            });
            assert!(covers, "second {second} of {job} is neither run nor recorded");
        }
    }
    let mut executed: BTreeMap<(String, i64), usize> = BTreeMap::new();
    for execution in ledger.all() {
        *executed.entry((execution.job, execution.fire)).or_default() += 1;
    }
    assert!(executed.values().all(|count| *count == 1), "executed again: {executed:?}");
    println!("{} runs, {} executions, none lost or doubled", rows.len(), executed.len());
}

/// Looks again and again until it holds.
pub async fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "{what} does not come about");
        tokio::time::sleep(LOOK).await;
    }
}
