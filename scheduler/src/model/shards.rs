//! Shards: a run that is split into parts, each a run of its own under one parent.
//!
//! The parent is never sent. It is split once, when overlap and limits have let it in: its fence
//! counts that, as other runs' fences count their dispatches. From then on its state is that of its
//! shards.

use std::{fmt::Write as _, sync::Arc};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{
    follow::Follow,
    ids::RunId,
    job::JobSpec,
    run::{Failure, NewRun, OpenRun, RunExtra, RunState},
};

/// Shards of one parent.
pub const SHARDS_MAX: u32 = 10_000;
/// Shards that a parent's failure speaks of by index.
pub const TROUBLES_MAX: usize = 8;
/// Failure code of a parent some of whose shards did not succeed.
pub const CODE_SHARDS_FAILED: &str = "SHARDS_FAILED";

/// A part of a run that is repeated without the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// Its index among all parts of the run it is of.
    pub index: u32,
    /// The only executor it may go to; empty means any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target: String,
}

/// A parent's shards to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// How many shards the whole run has.
    pub total: u32,
    /// Those to be made, by index.
    pub shards: Vec<NewRun>,
}

/// Splits a parent: into the parts that it names, else one per executor for a broadcast, else the
/// job's number of shards. None when a broadcast finds no executor, or more than [`SHARDS_MAX`].
pub fn split(parent: &OpenRun, spec: &JobSpec, executors: &[Arc<str>]) -> Option<Split> {
    let extra = parent.extra.as_deref().cloned().unwrap_or_default();
    let (total, parts) = if !extra.shards.is_empty() {
        (extra.shard_total, extra.shards.clone())
    } else if spec.placement.broadcast {
        let own = |name: &&Arc<str>| {
            extra.target_executor.is_empty() || ***name == *extra.target_executor
        };
        let names = executors.iter().filter(own).map(|name| name.to_string());
        let parts: Vec<Part> =
            (0..).zip(names).map(|(index, target)| Part { index, target }).collect();
        (u32::try_from(parts.len()).unwrap_or(u32::MAX), parts)
    } else {
        let total = spec.placement.shard_total.clamp(1, SHARDS_MAX);
        let target = &extra.target_executor;
        let parts = (0..total).map(|index| Part { index, target: target.clone() });
        (total, parts.collect())
    };
    if parts.is_empty() || parts.len() > SHARDS_MAX as usize {
        return None;
    }
    let shards = parts.into_iter().map(|part| shard(parent, &extra, part, total)).collect();
    Some(Split { total, shards })
}

fn shard(parent: &OpenRun, of: &RunExtra, part: Part, total: u32) -> NewRun {
    NewRun {
        id: RunId::shard(parent.id, u16::try_from(part.index).unwrap_or(u16::MAX)),
        job: parent.job,
        app: parent.app,
        revision: parent.revision,
        trigger: parent.trigger,
        fire_at: parent.fire_at,
        due_at: parent.due_at,
        extra: Some(Box::new(RunExtra {
            params: of.params.clone(),
            labels: of.labels.clone(),
            triggered_by: of.triggered_by.clone(),
            caused_by: of.caused_by,
            caused_by_app: of.caused_by_app.clone(),
            parent: Some(parent.id),
            shard_index: part.index,
            shard_total: total,
            target_executor: part.target,
            follow: Follow::SHARD,
            ..RunExtra::default()
        })),
    }
}

/// A shard that did not succeed.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// Its index.
    pub index: u32,
    /// How it ended.
    pub state: RunState,
    /// Why it failed.
    pub failure: Option<Failure>,
}

/// How a parent's shards have ended, once all have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// How many ended in each state.
    pub counts: Vec<(RunState, u32)>,
    /// When the first of them started.
    pub started_at: Option<DateTime<Utc>>,
    /// The first that did not succeed, by index, at most [`TROUBLES_MAX`].
    pub troubles: Vec<Trouble>,
}

impl Tally {
    /// The parent's state: the worst of its shards'.
    pub fn state(&self) -> RunState {
        let there = |state| self.counts.iter().any(|(ended, count)| *ended == state && *count > 0);
        let order = [RunState::Lost, RunState::Failed, RunState::TimedOut, RunState::Canceled];
        order.into_iter().find(|state| there(*state)).unwrap_or(RunState::Succeeded)
    }

    /// What the parent's failure says; None when all shards succeeded or were only canceled.
    pub fn failure(&self) -> Option<Failure> {
        if matches!(self.state(), RunState::Succeeded | RunState::Canceled) {
            return None;
        }
        let all: u32 = self.counts.iter().map(|(_, count)| count).sum();
        let good = self.counts.iter().find(|(state, _)| *state == RunState::Succeeded);
        let bad = all - good.map_or(0, |(_, count)| *count);
        let mut message = format!("{bad} of {all} shards did not succeed:");
        for trouble in &self.troubles {
            // Writing to a String can't fail.
            let _ = write!(message, " shard {} {}", trouble.index, trouble.state.as_str());
            if let Some(failure) = &trouble.failure {
                let _ = write!(message, " ({})", failure.code);
            }
            message.push(',');
        }
        if bad as usize > self.troubles.len() {
            message.push_str(" and others");
        }
        let message = message.trim_end_matches([',', ':']).to_owned();
        let code = CODE_SHARDS_FAILED.to_owned();
        Some(Failure { code, message, ..Failure::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        ids::{AppId, JobId},
        job::Placement,
        run::TriggerKind,
    };

    fn parent(extra: RunExtra) -> OpenRun {
        let at = DateTime::from_timestamp(1_800_000_000, 0).expect("in range");
        let new = NewRun {
            id: RunId::by_hand(at, 7),
            job: JobId(3),
            app: AppId(1),
            revision: 2,
            trigger: TriggerKind::Api,
            fire_at: at,
            due_at: at,
            extra: Some(Box::new(extra)),
        };
        OpenRun::queued(new, at)
    }

    fn spec(shard_total: u32, broadcast: bool) -> JobSpec {
        let placement = Placement { shard_total, broadcast, ..Placement::default() };
        JobSpec { placement, ..JobSpec::default() }
    }

    fn parts(split: &Split) -> Vec<(u32, u32, String)> {
        let extras = split.shards.iter().filter_map(|run| run.extra.as_ref());
        extras.map(|e| (e.shard_index, e.shard_total, e.target_executor.clone())).collect()
    }

    #[test]
    fn a_number_of_shards_is_split_by_index() {
        let run = parent(RunExtra { triggered_by: "me".to_owned(), ..RunExtra::default() });
        let split = split(&run, &spec(3, false), &[]).expect("a split");
        let none = String::new;
        assert_eq!(parts(&split), [(0, 3, none()), (1, 3, none()), (2, 3, none())]);
        let ids: Vec<RunId> = split.shards.iter().map(|shard| shard.id).collect();
        assert_eq!(ids, [0, 1, 2].map(|index| RunId::shard(run.id, index)));
        let extra = split.shards[2].extra.as_ref().expect("what it is");
        assert_eq!((extra.parent, extra.follow), (Some(run.id), Follow::SHARD));
        assert_eq!(extra.triggered_by, "me");
    }

    #[test]
    fn a_broadcast_has_one_shard_for_each_executor_and_none_without() {
        let executors = ["a".into(), "b".into()];
        let spec = spec(0, true);
        let all = split(&parent(RunExtra::default()), &spec, &executors).expect("a split");
        assert_eq!(parts(&all), [(0, 2, "a".to_owned()), (1, 2, "b".to_owned())]);
        let to_b = RunExtra { target_executor: "b".to_owned(), ..RunExtra::default() };
        let one = split(&parent(to_b), &spec, &executors).expect("a split");
        assert_eq!(parts(&one), [(0, 1, "b".to_owned())]);
        assert_eq!(split(&parent(RunExtra::default()), &spec, &[]), None);
    }

    #[test]
    fn parts_that_are_repeated_keep_index_total_and_target() {
        let part = |index, target: &str| Part { index, target: target.to_owned() };
        let shards = vec![part(1, "b"), part(4, "")];
        let extra = RunExtra { shards, shard_total: 5, ..RunExtra::default() };
        let split = split(&parent(extra), &spec(9, true), &["z".into()]).expect("a split");
        assert_eq!(parts(&split), [(1, 5, "b".to_owned()), (4, 5, String::new())]);
    }

    #[test]
    fn the_worst_shard_decides() {
        use RunState as S;
        let tally = |counts: &[(S, u32)]| Tally { counts: counts.to_vec(), ..Tally::default() };
        let worst = [S::Succeeded, S::Canceled, S::TimedOut, S::Failed, S::Lost];
        for (place, state) in worst.iter().enumerate() {
            let counts: Vec<(S, u32)> = worst[..=place].iter().map(|state| (*state, 1)).collect();
            assert_eq!(tally(&counts).state(), *state);
        }
        assert_eq!(tally(&[(S::Succeeded, 3), (S::Canceled, 1)]).failure(), None);
    }

    #[test]
    fn the_failure_names_the_shards() {
        let failure = Failure { code: "BOOM".to_owned(), ..Failure::default() };
        let trouble = |index, state, failure| Trouble { index, state, failure };
        let tally = Tally {
            counts: vec![(RunState::Succeeded, 2), (RunState::Failed, 1), (RunState::Lost, 1)],
            started_at: None,
            troubles: vec![
                trouble(1, RunState::Failed, Some(failure)),
                trouble(3, RunState::Lost, None),
            ],
        };
        let failure = tally.failure().expect("a failure");
        assert_eq!(failure.code, CODE_SHARDS_FAILED);
        let text = "2 of 4 shards did not succeed: shard 1 FAILED (BOOM), shard 3 LOST";
        assert_eq!(failure.message, text);
        let tally = Tally { troubles: Vec::new(), ..tally };
        let text = "2 of 4 shards did not succeed: and others";
        assert_eq!(tally.failure().expect("a failure").message, text);
    }
}
