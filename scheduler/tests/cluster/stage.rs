//! Several schedulers on one Postgres, with executors at any of them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use clawjob_proto::v1::{
    CancelRunRequest, DisconnectExecutorRequest, GetClusterRequest, GetExecutorRequest,
    GetRunRequest, Node as NodeInfo, Run, RunView, TriggerJobRequest,
    cluster_service_client::ClusterServiceClient, executor,
    fleet_service_client::FleetServiceClient, job_service_client::JobServiceClient, node::State,
    run_service_client::RunServiceClient,
};
use nix::sys::signal::Signal;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    ledger::{LOOK, Ledger, PATIENCE},
    node::{Authorized, Bearer, Node},
    server::Schema,
};

/// The app that all is in.
pub(crate) const APP: &str = "crowd";

/// Several schedulers.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) ledger: Ledger,
    pub(crate) schema: Schema,
    token: String,
    executor_token: String,
    stop: CancellationToken,
    dir: tempfile::TempDir,
    manner: Manner,
}

/// How nodes are started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// With heartbeats in quick succession.
    Quick,
    /// Quick, and with logs in files.
    Logging,
    /// Quick, and executors are told of no address of theirs that leads anywhere.
    Hidden,
    /// With the timings that a node has unless it is told others.
    Default,
}

/// An executor with an end of its own.
pub(crate) struct Hand {
    /// Asks it to drain, as SIGTERM does.
    pub(crate) stop: CancellationToken,
    pub(crate) ended: JoinHandle<Result<(), clawjob_executor::Error>>,
}

impl Cluster {
    /// Starts so many nodes and waits until they share the partitions.
    pub(crate) async fn start(count: usize) -> Self {
        let schema = Schema::create().await;
        Self::start_on(schema, count).await
    }

    /// The same on a schema that is there.
    pub(crate) async fn start_on(schema: Schema, count: usize) -> Self {
        Self::start_as(schema, count, Manner::Quick).await
    }

    /// The same in a manner of its own.
    pub(crate) async fn start_as(schema: Schema, count: usize, manner: Manner) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let first = start_node(&dir, 0, &schema.url, manner);
        let token = first.admin_token();
        let executor_token = first.executor_token(APP).await;
        let mut cluster = Self {
            nodes: vec![first],
            ledger: Ledger::default(),
            schema,
            token,
            executor_token,
            stop: CancellationToken::new(),
            dir,
            manner,
        };
        for _ in 1..count {
            cluster.join();
        }
        cluster.balanced(count).await;
        cluster
    }

    /// One more node.
    pub(crate) fn join(&mut self) {
        let url = self.schema.url.clone();
        self.join_over(&url);
    }

    /// One more node, with a way of its own to the database.
    pub(crate) fn join_over(&mut self, url: &str) {
        let node = start_node(&self.dir, self.nodes.len(), url, self.manner);
        self.nodes.push(node);
    }

    /// What executors show.
    pub(crate) fn executor_token(&self) -> &str {
        &self.executor_token
    }

    /// What a node has logged.
    pub(crate) fn log(&self, node: usize) -> String {
        assert!(self.manner == Manner::Logging, "its log is not in files");
        let name = log_of(node);
        let files = std::fs::read_dir(self.dir.path()).expect("readable").flatten();
        // One each day.
        let own = files.filter(|file| file.file_name().to_string_lossy().starts_with(&name));
        own.map(|file| std::fs::read_to_string(file.path()).expect("readable")).collect()
    }

    async fn channel(&self, node: usize) -> (tonic::transport::Channel, Bearer) {
        (self.nodes[node].channel().await, Bearer(self.token.clone()))
    }

    pub(crate) async fn jobs(&self, node: usize) -> JobServiceClient<Authorized> {
        let (channel, bearer) = self.channel(node).await;
        JobServiceClient::with_interceptor(channel, bearer)
    }

    pub(crate) async fn runs(&self, node: usize) -> RunServiceClient<Authorized> {
        let (channel, bearer) = self.channel(node).await;
        RunServiceClient::with_interceptor(channel, bearer)
    }

    pub(crate) async fn admin(&self, node: usize) -> ClusterServiceClient<Authorized> {
        let (channel, bearer) = self.channel(node).await;
        ClusterServiceClient::with_interceptor(channel, bearer)
    }

    pub(crate) async fn fleet(&self, node: usize) -> FleetServiceClient<Authorized> {
        let (channel, bearer) = self.channel(node).await;
        FleetServiceClient::with_interceptor(channel, bearer)
    }

    /// The nodes as one of them sees them.
    pub(crate) async fn seen_by(&self, node: usize) -> Vec<NodeInfo> {
        let mut client = self.admin(node).await;
        client.get_cluster(GetClusterRequest {}).await.expect("an answer").into_inner().nodes
    }

    /// Waits until `count` nodes share all partitions evenly; returns how long that took.
    pub(crate) async fn balanced(&self, count: usize) -> Duration {
        let began = Instant::now();
        let watch = self.schema.connect().await;
        loop {
            let sql = "SELECT l.pid, count(*) FROM pg_locks l JOIN cluster_secret s
                    ON s.name = 'partition_lock_class' AND l.classid::bigint =
                        (get_byte(s.value, 0)::bigint << 24) + (get_byte(s.value, 1) << 16)
                        + (get_byte(s.value, 2) << 8) + get_byte(s.value, 3)
                WHERE l.locktype = 'advisory' AND l.objid::bigint < 64 GROUP BY l.pid";
            let rows = watch.query(sql, &[]).await.expect("locks");
            let shares: Vec<i64> = rows.iter().map(|row| row.get(1)).collect();
            let most = 64_usize.div_ceil(count) as i64;
            let even = shares.iter().all(|share| *share <= most);
            if shares.len() == count && even && shares.iter().sum::<i64>() == 64 {
                return began.elapsed();
            }
            let seen = began.elapsed();
            assert!(seen < PATIENCE, "{shares:?} are not even over {count}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// An executor that dials only these nodes.
    pub(crate) fn executor(
        &self,
        id: &str,
        slots: u32,
        nodes: &[usize],
    ) -> JoinHandle<Result<(), clawjob_executor::Error>> {
        let endpoints: Vec<String> = nodes.iter().map(|node| self.nodes[*node].url()).collect();
        self.executor_at(id, slots, &endpoints)
    }

    /// An executor that dials these addresses.
    pub(crate) fn executor_at(
        &self,
        id: &str,
        slots: u32,
        endpoints: &[String],
    ) -> JoinHandle<Result<(), clawjob_executor::Error>> {
        self.ledger.executor(endpoints, &self.executor_token, (APP, id), slots, &self.stop)
    }

    /// An executor that dials all nodes, and drains for up to `grace` when it is asked to end.
    pub(crate) fn hand(&self, id: &str, slots: u32, grace: Duration) -> Hand {
        let endpoints: Vec<String> = self.nodes.iter().map(Node::url).collect();
        let executor = self.ledger.noting(&endpoints, &self.executor_token, (APP, id));
        let stop = self.stop.child_token();
        let stopped = stop.clone().cancelled_owned();
        let run = executor.slots(slots).shutdown_grace(grace).run_until(stopped);
        Hand { stop, ended: tokio::spawn(run) }
    }

    /// Waits until the executor is connected to some node.
    pub(crate) async fn connected(&self, id: &str) {
        self.until("the executor is connected", async || {
            let sql = "SELECT 1 FROM executor WHERE name = $1 AND disconnected_at IS NULL";
            let watch = self.schema.connect().await;
            watch.query_opt(sql, &[&id]).await.expect("executors").map(drop)
        })
        .await;
    }

    /// Waits until the node that has the executor's session knows that it drains.
    pub(crate) async fn drains(&self, id: &str) {
        self.until("the executor drains", async || {
            for node in 0..self.nodes.len() {
                let name = format!("apps/{APP}/executors/{id}");
                let shown = self.fleet(node).await.get_executor(GetExecutorRequest { name }).await;
                if shown.expect("found").into_inner().state() == executor::State::Draining {
                    return Some(());
                }
            }
            None
        })
        .await;
    }

    /// Looks until there is something.
    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
        self.until_within(PATIENCE, what, look).await
    }

    async fn until_within<T>(
        &self,
        patience: Duration,
        what: &str,
        mut look: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let end = Instant::now() + patience;
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(Instant::now() < end, "{what}: it does not come about");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Triggers a job at a node; returns the run's name.
    pub(crate) async fn trigger(&self, node: usize, job: &str, executor: &str) -> String {
        trigger(&mut self.jobs(node).await, job, executor).await
    }

    /// One run in full, as a node shows it.
    pub(crate) async fn run(&self, node: usize, name: &str) -> Run {
        let request = GetRunRequest { name: name.to_owned(), view: RunView::Full.into() };
        self.runs(node).await.get_run(request).await.expect("found").into_inner()
    }

    /// The run once it has ended.
    pub(crate) async fn ended(&self, node: usize, name: &str) -> Run {
        self.ended_within(node, name, PATIENCE).await
    }

    /// The same where it may take longer.
    pub(crate) async fn ended_within(&self, node: usize, name: &str, patience: Duration) -> Run {
        self.until_within(patience, "the run ends", async || {
            let run = self.run(node, name).await;
            run.end_time.is_some().then_some(run)
        })
        .await
    }

    /// Asks a node for a run's end.
    pub(crate) async fn cancel(&self, node: usize, name: &str) {
        let request = CancelRunRequest { name: name.to_owned(), ..CancelRunRequest::default() };
        self.runs(node).await.cancel_run(request).await.expect("an answer");
    }

    /// Ends the sessions of executors, at whichever node they are.
    pub(crate) async fn disconnect(&self, ids: &[&str]) {
        for id in ids {
            for node in 0..self.nodes.len() {
                let name = format!("apps/{APP}/executors/{id}");
                let request = DisconnectExecutorRequest { name, ..Default::default() };
                // The nodes where it is not refuse.
                let _ = self.fleet(node).await.disconnect_executor(request).await;
            }
        }
    }

    /// The nodes that live, by id, with their shares, as node `node` sees them.
    pub(crate) async fn shares(&self, node: usize) -> BTreeMap<String, usize> {
        let seen = self.seen_by(node).await.into_iter();
        let active = seen.filter(|node| node.state() == State::Active);
        active.map(|node| (node.name, node.partitions.len())).collect()
    }

    /// Sends a signal to a node's process.
    pub(crate) fn signal(&self, node: usize, signal: Signal) {
        let pid = nix::unistd::Pid::from_raw(self.nodes[node].pid().cast_signed());
        nix::sys::signal::kill(pid, signal).expect("it runs");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn log_of(index: usize) -> String {
    format!("node-{index}.log")
}

fn start_node(dir: &tempfile::TempDir, index: usize, url: &str, manner: Manner) -> Node {
    let data = dir.path().join(format!("node-{index}"));
    std::fs::create_dir_all(&data).expect("made");
    let log = format!("log.file={}", dir.path().join(log_of(index)).display());
    let mut args = vec!["--database", url];
    if manner != Manner::Default {
        args.extend(["--set", "timings.heartbeat_interval=500ms"]);
        args.extend(["--set", "timings.heartbeat_timeout=3s"]);
    }
    if manner == Manner::Hidden {
        args.extend(["--set", "advertise=http://127.0.0.1:1"]);
    }
    if manner == Manner::Logging {
        args.extend(["--set", &log]);
    }
    Node::start(&data, &args)
}

/// Triggers a job, for one executor if that is named; returns the run's name.
pub(crate) async fn trigger(
    client: &mut JobServiceClient<Authorized>,
    job: &str,
    executor: &str,
) -> String {
    let request = TriggerJobRequest {
        name: format!("apps/{APP}/jobs/{job}"),
        executor: match executor {
            "" => String::new(),
            id => format!("apps/{APP}/executors/{id}"),
        },
        ..TriggerJobRequest::default()
    };
    client.trigger_job(request).await.expect("triggered").into_inner().name
}
