use clawjob_proto::v1::Attempt;

use super::*;
use crate::load::timestamp;

const SECOND: i64 = 1_000_000;

fn run(job: &str, id: &str, fire: i64, state: RunState) -> Run {
    Run {
        name: format!("apps/{APP}/runs/{id}"),
        job: format!("apps/{APP}/jobs/{job}"),
        fire_time: Some(timestamp(fire)),
        state: state.into(),
        attempt: 1,
        ..Run::default()
    }
}

fn execution(job: &str, run: &str, attempt: u32, began: i64, ended: i64) -> Execution {
    let job = format!("apps/{APP}/jobs/{job}");
    let (run, ended) = (run.to_owned(), Some(ended));
    Execution { pid: 7, job, run, attempt, fire: began, began, ended, well: true }
}

/// Three fire times: one ran, two were skipped in one stretch; and a run by hand.
fn good() -> Evidence {
    let mut stretch = run("pulse-0", "s", 2 * SECOND, RunState::Skipped);
    stretch.missed_count = 2;
    stretch.missed_until_time = Some(timestamp(3 * SECOND));
    let fires = Some(vec![SECOND, 2 * SECOND, 3 * SECOND]);
    let planned =
        Planned { id: "pulse-0".to_owned(), job: clawjob_proto::v1::Job::default(), fires };
    Evidence {
        runs: vec![
            run("pulse-0", "a", SECOND, RunState::Succeeded),
            stretch,
            run(BY_HAND, "h", 5 * SECOND, RunState::Succeeded),
        ],
        executions: vec![
            execution("pulse-0", "a", 1, SECOND, SECOND + 10),
            execution(BY_HAND, "h", 1, 5 * SECOND, 6 * SECOND),
        ],
        planned: vec![planned],
        faults: Vec::new(),
        by_hand: vec![format!("apps/{APP}/runs/h")],
        sessions: 1,
        killed: Vec::new(),
    }
}

#[test]
fn rows_skips_and_ledger_that_agree_are_well() {
    let findings = good().judge();
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn a_fire_time_without_a_row_is_lost_and_one_with_two_is_doubled() {
    let mut evidence = good();
    evidence.runs[1].missed_until_time = None;
    evidence.runs[1].missed_count = 1;
    let findings = evidence.judge();
    assert_eq!(findings.lost.iter().map(|(_, fire)| *fire).collect::<Vec<_>>(), [3 * SECOND]);

    let mut evidence = good();
    evidence.runs.push(run("pulse-0", "b", SECOND, RunState::Canceled));
    let findings = evidence.judge();
    assert_eq!(findings.doubled.iter().map(|(_, fire)| *fire).collect::<Vec<_>>(), [SECOND]);
    assert_eq!(findings.other.len(), 1, "the sum is wrong too: {findings:?}");
}

#[test]
fn an_attempt_executed_twice_is_doubled() {
    let mut evidence = good();
    evidence.executions.push(execution("pulse-0", "a", 1, 4 * SECOND, 5 * SECOND));
    assert_eq!(evidence.judge().doubled.len(), 1);
}

#[test]
fn success_without_execution_and_a_run_without_end_are_found() {
    let mut evidence = good();
    evidence.executions.remove(0);
    evidence.runs[2].state = RunState::Running.into();
    let other = evidence.judge().other;
    assert!(other.iter().any(|line| line.contains("no executor did it")), "{other:?}");
    assert!(other.iter().any(|line| line.contains("for ever")), "{other:?}");
}

#[test]
fn two_attempts_at_one_moment_are_found() {
    let mut evidence = good();
    evidence.executions.push(execution(BY_HAND, "h", 2, 5 * SECOND + 500_000, 7 * SECOND));
    assert!(evidence.judge().other[0].contains("at one moment"));
}

#[test]
fn an_attempt_given_up_while_its_executor_lives_is_found() {
    let lost = Attempt { number: 1, outcome: Outcome::Lost.into(), ..Attempt::default() };
    let mut evidence = good();
    evidence.runs[2].attempts = vec![lost];
    assert!(evidence.judge().other[0].contains("given up"));
    evidence.killed = vec![(7, 9 * SECOND)];
    assert!(evidence.judge().is_empty());
}

#[test]
fn a_run_by_hand_that_is_gone_or_that_nobody_asked_for_is_found() {
    let mut evidence = good();
    evidence.by_hand = vec![format!("apps/{APP}/runs/other")];
    assert_eq!(evidence.judge().other.len(), 2);
}
