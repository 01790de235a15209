//! Apps.

use std::time::Duration;

use clawjob_scheduler::{
    model::{
        app::AppSpec,
        run::{NewRun, RunState},
    },
    store::{
        StoreError,
        ops::{JobChange, Replan, RequestKey, RunQuery, Scheduled},
    },
};

use super::fixture::{Fixture, at, ending};

fn spec(name: &str) -> AppSpec {
    AppSpec {
        display_name: name.to_owned(),
        lost_after: Some(Duration::from_secs(90)),
        ..AppSpec::default()
    }
}

pub(crate) async fn an_app_is_made_once_and_found(f: &Fixture) {
    let first = f.store.ensure_app("bank", at(1)).await.expect("an app");
    assert_eq!(f.store.ensure_app("bank", at(2)).await.expect("the same"), first);
    assert_eq!(f.store.get_app("bank").await.expect("found"), first);
    assert_eq!((first.version, first.created_at), (1, at(1)));
    assert_ne!(first.id, f.app.id);
    let taken = f.store.create_app("bank", &spec("x"), None, at(3)).await;
    assert!(matches!(taken, Err(StoreError::AlreadyExists(_))), "{taken:?}");
    let missing = f.store.get_app("nowhere").await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
}

pub(crate) async fn a_repeated_request_makes_one_app(f: &Fixture) {
    let key = RequestKey { key: "ann/CreateApp/1".to_owned(), body_hash: vec![1; 32] };
    assert_eq!(f.store.find_answer(&key).await.expect("reads"), None);
    let first = f.store.create_app("bank", &spec("x"), Some(&key), at(1)).await.expect("an app");
    let again = f.store.create_app("bank", &spec("x"), Some(&key), at(2)).await.expect("the same");
    assert_eq!(again, first);
    assert_eq!(first.spec, spec("x"));
    let answer = f.store.find_answer(&key).await.expect("reads");
    assert_eq!(answer, Some(first.id.0.to_string()));
    let other = RequestKey { body_hash: vec![2; 32], ..key };
    let answer = f.store.find_answer(&other).await;
    assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}");
    let reused = f.store.create_app("mill", &spec("x"), Some(&other), at(3)).await;
    assert!(matches!(reused, Err(StoreError::Conflict(_))), "{reused:?}");
}

pub(crate) async fn an_update_needs_the_version_that_was_seen(f: &Fixture) {
    let updated = f.store.update_app(f.app.id, &spec("Shop"), 1).await.expect("updated");
    assert_eq!((updated.version, &updated.spec), (2, &spec("Shop")));
    let stale = f.store.update_app(f.app.id, &spec("Other"), 1).await;
    assert!(matches!(stale, Err(StoreError::Conflict(_))), "{stale:?}");
    assert_eq!(f.store.get_app("shop").await.expect("found"), updated);
}

pub(crate) async fn apps_are_listed_by_name_page_by_page(f: &Fixture) {
    for name in ["bank", "mill", "zoo"] {
        f.store.ensure_app(name, at(1)).await.expect("an app");
    }
    let names = async |after: &str, only: Option<&[String]>, limit| -> Vec<String> {
        let page = f.store.list_apps(after, only, limit).await.expect("apps");
        page.into_iter().map(|app| app.name).collect()
    };
    assert_eq!(names("", None, 2).await, ["bank", "mill"]);
    assert_eq!(names("mill", None, 9).await, ["shop", "zoo"]);
    let only = ["zoo".to_owned(), "bank".to_owned(), "none".to_owned()];
    assert_eq!(names("", Some(&only), 9).await, ["bank", "zoo"]);
    assert_eq!(names("", Some(&[]), 9).await, [""; 0]);
}

pub(crate) async fn an_app_with_jobs_or_open_runs_stays(f: &Fixture) {
    let nothing = || -> Replan { Box::new(|_| Vec::<NewRun>::new()) };
    let running = f.run_in("a", RunState::Running).await;
    let job = f.store.get_job("shop", "a").await.expect("found");
    let busy = f.store.delete_app(f.app.id).await;
    assert!(matches!(busy, Err(StoreError::Conflict(_))), "{busy:?}");
    let delete = JobChange { delete: true, drop_due: true, ..JobChange::by("me") };
    f.store.change_job(job.id, &delete, nothing(), at(20)).await.expect("deleted");
    let running_still = f.store.delete_app(f.app.id).await;
    assert!(matches!(running_still, Err(StoreError::Conflict(_))), "{running_still:?}");
    f.store.end_runs(&[ending(running, RunState::Succeeded)], at(21)).await.expect("ended");
    f.store.delete_app(f.app.id).await.expect("nothing is left in it");
    let gone = f.store.get_app("shop").await;
    assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
    let query = RunQuery {
        apps: None,
        jobs: None,
        conditions: Vec::new(),
        scheduled: Scheduled::With,
        ascending: false,
        after: None,
        limit: 10,
        full: false,
        now: at(30),
    };
    assert_eq!(f.store.list_runs(&query).await.expect("runs"), []);
    let again = f.store.delete_app(f.app.id).await;
    assert!(matches!(again, Err(StoreError::NotFound(_))), "{again:?}");
}
