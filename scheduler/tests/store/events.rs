//! The event log that watchers follow, and hints.

use std::time::Duration;

use chrono::TimeDelta;
use clawjob_scheduler::{
    model::{
        ids::RunId,
        run::{KillReason, RunState},
    },
    store::{
        StoreError, Topic,
        ops::{EventCursor, JobChange, ReplanInput, Retention, RunEvents},
    },
};
use tokio::sync::broadcast::error::RecvError;

use super::fixture::{Fixture, at, canceling, ending, fire};

/// Longest wait for a hint or an event; one that does not come fails the case.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

async fn now(f: &Fixture) -> EventCursor {
    f.store.run_events(None, 10).await.expect("the end").cursor
}

async fn since(f: &Fixture, cursor: EventCursor) -> RunEvents {
    f.store.run_events(Some(cursor), 100).await.expect("events")
}

/// Waits until the events are those: a transaction of another database of the server may hold the
/// newest back for a moment.
#[allow(clippy::disallowed_methods, reason = "nothing tells when the horizon moves")]
async fn until(f: &Fixture, start: EventCursor, changed: &[RunId], deleted: &[RunId]) -> RunEvents {
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    loop {
        let events = since(f, start).await;
        let come = events.changed == changed && events.deleted == deleted;
        if come || tokio::time::Instant::now() > deadline {
            assert_eq!((&*events.changed, &*events.deleted), (changed, deleted));
            return events;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

pub(crate) async fn changes_are_told_in_their_order(f: &Fixture) {
    let start = now(f).await;
    let running = f.run_in("a", RunState::Running).await;
    let other = f.run_in("b", RunState::Dispatched).await;
    let first = until(f, start, &[running.run, other.run], &[]).await;
    let marks = [canceling(running, KillReason::User)];
    f.store.mark_canceling(&marks, at(20)).await.expect("marked");
    let next = until(f, first.cursor, &[running.run], &[]).await;
    f.store.end_runs(&[ending(running, RunState::Canceled)], at(21)).await.expect("ended");
    until(f, next.cursor, &[running.run], &[]).await;
    // Each once, by its last change.
    until(f, start, &[other.run, running.run], &[]).await;
}

pub(crate) async fn a_page_of_events_goes_on_where_the_last_one_ended(f: &Fixture) {
    let start = now(f).await;
    let mut expected = Vec::new();
    for name in ["a", "b", "c"] {
        expected.push(f.run_in(name, RunState::Dispatched).await.run);
    }
    until(f, start, &expected, &[]).await;
    let mut cursor = start;
    for run in expected {
        let page = f.store.run_events(Some(cursor), 1).await.expect("a page");
        assert_eq!(page.changed, [run]);
        assert!(page.cursor > cursor);
        cursor = page.cursor;
    }
    assert_eq!(since(f, cursor).await.changed, []);
}

pub(crate) async fn the_last_word_on_a_run_counts(f: &Fixture) {
    let job = f.job("a").await;
    let start = now(f).await;
    let planned = f.planned(&job, at(10)).await;
    f.store.explain_waiting(&[(planned.run, "no slot".to_owned())]).await.expect("explained");
    let change = |delete| JobChange { delete, drop_due: true, ..JobChange::by("me") };
    let replan = Box::new(|input: &ReplanInput| vec![fire(&input.job, at(10))]);
    f.store.change_job(job.id, &change(false), replan, at(1)).await.expect("planned anew");
    until(f, start, &[planned.run], &[]).await;
    let nothing = Box::new(|_: &ReplanInput| Vec::new());
    f.store.change_job(job.id, &change(true), nothing, at(2)).await.expect("deleted");
    until(f, start, &[], &[planned.run]).await;
}

pub(crate) async fn a_planned_run_is_told_of_once_something_becomes_of_it(f: &Fixture) {
    let job = f.job("a").await;
    let start = now(f).await;
    let planned = f.planned(&job, at(10)).await;
    let other = f.planned(&job, at(11)).await;
    f.dispatched(other).await;
    until(f, start, &[other.run], &[]).await;
    f.store.explain_waiting(&[(planned.run, "no slot".to_owned())]).await.expect("explained");
    until(f, start, &[other.run, planned.run], &[]).await;
}

pub(crate) async fn a_cursor_without_events_stays_good(f: &Fixture) {
    let start = now(f).await;
    // One event in all: a second one of the run could be held back behind the first.
    let sent = f.run_in("a", RunState::Dispatched).await;
    let mut end = until(f, start, &[sent.run], &[]).await.cursor;
    for _ in 0..3 {
        end = until(f, end, &[], &[]).await.cursor;
    }
}

pub(crate) async fn a_cursor_older_than_what_is_kept_is_not_found(f: &Fixture) {
    let start = now(f).await;
    // One event in all, so that whoever has seen it stands at the end.
    let sent = f.run_in("a", RunState::Dispatched).await;
    let end = until(f, start, &[sent.run], &[]).await.cursor;
    let keep = Retention { runs: Duration::from_secs(60), logs: Duration::from_secs(60) };
    let later = at(0) + TimeDelta::hours(2);
    while f.store.prune(&keep, later).await.expect("pruned") {}
    let fault = f.store.run_events(Some(start), 10).await.expect_err("too old");
    assert!(matches!(fault, StoreError::NotFound(_)), "{fault}");
    assert_eq!(since(f, end).await.changed, [], "the end is still a place to go on from");
}

pub(crate) async fn a_commit_sends_hints(f: &Fixture) {
    let mut hints = f.store.hints();
    let job = f.job("a").await;
    let running = f.run_in("b", RunState::Running).await;
    let marks = [canceling(running, KillReason::User)];
    f.store.mark_canceling(&marks, at(20)).await.expect("marked");
    let mut missing = vec![
        Topic::Jobs(job.partition),
        Topic::Inbox(f.open(running.run).await.partition),
        Topic::RunEvents,
    ];
    let all_come = async {
        while !missing.is_empty() {
            match hints.recv().await {
                Ok(topic) => missing.retain(|wanted| *wanted != topic),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => panic!("no more hints"),
            }
        }
    };
    tokio::time::timeout(TIMEOUT, all_come).await.expect("all hints in time");
}
