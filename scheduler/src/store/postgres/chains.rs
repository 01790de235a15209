//! Which jobs start which others, across apps.

use deadpool_postgres::{GenericClient, Transaction};

use super::rows::{Reader, query_one};
use crate::{
    model::job::JobSpec,
    store::{Result, StoreError},
};

/// Follows the names from job to job; each is looked at once. Whatever is stored in place of a list
/// of names counts as none.
const LEADS_TO: &str = "WITH RECURSIVE reached (name) AS (
        SELECT unnest($1::text[])
        UNION
        SELECT t.name FROM reached r
        JOIN app a ON a.name = split_part(r.name, '/', 2)
        JOIN job j ON j.app_id = a.id AND j.name = split_part(r.name, '/', 4)
            AND j.deleted_at IS NULL
        CROSS JOIN LATERAL jsonb_array_elements_text(
            jsonb_path_query_array(j.spec, '$.on_success[*]')
            || jsonb_path_query_array(j.spec, '$.on_failure[*]')) AS t (name)
    )
    SELECT EXISTS (SELECT FROM reached WHERE name = $2)";

pub(super) async fn leads_to(
    client: &impl GenericClient,
    from: &[String],
    to: &str,
) -> Result<bool> {
    Reader::new(&query_one(client, LEADS_TO, &[&from, &to]).await?).get()
}

/// Fails when the job, with this content, would start itself again. Saves of chains come one after
/// the other, so that none misses what another adds.
pub(super) async fn refuse_cycle(tx: &Transaction<'_>, name: &str, spec: &JobSpec) -> Result<()> {
    if !spec.starts_others() {
        return Ok(());
    }
    let followers: Vec<String> = spec.on_success.iter().chain(&spec.on_failure).cloned().collect();
    let sql =
        "SELECT pg_advisory_xact_lock(hashtext('clawjob chains'), hashtext(current_schema()))";
    query_one(tx, sql, &[]).await?;
    if leads_to(tx, &followers, name).await? {
        return Err(StoreError::Conflict(format!("the chain of {name} leads back to it")));
    }
    Ok(())
}
