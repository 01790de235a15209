//! A server with what the tests ask of it.

use std::{path::Path, process::Stdio, time::Duration};

use clawjob_proto::v1::{
    CreateJobRequest, Executor, GetExecutorRequest, GetRunRequest, Job, ListRunsRequest,
    OverlapPolicy, Payload, Run, RunState, RunView, Schedule, TriggerJobRequest, executor::State,
    fleet_service_client::FleetServiceClient, job_service_client::JobServiceClient,
    run_service_client::RunServiceClient, schedule::Trigger,
};
use tonic::Code;

use crate::{
    lines::{Process, clawjob},
    node::{Authorized, Node},
};

/// The app that all is in.
pub(crate) const APP: &str = "fleet";
/// No step takes this long unless it hangs.
pub(crate) const STEP: Duration = Duration::from_secs(60);
/// Between two looks at something that will change.
const LOOK: Duration = Duration::from_millis(50);

/// A server and clients of it.
pub(crate) struct Fleet {
    pub(crate) node: Node,
    jobs: JobServiceClient<Authorized>,
    pub(crate) runs: RunServiceClient<Authorized>,
    executors: FleetServiceClient<Authorized>,
}

impl Fleet {
    /// Starts a server with heartbeats that are scaled down.
    pub(crate) async fn start(dir: &Path, args: &[&str]) -> Self {
        let scaled = [
            "--set",
            "timings.heartbeat_interval=200ms",
            "--set",
            "timings.heartbeat_timeout=1500ms",
        ];
        let node = Node::start(dir, &[&scaled, args].concat());
        Self::of(node).await
    }

    /// Clients of a server that runs.
    pub(crate) async fn of(node: Node) -> Self {
        let (channel, bearer) = node.admin().await;
        Self {
            jobs: JobServiceClient::with_interceptor(channel.clone(), bearer.clone()),
            runs: RunServiceClient::with_interceptor(channel.clone(), bearer.clone()),
            executors: FleetServiceClient::with_interceptor(channel, bearer),
            node,
        }
    }

    /// Starts it again after its end.
    pub(crate) async fn restart(mut self) -> Self {
        self.node.restart();
        Self::of(self.node).await
    }

    /// A job that runs by hand.
    pub(crate) async fn job(&mut self, id: &str, handler: &str, params: &str) -> String {
        let job = Job { handler: handler.to_owned(), ..Job::default() };
        self.create(id, job, params).await
    }

    /// A job that fires each second, whatever is still going on.
    pub(crate) async fn each_second(&mut self, id: &str, handler: &str, params: &str) -> String {
        let trigger = Some(Trigger::Cron("* * * * * *".to_owned()));
        let schedule = Schedule { trigger, ..Schedule::default() };
        let job = Job {
            handler: handler.to_owned(),
            schedules: vec![schedule],
            overlap: OverlapPolicy::Allow.into(),
            ..Job::default()
        };
        self.create(id, job, params).await
    }

    async fn create(&mut self, id: &str, job: Job, params: &str) -> String {
        let params =
            Payload { content_type: "application/json".to_owned(), data: params.to_owned().into() };
        let request = CreateJobRequest {
            parent: format!("apps/{APP}"),
            job_id: id.to_owned(),
            job: Some(Job { params: Some(params), ..job }),
            ..CreateJobRequest::default()
        };
        self.jobs.create_job(request).await.expect("created").into_inner().name
    }

    /// Runs a job once; the run's name.
    pub(crate) async fn trigger(&mut self, job: &str) -> String {
        let request = TriggerJobRequest { name: job.to_owned(), ..TriggerJobRequest::default() };
        self.jobs.trigger_job(request).await.expect("triggered").into_inner().name
    }

    /// The run as it is.
    pub(crate) async fn run(&mut self, name: &str) -> Run {
        let request = GetRunRequest { name: name.to_owned(), view: RunView::Full.into() };
        self.runs.get_run(request).await.expect("known").into_inner()
    }

    /// The run once it is as wanted.
    pub(crate) async fn until(&mut self, name: &str, wanted: RunState) -> Run {
        let end = tokio::time::Instant::now() + STEP;
        loop {
            let run = self.run(name).await;
            if run.state() == wanted {
                return run;
            }
            assert!(tokio::time::Instant::now() < end, "waited for {wanted:?}, but {run:?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The executor as it is; None when it is not known.
    pub(crate) async fn executor(&mut self, id: &str) -> Option<Executor> {
        let name = format!("apps/{APP}/executors/{id}");
        match self.executors.get_executor(GetExecutorRequest { name }).await {
            Ok(executor) => Some(executor.into_inner()),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => panic!("{status}"),
        }
    }

    /// The executor once it is in this state.
    pub(crate) async fn until_executor(&mut self, id: &str, wanted: State) -> Executor {
        let end = tokio::time::Instant::now() + STEP;
        loop {
            let seen = self.executor(id).await;
            if let Some(executor) = seen.as_ref().filter(|seen| seen.state() == wanted) {
                return executor.clone();
            }
            assert!(tokio::time::Instant::now() < end, "waited for {wanted:?}, but {seen:?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// All runs that are due or have ended.
    pub(crate) async fn all_runs(&mut self) -> Vec<Run> {
        let (mut all, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = ListRunsRequest {
                parent: format!("apps/{APP}"),
                page_size: 1_000,
                page_token,
                ..ListRunsRequest::default()
            };
            let page = self.runs.list_runs(request).await.expect("listed").into_inner();
            all.extend(page.runs);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return all;
            }
        }
    }

    /// Starts the agent as a process, with its file and token in `dir`.
    pub(crate) async fn agent(&self, dir: &Path, id: &str, url: &str, commands: &str) -> Process {
        let token = dir.join(format!("{id}.token"));
        std::fs::write(&token, self.node.executor_token(APP).await).expect("written");
        let file = dir.join(format!("{id}.yaml"));
        let config = format!(
            "app: {APP}\nexecutor_id: {id}\nendpoints: ['{url}']\ntoken_file: {}\nslots: 4\n\
             shell:\n  commands:\n{commands}",
            token.display()
        );
        std::fs::write(&file, config).expect("written");
        start_agent(&file)
    }
}

/// Starts the agent with a file that is there already.
pub(crate) fn start_agent(file: &Path) -> Process {
    let mut command = clawjob();
    command.arg("agent").arg("--config").arg(file);
    Process::start(command, Stdio::inherit())
}

/// Waits until something holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + STEP;
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "waited in vain for {what}");
        tokio::time::sleep(LOOK).await;
    }
}
