//! What a caller can make the server keep in memory.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clawjob_scheduler::api::{
    intake::OPEN_REQUEST_BYTES_MAX, listen::STREAMS_MAX, status::size::HEADERS_BYTES_MAX,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::{Code, transport::Endpoint};
use tonic_types::StatusExt as _;

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

/// All pages of the list: how many items each has, and all names.
async fn walk(
    server: &Server,
    path: &str,
    field: &str,
    mut ask: Value,
) -> (Vec<usize>, Vec<Value>) {
    let (mut sizes, mut names) = (Vec::new(), Vec::new());
    loop {
        // A client that takes 4 MiB, as they do unless told otherwise.
        let page = server.call(&server.admin, path, ask.clone()).await.expect("a page");
        let items = page[field].as_array().cloned().unwrap_or_default();
        sizes.push(items.len());
        names.extend(items.iter().map(|item| item["name"].clone()));
        match page["nextPageToken"].as_str() {
            Some(token) if !token.is_empty() => ask["page_token"] = token.into(),
            _ => return (sizes, names),
        }
    }
}

#[tokio::test]
async fn pages_end_by_their_bytes_and_go_on_with_their_token() {
    const JOBS: usize = 20;
    let server = Server::start().await;
    server.app("a").await;
    let data = STANDARD.encode(format!("\"{}\"", "x".repeat(250 * 1024)));
    let params = json!({ "content_type": "application/json", "data": data });
    for n in 0..JOBS {
        let job = json!({ "handler": "h", "params": params });
        let ask = json!({ "parent": "apps/a", "job_id": format!("j{n}"), "job": job });
        server.call(&server.admin, "JobService/CreateJob", ask).await.expect("made");
        let ask = json!({ "name": format!("apps/a/jobs/j{n}") });
        server.call(&server.admin, "JobService/TriggerJob", ask).await.expect("triggered");
    }
    let parent = json!({ "parent": "apps/a", "page_size": 1000 });
    let full = json!({ "parent": "apps/a", "page_size": 1000, "view": "RUN_VIEW_FULL" });
    let few = json!({ "parent": "apps/a", "page_size": 5, "view": "RUN_VIEW_FULL" });
    for (path, field, ask, pages) in [
        ("JobService/ListJobs", "jobs", parent.clone(), vec![12, 8]),
        ("RunService/ListRuns", "runs", parent, vec![20]),
        ("RunService/ListRuns", "runs", full, vec![12, 8]),
        ("RunService/ListRuns", "runs", few, vec![5, 5, 5, 5]),
    ] {
        let (sizes, mut names) = walk(&server, path, field, ask).await;
        assert_eq!(sizes, pages, "{path}");
        names.sort_by_key(ToString::to_string);
        names.dedup();
        assert_eq!(names.len(), JOBS, "{path}");
    }
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

/// A job of some 240 faults, with texts of which each byte takes three on its way.
fn all_wrong() -> Value {
    let labels: serde_json::Map<_, _> =
        (0..64).map(|n| (format!("錯 {n}"), Value::from("x"))).collect();
    let codes: Vec<_> = (0..64).map(|n| format!("é {n}")).collect();
    let schedules: Vec<_> = (0..16).map(|_| json!({ "cron": "七 ".repeat(300) })).collect();
    json!({
        "labels": labels,
        "placement": { "required_labels": labels },
        "retry": { "non_retryable_codes": codes, "max_attempts": 9999 },
        "schedules": schedules,
    })
}

#[tokio::test]
async fn an_error_of_hundreds_of_faults_reaches_a_client_that_takes_little() {
    let mut server = Server::start().await;
    let endpoint = Endpoint::from_shared(server.url.clone()).expect("an address");
    let headers_max = u32::try_from(HEADERS_BYTES_MAX).expect("fits");
    server.channel = endpoint.http2_max_header_list_size(headers_max).connect_lazy();
    let ask = json!({ "parent": "apps/a", "job_id": "j", "job": all_wrong() });
    let refused = server.call(&server.admin, "JobService/CreateJob", ask.clone()).await;
    let refused = refused.expect_err("faults");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let details = refused.get_error_details();
    let told = &details.bad_request().expect("a BadRequest").field_violations;
    assert_eq!(told[0].field, "job.handler");
    let (last, whole) = told.split_last().expect("faults");
    assert!(whole.iter().all(|fault| !fault.field.is_empty() && !fault.description.is_empty()));
    let (status, error) = server.post(&server.admin, "JobService/CreateJob", &ask).await;
    assert_eq!(status, 400);
    for text in [&last.description, refused.message()] {
        assert!(text.contains("more faults"), "{text}");
    }
    assert!(error["message"].as_str().expect("a text").ends_with(&last.description), "{error}");
    // The connection lives on.
    server.call(&server.admin, "ClusterService/ListApps", json!({})).await.expect("answers");
}
