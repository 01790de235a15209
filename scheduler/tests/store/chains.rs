//! Chains of jobs: where they lead, that none is closed to a circle, and what runs hand on.

use clawjob_scheduler::{
    model::{
        Payload,
        ids::AppId,
        job::{Job, JobSpec, JobState},
        run::RunState,
    },
    store::{
        StoreError,
        ops::{EndRun, JobChange, NewJob},
    },
};

use super::fixture::{Fixture, at, ending};

fn spec(on_success: &[&str], on_failure: &[&str]) -> JobSpec {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    JobSpec {
        handler: "h".to_owned(),
        on_success: names(on_success),
        on_failure: names(on_failure),
        ..JobSpec::default()
    }
}

async fn create(f: &Fixture, app: AppId, name: &str, spec: JobSpec) -> Result<Job, StoreError> {
    let job = NewJob {
        app,
        name: name.to_owned(),
        state: JobState::Active,
        spec,
        updated_by: "me".to_owned(),
        request: None,
    };
    f.store.create_job(&job, Box::new(|_| Vec::new()), at(0)).await
}

fn change(spec: Option<JobSpec>) -> JobChange {
    JobChange { delete: spec.is_none(), spec, ..JobChange::by("me") }
}

async fn save(f: &Fixture, job: &Job, spec: Option<JobSpec>) -> Result<Job, StoreError> {
    f.store.change_job(job.id, &change(spec), Box::new(|_| Vec::new()), at(1)).await
}

async fn leads(f: &Fixture, from: &str, to: &str) -> bool {
    f.store.chain_leads_to(&[from.to_owned()], to).await.expect("an answer")
}

pub(crate) async fn a_chain_is_followed_across_apps(f: &Fixture) {
    let bank = f.store.ensure_app("bank", at(0)).await.expect("an app");
    create(f, f.app.id, "c", spec(&[], &[])).await.expect("c");
    let b = create(f, bank.id, "b", spec(&[], &["apps/shop/jobs/c"])).await.expect("b");
    create(f, f.app.id, "a", spec(&["apps/none/jobs/x", "apps/bank/jobs/b"], &[]))
        .await
        .expect("a");
    let [a, bank_b, c] = ["apps/shop/jobs/a", "apps/bank/jobs/b", "apps/shop/jobs/c"];
    for (from, to, leads_there) in
        [(a, c, true), (bank_b, c, true), (a, a, true), (c, a, false), (bank_b, a, false)]
    {
        assert_eq!(leads(f, from, to).await, leads_there, "{from} to {to}");
    }
    save(f, &b, None).await.expect("deleted");
    assert!(!leads(f, a, c).await, "a job that is gone leads nowhere");
}

pub(crate) async fn a_save_that_closes_a_circle_is_refused(f: &Fixture) {
    let a = create(f, f.app.id, "a", spec(&[], &[])).await.expect("a");
    let b = create(f, f.app.id, "b", spec(&["apps/shop/jobs/a"], &[])).await.expect("b");
    let circle = |answer: Result<Job, StoreError>| matches!(answer, Err(StoreError::Conflict(_)));
    assert!(circle(save(f, &a, Some(spec(&[], &["apps/shop/jobs/b"]))).await));
    assert!(circle(save(f, &a, Some(spec(&["apps/shop/jobs/a"], &[]))).await));
    assert!(circle(create(f, f.app.id, "c", spec(&["apps/shop/jobs/c"], &[])).await));
    let stored = f.store.get_job("shop", "a").await.expect("a");
    assert_eq!((stored.revision, stored.spec.on_failure.len()), (1, 0));
    // The other way round once the first link is gone.
    save(f, &b, Some(spec(&[], &[]))).await.expect("unlinked");
    save(f, &a, Some(spec(&["apps/shop/jobs/b"], &[]))).await.expect("linked");
}

pub(crate) async fn of_two_saves_at_once_that_close_a_circle_one_is_refused(f: &Fixture) {
    for round in 0..10 {
        let name = |letter: &str| format!("{letter}{round}");
        let a = create(f, f.app.id, &name("a"), spec(&[], &[])).await.expect("a");
        let b = create(f, f.app.id, &name("b"), spec(&[], &[])).await.expect("b");
        let to = |job: &Job| spec(&[job.resource_name().as_str()], &[]);
        let (to_b, to_a) = (to(&b), to(&a));
        let (one, two) = tokio::join!(save(f, &a, Some(to_b)), save(f, &b, Some(to_a)));
        let refused = [one, two].into_iter().filter(Result::is_err).count();
        assert_eq!(refused, 1);
    }
}

pub(crate) async fn of_very_many_saves_at_once_that_close_a_circle_one_is_refused(f: &Fixture) {
    const JOBS: usize = 16;
    let mut jobs = Vec::new();
    for n in 0..JOBS {
        let name = format!("j{n}");
        jobs.push(create(f, f.app.id, &name, spec(&[], &[])).await.expect("a job"));
    }
    let next = |n: usize| jobs[(n + 1) % JOBS].resource_name();
    // What comes first keeps the store busy while the others gather.
    let plain = jobs.iter().map(|job| save(f, job, Some(spec(&[], &[]))));
    let links = (0..JOBS).map(|n| save(f, &jobs[n], Some(spec(&[&next(n)], &[]))));
    let (plain, links) =
        futures::future::join(futures::future::join_all(plain), futures::future::join_all(links))
            .await;
    assert!(plain.iter().all(Result::is_ok), "{plain:?}");
    let refused: Vec<_> = links.iter().filter_map(|link| link.as_ref().err()).collect();
    assert!(matches!(refused[..], [StoreError::Conflict(_)]), "{refused:?}");
}

pub(crate) async fn what_ended_runs_returned_is_handed_on(f: &Fixture) {
    let output = Payload { content_type: "text/plain".to_owned(), data: "seven".into() };
    let with = f.run_in("a", RunState::Running).await;
    let without = f.run_in("b", RunState::Running).await;
    let open = f.run_in("c", RunState::Running).await;
    let ends = [
        EndRun { output: Some(output.clone()), ..ending(with, RunState::Succeeded) },
        ending(without, RunState::Succeeded),
    ];
    f.store.end_runs(&ends, at(20)).await.expect("ended");
    let outputs = f.store.load_outputs(&[with.run, without.run, open.run]).await.expect("outputs");
    assert_eq!(outputs, [(with.run, output)]);
}
