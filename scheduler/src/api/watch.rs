//! WatchRuns: the present state, then every change, resumable.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use clawjob_proto::v1::{self as pb, watch_runs_response::Type};
use tokio::sync::{
    broadcast::{Receiver, error::RecvError},
    mpsc,
};

use super::{
    Api,
    caller::Caller,
    convert::names,
    feed::{Batch, EVENT_ROWS_MAX, RunFeed, load},
    filter::{self, Filter},
    paging, runs, scope,
    status::{ApiError, ApiResult, Violations},
    streams::{EventStream, FULL_STREAM_QUEUE_MAX, STREAM_QUEUE_MAX, Watchdog, event_stream},
};
use crate::{
    model::{
        ids::{AppId, JobId, RunId},
        run::{RunRecord, RunState},
    },
    store::{
        StoreError,
        ops::{Condition, EventCursor, RunPage, RunQuery, Scheduled},
    },
};

/// Without an event a bookmark comes so often.
pub const BOOKMARK_INTERVAL: Duration = Duration::from_secs(15);
/// A watch ends after this time; its client goes on with the last token.
pub const WATCH_AGE_MAX: Duration = Duration::from_secs(30 * 60);
/// Ended runs that a watch begins with: the newest. Open ones all come.
pub const ENDED_SHOWN_MAX: u32 = 1000;

/// Runs read in one step of the present state.
const PAGE: u32 = 500;
/// Bounded looks for the runs that a watch begins with that may find less than a page. So a watch
/// of something rare may begin without the older ones of it.
const LOOKS_MAX: u32 = 20;
/// Runs that a watch remembers to have shown, to tell when one leaves its filter.
const SHOWN_MAX: usize = 50_000;

/// Checks the request and starts its stream.
///
/// # Errors
/// INVALID_ARGUMENT, or NOT_FOUND for an app that does not exist.
pub async fn start(
    api: &Arc<Api>,
    feed: Arc<RunFeed>,
    caller: &Caller,
    guard: Watchdog,
    request: pb::WatchRunsRequest,
) -> ApiResult<EventStream<pb::WatchRunsResponse>> {
    let mut bad = Violations::new();
    let parent = names::parse_parent("parent", &request.parent, &mut bad);
    let mut filter = filter::parse(&request.filter, &filter::RUN_FIELDS, &mut bad);
    filter.leave_out_shards();
    let full = names::full_view("view", request.view, false, &mut bad);
    let tokens = paging::Query::new(&["WatchRuns", &request.parent]);
    let now = api.clock.now();
    let from: Option<(u64, u64)> =
        tokens.key_in("resume_token", &api.page_key, &request.resume_token, now, &mut bad);
    bad.finish()?;
    let Some(parent) = parent else { return Err(ApiError::internal("no parent was read")) };
    let queue = if full { FULL_STREAM_QUEUE_MAX } else { STREAM_QUEUE_MAX };
    let (sender, stream) = event_stream(queue);
    let watch = Watch {
        api: api.clone(),
        apps: scope::apps(api, caller, &parent).await?,
        jobs: runs::jobs(api, filter.jobs.as_ref(), caller, &parent).await?,
        scheduled: runs::scheduled(&filter),
        needs_labels: filter.conditions.iter().any(|c| matches!(c, Condition::Label { .. })),
        filter,
        full,
        tokens,
        guard,
        shown: HashMap::new(),
        labels: HashMap::new(),
        sender,
    };
    // Before the present state is read, so that no change falls between.
    let changes = feed.subscribe();
    let from = from.map(|(tx, seq)| EventCursor { tx, seq });
    tokio::spawn(watch.drive(changes, from));
    Ok(stream)
}

/// Why a watch ends.
enum Stop {
    /// The client has gone.
    Gone,
    /// Something failed; the client is told.
    Failed(ApiError),
}

impl<E: Into<ApiError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

struct Watch {
    api: Arc<Api>,
    apps: Option<Vec<AppId>>,
    jobs: Option<Vec<JobId>>,
    scheduled: Scheduled,
    needs_labels: bool,
    filter: Filter,
    full: bool,
    tokens: paging::Query,
    guard: Watchdog,
    /// Runs the client was shown, with their app, for a word when one does not match any more.
    shown: HashMap<RunId, Arc<str>>,
    /// Labels of jobs, looked up when the filter asks for labels; forgotten with each bookmark.
    labels: HashMap<JobId, BTreeMap<String, String>>,
    sender: mpsc::Sender<Result<pb::WatchRunsResponse, tonic::Status>>,
}

impl Watch {
    async fn drive(mut self, changes: Receiver<Arc<Batch>>, from: Option<EventCursor>) {
        if let Err(Stop::Failed(error)) = self.follow(changes, from).await {
            // A client that has gone needs no word.
            let _ = self.sender.send(Err(error.into())).await;
        }
    }

    async fn follow(
        &mut self,
        mut changes: Receiver<Arc<Batch>>,
        from: Option<EventCursor>,
    ) -> Result<(), Stop> {
        let end = self.api.clock.elapsed() + WATCH_AGE_MAX;
        let mut at = match from {
            Some(from) => self.catch_up(from, None).await?,
            None => self.present().await?,
        };
        let mut bookmark = self.api.clock.elapsed() + BOOKMARK_INTERVAL;
        loop {
            let elapsed = self.api.clock.elapsed();
            if elapsed >= end {
                return Ok(());
            }
            let idle = bookmark.min(end).saturating_sub(elapsed);
            let sender = self.sender.clone();
            let batch = tokio::select! {
                biased;
                () = sender.closed() => return Err(Stop::Gone),
                batch = changes.recv() => Some(batch),
                () = self.api.clock.wait(idle) => None,
            };
            match batch {
                Some(Ok(batch)) if batch.after > at => {
                    at = self.catch_up(at, Some(batch.after)).await?;
                    at = self.deliver(&batch, at).await?;
                }
                Some(Ok(batch)) => at = self.deliver(&batch, at).await?,
                Some(Err(RecvError::Lagged(_))) => at = self.catch_up(at, None).await?,
                Some(Err(RecvError::Closed)) => return Ok(()),
                None => {}
            }
            if self.api.clock.elapsed() >= bookmark {
                self.labels.clear();
                self.send(Type::Bookmark, None, at).await?;
                bookmark = self.api.clock.elapsed() + BOOKMARK_INTERVAL;
            }
        }
    }

    /// Sends what matches now, and a bookmark behind it.
    async fn present(&mut self) -> Result<EventCursor, Stop> {
        let at = self.api.store.run_events(None, 1).await?.cursor;
        self.shown.clear();
        let (ended, open): (Vec<RunState>, Vec<RunState>) =
            RunState::ALL.into_iter().partition(|state| state.is_final());
        self.send_matching(&open, u32::MAX, at).await?;
        if self.scheduled != Scheduled::Only {
            self.send_matching(&ended, ENDED_SHOWN_MAX, at).await?;
        }
        self.send(Type::Bookmark, None, at).await?;
        Ok(at)
    }

    /// Sends the newest runs in one of the states, page by page.
    async fn send_matching(
        &mut self,
        states: &[RunState],
        max: u32,
        at: EventCursor,
    ) -> Result<(), Stop> {
        let mut values: Vec<String> = states.iter().map(|s| s.as_str().to_owned()).collect();
        values.push("SCHEDULED".to_owned());
        let mut conditions = self.filter.conditions.clone();
        conditions.push(Condition::OneOf { field: "state", values, negated: false });
        let page = if self.full { runs::FULL_ROWS } else { PAGE };
        let mut query = RunQuery {
            apps: self.apps.clone(),
            jobs: self.jobs.clone(),
            conditions,
            scheduled: if states.contains(&RunState::Queued) {
                self.scheduled
            } else {
                Scheduled::Without
            },
            ascending: false,
            after: None,
            limit: page.min(max),
            full: self.full,
            now: self.api.clock.now(),
        };
        let mut left = max;
        let mut looks = 0;
        while left > 0 && looks < LOOKS_MAX {
            query.limit = page.min(left);
            let RunPage { runs: found, until } = self.api.store.scan_runs(&query).await?;
            let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
            let is_full = count >= query.limit;
            looks += u32::from(!is_full);
            query.after = if is_full { found.last().map(|record| record.run.id) } else { until };
            for record in &found {
                self.remember(record);
            }
            let now = self.api.clock.now();
            for run in runs::show(&self.api, found, self.full, now).await? {
                self.send(Type::Current, Some(run), at).await?;
            }
            left = left.saturating_sub(count);
            if query.after.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the log itself up to `until`, or to its end. A place that is not kept any more means
    /// to begin anew.
    async fn catch_up(
        &mut self,
        mut at: EventCursor,
        until: Option<EventCursor>,
    ) -> Result<EventCursor, Stop> {
        while until.is_none_or(|until| at < until) {
            let events = match self.api.store.run_events(Some(at), EVENT_ROWS_MAX).await {
                Ok(events) => events,
                Err(StoreError::NotFound(_)) => {
                    self.send(Type::Reset, None, at).await?;
                    return self.present().await;
                }
                Err(error) => return Err(error.into()),
            };
            if events.cursor == at {
                break;
            }
            let batch = load(&self.api.store, at, events).await?;
            at = self.deliver(&batch, at).await?;
        }
        Ok(at)
    }

    /// Sends what a batch says to this watch, unless it lies before `at`.
    async fn deliver(&mut self, batch: &Batch, at: EventCursor) -> Result<EventCursor, Stop> {
        if batch.cursor < at {
            return Ok(at);
        }
        let at = batch.cursor;
        let now = self.api.clock.now();
        let mut matching = Vec::new();
        for record in &batch.changed {
            if self.matches(record, now).await? {
                matching.push(record.clone());
            } else if let Some(app) = self.shown.remove(&record.run.id) {
                self.send_gone(&app, record.run.id, at).await?;
            }
        }
        if self.full && !matching.is_empty() {
            let ids: Vec<RunId> = matching.iter().map(|record| record.run.id).collect();
            matching = self.api.store.get_runs(&ids, true).await?;
        }
        for record in &matching {
            self.remember(record);
        }
        for run in runs::show(&self.api, matching, self.full, now).await? {
            self.send(Type::Changed, Some(run), at).await?;
        }
        for run in &batch.deleted {
            // Of one that was never shown the client knows nothing.
            if let Some(app) = self.shown.remove(run) {
                self.send_gone(&app, *run, at).await?;
            }
        }
        Ok(at)
    }

    fn remember(&mut self, record: &RunRecord) {
        if self.shown.len() < SHOWN_MAX {
            self.shown.insert(record.run.id, record.app_name.clone());
        }
    }

    async fn matches(
        &mut self,
        record: &RunRecord,
        now: chrono::DateTime<chrono::Utc>,
    ) -> Result<bool, Stop> {
        let within = self.apps.as_ref().is_none_or(|apps| apps.contains(&record.run.app))
            && self.jobs.as_ref().is_none_or(|jobs| jobs.contains(&record.run.job));
        let planned = record.run.is_scheduled(now);
        let wanted = match self.scheduled {
            Scheduled::Without => !planned,
            Scheduled::With => true,
            Scheduled::Only => planned,
        };
        if !within || !wanted {
            return Ok(false);
        }
        if self.needs_labels && !self.labels.contains_key(&record.run.job) {
            let labels = match self.api.store.get_job(&record.app_name, &record.job_name).await {
                Ok(job) => job.spec.labels.clone(),
                Err(StoreError::NotFound(_)) => BTreeMap::new(),
                Err(error) => return Err(error.into()),
            };
            self.labels.insert(record.run.job, labels);
        }
        let none = BTreeMap::new();
        let labels = self.labels.get(&record.run.job).unwrap_or(&none);
        Ok(filter::matches(record, labels, &self.filter.conditions, now))
    }

    /// A run that the client was shown is none of its runs any more.
    async fn send_gone(&mut self, app: &str, run: RunId, at: EventCursor) -> Result<(), Stop> {
        let run = pb::Run { name: names::run(app, run), ..pb::Run::default() };
        self.send(Type::Deleted, Some(run), at).await
    }

    async fn send(
        &mut self,
        kind: Type,
        run: Option<pb::Run>,
        at: EventCursor,
    ) -> Result<(), Stop> {
        // A quiet watch comes by with its bookmarks.
        self.guard.check(self.api.clock.elapsed()).await?;
        let now = self.api.clock.now();
        let resume_token = self.tokens.token(&self.api.page_key, &(at.tx, at.seq), now)?;
        let event = pb::WatchRunsResponse { r#type: kind as i32, run, resume_token };
        self.sender.send(Ok(event)).await.map_err(|_| Stop::Gone)
    }
}
