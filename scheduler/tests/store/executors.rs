//! Executors: whose session is the current one, and what it goes on with.

use clawjob_scheduler::{
    model::{
        executor::{Executor, ExecutorSpec},
        ids::RunId,
        run::RunState,
    },
    store::{
        StoreError,
        ops::{Claim, Claimed, ExecutorQuery, FORGOTTEN_MAX},
    },
};

use super::fixture::{Fixture, at, ending, on};

/// A claim of process `instance` for executor `e1`, made at a time when whoever was seen within the
/// last ten seconds is alive.
fn claim(f: &Fixture, instance: &str, resume: &[u8], now: i64) -> Claim {
    Claim {
        app: f.app.id,
        name: "e1".to_owned(),
        spec: ExecutorSpec { slots: 4, ..ExecutorSpec::default() },
        instance_id: instance.to_owned(),
        resume_hash: resume.to_vec(),
        fresh_resume_hash: vec![u8::try_from(now % 200).expect("small"); 32],
        principal: "tokens/t1".to_owned(),
        node: "n1".to_owned(),
        peer_address: "10.0.0.7:5000".to_owned(),
        alive_since: at(now - 10),
        may_hold: None,
    }
}

async fn claimed(f: &Fixture, instance: &str, resume: &[u8], now: i64) -> Claimed {
    let claim = claim(f, instance, resume, now);
    f.store.claim_executor(&claim, at(now)).await.expect("claimed")
}

pub(crate) async fn a_first_claim_makes_the_executor(f: &Fixture) {
    let first = claimed(f, "p1", &[], 1).await;
    assert_eq!((first.resumed, first.replaced, first.attempts.len()), (false, false, 0));
    let row = &first.executor;
    assert_eq!((row.session_epoch, row.node.as_str(), row.spec.slots), (1, "n1", 4));
    assert_eq!((row.name.as_str(), row.app_name.as_str(), row.app), ("e1", "shop", f.app.id));
    assert_eq!((row.connected_at, row.disconnected_at, row.left), (at(1), None, false));
    assert_eq!(row.resume_hash, vec![1; 32]);
    assert_eq!(&f.store.get_executor(f.app.id, "e1").await.expect("found"), row);
}

pub(crate) async fn the_same_process_goes_on_with_its_attempts(f: &Fixture) {
    let first = claimed(f, "p1", &[], 1).await;
    let running = f.run_in("a", RunState::Running).await;
    f.run_in("b", RunState::Queued).await;
    f.run_in("c", RunState::RetryWait).await;
    let again = claimed(f, "p1", &first.executor.resume_hash, 2).await;
    assert_eq!((again.resumed, again.replaced), (true, false));
    assert_eq!(again.executor.session_epoch, 2);
    assert_eq!(again.executor.row, first.executor.row);
    assert_eq!(again.executor.resume_hash, first.executor.resume_hash);
    let attempts: Vec<_> = again.attempts.iter().map(|run| run.attempt_ref()).collect();
    assert_eq!(attempts, [running]);
}

pub(crate) async fn a_process_whose_welcome_was_lost_is_still_itself(f: &Fixture) {
    claimed(f, "p1", &[], 1).await;
    let again = claimed(f, "p1", &[], 2).await;
    assert!(again.resumed && !again.replaced);
    assert_eq!(again.executor.resume_hash, vec![2; 32]);
}

pub(crate) async fn c57_a_process_that_renewed_its_credential_goes_on_by_its_resume_token(
    f: &Fixture,
) {
    let first = claimed(f, "p1", &[], 1).await.executor;
    let running = f.run_in("a", RunState::Running).await;
    let renewed = |resume: &[u8], now| Claim {
        principal: "tokens/t2".to_owned(),
        ..claim(f, "p1", resume, now)
    };
    // Without the token it is any process that knows the name of the first.
    let unproven = f.store.claim_executor(&renewed(&[], 2), at(2)).await;
    assert!(matches!(unproven, Err(StoreError::Conflict(_))), "{unproven:?}");
    let again = f.store.claim_executor(&renewed(&first.resume_hash, 3), at(3)).await;
    let again = again.expect("claimed");
    assert_eq!((again.resumed, again.replaced), (true, false));
    assert_eq!((again.executor.session_epoch, &*again.executor.principal), (2, "tokens/t2"));
    assert_eq!(again.attempts.iter().map(|run| run.id).collect::<Vec<_>>(), [running.run]);
}

pub(crate) async fn a_claim_that_knows_its_runs_finds_the_same_as_one_that_looks(f: &Fixture) {
    let first = claimed(f, "p1", &[], 1).await.executor;
    let running = f.run_in("a", RunState::Running).await;
    let queued = f.run_in("b", RunState::Queued).await;
    let ended = RunId::by_hand(at(0), 7);
    let knowing = Claim {
        may_hold: Some(vec![ended, queued.run, running.run]),
        ..claim(f, "p1", &first.resume_hash, 2)
    };
    let found = f.store.claim_executor(&knowing, at(2)).await.expect("claimed");
    assert_eq!(found.attempts, claimed(f, "p1", &first.resume_hash, 3).await.attempts);
    assert_eq!(found.attempts.iter().map(|run| run.id).collect::<Vec<_>>(), [running.run]);
    let nothing = Claim { may_hold: Some(Vec::new()), ..claim(f, "p1", &first.resume_hash, 4) };
    assert_eq!(f.store.claim_executor(&nothing, at(4)).await.expect("claimed").attempts, []);
}

pub(crate) async fn another_process_is_refused_while_the_first_is_alive(f: &Fixture) {
    let first = claimed(f, "p1", &[], 1).await;
    let other = f.store.claim_executor(&claim(f, "p2", &[], 5), at(5)).await;
    assert!(matches!(other, Err(StoreError::Conflict(_))), "{other:?}");
    // A resume token that is not the process's makes it another one, too.
    let forged = f.store.claim_executor(&claim(f, "p1", &[9; 32], 5), at(5)).await;
    assert!(matches!(forged, Err(StoreError::Conflict(_))), "{forged:?}");
    assert_eq!(f.store.get_executor(f.app.id, "e1").await.expect("found"), first.executor);
}

pub(crate) async fn a_process_that_is_silent_is_replaced(f: &Fixture) {
    claimed(f, "p1", &[], 1).await;
    let running = f.run_in("a", RunState::Running).await;
    let other = claimed(f, "p2", &[], 30).await;
    assert!(other.replaced && !other.resumed);
    assert_eq!(other.executor.instance_id, "p2");
    assert_eq!(other.attempts.iter().map(|run| run.id).collect::<Vec<_>>(), [running.run]);
}

pub(crate) async fn a_process_that_left_makes_room_at_once(f: &Fixture) {
    let first = claimed(f, "p1", &[], 1).await.executor;
    f.store.end_session(first.row, first.session_epoch, true, at(2)).await.expect("ended");
    let gone = f.store.get_executor(f.app.id, "e1").await.expect("found");
    assert_eq!((gone.disconnected_at, gone.left, gone.node.as_str()), (Some(at(2)), true, ""));
    let other = claimed(f, "p2", &[], 3).await;
    assert!(other.replaced);
    assert_eq!((other.executor.disconnected_at, other.executor.left), (None, false));
}

pub(crate) async fn what_an_older_session_says_changes_nothing(f: &Fixture) {
    let first = claimed(f, "p1", &[], 1).await.executor;
    let second = claimed(f, "p1", &first.resume_hash, 2).await.executor;
    f.store.touch_executors(&[(first.row, first.session_epoch)], at(50)).await.expect("no error");
    f.store.end_session(first.row, first.session_epoch, true, at(50)).await.expect("no error");
    assert_eq!(f.store.get_executor(f.app.id, "e1").await.expect("found"), second);
    f.store.touch_executors(&[(second.row, second.session_epoch)], at(51)).await.expect("touched");
    let seen = f.store.get_executor(f.app.id, "e1").await.expect("found").last_seen_at;
    assert_eq!(seen, at(51));
}

pub(crate) async fn the_first_end_of_a_session_counts(f: &Fixture) {
    let first = claimed(f, "p1", &[], 1).await.executor;
    f.store.end_session(first.row, first.session_epoch, false, at(5)).await.expect("ended");
    f.store.end_session(first.row, first.session_epoch, true, at(9)).await.expect("ended");
    let row = f.store.get_executor(f.app.id, "e1").await.expect("found");
    assert_eq!((row.disconnected_at, row.left), (Some(at(5)), true));
}

pub(crate) async fn a_node_that_starts_ends_the_sessions_it_held(f: &Fixture) {
    claimed(f, "p1", &[], 1).await;
    assert_eq!(f.store.end_sessions_of("n1", at(7)).await.expect("ended"), 1);
    let row = f.store.get_executor(f.app.id, "e1").await.expect("found");
    assert_eq!((row.disconnected_at, row.left), (Some(at(7)), false));
    assert_eq!(f.store.end_sessions_of("n1", at(8)).await.expect("none left"), 0);
}

pub(crate) async fn executors_are_listed_by_app_and_name(f: &Fixture) {
    let bank = f.store.ensure_app("bank", at(1)).await.expect("an app");
    for (app, name) in [(f.app.id, "b"), (f.app.id, "a"), (bank.id, "z")] {
        let claim = Claim { app, name: name.to_owned(), ..claim(f, "p", &[], 1) };
        f.store.claim_executor(&claim, at(1)).await.expect("claimed");
    }
    let names = async |query: ExecutorQuery| -> Vec<String> {
        let page = f.store.list_executors(&query).await.expect("executors");
        page.into_iter().map(|row| format!("{}/{}", row.app_name, row.name)).collect()
    };
    let all = ExecutorQuery { limit: 10, ..ExecutorQuery::default() };
    assert_eq!(names(all.clone()).await, ["bank/z", "shop/a", "shop/b"]);
    let page = ExecutorQuery { limit: 1, ..all.clone() };
    assert_eq!(names(page).await, ["bank/z"]);
    let after = Some(("shop".to_owned(), "a".to_owned()));
    assert_eq!(names(ExecutorQuery { after, ..all.clone() }).await, ["shop/b"]);
    let apps = Some(vec![bank.id]);
    assert_eq!(names(ExecutorQuery { apps, ..all.clone() }).await, ["bank/z"]);
    let out = ExecutorQuery { out_of_contact: true, ..all };
    assert_eq!(names(out.clone()).await, [""; 0]);
    for (name, left) in [("a", false), ("b", true)] {
        let row = f.store.get_executor(f.app.id, name).await.expect("found");
        f.store.end_session(row.row, row.session_epoch, left, at(2)).await.expect("ended");
    }
    assert_eq!(names(out).await, ["shop/a"]);
}

pub(crate) async fn a_cordon_is_set_and_cleared_and_outlives_sessions(f: &Fixture) {
    let cordon = async |reason| -> Executor {
        f.store.cordon_executor(f.app.id, "e1", reason).await.expect("cordoned")
    };
    let missing = f.store.cordon_executor(f.app.id, "e1", Some("x")).await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
    let first = claimed(f, "p1", &[], 1).await.executor;
    let row = cordon(Some("disk")).await;
    assert_eq!((row.cordoned, row.cordon_reason.as_str()), (true, "disk"));
    let again = claimed(f, "p1", &first.resume_hash, 2).await.executor;
    assert_eq!((again.cordoned, again.cordon_reason.as_str()), (true, "disk"));
    let row = cordon(None).await;
    assert_eq!((row.cordoned, row.cordon_reason.as_str()), (false, ""));
}

pub(crate) async fn an_executor_is_forgotten_once_nothing_refers_to_it(f: &Fixture) {
    let first = claimed(f, "p1", &[], 1).await.executor;
    let connected = f.store.delete_executor(f.app.id, "e1").await;
    assert!(matches!(connected, Err(StoreError::Conflict(_))), "{connected:?}");
    let running = f.run_in("a", RunState::Running).await;
    f.store.end_session(first.row, first.session_epoch, false, at(20)).await.expect("ended");
    let busy = f.store.delete_executor(f.app.id, "e1").await;
    assert!(matches!(busy, Err(StoreError::Conflict(_))), "{busy:?}");
    f.store.end_runs(&[ending(running, RunState::Lost)], at(21)).await.expect("ended");
    f.store.delete_executor(f.app.id, "e1").await.expect("forgotten");
    let gone = f.store.get_executor(f.app.id, "e1").await;
    assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
}

pub(crate) async fn an_app_that_has_all_its_executors_forgets_those_gone_for_longest(f: &Fixture) {
    const HOUR: i64 = 3600;
    let executor = async |name: &str| {
        let claim = Claim { name: name.to_owned(), ..claim(f, "p", &[], 1) };
        f.store.claim_executor(&claim, at(1)).await.expect("claimed").executor
    };
    let names = ["busy", "connected", "cordoned", "first", "second", "third"];
    let room = async |max, now| f.store.room_for_executors(f.app.id, max, at(now)).await;
    for (name, gone_at) in names.into_iter().zip([2, 0, 2, 10, 20, 30]) {
        let row = executor(name).await;
        if gone_at > 0 {
            f.store
                .end_session(row.row, row.session_epoch, false, at(gone_at))
                .await
                .expect("ended");
        }
    }
    f.store.cordon_executor(f.app.id, "cordoned", Some("why")).await.expect("cordoned");
    let run = f.run_in("a", RunState::Queued).await;
    f.store.dispatch(&on("busy", run), at(11)).await.expect("sent");
    assert_eq!(room(8, HOUR + 100).await.expect("counted"), 2);
    // None is gone for an hour yet.
    assert_eq!(room(6, HOUR).await.expect("counted"), 0);
    assert_eq!(room(6, HOUR + 25).await.expect("counted"), 2);
    let query = ExecutorQuery { apps: None, out_of_contact: false, after: None, limit: 10 };
    let known = f.store.list_executors(&query).await.expect("listed");
    let known: Vec<&str> = known.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(known, ["busy", "connected", "cordoned", "third"]);
    assert_eq!(room(4, 2 * HOUR).await.expect("counted"), 1);
    assert_eq!(room(3, 2 * HOUR).await.expect("counted"), 0, "the others may not be forgotten");

    for n in 0..=FORGOTTEN_MAX {
        let row = executor(&format!("n{n}")).await;
        f.store.end_session(row.row, row.session_epoch, true, at(50)).await.expect("ended");
    }
    let max = 3 + 1 + FORGOTTEN_MAX;
    assert_eq!(room(max, 2 * HOUR).await.expect("counted"), FORGOTTEN_MAX, "some at a time");
}
