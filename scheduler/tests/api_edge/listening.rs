//! The port itself: health, reflection, silent clients, refusals, and the end.

use std::{sync::Arc, time::Duration};

use clawjob_scheduler::{
    api::{
        ApiSettings,
        health::Phase,
        listen::{HELLO_MAX, ListenError, ListenSettings, Port},
    },
    clock::Clock,
};
use serde_json::json;
use tokio::{io::AsyncReadExt as _, net::TcpStream};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::{v1, v1alpha};

use crate::harness::{SOON, Server, start_time};

#[tokio::test]
async fn x51_plain_text_on_a_public_address_is_refused_unless_a_proxy_is_in_front() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let mut settings = ListenSettings {
            address: address.parse().expect("an address"),
            tls: None,
            behind_proxy: false,
            connections_max: 1,
        };
        let refused = Port::bind(&settings).await.err().expect("refused");
        assert!(matches!(refused, ListenError::PlainText(_)), "{refused}");
        assert!(refused.to_string().contains("certificate"), "{refused}");
        settings.behind_proxy = true;
        // A machine without IPv6 can't bind, which is another fault.
        if let Err(error) = Port::bind(&settings).await {
            assert!(matches!(error, ListenError::Bind { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn health_follows_the_phase_for_http_and_grpc() {
    let server = Server::start().await;
    let page = |path: &'static str| {
        let request = server.http.get(format!("{}{path}", server.url)).send();
        async move { request.await.expect("answers").status().as_u16() }
    };
    let check = |service: &str| {
        let request = HealthCheckRequest { service: service.to_owned() };
        let mut client = HealthClient::new(server.channel.clone());
        async move { client.check(request).await.expect("answers").into_inner().status() }
    };
    assert_eq!((page("/healthz").await, page("/readyz").await), (200, 200));
    for service in ["", "clawjob.v1.JobService", "clawjob.v1.ExecutorService"] {
        assert_eq!(check(service).await, ServingStatus::Serving, "{service}");
    }
    server.health.set(Phase::Draining).await;
    assert_eq!((page("/healthz").await, page("/readyz").await), (200, 503));
    assert_eq!(check("clawjob.v1.JobService").await, ServingStatus::NotServing);
    server.health.set(Phase::Starting).await;
    assert_eq!((page("/healthz").await, page("/readyz").await), (503, 503));
}

#[tokio::test]
async fn x44_a_node_whose_scheduling_stalls_is_alive_but_not_ready_for_http_and_grpc() {
    let server = Server::start().await;
    let page = async |path: &str| {
        let answer = server.http.get(format!("{}{path}", server.url)).send().await;
        let answer = answer.expect("answers");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    };
    let check = async |service: &str| {
        let request = HealthCheckRequest { service: service.to_owned() };
        let mut client = HealthClient::new(server.channel.clone());
        client.check(request).await.expect("answers").into_inner().status()
    };
    server.health.set_stalled(true).await;
    let (status, text) = page("/readyz").await;
    assert_eq!(status, 503);
    assert!(text.contains("no progress"), "{text}");
    assert_eq!(page("/healthz").await.0, 200, "a restart would not help");
    assert_eq!(check("").await, ServingStatus::NotServing);
    assert_eq!(check("clawjob.v1.JobService").await, ServingStatus::NotServing);
    server.health.set_stalled(false).await;
    assert_eq!(page("/readyz").await.0, 200);
    assert_eq!(check("").await, ServingStatus::Serving);
}

#[tokio::test]
async fn metrics_need_a_credential_unless_they_are_open() {
    use clawjob_scheduler::model::principal::Role;
    let server = Server::start().await;
    let page = async |token: &str| {
        let request = server.http.get(format!("{}/metrics", server.url)).bearer_auth(token);
        request.send().await.expect("answers").status().as_u16()
    };
    assert_eq!(page(&server.token(&[("*", Role::Viewer)]).await).await, 200);
    assert_eq!(page(&server.token(&[("a", Role::Admin)]).await).await, 403);
    let open =
        Server::start_with(ApiSettings { metrics_open: true, ..ApiSettings::default() }).await;
    open.call("", "ClusterService/GetServerInfo", json!({})).await.expect("answers");
    let answer = open.http.get(format!("{}/metrics", open.url)).send().await.expect("answers");
    let text = answer.text().await.expect("text");
    assert!(text.contains("ClusterService/GetServerInfo"), "{text}");
}

#[tokio::test]
async fn both_reflections_list_all_services_to_whoever_may_read() {
    let server = Server::start().await;
    let bearer = format!("Bearer {}", server.admin);
    let list_v1 = async |bearer: Option<&str>| {
        let ask = v1::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(
                String::new(),
            )),
        };
        let mut request = tonic::Request::new(tokio_stream::once(ask));
        if let Some(bearer) = bearer {
            request.metadata_mut().insert("authorization", bearer.parse().expect("text"));
        }
        let channel = server.channel.clone();
        let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel);
        client.server_reflection_info(request).await?.into_inner().message().await
    };
    let refused = list_v1(None).await.expect_err("needs a token");
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    let listed = format!("{:?}", list_v1(Some(&bearer)).await.expect("answers"));
    for service in clawjob_proto::json::pool().services() {
        assert!(listed.contains(service.full_name()), "{}", service.full_name());
    }
    assert!(listed.contains("grpc.health.v1.Health"), "{listed}");

    let ask = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
                "clawjob.v1.JobService".into(),
            ),
        ),
    };
    let mut request = tonic::Request::new(tokio_stream::once(ask));
    request.metadata_mut().insert("authorization", bearer.parse().expect("text"));
    let channel = server.channel.clone();
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let mut answers = client.server_reflection_info(request).await.expect("opens").into_inner();
    let answer = answers.message().await.expect("answers").expect("one answer");
    assert!(format!("{answer:?}").contains("FileDescriptorResponse"), "{answer:?}");
}

#[tokio::test]
async fn a_client_that_says_nothing_is_dropped_and_holds_up_nothing() {
    let server = Server::start().await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let mut silent = TcpStream::connect(&address).await.expect("connects");
    // A served call shows that the silent connection was accepted before it.
    server.call("", "ClusterService/GetServerInfo", json!({})).await.expect("answers");
    let dropped = tokio::time::timeout(SOON, async {
        let mut one = [0_u8];
        loop {
            server.clock.advance(HELLO_MAX);
            tokio::select! {
                read = silent.read(&mut one) => break read,
                () = tokio::task::yield_now() => {}
            }
        }
    });
    let read = dropped.await.expect("in time");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");

    let _silent = TcpStream::connect(&address).await.expect("connects");
    server.stop.cancel();
    tokio::time::timeout(SOON, server.serving).await.expect("ends").expect("no panic");
}

#[tokio::test]
async fn open_streams_end_with_a_status_when_the_node_goes_away() {
    let server = Server::start().await;
    let mut client = HealthClient::new(server.channel.clone());
    let request = HealthCheckRequest { service: String::new() };
    let mut watch = client.watch(request).await.expect("opens").into_inner();
    watch.message().await.expect("answers").expect("the present state");
    server.stop.cancel();
    let ended = tokio::time::timeout(SOON, watch.message()).await.expect("ends");
    let status = ended.expect_err("with a status");
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
    assert_eq!(crate::harness::reason(&status), "NODE_DRAINING");
    tokio::time::timeout(SOON, server.serving).await.expect("ends").expect("no panic");
}

#[tokio::test]
async fn a_connection_that_stays_is_cut_after_the_grace() {
    let server = Server::start().await;
    let address = server.url.trim_start_matches("http://").to_owned();
    // It has begun a request and never ends it.
    let mut half = TcpStream::connect(&address).await.expect("connects");
    tokio::io::AsyncWriteExt::write_all(&mut half, b"POST /x HTTP/1.1\r\nhost:")
        .await
        .expect("sent");
    server.call("", "ClusterService/GetServerInfo", json!({})).await.expect("answers");
    server.stop.cancel();
    let mut serving = server.serving;
    let clock: Arc<dyn Clock> = server.clock.clone();
    assert_eq!(clock.now(), start_time(), "time stands still until here");
    let ended = tokio::time::timeout(SOON, async {
        loop {
            tokio::select! {
                ended = &mut serving => break ended,
                () = tokio::task::yield_now() => server.clock.advance(Duration::from_secs(1)),
            }
        }
    });
    ended.await.expect("ends").expect("no panic");
}
