//! Ends of runs → the alarms they raise.

use std::collections::{BTreeSet, HashMap};

use crate::{
    model::{
        alarm::{AlarmCondition, AlarmRuleId, DefaultAlarm, NewAlarm, raise, streaks},
        ids::{AppId, RunId},
        run::RunState,
    },
    store::{Result, SharedStore},
};

/// Says which alarms ends raise.
pub struct Raiser {
    store: SharedStore,
    default: Option<DefaultAlarm>,
}

impl Raiser {
    /// `default` speaks for jobs that no rule covers.
    pub fn new(store: SharedStore, default: Option<DefaultAlarm>) -> Self {
        Self { store, default }
    }

    /// The alarms of ended runs, by run. It only reads: whoever takes the ends in hand writes them
    /// in the same transaction. Ends that nobody watches for cost no statement of their own.
    ///
    /// # Errors
    /// The store's.
    pub async fn raise(
        &self,
        ended: &[(RunId, AppId, RunState)],
    ) -> Result<HashMap<RunId, Vec<NewAlarm>>> {
        let met = |state| AlarmCondition::of(state).is_some();
        let apps: BTreeSet<AppId> =
            ended.iter().filter(|(.., state)| met(*state)).map(|(_, app, _)| *app).collect();
        let mut raised = HashMap::new();
        if apps.is_empty() {
            return Ok(raised);
        }
        let apps: Vec<AppId> = apps.into_iter().collect();
        let rules = self.store.watching_rules(&apps).await?;
        let watched = |app: AppId, state| {
            let condition = AlarmCondition::of(state);
            self.default.is_some()
                || rules.iter().any(|r| r.app == app && Some(r.spec.condition) == condition)
        };
        let runs: Vec<RunId> = ended
            .iter()
            .filter(|(_, app, state)| met(*state) && watched(*app, *state))
            .map(|(run, ..)| *run)
            .collect();
        if runs.is_empty() {
            return Ok(raised);
        }
        for run in self.store.ended_runs(&runs).await? {
            let mut rows: HashMap<AlarmRuleId, Vec<RunState>> = HashMap::new();
            for streak in streaks(&run, &rules) {
                rows.insert(streak.rule, self.store.last_states(&streak).await?);
            }
            let row = |rule| rows.get(&rule).cloned().unwrap_or_default();
            let alarms = raise(&run, &rules, self.default.as_ref(), row);
            if !alarms.is_empty() {
                raised.insert(run.run, alarms);
            }
        }
        Ok(raised)
    }
}
