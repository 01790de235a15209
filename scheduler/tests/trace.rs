//! One trace tells a run's whole way: plan → dispatch → handler → result, across two processes.

#[path = "support/node.rs"]
mod node;

use std::{sync::Arc, time::Duration};

use clawjob_executor::{Ctx, Executor, Failure};
use clawjob_proto::v1::{
    CreateJobRequest, Job, ListRunsRequest, Run, RunState, Schedule, TriggerJobRequest,
    job_service_client::JobServiceClient, run_service_client::RunServiceClient, schedule::Trigger,
};
use node::{Authorized, Node};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use parking_lot::Mutex;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tracing_subscriber::{Layer as _, filter::Targets, prelude::*};

const APP: &str = "traced";
/// The names under which the two processes send their spans.
const SCHEDULER: &str = "clawjob";
const EXECUTOR: &str = "executor under test";
/// No step takes this long unless it hangs.
const STEP: Duration = Duration::from_secs(60);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Spans with the name of the service that sent them.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(String, Span)>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.map(|resource| resource.attributes);
            let service = text(&attributes.unwrap_or_default(), "service.name");
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().extend(spans.map(|span| (service.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts it; gives its endpoint.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        let serving = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(collector.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        (collector, endpoint)
    }

    /// The one span of the run with this name, and who sent it.
    fn span(&self, run: &Run, name: &str) -> (String, Span) {
        let trace = trace_id(run);
        let all = self.0.lock();
        let of_run: Vec<_> = all.iter().filter(|(_, span)| span.trace_id == trace).collect();
        let mut named = of_run.iter().filter(|(_, span)| span.name == name);
        match (named.next(), named.next()) {
            (Some(one), None) => (*one).clone(),
            _ => panic!("not exactly one span {name:?} of {} in {of_run:#?}", run.name),
        }
    }
}

async fn greet(_: serde_json::Value, _: Ctx) -> Result<&'static str, Failure> {
    tracing::info!("in the handler");
    Ok("hello")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_holds_plan_dispatch_handler_and_result() {
    let (collector, endpoint) = Collector::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let set = format!("otlp.endpoint={endpoint}");
    let mut node = Node::start(dir.path(), &["--set", &set]);
    let provider = trace_this_process(&endpoint);
    let executor = Executor::builder()
        .endpoints([node.url()])
        .token(node.executor_token(APP).await)
        .app(APP)
        .executor_id("e1")
        .handler("greet", greet);
    let stop = CancellationToken::new();
    let executor = tokio::spawn(executor.run_until(stop.clone().cancelled_owned()));

    let (channel, bearer) = node.admin().await;
    let mut jobs = JobServiceClient::with_interceptor(channel.clone(), bearer.clone());
    let mut runs = RunServiceClient::with_interceptor(channel, bearer);
    let second = prost_types::Duration { seconds: 1, nanos: 0 };
    let by_hand = create(&mut jobs, "by-hand", None).await;
    let by_schedule = create(&mut jobs, "by-schedule", Some(Trigger::Interval(second))).await;
    let request = TriggerJobRequest { name: by_hand.clone(), ..Default::default() };
    jobs.trigger_job(request).await.expect("triggered");
    let ended = [
        (first_success(&mut runs, &by_hand).await, by_hand),
        (first_success(&mut runs, &by_schedule).await, by_schedule),
    ];
    stop.cancel();
    executor.await.expect("no panic").expect("it ends well");
    // What is held back on either side is sent at the end.
    tokio::task::spawn_blocking(move || provider.force_flush())
        .await
        .expect("no panic")
        .expect("sent");
    assert!(node.terminate().success());

    for (run, job) in &ended {
        let (by, plan) = collector.span(run, "plan");
        assert_eq!((by.as_str(), plan.parent_span_id.len()), (SCHEDULER, 0), "the root: {plan:?}");
        assert_eq!(text(&plan.attributes, "clawjob.job"), *job);
        let (by, dispatch) = collector.span(run, "dispatch");
        assert_eq!((by.as_str(), &dispatch.parent_span_id), (SCHEDULER, &plan.span_id));
        assert_eq!(text(&dispatch.attributes, "clawjob.executor"), "e1");
        let (by, handler) = collector.span(run, "handler greet");
        assert_eq!((by.as_str(), &handler.parent_span_id), (EXECUTOR, &dispatch.span_id));
        let (by, result) = collector.span(run, "result");
        assert_eq!((by.as_str(), &result.parent_span_id), (SCHEDULER, &dispatch.span_id));
        assert_eq!(text(&result.attributes, "clawjob.state"), "SUCCEEDED");
        let ends = [&plan, &dispatch, &handler, &result].map(|span| span.end_time_unix_nano);
        assert!(ends.is_sorted(), "one after the other: {ends:?}");
    }
}

/// Spans of the executor, which lives in this process, go to the collector.
fn trace_this_process(endpoint: &str) -> SdkTracerProvider {
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .build()
        .expect("an exporter");
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name(EXECUTOR).build())
        .build();
    let traces = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("test"))
        .with_filter(Targets::new().with_target("clawjob_executor", tracing::Level::INFO));
    tracing_subscriber::registry().with(clawjob_executor::log_layer()).with(traces).init();
    provider
}

async fn create(
    jobs: &mut JobServiceClient<Authorized>,
    id: &str,
    trigger: Option<Trigger>,
) -> String {
    let schedule = |trigger| Schedule { trigger: Some(trigger), ..Default::default() };
    let job = Job {
        handler: "greet".to_owned(),
        schedules: trigger.map(schedule).into_iter().collect(),
        ..Default::default()
    };
    let request = CreateJobRequest {
        parent: format!("apps/{APP}"),
        job_id: id.to_owned(),
        job: Some(job),
        ..Default::default()
    };
    jobs.create_job(request).await.expect("created").into_inner().name
}

/// The first run of the job that succeeded.
async fn first_success(runs: &mut RunServiceClient<Authorized>, job: &str) -> Run {
    let look = async {
        loop {
            let parent = format!("apps/{APP}");
            let request = ListRunsRequest { parent, page_size: 100, ..Default::default() };
            let all = runs.list_runs(request).await.expect("listed").into_inner().runs;
            let ended = |run: &Run| run.job == job && run.state() == RunState::Succeeded;
            if let Some(run) = all.into_iter().rev().find(ended) {
                return run;
            }
            pause().await;
        }
    };
    tokio::time::timeout(STEP, look).await.expect("a run succeeds")
}

#[allow(clippy::disallowed_methods, reason = "a pause between looks at a real process")]
async fn pause() {
    tokio::time::sleep(LOOK).await;
}

fn trace_id(run: &Run) -> Vec<u8> {
    let id = run.name.rsplit('/').next().expect("a name");
    ulid::Ulid::from_string(id).expect("a ULID").to_bytes().to_vec()
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let value = attributes.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{key} is {other:?}"),
    }
}
