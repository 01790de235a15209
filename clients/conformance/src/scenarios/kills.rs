//! KillCommand.

use clawjob_conformance::Session;
use clawjob_conformance::frames::{attempt, command};
use clawjob_proto::v1::{Outcome, RunResult, kill_ack::Status, session_request::Frame as Up};

use super::{ENDLESS, open};
use crate::judge::{Scenario, scenarios};
use crate::program::Subject;

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![
    c21_kill_cancels_context,
    c22_kill_ignored_by_handler_abandoned_after_grace,
    c23_kill_unknown_attempt_not_found,
    c24_kill_after_finish_finished,
    c25_kill_before_run_tombstone,
    c26_kill_and_finish_race_one_result,
];

async fn c21_kill_cancels_context(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "sleep", ENDLESS)).await;
    session.kill("R1", 1, 30_000).await;
    assert_eq!(session.kill_ack().await, Status::Signaled);
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.unwrap().code, "STOPPED");
}

async fn c22_kill_ignored_by_handler_abandoned_after_grace(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "block", r#"{"ms":20000}"#)).await;
    session.kill("R1", 1, 300).await;
    assert_eq!(session.kill_ack().await, Status::Signaled);
    let result = session.result().await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    assert_eq!(result.failure.unwrap().code, "ABANDONED");
    // It cannot be ended from outside: it keeps its slot, and is counted, until it ends.
    let abandoned = session.heartbeat_where("the count", |beat| beat.abandoned_handlers == 1);
    assert_eq!(abandoned.await.free_slots, 3);
    let ended = session.heartbeat_where("its end", |beat| beat.abandoned_handlers == 0);
    assert_eq!(ended.await.free_slots, 4);
}

async fn c23_kill_unknown_attempt_not_found(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.kill("R1", 1, 100).await;
    assert_eq!(session.kill_ack().await, Status::NotFound);
    session.begin(command("R2", "echo", "1")).await;
}

async fn c24_kill_after_finish_finished(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.begin(command("R1", "echo", "1")).await;
    let result = session.result().await;
    session.kill("R1", 1, 100).await;
    assert_eq!(session.kill_ack().await, Status::Finished);
    session.commit(&result).await;
    session.kill("R1", 1, 100).await;
    assert_eq!(session.kill_ack().await, Status::Finished);
}

async fn c25_kill_before_run_tombstone(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    session.kill("R1", 1, 100).await;
    assert_eq!(session.kill_ack().await, Status::NotFound);
    session.run(command("R1", "logs", r#"{"count":1}"#)).await;
    let result = session
        .expect("the tombstone's result", |frame| match frame {
            Up::LogChunk(chunk) => panic!("it was started: {chunk:?}"),
            Up::Result(result) => Some(result),
            _ => None,
        })
        .await;
    assert_eq!(result.outcome(), Outcome::Canceled);
    session.commit(&result).await;
    session.heartbeat_where("no attempt", |beat| beat.attempts.is_empty()).await;
}

/// The KillAck and the result of a run, whichever comes first.
async fn ack_and_result(session: &mut Session) -> (Status, RunResult) {
    let (mut status, mut result) = (None, None);
    loop {
        match session.next().await.expect("the stream goes on") {
            Up::KillAck(ack) => status = Some(ack.status()),
            Up::Result(one) => {
                assert!(result.is_none(), "a second result: {one:?}");
                result = Some(one);
            }
            _ => {}
        }
        if let (Some(status), Some(result)) = (status, &result) {
            return (status, result.clone());
        }
    }
}

async fn c26_kill_and_finish_race_one_result(subject: Subject) {
    let (_fake, _program, mut session) = open(&subject).await;
    for number in 0..20 {
        let run = format!("R{number}");
        let params = format!(r#"{{"ms":{}}}"#, number % 5);
        session.begin(command(&run, "sleep", &params)).await;
        session.kill(&run, 1, 30_000).await;
        let (status, result) = ack_and_result(&mut session).await;
        assert_eq!(result.r#ref, Some(attempt(&run, 1, 1)));
        match status {
            Status::Finished => assert_eq!(result.outcome(), Outcome::Succeeded),
            Status::Signaled => {
                let outcome = result.outcome();
                assert!([Outcome::Succeeded, Outcome::Canceled].contains(&outcome), "{outcome:?}");
            }
            other => panic!("{other:?}"),
        }
        session.commit(&result).await;
    }
    // Whatever was left over would come before the beat that lists nothing.
    session
        .expect("a quiet Heartbeat", |frame| match frame {
            Up::Result(result) => panic!("one more result: {result:?}"),
            Up::Heartbeat(beat) => beat.attempts.is_empty().then_some(()),
            _ => None,
        })
        .await;
}
