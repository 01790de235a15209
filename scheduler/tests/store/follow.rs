//! Ends that somebody waits for: who gets an event, and that each is settled once.

use clawjob_scheduler::{
    model::{
        Payload,
        follow::Follow,
        ids::{AttemptRef, RunId},
        job::Job,
        run::{NewRun, RunExtra, RunState, TriggerKind},
    },
    store::{
        Topic,
        ops::{EndAnswer, EndEvent, EndRun, Followup, JobChange, StateSet},
    },
};

use super::fixture::{Fixture, at, ending, fire};

const FINAL: [RunState; 5] =
    [RunState::Succeeded, RunState::Failed, RunState::Canceled, RunState::TimedOut, RunState::Lost];

fn waited_for(job: &Job, seconds: i64, follow: Follow) -> NewRun {
    let extra = RunExtra {
        params: Some(Payload { content_type: "text/plain".to_owned(), data: "much".into() }),
        triggered_by: "tokens/t".to_owned(),
        follow,
        ..RunExtra::default()
    };
    NewRun { extra: Some(Box::new(extra)), ..fire(job, at(seconds)) }
}

async fn planned(f: &Fixture, run: &NewRun) -> AttemptRef {
    let plan = f.plan_of(std::slice::from_ref(run)).await;
    f.store.plan(&plan, at(0)).await.expect("a plan");
    AttemptRef { run: run.id, attempt: 1, fence: 0 }
}

async fn end(f: &Fixture, attempt: AttemptRef, to: RunState) {
    let end = EndRun { from: StateSet::OPEN, ..ending(attempt, to) };
    let answers = f.store.end_runs(&[end], at(20)).await.expect("an end");
    assert!(matches!(answers[..], [EndAnswer::Ended(_)]), "{answers:?}");
}

async fn events(f: &Fixture) -> Vec<EndEvent> {
    f.store.end_events(100, &[]).await.expect("events")
}

/// An event of a run that ended well and starts others.
async fn one_event(f: &Fixture, job: &Job, seconds: i64) -> EndEvent {
    let run = waited_for(job, seconds, Follow::ON_SUCCESS);
    let attempt = planned(f, &run).await;
    end(f, attempt, RunState::Succeeded).await;
    let all = events(f).await;
    all.into_iter().find(|event| event.run == run.id).expect("an event")
}

fn start_of(job: &Job, event: &EndEvent) -> NewRun {
    NewRun {
        id: RunId::chained(event.run, job.id, event.ended_at),
        trigger: TriggerKind::Chain,
        ..fire(job, at(20))
    }
}

pub(crate) async fn an_end_that_somebody_waits_for_leaves_an_event(f: &Fixture) {
    let job = f.job("a").await;
    let waits = [Follow::SHARD, Follow::ON_SUCCESS, Follow::ON_FAILURE, Follow::PARENT];
    let mut seconds = 100;
    for follow in waits {
        for state in FINAL {
            seconds += 1;
            let run = waited_for(&job, seconds, follow);
            let attempt = planned(f, &run).await;
            end(f, attempt, state).await;
            let told: Vec<RunId> = events(f).await.iter().map(|event| event.run).collect();
            let wanted = !follow.at_end(state).is_nothing();
            assert_eq!(told.contains(&run.id), wanted, "{follow:?} {state:?}");
        }
    }
}

pub(crate) async fn an_event_says_what_the_run_was(f: &Fixture) {
    let job = f.job("a").await;
    let event = one_event(f, &job, 100).await;
    assert_eq!((event.job, event.app, event.revision), (job.id, job.app, job.revision));
    assert_eq!((event.trigger, event.state), (TriggerKind::Schedule, RunState::Succeeded));
    assert_eq!((event.fire_at, event.ended_at), (at(100), at(20)));
    let extra = event.extra.expect("what it had");
    assert_eq!((extra.triggered_by.as_str(), extra.follow), ("tokens/t", Follow::ON_SUCCESS));
    assert_eq!(extra.params, None, "params can be large, and nobody needs them here");
}

pub(crate) async fn an_end_that_nobody_waits_for_leaves_no_event(f: &Fixture) {
    for state in FINAL {
        let attempt = f.run_in(state.as_str(), RunState::Running).await;
        end(f, attempt, state).await;
    }
    assert_eq!(events(f).await, []);
}

pub(crate) async fn a_wish_for_a_state_makes_an_event_of_every_such_end(f: &Fixture) {
    f.sql("INSERT INTO end_wish (state, wisher) VALUES ('FAILED', 'x'), ('FAILED', 'y')").await;
    let mut failed = Vec::new();
    for state in FINAL {
        let attempt = f.run_in(state.as_str(), RunState::Running).await;
        end(f, attempt, state).await;
        if state == RunState::Failed {
            failed.push(attempt.run);
        }
    }
    let told: Vec<RunId> = events(f).await.iter().map(|event| event.run).collect();
    assert_eq!(told, failed);
}

pub(crate) async fn an_end_wakes_those_who_follow_it_up(f: &Fixture) {
    let job = f.job("a").await;
    let mut hints = f.store.hints();
    one_event(f, &job, 100).await;
    while hints.recv().await.expect("a hint") != Topic::Ends {}
}

pub(crate) async fn an_event_is_settled_once_with_what_follows(f: &Fixture) {
    let (job, next) = (f.job("a").await, f.job("b").await);
    let event = one_event(f, &job, 100).await;
    f.drain_inbox().await;
    let run = start_of(&next, &event);
    let followup = Followup { seq: event.seq, starts: vec![run.clone()], ..Followup::default() };
    let settled =
        f.store.settle_ends(std::slice::from_ref(&followup), at(21)).await.expect("settled");
    assert_eq!((settled.events, settled.started), (vec![event.seq], vec![run.id]));
    assert_eq!(events(f).await, []);
    let made = f.open(run.id).await;
    assert_eq!((made.state, made.trigger, made.job), (RunState::Queued, run.trigger, next.id));
    assert_eq!(f.drain_inbox().await.ids, [run.id]);
    let again = f.store.settle_ends(&[followup], at(22)).await.expect("settled");
    assert_eq!((again.events, again.started), (vec![], vec![]));
}

/// A result that comes over two connections at once, and three nodes that follow its end up.
pub(crate) async fn x21_a_result_delivered_twice_ends_its_run_and_starts_children_once(
    f: &Fixture,
) {
    let (job, next) = (f.job("a").await, f.job("b").await);
    let mut followups = Vec::new();
    for seconds in 100..120 {
        let run = waited_for(&job, seconds, Follow::ON_SUCCESS);
        let sent = f.dispatched(planned(f, &run).await).await;
        let ends = [ending(sent, RunState::Succeeded)];
        let (one, two) =
            tokio::join!(f.store.end_runs(&ends, at(20)), f.store.end_runs(&ends, at(20)));
        let mut answers = [one.expect("an answer")[0], two.expect("an answer")[0]];
        answers.sort_by_key(|answer| *answer == EndAnswer::Duplicate);
        assert_eq!(answers, [EndAnswer::Ended(job.id), EndAnswer::Duplicate]);
    }
    for event in events(f).await {
        let starts = vec![start_of(&next, &event)];
        followups.push(Followup { seq: event.seq, starts, ..Followup::default() });
    }
    assert_eq!(followups.len(), 20);
    let settle = || f.store.settle_ends(&followups, at(21));
    let (a, b, c) = tokio::join!(settle(), settle(), settle());
    let all = [a, b, c].map(|settled| settled.expect("settled"));
    let mut taken: Vec<u64> = all.iter().flat_map(|settled| settled.events.clone()).collect();
    taken.sort_unstable();
    assert_eq!(taken, followups.iter().map(|followup| followup.seq).collect::<Vec<_>>());
    let started: usize = all.iter().map(|settled| settled.started.len()).sum();
    assert_eq!(started, followups.len());
    assert_eq!(events(f).await, []);
}

pub(crate) async fn a_run_that_exists_or_whose_job_is_gone_is_not_started(f: &Fixture) {
    let (job, next, gone) = (f.job("a").await, f.job("b").await, f.job("c").await);
    let event = one_event(f, &job, 100).await;
    let change = JobChange { delete: true, drop_due: true, ..JobChange::by("me") };
    f.store.change_job(gone.id, &change, Box::new(|_| Vec::new()), at(15)).await.expect("deleted");
    let there = start_of(&next, &event);
    f.store.create_run(&there, None, at(16)).await.expect("made before");
    let starts = vec![there, start_of(&gone, &event)];
    let followup = Followup { seq: event.seq, starts, ..Followup::default() };
    let settled = f.store.settle_ends(&[followup], at(21)).await;
    let settled = settled.expect("settled");
    assert_eq!((settled.events, settled.started), (vec![event.seq], vec![]));
}
