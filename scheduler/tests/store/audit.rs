//! The audit log.

use clawjob_scheduler::{
    model::audit::{AuditEvent, AuditId},
    store::{audit::AuditQuery, ops::Condition},
};

use super::fixture::{Fixture, at};

fn event(n: i64, app: &str) -> AuditEvent {
    AuditEvent {
        id: AuditId::new(at(n), 0, 7),
        at: at(n),
        app: app.to_owned(),
        principal: format!("users/u{}", n % 2),
        method: "JobService/UpdateJob".to_owned(),
        resource: if app.is_empty() { String::new() } else { format!("apps/{app}/jobs/j") },
        request_id: format!("r{n}"),
        peer_address: "10.0.0.1".to_owned(),
        code: 2,
        changed_fields: vec!["job.owner".to_owned(), "job.labels".to_owned()],
    }
}

fn all() -> AuditQuery {
    AuditQuery { limit: 100, ..AuditQuery::default() }
}

fn equal(field: &'static str, value: &str) -> Condition {
    Condition::OneOf { field, values: vec![value.to_owned()], negated: false }
}

async fn seconds(f: &Fixture, query: &AuditQuery) -> Vec<i64> {
    let found = f.store.list_audit(query).await.expect("events");
    found.iter().map(|event| (event.at - at(0)).num_seconds()).collect()
}

async fn fill(f: &Fixture) {
    for (n, app) in [(1, "a"), (2, "b"), (3, ""), (4, "a")] {
        f.store.write_audit(&event(n, app)).await.expect("written");
    }
}

pub(crate) async fn an_event_is_found_as_it_was_written_and_gets_its_end(f: &Fixture) {
    let mut wanted = event(1, "");
    f.store.write_audit(&wanted).await.expect("written");
    assert_eq!(f.store.list_audit(&all()).await.expect("events"), [wanted.clone()]);
    f.store.end_audit(wanted.id, 7, "").await.expect("ended");
    wanted.code = 7;
    assert_eq!(f.store.list_audit(&all()).await.expect("events"), [wanted.clone()]);
    f.store.end_audit(wanted.id, 0, "tokens/t").await.expect("ended");
    (wanted.code, wanted.resource) = (0, "tokens/t".to_owned());
    assert_eq!(f.store.list_audit(&all()).await.expect("events"), [wanted]);
}

pub(crate) async fn events_come_newest_first_page_by_page_and_by_app(f: &Fixture) {
    fill(f).await;
    assert_eq!(seconds(f, &all()).await, [4, 3, 2, 1]);
    assert_eq!(seconds(f, &AuditQuery { limit: 2, ..all() }).await, [4, 3]);
    let before = Some(event(3, "").id);
    assert_eq!(seconds(f, &AuditQuery { before, limit: 1, ..all() }).await, [2]);
    let apps = |apps: &[&str]| {
        let apps = apps.iter().map(|app| (*app).to_owned()).collect();
        AuditQuery { apps: Some(apps), ..all() }
    };
    assert_eq!(seconds(f, &apps(&["a"])).await, [4, 1]);
    assert_eq!(seconds(f, &apps(&["a", "b"])).await, [4, 2, 1]);
    assert_eq!(seconds(f, &apps(&[])).await, [] as [i64; 0]);
}

pub(crate) async fn events_are_found_by_each_of_their_fields(f: &Fixture) {
    fill(f).await;
    f.store.end_audit(event(2, "b").id, 0, "").await.expect("ended");
    let found = async |condition: Condition| {
        seconds(f, &AuditQuery { conditions: vec![condition], ..all() }).await
    };
    assert_eq!(found(equal("principal", "users/u0")).await, [4, 2]);
    assert_eq!(found(equal("app", "b")).await, [2]);
    assert_eq!(found(equal("code", "0")).await, [2]);
    assert_eq!(found(equal("request_id", "r3")).await, [3]);
    assert_eq!(found(equal("method", "JobService/UpdateJob")).await.len(), 4);
    assert_eq!(found(equal("peer_address", "10.0.0.2")).await.len(), 0);
    let resource =
        Condition::Contains { field: "resource", text: "apps/A".to_owned(), negated: false };
    assert_eq!(found(resource).await, [4, 1]);
    let not_ok = Condition::OneOf { field: "code", values: vec!["0".to_owned()], negated: true };
    assert_eq!(found(not_ok).await, [4, 3, 1]);
    let span = |from, until| Condition::Time { field: "time", from, until };
    assert_eq!(found(span(Some(at(2)), Some(at(4)))).await, [3, 2]);
    assert_eq!(found(span(Some(at(4)), None)).await, [4]);
    assert_eq!(found(span(None, Some(at(2)))).await, [1]);
}

pub(crate) async fn old_events_are_removed(f: &Fixture) {
    fill(f).await;
    assert_eq!(f.store.prune_audit(at(3)).await.expect("pruned"), 2);
    assert_eq!(seconds(f, &all()).await, [4, 3]);
    assert_eq!(f.store.prune_audit(at(3)).await.expect("pruned"), 0);
}
