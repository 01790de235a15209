//! `clawjob dev`: a scheduler on its embedded store, a demo executor and four jobs, in one process.
//!
//! Everything but the server's start goes through the contract, as any other program would.

mod handlers;
mod jobs;
mod show;

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use clawjob_executor::Executor;
use clawjob_proto::v1::{
    CreateAppRequest, CreateTokenRequest, Grant, Role, Token, WatchRunsRequest,
    cluster_service_client::ClusterServiceClient, identity_service_client::IdentityServiceClient,
    job_service_client::JobServiceClient, run_service_client::RunServiceClient,
};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Request,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

use crate::{
    config::Config,
    runtime::{self, Server, StopSignals},
};

/// The app that the demo's jobs and executor are of.
const APP: &str = "demo";
/// The demo is patient with its own executor at the end for this long.
const DRAIN: Duration = Duration::from_secs(3);

/// Runs the demo until Ctrl-C.
///
/// # Errors
/// The server's start, or a call to it that fails.
pub async fn run(config: &Config) -> Result<()> {
    let mut signals = StopSignals::listen();
    let Some(server) = runtime::start_unless(&mut signals, config).await? else { return Ok(()) };
    let stop = CancellationToken::new();
    let outcome = tokio::select! {
        outcome = play(&server, config, stop.clone()) => outcome,
        () = signals.heard() => Ok(()),
    };
    println!("\nstopping");
    stop.cancel();
    server.stop().await;
    outcome
}

async fn play(server: &Server, config: &Config, stop: CancellationToken) -> Result<()> {
    let url = server.url();
    println!("listening on {url}");
    let file = server.token_file().display();
    println!("console: open {url}/ and sign in with the token in {file}");
    let token = read_token(&config.data_dir)?;
    let channel = Channel::from_shared(url.clone())?.connect().await?;
    let caller = Caller { channel, bearer: format!("Bearer {token}").parse()? };
    caller.make_app().await?;
    let executor_token = caller.make_executor_token().await?;
    let executor = tokio::spawn(
        handlers::offer(Executor::builder())
            .endpoints([url.clone()])
            .token(executor_token)
            .app(APP)
            // A fresh name per start: after a kill the last one's is taken for a while.
            .executor_id(format!("demo-{:06x}", rand::random_range(0..1_u32 << 24)))
            .slots(8)
            .shutdown_grace(DRAIN)
            .run_until(stop.cancelled_owned()),
    );
    caller.make_jobs().await?;
    show::begin();
    tokio::select! {
        shown = caller.show_runs(&url, &config.data_dir) => shown,
        ended = executor => ended?.context("the demo executor ended"),
    }
}

fn read_token(data_dir: &Path) -> Result<String> {
    let path = data_dir.join("admin.token");
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!(
            "the demo needs the admin token in {}; remove the directory to begin anew",
            path.display()
        )
    })?;
    Ok(text.trim().to_owned())
}

/// Calls with the admin token.
struct Caller {
    channel: Channel,
    bearer: MetadataValue<Ascii>,
}

impl Caller {
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.bearer.clone());
        request
    }

    async fn make_app(&self) -> Result<()> {
        let mut client = ClusterServiceClient::new(self.channel.clone());
        let request = CreateAppRequest { app_id: APP.to_owned(), ..Default::default() };
        match client.create_app(self.request(request)).await {
            Err(status) if status.code() != Code::AlreadyExists => Err(status.into()),
            _ => Ok(()),
        }
    }

    async fn make_executor_token(&self) -> Result<String> {
        let mut client = IdentityServiceClient::new(self.channel.clone());
        let grant = Grant { app: APP.to_owned(), role: Role::Executor.into() };
        let token = Token {
            display_name: "demo executor".to_owned(),
            grants: vec![grant],
            ..Default::default()
        };
        let request = CreateTokenRequest { token: Some(token), ..Default::default() };
        Ok(client.create_token(self.request(request)).await?.into_inner().secret)
    }

    async fn make_jobs(&self) -> Result<()> {
        let mut client = JobServiceClient::new(self.channel.clone());
        for job in jobs::all(APP) {
            match client.create_job(self.request(job)).await {
                Err(status) if status.code() != Code::AlreadyExists => return Err(status.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Prints a line for each run that ends or waits for another attempt, for ever.
    async fn show_runs(&self, url: &str, data_dir: &Path) -> Result<()> {
        let mut client = RunServiceClient::new(self.channel.clone());
        let mut lines = show::Lines::new(url, data_dir);
        let mut resume_token = String::new();
        loop {
            let request = WatchRunsRequest {
                parent: format!("apps/{APP}"),
                view: clawjob_proto::v1::RunView::Full.into(),
                resume_token: resume_token.clone(),
                ..Default::default()
            };
            let mut events = client.watch_runs(self.request(request)).await?.into_inner();
            while let Some(event) = events.message().await? {
                resume_token = event.resume_token.clone();
                lines.take(&event);
            }
        }
    }
}
