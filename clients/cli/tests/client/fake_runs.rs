//! RunService in memory: runs as tests put them, streams as tests script them.

use std::pin::Pin;

use clawjob_proto::v1 as pb;
use tokio_stream::{Stream, iter};
use tonic::{Request, Response, Status};

use crate::fake::{Answer, Fake, State, not_found};

type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The run, moved on to the next scripted state.
fn look(state: &mut State, name: &str) -> Answer<pb::Run> {
    let next = state.next_states.pop_front();
    let run = state.runs.get_mut(name).ok_or_else(|| not_found("RUN", name))?;
    if let Some((to, attempt)) = next {
        run.state = to.into();
        run.attempt = attempt;
    }
    Ok(Response::new(run.clone()))
}

#[tonic::async_trait]
impl pb::run_service_server::RunService for Fake {
    async fn get_run(&self, rq: Request<pb::GetRunRequest>) -> Answer<pb::Run> {
        let (mut state, rq) = self.enter("get_run", rq)?;
        look(&mut state, &rq.name)
    }

    async fn list_runs(&self, rq: Request<pb::ListRunsRequest>) -> Answer<pb::ListRunsResponse> {
        let (mut state, rq) = self.enter("list_runs", rq)?;
        state.filters.push(rq.filter);
        let runs = state.runs.values().cloned().collect();
        Ok(Response::new(pb::ListRunsResponse { runs, next_page_token: String::new() }))
    }

    async fn cancel_run(&self, rq: Request<pb::CancelRunRequest>) -> Answer<pb::Run> {
        let (mut state, rq) = self.enter("cancel_run", rq)?;
        state.next_states.push_back((pb::RunState::Canceled, 0));
        look(&mut state, &rq.name)
    }

    async fn rerun_run(&self, _: Request<pb::RerunRunRequest>) -> Answer<pb::Run> {
        Err(Status::unimplemented("rerun_run"))
    }

    async fn wait_run(&self, rq: Request<pb::WaitRunRequest>) -> Answer<pb::Run> {
        let (mut state, rq) = self.enter("wait_run", rq)?;
        look(&mut state, &rq.name)
    }

    type WatchRunsStream = Events<pb::WatchRunsResponse>;

    async fn watch_runs(&self, rq: Request<pb::WatchRunsRequest>) -> Answer<Self::WatchRunsStream> {
        let (mut state, rq) = self.enter("watch_runs", rq)?;
        state.watch_tokens.push(rq.resume_token);
        let script = state.watches.pop_front().unwrap_or_default();
        Ok(Response::new(Box::pin(iter(script))))
    }

    async fn list_run_logs(
        &self,
        rq: Request<pb::ListRunLogsRequest>,
    ) -> Answer<pb::ListRunLogsResponse> {
        let (mut state, _rq) = self.enter("list_run_logs", rq)?;
        let batches = state.tails.pop_front().unwrap_or_default().into_iter().flatten();
        let records = batches.flat_map(|batch| batch.records).collect();
        Ok(Response::new(pb::ListRunLogsResponse { records, next_page_token: String::new() }))
    }

    type TailRunLogsStream = Events<pb::TailRunLogsResponse>;

    async fn tail_run_logs(
        &self,
        rq: Request<pb::TailRunLogsRequest>,
    ) -> Answer<Self::TailRunLogsStream> {
        let (mut state, rq) = self.enter("tail_run_logs", rq)?;
        state.tail_places.push((rq.attempt, rq.after_seq));
        let script = state.tails.pop_front().unwrap_or_default();
        Ok(Response::new(Box::pin(iter(script))))
    }
}
