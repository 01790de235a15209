//! The jobs that a job starts: whether a save may add them.

use super::JobsService;
use crate::{
    api::{
        caller::Caller,
        convert::names::{self, JobName},
        status::{ApiResult, FIELD_INVALID, Violations},
    },
    model::{job::JobSpec, principal::Role},
    store::StoreError,
};

/// Jobs that one job may start at each kind of end.
const FOLLOWERS_MAX: usize = 32;

/// Reason of an entry that names no job, or none that the caller may trigger.
const NO_TARGET: &str = "CHAIN_TARGET_UNKNOWN";
/// Reason of an entry that leads back to the job.
const CYCLE: &str = "CHAIN_CYCLE";

impl JobsService {
    /// Checks what a save adds to `on_success` and `on_failure` of the job. What it had `before`
    /// was checked when it came in: it may name a job that was deleted since, or one that only
    /// others may trigger.
    ///
    /// # Errors
    /// The store's; what is wrong with the entries goes into `bad`.
    pub(super) async fn check_chains(
        &self,
        caller: &Caller,
        name: &JobName,
        before: &JobSpec,
        spec: &JobSpec,
        bad: &mut Violations,
    ) -> ApiResult<()> {
        for (field, entries, known) in [
            ("job.on_success", &spec.on_success, &before.on_success),
            ("job.on_failure", &spec.on_failure, &before.on_failure),
        ] {
            if entries.len() > FOLLOWERS_MAX {
                let count = entries.len();
                bad.invalid(field, format!("has {count} jobs; name at most {FOLLOWERS_MAX}"));
                continue;
            }
            for (index, entry) in entries.iter().enumerate() {
                let field = format!("{field}[{index}]");
                if entries.iter().take(index).any(|other| other == entry) {
                    bad.add(field, FIELD_INVALID, "stands in the list twice; name each job once");
                } else if !known.contains(entry) {
                    self.check_entry(caller, name, &field, entry, bad).await?;
                }
            }
        }
        Ok(())
    }

    /// A job that does not exist and one of an app the caller has no right in look the same.
    async fn check_entry(
        &self,
        caller: &Caller,
        name: &JobName,
        field: &str,
        entry: &str,
        bad: &mut Violations,
    ) -> ApiResult<()> {
        let Some(target) = names::parse_job(field, entry, bad) else { return Ok(()) };
        if target == *name {
            bad.add(field, CYCLE, "is the job itself, which would never come to an end; leave it");
            return Ok(());
        }
        let found = match caller.can(Role::Operator, &target.app) {
            true => self.api.store.get_job(&target.app, &target.job).await.map(Some),
            false => Ok(None),
        };
        match found {
            Ok(Some(_)) => {}
            Ok(None) | Err(StoreError::NotFound(_)) => {
                let why = "names no job that you may trigger; check its name, or ask for the role \
                           OPERATOR in its app";
                bad.add(field, NO_TARGET, why);
                return Ok(());
            }
            Err(fault) => return Err(fault.into()),
        }
        let own = names::job(&name.app, &name.job);
        if self.api.store.chain_leads_to(&[entry.to_owned()], &own).await? {
            let why = "starts this job again, by itself or through others; leave it out, or the \
                       link that leads back";
            bad.add(field, CYCLE, why);
        }
        Ok(())
    }
}
