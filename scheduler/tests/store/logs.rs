//! Logs of attempts.

use std::collections::BTreeMap;

use clawjob_scheduler::{
    model::{
        ids::{AttemptRef, RunId},
        log::{LogLevel, LogRecord},
        run::RunState,
    },
    store::{
        StoreError,
        log_chunk::{ATTEMPT_LOG_BYTES_MAX, CHUNK_DROPPED_MAX, LOG_PAGE_BYTES_MAX, SEAM},
        ops::{EndRun, LogAppend, LogPage, LogQuery},
    },
};

use super::fixture::{Fixture, at, begun, ending, on, retry_later};

fn record(seq: u64) -> LogRecord {
    let level = if seq.is_multiple_of(3) { LogLevel::Warn } else { LogLevel::Info };
    LogRecord {
        seq,
        time: at(seq.cast_signed()),
        level,
        message: format!("line {seq} \"quoted\" ü\n"),
        fields: BTreeMap::from([("n".to_owned(), seq.to_string())]),
    }
}

fn records(seqs: std::ops::RangeInclusive<u64>) -> Vec<LogRecord> {
    seqs.map(record).collect()
}

fn chunk(attempt: AttemptRef, seqs: std::ops::RangeInclusive<u64>) -> LogAppend {
    LogAppend { attempt, records: records(seqs), dropped: 0 }
}

fn query(run: RunId) -> LogQuery {
    LogQuery {
        run,
        attempt: 0,
        after_seq: 0,
        min_level: LogLevel::Trace,
        contains: String::new(),
        limit: 1000,
    }
}

async fn list(f: &Fixture, run: RunId) -> LogPage {
    f.store.list_logs(&query(run)).await.expect("a log")
}

pub(crate) async fn records_come_back_as_they_were_written(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    let other = f.run_in("b", RunState::Running).await;
    let chunks = [chunk(running, 1..=3), chunk(other, 1..=1), chunk(running, 4..=5)];
    assert_eq!(f.store.append_logs(&chunks, at(20)).await.expect("stored"), [3, 1, 5]);
    let page = list(f, running.run).await;
    assert_eq!(page.records, records(1..=5));
    assert_eq!((page.attempt, page.through_seq, page.dropped), (1, 5, 0));
    assert_eq!((page.complete, page.ended_at), (false, None));
    let record = f.store.get_run(running.run).await.expect("the run");
    assert_eq!(record.attempts[0].log_records, 5);
}

pub(crate) async fn records_stored_already_are_left_out(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(running, 1..=4)], at(20)).await.expect("stored");
    let again = [chunk(running, 1..=4), chunk(running, 2..=6), chunk(running, 1..=3)];
    assert_eq!(f.store.append_logs(&again, at(21)).await.expect("stored"), [4, 6, 6]);
    assert_eq!(list(f, running.run).await.records, records(1..=6));
}

pub(crate) async fn pages_go_on_where_the_last_one_ended(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    for first in [1, 5, 9] {
        f.store.append_logs(&[chunk(running, first..=first + 3)], at(20)).await.expect("stored");
    }
    let mut seen = Vec::new();
    let mut asked = LogQuery { limit: 5, ..query(running.run) };
    loop {
        let page = f.store.list_logs(&asked).await.expect("a page");
        if page.records.is_empty() {
            assert_eq!(page.through_seq, 12);
            break;
        }
        assert!(page.records.len() <= 5);
        assert_eq!(page.through_seq, page.records.last().expect("one").seq);
        asked.after_seq = page.through_seq;
        seen.extend(page.records);
    }
    assert_eq!(seen, records(1..=12));
}

pub(crate) async fn x46_pages_of_long_records_stay_small_and_leave_none_out(f: &Fixture) {
    let run = f.run_in("a", RunState::Running).await;
    let long = |seq| LogRecord { message: "x".repeat(30_000), ..record(seq) };
    for first in (1..=200).step_by(2) {
        let records = vec![long(first), long(first + 1)];
        let append = LogAppend { attempt: run, records, dropped: 0 };
        f.store.append_logs(&[append], at(20)).await.expect("stored");
    }
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let ask = LogQuery { after_seq: after, limit: 1_000, ..query(run.run) };
        let page = f.store.list_logs(&ask).await.expect("a page");
        assert!(page.bytes <= LOG_PAGE_BYTES_MAX + 30_000, "{}", page.bytes);
        if page.through_seq == after {
            break;
        }
        after = page.through_seq;
        seen.extend(page.records.iter().map(|record| record.seq));
    }
    assert_eq!(seen, (1..=200).collect::<Vec<_>>());
}

pub(crate) async fn a_filter_leaves_records_out_and_still_moves_on(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(running, 1..=10)], at(20)).await.expect("stored");
    let asked = LogQuery { min_level: LogLevel::Warn, ..query(running.run) };
    let page = f.store.list_logs(&asked).await.expect("a page");
    assert_eq!(page.records, [record(3), record(6), record(9)]);
    assert_eq!(page.through_seq, 10);
    let asked = LogQuery { contains: "line 1".to_owned(), ..query(running.run) };
    let page = f.store.list_logs(&asked).await.expect("a page");
    assert_eq!(page.records, [record(1), record(10)]);
    assert_eq!(page.through_seq, 10);
}

pub(crate) async fn records_beyond_the_cap_are_counted_as_dropped(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    let big = |seq| LogRecord { message: "x".repeat(1 << 20), ..record(seq) };
    let fit = ATTEMPT_LOG_BYTES_MAX >> 20;
    for seq in 1..=fit + 2 {
        let chunk = LogAppend { attempt: running, records: vec![big(seq)], dropped: 0 };
        assert_eq!(f.store.append_logs(&[chunk], at(20)).await.expect("taken"), [seq]);
    }
    let mut page = list(f, running.run).await;
    let mut stored = page.records.len() as u64;
    while !page.records.is_empty() {
        let ask = LogQuery { after_seq: page.through_seq, ..query(running.run) };
        page = f.store.list_logs(&ask).await.expect("a page");
        stored += page.records.len() as u64;
    }
    assert!((1..=fit).contains(&stored));
    assert_eq!(page.dropped, fit + 2 - stored);
    assert_eq!(page.through_seq, fit + 2, "what was dropped need not be sent again");
    let record = f.store.get_run(running.run).await.expect("the run");
    assert_eq!(record.attempts[0].log_records, stored);
    assert_eq!(record.attempts[0].log_dropped, page.dropped);
}

pub(crate) async fn records_the_sender_dropped_are_counted_once(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(running, 1..=2)], at(20)).await.expect("stored");
    let after_a_gap = LogAppend { dropped: 40, ..chunk(running, 43..=44) };
    for _ in 0..2 {
        let stored = f.store.append_logs(std::slice::from_ref(&after_a_gap), at(21)).await;
        assert_eq!(stored.expect("stored"), [44]);
    }
    let page = list(f, running.run).await;
    assert_eq!((page.dropped, page.records.len(), page.through_seq), (40, 4, 44));
}

fn ending_with_logs(attempt: AttemptRef, last_log_seq: u64) -> EndRun {
    let mut end = ending(attempt, RunState::Succeeded);
    end.end.last_log_seq = last_log_seq;
    end
}

pub(crate) async fn a_log_is_complete_once_the_last_record_of_an_ended_attempt_is_stored(
    f: &Fixture,
) {
    let running = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(running, 1..=2)], at(20)).await.expect("stored");
    assert!(!list(f, running.run).await.complete, "the attempt goes on");
    f.store.end_runs(&[ending_with_logs(running, 4)], at(21)).await.expect("ended");
    let page = list(f, running.run).await;
    assert_eq!((page.complete, page.ended_at), (false, Some(at(21))), "records are under way");
    f.store.append_logs(&[chunk(running, 3..=4)], at(22)).await.expect("stored");
    assert!(list(f, running.run).await.complete);
    let asked = LogQuery { limit: 3, ..query(running.run) };
    assert!(!f.store.list_logs(&asked).await.expect("a page").complete, "there is more to read");
    let silent = f.run_in("silent", RunState::Running).await;
    f.store.end_runs(&[ending_with_logs(silent, 0)], at(21)).await.expect("ended");
    assert!(list(f, silent.run).await.complete);
}

pub(crate) async fn a_log_of_a_lost_attempt_is_complete_with_its_end(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(running, 1..=2)], at(20)).await.expect("stored");
    f.store.end_runs(&[ending(running, RunState::Lost)], at(21)).await.expect("lost");
    let page = list(f, running.run).await;
    assert_eq!((page.complete, page.records.len()), (true, 2));
}

pub(crate) async fn the_last_attempt_that_logged_is_shown_unless_another_is_named(f: &Fixture) {
    let first = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(first, 1..=3)], at(20)).await.expect("stored");
    f.store.put_back(&[retry_later(first)], at(21)).await.expect("back");
    let woken = f.store.wake_retries(&[first], at(60)).await.expect("woken")[0];
    let second = f.dispatched(woken).await;
    let page = list(f, first.run).await;
    assert_eq!((page.attempt, page.complete), (1, true), "three records, as its result told");
    f.store.append_logs(&[chunk(second, 1..=1)], at(62)).await.expect("stored");
    let page = list(f, first.run).await;
    assert_eq!((page.attempt, page.records.len(), page.complete), (2, 1, false));
    let asked = LogQuery { attempt: 1, ..query(first.run) };
    let page = f.store.list_logs(&asked).await.expect("a page");
    assert_eq!((page.attempt, page.records.len(), page.complete), (1, 3, true));
}

pub(crate) async fn the_log_of_an_unknown_run_is_not_found(f: &Fixture) {
    let fault = f.store.list_logs(&query(RunId::by_hand(at(0), 1))).await.expect_err("unknown");
    assert!(matches!(fault, StoreError::NotFound(_)), "{fault}");
}

/// Gives the run back and sends it to `e2`, with the same attempt.
async fn gone_on(f: &Fixture, sent: AttemptRef) -> AttemptRef {
    f.store.put_back(&[begun(sent)], at(21)).await.expect("back");
    let waits = f.open(sent.run).await.attempt_ref();
    f.store.dispatch(&on("e2", waits), at(31)).await.expect("sent")[0]
}

/// What a page says, in order: the seam, and each record by its own message.
fn said(page: &LogPage) -> Vec<(u64, &str)> {
    page.records.iter().map(|record| (record.seq, record.message.as_str())).collect()
}

pub(crate) async fn an_attempt_that_goes_on_elsewhere_has_one_log_without_a_gap(f: &Fixture) {
    let first = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(first, 1..=3)], at(20)).await.expect("stored");
    let second = gone_on(f, first).await;
    let page = list(f, first.run).await;
    assert_eq!((page.complete, page.ended_at), (false, None), "the attempt goes on");
    let chunks = [chunk(second, 1..=2), chunk(second, 2..=4)];
    let stored = f.store.append_logs(&chunks, at(32)).await.expect("stored");
    assert_eq!(stored, [2, 4], "told in the numbers of who wrote them");
    let page = list(f, first.run).await;
    let line = |seq| record(seq).message;
    let lines = [line(1), line(2), line(3), SEAM.to_owned(), line(1), line(2), line(3), line(4)];
    let expected: Vec<_> = (1..).zip(lines.iter().map(String::as_str)).collect();
    assert_eq!(said(&page), expected);
    assert_eq!((page.attempt, page.through_seq, page.dropped), (1, 8, 0));
    let asked = LogQuery { after_seq: 4, ..query(first.run) };
    let page = f.store.list_logs(&asked).await.expect("a page");
    assert_eq!(said(&page), expected[4..]);
    let attempts = f.store.get_run(first.run).await.expect("the run").attempts;
    let counts: Vec<_> = attempts.iter().map(|one| one.log_records).collect();
    assert_eq!(counts, [3, 4]);
    f.store.end_runs(&[ending_with_logs(second, 5)], at(40)).await.expect("ended");
    assert!(!list(f, first.run).await.complete, "the fifth of the second is under way");
    f.store.append_logs(&[chunk(second, 5..=5)], at(41)).await.expect("stored");
    assert!(list(f, first.run).await.complete);
}

pub(crate) async fn an_attempt_that_wrote_nothing_where_it_ended_is_complete(f: &Fixture) {
    let first = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(first, 1..=3)], at(20)).await.expect("stored");
    let second = gone_on(f, first).await;
    f.store.end_runs(&[ending_with_logs(second, 0)], at(40)).await.expect("ended");
    let page = list(f, first.run).await;
    assert_eq!((page.complete, page.records), (true, records(1..=3)));
}

pub(crate) async fn records_of_an_executor_that_was_taken_over_from_are_left_out(f: &Fixture) {
    let first = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(first, 1..=1)], at(20)).await.expect("stored");
    let second = gone_on(f, first).await;
    f.store.append_logs(&[chunk(second, 1..=1)], at(32)).await.expect("stored");
    f.store.append_logs(&[chunk(first, 2..=9)], at(33)).await.expect("taken");
    let (page, line) = (list(f, first.run).await, record(1).message);
    assert_eq!(said(&page), [(1, &*line), (2, SEAM), (3, &*line)]);
}

pub(crate) async fn what_goes_on_is_counted_where_it_finds_no_room(f: &Fixture) {
    let first = f.run_in("a", RunState::Running).await;
    let big = |seq| LogRecord { message: "x".repeat(1 << 20), ..record(seq) };
    let append = |attempt, seq| LogAppend { attempt, records: vec![big(seq)], dropped: 0 };
    let fit = ATTEMPT_LOG_BYTES_MAX >> 20;
    for seq in 1..=fit {
        f.store.append_logs(&[append(first, seq)], at(20)).await.expect("taken");
    }
    let second = gone_on(f, first).await;
    for seq in 1..=2 {
        let stored = f.store.append_logs(&[append(second, seq)], at(32)).await.expect("taken");
        assert_eq!(stored, [seq]);
    }
    f.store.end_runs(&[ending_with_logs(second, 2)], at(40)).await.expect("ended");
    let asked = LogQuery { after_seq: fit, ..query(first.run) };
    let page = f.store.list_logs(&asked).await.expect("a page");
    assert_eq!(said(&page), [(fit + 1, SEAM)]);
    assert_eq!((page.through_seq, page.complete), (fit + 3, true));
    let attempts = f.store.get_run(first.run).await.expect("the run").attempts;
    assert_eq!((attempts[1].log_records, attempts[1].log_dropped), (0, 2));
}

pub(crate) async fn a_log_may_go_on_with_nothing_but_what_was_dropped(f: &Fixture) {
    let first = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(first, 1..=1)], at(20)).await.expect("stored");
    let second = gone_on(f, first).await;
    let nothing = LogAppend { attempt: second, records: Vec::new(), dropped: 7 };
    f.store.append_logs(&[nothing], at(32)).await.expect("taken");
    f.store.append_logs(&[chunk(second, 8..=8)], at(33)).await.expect("stored");
    let (page, one, eight) = (list(f, first.run).await, record(1).message, record(8).message);
    assert_eq!(said(&page), [(1, &*one), (2, SEAM), (10, &*eight)]);
    assert_eq!(page.dropped, 7);
}

pub(crate) async fn counts_of_dropped_records_end_where_a_log_can_still_be_read(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    for seq in 1..=3 {
        let many = LogAppend { dropped: u64::MAX, ..chunk(running, seq..=seq) };
        let more = LogAppend { records: Vec::new(), ..many.clone() };
        f.store.append_logs(&[many, more.clone(), more.clone()], at(20)).await.expect("stored");
        f.store.append_logs(&[more], at(21)).await.expect("counted");
    }
    let page = list(f, running.run).await;
    assert_eq!((page.records.len(), page.dropped), (3, 3 * CHUNK_DROPPED_MAX));
    let record = f.store.get_run(running.run).await.expect("the run");
    assert_eq!(record.attempts[0].log_dropped, page.dropped);
}

pub(crate) async fn a_log_begun_before_dispatches_were_told_apart_goes_on(f: &Fixture) {
    let running = f.run_in("a", RunState::Running).await;
    f.store.append_logs(&[chunk(running, 1..=2)], at(20)).await.expect("stored");
    f.sql("UPDATE log_chunk SET fence = 0").await;
    assert_eq!(f.store.append_logs(&[chunk(running, 2..=3)], at(21)).await.expect("stored"), [3]);
    assert_eq!(list(f, running.run).await.records, records(1..=3));
    f.store.end_runs(&[ending_with_logs(running, 3)], at(22)).await.expect("ended");
    assert!(list(f, running.run).await.complete);
    let record = f.store.get_run(running.run).await.expect("the run");
    assert_eq!(record.attempts[0].log_records, 3);
}
