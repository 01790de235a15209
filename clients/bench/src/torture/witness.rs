//! Watches what is said of runs while they happen: a final state never changes, no attempt is taken
//! back.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use clawjob_proto::v1::{Run, RunState, WatchRunsRequest, watch_runs_response::Type};
use tonic::Status;

use super::APP;
use crate::admin::Admin;

/// Wait before the next node is asked.
const AGAIN: Duration = Duration::from_millis(500);
/// A node that says nothing for this long is left: bookmarks come more often.
const SILENCE: Duration = Duration::from_secs(20);

/// What was said.
#[derive(Default)]
struct Said {
    runs: HashMap<String, (u32, RunState)>,
    faults: Vec<String>,
    events: u64,
}

/// Who watches.
#[derive(Clone, Default)]
pub(super) struct Witness(Arc<Mutex<Said>>);

/// Whether the state is never left.
#[must_use]
pub(super) fn is_final(state: RunState) -> bool {
    use RunState::{Canceled, Failed, Lost, Skipped, Succeeded, TimedOut};
    matches!(state, Succeeded | Failed | Canceled | TimedOut | Lost | Skipped)
}

impl Witness {
    /// Watches at one node after the other, resuming where the last one ended.
    pub(super) fn start(&self, admins: Vec<Admin>) -> tokio::task::JoinHandle<()> {
        let witness = self.clone();
        tokio::spawn(async move {
            let mut token = String::new();
            for admin in admins.iter().cycle() {
                // Whatever ended it, the next one goes on.
                let _ = witness.watch(admin, &mut token).await;
                tokio::time::sleep(AGAIN).await;
            }
        })
    }

    async fn watch(&self, admin: &Admin, token: &mut String) -> Result<(), Status> {
        let request = WatchRunsRequest {
            parent: format!("apps/{APP}"),
            resume_token: token.clone(),
            ..WatchRunsRequest::default()
        };
        let mut stream = admin.streams().watch_runs(request).await?.into_inner();
        loop {
            let next = tokio::time::timeout(SILENCE, stream.message()).await;
            let Some(event) = next.map_err(|_| Status::deadline_exceeded("silent"))?? else {
                return Ok(());
            };
            if let (Type::Current | Type::Changed, Some(run)) = (event.r#type(), &event.run) {
                self.hear(run);
            }
            if !event.resume_token.is_empty() {
                token.clone_from(&event.resume_token);
            }
        }
    }

    /// Takes a word on a run.
    pub(super) fn hear(&self, run: &Run) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.events += 1;
        let now = (run.attempt, run.state());
        let Some(before) = said.runs.insert(run.name.clone(), now) else { return };
        let left = is_final(before.1) && before.1 != now.1;
        let back = now.0 < before.0;
        if left || back {
            let fault = format!("{} went from {before:?} to {now:?}", run.name);
            said.faults.push(fault);
        }
    }

    /// What must not have happened, and how many words there were.
    #[must_use]
    pub(super) fn faults(&self) -> (Vec<String>, u64) {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (said.faults.clone(), said.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(witness: &Witness, attempt: u32, state: RunState) {
        let name = "apps/a/runs/r".to_owned();
        witness.hear(&Run { name, attempt, state: state.into(), ..Run::default() });
    }

    #[test]
    fn a_final_state_that_changes_and_an_attempt_taken_back_are_faults() {
        let witness = Witness::default();
        for (attempt, state) in [
            (1, RunState::Queued),
            (1, RunState::Running),
            (1, RunState::RetryWait),
            (2, RunState::Queued),
            (2, RunState::Succeeded),
            (2, RunState::Succeeded),
        ] {
            word(&witness, attempt, state);
        }
        assert_eq!(witness.faults().0, Vec::<String>::new());
        word(&witness, 2, RunState::Failed);
        word(&witness, 1, RunState::Failed);
        assert_eq!(witness.faults().0.len(), 2);
    }
}
