//! What only the store on SQLite does: its directory, its lock, its one writer.

use std::{os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use chrono::{DateTime, Utc};
use clawjob_scheduler::{
    model::{
        app::AppSpec,
        ids::{PARTITION_COUNT, PartitionId},
        job::{JobSpec, JobState},
    },
    store::{Store, StoreError, ops::NewJob, sqlite::SqliteStore},
};
use tokio::task::JoinSet;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("in range")
}

fn all() -> Vec<PartitionId> {
    (0..PARTITION_COUNT).map(PartitionId).collect()
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("is there").permissions().mode() & 0o777
}

fn new_job(app: clawjob_scheduler::model::ids::AppId, name: String) -> NewJob {
    NewJob {
        app,
        name,
        state: JobState::Active,
        spec: JobSpec::default(),
        updated_by: "me".to_owned(),
        request: None,
    }
}

#[tokio::test]
async fn a_second_server_is_refused_until_the_first_has_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let first = SqliteStore::open(&data).expect("opens");
    let fault = SqliteStore::open(&data).err().expect("in use");
    let StoreError::Conflict(text) = fault else { panic!("{fault}") };
    assert!(text.contains(&data.display().to_string()), "{text}");
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    first.close().await;
    SqliteStore::open(&data).expect("opens again");
}

#[tokio::test]
async fn a_database_that_a_newer_version_has_migrated_is_opened_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    SqliteStore::open(&data).expect("opens").close().await;
    rusqlite::Connection::open(data.join("clawjob.db"))
        .and_then(|database| {
            database.execute_batch(
                "INSERT INTO refinery_schema_history VALUES (9999, 'further', '2027-01-01T00:00:00Z', '1')",
            )
        })
        .expect("a migration of a newer version");
    let store = SqliteStore::open(&data).expect("opens again");
    store.ensure_app("shop", at(0)).await.expect("an app");
}

#[tokio::test]
async fn its_directory_and_files_are_for_their_owner_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("deep/data");
    let store = SqliteStore::open(&data).expect("opens");
    store.ensure_app("shop", at(0)).await.expect("an app");
    assert_eq!(mode(&data), 0o700);
    let files: Vec<_> = data.read_dir().expect("is read").flatten().collect();
    assert!(files.len() >= 3, "database, side files and lock");
    for file in files {
        assert_eq!(mode(&file.path()), 0o600, "{}", file.path().display());
    }
}

#[tokio::test]
async fn a_directory_that_can_t_be_used_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let fault = SqliteStore::open(file.path()).err().expect("no directory");
    let StoreError::Unavailable(text) = fault else { panic!("{fault}") };
    assert!(text.contains(&file.path().display().to_string()), "{text}");
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(dir.path()).expect("opens");
    let app = store.ensure_app("shop", at(0)).await.expect("an app");
    let job = new_job(app.id, "a".to_owned());
    let job = store.create_job(&job, Box::new(|_| Vec::new()), at(0)).await.expect("a job");
    let taken = store.take_partitions("n1", &all(), at(1)).await.expect("taken");
    store.close().await;
    let store = SqliteStore::open(dir.path()).expect("opens again");
    assert_eq!(store.get_job("shop", "a").await.expect("the job"), job);
    let again = store.take_partitions("n2", &all(), at(9)).await.expect("taken");
    assert_eq!(again.len(), taken.len());
    for (before, after) in taken.iter().zip(&again) {
        assert_eq!(after.epoch, before.epoch + 1, "what the last process began is refused");
        assert_eq!(after.planned_until, before.planned_until);
    }
}

/// Operations that wait together share a transaction: one that fails takes nothing with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_operation_fails_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(dir.path()).expect("opens");
    store.create_app("taken", &AppSpec::default(), None, at(0)).await.expect("an app");
    let mut calls = JoinSet::new();
    for n in 0..100 {
        let store: Arc<SqliteStore> = store.clone();
        calls.spawn(async move {
            let name = if n % 2 == 0 { format!("app{n:03}") } else { "taken".to_owned() };
            let made = store.create_app(&name, &AppSpec::default(), None, at(1)).await;
            (n, made)
        });
    }
    for (n, made) in calls.join_all().await {
        match made {
            Ok(app) => assert_eq!((n % 2, app.name), (0, format!("app{n:03}"))),
            Err(fault) => {
                assert_eq!((n % 2, fault), (1, StoreError::AlreadyExists("apps/taken".to_owned())));
            }
        }
    }
    assert_eq!(store.list_apps("", None, 200).await.expect("apps").len(), 51);
}

/// A replan that panics is a fault of the caller; it must not end the writer for all others.
#[tokio::test]
async fn a_panic_within_an_operation_fails_that_operation_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(dir.path()).expect("opens");
    let app = store.ensure_app("shop", at(0)).await.expect("an app");
    let job = new_job(app.id, "a".to_owned());
    let made = store.create_job(&job, Box::new(|_| panic!("a replan's fault")), at(0)).await;
    assert!(matches!(made, Err(StoreError::Internal(_))), "{made:?}");
    let missing = store.get_job("shop", "a").await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "nothing of it is kept: {missing:?}");
    store.create_job(&job, Box::new(|_| Vec::new()), at(0)).await.expect("a job");
}

/// SQLite itself would go on writing into the removed files, which end with the process.
#[tokio::test]
async fn nothing_is_acknowledged_once_the_files_are_gone_or_others() {
    for file in ["clawjob.db", "clawjob.db-wal"] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(dir.path()).expect("opens");
        store.ensure_app("shop", at(0)).await.expect("an app");
        let (path, aside) = (dir.path().join(file), dir.path().join("aside"));
        for replaced in [false, true] {
            std::fs::rename(&path, &aside).expect("moved");
            if replaced {
                std::fs::write(&path, "").expect("written");
            }
            let written = store.ensure_app("other", at(1)).await;
            let Err(StoreError::Removed(text)) = written else { panic!("{file}: {written:?}") };
            assert!(text.contains(&path.display().to_string()), "{text}");
            assert!(
                store.check_storage().await.is_err() && store.check_partitions(&[]).await.is_err()
            );
            store.get_app("shop").await.expect("reads help to save what there was");
            std::fs::rename(&aside, &path).expect("moved back");
        }
        store.ensure_app("other", at(2)).await.expect("all is well again");
    }
}

#[tokio::test]
async fn a_full_disk_is_told_as_such() {
    let dir = tempfile::tempdir().expect("a directory");
    let full = rusqlite::Connection::open(dir.path().join("small.db")).expect("opens");
    full.execute_batch("PRAGMA max_page_count = 3; CREATE TABLE t (x);").expect("small");
    let big = full.execute("INSERT INTO t VALUES (zeroblob(100000))", []);
    let fault: StoreError = big.expect_err("it is full").into();
    assert!(matches!(fault, StoreError::Full(_)) && fault.passes(), "{fault}");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(dir.path()).expect("opens");
    store.close().await;
    let read = store.get_app("shop").await;
    let written = store.ensure_app("shop", at(0)).await;
    for fault in [read.err(), written.err()] {
        assert_eq!(fault, Some(StoreError::Unavailable("the store is closed".to_owned())));
    }
    store.close().await;
}
