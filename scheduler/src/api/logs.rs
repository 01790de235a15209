//! ListRunLogs and TailRunLogs.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use clawjob_proto::v1 as pb;
use serde::{Deserialize, Serialize};
use tokio::sync::{
    broadcast::{Receiver, error::RecvError},
    mpsc,
};

use super::{
    Api,
    convert::run::{log_level, log_record_to_proto},
    paging,
    status::{ApiError, ApiResult, Violations},
    streams::{EventStream, STREAM_QUEUE_MAX, Watchdog, event_stream},
};
use crate::{
    model::ids::RunId,
    store::{
        Topic,
        ops::{LogPage, LogQuery},
    },
};

/// Longest text to look for, in characters.
pub const CONTAINS_MAX: usize = 256;
/// Without records an empty batch comes so often.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// A tail ends after this time; its client goes on after the last number.
pub const TAIL_AGE_MAX: Duration = Duration::from_secs(30 * 60);

/// Records of one batch of a tail.
const TAIL_BATCH: u32 = 500;
/// The log is read so often even if nobody said that it grew.
const SWEEP: Duration = Duration::from_secs(1);
/// Records that an executor never sent are waited for so long after the attempt's end.
const MISSING_WAIT_MAX: TimeDelta = TimeDelta::seconds(30);

/// Where a page of log records ended.
#[derive(Serialize, Deserialize)]
struct Key {
    attempt: u32,
    through: u64,
}

/// A page of the run's log.
///
/// # Errors
/// INVALID_ARGUMENT, or the store's.
pub async fn list(
    api: &Api,
    run: RunId,
    request: &pb::ListRunLogsRequest,
) -> ApiResult<pb::ListRunLogsResponse> {
    let now = api.clock.now();
    let mut bad = Violations::new();
    let limit = paging::size(request.page_size, &mut bad);
    if request.contains.chars().count() > CONTAINS_MAX {
        bad.invalid("contains", format!("is longer than {CONTAINS_MAX} characters; shorten it"));
    }
    let tokens = paging::Query::new(&[
        "ListRunLogs",
        &run.to_string(),
        &request.attempt.to_string(),
        &request.min_level.to_string(),
        &request.contains,
    ]);
    let key: Option<Key> = tokens.key(&api.page_key, &request.page_token, now, &mut bad);
    bad.finish()?;
    let query = LogQuery {
        run,
        attempt: key.as_ref().map_or(request.attempt, |key| key.attempt),
        after_seq: key.as_ref().map_or(0, |key| key.through),
        min_level: log_level(request.min_level),
        contains: request.contains.clone(),
        limit,
    };
    let page = api.store.list_logs(&query).await?;
    // A page that a filter left short is not the last: only one that got no further is.
    let more = page.through_seq > query.after_seq;
    let next_page_token = if more && !(page.complete && page.records.len() < limit as usize) {
        let key = Key { attempt: page.attempt, through: page.through_seq };
        tokens.token(&api.page_key, &key, now)?
    } else {
        String::new()
    };
    Ok(pb::ListRunLogsResponse { records: shown(page), next_page_token })
}

fn shown(page: LogPage) -> Vec<pb::StoredLogRecord> {
    let attempt = page.attempt;
    page.records.into_iter().map(|record| log_record_to_proto(record, attempt)).collect()
}

/// The run's log as it grows.
pub fn tail(
    api: &Arc<Api>,
    guard: Watchdog,
    run: RunId,
    request: &pb::TailRunLogsRequest,
) -> EventStream<pb::TailRunLogsResponse> {
    let (sender, stream) = event_stream(STREAM_QUEUE_MAX);
    let query = LogQuery {
        run,
        attempt: request.attempt,
        after_seq: request.after_seq,
        min_level: log_level(request.min_level),
        contains: String::new(),
        limit: TAIL_BATCH,
    };
    // Before the first look, so that no record falls between.
    let hints = api.store.hints();
    let tail = Tail { api: api.clone(), guard, query, hints, sender };
    tokio::spawn(tail.drive());
    stream
}

struct Tail {
    api: Arc<Api>,
    guard: Watchdog,
    query: LogQuery,
    hints: Receiver<Topic>,
    sender: mpsc::Sender<Result<pb::TailRunLogsResponse, tonic::Status>>,
}

impl Tail {
    async fn drive(mut self) {
        if let Err(error) = self.follow().await {
            // A client that has gone needs no word.
            let _ = self.sender.send(Err(error.into())).await;
        }
    }

    async fn follow(&mut self) -> Result<(), ApiError> {
        let end = self.api.clock.elapsed() + TAIL_AGE_MAX;
        let mut quiet_since = self.api.clock.elapsed();
        while self.api.clock.elapsed() < end && !self.sender.is_closed() {
            self.guard.check(self.api.clock.elapsed()).await?;
            let page = self.api.store.list_logs(&self.query).await?;
            let grew = page.through_seq > self.query.after_seq;
            let complete = page.complete || self.waited_enough(&page);
            self.query.after_seq = page.through_seq;
            if !page.records.is_empty() {
                self.query.attempt = page.attempt;
            }
            let idle = self.api.clock.elapsed().saturating_sub(quiet_since);
            if !page.records.is_empty() || complete || idle >= KEEP_ALIVE_INTERVAL {
                quiet_since = self.api.clock.elapsed();
                let batch = pb::TailRunLogsResponse {
                    through_seq: page.through_seq,
                    dropped: page.dropped,
                    complete,
                    records: shown(page),
                };
                if self.sender.send(Ok(batch)).await.is_err() || complete {
                    return Ok(());
                }
            }
            if !grew {
                self.wait().await;
            }
        }
        Ok(())
    }

    /// The attempt ended a while ago and nothing came since.
    fn waited_enough(&self, page: &LogPage) -> bool {
        page.through_seq == self.query.after_seq
            && page.ended_at.is_some_and(|at| self.api.clock.now() - at > MISSING_WAIT_MAX)
    }

    /// Until the log may have grown.
    async fn wait(&mut self) {
        let (run, hints) = (self.query.run, &mut self.hints);
        let grown = async {
            loop {
                match hints.recv().await {
                    Ok(Topic::Logs(of)) if of == run => return,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return,
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = grown => {}
            () = self.sender.closed() => {}
            () = self.api.clock.wait(SWEEP) => {}
        }
    }
}
