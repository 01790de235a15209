//! Logs, traces and metrics: every span of a run and every metric is named in here.

pub mod metrics;
pub mod runs;

use std::{io, path::Path};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use thiserror::Error;
use tracing_appender::{
    non_blocking::WorkerGuard,
    rolling::{InitError, RollingFileAppender, Rotation},
};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, layer::SubscriberExt as _};

pub use metrics::metrics;

/// Shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// What to log and where to.
pub struct Setup<'a> {
    /// A level or directives.
    pub level: &'a str,
    /// Shape of the lines.
    pub shape: Shape,
    /// A file instead of standard error; a new one each day.
    pub file: Option<&'a Path>,
    /// Daily files kept.
    pub files_max: usize,
    /// OTLP/gRPC endpoint for traces.
    pub otlp: Option<&'a str>,
    /// This node, as traces name it.
    pub node: &'a str,
}

/// Why telemetry could not be set up.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The level is not one.
    #[error("log.level: {0}")]
    Level(#[from] tracing_subscriber::filter::ParseError),
    /// The file can't be written.
    #[error("log.file: {0}")]
    File(#[from] InitError),
    /// The file has no name.
    #[error("log.file: {0:?} names no file")]
    FileName(String),
    /// The exporter refused its endpoint.
    #[error("otlp.endpoint: {0}")]
    Otlp(#[from] opentelemetry_otlp::ExporterBuildError),
    /// Something else in the process has set up logging before.
    #[error("logging is set up already")]
    Twice(#[from] tracing::subscriber::SetGlobalDefaultError),
}

/// Keeps telemetry going; dropping it writes out what is held back.
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
    _writer: WorkerGuard,
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(provider) = self.provider.take()
            && let Err(fault) = provider.shutdown()
        {
            tracing::debug!(%fault, "traces could not be written out at the end");
        }
    }
}

/// Sets up logs and traces for the whole process.
///
/// # Errors
/// See [`SetupError`]. Needs a tokio runtime when traces are exported.
pub fn init(setup: &Setup<'_>) -> Result<Telemetry, SetupError> {
    let filter: EnvFilter = EnvFilter::builder().parse(setup.level)?;
    let (writer, guard) = match setup.file {
        Some(path) => tracing_appender::non_blocking(daily(path, setup.files_max)?),
        None => tracing_appender::non_blocking(io::stderr()),
    };
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match setup.shape {
        Shape::Text => fmt::layer()
            .with_writer(writer)
            .with_ansi(setup.file.is_none() && io::IsTerminal::is_terminal(&io::stderr()))
            .with_filter(filter)
            .boxed(),
        Shape::Json => {
            fmt::layer().json().flatten_event(true).with_writer(writer).with_filter(filter).boxed()
        }
    };
    let provider = setup.otlp.map(|endpoint| provider(endpoint, setup.node)).transpose()?;
    let traces = provider.as_ref().map(|provider| {
        let tracer = provider.tracer("clawjob");
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_filter(EnvFilter::new("warn,clawjob_scheduler=info,clawjob_executor=info"))
    });
    let subscriber =
        tracing_subscriber::registry().with(lines).with(traces).with(clawjob_executor::log_layer());
    tracing::subscriber::set_global_default(subscriber)?;
    if let Some(provider) = &provider {
        runs::export_through(provider.tracer("clawjob.runs"));
    }
    Ok(Telemetry { provider, _writer: guard })
}

fn daily(path: &Path, files_max: usize) -> Result<RollingFileAppender, SetupError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| SetupError::FileName(path.display().to_string()))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    Ok(RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix(name)
        .max_log_files(files_max)
        .build(dir.unwrap_or(Path::new(".")))?)
}

fn provider(
    endpoint: &str,
    node: &str,
) -> Result<SdkTracerProvider, opentelemetry_otlp::ExporterBuildError> {
    let exporter =
        opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build()?;
    let resource = Resource::builder()
        .with_service_name("clawjob")
        .with_attribute(opentelemetry::KeyValue::new("service.instance.id", node.to_owned()))
        .build();
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_id_generator(runs::RunIds::default())
        .with_resource(resource)
        .build())
}
