//! Which jobs start which others, across apps.

use std::collections::HashSet;

use rusqlite::{Connection, params};

use super::{rows::from_json, writer::find};
use crate::{
    model::job::{JobSpec, split_name},
    store::{Result, StoreError},
};

/// Follows the names from job to job; each is looked at once. A job that can't be read starts none.
pub(super) fn leads_to(conn: &Connection, from: &[String], to: &str) -> Result<bool> {
    let mut seen: HashSet<String> = from.iter().cloned().collect();
    let mut waiting: Vec<String> = from.to_vec();
    while let Some(name) = waiting.pop() {
        if name == to {
            return Ok(true);
        }
        let spec = content(conn, &name)?;
        for next in spec.on_success.into_iter().chain(spec.on_failure) {
            if seen.insert(next.clone()) {
                waiting.push(next);
            }
        }
    }
    Ok(false)
}

fn content(conn: &Connection, name: &str) -> Result<JobSpec> {
    let Some((app, job)) = split_name(name) else { return Ok(JobSpec::default()) };
    let sql = "SELECT j.spec FROM job j JOIN app a ON a.id = j.app_id
               WHERE a.name = ?1 AND j.name = ?2 AND j.deleted_at IS NULL";
    let found = find(conn, sql, params![app, job], |row| {
        Ok(from_json::<JobSpec>(row, 0).unwrap_or_default())
    })?;
    Ok(found.unwrap_or_default())
}

/// Fails when the job, with this content, would start itself again.
pub(super) fn refuse_cycle(conn: &Connection, name: &str, spec: &JobSpec) -> Result<()> {
    let followers: Vec<String> = spec.on_success.iter().chain(&spec.on_failure).cloned().collect();
    if !followers.is_empty() && leads_to(conn, &followers, name)? {
        return Err(StoreError::Conflict(format!("the chain of {name} leads back to it")));
    }
    Ok(())
}
