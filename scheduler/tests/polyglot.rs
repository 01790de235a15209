//! Clients that share nothing with this project but its contract: an executor in Python made from
//! proto/ alone, a client that knows only reflection, and plain HTTP.

#[path = "support/lines.rs"]
mod lines;
#[path = "support/node.rs"]
mod node;
#[path = "support/python.rs"]
mod python;

use std::{process::Stdio, time::Duration};

use clawjob_proto::v1::{
    CreateJobRequest, GetExecutorRequest, GetRunRequest, Job, Payload, Run, RunState, RunView,
    TriggerJobRequest, executor::State, fleet_service_client::FleetServiceClient,
    job_service_client::JobServiceClient, run_service_client::RunServiceClient,
};
use lines::Process;
use node::{Authorized, Node};

const APP: &str = "demo";
/// No step takes this long unless it hangs.
const STEP: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_python_program_made_from_the_contract_alone_executes_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let stubs = tempfile::tempdir().expect("a directory");
    python::compile_contract(stubs.path());
    let node = Node::start(dir.path(), &["--set", "timings.heartbeat_interval=200ms"]);
    let mut executor = python::example("executor.py");
    executor
        .env("PYTHONPATH", stubs.path())
        .env("CLAWJOB_ENDPOINTS", node.url())
        .env("CLAWJOB_TOKEN", node.executor_token(APP).await)
        .env("CLAWJOB_APP", APP)
        .env("CLAWJOB_EXECUTOR_ID", "snake");
    let mut executor = Process::start(executor, Stdio::inherit());
    executor.line_with("welcome to session", STEP);

    let (channel, bearer) = node.admin().await;
    let mut jobs = JobServiceClient::with_interceptor(channel.clone(), bearer.clone());
    jobs.create_job(job("greeting", "greet", r#"{"name":"Monty"}"#)).await.expect("created");
    let request = TriggerJobRequest { name: job_name("greeting"), ..Default::default() };
    let run = jobs.trigger_job(request).await.expect("triggered").into_inner();
    let id = run.name.rsplit('/').next().expect("a name").to_owned();
    executor.line_with(&format!("run {} of {}", run.name, job_name("greeting")), STEP);
    executor.line_with(&format!("result of {id} is stored"), STEP);

    let mut runs = RunServiceClient::with_interceptor(channel.clone(), bearer.clone());
    let ended = get_run(&mut runs, &run.name).await;
    assert_eq!(ended.state(), RunState::Succeeded, "{ended:?}");
    let output = ended.output.expect("it said something");
    assert_eq!(output.content_type, "application/json");
    assert_eq!(&output.data[..], br#"{"greeting": "Hello, Monty!"}"#);
    executor.line_with("heartbeat 2 is known", STEP);

    let mut fleet = FleetServiceClient::with_interceptor(channel, bearer);
    let name = format!("apps/{APP}/executors/snake");
    let request = GetExecutorRequest { name: name.clone() };
    let seen = fleet.get_executor(request).await.expect("known").into_inner();
    assert_eq!(seen.state(), State::Online, "{seen:?}");
    assert_eq!(seen.sdk.as_ref().map(|sdk| sdk.language.as_str()), Some("python"));
    executor.signal(nix::sys::signal::Signal::SIGTERM);
    executor.line_with("ended", STEP);
    assert!(executor.wait(STEP).success());
    let gone = fleet.get_executor(GetExecutorRequest { name }).await.expect("known").into_inner();
    assert_eq!(gone.state(), State::Offline, "a Goodbye is a clean end: {gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_knows_only_reflection_lists_services_and_jobs() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::start(dir.path(), &[]);
    create_job(&node, "mirror").await;
    let output = python::example("reflect.py")
        .arg(format!("apps/{APP}"))
        .env("CLAWJOB_ENDPOINTS", node.url())
        .env("CLAWJOB_TOKEN", node.admin_token())
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for service in [
        "clawjob.v1.AlarmService",
        "clawjob.v1.CalendarService",
        "clawjob.v1.ClusterService",
        "clawjob.v1.ExecutorService",
        "clawjob.v1.FleetService",
        "clawjob.v1.IdentityService",
        "clawjob.v1.JobService",
        "clawjob.v1.RunService",
        "grpc.health.v1.Health",
    ] {
        assert!(said.contains(&format!("service {service}\n")), "{service} in {said}");
    }
    let answer: serde_json::Value =
        serde_json::from_str(said.lines().last().expect("the jobs")).expect("JSON");
    assert_eq!(answer["jobs"][0]["name"], job_name("mirror"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_with_json_lists_jobs() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::start(dir.path(), &[]);
    create_job(&node, "plain").await;
    let url = format!("{}/clawjob.v1.JobService/ListJobs", node.url());
    // The client takes its cryptography from the process; an error says that it is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::new();
    let ask = || {
        http.post(&url)
            .timeout(STEP)
            .header("content-type", "application/json")
            .body(r#"{"parent":"apps/demo"}"#)
    };
    let refused = ask().send().await.expect("an answer");
    assert_eq!(refused.status(), 401);
    let answer = ask().bearer_auth(node.admin_token()).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/json");
    let answer: serde_json::Value = answer.json().await.expect("JSON");
    assert_eq!(answer["jobs"][0]["name"], job_name("plain"), "{answer}");
    assert_eq!(answer["jobs"][0]["handler"], "greet");
}

fn job_name(id: &str) -> String {
    format!("apps/{APP}/jobs/{id}")
}

fn job(id: &str, handler: &str, params: &'static str) -> CreateJobRequest {
    let params =
        Payload { content_type: "application/json".to_owned(), data: params.as_bytes().into() };
    let job = Job { handler: handler.to_owned(), params: Some(params), ..Default::default() };
    CreateJobRequest {
        parent: format!("apps/{APP}"),
        job_id: id.to_owned(),
        job: Some(job),
        ..Default::default()
    }
}

async fn create_job(node: &Node, id: &str) {
    let (channel, bearer) = node.admin().await;
    let mut jobs = JobServiceClient::with_interceptor(channel, bearer);
    jobs.create_job(job(id, "greet", r#"{"name":"World"}"#)).await.expect("created");
}

async fn get_run(runs: &mut RunServiceClient<Authorized>, name: &str) -> Run {
    let request = GetRunRequest { name: name.to_owned(), view: RunView::Full.into() };
    runs.get_run(request).await.expect("known").into_inner()
}
