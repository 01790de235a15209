//! Every method of the contract × every role: only the allowed cells pass, over gRPC and over JSON.

use std::collections::BTreeSet;

use clawjob_proto::json::pool;
use clawjob_scheduler::model::{
    alarm::{AlarmRuleSpec, Channel, Webhook},
    calendar::CalendarSpec,
    ids::RunId,
    job::{JobSpec, JobState},
    principal::Role,
    run::{NewRun, TriggerKind},
};
use clawjob_scheduler::{
    clock::Clock as _,
    store::{
        ops::{NewAlarmRule, NewJob},
        schedules::NewCalendar,
    },
};
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::{Server, code};

/// What a method needs.
#[derive(Clone, Copy, Debug)]
enum Need {
    Open,
    Anyone,
    Session,
    Somewhere(Role),
    Everywhere,
    /// In the app; to somebody with roles elsewhere only it answers with the code.
    InApp(Role, Code),
}

use Need::{Anyone, Everywhere, InApp, Open, Session, Somewhere};
use Role::{Admin, Editor, Operator, Viewer};

const HIDDEN: Code = Code::NotFound;
const DENIED: Code = Code::PermissionDenied;

/// Written by hand, apart from the server's own table: what is meant, and a request about app `a`
/// that changes nothing which a later row needs.
#[allow(clippy::too_many_lines, reason = "one row for each method")]
fn table(run: RunId, token: &str) -> Vec<(&'static str, Need, Value)> {
    let job = json!({ "name": "apps/a/jobs/j" });
    let of_run = json!({ "name": format!("apps/a/runs/{run}") });
    let app = json!({ "parent": "apps/a" });
    let executor = json!({ "name": "apps/a/executors/e" });
    let rule = json!({ "name": "apps/a/alarmRules/r" });
    let calendar = json!({ "name": "apps/a/calendars/c" });
    vec![
        ("ExecutorService/Session", Session, json!({})),
        (
            "JobService/CreateJob",
            InApp(Editor, DENIED),
            json!({ "parent": "apps/a", "jobId": "j" }),
        ),
        ("JobService/GetJob", InApp(Viewer, HIDDEN), job.clone()),
        ("JobService/ListJobs", InApp(Viewer, HIDDEN), app.clone()),
        (
            "JobService/UpdateJob",
            InApp(Editor, HIDDEN),
            json!({ "job": job, "validateOnly": true }),
        ),
        (
            "JobService/DeleteJob",
            InApp(Editor, HIDDEN),
            json!({ "name": "apps/a/jobs/j", "etag": "stale" }),
        ),
        ("JobService/PauseJob", InApp(Operator, HIDDEN), job.clone()),
        ("JobService/ResumeJob", InApp(Operator, HIDDEN), job.clone()),
        ("JobService/TriggerJob", InApp(Operator, HIDDEN), job.clone()),
        (
            "JobService/PreviewSchedule",
            InApp(Viewer, HIDDEN),
            json!({ "parent": "apps/a", "schedule": { "cron": "0 9 * * *" } }),
        ),
        ("JobService/ListJobRevisions", InApp(Viewer, HIDDEN), job.clone()),
        (
            "JobService/RollbackJob",
            InApp(Editor, HIDDEN),
            json!({ "name": "apps/a/jobs/j", "revision": "1" }),
        ),
        ("JobService/BackfillJob", InApp(Operator, HIDDEN), job.clone()),
        ("JobService/ForecastRuns", InApp(Viewer, HIDDEN), app.clone()),
        ("RunService/GetRun", InApp(Viewer, HIDDEN), of_run.clone()),
        ("RunService/ListRuns", InApp(Viewer, HIDDEN), app.clone()),
        ("RunService/CancelRun", InApp(Operator, HIDDEN), of_run.clone()),
        ("RunService/RerunRun", InApp(Operator, HIDDEN), of_run.clone()),
        (
            "RunService/WaitRun",
            InApp(Viewer, HIDDEN),
            json!({ "name": format!("apps/a/runs/{run}"), "timeout": "0.001s" }),
        ),
        ("RunService/WatchRuns", InApp(Viewer, HIDDEN), app.clone()),
        ("RunService/ListRunLogs", InApp(Viewer, HIDDEN), of_run.clone()),
        ("RunService/TailRunLogs", InApp(Viewer, HIDDEN), of_run),
        ("FleetService/GetExecutor", InApp(Viewer, HIDDEN), executor.clone()),
        ("FleetService/ListExecutors", InApp(Viewer, HIDDEN), app.clone()),
        ("FleetService/CordonExecutor", InApp(Operator, HIDDEN), executor.clone()),
        ("FleetService/UncordonExecutor", InApp(Operator, HIDDEN), executor.clone()),
        ("FleetService/DisconnectExecutor", InApp(Operator, HIDDEN), executor.clone()),
        ("FleetService/DeleteExecutor", InApp(Operator, HIDDEN), executor),
        ("FleetService/ListHandlers", InApp(Viewer, HIDDEN), app.clone()),
        ("CalendarService/CreateCalendar", InApp(Editor, DENIED), app.clone()),
        ("CalendarService/GetCalendar", InApp(Viewer, HIDDEN), calendar.clone()),
        ("CalendarService/ListCalendars", InApp(Viewer, HIDDEN), app.clone()),
        ("CalendarService/UpdateCalendar", InApp(Editor, HIDDEN), json!({ "calendar": calendar })),
        (
            "CalendarService/DeleteCalendar",
            InApp(Editor, HIDDEN),
            json!({ "name": "apps/a/calendars/c", "etag": "stale" }),
        ),
        ("AlarmService/CreateAlarmRule", InApp(Editor, DENIED), app.clone()),
        ("AlarmService/GetAlarmRule", InApp(Viewer, HIDDEN), rule.clone()),
        ("AlarmService/ListAlarmRules", InApp(Viewer, HIDDEN), app.clone()),
        ("AlarmService/UpdateAlarmRule", InApp(Editor, HIDDEN), json!({ "alarmRule": rule })),
        (
            "AlarmService/DeleteAlarmRule",
            InApp(Editor, HIDDEN),
            json!({ "name": "apps/a/alarmRules/r", "etag": "stale" }),
        ),
        ("AlarmService/TestAlarmRule", InApp(Operator, HIDDEN), rule),
        ("AlarmService/ListAlarms", InApp(Viewer, HIDDEN), app),
        (
            "AlarmService/AcknowledgeAlarm",
            InApp(Operator, HIDDEN),
            json!({ "name": "apps/a/alarms/x" }),
        ),
        ("IdentityService/Login", Open, json!({})),
        ("IdentityService/Logout", Anyone, json!({})),
        ("IdentityService/WhoAmI", Anyone, json!({})),
        ("IdentityService/CreateUser", Everywhere, json!({})),
        ("IdentityService/GetUser", Everywhere, json!({})),
        ("IdentityService/ListUsers", Everywhere, json!({})),
        ("IdentityService/UpdateUser", Everywhere, json!({})),
        ("IdentityService/DeleteUser", Everywhere, json!({})),
        (
            "IdentityService/CreateToken",
            InApp(Admin, DENIED),
            json!({ "token": { "grants": [{ "app": "a", "role": "ROLE_VIEWER" }] } }),
        ),
        ("IdentityService/ListTokens", Somewhere(Admin), json!({})),
        ("IdentityService/RevokeToken", InApp(Admin, HIDDEN), json!({ "name": token })),
        ("ClusterService/GetServerInfo", Open, json!({})),
        ("ClusterService/GetCluster", Somewhere(Viewer), json!({})),
        ("ClusterService/DrainNode", Everywhere, json!({})),
        ("ClusterService/ListApps", Somewhere(Viewer), json!({})),
        ("ClusterService/CreateApp", InApp(Admin, DENIED), json!({ "appId": "a" })),
        ("ClusterService/UpdateApp", InApp(Admin, HIDDEN), json!({ "app": { "name": "apps/a" } })),
        ("ClusterService/DeleteApp", InApp(Admin, HIDDEN), json!({ "name": "apps/a" })),
        ("ClusterService/ListAuditEvents", Somewhere(Admin), json!({})),
    ]
}

/// Who calls: the role, and in which app; `None` is nobody.
const CALLERS: [Option<(&str, Role)>; 9] = [
    None,
    Some(("a", Role::Executor)),
    Some(("a", Viewer)),
    Some(("a", Operator)),
    Some(("a", Editor)),
    Some(("a", Admin)),
    Some(("b", Admin)),
    Some(("*", Viewer)),
    Some(("*", Admin)),
];

/// `None` means that the call passes.
fn expected(need: Need, caller: Option<(&str, Role)>) -> Option<Code> {
    let Some((app, role)) = caller else {
        return (!matches!(need, Open)).then_some(Code::Unauthenticated);
    };
    let executor = role == Role::Executor;
    let deny = |allowed: bool| (!allowed).then_some(DENIED);
    match need {
        Open | Anyone => None,
        Session => deny(executor),
        _ if executor => Some(DENIED),
        Somewhere(needed) => deny(role >= needed),
        Everywhere => deny(app == "*" && role == Admin),
        InApp(_, foreign) if app == "b" => Some(foreign),
        InApp(needed, _) => deny(role >= needed),
    }
}

async fn stage(server: &Server) -> (RunId, String) {
    let now = server.clock.now();
    server.executor("a", "e", &["hello"]).await;
    let app = server.app("a").await;
    let job = NewJob {
        app,
        name: "j".into(),
        state: JobState::Active,
        spec: JobSpec { handler: "hello".into(), ..JobSpec::default() },
        updated_by: "test".into(),
        request: None,
    };
    let job = server.store.create_job(&job, Box::new(|_| Vec::new()), now).await.expect("a job");
    let run = NewRun {
        id: RunId::by_hand(now, 7),
        job: job.id,
        app,
        revision: job.revision,
        trigger: TriggerKind::Api,
        fire_at: now,
        due_at: now,
        extra: None,
    };
    let run = server.store.create_run(&run, None, now).await.expect("a run");
    // Nobody listens at its target: a test of it is over at once.
    let webhook = Webhook { url: "http://127.0.0.1:9/".into(), ..Webhook::default() };
    let spec =
        AlarmRuleSpec { channels: vec![Channel::Webhook(webhook)], ..AlarmRuleSpec::default() };
    let rule = NewAlarmRule { app, name: "r".into(), spec, updated_by: "test".into() };
    server.store.create_alarm_rule(&rule, None, now).await.expect("a rule");
    let calendar =
        NewCalendar { app, name: "c".into(), spec: CalendarSpec::default(), request: None };
    server.store.create_calendar(&calendar, now).await.expect("a calendar");
    let spare = server.token(&[("a", Viewer)]).await;
    let id = spare.split('_').nth(1).expect("an id").to_owned();
    (run, format!("tokens/{id}"))
}

fn word(code: Code) -> &'static str {
    match code {
        Code::Unauthenticated => "unauthenticated",
        Code::PermissionDenied => "permission_denied",
        Code::NotFound => "not_found",
        other => panic!("the table expects {other:?}"),
    }
}

#[tokio::test]
async fn x50_each_role_passes_its_own_cells_and_no_others() {
    let server = Server::start().await;
    let (run, spare) = stage(&server).await;
    let mut faults = Vec::new();
    let mut callers = Vec::new();
    for caller in CALLERS {
        callers.push(match caller {
            None => (caller, String::new()),
            Some(grant) => (caller, server.token(&[grant]).await),
        });
        // The same for people, who are never executors.
        if let Some(grant) = caller.filter(|(_, role)| *role != Role::Executor) {
            callers.push((caller, server.signed_in(&[grant]).await));
        }
    }
    for (path, need, request) in table(run, &spare) {
        // A sign-in that has ended would be refused everything after.
        if path == "IdentityService/Logout" {
            continue;
        }
        for (caller, token) in &callers {
            let caller = *caller;
            let want = expected(need, caller);
            let got = server.call(token, path, request.clone()).await;
            let refused =
                matches!(code(&got), Code::Unauthenticated | DENIED | HIDDEN).then(|| code(&got));
            if refused != want {
                faults.push(format!("{path} as {caller:?}: {got:?}, wanted {want:?}"));
            }
            if let Some(want) = want
                && path != "ExecutorService/Session"
            {
                let (_, body) = server.post(token, path, &request).await;
                if body["code"] != word(want) {
                    faults.push(format!("{path} as {caller:?} over JSON: {body}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn x50_the_table_names_every_method_of_the_contract() {
    let named: BTreeSet<String> = table(RunId::by_hand(chrono::DateTime::UNIX_EPOCH, 0), "")
        .into_iter()
        .map(|(path, ..)| path.to_owned())
        .collect();
    let all: BTreeSet<String> = pool()
        .services()
        .flat_map(|service| {
            let methods: Vec<_> = service.methods().collect();
            methods.into_iter().map(move |m| format!("{}/{}", service.name(), m.name()))
        })
        .collect();
    assert_eq!(named, all);
}

#[tokio::test]
async fn r68_every_method_and_page_refuses_nobody_and_nonsense() {
    let server = Server::start().await;
    let known = server.token(&[("*", Admin)]).await;
    let wrong_secret = format!("{}0", &known[..known.len() - 1]);
    let other_secret = if wrong_secret == known { format!("{known}1") } else { wrong_secret };
    for token in ["", "nonsense", "clawjob_0_0", &other_secret] {
        for service in pool().services() {
            for method in service.methods() {
                let path = format!("{}/{}", service.name(), method.name());
                if ["ClusterService/GetServerInfo", "IdentityService/Login"].contains(&&*path) {
                    continue;
                }
                let got = server.call(token, &path, json!({})).await;
                assert_eq!(code(&got), Code::Unauthenticated, "{path} with {token:?}");
                let (status, _) = server.post(token, &path, &json!({})).await;
                assert_eq!(status, 401, "{path} with {token:?} over JSON");
            }
        }
        let page = server.http.get(format!("{}/metrics", server.url)).bearer_auth(token);
        assert_eq!(page.send().await.expect("answers").status(), 401, "/metrics");
    }
}

#[tokio::test]
async fn x49_an_executors_token_reaches_no_service_but_its_own() {
    let server = Server::start().await;
    let (run, spare) = stage(&server).await;
    let token = server.token(&[("b", Role::Executor)]).await;
    for (path, need, request) in table(run, &spare) {
        if matches!(need, Open | Anyone | Session) {
            continue;
        }
        let got = server.call(&token, path, request).await;
        assert_eq!(code(&got), Code::PermissionDenied, "{path}");
    }
}

#[tokio::test]
async fn x49_an_executor_registers_in_its_own_app_only() {
    let server = Server::start().await;
    let token = server.token(&[("b", Role::Executor)]).await;
    let hello = |app: &str| {
        json!({ "hello": {
            "protocolMajor": 1, "app": app, "executorId": "e1", "instanceId": "i1", "slots": 1,
            "handlers": [{ "name": "hello" }],
        } })
    };
    let got = server.call(&token, "ExecutorService/Session", hello("a")).await;
    assert_eq!(code(&got), Code::PermissionDenied, "{got:?}");
    assert!(server.store.get_app("a").await.is_err(), "the app was made all the same");
    let got = server.call(&token, "ExecutorService/Session", hello("b")).await;
    assert_eq!(code(&got), Code::Ok, "{got:?}");
}

#[tokio::test]
async fn what_a_caller_may_not_know_of_answers_as_if_it_were_not_there() {
    let server = Server::start().await;
    stage(&server).await;
    let stranger = server.token(&[("b", Admin)]).await;
    let admin = server.admin.clone();
    let foreign = json!({ "name": "apps/a/alarmRules/r" });
    let there = server.call(&stranger, "AlarmService/GetAlarmRule", foreign).await;
    let missing = json!({ "name": "apps/a/alarmRules/none" });
    let gone = server.call(&admin, "AlarmService/GetAlarmRule", missing).await;
    assert_eq!((code(&there), code(&gone)), (HIDDEN, HIDDEN));
    for path in ["FleetService/GetExecutor", "FleetService/DeleteExecutor"] {
        let there = server.call(&stranger, path, json!({ "name": "apps/a/executors/e" })).await;
        let gone = server.call(&admin, path, json!({ "name": "apps/a/executors/none" })).await;
        let (there, gone) = (there.expect_err("hidden"), gone.expect_err("missing"));
        assert_eq!(there.code(), gone.code());
        assert_eq!(there.message().replace("/e ", "/none "), gone.message());
        assert_eq!(crate::harness::reason(&there), crate::harness::reason(&gone));
    }
}

#[tokio::test]
async fn x50_a_run_can_not_be_reached_under_the_name_of_another_app() {
    let server = Server::start().await;
    let (run, _) = stage(&server).await;
    server.app("b").await;
    let admin_of_b = server.token(&[("b", Admin)]).await;
    let request = json!({ "name": format!("apps/b/runs/{run}") });
    for method in ["GetRun", "CancelRun", "RerunRun", "ListRunLogs", "TailRunLogs", "WaitRun"] {
        let got = server.call(&admin_of_b, &format!("RunService/{method}"), request.clone()).await;
        assert_eq!(code(&got), Code::NotFound, "{method}: {got:?}");
    }
}

#[tokio::test]
async fn r69_streams_ask_for_the_same_rights_as_pages() {
    let server = Server::start().await;
    let (run, _) = stage(&server).await;
    let of_run = json!({ "name": format!("apps/a/runs/{run}") });
    let of_app = json!({ "parent": "apps/a" });
    for caller in CALLERS {
        let token = match caller {
            None => String::new(),
            Some(grant) => server.token(&[grant]).await,
        };
        for (page, stream, request) in [
            ("RunService/ListRuns", "RunService/WatchRuns", &of_app),
            ("RunService/ListRunLogs", "RunService/TailRunLogs", &of_run),
        ] {
            let page = server.call(&token, page, request.clone()).await;
            let streamed = server.call(&token, stream, request.clone()).await;
            assert_eq!(code(&streamed), code(&page), "{stream} as {caller:?}");
        }
    }
}

#[tokio::test]
async fn r63_deleting_an_app_leaves_the_one_whose_name_begins_alike_alone() {
    let server = Server::start().await;
    stage(&server).await;
    server.app("a-1").await;
    let deleted = json!({ "name": "apps/a-1", "force": true });
    server.call(&server.admin, "ClusterService/DeleteApp", deleted).await.expect("deleted");
    let job = json!({ "name": "apps/a/jobs/j" });
    server.call(&server.admin, "JobService/GetJob", job).await.expect("still there");
}
