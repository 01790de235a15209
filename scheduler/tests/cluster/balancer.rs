//! Three schedulers behind the plain L4 balancer that `deploy/haproxy.cfg` describes.

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use clawjob_proto::v1::RunState;
use tonic::transport::Channel;

use crate::{
    ledger, load,
    stage::{APP, Cluster},
};

/// A balancer process, ended with this value.
struct Balancer {
    child: Child,
    port: u16,
}

impl Balancer {
    fn start(nodes: [&str; 3]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/haproxy.cfg");
        let child = Command::new(program())
            // Fewer connections than the file's, which are more than a test may have files open.
            .args(["-db", "-n", "1000", "-f"])
            .arg(config)
            .env("CLAWJOB_PROXY_BIND", format!("127.0.0.1:{port}"))
            .env("CLAWJOB_SCHEDULER_1", nodes[0])
            .env("CLAWJOB_SCHEDULER_2", nodes[1])
            .env("CLAWJOB_SCHEDULER_3", nodes[2])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("haproxy starts");
        Self { child, port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> &'static Path {
    let places = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy", "/usr/bin/haproxy"];
    let found = places.into_iter().map(Path::new).find(|place| place.is_file());
    found.expect("this test needs haproxy: on Debian, apt-get install haproxy")
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_plain_balancer_a_node_s_death_loses_and_doubles_nothing() {
    const JOBS: usize = 10;
    let mut cluster = Cluster::start(3).await;
    let urls: Vec<String> = cluster.nodes.iter().map(|node| node.url()).collect();
    let host = |index: usize| urls[index].trim_start_matches("http://");
    let balancer = Balancer::start([host(0), host(1), host(2)]);
    cluster
        .until("the balancer listens", async || {
            let channel = Channel::from_shared(balancer.url()).expect("a URL");
            channel.connect().await.ok().map(drop)
        })
        .await;
    for index in 0..4 {
        let id = format!("e{index}");
        cluster.executor_at(&id, 100, &[balancer.url()]);
        cluster.connected(&id).await;
    }
    ledger::create_lasting_jobs(&mut cluster.jobs(0).await, APP, JOBS).await;
    ledger::wait_for("a first fire", || cluster.ledger.len() > 0).await;
    let from = chrono::Utc::now().timestamp() + 1;
    for node in [1, 2] {
        cluster.nodes[node].kill9();
        cluster.balanced(2).await;
        let seen = chrono::Utc::now().timestamp();
        ledger::wait_for("a fire after the death", || cluster.ledger.newest() > seen).await;
        cluster.nodes[node].restart();
        cluster.balanced(3).await;
    }
    let until = chrono::Utc::now().timestamp() + 2;
    load::last_fires(&cluster, JOBS, until).await;
    let runs = ledger::settled_runs(&mut cluster.runs(0).await, APP, from, until).await;
    ledger::check(&runs, &cluster.ledger, APP, JOBS, from, until);
    let odd: Vec<_> = runs.iter().filter(|run| run.state() != RunState::Succeeded).collect();
    assert!(odd.is_empty(), "{odd:#?}");
}
