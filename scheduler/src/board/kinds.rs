//! What very many jobs have in common: their app, their spec, and its schedules made ready.

use std::sync::Arc;

use crate::model::{
    ids::AppId,
    job::{Job, JobSpec},
    plan,
    schedule::{Compiled, Schedule},
    shared::{Fingerprint, Fingerprints, Shared},
};

/// What equal jobs of an app share.
pub(super) struct Kind {
    pub(super) app: AppId,
    pub(super) app_name: Arc<str>,
    pub(super) spec: Arc<JobSpec>,
    /// The schedules, ready to compute; none if one of them can't be.
    pub(super) compiled: Vec<Arc<Compiled>>,
    /// Why one of the schedules can't be computed.
    pub(super) fault: Option<String>,
}

impl Kind {
    /// Whether the ends of runs make fire times.
    pub(super) fn is_delayed(&self) -> bool {
        self.compiled.iter().any(|compiled| compiled.is_delay())
    }

    /// Whether calendars have a say in when it fires.
    pub(super) fn has_calendars(&self) -> bool {
        self.compiled.iter().any(|compiled| compiled.has_calendars())
    }
}

/// The kinds that jobs are of.
#[derive(Default)]
pub(super) struct Kinds {
    /// By app and by where the spec is in memory, where it stays as long as its kind is in use. The store
    /// hands out equal specs as one.
    kinds: Shared<(AppId, usize), Kind>,
    /// The schedules, which jobs have in common that are of different kinds otherwise.
    compiled: Shared<Fingerprint, Compiled>,
    fingerprints: Fingerprints,
}

impl Kinds {
    /// The kind of a job.
    pub(super) fn of(&mut self, job: &Job) -> Arc<Kind> {
        let key = (job.app, Arc::as_ptr(&job.spec) as usize);
        if let Some(kind) = self.kinds.get(&key).filter(|kind| kind.app_name == job.app_name) {
            return kind;
        }
        let compiled = self.compile_all(job);
        let kind = Kind {
            app: job.app,
            app_name: job.app_name.clone(),
            spec: job.spec.clone(),
            fault: compiled.as_ref().err().cloned(),
            compiled: compiled.unwrap_or_default(),
        };
        // What a calendar covers changes without the schedule: such a kind is no other job's.
        match job.spec.schedules.iter().any(Schedule::names_calendars) {
            true => Arc::new(kind),
            false => self.kinds.put(key, kind),
        }
    }

    fn compile_all(&mut self, job: &Job) -> Result<Vec<Arc<Compiled>>, String> {
        let mut all = Vec::with_capacity(job.spec.schedules.len());
        for schedule in &job.spec.schedules {
            let key = self.fingerprints.of(schedule);
            if let Some(known) = self.compiled.get(&key) {
                all.push(known);
                continue;
            }
            let compiled = schedule
                .compile_with(&job.calendars)
                .map_err(|faults| plan::in_words(faults.iter()))?;
            all.push(match schedule.names_calendars() {
                true => Arc::new(compiled),
                false => self.compiled.put(key, compiled),
            });
        }
        Ok(all)
    }
}
