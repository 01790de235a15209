//! The database's disk is full, and later it is not.

use std::io::{self, Read as _, Write as _};

use clawjob_proto::v1::{CreateJobRequest, GetClusterRequest, Job, Payload};
use rand::{Rng as _, distr::Alphanumeric};
use tokio_postgres::NoTls;
use tonic_types::StatusExt as _;

use crate::{
    ledger::{self, PATIENCE},
    load::{load, settle_with_misses},
    node::Node,
    server::{Places, Schema, Server},
    stage::{APP, Cluster, Manner},
    tmpfs::Small,
};

/// Bytes of a job's params that fit into no page that is there.
const LARGE: usize = 200_000;

/// A file system of so many MiB, where this process may mount one.
fn mounted(mib: u32) -> Option<Small> {
    let mounted = Small::mount(mib, "mode=1777");
    let why = "a file system that gets full has to be mounted, which needs root";
    mounted.inspect_err(|fault| println!("SKIPPED: {why}: {fault}")).ok()
}

/// How `/readyz` answers.
fn readyz(node: &Node) -> String {
    let address = node.url().replace("http://", "");
    let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// A server that starts again by itself listens all the while.
fn nobody_listens(fault: &tokio_postgres::Error) -> bool {
    let cause =
        std::error::Error::source(fault).and_then(|cause| cause.downcast_ref::<io::Error>());
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    cause.is_some_and(|cause| kinds.contains(&cause.kind()))
}

async fn problem(cluster: &Cluster, node: usize) -> String {
    let seen = cluster.admin(node).await.get_cluster(GetClusterRequest {}).await;
    seen.expect("an answer").into_inner().problem
}

/// A job that needs room.
async fn create_large(cluster: &Cluster) -> Result<(), tonic::Status> {
    let text = rand::rng().sample_iter(Alphanumeric).take(LARGE).map(char::from);
    let data = format!("{{\"text\":\"{}\"}}", text.collect::<String>()).into_bytes().into();
    let params = Payload { content_type: "application/json".to_owned(), data };
    let job = Job { handler: "note".to_owned(), params: Some(params), ..Job::default() };
    let request = CreateJobRequest {
        parent: format!("apps/{APP}"),
        job_id: "large".to_owned(),
        job: Some(job),
        ..CreateJobRequest::default()
    };
    cluster.jobs(0).await.create_job(request).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_of_the_database_is_told_and_once_there_is_room_all_goes_on() {
    let Some(disk) = mounted(256) else { return };
    // Elsewhere: a full write-ahead log ends the server, which is another case.
    let places = Places { data: Some(disk.path()), wal: Some(&std::env::temp_dir()) };
    let server = Server::start_in(false, places);
    let schema = Schema::only(server.url.clone());
    let cluster = Cluster::start_as(schema, 2, Manner::Logging).await;
    let from = load(&cluster).await;
    let seen = cluster.ledger.newest();
    ledger::wait_for("some seconds of fires", || cluster.ledger.newest() > seen + 3).await;
    disk.fill().expect("full");

    let told = |node: usize, words: &[&str]| {
        let log = cluster.log(node);
        log.lines().any(|line| words.iter().all(|word| line.contains(word))).then_some(())
    };
    for node in 0..2 {
        let words = ["scheduling is interrupted", "disk is full"];
        cluster.until("the log tells of a full disk", async || told(node, &words)).await;
        let problem =
            async || (problem(&cluster, node).await.contains("disk is full")).then_some(());
        cluster.until("the status tells of a full disk", problem).await;
    }
    let refused = create_large(&cluster).await.expect_err("there is no room");
    let reason = refused.get_error_details().error_info().map(|info| info.reason.clone());
    assert_eq!(reason.as_deref(), Some("STORAGE_FULL"), "{refused:?}");
    for node in 0..2 {
        let bad = async || {
            let answer = readyz(&cluster.nodes[node]);
            (answer.contains("503") && answer.contains("disk is full")).then_some(())
        };
        cluster.until("the node is not ready, and says why", bad).await;
        let words = ["scheduling makes no progress", "disk is full"];
        cluster.until("the log tells that it goes on", async || told(node, &words)).await;
    }

    disk.free().expect("room");
    println!("all share again after {:?}", cluster.balanced(2).await);
    for node in 0..2 {
        let well = async || {
            let ready = readyz(&cluster.nodes[node]).starts_with("HTTP/1.1 200");
            (ready && problem(&cluster, node).await.is_empty()).then_some(())
        };
        cluster.until("all is well", well).await;
    }
    create_large(&cluster).await.expect("there is room");
    settle_with_misses(&cluster, 0, from).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_write_ahead_log_loses_and_doubles_nothing() {
    let Some(disk) = mounted(64) else { return };
    let places = Places { data: None, wal: Some(disk.path()) };
    let mut server = Server::start_in(false, places);
    let cluster = Cluster::start_on(Schema::only(server.url.clone()), 2).await;
    let from = load(&cluster).await;
    let seen = cluster.ledger.newest();
    ledger::wait_for("some seconds of fires", || cluster.ledger.newest() > seen + 3).await;
    disk.fill().expect("full");
    // The file in use is left, and there is no room for the next: the server panics. It may get over
    // that once or twice with a file that it had to spare.
    let gone = async || match tokio_postgres::connect(&server.url, NoTls).await {
        Ok((client, connection)) => {
            let connection = tokio::spawn(connection);
            let _ = client.batch_execute("SELECT pg_switch_wal()").await;
            connection.abort();
            None
        }
        Err(fault) => nobody_listens(&fault).then_some(()),
    };
    cluster.until("the server is gone", gone).await;
    disk.free().expect("room");
    tokio::task::block_in_place(|| server.up());
    println!("all share again after {:?}", cluster.balanced(2).await);
    settle_with_misses(&cluster, 0, from).await;
    assert!(server.log().contains("No space left"), "{}", server.log());
}
