use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use chrono::{DateTime, TimeDelta, Utc};

use super::{Fleet, Slot};
use crate::{
    hub::Contact,
    model::{
        ids::{AppId, JobId, RunId},
        run::{NewRun, OpenRun, RunState, TriggerKind},
    },
    store::cluster::{Load, SessionLoad},
};

const APP: AppId = AppId(1);

fn at(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_800_000_000_000 + ms).expect("in range")
}

fn told(row: i64, free: u32, ms: i64) -> SessionLoad {
    SessionLoad {
        executor: row,
        app: APP,
        name: format!("e{row}").into(),
        node: "other".into(),
        epoch: 1,
        at: at(ms),
        ended_at: None,
        load: Load {
            handlers: ["work".to_owned()].into(),
            slots: 4,
            free,
            takes: true,
            ..Load::default()
        },
        cordoned: false,
    }
}

/// A fleet of one other node with these sessions.
fn fleet(sessions: Vec<SessionLoad>) -> Arc<Fleet> {
    let fleet = Fleet::new(Arc::default());
    fleet.set_living(HashSet::from(["other".into()]), at(0));
    fleet.hear(sessions, true, at(0));
    fleet
}

fn slot(row: i64) -> Slot {
    Slot {
        app: APP,
        executor: format!("e{row}").into(),
        row,
        epoch: 1,
        node: Some("other".into()),
        handler: "work".to_owned(),
    }
}

fn run_on(row: i64) -> OpenRun {
    let new = NewRun {
        id: RunId::by_hand(at(0), 1),
        job: JobId(1),
        app: APP,
        revision: 1,
        trigger: TriggerKind::Api,
        fire_at: at(0),
        due_at: at(0),
        extra: None,
    };
    let executor = Some(format!("e{row}").into());
    let state = RunState::Running;
    OpenRun { executor, state, session_epoch: 1, ..OpenRun::queued(new, at(0)) }
}

/// Free slots by executor's row.
fn free(fleet: &Fleet, ms: i64) -> Vec<(i64, u32)> {
    let found = fleet.candidates(APP, "work", &BTreeMap::new(), at(ms));
    found.iter().map(|candidate| (candidate.row, candidate.free)).collect()
}

#[test]
fn what_was_sent_since_a_session_was_told_of_is_counted() {
    let fleet = fleet(vec![told(1, 3, 0), told(2, 4, 0)]);
    assert!(fleet.reserve(&slot(1), 2, at(100)));
    assert_eq!(free(&fleet, 110), [(1, 1), (2, 4)]);
    assert!(!fleet.reserve(&slot(1), 2, at(110)), "there is one");
    fleet.unreserve(&slot(1), 1);
    assert_eq!(free(&fleet, 120), [(1, 2), (2, 4)]);

    // Its node has counted what was sent.
    fleet.hear(vec![told(1, 2, 200)], false, at(210));
    assert_eq!(free(&fleet, 220), [(1, 2), (2, 4)]);
    // Word that is lost does not count against it for ever.
    assert!(fleet.reserve(&slot(2), 4, at(300)));
    assert_eq!(free(&fleet, 310), [(1, 2), (2, 0)]);
    assert_eq!(free(&fleet, 1_400), [(1, 2), (2, 4)]);
}

#[test]
fn a_slot_that_an_own_run_left_is_used_again_at_once() {
    let fleet = fleet(vec![told(1, 0, 0)]);
    assert_eq!(free(&fleet, 10), [(1, 0)]);
    fleet.freed(&run_on(1), "work", true, at(20));
    assert_eq!(free(&fleet, 30), [(1, 1)]);
    assert!(fleet.reserve(&slot(1), 1, at(30)));
    assert_eq!(free(&fleet, 40), [(1, 0)]);
    // It was never sent: as if it had not been.
    fleet.freed(&run_on(1), "work", false, at(50));
    assert_eq!(free(&fleet, 60), [(1, 1)]);
}

#[test]
fn runs_are_lent_to_a_busy_executor_ever_more_seldom() {
    let fleet = fleet(vec![told(1, 0, 0)]);
    let mut lent = Vec::new();
    for second in 0..20 {
        let now = at(second * 1_000);
        if fleet.may_wait(APP, 1, now) && fleet.reserve(&slot(1), 1, now) {
            lent.push(second);
        }
    }
    assert_eq!(lent, [0, 1, 3, 7, 15]);
    fleet.freed(&run_on(1), "work", true, at(30_000));
    assert!(fleet.may_wait(APP, 1, at(32_000)));
}

#[test]
fn only_what_a_session_can_take_is_offered() {
    let mut paused = told(2, 4, 0);
    paused.load.rooms.insert("work".to_owned(), None);
    let mut bounded = told(3, 4, 0);
    bounded.load.rooms.insert("work".to_owned(), Some(1));
    let cordoned = SessionLoad { cordoned: true, ..told(4, 4, 0) };
    let mut leaving = told(5, 4, 0);
    leaving.load.takes = false;
    let ended = SessionLoad { ended_at: Some(at(0)), ..told(6, 4, 0) };
    let fleet = fleet(vec![told(1, 4, 0), paused, bounded, cordoned, leaving, ended]);
    assert_eq!(free(&fleet, 10), [(1, 4), (3, 1)]);
    let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
    assert_eq!(fleet.candidates(APP, "work", &labels, at(10)), []);
    assert_eq!(fleet.hindrance(APP, "e4", "work", &BTreeMap::new()), Some("is cordoned"));
}

#[test]
fn executors_of_a_node_that_died_are_away_since_then() {
    let fleet = fleet(vec![told(1, 4, 0)]);
    assert_eq!(fleet.contact(APP, "e1"), Contact::Connected { epoch: 1 });
    assert_eq!(fleet.contact(APP, "nobody"), Contact::Unknown);
    let (changed, dead) = fleet.set_living(HashSet::new(), at(5_000));
    assert_eq!((changed, dead.len()), (true, 1));
    assert_eq!(fleet.contact(APP, "e1"), Contact::Since(at(5_000)));
    assert_eq!(free(&fleet, 5_010), []);
    assert!(fleet.is_alone());
    // It was only frozen.
    fleet.set_living(HashSet::from(["other".into()]), at(9_000));
    assert_eq!(fleet.contact(APP, "e1"), Contact::Connected { epoch: 1 });
    assert!(fleet.is_fresh(at(9_100)) && !fleet.is_fresh(at(9_000) + TimeDelta::seconds(6)));
}

#[test]
fn a_session_that_is_not_told_of_any_more_is_forgotten() {
    let fleet = fleet(vec![told(1, 4, 0), told(2, 4, 0)]);
    fleet.hear(vec![told(2, 3, 10)], true, at(20));
    assert_eq!(free(&fleet, 30), [(2, 3)]);
    fleet.forget(&[told(2, 3, 10)]);
    assert_eq!(free(&fleet, 40), [], "it is connected to this node now");
}
