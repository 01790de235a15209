//! Many at once, and those who say nothing.

use std::time::{Duration, Instant};

use clawjob_proto::v1::session_request::Frame as Up;
use futures::{StreamExt as _, stream};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::Binary;
use super::raw::{Raw, channel, encoded, hello};
use crate::judge::{Scenario, scenarios};

pub(super) const SCENARIOS: &[Scenario<Binary>] = scenarios![
    s05_silent_tcp_client_does_not_block_shutdown,
    s09_storm_of_1000_reconnects_admitted_by_rate,
];

const EXECUTORS: usize = 1_000;
/// Connections that they share.
const CONNECTIONS: usize = 10;

async fn s05_silent_tcp_client_does_not_block_shutdown(binary: Binary) {
    let mut node = binary.node().await;
    let silent = TcpStream::connect(node.url().trim_start_matches("http://")).await.unwrap();
    node.terminate();
    assert!(node.exit().await.success());
    drop(silent);
}

async fn s09_storm_of_1000_reconnects_admitted_by_rate(binary: Binary) {
    let node = binary.node_with(&["--set", "limits.sessions_per_second=100"]).await;
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
                        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
                        let details = refused.get_error_details();
                        assert_eq!(details.error_info().unwrap().reason, "SESSION_RATE");
                        let wait = details.retry_info().unwrap().retry_delay.unwrap();
                        refusals += 1;
                        tokio::time::sleep(wait + Duration::from_millis(number as u64)).await;
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
    // A hundred each second, and at most a second's worth ahead of that.
    assert!(start.elapsed() >= Duration::from_secs(8), "{:?}", start.elapsed());
}
