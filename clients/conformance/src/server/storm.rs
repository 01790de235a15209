//! Many at once, and those who say nothing.

use std::time::{Duration, Instant};

use clawjob_proto::v1::{
    Goodbye, Hello, SchedulerDrain, scheduler_drain, session_request::Frame as Up,
    session_response::Frame as Down,
};
use futures::future::{BoxFuture, select_all};
use futures::{StreamExt as _, stream};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::raw::{Raw, channel, encoded, hello};
use super::{Binary, postgres};
use crate::judge::{Scenario, scenarios};

pub(super) const SCENARIOS: &[Scenario<Binary>] = scenarios![
    s05_silent_tcp_client_does_not_block_shutdown,
    s08_sessions_rebalanced,
    s09_storm_of_1000_reconnects_admitted_by_rate,
];

const EXECUTORS: usize = 1_000;
/// Sessions on one of two nodes.
const CROWD: usize = 40;
/// Between two heartbeats.
const BEAT: Duration = Duration::from_secs(5);
/// Connections that they share.
const CONNECTIONS: usize = 10;

async fn s05_silent_tcp_client_does_not_block_shutdown(binary: Binary) {
    let mut node = binary.node().await;
    let silent = TcpStream::connect(node.url().trim_start_matches("http://")).await.unwrap();
    node.terminate();
    assert!(node.exit().await.success());
    drop(silent);
}

/// The order to move, once it comes; heartbeats until then.
async fn drained(mut raw: Raw) -> (Raw, SchedulerDrain) {
    for seq in 1.. {
        raw.beat(seq);
        while let Ok(frame) = tokio::time::timeout(BEAT, raw.next()).await {
            match frame {
                Ok(Some(Down::Drain(drain))) => return (raw, drain),
                Ok(Some(_)) => {}
                end => panic!("the session ended: {end:?}"),
            }
        }
    }
    unreachable!("there are always more numbers")
}

async fn s08_sessions_rebalanced(binary: Binary) {
    tokio::task::spawn_blocking(postgres::server).await.unwrap();
    let schema = postgres::Schema::create().await;
    let args = ["--database", schema.url.as_str(), "--set", "timings.heartbeat_timeout=50s"];
    let crowded = binary.another().node_with(&args).await;
    let empty = binary.node_with(&args).await;
    let (token, _) = crowded.executor_token().await;
    let mut sessions: Vec<BoxFuture<'_, (Raw, SchedulerDrain)>> = Vec::new();
    for number in 0..CROWD {
        let id = format!("e{number}");
        sessions.push(Box::pin(drained(Raw::open(crowded.url(), &token, hello(&id, &id)).await)));
    }
    // Nodes compare how many sessions they have each 60 s, and a few move at a time.
    let ((moved, drain), at, _others) = select_all(sessions).await;
    assert_eq!(drain.reason(), scheduler_drain::Reason::Rebalance);
    assert!(drain.reconnect_within.is_some() && drain.closes_after.is_some(), "{drain:?}");
    let id = format!("e{at}");
    let resume_token = moved.welcome.resume_token.clone();
    let again = Hello { resume_token, ..hello(&id, &id) };
    // The new session before the old one ends.
    let new = Raw::open(empty.url(), &token, again).await;
    assert!(new.welcome.resumed, "{:?}", new.welcome);
    moved.send(Up::Goodbye(Goodbye { reason: "moved".to_owned() }));
}

async fn s09_storm_of_1000_reconnects_admitted_by_rate(binary: Binary) {
    let node = binary.node_with(&["--set", "limits.sessions_per_second=25"]).await;
    let (token, _) = node.executor_token().await;
    let channels: Vec<_> =
        stream::iter(0..CONNECTIONS).then(|_| channel(node.url())).collect().await;
    let token = &token;
    let admitted = |number: usize| {
        let channel = channels[number % CONNECTIONS].clone();
        async move {
            let id = format!("e{number}");
            let (hello, mut refusals) = (encoded(Up::Hello(hello(&id, &id))), 0);
            loop {
                match Raw::dial(channel.clone(), token, hello.clone()).await {
                    Ok(session) => return (session, refusals),
                    Err(refused) => {
                        let details = refused.get_error_details();
                        let reason = &details.error_info().unwrap().reason;
                        let wait = details.retry_info().unwrap().retry_delay.unwrap();
                        // A first frame may be late on a busy machine: that one dials again.
                        if reason != "HELLO_TIMEOUT" {
                            assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
                            assert_eq!(reason, "SESSION_RATE");
                            refusals += 1;
                        }
                        tokio::time::sleep(wait + Duration::from_millis(10 * number as u64)).await;
                    }
                }
            }
        }
    };
    let start = Instant::now();
    let all = stream::iter(0..EXECUTORS).map(admitted).buffer_unordered(EXECUTORS);
    let sessions: Vec<(Raw, u32)> = all.collect().await;
    let refusals: u32 = sessions.iter().map(|(_, refusals)| refusals).sum();
    assert_eq!(sessions.len(), EXECUTORS);
    assert!(refusals > 0, "nobody had to wait");
    // So many each second, and at most a second's worth ahead of that.
    assert!(start.elapsed() >= Duration::from_secs(30), "{:?}", start.elapsed());
}
