//! Makes a session the current one of its executor, and finds out about the attempts it brings.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use chrono::TimeDelta;
use clawjob_proto::PROTOCOL_MINOR;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use super::{Driver, hello::Checked};
use crate::{
    api::status::{ApiError, ApiResult, Kind},
    hub::{Presence, event::Origin, session::Opening, settings::LISTED_ATTEMPTS_MAX},
    model::{
        ids::{AppId, AttemptRef, RunId},
        run::{OpenRun, RunState},
    },
    store::{
        StoreError,
        ops::{Claim, Claimed},
    },
};

/// Optional behaviours this server has.
pub(in crate::api) const FEATURES: [&str; 5] = ["checkpoint", "drain", "log", "progress", "shard"];
/// Runs looked up in one statement.
const LOOK_UP_MAX: usize = 500;

/// What the store says of attempts that Hello lists and the claim did not find.
struct Foreign {
    unwanted: Vec<AttemptRef>,
    known_results: Vec<AttemptRef>,
}

impl Driver {
    pub(super) async fn claim(&self, hello: Checked) -> ApiResult<Opening> {
        let api = &self.api;
        let now = api.clock.now();
        let app = api.store.ensure_app(&hello.app, now).await?;
        self.find_room(app.id, &hello.app, &hello.executor).await?;
        let taken = || {
            let name = format!("apps/{}/executors/{}", hello.app, hello.executor);
            ApiError::already_exists(Kind::Executor, name)
        };
        let presence = self.hub.presence(app.id, &hello.executor, &hello.instance_id);
        let settings = self.hub.settings();
        // Signs of life are written every touch interval, so that much later they may look.
        let silence = settings.heartbeat_interval * 2 + settings.touch_interval;
        let alive_since = match presence {
            Presence::Alive => return Err(taken()),
            // This node hears the other process itself, and it says nothing.
            Presence::Silent => now + TimeDelta::days(1),
            Presence::Free => now - TimeDelta::from_std(silence).unwrap_or(TimeDelta::MAX),
        };
        let resume_token = resume_token(&api.page_key, &hello);
        let claim = Claim {
            app: app.id,
            name: hello.executor.clone(),
            spec: hello.spec.clone(),
            instance_id: hello.instance_id.clone(),
            resume_hash: hash(&hello.resume_token),
            fresh_resume_hash: hash(&resume_token),
            principal: self.caller.principal(),
            node: settings.node_id.clone(),
            peer_address: self.peer_address(),
            alive_since,
            may_hold: self.may_hold(app.id, &hello),
        };
        let claimed = match api.store.claim_executor(&claim, now).await {
            Ok(claimed) => claimed,
            Err(StoreError::Conflict(_)) => return Err(taken()),
            Err(fault) => return Err(fault.into()),
        };
        api.room.opened(&claimed.executor);
        let foreign = self.look_up(&hello, &claimed).await?;
        Ok(self.opening(hello, claimed, foreign, resume_token))
    }

    /// The runs that may be with the executor: those that the owner sent there and those that
    /// Hello lists. None when the owner is another node.
    fn may_hold(&self, app: AppId, hello: &Checked) -> Option<Vec<RunId>> {
        let mut runs = self.hub.may_hold(app, &hello.executor)?;
        runs.extend(hello.attempts.iter().map(|(attempt, _)| attempt.run));
        runs.sort_unstable();
        runs.dedup();
        Some(runs)
    }

    #[allow(clippy::unnecessary_min_or_max, reason = "has an effect from minor version 1 on")]
    fn opening(
        &self,
        hello: Checked,
        claimed: Claimed,
        foreign: Foreign,
        resume_token: String,
    ) -> Opening {
        let Claimed { executor, resumed, replaced, attempts } = claimed;
        let known = FEATURES.into_iter().filter(|f| hello.features.iter().any(|h| h == f));
        Opening {
            session_id: format!("{}-{}", executor.row, executor.session_epoch),
            origin: Arc::new(Origin {
                app: executor.app,
                executor: executor.name.as_str().into(),
                row: executor.row,
                epoch: executor.session_epoch,
            }),
            app_name: executor.app_name,
            instance_id: hello.instance_id,
            cordoned: executor.cordoned,
            spec: hello.spec,
            protocol_minor: PROTOCOL_MINOR.min(hello.protocol_minor),
            features: known.map(str::to_owned).collect(),
            resume_token,
            resumed,
            replaced,
            claimed: attempts,
            listed: hello.attempts,
            last_command_seq: hello.last_command_seq,
            unwanted: foreign.unwanted,
            known_results: foreign.known_results,
            auth_expires_at: self.caller.expires_at(),
        }
    }

    /// Sorts what Hello lists beside the executor's own open attempts: what runs and is not wanted
    /// any more, and results that are written already.
    async fn look_up(&self, hello: &Checked, claimed: &Claimed) -> ApiResult<Foreign> {
        let own: HashSet<(RunId, u32)> =
            claimed.attempts.iter().map(|run| (run.id, run.attempt)).collect();
        let (finished, running): (Vec<_>, Vec<_>) = hello
            .attempts
            .iter()
            .take(LISTED_ATTEMPTS_MAX)
            .filter(|(attempt, _)| !own.contains(&(attempt.run, attempt.attempt)))
            .partition(|(_, finished)| *finished);
        // What was never sent to this executor is as unknown to it as what does not exist.
        let (app, name) = (claimed.executor.app, &claimed.executor.name);
        let mut foreign = Foreign { unwanted: Vec::new(), known_results: Vec::new() };
        for part in running.chunks(LOOK_UP_MAX) {
            let ids: Vec<RunId> = part.iter().map(|(attempt, _)| attempt.run).collect();
            let open = self.api.store.open_runs(&ids).await?;
            let open: HashMap<RunId, OpenRun> = open.into_iter().map(|run| (run.id, run)).collect();
            // One that waits again may be sent here once more: its result would count.
            let waits = |attempt: &AttemptRef| {
                open.get(&attempt.run).is_some_and(|run| {
                    run.attempt == attempt.attempt
                        && run.state == RunState::Queued
                        && run.was_sent_to(app, name)
                })
            };
            let unwanted = part.iter().map(|(attempt, _)| *attempt);
            foreign.unwanted.extend(unwanted.filter(|attempt| !waits(attempt)));
        }
        for part in finished.chunks(LOOK_UP_MAX) {
            let ids: Vec<RunId> = part.iter().map(|(attempt, _)| attempt.run).collect();
            let ended = self.api.store.get_runs(&ids, false).await?;
            // An end that the scheduler decided alone still wants to hear the late result.
            let told: HashSet<(RunId, u32)> = ended
                .iter()
                .map(|record| &record.run)
                .filter(|run| run.was_sent_to(app, name))
                .filter(|run| matches!(run.state, RunState::Succeeded | RunState::Failed))
                .map(|run| (run.id, run.attempt))
                .collect();
            let known = part.iter().map(|(attempt, _)| *attempt);
            let known = known.filter(|attempt| told.contains(&(attempt.run, attempt.attempt)));
            foreign.known_results.extend(known);
        }
        Ok(foreign)
    }
}

/// The resume token of a process: a function of it that only the cluster can compute, so that a
/// Welcome that was lost on the way can be given again.
fn resume_token(key: &[u8], hello: &Checked) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        // An HMAC takes keys of any length.
        return String::new();
    };
    for part in ["resume", &hello.app, &hello.executor, &hello.instance_id] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    hex::encode(mac.finalize().into_bytes())
}

/// SHA-256; of no token, nothing.
fn hash(token: &str) -> Vec<u8> {
    if token.is_empty() { Vec::new() } else { Sha256::digest(token.as_bytes()).to_vec() }
}
