//! What a caller can make the server keep in memory.

use clawjob_scheduler::api::{intake::OPEN_REQUEST_BYTES_MAX, listen::STREAMS_MAX};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::Code;

use crate::harness::{SOON, Server, reason};

async fn dial(server: &Server) -> TcpStream {
    let address = server.url.trim_start_matches("http://");
    TcpStream::connect(address).await.expect("connects")
}

#[tokio::test]
async fn what_needs_no_credential_may_send_little() {
    let server = Server::start().await;
    let long = "x".repeat(OPEN_REQUEST_BYTES_MAX + 1);
    let login = json!({ "user_id": long, "password": "p" });
    let (status, error) = server.post("", "IdentityService/Login", &login).await;
    assert_eq!(status, 400, "{error}");
    assert!(error.to_string().contains("MESSAGE_TOO_LARGE"), "{error}");
    let refused = server.call("", "IdentityService/Login", login).await.expect_err("too long");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::InvalidArgument, "MESSAGE_TOO_LARGE")
    );

    // Whoever promises much and sends a little more than it may hears at once.
    let mut begun = dial(&server).await;
    let head = "POST /clawjob.v1.IdentityService/Login HTTP/1.1\r\nhost: x\r\n\
                content-type: application/json\r\ncontent-length: 4194304\r\n\r\n";
    begun.write_all(head.as_bytes()).await.expect("sent");
    begun.write_all(long.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    let read = tokio::time::timeout(SOON, begun.read_exact(&mut answer)).await;
    read.expect("in time").expect("answers");
    assert_eq!(&answer, b"HTTP/1.1 400");
}

#[tokio::test]
async fn the_streams_of_a_connection_are_bounded() {
    const SETTINGS: u8 = 4;
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    let server = Server::start().await;
    let mut connection = dial(&server).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    connection.write_all(preface).await.expect("sent");
    let settings = tokio::time::timeout(SOON, async {
        let mut head = [0; 9];
        connection.read_exact(&mut head).await.expect("a frame");
        assert_eq!(head[3], SETTINGS);
        let mut body = vec![0; usize::from(head[2])];
        connection.read_exact(&mut body).await.expect("its body");
        body
    });
    let settings = settings.await.expect("in time");
    let told = settings.chunks_exact(6).find_map(|setting| match setting {
        [a, b, value @ ..] if u16::from_be_bytes([*a, *b]) == MAX_CONCURRENT_STREAMS => {
            Some(u32::from_be_bytes(value.try_into().expect("four bytes")))
        }
        _ => None,
    });
    assert_eq!(told, Some(STREAMS_MAX));
}
