//! The App RPCs.

use clawjob_scheduler::{
    api::APP_JOBS_DELETED_MAX,
    clock::Clock as _,
    model::{
        job::{JobSpec, JobState},
        principal::Role,
    },
    store::ops::{JobQuery, NewJob},
};
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::{Server, code, reason};

async fn create(server: &Server, id: &str, app: Value) -> Value {
    let request = json!({ "appId": id, "app": app });
    server.call(&server.admin, "ClusterService/CreateApp", request).await.expect("created")
}

async fn update(server: &Server, request: Value) -> Result<Value, tonic::Status> {
    server.call(&server.admin, "ClusterService/UpdateApp", request).await
}

#[tokio::test]
async fn an_app_is_made_changed_by_mask_and_deleted() {
    let server = Server::start().await;
    let made = create(&server, "a", json!({ "displayName": "A", "maxConcurrency": 3 })).await;
    assert_eq!((made["name"].as_str(), made["maxConcurrency"].as_u64()), (Some("apps/a"), Some(3)));

    let app = json!({ "name": "apps/a", "displayName": "B", "maxConcurrency": 9 });
    let changed = update(&server, json!({ "app": app, "updateMask": "displayName" })).await;
    let changed = changed.expect("changed");
    assert_eq!(changed["displayName"], "B");
    assert_eq!(changed["maxConcurrency"], 3, "the mask does not name it");
    assert_ne!(changed["etag"], made["etag"]);

    let replaced = update(&server, json!({ "app": { "name": "apps/a" }, "updateMask": "*" })).await;
    let replaced = replaced.expect("replaced");
    assert_eq!(replaced.get("displayName"), None, "{replaced}");

    let deleted =
        server.call(&server.admin, "ClusterService/DeleteApp", json!({ "name": "apps/a" }));
    deleted.await.expect("deleted");
    let gone = update(&server, json!({ "app": { "name": "apps/a" } })).await.expect_err("gone");
    assert_eq!((gone.code(), reason(&gone).as_str()), (Code::NotFound, "APP_NOT_FOUND"));
}

#[tokio::test]
async fn a_stale_etag_changes_nothing() {
    let server = Server::start().await;
    let made = create(&server, "a", json!({})).await;
    let app = json!({ "name": "apps/a", "etag": made["etag"], "displayName": "first" });
    update(&server, json!({ "app": app })).await.expect("the etag holds");
    let app = json!({ "name": "apps/a", "etag": made["etag"], "displayName": "second" });
    let stale = update(&server, json!({ "app": app })).await.expect_err("stale");
    assert_eq!((stale.code(), reason(&stale).as_str()), (Code::Aborted, "ETAG_MISMATCH"));
}

#[tokio::test]
async fn an_unknown_path_in_a_mask_is_refused() {
    let server = Server::start().await;
    create(&server, "a", json!({})).await;
    let request = json!({ "app": { "name": "apps/a" }, "updateMask": "displayName,colour" });
    let refused = update(&server, request).await.expect_err("refused");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::InvalidArgument, "MASK_UNKNOWN_FIELD")
    );
}

#[tokio::test]
async fn a_repeated_request_id_gives_the_same_app_and_another_body_an_error() {
    let server = Server::start().await;
    let request = json!({ "appId": "a", "app": { "displayName": "A" }, "requestId": "r1" });
    let path = "ClusterService/CreateApp";
    let first = server.call(&server.admin, path, request.clone()).await.expect("created");
    let again = server.call(&server.admin, path, request).await.expect("the same");
    assert_eq!(first, again);
    let other = json!({ "appId": "b", "requestId": "r1" });
    let refused = server.call(&server.admin, path, other).await.expect_err("refused");
    assert_eq!(reason(&refused), "REQUEST_ID_REUSED");
    let taken = server.call(&server.admin, path, json!({ "appId": "a" })).await;
    assert_eq!(code(&taken), Code::AlreadyExists);
}

async fn make_jobs(server: &Server, count: usize) {
    let app = server.app("a").await;
    for n in 0..count {
        let job = NewJob {
            app,
            name: format!("j{n}"),
            state: JobState::Active,
            spec: JobSpec { handler: "hello".into(), ..JobSpec::default() },
            updated_by: "test".into(),
            request: None,
        };
        let now = server.clock.now();
        server.store.create_job(&job, Box::new(|_| Vec::new()), now).await.expect("a job");
    }
}

#[tokio::test]
async fn an_app_of_many_jobs_is_deleted_in_steps_that_go_on_where_the_last_ended() {
    let server = Server::start().await;
    make_jobs(&server, 2 * APP_JOBS_DELETED_MAX + 1).await;
    let request = json!({ "name": "apps/a", "force": true });
    let delete = || server.call(&server.admin, "ClusterService/DeleteApp", request.clone());
    for left in [APP_JOBS_DELETED_MAX + 1, 1] {
        let status = delete().await.expect_err("more is left");
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::FailedPrecondition, "APP_DELETION_UNFINISHED")
        );
        assert!(status.message().starts_with(&APP_JOBS_DELETED_MAX.to_string()), "{status}");
        let jobs = JobQuery { limit: 5_000, ..JobQuery::default() };
        assert_eq!(server.store.list_jobs(&jobs).await.expect("listed").len(), left);
    }
    delete().await.expect("the last step");
    assert_eq!(code(&delete().await), Code::NotFound);
}

#[tokio::test]
async fn an_app_with_a_job_stays_unless_forced() {
    let server = Server::start().await;
    make_jobs(&server, 1).await;
    let request = json!({ "name": "apps/a" });
    let refused = server.call(&server.admin, "ClusterService/DeleteApp", request).await;
    let refused = refused.expect_err("refused");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "APP_NOT_EMPTY")
    );
}

#[tokio::test]
async fn lists_show_the_apps_a_caller_may_see_in_pages() {
    let server = Server::start().await;
    for id in ["a", "b", "c", "d"] {
        create(&server, id, json!({})).await;
    }
    let caller =
        server.token(&[("a", Role::Viewer), ("c", Role::Admin), ("z", Role::Viewer)]).await;
    let listed = server.call(&caller, "ClusterService/ListApps", json!({})).await.expect("listed");
    let names: Vec<_> =
        listed["apps"].as_array().expect("apps").iter().map(|a| &a["name"]).collect();
    assert_eq!(names, ["apps/a", "apps/c"]);

    let page = server.call(&server.admin, "ClusterService/ListApps", json!({ "pageSize": 3 }));
    let page = page.await.expect("a page");
    assert_eq!(page["apps"].as_array().expect("apps").len(), 3);
    let token = page["nextPageToken"].as_str().expect("a next page");
    let request = json!({ "pageSize": 3, "pageToken": token });
    let rest = server.call(&server.admin, "ClusterService/ListApps", request.clone()).await;
    let rest = rest.expect("the rest");
    assert_eq!(rest["apps"][0]["name"], "apps/d");
    assert_eq!(rest.get("nextPageToken"), None);
    let stolen = server.call(&caller, "ClusterService/ListApps", request).await;
    let stolen = stolen.expect_err("a page token is its caller's own");
    assert_eq!(reason(&stolen), "PAGE_TOKEN_INVALID");
    let negative = server.call(&server.admin, "ClusterService/ListApps", json!({ "pageSize": -1 }));
    assert_eq!(code(&negative.await), Code::InvalidArgument);
}
