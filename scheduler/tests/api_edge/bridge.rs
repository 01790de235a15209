//! JSON over HTTP/1.1 on the port of gRPC.

use clawjob_scheduler::{api::ApiSettings, model::principal::Role};
use serde_json::{Value, json};

use crate::harness::{SOON, Server};

#[tokio::test]
async fn curls_form_of_a_call_answers() {
    let server = Server::start().await;
    let (status, info) = server.post("", "ClusterService/GetServerInfo", &json!({})).await;
    assert_eq!(status, 200, "{info}");
    assert_eq!((info["nodeId"].as_str(), info["protocolMajor"].as_u64()), (Some("n1"), Some(1)));
    assert_eq!(info["serverTime"], "2026-01-01T00:00:00Z");
    let grpc = server.call("", "ClusterService/GetServerInfo", json!({})).await.expect("answers");
    assert_eq!(info, grpc, "both forms say the same");
}

#[tokio::test]
async fn an_empty_body_is_an_empty_message() {
    let server = Server::start().await;
    let url = format!("{}/clawjob.v1.ClusterService/ListApps", server.url);
    let request = server.http.post(url).header("content-type", "application/json; charset=utf-8");
    let answer = request.bearer_auth(&server.admin).send().await.expect("answers");
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn errors_have_code_message_and_details_under_the_right_status() {
    let server = Server::start().await;
    let request = json!({ "name": "apps/a/executors/e" });
    let (status, error) = server.post(&server.admin, "FleetService/GetExecutor", &request).await;
    assert_eq!((status, error["code"].as_str()), (404, Some("not_found")));
    let types: Vec<_> = error["details"]
        .as_array()
        .expect("details")
        .iter()
        .map(|detail| detail["type"].as_str().expect("a type"))
        .collect();
    for name in ["ErrorInfo", "RequestInfo", "ResourceInfo"] {
        assert!(types.contains(&format!("google.rpc.{name}").as_str()), "{name} in {error}");
    }
}

#[tokio::test]
async fn a_field_that_can_not_be_read_is_named_by_its_path() {
    let server = Server::start().await;
    for (path, request, expected) in [
        ("ClusterService/ListApps", json!({ "pageSize": 3, "pagesize": 4 }), "pagesize"),
        ("ClusterService/ListApps", json!({ "pageSize": "many" }), "pageSize"),
        ("JobService/CreateJob", json!({ "job": { "retry": { "tries": 2 } } }), "job.retry.tries"),
        ("JobService/CreateJob", json!({ "job": 1 }), "job"),
        (
            "JobService/CreateJob",
            json!({ "job": { "schedules": [{ "interval": "often" }] } }),
            "job.schedules[0].interval",
        ),
    ] {
        let (status, error) = server.post(&server.admin, path, &request).await;
        assert_eq!((status, error["code"].as_str()), (400, Some("invalid_argument")));
        let details = error["details"].as_array().expect("details");
        let bad = details.iter().find(|detail| detail["type"] == "google.rpc.BadRequest");
        let field = &bad.expect("a BadRequest")["debug"]["fieldViolations"][0]["field"];
        assert_eq!(field, expected, "{error}");
    }
}

#[tokio::test]
async fn method_media_type_and_size_are_checked() {
    let server = Server::start().await;
    let url = format!("{}/clawjob.v1.ClusterService/ListApps", server.url);
    let get = server.http.get(&url).bearer_auth(&server.admin).send().await.expect("answers");
    assert_eq!(get.status(), 405);
    assert_eq!(get.headers()["allow"], "POST");
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"] {
        let post = server.http.post(&url).header("content-type", media_type).body("{}");
        let post = post.bearer_auth(&server.admin).send().await.expect("answers");
        assert_eq!(post.status(), 415, "{media_type}");
    }
    for (body, reason) in [
        ("{", "FIELD_INVALID".to_owned()),
        ("{}{}", "FIELD_INVALID".to_owned()),
        (&"x".repeat(5 * 1024 * 1024), "MESSAGE_TOO_LARGE".to_owned()),
    ] {
        let post = server.http.post(&url).header("content-type", "application/json");
        let post = post.body(body.to_owned()).bearer_auth(&server.admin).send();
        let post = post.await.expect("answers");
        assert_eq!(post.status(), 400, "{reason}");
        let text = post.text().await.expect("a body");
        assert!(text.contains(&reason), "{text}");
    }
    let deep = "[".repeat(100_000);
    let post = server.http.post(&url).header("content-type", "application/json").body(deep);
    let post = post.bearer_auth(&server.admin).send().await.expect("answers");
    assert_eq!(post.status(), 400, "nesting is bounded");
}

#[tokio::test]
async fn sessions_and_unknown_methods_have_no_json_form() {
    let server = Server::start().await;
    let executor = server.token(&[("a", Role::Executor)]).await;
    for path in ["ExecutorService/Session", "JobService/Explode", "Nothing/AtAll"] {
        for token in [&server.admin, &executor] {
            let (status, error) = server.post(token, path, &json!({})).await;
            assert_eq!((status, error["code"].as_str()), (501, Some("unimplemented")), "{path}");
        }
    }
}

#[tokio::test]
async fn a_request_id_comes_back_in_the_header_and_in_errors() {
    let server = Server::start().await;
    let url = format!("{}/clawjob.v1.FleetService/GetExecutor", server.url);
    let send = |id: &'static str| {
        let request = server.http.post(&url).header("content-type", "application/json");
        let request = request.header("x-request-id", id).bearer_auth(&server.admin);
        request.body(r#"{"name":"apps/a/executors/e"}"#).send()
    };
    let answer = send("my-id.7").await.expect("answers");
    assert_eq!(answer.headers()["x-request-id"], "my-id.7");
    assert!(answer.text().await.expect("a body").contains("my-id.7"));
    for odd in ["has space", "<script>"] {
        let answer = send(odd).await.expect("answers");
        let made = answer.headers()["x-request-id"].to_str().expect("text").to_owned();
        assert!(made != odd && !made.is_empty(), "{made}");
    }
}

#[tokio::test]
async fn everything_is_served_under_the_context_path_too() {
    let settings = ApiSettings { context_path: "/clawjob".into(), ..ApiSettings::default() };
    let server = Server::start_with(settings).await;
    let base = format!("{}/clawjob", server.url);
    let page = server.http.get(format!("{base}/healthz")).send().await.expect("answers");
    assert_eq!(page.status(), 200);
    let url = format!("{base}/clawjob.v1.ClusterService/GetServerInfo");
    let post = server.http.post(url).header("content-type", "application/json").body("{}");
    assert_eq!(post.send().await.expect("answers").status(), 200);
    let other = server.http.get(format!("{base}xyz/healthz")).send().await.expect("answers");
    assert_eq!(other.status(), 404);
    // gRPC clients know no prefix.
    server.call("", "ClusterService/GetServerInfo", json!({})).await.expect("answers");
}

#[tokio::test]
async fn a_stream_comes_as_lines_of_json_and_ends_with_its_error() {
    let server = Server::start().await;
    server.app("a").await;
    let url = format!("{}/clawjob.v1.RunService/WatchRuns", server.url);
    let request = server.http.post(url).header("content-type", "application/json");
    let request = request.bearer_auth(&server.admin).body(r#"{"parent":"apps/a"}"#);
    let mut answer = request.send().await.expect("answers");
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    let mut text = String::new();
    // An empty app begins with a bookmark; the server's end is the last line.
    while !text.contains('\n') {
        let chunk = tokio::time::timeout(SOON, answer.chunk()).await.expect("in time");
        text.push_str(&String::from_utf8_lossy(&chunk.expect("goes on").expect("not over")));
    }
    server.stop.cancel();
    while let Some(chunk) = answer.chunk().await.expect("ends well") {
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(lines[0]["type"], "TYPE_BOOKMARK", "{text}");
    let last = lines.last().expect("a last line");
    assert_eq!(last["error"]["code"], "unavailable", "{text}");
}
