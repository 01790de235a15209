//! Attempts that an executor runs and its session knows nothing of: wanted or not?

use std::{collections::HashMap, sync::Arc};

use super::Results;
use crate::{
    hub::{Kill, event::Origin},
    model::{
        ids::{AttemptRef, RunId},
        job::KILL_GRACE_DEFAULT,
        run::{KillReason, OpenRun, RunState},
    },
};

/// What is to be done about such an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// It is the run's current one.
    Current,
    /// It was put back, and may be sent to the same executor again: its result still counts.
    Waiting,
    /// It must stop.
    Unwanted,
}

impl Results {
    /// Takes in what is still wanted and stops the rest.
    pub(super) async fn settle_unknown(&mut self, unknown: Vec<(Arc<Origin>, AttemptRef)>) {
        if unknown.is_empty() {
            return;
        }
        let ids: Vec<RunId> = unknown.iter().map(|(_, attempt)| attempt.run).collect();
        let Ok(rows) = self.persist("open runs", || self.store.open_runs(&ids)).await else {
            return;
        };
        let rows: HashMap<RunId, OpenRun> = rows.into_iter().map(|run| (run.id, run)).collect();
        for (origin, attempt) in unknown {
            let row = rows.get(&attempt.run);
            match (row, claim(row, &origin, attempt)) {
                (Some(run), Claim::Current) => self.take_in(&origin, run),
                (_, Claim::Waiting | Claim::Current) => {}
                (_, Claim::Unwanted) => {
                    let message = "this attempt is no longer wanted".to_owned();
                    self.stop_attempt(&origin, attempt, KillReason::StaleAttempt, message, None);
                }
            }
        }
    }

    fn take_in(&mut self, origin: &Arc<Origin>, run: &OpenRun) {
        self.hub.adopt(origin, run);
        match run.state {
            RunState::Dispatched => {
                let now = self.clock.now();
                self.acks.put(origin, run.attempt_ref(), now, self.clock.elapsed());
                self.listener.acked(run.attempt_ref(), now);
            }
            RunState::Canceling => {
                let reason = run.kill_reason.unwrap_or(KillReason::User);
                let message = run.message.clone();
                self.stop_attempt(origin, run.attempt_ref(), reason, message, run.kill_grace);
            }
            _ => {}
        }
    }

    fn stop_attempt(
        &self,
        origin: &Origin,
        attempt: AttemptRef,
        reason: KillReason,
        message: String,
        grace: Option<std::time::Duration>,
    ) {
        let grace = grace.unwrap_or(KILL_GRACE_DEFAULT);
        self.hub.kill(origin.app, &origin.executor, Kill { attempt, reason, grace, message });
    }
}

fn claim(row: Option<&OpenRun>, origin: &Origin, attempt: AttemptRef) -> Claim {
    let own = |run: &&OpenRun| {
        run.attempt == attempt.attempt && run.was_sent_to(origin.app, &origin.executor)
    };
    let Some(run) = row.filter(own) else {
        return Claim::Unwanted;
    };
    match run.state {
        RunState::Queued => Claim::Waiting,
        RunState::Dispatched | RunState::Running | RunState::Canceling
            if run.fence >= attempt.fence =>
        {
            Claim::Current
        }
        _ => Claim::Unwanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::ids::AppId,
        results::testing::{origin, row},
    };

    #[test]
    fn only_the_current_attempt_on_its_own_executor_goes_on() {
        let origin = origin("worker-1");
        let current = |state| {
            let run = OpenRun { executor: Some("worker-1".into()), ..row(state) };
            claim(Some(&run), &origin, run.attempt_ref())
        };
        assert_eq!(current(RunState::Dispatched), Claim::Current);
        assert_eq!(current(RunState::Running), Claim::Current);
        assert_eq!(current(RunState::Canceling), Claim::Current);
        assert_eq!(current(RunState::Queued), Claim::Waiting);
        assert_eq!(current(RunState::RetryWait), Claim::Unwanted);
        let elsewhere = OpenRun { executor: Some("other".into()), ..row(RunState::Running) };
        assert_eq!(claim(Some(&elsewhere), &origin, elsewhere.attempt_ref()), Claim::Unwanted);
        for state in [RunState::Queued, RunState::Running] {
            let same_name = OpenRun { executor: Some("worker-1".into()), ..row(state) };
            let foreign = OpenRun { app: AppId(2), ..same_name };
            assert_eq!(claim(Some(&foreign), &origin, foreign.attempt_ref()), Claim::Unwanted);
        }
        let later = OpenRun { attempt: 2, ..row(RunState::Queued) };
        let first = AttemptRef { attempt: 1, ..later.attempt_ref() };
        assert_eq!(claim(Some(&later), &origin, first), Claim::Unwanted);
        assert_eq!(claim(None, &origin, first), Claim::Unwanted);
    }
}
