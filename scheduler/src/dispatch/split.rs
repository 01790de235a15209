//! Parents that were let in → their shards.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::Dispatcher;
use crate::{
    board::ToSplit,
    hub::Candidate,
    model::shards::{self, SHARDS_MAX},
    store::Result,
};

/// Parents that are split in one tick, each by a statement.
const SPLITS_MAX: usize = 64;

impl Dispatcher {
    /// Splits the parents that were let in. A broadcast that finds no executor waits, and says so.
    pub(super) async fn split(&self, now: DateTime<Utc>) -> Result<()> {
        let mut splits = 0;
        for id in self.board.parents_to_split() {
            let Some(parent) = self.board.parent_to_split(id) else { continue };
            let executors = self.executors(&parent, now);
            let Some(split) = shards::split(&parent.run, &parent.spec, &executors) else {
                self.explain_unsplit(&parent, executors.len()).await?;
                continue;
            };
            if self.store.split_run(parent.run.attempt_ref(), &split, now).await? {
                self.board.split(id, split, now);
            } else {
                self.reread(vec![id], now).await?;
            }
            splits += 1;
            if splits == SPLITS_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Who gets a shard of a broadcast, in order of registration.
    fn executors(&self, parent: &ToSplit, now: DateTime<Utc>) -> Vec<Arc<str>> {
        let spec = &parent.spec;
        if !spec.placement.broadcast {
            return Vec::new();
        }
        let labels = &spec.placement.required_labels;
        let (app, handler) = (parent.run.app, &spec.handler);
        let found: Vec<Candidate> = self.reach.candidates(app, handler, labels, now);
        found.into_iter().map(|candidate| candidate.name).collect()
    }

    async fn explain_unsplit(&self, parent: &ToSplit, executors: usize) -> Result<()> {
        let handler = &parent.spec.handler;
        let why = if executors > SHARDS_MAX as usize {
            format!("{executors} executors match; a broadcast reaches at most {SHARDS_MAX}")
        } else if !self.reach.offers(parent.run.app, handler) {
            format!("waits for an executor to broadcast to: none offers handler {handler}")
        } else {
            format!(
                "waits for an executor to broadcast to: none with handler {handler} is ready and \
                 has the labels the job asks for"
            )
        };
        if self.board.explain(parent.run.id, &why) {
            self.store.explain_waiting(&[(parent.run.id, why)]).await?;
        }
        Ok(())
    }
}
