//! FleetService: executors as an operator sees them.

mod show;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use clawjob_proto::v1::{self as pb, fleet_service_server::FleetService};
use tonic::{Request, Response, Status};

use super::{
    Api,
    caller::Caller,
    cancel,
    convert::names::{self, Parent},
    filter::{self, EXECUTOR_FIELDS},
    paging, scope,
    status::{ApiError, ApiResult, Kind, Violations},
};
use crate::{
    model::{
        executor::Executor,
        ids::{AppId, RunId},
        run::KillReason,
    },
    store::{StoreError, ops::ExecutorQuery},
};
use show::{handler_to_proto, is_connected, matches, to_proto};

/// Longest reason of a cordon, characters.
pub const REASON_MAX: usize = 256;
/// Executors looked through in one step, each with up to
/// [`HANDLERS_BYTES_MAX`](crate::hub::settings::HANDLERS_BYTES_MAX); and steps for one page: a
/// filter may keep few of them.
const SCAN_ROWS: u32 = 100;
/// See [`SCAN_ROWS`].
const SCAN_STEPS_MAX: u32 = 200;

/// Serves the fleet.
pub struct FleetApi {
    api: Arc<Api>,
}

/// An executor that a request names.
struct Named {
    app: AppId,
    executor: String,
    full_name: String,
}

impl Named {
    fn fault(&self, error: StoreError) -> ApiError {
        ApiError::of_store(Kind::Executor, &self.full_name, error)
    }
}

impl FleetApi {
    /// On the given store and hub.
    pub fn new(api: Arc<Api>) -> Self {
        Self { api }
    }

    async fn named(&self, name: &str, mut bad: Violations) -> ApiResult<Named> {
        let parsed = names::parse_executor("name", name, &mut bad);
        bad.finish()?;
        let (app, executor) = parsed.unwrap_or_default();
        let app = scope::app_of(&self.api, &app, Kind::Executor, name).await?;
        Ok(Named { app: app.id, executor, full_name: name.to_owned() })
    }

    fn show(&self, row: &Executor) -> pb::Executor {
        let live = self.api.hub.snapshot(row.app, &row.name);
        to_proto(row, live.as_ref(), self.api.clock.now())
    }

    async fn get(&self, named: &Named) -> ApiResult<Executor> {
        let row = self.api.store.get_executor(named.app, &named.executor).await;
        row.map_err(|error| named.fault(error))
    }

    async fn list(
        &self,
        caller: &Caller,
        request: pb::ListExecutorsRequest,
    ) -> ApiResult<pb::ListExecutorsResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let size = paging::size(request.page_size, &mut bad);
        let parent = names::parse_parent("parent", &request.parent, &mut bad);
        let filter = filter::parse(&request.filter, &EXECUTOR_FIELDS, &mut bad);
        let query = paging::Query::new(&[
            "ListExecutors",
            &request.parent,
            &request.filter,
            &caller.principal(),
        ]);
        let key = &self.api.page_key;
        let mut after: Option<(String, String)> =
            query.key(key, &request.page_token, now, &mut bad);
        bad.finish()?;
        let apps = scope::apps(&self.api, caller, &parent.unwrap_or(Parent::All)).await?;

        let mut page = paging::Page::new(size);
        let mut more = true;
        'scan: for _ in 0..SCAN_STEPS_MAX {
            let rows = self.step(&apps, &after).await?;
            more = rows.len() == SCAN_ROWS as usize;
            for row in rows {
                let shown = self.show(&row);
                let full = page.left() == 0;
                if full || (matches(&shown, &filter.conditions) && !page.push(shown)) {
                    more = true;
                    break 'scan;
                }
                after = Some((row.app_name.clone(), row.name.clone()));
            }
            if !more || page.left() == 0 {
                break;
            }
        }
        let next_page_token = if more { query.token(key, &after, now)? } else { String::new() };
        Ok(pb::ListExecutorsResponse { executors: page.into_items(), next_page_token })
    }

    async fn step(
        &self,
        apps: &Option<Vec<AppId>>,
        after: &Option<(String, String)>,
    ) -> ApiResult<Vec<Executor>> {
        let query = ExecutorQuery {
            apps: apps.clone(),
            after: after.clone(),
            out_of_contact: false,
            limit: SCAN_ROWS,
        };
        Ok(self.api.store.list_executors(&query).await?)
    }

    async fn set_cordon(&self, named: &Named, reason: Option<&str>) -> ApiResult<pb::Executor> {
        let row = self.api.store.cordon_executor(named.app, &named.executor, reason).await;
        let row = row.map_err(|error| named.fault(error))?;
        self.api.hub.set_cordon(named.app, &named.executor, reason.is_some());
        Ok(self.show(&row))
    }

    async fn disconnect(
        &self,
        caller: &Caller,
        request: pb::DisconnectExecutorRequest,
    ) -> ApiResult<pb::Executor> {
        let named = self.named(&request.name, Violations::new()).await?;
        let row = self.get(&named).await?;
        let Some(live) = self.api.hub.snapshot(named.app, &named.executor) else {
            if !is_connected(&row) {
                return Ok(self.show(&row));
            }
            return Err(ApiError::precondition(
                "EXECUTOR_ELSEWHERE",
                "EXECUTOR_NODE",
                &named.full_name,
                format!("its session is on nodes/{}; call that node", row.node),
            ));
        };
        let by = caller.in_words();
        if request.kill_runs {
            let runs: Vec<RunId> = live.running.iter().map(|attempt| attempt.run).collect();
            self.kill(&runs, &by).await?;
        }
        self.api.hub.disconnect(named.app, &named.executor, "disconnected by an operator");
        tracing::info!(executor = %named.full_name, "executor disconnected");
        let row = self.get(&named).await?;
        Ok(self.show(&row))
    }

    /// Asks the runs to stop before their session ends. One that hears of it too late is told by
    /// the Welcome of its next session.
    async fn kill(&self, runs: &[RunId], by: &str) -> ApiResult<()> {
        let open = self.api.store.open_runs(runs).await?;
        let order = cancel::Order {
            reason: KillReason::User,
            grace: None,
            message: format!("{by} disconnected its executor"),
        };
        cancel::cancel(&self.api, open, &order).await.map(drop)
    }

    async fn forget(&self, name: &str) -> ApiResult<()> {
        let named = self.named(name, Violations::new()).await?;
        let deleted = self.api.store.delete_executor(named.app, &named.executor).await;
        deleted.map_err(|error| match error {
            StoreError::Conflict(text) => {
                let kind = "EXECUTOR_OFFLINE";
                ApiError::precondition("EXECUTOR_CONNECTED", kind, &named.full_name, text)
            }
            error => named.fault(error),
        })
    }

    async fn handlers(
        &self,
        caller: &Caller,
        request: pb::ListHandlersRequest,
    ) -> ApiResult<pb::ListHandlersResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let size = paging::size(request.page_size, &mut bad);
        let parent = names::parse_parent("parent", &request.parent, &mut bad);
        let query = paging::Query::new(&["ListHandlers", &request.parent, &caller.principal()]);
        let key = &self.api.page_key;
        let after: Option<String> = query.key(key, &request.page_token, now, &mut bad);
        bad.finish()?;
        let apps = scope::apps(&self.api, caller, &parent.unwrap_or(Parent::All)).await?;

        let mut offers = self.offers(&apps).await?;
        if let Some(after) = after {
            offers = offers.split_off(&after);
            offers.remove(&after);
        }
        let rows: Vec<_> = offers.into_iter().collect();
        let (handlers, last) = paging::cut(&rows, size, |(_, entry)| entry.clone());
        let next_page_token = match last {
            Some((name, _)) => query.token(key, name, now)?,
            None => String::new(),
        };
        Ok(pb::ListHandlersResponse { handlers, next_page_token })
    }

    /// What the connected executors offer, by the handler's name.
    async fn offers(
        &self,
        apps: &Option<Vec<AppId>>,
    ) -> ApiResult<BTreeMap<String, pb::list_handlers_response::Entry>> {
        let mut offers = BTreeMap::new();
        let mut after = None;
        loop {
            let rows = self.step(apps, &after).await?;
            let more = rows.len() == SCAN_ROWS as usize;
            for row in rows.iter().filter(|row| is_connected(row)) {
                let live = self.api.hub.snapshot(row.app, &row.name);
                let free = live.map_or(0, |live| live.free_slots);
                let mut named = BTreeSet::new();
                for handler in row.spec.handlers.iter().filter(|h| named.insert(&h.name)) {
                    let entry = offers.entry(handler.name.clone()).or_insert_with(|| {
                        pb::list_handlers_response::Entry {
                            handler: Some(handler_to_proto(handler)),
                            ..Default::default()
                        }
                    });
                    entry.executors.push(names::executor(&row.app_name, &row.name));
                    entry.free_slots = entry.free_slots.saturating_add(free);
                }
            }
            match rows.last() {
                Some(last) if more => after = Some((last.app_name.clone(), last.name.clone())),
                _ => return Ok(offers),
            }
        }
    }
}

#[tonic::async_trait]
impl FleetService for FleetApi {
    async fn get_executor(
        &self,
        request: Request<pb::GetExecutorRequest>,
    ) -> Result<Response<pb::Executor>, Status> {
        let named = self.named(&request.get_ref().name, Violations::new()).await?;
        Ok(Response::new(self.show(&self.get(&named).await?)))
    }

    async fn list_executors(
        &self,
        request: Request<pb::ListExecutorsRequest>,
    ) -> Result<Response<pb::ListExecutorsResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.list(&caller, request.into_inner()).await?))
    }

    async fn cordon_executor(
        &self,
        request: Request<pb::CordonExecutorRequest>,
    ) -> Result<Response<pb::Executor>, Status> {
        let request = request.into_inner();
        let mut bad = Violations::new();
        if request.reason.chars().count() > REASON_MAX {
            bad.invalid("reason", format!("is over {REASON_MAX} characters"));
        }
        let named = self.named(&request.name, bad).await?;
        Ok(Response::new(self.set_cordon(&named, Some(&request.reason)).await?))
    }

    async fn uncordon_executor(
        &self,
        request: Request<pb::UncordonExecutorRequest>,
    ) -> Result<Response<pb::Executor>, Status> {
        let named = self.named(&request.get_ref().name, Violations::new()).await?;
        Ok(Response::new(self.set_cordon(&named, None).await?))
    }

    async fn disconnect_executor(
        &self,
        request: Request<pb::DisconnectExecutorRequest>,
    ) -> Result<Response<pb::Executor>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.disconnect(&caller, request.into_inner()).await?))
    }

    async fn delete_executor(
        &self,
        request: Request<pb::DeleteExecutorRequest>,
    ) -> Result<Response<()>, Status> {
        self.forget(&request.get_ref().name).await?;
        Ok(Response::new(()))
    }

    async fn list_handlers(
        &self,
        request: Request<pb::ListHandlersRequest>,
    ) -> Result<Response<pb::ListHandlersResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.handlers(&caller, request.into_inner()).await?))
    }
}
