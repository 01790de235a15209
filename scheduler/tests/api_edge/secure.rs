//! TLS and mutual TLS on the port.

use std::{path::Path, sync::Arc, time::Duration};

use clawjob_proto::v1::{
    GetServerInfoRequest, Hello, SessionRequest, cluster_service_client::ClusterServiceClient,
    executor_service_client::ExecutorServiceClient, session_request::Frame,
    session_response::Frame as Down,
};
use clawjob_scheduler::{
    api::{
        listen::{ListenError, ListenSettings, Port},
        tls::{CHECK_INTERVAL, TlsFiles},
    },
    clock::Clock,
    model::principal::Role,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_stream::StreamExt as _;
use tonic::{
    Code, Request, Status,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use crate::harness::{SOON, Server, reason};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
}

/// Certificate and key as PEM.
fn issue(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new([name.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, authority).expect("signed");
    (certificate.pem(), key.serialize_pem())
}

fn files(dir: &Path, authority: &Authority, mutual: bool) -> TlsFiles {
    let (certificate, key) = issue(authority, "localhost");
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    TlsFiles {
        cert: write("cert.pem", certificate),
        key: write("key.pem", key),
        client_ca: mutual.then(|| write("ca.pem", authority.pem())),
    }
}

/// Serves the same edge on one more port, with TLS; returns its port number.
async fn secure(server: &Server, authority: &Authority, mutual: bool) -> u16 {
    let settings = ListenSettings {
        address: "127.0.0.1:0".parse().expect("an address"),
        tls: Some(files(server.dir.path(), authority, mutual)),
        behind_proxy: false,
        connections_max: 10,
    };
    let port = Port::bind(&settings).await.expect("a port");
    assert_eq!(port.scheme(), "https");
    let number = port.address().port();
    let clock: Arc<dyn Clock> = server.clock.clone();
    let grace = Duration::from_secs(1);
    tokio::spawn(port.serve(server.edge.clone(), clock, server.stop.clone(), grace));
    number
}

async fn connect(
    port: u16,
    authority: &Authority,
    identity: Option<(String, String)>,
) -> Result<Channel, tonic::transport::Error> {
    let mut tls = ClientTlsConfig::new()
        .domain_name("localhost")
        .ca_certificate(Certificate::from_pem(authority.pem()));
    if let Some((certificate, key)) = identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{port}")).expect("an address");
    endpoint.tls_config(tls).expect("usable").connect().await
}

/// Opens a session as the executor and waits for Welcome.
async fn say_hello(channel: Channel, token: &str, executor: &str) -> Result<(), Status> {
    let hello = Hello {
        protocol_major: 1,
        app: "a".into(),
        executor_id: executor.into(),
        instance_id: "i1".into(),
        slots: 1,
        ..Hello::default()
    };
    let frames = tokio_stream::once(SessionRequest { frame: Some(Frame::Hello(hello)) });
    let mut request = Request::new(frames.chain(tokio_stream::pending()));
    let bearer = format!("Bearer {token}").parse().expect("header text");
    request.metadata_mut().insert("authorization", bearer);
    let mut answers = ExecutorServiceClient::new(channel).session(request).await?.into_inner();
    let first = answers.message().await?.and_then(|answer| answer.frame);
    assert!(matches!(first, Some(Down::Welcome(_))), "{first:?}");
    Ok(())
}

#[tokio::test]
async fn calls_go_over_tls() {
    let server = Server::start().await;
    let authority = authority();
    let port = secure(&server, &authority, false).await;
    let channel = connect(port, &authority, None).await.expect("connects");
    let info = ClusterServiceClient::new(channel).get_server_info(GetServerInfoRequest {}).await;
    assert_eq!(info.expect("answers").into_inner().node_id, "n1");
}

#[tokio::test]
async fn a_new_certificate_is_taken_up_without_a_restart_and_a_bad_one_is_not() {
    let server = Server::start().await;
    let (old, new) = (authority(), authority());
    let port = secure(&server, &old, false).await;
    std::fs::write(server.dir.path().join("cert.pem"), "half a certif").expect("written");
    for _ in 0..3 {
        server.clock.advance(CHECK_INTERVAL);
        tokio::task::yield_now().await;
        connect(port, &old, None).await.expect("the old one still serves");
    }
    files(server.dir.path(), &new, false);
    let renewed = async {
        while connect(port, &new, None).await.is_err() {
            server.clock.advance(CHECK_INTERVAL);
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, renewed).await.expect("the new one serves");
    connect(port, &old, None).await.expect_err("the old authority signed nothing of it");
}

#[tokio::test]
async fn with_a_client_authority_nobody_gets_in_without_a_certificate() {
    let server = Server::start().await;
    let (authority, stranger) = (authority(), authority());
    let port = secure(&server, &authority, true).await;
    for identity in [None, Some(issue(&stranger, "e1"))] {
        // TLS 1.3 tells the client at its first read.
        let refused = match connect(port, &authority, identity).await {
            Err(_) => true,
            Ok(channel) => {
                let mut client = ClusterServiceClient::new(channel);
                client.get_server_info(GetServerInfoRequest {}).await.is_err()
            }
        };
        assert!(refused);
    }
    let identity = Some(issue(&authority, "anyone"));
    let channel = connect(port, &authority, identity).await.expect("connects");
    let info = ClusterServiceClient::new(channel).get_server_info(GetServerInfoRequest {}).await;
    info.expect("answers");
}

#[tokio::test]
async fn an_executors_certificate_must_be_made_out_to_its_id() {
    let server = Server::start().await;
    let authority = authority();
    let port = secure(&server, &authority, true).await;
    let token = server.token(&[("a", Role::Executor)]).await;
    let identity = Some(issue(&authority, "e1"));
    let channel = connect(port, &authority, identity).await.expect("connects");
    let other = say_hello(channel.clone(), &token, "e2").await.expect_err("another's id");
    assert_eq!(
        (other.code(), reason(&other).as_str()),
        (Code::PermissionDenied, "CERTIFICATE_MISMATCH")
    );
    say_hello(channel, &token, "e1").await.expect("its own id");
}

#[tokio::test]
async fn a_bad_file_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = authority();
    let good = files(dir.path(), &authority, true);
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "").expect("written");
    let missing = dir.path().join("missing.pem");
    for (files, named) in [
        (TlsFiles { cert: missing.clone(), ..good.clone() }, &missing),
        (TlsFiles { cert: empty.clone(), ..good.clone() }, &empty),
        (TlsFiles { key: empty.clone(), ..good.clone() }, &empty),
        (TlsFiles { client_ca: Some(empty.clone()), ..good.clone() }, &empty),
    ] {
        let settings = ListenSettings {
            address: "127.0.0.1:0".parse().expect("an address"),
            tls: Some(files),
            behind_proxy: false,
            connections_max: 1,
        };
        let error = Port::bind(&settings).await.err().expect("refused");
        assert!(matches!(error, ListenError::Tls(_)), "{error}");
        assert!(error.to_string().contains(&named.display().to_string()), "{error}");
    }
}
