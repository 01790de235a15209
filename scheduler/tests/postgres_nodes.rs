//! Several stores on one Postgres, as several nodes use it: who is seen, what is handed over, and
//! what each is told of the others' sessions.

#![allow(clippy::disallowed_methods, reason = "a real server is waited for in real time")]

#[path = "support/postgres.rs"]
mod server;
#[path = "support/stores.rs"]
mod stores;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use chrono::Utc;
use clawjob_scheduler::{
    model::{
        executor::ExecutorSpec,
        ids::{AppId, AttemptRef, PARTITION_COUNT, PartitionId, RunId},
        run::{NewRun, TriggerKind},
    },
    node::Ownership,
    store::{
        ClusterStore as _, PermitStore as _, Store as _, StoreError,
        cluster::{Hand, Load, SessionLoad},
        ops::*,
        permits::{Limit, Permit},
        postgres::PostgresStore,
    },
};
use stores::{all, at, job, open, until};

/// Two stores, each with its node's row.
async fn two(schema: &server::Schema) -> [Arc<PostgresStore>; 2] {
    let stores = [open(schema).await, open(schema).await];
    for (store, id) in stores.iter().zip(["n1", "n2"]) {
        let node = NodeRow {
            id: id.to_owned(),
            version: "1".to_owned(),
            advertise_address: format!("http://{id}"),
            draining: false,
            gone: false,
            started_at: at(0),
            last_seen_at: Utc::now(),
            sessions: 3,
            partitions: Vec::new(),
            clock_offset_us: 0,
            lag: Duration::ZERO,
            database_latency: Duration::ZERO,
        };
        store.put_node(&node).await.expect("a row");
    }
    stores
}

async fn owners(store: &PostgresStore) -> u32 {
    store.survey().await.expect("a survey").owners
}

async fn peers(store: &PostgresStore) -> BTreeSet<String> {
    store.peers().await.expect("peers").into_iter().map(|peer| peer.id).collect()
}

/// A run by hand of a job of its own.
async fn run(store: &PostgresStore, name: &str) -> RunId {
    let job = job(store, name).await;
    let run = NewRun {
        id: RunId::by_hand(at(1), rand::random()),
        job: job.id,
        app: job.app,
        revision: job.revision,
        trigger: TriggerKind::Api,
        fire_at: at(1),
        due_at: at(1),
        extra: None,
    };
    store.create_run(&run, None, at(1)).await.expect("a run")
}

async fn executor(store: &PostgresStore, name: &str, node: &str) -> SessionLoad {
    let app = store.ensure_app("shop", at(0)).await.expect("an app");
    let claim = Claim {
        app: app.id,
        name: name.to_owned(),
        spec: ExecutorSpec { slots: 4, ..ExecutorSpec::default() },
        instance_id: name.to_owned(),
        resume_hash: Vec::new(),
        fresh_resume_hash: vec![7; 32],
        principal: "tokens/t".to_owned(),
        node: node.to_owned(),
        peer_address: String::new(),
        alive_since: at(0),
        may_hold: None,
    };
    let row = store.claim_executor(&claim, at(1)).await.expect("claimed").executor;
    SessionLoad {
        executor: row.row,
        app: AppId(row.app.0),
        name: name.into(),
        node: node.into(),
        epoch: row.session_epoch,
        at: at(0),
        ended_at: None,
        load: Load { slots: 4, free: 3, takes: true, ..Load::default() },
        cordoned: false,
    }
}

#[tokio::test]
async fn those_who_want_a_share_are_counted_and_those_who_live_are_named() {
    let schema = server::Schema::create().await;
    let [one, two] = two(&schema).await;
    assert_eq!(peers(&one).await, BTreeSet::new(), "nobody took part yet");
    assert_eq!(owners(&one).await, 1);
    assert_eq!(owners(&two).await, 2);
    assert_eq!(peers(&one).await, BTreeSet::from(["n1".to_owned(), "n2".to_owned()]));
    one.take_partitions("n1", &all()[..10], at(0)).await.expect("taken");
    assert_eq!(two.survey().await.expect("a survey").locked, all()[..10]);

    two.resign().await.expect("resigned");
    assert_eq!(owners(&one).await, 1);
    assert_eq!(owners(&two).await, 1, "it asks and does not count");
    assert_eq!(peers(&one).await.len(), 2, "it still lives");
    two.close().await;
    until(async || (peers(&one).await.len() == 1).then_some(())).await;
    one.close().await;
}

#[tokio::test]
async fn a_cluster_in_the_same_database_is_not_counted() {
    let (here, there) = (server::Schema::create().await, server::Schema::create().await);
    let ([one, _], [other, _]) = (two(&here).await, two(&there).await);
    assert_eq!((owners(&one).await, owners(&other).await), (1, 1));
    assert_eq!(peers(&one).await.len(), 1);
    one.close().await;
    other.close().await;
}

#[tokio::test]
async fn a_takeover_that_fails_half_way_leaves_no_partition_held() {
    let schema = server::Schema::create().await;
    let stores = two(&schema).await;
    let database = schema.connect().await;
    let mut owner = Ownership::new(stores[0].clone(), Arc::default(), "n1".to_owned());

    database.batch_execute("ALTER TABLE open_run RENAME TO away").await.expect("renamed");
    owner.take(&all(), at(0)).await.expect_err("its runs can't be read");
    owner.give_up().await;
    database.batch_execute("ALTER TABLE away RENAME TO open_run").await.expect("renamed");

    let survey = stores[0].survey().await.expect("a survey");
    assert_eq!(survey.locked, [], "nobody holds what nobody serves");
    let half = &all()[..usize::from(PARTITION_COUNT) / 2];
    assert_eq!(owner.take(half, at(1)).await.expect("it is well again"), half.len());
    let others = stores[1].take_partitions("n2", &all(), at(1)).await.expect("the rest");
    assert_eq!(others.len(), usize::from(PARTITION_COUNT) - half.len());
}

#[tokio::test]
async fn runs_are_handed_to_the_node_they_name_once_and_in_order() {
    let schema = server::Schema::create().await;
    let [one, two] = two(&schema).await;
    let runs = [run(&one, "a").await, run(&one, "b").await, run(&one, "c").await];
    let hand = |run, again| {
        let attempt = AttemptRef { run, attempt: 1, fence: 0 };
        Hand { node: "n2".into(), attempt, again }
    };
    let gone = RunId::by_hand(at(1), 7);
    let hands =
        [hand(runs[1], false), hand(gone, false), hand(runs[0], true), hand(runs[2], false)];
    one.hand_over(&hands).await.expect("handed over");
    assert_eq!(one.take_handed("n1").await.expect("nothing"), []);
    let taken = two.take_handed("n2").await.expect("runs");
    let taken: Vec<_> = taken.iter().map(|handed| (handed.run.id, handed.again)).collect();
    assert_eq!(taken, [(runs[1], false), (runs[0], true), (runs[2], false)]);
    assert_eq!(two.take_handed("n2").await.expect("nothing"), []);
    one.hand_over(&[hand(runs[0], false)]).await.expect("handed over");
    one.end_sessions_of("n2", at(5)).await.expect("it died");
    assert_eq!(two.take_handed("n2").await.expect("nothing"), [], "nobody will take it");
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn sessions_are_told_of_and_the_newest_epoch_stands() {
    let schema = server::Schema::create().await;
    let [one, two] = two(&schema).await;
    let first = executor(&one, "e1", "n1").await;
    one.publish_sessions(std::slice::from_ref(&first)).await.expect("told");
    let told = two.read_sessions(None).await.expect("sessions");
    assert_eq!(told.len(), 1);
    let expected = SessionLoad { at: told[0].at, ..first.clone() };
    assert_eq!(told[0], expected);
    let since = Some(told[0].at);
    assert_eq!(two.read_sessions(since).await.expect("nothing new"), []);

    // It came back at the other node; the first one's late word changes nothing.
    let second = executor(&two, "e1", "n2").await;
    two.publish_sessions(std::slice::from_ref(&second)).await.expect("told");
    let late = SessionLoad { ended_at: Some(at(9)), ..first };
    one.publish_sessions(&[late]).await.expect("told");
    let told = one.read_sessions(since).await.expect("sessions");
    assert_eq!(told.len(), 1);
    assert_eq!((&*told[0].node, told[0].epoch, told[0].ended_at), ("n2", 2, None));

    // A cordon is a change for all who read.
    let since = Some(told[0].at);
    one.cordon_executor(second.app, "e1", Some("why")).await.expect("cordoned");
    let told = two.read_sessions(since).await.expect("sessions");
    assert!(told.len() == 1 && told[0].cordoned, "{told:?}");
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn an_owner_finds_what_another_node_changed_in_its_inbox() {
    let schema = server::Schema::create().await;
    let [one, two] = two(&schema).await;
    one.take_partitions("n1", &all(), at(0)).await.expect("taken");
    let (open, other) = (run(&two, "a").await, run(&two, "b").await);
    let inbox = async || one.take_inbox(&all()).await.expect("an inbox").ids;
    assert_eq!(inbox().await.len(), 2, "as they were made");
    let unknown = RunId::by_hand(at(1), 9);
    let told = [(open, None), (other, Some(PartitionId(3))), (unknown, None)];
    two.tell_owners(&told).await.expect("told");
    let mut ids = inbox().await;
    ids.sort_unstable();
    let mut expected = vec![open, other];
    expected.sort_unstable();
    assert_eq!(ids, expected);
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn sessions_of_a_node_that_was_taken_for_dead_are_back_with_its_next_sign_of_life() {
    let schema = server::Schema::create().await;
    let [one, two] = two(&schema).await;
    let session = executor(&two, "e1", "n2").await;
    assert_eq!(one.end_sessions_of("n2", at(5)).await.expect("ended"), 1);
    let row = async || one.get_executor(session.app, "e1").await.expect("found");
    assert_eq!(row().await.disconnected_at, Some(at(5)));
    two.touch_executors(&[(session.executor, session.epoch)], at(9)).await.expect("touched");
    assert_eq!((row().await.disconnected_at, row().await.last_seen_at), (None, at(9)));

    // One that ended stays ended, whatever sign of life was on its way.
    two.end_session(session.executor, session.epoch, false, at(10)).await.expect("ended");
    two.touch_executors(&[(session.executor, session.epoch)], at(11)).await.expect("touched");
    assert_eq!(row().await.disconnected_at, Some(at(10)));
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn a_node_is_asked_to_drain_by_its_name() {
    let schema = server::Schema::create().await;
    let [one, two] = two(&schema).await;
    owners(&two).await;
    one.ask_to_drain("n2").await.expect("asked");
    let seen = two.peers().await.expect("peers");
    assert!(seen.len() == 1 && seen[0].drain_asked, "{seen:?}");
    let unknown = one.ask_to_drain("nobody").await;
    assert!(matches!(unknown, Err(StoreError::NotFound(_))), "{unknown:?}");
    one.close().await;
    two.close().await;
}

/// A run that is not there, in a partition, with its place in the order.
fn permit(partition: u16, place: i64) -> Permit {
    Permit {
        run: RunId::by_hand(at(place), rand::random()),
        app: AppId(1),
        handler: "work".to_owned(),
        partition: PartitionId(partition),
        place: at(place),
    }
}

fn ids(permits: &[Permit]) -> Vec<RunId> {
    permits.iter().map(|permit| permit.run).collect()
}

#[tokio::test]
async fn permits_never_exceed_a_limit_over_owners_and_changes_of_hands() {
    let schema = server::Schema::create().await;
    let [one, two] = two(&schema).await;
    let limits = [Limit { app: AppId(1), handler: String::new(), max: 2 }];
    let ask = async |store: &PostgresStore, asked: &[Permit], now| {
        store.ask_permits(asked, &limits, at(now)).await.expect("an answer")
    };
    one.take_partitions("n1", &all()[..32], at(0)).await.expect("taken");
    two.take_partitions("n2", &all()[32..], at(0)).await.expect("taken");
    let (mine, theirs) = ([permit(1, 1), permit(2, 3)], [permit(40, 2), permit(41, 4)]);
    one.count_permits(&[], at(1)).await.expect("counted");
    assert_eq!(ask(&one, &mine, 1).await, [], "not all partitions are counted");
    two.count_permits(&theirs[1..], at(1)).await.expect("counted");

    // One place is left, for whoever is first in the order.
    assert_eq!(ask(&two, &theirs[..1], 2).await, ids(&theirs[..1]));
    assert_eq!(ask(&one, &mine, 2).await, []);
    two.return_permits(&ids(&theirs)).await.expect("given back");
    let later = [permit(50, 9)];
    assert_eq!(ask(&two, &later, 3).await, [], "those of the other owner wait for longer");
    assert_eq!(ask(&one, &mine, 3).await, ids(&mine));
    assert_eq!(ask(&two, &later, 3).await, []);

    // The first owner dies: what it had under way counts all the same, until the next one knows.
    one.close().await;
    let taken = until(async || {
        let taken = two.take_partitions("n2", &all(), at(4)).await.expect("an answer");
        (!taken.is_empty()).then_some(taken)
    })
    .await;
    assert_eq!(taken.len(), 32);
    assert_eq!(ask(&two, &later, 4).await, [], "the new partitions are not counted");
    two.count_permits(&mine[..1], at(5)).await.expect("counted");
    assert_eq!(ask(&two, &later, 5).await, ids(&later), "the other one had ended");
    two.close().await;
}

#[tokio::test]
async fn who_waits_and_is_not_heard_of_any_more_loses_the_turn() {
    let schema = server::Schema::create().await;
    let [one, two] = two(&schema).await;
    let limits = [Limit { app: AppId(1), handler: "work".to_owned(), max: 1 }];
    one.take_partitions("n1", &all()[..32], at(0)).await.expect("taken");
    two.take_partitions("n2", &all()[32..], at(0)).await.expect("taken");
    let (first, second, third) = (permit(1, 1), permit(2, 2), permit(40, 3));
    one.count_permits(std::slice::from_ref(&first), at(1)).await.expect("counted");
    two.count_permits(&[], at(1)).await.expect("counted");
    let ask = async |store: &PostgresStore, asked: &Permit, now| {
        let asked = std::slice::from_ref(asked);
        store.ask_permits(asked, &limits, at(now)).await.expect("an answer")
    };
    assert_eq!(ask(&one, &second, 2).await, []);
    one.return_permits(&[first.run]).await.expect("given back");
    assert_eq!(ask(&two, &third, 4).await, [], "the second one comes before");
    assert_eq!(ask(&two, &third, 6).await, [third.run], "it did not come for 3 s");
    one.close().await;
    two.close().await;
}
