//! Rows that can't be read: they are shown as they are, and hurt nobody else.

use clawjob_scheduler::{
    model::run::RunState,
    store::ops::{JobQuery, RunScope},
};

use super::fixture::Fixture;

/// JSON that is no job's spec, in both databases.
const NO_SPEC: &str = r#"{"handler": 7}"#;

pub(crate) async fn r11_a_job_that_can_t_be_read_has_a_problem_and_leaves_the_others_whole(
    f: &Fixture,
) {
    let (bad, good) = (f.job("bad").await, f.job("good").await);
    f.sql(&format!("UPDATE job SET spec = '{NO_SPEC}' WHERE id = {}", bad.id.0)).await;
    let partitions = [(bad.partition, 0), (good.partition, 0)];
    let asked = if bad.partition == good.partition { &partitions[..1] } else { &partitions[..] };
    let loaded = f.store.load_jobs(asked).await.expect("jobs");
    let listed = f.store.list_jobs(&JobQuery { limit: 10, ..JobQuery::default() }).await;
    for jobs in [loaded, listed.expect("jobs")] {
        assert_eq!(jobs.len(), 2);
        let read = jobs.iter().find(|job| job.id == bad.id).expect("the bad job");
        assert!(!read.problem.is_empty());
        assert_eq!(read.spec.handler, "");
        let read = jobs.iter().find(|job| job.id == good.id).expect("the good job");
        assert_eq!((read.problem.as_str(), read.spec.handler.as_str()), ("", "h"));
    }
    assert!(!f.store.get_job("shop", "bad").await.expect("the bad job").problem.is_empty());
}

pub(crate) async fn a_revision_that_can_t_be_read_leaves_the_other_runs_their_specs(f: &Fixture) {
    let bad = f.run_in("bad", RunState::Queued).await;
    let good = f.run_in("good", RunState::Queued).await;
    let (bad, good) = (f.open(bad.run).await, f.open(good.run).await);
    let statement =
        format!("UPDATE job_revision SET spec = '{NO_SPEC}' WHERE job_id = {}", bad.job.0);
    f.sql(&statement).await;
    let scope = RunScope::Jobs(vec![bad.job, good.job]);
    let loaded = f.store.load_open_runs(&scope).await.expect("open runs");
    assert_eq!(loaded.runs.len(), 2);
    let specs: Vec<_> = loaded.specs.iter().map(|spec| spec.job).collect();
    assert!(specs.contains(&good.job));
}
