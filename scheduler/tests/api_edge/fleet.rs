//! FleetService and GetCluster.

use std::time::Duration;

use clawjob_scheduler::{clock::Clock as _, model::principal::Role};
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::{Server, code, reason};

fn names(page: &Value, field: &str) -> Vec<String> {
    let items = page[field].as_array().cloned().unwrap_or_default();
    let name = |item: &Value| item["name"].as_str().map(str::to_owned);
    items.iter().filter_map(name).collect()
}

#[tokio::test]
async fn executors_are_listed_by_app_filter_and_page() {
    let server = Server::start().await;
    for (app, name, handlers) in [
        ("a", "e1", ["mail", "bill"]),
        ("a", "e2", ["mail", "sums"]),
        ("b", "e3", ["mail", "bill"]),
    ] {
        server.executor(app, name, &handlers).await;
    }
    let list = async |token: &str, request: Value| {
        server.call(token, "FleetService/ListExecutors", request).await
    };
    let admin = server.admin.clone();
    let all = list(&admin, json!({ "parent": "apps/-" })).await.expect("listed");
    assert_eq!(names(&all, "executors").len(), 3, "{all}");
    let reader = server.token(&[("b", Role::Viewer)]).await;
    let seen = list(&reader, json!({ "parent": "apps/-" })).await.expect("listed");
    assert_eq!(names(&seen, "executors"), ["apps/b/executors/e3"]);
    for (filter, expected) in [
        ("handler = bill", vec!["apps/a/executors/e1"]),
        ("labels.zone = e2", vec!["apps/a/executors/e2"]),
        ("state = ONLINE AND NOT handler = bill", vec!["apps/a/executors/e2"]),
        ("state = OFFLINE", vec![]),
    ] {
        let found = list(&admin, json!({ "parent": "apps/a", "filter": filter })).await;
        assert_eq!(names(&found.expect("listed"), "executors"), expected, "{filter}");
    }
    let bad = list(&admin, json!({ "parent": "apps/a", "filter": "colour = red" })).await;
    assert_eq!(reason(&bad.expect_err("refused")), "FILTER_INVALID");
    let missing = list(&admin, json!({ "parent": "apps/none" })).await;
    assert_eq!(code(&missing), Code::NotFound);

    let first = list(&admin, json!({ "parent": "apps/-", "pageSize": 2 })).await.expect("a page");
    assert_eq!(names(&first, "executors").len(), 2);
    let next = json!({ "parent": "apps/-", "pageSize": 2, "pageToken": first["nextPageToken"] });
    let second = list(&admin, next).await.expect("a page");
    assert_eq!(names(&second, "executors"), ["apps/b/executors/e3"]);
    let moved = json!({ "parent": "apps/a", "pageToken": first["nextPageToken"] });
    assert_eq!(code(&list(&admin, moved).await), Code::InvalidArgument);
}

#[tokio::test]
async fn an_executor_out_of_contact_is_shown_as_such_and_can_be_forgotten() {
    let server = Server::start().await;
    let row = server.executor("a", "e1", &["mail"]).await;
    let request = json!({ "name": "apps/a/executors/e1" });
    let get = async || {
        let got = server.call(&server.admin, "FleetService/GetExecutor", request.clone()).await;
        got.map(|executor| executor["state"].clone())
    };
    assert_eq!(get().await.expect("there"), "STATE_ONLINE");
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(get().await.expect("there"), "STATE_SUSPECT", "its node keeps silent");

    let delete =
        async || server.call(&server.admin, "FleetService/DeleteExecutor", request.clone()).await;
    let refused = delete().await.expect_err("connected");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "EXECUTOR_CONNECTED")
    );
    let ended = server.store.end_session(row.row, row.session_epoch, true, server.clock.now());
    ended.await.expect("ended");
    assert_eq!(get().await.expect("there"), "STATE_OFFLINE");
    delete().await.expect("forgotten");
    assert_eq!(code(&get().await), Code::NotFound);
}

#[tokio::test]
async fn a_cordon_is_set_and_cleared() {
    let server = Server::start().await;
    server.executor("a", "e1", &["mail"]).await;
    let name = "apps/a/executors/e1";
    let request = json!({ "name": name, "reason": "disk swap" });
    let cordoned = server.call(&server.admin, "FleetService/CordonExecutor", request).await;
    assert_eq!(cordoned.expect("done")["cordoned"], true);
    let request = json!({ "name": name });
    let open = server.call(&server.admin, "FleetService/UncordonExecutor", request).await;
    assert_eq!(open.expect("done").get("cordoned"), None);
    let long = json!({ "name": "apps/a/jobs/e1", "reason": "x".repeat(999) });
    let refused = server.call(&server.admin, "FleetService/CordonExecutor", long).await;
    let refused = refused.expect_err("two faults");
    assert!(refused.message().contains("reason") && refused.message().contains("name"));
}

#[tokio::test]
async fn an_executor_of_another_node_is_disconnected_there() {
    let server = Server::start().await;
    server.executor("a", "e1", &["mail"]).await;
    let request = json!({ "name": "apps/a/executors/e1", "killRuns": true });
    let refused = server.call(&server.admin, "FleetService/DisconnectExecutor", request).await;
    let refused = refused.expect_err("elsewhere");
    assert_eq!(reason(&refused), "EXECUTOR_ELSEWHERE");
    assert!(refused.message().contains("nodes/n2"), "{}", refused.message());
}

#[tokio::test]
async fn handlers_name_the_connected_executors_that_offer_them() {
    let server = Server::start().await;
    server.executor("a", "e1", &["mail", "bill"]).await;
    server.executor("a", "e2", &["mail"]).await;
    let gone = server.executor("a", "e3", &["old"]).await;
    let ended = server.store.end_session(gone.row, gone.session_epoch, true, server.clock.now());
    ended.await.expect("ended");
    let list = async |request: Value| {
        server.call(&server.admin, "FleetService/ListHandlers", request).await.expect("listed")
    };
    let listed = list(json!({ "parent": "apps/a", "pageSize": 1 })).await;
    assert_eq!(listed["handlers"][0]["handler"]["name"], "bill");
    let token = &listed["nextPageToken"];
    let rest = list(json!({ "parent": "apps/a", "pageSize": 1, "pageToken": token })).await;
    assert_eq!(rest["handlers"][0]["handler"]["name"], "mail");
    let offering = rest["handlers"][0]["executors"].as_array().expect("executors").len();
    assert_eq!((offering, rest.get("nextPageToken")), (2, None));
}

#[tokio::test]
async fn the_cluster_shows_its_storage_and_nodes() {
    let server = Server::start().await;
    let cluster = server.call(&server.admin, "ClusterService/GetCluster", json!({})).await;
    assert_eq!(cluster.expect("shown")["storage"], "sqlite");
}
