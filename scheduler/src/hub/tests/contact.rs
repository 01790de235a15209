//! Signs of life, silence, ends.

use clawjob_proto::v1::{
    HeartbeatAck, Hello, SessionRequest, SessionResponse, close, session_request::Frame as Up,
};

use super::*;
use crate::{
    hub::{
        Contact, Kill, Presence, Refused,
        event::channel,
        live::LiveState,
        outbox::{Outbox, OutboxStream, Pushed},
        session::End,
        settings::{
            Cluster, EVENT_QUEUE_KIB_MAX, SESSION_SEND_QUEUE_HARD_MAX, SESSION_SEND_QUEUE_MAX,
            VOUCHED_FOR,
        },
    },
    model::run::KillReason,
};

#[test]
fn f1_every_heartbeat_is_answered_at_once() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    executor.heartbeat();
    executor.heartbeat();
    assert_eq!(acks(&mut executor), [1, 2]);
}

fn acks(executor: &mut LocalExecutor) -> Vec<u64> {
    let frames = executor.receive();
    let ack = |frame: &Down| match frame {
        Down::HeartbeatAck(ack) => ack.seq,
        other => panic!("wanted acks, got {other:?}"),
    };
    frames.iter().map(ack).collect()
}

#[test]
fn a_heartbeat_that_the_cluster_can_not_know_of_is_not_acknowledged_as_contact() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    let seen = || world.hub.settings().cluster.write().seen_at = Some(world.clock.elapsed());
    seen();
    world.pass(VOUCHED_FOR);
    executor.heartbeat();
    assert_eq!(acks(&mut executor), [1], "it was seen just now");
    world.pass(seconds(1));
    executor.heartbeat();
    assert_eq!(acks(&mut executor), [1], "the connection lives, and no more");
    seen();
    executor.heartbeat();
    assert_eq!(acks(&mut executor), [3]);
}

#[test]
fn a_node_that_no_word_of_the_cluster_has_reached_yet_vouches_no_longer_than_one_that_was_seen() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    let cluster = || world.hub.settings().cluster.write();
    *cluster() = Cluster::joining(world.clock.elapsed());
    world.pass(VOUCHED_FOR);
    executor.heartbeat();
    assert_eq!(acks(&mut executor), [1]);
    cluster().answered(world.clock.elapsed(), false);
    world.pass(seconds(1));
    executor.heartbeat();
    assert_eq!(acks(&mut executor), [1], "others may be named that do not know of it");
    cluster().answered(world.clock.elapsed(), true);
    executor.heartbeat();
    assert_eq!(acks(&mut executor), [3]);
}

#[test]
fn a_node_that_the_others_go_on_without_asks_its_executors_to_move_until_it_is_seen() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    let seen = |has_others| {
        let seen_at = Some(world.clock.elapsed());
        let peer_endpoints = vec!["http://other".to_owned()];
        *world.hub.settings().cluster.write() =
            Cluster { peer_endpoints, has_others, seen_at, answered_at: seen_at };
    };
    let mut pass = |time| {
        world.pass(time);
        executor.heartbeat();
        let frames = executor.receive().into_iter();
        frames.filter(|frame| !matches!(frame, Down::HeartbeatAck(_))).collect::<Vec<_>>()
    };
    seen(false);
    assert!(pass(seconds(6)).is_empty(), "who is alone keeps them");
    seen(true);
    assert!(pass(seconds(4)).is_empty());
    assert_eq!(world.free("a"), Some(4));
    let frames = pass(seconds(1));
    let [Down::Drain(drain)] = &frames[..] else { panic!("not asked to move: {frames:?}") };
    assert_eq!(drain.peer_endpoints, ["http://other"]);
    assert!(world.candidates().is_empty(), "no new run is sent to it");
    assert_eq!(world.hub.admit(), Err(Refused::Unseen), "nobody moves here");
    for _ in 0..100 {
        assert!(pass(seconds(3)).is_empty(), "it stays until another node takes it");
    }
    world.hub.settings().cluster.write().has_others = false;
    assert!(pass(seconds(1)).is_empty());
    assert!(world.candidates().is_empty(), "the others only flicker");
    seen(true);
    assert!(pass(seconds(1)).is_empty());
    assert_eq!(world.free("a"), Some(4));
    assert_eq!(world.hub.admit(), Ok(Duration::ZERO));
}

#[test]
fn a_node_that_is_alone_takes_sessions_while_its_database_answers() {
    let world = World::new();
    let cluster = || world.hub.settings().cluster.write();
    cluster().answered(world.clock.elapsed(), true);
    for _ in 0..4 {
        cluster().answered(world.clock.elapsed(), false);
        world.pass(seconds(4));
        assert_eq!(world.hub.admit(), Ok(Duration::ZERO), "though it can't hold its locks");
    }
    world.pass(seconds(1));
    assert_eq!(world.hub.admit(), Err(Refused::Unseen));
}

#[test]
fn a_node_whose_database_is_its_own_takes_sessions_however_late_it_looks_there() {
    let world = World::new();
    world.hub.settings().cluster.write().answered(world.clock.elapsed(), false);
    world.pass(seconds(60));
    assert_eq!(world.hub.admit(), Ok(Duration::ZERO));
}

#[test]
fn r34_a_silent_executor_is_suspect_within_7_s_and_closed_within_14() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    world.pass(seconds(6));
    let state = |world: &World| world.hub.snapshot(APP, "a").map(|live| live.state);
    assert_eq!(state(&world), Some(LiveState::Online));
    world.pass(seconds(1));
    assert_eq!(state(&world), Some(LiveState::Suspect));
    assert!(world.candidates().is_empty(), "x26 no new run is sent to it");
    assert_eq!(world.hub.contact(APP, "a"), Contact::Connected { epoch: 1 });
    executor.heartbeat();
    assert_eq!(state(&world), Some(LiveState::Online));
    assert_eq!(world.free("a"), Some(4));
    let heard = world.now();
    world.pass(seconds(14));
    assert!(matches!(executor.link().end(), Some(End::Unresponsive(_))));
    assert_eq!(world.hub.contact(APP, "a"), Contact::Since(heard), "from its last sign of life");
}

#[test]
fn what_this_side_does_not_read_is_not_held_against_the_executor() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    executor.heartbeat();
    executor.receive();
    let link = executor.link().clone();
    world.hub.stall(&link, true);
    for _ in 0..20 {
        world.pass(seconds(3));
        assert!(matches!(executor.receive()[..], [Down::HeartbeatAck(_)]), "it hears this side");
    }
    assert_eq!(link.end(), None);
    world.hub.stall(&link, false);
    world.pass(seconds(6));
    assert_eq!(world.free("a"), Some(4), "silence counts from when reading began again");
}

#[test]
fn an_answer_that_this_side_does_not_read_is_not_overdue() {
    let mut world = World::new();
    let mut executor = world.connect("a", 4);
    let killed = attempt(1);
    world.start(&mut executor, killed);
    let sent = world.send(&mut executor, attempt(2));
    let grace = seconds(10);
    let kill = Kill { attempt: killed, reason: KillReason::User, grace, message: String::new() };
    assert!(world.hub.kill(APP, "a", kill));
    executor.receive();
    let link = executor.link().clone();
    world.hub.stall(&link, true);
    for _ in 0..30 {
        world.pass(seconds(3));
        assert!(matches!(executor.receive()[..], [Down::HeartbeatAck(_)]), "nothing is repeated");
    }
    world.hub.stall(&link, false);
    world.pass(seconds(4));
    assert!(executor.receive().is_empty(), "the time for an answer begins anew");
    world.pass(seconds(1));
    let again = executor.receive();
    assert!(matches!(again[..], [Down::Run(_), Down::Kill(_)]), "{again:?}");
    assert_eq!(link.end(), None);
    executor.accept(&sent);
    assert_eq!(world.kinds(), [(attempt(2), EventKind::Acked { at: world.now() })]);
}

#[test]
fn a_session_that_is_just_ending_says_of_nothing_that_it_was_never_sent() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    world.send(&mut executor, attempt(1));
    assert!(!world.hub.never_sent(APP, "a", 1, attempt(1)));
    assert!(world.hub.never_sent(APP, "a", 1, attempt(2)));
    // Taken out of service, not yet out of the table.
    drop(executor.link().session.lock().end());
    assert!(!world.hub.never_sent(APP, "a", 1, attempt(1)));
}

#[test]
fn s04_a_slow_consumer_is_closed_and_others_are_unhurt() {
    let mut world = World::new();
    let mut slow = world.connect("slow", 4);
    let mut other = world.connect("other", 4);
    for _ in 0..SESSION_SEND_QUEUE_MAX {
        slow.heartbeat();
    }
    world.pass(seconds(4));
    assert_eq!(slow.link().end(), None);
    other.heartbeat();
    world.pass(seconds(1));
    assert!(matches!(slow.link().end(), Some(End::Unresponsive(_))));
    assert_eq!(other.link().end(), None);
    other.receive();
    world.start(&mut other, attempt(1));
}

#[test]
fn a_queue_that_was_read_in_time_is_no_fault() {
    let world = World::new();
    let mut slow = world.connect("slow", 4);
    for _ in 0..3 {
        for _ in 0..SESSION_SEND_QUEUE_MAX {
            slow.heartbeat();
        }
        world.pass(seconds(4));
        assert_eq!(slow.receive().len(), SESSION_SEND_QUEUE_MAX);
    }
    assert_eq!(slow.link().end(), None);
}

#[test]
fn an_executor_that_only_sends_is_closed_at_the_hard_bound() {
    let world = World::new();
    let mut flood = world.connect("flood", 4);
    for _ in 0..=SESSION_SEND_QUEUE_HARD_MAX {
        flood.heartbeat();
    }
    assert!(matches!(flood.link().end(), Some(End::Unresponsive(_))));
}

#[test]
fn f13_a_frame_without_a_known_arm_is_ignored() {
    let mut world = World::new();
    let executor = world.connect("a", 4);
    let events = world.hub.receive(executor.link(), SessionRequest { frame: None });
    assert!(events.is_empty());
    assert_eq!(executor.link().end(), None);
    assert_eq!(world.kinds(), []);
}

#[test]
fn a_second_hello_is_a_protocol_error() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    executor.send(Up::Hello(Hello::default()));
    assert!(matches!(executor.link().end(), Some(End::Protocol(_))));
    let frames = executor.receive();
    let [Down::Close(last)] = &frames[..] else { panic!("f23 the last word is a frame") };
    assert_eq!(last.reason, i32::from(close::Reason::Protocol));
}

#[test]
fn f5_a_newer_session_takes_over_and_the_older_one_is_told() {
    let world = World::new();
    let mut old = world.connect("a", 4);
    let new = LocalExecutor::open(&world.hub, opening("a", 2, 4), "app").expect("opens");
    assert_eq!(old.link().end(), Some(End::Moved));
    let frames = old.receive();
    let [Down::Close(last)] = &frames[..] else { panic!("wanted Close, got {frames:?}") };
    assert_eq!(last.reason, i32::from(close::Reason::Superseded));
    assert!(last.reconnect, "should the newer session come to nothing");
    assert_eq!(world.hub.contact(APP, "a"), Contact::Connected { epoch: 2 });
    assert_eq!(world.hub.sessions(), 1);
    let late = LocalExecutor::open(&world.hub, opening("a", 1, 4), "app");
    assert_eq!(late.err(), Some(End::Superseded), "an older claim that was slower stays out");
    assert_eq!(new.link().end(), None);
}

#[test]
fn a_process_that_another_one_replaced_is_not_to_come_again() {
    let world = World::new();
    let mut old = world.connect("a", 4);
    let other = Opening { instance_id: "process-2".to_owned(), ..opening("a", 2, 4) };
    let _new = LocalExecutor::open(&world.hub, other, "app").expect("opens");
    assert_eq!(old.link().end(), Some(End::Superseded));
    let frames = old.receive();
    let [Down::Close(last)] = &frames[..] else { panic!("wanted Close, got {frames:?}") };
    assert!(!last.reconnect);
}

#[test]
fn s03_the_end_of_a_stale_stream_does_not_unregister_the_new_session() {
    let world = World::new();
    let old = world.connect("a", 4);
    let new = LocalExecutor::open(&world.hub, opening("a", 2, 4), "app").expect("opens");
    old.break_off();
    old.break_off();
    assert_eq!(world.hub.contact(APP, "a"), Contact::Connected { epoch: 2 });
    assert_eq!(new.link().end(), None);
    assert_eq!(world.hub.sessions(), 1);
}

#[test]
fn r38_a_stream_that_ends_many_times_leaves_the_count_right_and_the_others_served() {
    let mut world = World::new();
    let mut ended = world.connect("ended", 4);
    let mut other = world.connect("other", 4);
    ended.goodbye();
    ended.break_off();
    ended.goodbye();
    world.hub.close(ended.link());
    ended.break_off();
    assert!(!world.hub.disconnect(APP, "ended", "once more"));
    assert_eq!(world.hub.sessions(), 1);
    assert_eq!(world.hub.contact(APP, "other"), Contact::Connected { epoch: 1 });
    world.start(&mut other, attempt(1));
    let _again = LocalExecutor::open(&world.hub, opening("ended", 2, 4), "app").expect("opens");
    ended.break_off();
    assert_eq!(world.hub.sessions(), 2);
    assert_eq!(world.candidates().len(), 2);
}

#[test]
fn a_session_claimed_on_another_node_ends_here() {
    let world = World::new();
    let executor = world.connect("a", 4);
    let row = executor.link().origin().row;
    world.hub.supersede(row, 1, Some("process-1"));
    assert_eq!(executor.link().end(), None, "that is its own epoch");
    world.hub.supersede(row, 2, Some("process-1"));
    assert_eq!(executor.link().end(), Some(End::Moved));
    assert_eq!(world.hub.contact(APP, "a"), Contact::Unknown, "its life is judged elsewhere now");
    let replaced = world.connect("b", 4);
    world.hub.supersede(replaced.link().origin().row, 2, Some("process-2"));
    assert_eq!(replaced.link().end(), Some(End::Superseded));
}

#[test]
fn s01_a_duplicate_of_a_living_process_is_told_from_the_next_session_of_it() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    let presence = |world: &World, process| world.hub.presence(APP, "a", process);
    assert_eq!(presence(&world, "process-2"), Presence::Alive);
    assert_eq!(presence(&world, "process-1"), Presence::Free, "the same process");
    world.pass(seconds(7));
    assert_eq!(presence(&world, "process-2"), Presence::Silent, "s02 two intervals");
    let link = executor.link().clone();
    world.hub.stall(&link, true);
    assert_eq!(presence(&world, "process-2"), Presence::Alive, "nobody listens to it");
    world.hub.stall(&link, false);
    world.pass(seconds(7));
    executor.heartbeat();
    assert_eq!(presence(&world, "process-2"), Presence::Alive);
    executor.goodbye();
    assert_eq!(presence(&world, "process-2"), Presence::Free);
}

#[test]
fn a_disconnected_executor_may_come_back_and_is_counted() {
    let world = World::new();
    let mut executor = world.connect("a", 4);
    assert!(world.hub.disconnect(APP, "a", "by an operator"));
    assert!(!world.hub.disconnect(APP, "a", "again"));
    let frames = executor.receive();
    let [Down::Close(last)] = &frames[..] else { panic!("wanted Close, got {frames:?}") };
    assert!(last.reconnect);
    let _again = LocalExecutor::open(&world.hub, opening("a", 2, 4), "app").expect("opens");
    let live = world.hub.snapshot(APP, "a").expect("connected");
    assert_eq!((live.epoch, live.reconnects_last_hour), (2, 1));
}

#[test]
fn r42_executors_that_left_leave_no_residue() {
    let world = World::new();
    for n in 0..100 {
        let name = format!("pod-{n}");
        let mut executor = world.connect(&name, 1);
        executor.goodbye();
    }
    assert_eq!(world.hub.sessions(), 0);
    assert!(matches!(world.hub.contact(APP, "pod-7"), Contact::Since(_)));
    world.pass(seconds(26 * 3600));
    assert_eq!(world.hub.contact(APP, "pod-7"), Contact::Unknown);
}

#[test]
fn the_number_of_sessions_is_bounded() {
    let world = World::with(HubSettings { max_sessions: 1, ..HubSettings::default() });
    assert_eq!(world.hub.admit(), Ok(Duration::ZERO));
    let _one = world.connect("a", 1);
    assert_eq!(world.hub.admit(), Err(Refused::Full));
}

#[test]
fn f1_a_session_that_grew_old_is_asked_to_move_and_not_all_at_once() {
    let max_age = Some(seconds(100));
    let world = World::with(HubSettings { session_max_age: max_age, ..HubSettings::default() });
    let mut executors: Vec<LocalExecutor> =
        (0..20).map(|n| world.connect(&"e".repeat(n + 1), 1)).collect();
    let mut moved_at = Vec::new();
    for second in 1..=120 {
        world.pass(seconds(1));
        for executor in &mut executors {
            executor.heartbeat();
            let asked = |frame: &Down| matches!(frame, Down::Drain(_));
            if executor.receive().iter().any(asked) {
                moved_at.push(second);
            }
        }
    }
    assert_eq!(moved_at.len(), 20);
    assert!(moved_at[0] >= 80 && moved_at[0] + 10 < moved_at[19], "{moved_at:?}");
}

#[tokio::test]
async fn an_outbox_is_read_in_order_and_ends_after_its_last_frame() {
    use futures::StreamExt as _;
    let outbox = Arc::new(Outbox::new(Arc::default()));
    let mut reader = OutboxStream(outbox.clone());
    let reading = tokio::spawn(async move {
        let mut seqs = Vec::new();
        while let Some(frame) = reader.next().await {
            if let Some(Down::HeartbeatAck(ack)) = frame.frame {
                seqs.push(ack.seq);
            }
        }
        seqs
    });
    let frame = |seq| SessionResponse {
        frame: Some(Down::HeartbeatAck(HeartbeatAck { seq, server_time: None })),
    };
    for seq in 1..=5 {
        assert_eq!(outbox.push(frame(seq), seconds(0)), Pushed::Sent);
        tokio::task::yield_now().await;
    }
    outbox.finish(Some(frame(6)));
    assert_eq!(outbox.push(frame(7), seconds(0)), Pushed::Dropped);
    assert_eq!(reading.await.expect("ends"), [1, 2, 3, 4, 5, 6]);
    outbox.over().await;
}

#[tokio::test]
async fn a_reader_that_goes_away_lets_nobody_wait_for_room() {
    let outbox = Arc::new(Outbox::new(Arc::default()));
    let reader = OutboxStream(outbox.clone());
    for _ in 0..SESSION_SEND_QUEUE_MAX {
        outbox.push(SessionResponse { frame: None }, seconds(3));
    }
    assert_eq!(outbox.full_since(), Some(seconds(3)));
    let waiting = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.has_room().await }
    });
    tokio::task::yield_now().await;
    drop(reader);
    waiting.await.expect("returns");
    assert!(outbox.is_over());
}

#[tokio::test]
async fn f9_events_are_bounded_by_their_memory_and_room_comes_back() {
    let (sender, mut receiver) = channel();
    let origin = testing::origin("a");
    let big = || SessionEvent {
        origin: origin.clone(),
        attempt: attempt(1),
        kind: EventKind::Progress {
            fraction: None,
            message: String::new(),
            checkpoint: Some(crate::model::Payload {
                content_type: String::new(),
                data: vec![0; 1024 * 1024].into(),
            }),
        },
    };
    let mut taken = 0;
    while sender.try_send(big()).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, EVENT_QUEUE_KIB_MAX / 1024);
    let held = receiver.recv().await.expect("one").into_parts();
    assert!(sender.try_send(big()).is_err(), "its memory is still in use");
    drop(held);
    assert!(sender.try_send(big()).is_ok());
}
