//! Request ids: a repeat gets the answer of its first call, whatever has changed meanwhile.

use std::time::Duration;

use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::harness::{Server, reason};

const PASSWORD: &str = "correct horse battery";

async fn call(server: &Server, path: &str, request: &Value) -> Result<Value, Status> {
    // Each at an instant of its own.
    server.clock.advance(Duration::from_millis(1));
    server.call(&server.admin, path, request.clone()).await
}

async fn ok(server: &Server, path: &str, request: Value) -> Value {
    call(server, path, &request).await.unwrap_or_else(|status| panic!("{path}: {status}"))
}

async fn refused(server: &Server, path: &str, request: Value) -> (Code, String, String) {
    let status = call(server, path, &request).await.expect_err(path);
    (status.code(), reason(&status), status.message().to_owned())
}

fn job(schedule: &Value) -> Value {
    json!({
        "parent": "apps/a", "jobId": "j", "requestId": "r1",
        "job": { "handler": "hello", "schedules": [schedule] },
    })
}

/// The creations whose resources can be deleted: the call, its request, the deletion, the name.
fn creations() -> [(&'static str, Value, &'static str, &'static str); 5] {
    let channel = json!({ "webhook": { "url": "https://h/" } });
    let calendar = json!({ "dates": ["2026-05-01"] });
    let rule = json!({ "condition": "CONDITION_RUN_FAILED", "channels": [channel] });
    [
        (
            "JobService/CreateJob",
            job(&json!({ "cron": "0 0 1 1 *" })),
            "JobService/DeleteJob",
            "apps/a/jobs/j",
        ),
        ("ClusterService/CreateApp", json!({ "appId": "b" }), "ClusterService/DeleteApp", "apps/b"),
        (
            "CalendarService/CreateCalendar",
            json!({ "parent": "apps/a", "calendarId": "c", "calendar": calendar }),
            "CalendarService/DeleteCalendar",
            "apps/a/calendars/c",
        ),
        (
            "AlarmService/CreateAlarmRule",
            json!({ "parent": "apps/a", "alarmRuleId": "r", "alarmRule": rule }),
            "AlarmService/DeleteAlarmRule",
            "apps/a/alarmRules/r",
        ),
        (
            "IdentityService/CreateUser",
            json!({ "userId": "u", "password": PASSWORD }),
            "IdentityService/DeleteUser",
            "users/u",
        ),
    ]
}

#[tokio::test]
async fn a_creation_whose_resource_is_deleted_since_is_not_found_again_even_under_a_new_namesake() {
    let server = Server::start().await;
    for (create, mut request, delete, name) in creations() {
        request["requestId"] = json!("r1");
        let first = ok(&server, create, request.clone()).await;
        assert_eq!(first, ok(&server, create, request.clone()).await, "{name}");
        ok(&server, delete, json!({ "name": name })).await;
        let (code, _, told) = refused(&server, create, request.clone()).await;
        assert_eq!(code, Code::NotFound, "{name}: {told}");
        assert!(told.contains(name) && told.contains("deleted since"), "{told}");
        let mut anew = request.clone();
        anew["requestId"] = json!("r2");
        ok(&server, create, anew).await;
        let again = refused(&server, create, request).await;
        assert_eq!((again.0, again.2), (Code::NotFound, told), "{name}");
    }
}

#[tokio::test]
async fn a_repeated_creation_is_answered_though_the_job_s_instant_has_passed() {
    let server = Server::start().await;
    let request = job(&json!({ "at": "2026-01-01T00:00:02Z" }));
    let first = ok(&server, "JobService/CreateJob", request.clone()).await;
    server.clock.advance(Duration::from_secs(3));
    let again = ok(&server, "JobService/CreateJob", request).await;
    assert_eq!((&first["name"], &first["etag"]), (&again["name"], &again["etag"]));
}

#[tokio::test]
async fn a_repeated_trigger_or_rerun_shows_its_run_though_the_job_is_gone() {
    let server = Server::start().await;
    ok(&server, "JobService/CreateJob", job(&json!({ "cron": "0 0 1 1 *" }))).await;
    let trigger = json!({ "name": "apps/a/jobs/j", "requestId": "r1" });
    let run = ok(&server, "JobService/TriggerJob", trigger.clone()).await;
    ok(&server, "RunService/CancelRun", json!({ "name": run["name"] })).await;
    let rerun = json!({ "name": run["name"], "requestId": "r1" });
    let second = ok(&server, "RunService/RerunRun", rerun.clone()).await;
    assert_eq!(second["rerunOf"], run["name"]);
    let delete = json!({ "name": "apps/a/jobs/j", "force": true });
    ok(&server, "JobService/DeleteJob", delete).await;
    let again = ok(&server, "JobService/TriggerJob", trigger).await;
    assert_eq!(again["name"], run["name"]);
    let again = ok(&server, "RunService/RerunRun", rerun).await;
    assert_eq!(again["name"], second["name"]);
}

#[tokio::test]
async fn a_repeated_backfill_gives_its_counts_though_the_schedules_are_gone() {
    let server = Server::start().await;
    ok(&server, "JobService/CreateJob", job(&json!({ "cron": "0 * * * *" }))).await;
    let backfill = json!({
        "name": "apps/a/jobs/j", "requestId": "r1",
        "startTime": "2025-12-31T00:00:00Z", "endTime": "2025-12-31T03:00:00Z",
    });
    let first = ok(&server, "JobService/BackfillJob", backfill.clone()).await;
    assert_eq!(first["runCount"], 3);
    let update = json!({
        "job": { "name": "apps/a/jobs/j", "schedules": [] }, "updateMask": "schedules",
    });
    ok(&server, "JobService/UpdateJob", update).await;
    assert_eq!(ok(&server, "JobService/BackfillJob", backfill).await, first);
}

#[tokio::test]
async fn a_user_s_creation_with_another_password_is_another_request() {
    let server = Server::start().await;
    let request =
        |password: &str| json!({ "userId": "u", "password": password, "requestId": "r1" });
    let first = ok(&server, "IdentityService/CreateUser", request(PASSWORD)).await;
    assert_eq!(ok(&server, "IdentityService/CreateUser", request(PASSWORD)).await, first);
    let other = request("correct horse batterz");
    let (code, reason, _) = refused(&server, "IdentityService/CreateUser", other).await;
    assert_eq!((code, reason.as_str()), (Code::InvalidArgument, "REQUEST_ID_REUSED"));
    let change = json!({ "user": { "name": "users/u" }, "password": "staple of the battery" });
    ok(&server, "IdentityService/UpdateUser", change).await;
    let again = ok(&server, "IdentityService/CreateUser", request(PASSWORD)).await;
    assert_eq!(again["name"], first["name"], "the request is the same whatever the user has now");
}

#[tokio::test]
async fn a_token_s_secret_is_shown_once_even_when_its_end_has_passed() {
    let server = Server::start().await;
    let request = |name: &str| {
        let grants = json!([{ "app": "a", "role": "ROLE_VIEWER" }]);
        let end = "2026-01-01T00:00:02Z";
        let token = json!({ "displayName": name, "grants": grants, "expireTime": end });
        json!({ "token": token, "requestId": "r1" })
    };
    ok(&server, "IdentityService/CreateToken", request("x")).await;
    server.clock.advance(Duration::from_secs(3));
    let (_, again, _) = refused(&server, "IdentityService/CreateToken", request("x")).await;
    assert_eq!(again, "SECRET_SHOWN_ONCE");
    let (_, other, _) = refused(&server, "IdentityService/CreateToken", request("y")).await;
    assert_eq!(other, "REQUEST_ID_REUSED");
}
