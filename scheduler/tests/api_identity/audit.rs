//! The audit log: what is in it, what never is, who sees what.

use std::{collections::BTreeSet, sync::Arc};

use clawjob_proto::json::pool;
use clawjob_scheduler::{
    api::{
        self, Api, ApiSettings,
        auth::{Auth, SignInTimes},
        health::Health,
        rules,
    },
    hub::{Hub, HubSettings},
    store::audit::AuditQuery,
};
use serde_json::{Value, json};

use crate::{
    browser::{Browser, HOME, OTHER, PASSWORD, password, person, server},
    flaky::Flaky,
    harness::Server,
};

fn admin() -> Value {
    json!([{ "app": "*", "role": "ROLE_ADMIN" }])
}

async fn events(server: &Server, who: &Browser, filter: &str) -> Vec<Value> {
    let request = json!({ "filter": filter, "pageSize": 1000 });
    let page = who.post(server, "ClusterService/ListAuditEvents", request).await.ok();
    page["events"].as_array().cloned().unwrap_or_default()
}

/// Methods of the newest events first.
fn methods(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["method"].as_str().expect("a method")).collect()
}

#[tokio::test]
async fn a_change_is_written_down_with_who_what_when_and_from_where() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    server.app("a").await;
    let url = format!("{}/clawjob.v1.ClusterService/UpdateApp", server.url);
    let body = json!({ "app": { "name": "apps/a", "displayName": "Alpha" } });
    let request = server.http.post(url).header("content-type", "application/json");
    let request = request.header("cookie", &ann.cookie).header("x-clawjob-csrf", &ann.csrf);
    let request = request.header("x-forwarded-for", HOME).header("x-request-id", "req-7");
    assert_eq!(request.body(body.to_string()).send().await.expect("answers").status(), 200);
    let found = events(&server, &ann, "method = \"ClusterService/UpdateApp\"").await;
    let [event] = &found[..] else { panic!("{found:?}") };
    let mut wanted = json!({
        "time": "2026-01-01T00:00:00Z", "principal": "users/ann",
        "method": "ClusterService/UpdateApp", "resource": "apps/a", "requestId": "req-7",
        "peerAddress": HOME, "changedFields": ["app.display_name"],
    });
    wanted["id"] = event["id"].clone();
    assert_eq!(*event, wanted, "the code 0 is left out in JSON");
}

#[tokio::test]
async fn every_change_of_the_contract_leaves_an_event_and_no_read_does() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    let before = events(&server, &ann, "").await.len();
    let mut called = BTreeSet::new();
    for service in pool().services().filter(|service| service.name() != "ExecutorService") {
        for method in service.methods() {
            let path = format!("{}/{}", service.name(), method.name());
            let stays = path == "IdentityService/Logout" || method.is_server_streaming();
            if stays || path == "IdentityService/Login" {
                continue;
            }
            ann.post(&server, &path, json!({})).await;
            if !rules::reads(&format!("clawjob.v1.{path}")) {
                called.insert(path);
            }
        }
    }
    let found = events(&server, &ann, "").await;
    let written = &found[..found.len() - before];
    let named: BTreeSet<String> = methods(written).into_iter().map(str::to_owned).collect();
    assert_eq!(named, called);
    assert_eq!(written.len(), called.len(), "one each");
    assert!(written.iter().all(|event| event["principal"] == "users/ann"), "{written:?}");
    assert!(called.len() > 25, "{called:?}");
}

#[tokio::test]
async fn sign_ins_are_written_down_right_or_wrong_and_name_no_stranger() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    let mut other = Browser::at("192.0.2.9");
    other.sign_in(&server, password("ann", "a wrong guess")).await;
    other.sign_in(&server, password("hunter2-typed-here", OTHER)).await;
    other.sign_in(&server, json!({ "apiToken": "clawjob_0_wrongsecret" })).await;
    other.sign_in(&server, password("ann", OTHER)).await.ok();
    other.post(&server, "IdentityService/Logout", json!({})).await.ok();
    let found = events(&server, &ann, "peer_address = \"192.0.2.9\"").await;
    let told: Vec<_> = found
        .iter()
        .rev()
        .map(|event| {
            let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            (word("method"), word("principal"), event["code"].as_i64().unwrap_or(0))
        })
        .collect();
    let login = "IdentityService/Login".to_owned();
    let wanted = [
        (login.clone(), "users/ann".to_owned(), 16),
        (login.clone(), "users/-".to_owned(), 16),
        (login.clone(), "tokens/-".to_owned(), 16),
        (login, "users/ann".to_owned(), 0),
        ("IdentityService/Logout".to_owned(), "users/ann".to_owned(), 0),
    ];
    assert_eq!(told, wanted);
    let all = serde_json::to_string(&found).expect("JSON");
    assert!(!all.contains("hunter2") && !all.contains("wrongsecret"), "{all}");
}

#[tokio::test]
async fn what_was_refused_is_written_down_with_its_code() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    server.app("a").await;
    let bob = person(&server, "bob", json!([{ "app": "a", "role": "ROLE_VIEWER" }])).await;
    let delete = json!({ "name": "apps/a" });
    assert_eq!(bob.post(&server, "ClusterService/DeleteApp", delete.clone()).await.status, 403);
    let forged = Browser { csrf: String::new(), ..ann.clone() };
    assert_eq!(forged.post(&server, "ClusterService/DeleteApp", delete).await.status, 403);
    let gone = json!({ "name": "apps/none" });
    assert_eq!(ann.post(&server, "ClusterService/DeleteApp", gone).await.status, 404);
    let found = events(&server, &ann, "method = \"ClusterService/DeleteApp\" AND code != 0").await;
    let told: Vec<_> = found
        .iter()
        .rev()
        .map(|event| {
            (
                event["principal"].as_str().expect("who"),
                event["resource"].as_str().expect("what"),
                event["code"].as_i64(),
            )
        })
        .collect();
    let wanted = [
        ("users/bob", "apps/a", Some(7)),
        ("users/ann", "apps/a", Some(7)),
        ("users/ann", "apps/none", Some(5)),
    ];
    assert_eq!(told, wanted);
}

#[tokio::test]
async fn a_call_that_nobody_may_make_or_that_only_tries_leaves_no_event() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    let before = events(&server, &ann, "").await.len();
    let nobody = Browser::at(HOME);
    nobody.post(&server, "ClusterService/CreateApp", json!({ "appId": "a" })).await;
    let trial = json!({ "parent": "apps/a", "jobId": "j", "validateOnly": true });
    ann.post(&server, "JobService/CreateJob", trial).await;
    assert_eq!(events(&server, &ann, "").await.len(), before);
}

#[tokio::test]
async fn no_secret_is_in_the_audit_log() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    let token = json!({ "token": { "displayName": "ci", "grants": [{ "app": "a", "role": "ROLE_VIEWER" }] } });
    let made = ann.post(&server, "IdentityService/CreateToken", token).await.ok();
    let rule = json!({
        "parent": "apps/a", "alarmRuleId": "r",
        "alarmRule": {
            "condition": "CONDITION_RUN_FAILED",
            "channels": [{ "webhook": { "url": "http://127.0.0.1:9/hush-1", "secret": "hush-2" } }],
        },
    });
    server.app("a").await;
    ann.post(&server, "AlarmService/CreateAlarmRule", rule).await;
    let query = AuditQuery { limit: 1000, ..AuditQuery::default() };
    let all = format!("{:?}", server.store.list_audit(&query).await.expect("events"));
    let secret = made["secret"].as_str().expect("a secret");
    let cookie = ann.cookie.split_once('=').expect("a pair").1;
    for hidden in [secret, cookie, &ann.csrf, PASSWORD, OTHER, "hush-1", "hush-2"] {
        assert!(!all.contains(hidden), "{hidden} in {all}");
    }
    assert!(all.contains("users/ann") && all.contains("password"), "the field's name is there");
    let created = events(&server, &ann, "method : CreateToken").await;
    assert_eq!(created[0]["resource"], made["token"]["name"], "what only the answer names");
}

#[tokio::test]
async fn an_app_s_admin_sees_what_is_about_the_app_and_lesser_roles_nothing() {
    let server = server().await;
    let root = person(&server, "root", admin()).await;
    for app in ["a", "b"] {
        root.post(&server, "ClusterService/CreateApp", json!({ "appId": app })).await.ok();
    }
    let ann = person(&server, "ann", json!([{ "app": "a", "role": "ROLE_ADMIN" }])).await;
    let bob = person(&server, "bob", json!([{ "app": "*", "role": "ROLE_EDITOR" }])).await;
    let seen = events(&server, &ann, "").await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0]["resource"], "apps/a");
    assert_eq!(events(&server, &ann, "app = b").await.len(), 0);
    let refused = bob.post(&server, "ClusterService/ListAuditEvents", json!({})).await;
    assert_eq!(refused.status, 403);
    let all = events(&server, &root, "").await;
    assert!(all.len() > 4 && methods(&all).contains(&"IdentityService/CreateUser"), "{all:?}");
}

#[tokio::test]
async fn pages_go_on_where_the_last_one_ended_and_hold_for_one_filter() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    for n in 0..5 {
        let app = json!({ "appId": format!("a{n}") });
        ann.post(&server, "ClusterService/CreateApp", app).await.ok();
    }
    let mut token = json!("");
    let mut seen = Vec::new();
    for _ in 0..3 {
        let request = json!({ "filter": "method : CreateApp", "pageSize": 2, "pageToken": token });
        let page = ann.post(&server, "ClusterService/ListAuditEvents", request).await.ok();
        let events = page["events"].as_array().expect("events").clone();
        seen.extend(
            events.iter().map(|event| event["resource"].as_str().expect("a name").to_owned()),
        );
        token = page["nextPageToken"].clone();
    }
    assert_eq!((seen.len(), &token), (5, &json!(null)));
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 5, "{seen:?}");
    let request = json!({ "filter": "method : CreateApp", "pageSize": 2 });
    let page = ann.post(&server, "ClusterService/ListAuditEvents", request).await.ok();
    let crossed = json!({ "filter": "code = 0", "pageToken": page["nextPageToken"] });
    let crossed = ann.post(&server, "ClusterService/ListAuditEvents", crossed).await;
    assert_eq!((crossed.status, crossed.reason()), (400, "PAGE_TOKEN_INVALID"));
    let wrong = json!({ "filter": "values = 1" });
    let wrong = ann.post(&server, "ClusterService/ListAuditEvents", wrong).await;
    assert_eq!((wrong.status, wrong.reason()), (400, "FILTER_INVALID"));
}

/// Calls the edge without a port, over a store that can be cut off in part.
async fn over(flaky: Arc<Flaky>, server: &Server) -> Arc<api::edge::Edge> {
    let clock: Arc<dyn clawjob_scheduler::clock::Clock> = server.clock.clone();
    let (hub, _events) = Hub::new(HubSettings::default(), clock.clone());
    let settings = ApiSettings::default();
    let api = Api::new(flaky.clone(), hub, clock.clone(), settings).await.expect("an API");
    let auth = Auth::new(flaky, clock, SignInTimes::default());
    let health = Health::new().await;
    api::edge(api, auth, &health).expect("an edge")
}

async fn post(edge: &Arc<api::edge::Edge>, token: &str, path: &str, json: Value) -> (u16, String) {
    use http_body_util::BodyExt as _;
    let request = http::Request::post(format!("/clawjob.v1.{path}"))
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {token}"))
        .body(axum::body::Body::from(json.to_string()))
        .expect("a request");
    let response = edge.clone().handle(request).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn a_change_whose_event_can_not_be_written_is_not_made() {
    let server = server().await;
    let flaky = Flaky::new(server.store.clone());
    let edge = over(flaky.clone(), &server).await;
    let app = |id: &str| json!({ "appId": id });
    assert_eq!(post(&edge, &server.admin, "ClusterService/CreateApp", app("a")).await.0, 200);
    flaky.fail_only("write_audit");
    let (status, body) = post(&edge, &server.admin, "ClusterService/CreateApp", app("b")).await;
    assert_eq!(status, 503, "{body}");
    assert!(server.store.get_app("b").await.is_err(), "nothing was made");
    let (status, body) =
        post(&edge, "", "IdentityService/Login", json!({ "apiToken": server.admin })).await;
    assert_eq!(status, 503, "a sign-in without its event is none: {body}");
    assert!(!body.contains("clawjob_s"), "{body}");
}

#[tokio::test]
async fn a_change_that_was_made_keeps_its_event_when_its_end_can_not_be_written() {
    let server = server().await;
    let flaky = Flaky::new(server.store.clone());
    let edge = over(flaky.clone(), &server).await;
    flaky.fail_only("end_audit");
    let app = json!({ "appId": "a" });
    assert_eq!(post(&edge, &server.admin, "ClusterService/CreateApp", app).await.0, 200);
    assert!(server.store.get_app("a").await.is_ok());
    let admin = Browser::bearing(&server.admin);
    let found = events(&server, &admin, "method : CreateApp").await;
    assert_eq!((found.len(), found[0]["code"].as_i64()), (1, Some(2)), "UNKNOWN");
}
