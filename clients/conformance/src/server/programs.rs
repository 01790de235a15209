//! Programs of SDKs under the real scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, SystemTime};

use clawjob_conformance::frames::{json, value};
use clawjob_conformance::soon;
use clawjob_proto::v1::{
    Job, MisfirePolicy, RetryPolicy, Run, RunState, Schedule, TriggerJobRequest, executor::State,
    schedule::Trigger,
};
use nix::sys::signal::Signal;
use serde_json::json;

use super::Binary;
use super::admin::{APP, Admin};
use crate::judge::{self, Scenario, Words, scenarios};
use crate::program::{Program, Sdk};

/// The scheduler with the conformance program of one SDK.
pub(crate) struct Pair {
    pub(crate) binary: Binary,
    pub(crate) sdk: Sdk,
}

/// The scheduler with the nightly report of each language, all in one app.
pub(crate) struct Ensemble {
    pub(crate) binary: Binary,
    pub(crate) apps: Vec<Sdk>,
    /// How long the day is.
    pub(crate) day: Duration,
}

impl judge::Subject for Pair {
    fn words(&self) -> Words {
        self.binary.words()
    }
}

impl judge::Subject for Ensemble {
    fn words(&self) -> Words {
        self.binary.words()
    }
}

pub(crate) const FOR_EACH: &[Scenario<Pair>] =
    scenarios![e01_scheduler_killed_with_50_runs_in_flight_loses_no_result];
pub(crate) const FOR_ALL: &[Scenario<Ensemble>] = scenarios![
    e02_nightly_report_in_each_language_in_one_app,
    e03_day_of_50_jobs_has_a_whole_ledger
];

const QUICK: [&str; 2] = ["--set", "timings.heartbeat_interval=500ms"];
const IN_FLIGHT: usize = 50;
/// Seconds between the fire times of jobs, ten jobs' worth; five jobs have each.
const PERIODS: [u32; 10] = [2, 3, 4, 5, 6, 10, 12, 15, 20, 30];
const JOBS_OF_A_PERIOD: usize = 5;
/// From the creation of the jobs to the first fire time that counts.
const MARGIN: Duration = Duration::from_secs(5);
/// How often, and how far apart, one looks for the end of the day's last runs.
const LOOKS: u32 = 120;
const LOOK: Duration = Duration::from_millis(500);

async fn e01_scheduler_killed_with_50_runs_in_flight_loses_no_result(pair: Pair) {
    let words = judge::Subject::words(&pair);
    let mut node = pair.binary.node_with(&QUICK).await;
    let (token, _) = node.executor_token().await;
    let program = pair.sdk.dialing(node.url(), &token, &words);
    let mut program = program.env("CLAWJOB_CONFORMANCE_SLOTS", IN_FLIGHT.to_string()).start();
    let mut admin = node.admin().await;
    admin.until_executor(&pair.sdk.name, State::Online).await;
    // One attempt each: a run that is lost, or begun again, would not succeed.
    let job = admin.job("job", Job { handler: "sleep".to_owned(), ..Job::default() }).await;
    let mut runs = Vec::new();
    for number in 0..IN_FLIGHT {
        // They end one after the other, some of them while there is nobody to tell.
        let params = Some(json(&json!({ "ms": 6_000 + 150 * number }).to_string()));
        let request = TriggerJobRequest { name: job.clone(), params, ..Default::default() };
        runs.push(admin.try_trigger(request).await.unwrap());
    }
    let last = runs.last().unwrap().clone();
    soon("the last to run", async {
        while admin.run(&last).await.state() == RunState::Queued {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    node.kill9().await;
    node.restart().await;
    let mut admin = node.admin().await;
    for run in &runs {
        let ended = admin.until(run, RunState::Succeeded).await;
        assert_eq!((ended.attempt, ended.attempts.len()), (1, 1), "{ended:?}");
        assert_eq!(value(ended.output.as_ref()), "slept");
    }
    program.signal(Signal::SIGTERM);
    assert!(program.exit().await.success());
}

/// The report of each language, in one app, and the job that they serve.
async fn start(ensemble: &Ensemble, url: &str, token: &str, admin: &mut Admin) -> Vec<Program> {
    let words = judge::Subject::words(ensemble);
    let start = |app: &Sdk| app.dialing(url, token, &words).start();
    let programs = ensemble.apps.iter().map(start).collect();
    for app in &ensemble.apps {
        admin.until_executor(&app.name, State::Online).await;
    }
    programs
}

async fn end(programs: Vec<Program>) {
    for mut program in programs {
        program.signal(Signal::SIGTERM);
        assert!(program.exit().await.success());
    }
}

async fn e02_nightly_report_in_each_language_in_one_app(ensemble: Ensemble) {
    let node = ensemble.binary.another().node_with(&QUICK).await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let programs = start(&ensemble, node.url(), &token, &mut admin).await;
    let report = Job {
        handler: "nightly-report".to_owned(),
        retry: Some(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() }),
        ..Job::default()
    };
    let job = admin.job("report", report).await;
    for app in &ensemble.apps {
        let executor = format!("apps/{APP}/executors/{}", app.name);
        let run = |params: serde_json::Value| TriggerJobRequest {
            name: job.clone(),
            params: Some(json(&params.to_string())),
            executor: executor.clone(),
            ..TriggerJobRequest::default()
        };
        let broken = run(json!({ "month": "2026-11", "breaks_at": 550 }));
        let slow = run(json!({ "month": "2026-12", "pause_ms": 600_000 }));
        let broken = admin.try_trigger(broken).await.unwrap();
        let slow = admin.try_trigger(slow).await.unwrap();

        let ended = admin.until(&broken, RunState::Succeeded).await;
        let report = value(ended.output.as_ref());
        assert_eq!(report, json!({ "month": "2026-11", "rows": 1000 }), "{ended:?}");
        assert_eq!((ended.executor.as_str(), ended.attempt), (executor.as_str(), 2));
        let first = ended.attempts.iter().find(|attempt| attempt.number == 1).unwrap();
        assert_eq!(first.failure.as_ref().unwrap().code, "SOURCE_DOWN");
        assert_eq!((ended.progress, ended.progress_message.as_str()), (Some(1.0), "1000 rows"));
        let log = admin.logs(&broken).await;
        let said = |words: &str| {
            log.iter().any(|stored| stored.record.as_ref().unwrap().message.contains(words))
        };
        assert!(said("making the report") && said("the report is ready"), "{log:?}");

        admin.until(&slow, RunState::Running).await;
        admin.cancel(&slow).await.unwrap();
        admin.until(&slow, RunState::Canceled).await;
    }
    end(programs).await;
}

/// The runs whose fire times lie in that span.
async fn ledger(admin: &mut Admin, span: Range<u64>) -> Vec<Run> {
    let mut runs = admin.runs("").await;
    runs.retain(|run| span.contains(&fire_second(run)));
    runs
}

fn fire_second(run: &Run) -> u64 {
    run.fire_time.map_or(0, |time| time.seconds.cast_unsigned())
}

fn is_final(state: RunState) -> bool {
    use RunState::{Canceled, Failed, Lost, Skipped, Succeeded, TimedOut};
    matches!(state, Succeeded | Failed | Canceled | TimedOut | Lost | Skipped)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

// A day of 1440 minutes in as many seconds, when it has its full length.
async fn e03_day_of_50_jobs_has_a_whole_ledger(ensemble: Ensemble) {
    let node = ensemble.binary.another().node_with(&QUICK).await;
    let (token, _) = node.executor_token().await;
    let mut admin = node.admin().await;
    let programs = start(&ensemble, node.url(), &token, &mut admin).await;
    let mut period_of = BTreeMap::new();
    for (at, period) in PERIODS.iter().cycle().take(PERIODS.len() * JOBS_OF_A_PERIOD).enumerate() {
        let trigger = Some(Trigger::Cron(format!("*/{period} * * * * *")));
        let job = Job {
            handler: "nightly-report".to_owned(),
            params: Some(json(r#"{"month":"2026-11","rows":100}"#)),
            schedules: vec![Schedule { trigger, ..Schedule::default() }],
            // A machine that stands still for a while must lose nothing either.
            misfire: MisfirePolicy::FireAll.into(),
            misfire_max: 1_000,
            ..Job::default()
        };
        period_of.insert(admin.job(&format!("job-{at}"), job).await, u64::from(*period));
    }
    let from = seconds(SystemTime::now() + MARGIN);
    let to = from + ensemble.day.as_secs();
    let left = SystemTime::UNIX_EPOCH + Duration::from_secs(to);
    tokio::time::sleep(left.duration_since(SystemTime::now()).unwrap()).await;

    let fires = |(job, period): (&String, &u64)| {
        let (job, period) = (job.clone(), *period);
        (from..to).filter(move |second| second % period == 0).map(move |at| (job.clone(), at))
    };
    let expected: BTreeSet<(String, u64)> = period_of.iter().flat_map(fires).collect();
    let mut counted = ledger(&mut admin, from..to).await;
    for _ in 0..LOOKS {
        if counted.len() >= expected.len() && counted.iter().all(|run| is_final(run.state())) {
            break;
        }
        tokio::time::sleep(LOOK).await;
        counted = ledger(&mut admin, from..to).await;
    }
    let found: BTreeSet<(String, u64)> =
        counted.iter().map(|run| (run.job.clone(), fire_second(run))).collect();
    assert_eq!(counted.len(), found.len(), "a fire time twice");
    let lost: Vec<_> = expected.difference(&found).collect();
    assert!(lost.is_empty() && found.len() == expected.len(), "lost: {lost:?}");
    for run in &counted {
        assert_eq!((run.state(), run.attempt), (RunState::Succeeded, 1), "{run:?}");
    }
    for app in &ensemble.apps {
        let executor = format!("apps/{APP}/executors/{}", app.name);
        assert!(counted.iter().any(|run| run.executor == executor), "{executor} did nothing");
    }
    end(programs).await;
}
