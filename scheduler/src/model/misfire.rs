//! What becomes of fire times that passed while nobody dispatched.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    ids::{AppId, JobId, RunId},
    job::{Job, JobSpec, MISFIRE_MAX_DEFAULT, MISFIRE_WINDOW_DEFAULT, MisfirePolicy},
    plan::{due_at, first_fire},
    run::Skip,
    schedule::Compiled,
    words,
};

/// Missed fire times counted one by one per job and gap; a longer gap is said to hold "more than"
/// so many. Bounds the work after a long outage.
pub const MISSED_COUNT_MAX: usize = 10_000;
/// How far back the newest missed fire times are looked for, in seconds: ever further, until there
/// are as many as may be made up for.
const LOOK_BACK_SECONDS: [i64; 6] =
    [60, 3_600, 86_400, 31 * 86_400, 366 * 86_400, 5 * 366 * 86_400];

/// A job's missed fire times in one gap, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// The newest ones, at most [`MISSED_COUNT_MAX`].
    pub newest: Vec<DateTime<Utc>>,
    /// The oldest one, when it is not in `newest`.
    pub first: Option<DateTime<Utc>>,
}

impl Missed {
    /// The first and the last of them.
    pub fn span(&self) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
        Some((self.first.or(self.newest.first().copied())?, *self.newest.last()?))
    }
}

/// When a job fires.
#[derive(Clone, Copy)]
pub struct Timetable<'a> {
    /// Its name, which spreads it.
    pub name: &'a str,
    /// Its content.
    pub spec: &'a JobSpec,
    /// Its schedules, ready to compute.
    pub compiled: &'a [Arc<Compiled>],
    /// What intervals count from.
    pub created_at: DateTime<Utc>,
    /// See [`Job::effective_from`].
    pub effective_from: DateTime<Utc>,
}

impl<'a> Timetable<'a> {
    /// Of a job whose schedules are ready.
    pub fn of(job: &'a Job, compiled: &'a [Arc<Compiled>]) -> Self {
        Self {
            name: &job.name,
            spec: &job.spec,
            compiled,
            created_at: job.created_at,
            effective_from: job.effective_from,
        }
    }

    fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        first_fire(self.compiled, self.created_at, after.max(self.effective_from))
    }
}

/// The fire times of a job from `first` on and before `limit`: those missed, and those that their
/// spread puts off beyond it.
pub fn missed_before(
    timetable: &Timetable<'_>,
    first: Option<DateTime<Utc>>,
    limit: DateTime<Utc>,
) -> (Missed, Vec<DateTime<Utc>>) {
    let mut missed = Missed::default();
    let Some(first) = first.filter(|first| *first < limit) else {
        return (missed, Vec::new());
    };
    let Timetable { name, compiled, created_at, .. } = *timetable;
    // A delay has one fire time at most, and it is never too late for it.
    if timetable.spec.is_delayed() {
        return (missed, Vec::new());
    }
    let mut next = Some(first);
    while let Some(fire) = next.filter(|fire| *fire < limit) {
        if missed.newest.len() == MISSED_COUNT_MAX {
            missed.newest = newest_before(timetable, limit);
            missed.first = Some(first);
            break;
        }
        missed.newest.push(fire);
        next = timetable.next_after(fire);
    }
    if !compiled.iter().any(|c| c.is_spread()) {
        return (missed, Vec::new());
    }
    let is_over = |fire: &DateTime<Utc>| due_at(name, created_at, compiled, *fire) < limit;
    let (over, spread) = missed.newest.into_iter().partition(is_over);
    missed.newest = over;
    (missed, spread)
}

/// The newest fire times before `limit`: as many as the job's policy may make up for, if there are.
fn newest_before(timetable: &Timetable<'_>, limit: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let wanted = made_up_max(timetable.spec).max(1);
    let mut found = VecDeque::new();
    for seconds in LOOK_BACK_SECONDS {
        found.clear();
        let mut next = timetable.next_after(limit - TimeDelta::seconds(seconds));
        while let Some(fire) = next.filter(|fire| *fire < limit) {
            if found.len() == MISSED_COUNT_MAX {
                found.pop_front();
            }
            found.push_back(fire);
            next = timetable.next_after(fire);
        }
        if found.len() >= wanted {
            break;
        }
    }
    found.into()
}

/// A stretch of fire times that one SKIPPED row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first.
    pub first: DateTime<Utc>,
    /// The last.
    pub last: DateTime<Utc>,
    /// How many; at least so many when `more`.
    pub count: u32,
    /// The count stopped at [`MISSED_COUNT_MAX`].
    pub more: bool,
}

/// What was decided about a job's fire times before: by a scheduler that died before it had settled
/// all that was missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// Fire times with a row of their own.
    pub alone: BTreeSet<DateTime<Utc>>,
    /// Stretches that one SKIPPED row stands for, both ends included.
    pub stretches: Vec<(DateTime<Utc>, DateTime<Utc>)>,
}

impl Decided {
    /// The end of the stretch that the fire time is part of; the fire time itself when it has a
    /// row of its own; `None` when nothing was decided about it.
    pub fn until(&self, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let within = self.stretches.iter().find(|(first, last)| (*first..=*last).contains(&at));
        within.map(|(_, last)| *last).or_else(|| self.alone.contains(&at).then_some(at))
    }

    /// Takes out what is decided. `after` gives the first fire time after an instant, for a gap too
    /// long to list, whose begin was decided and whose rest was not.
    pub fn take_out(
        &self,
        missed: &mut Missed,
        after: impl Fn(DateTime<Utc>) -> Option<DateTime<Utc>>,
    ) {
        missed.newest.retain(|at| self.until(*at).is_none());
        if let Some(first) = missed.first
            && let Some(until) = self.until(first)
        {
            let next = after(until);
            missed.first = next.filter(|next| missed.newest.first().is_some_and(|at| next < at));
        }
    }
}

/// How many missed fire times the job's policy makes up for at most.
pub fn made_up_max(spec: &JobSpec) -> usize {
    match (spec.misfire, spec.misfire_max) {
        (MisfirePolicy::Skip, _) => 0,
        (MisfirePolicy::FireOnce, _) => 1,
        (MisfirePolicy::FireAll, 0) => MISFIRE_MAX_DEFAULT as usize,
        (MisfirePolicy::FireAll, max) => max as usize,
    }
}

/// The missed fire times (oldest first) that the job's policy makes up for, each as a run.
pub fn make_up(spec: &JobSpec, missed: &[DateTime<Utc>], now: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let window = match spec.misfire {
        MisfirePolicy::FireAll => spec.misfire_window.unwrap_or(MISFIRE_WINDOW_DEFAULT),
        MisfirePolicy::FireOnce | MisfirePolicy::Skip => Duration::MAX,
    };
    let within = missed.iter().rev().take_while(|at| age(now, **at) <= window);
    let keep = within.take(made_up_max(spec)).count();
    missed[missed.len() - keep..].to_vec()
}

/// What is left of the missed fire times once those in `made_up` are taken out.
pub fn gap(missed: &Missed, made_up: &[DateTime<Utc>]) -> Option<Gap> {
    let left: Vec<_> = missed.newest.iter().filter(|at| !made_up.contains(at)).copied().collect();
    let first = missed.first.or(left.first().copied())?;
    Some(Gap {
        first,
        last: left.last().copied().unwrap_or(first),
        count: u32::try_from(left.len()).unwrap_or(u32::MAX).max(1),
        more: missed.first.is_some(),
    })
}

/// The SKIPPED row of a gap of a job, as it is in this revision.
pub fn skip(job: JobId, app: AppId, (revision, spec): (u64, &JobSpec), gap: &Gap) -> Skip {
    Skip {
        id: RunId::scheduled(job, gap.first),
        job,
        app,
        revision,
        fire_at: gap.first,
        message: explain(spec, gap),
        missed_count: gap.count,
        missed_until: gap.last,
    }
}

/// The line that a SKIPPED row of the gap shows. It names no cause: whether the scheduler was down,
/// suspended, or had no database or room to write, is in the server's log and not in its memory.
pub fn explain(spec: &JobSpec, gap: &Gap) -> String {
    let more = if gap.more { "more than " } else { "" };
    let count = words::count(gap.count.into(), "fire time");
    let were = if gap.count == 1 { "was" } else { "were" };
    let policy = match spec.misfire {
        MisfirePolicy::Skip => "the misfire policy SKIP leaves them out",
        MisfirePolicy::FireOnce => "the misfire policy FIRE_ONCE makes up for the newest only",
        MisfirePolicy::FireAll => {
            "the misfire policy FIRE_ALL makes up for the newest within its bounds only"
        }
    };
    format!("{more}{count} {were} not served in time; {policy}")
}

fn age(now: DateTime<Utc>, at: DateTime<Utc>) -> Duration {
    (now - at).to_std().unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000 + 60 * minute, 0).expect("in range")
    }

    fn spec(misfire: MisfirePolicy) -> JobSpec {
        JobSpec { misfire, ..JobSpec::default() }
    }

    fn hourly_gap() -> Missed {
        Missed { newest: (1..=6).map(|i| at(10 * i)).collect(), first: None }
    }

    #[test]
    fn an_hour_of_outage_fires_none_one_or_all_of_six() {
        let counts = [MisfirePolicy::Skip, MisfirePolicy::FireOnce, MisfirePolicy::FireAll]
            .map(|policy| make_up(&spec(policy), &hourly_gap().newest, at(61)).len());
        assert_eq!(counts, [0, 1, 6]);
    }

    #[test]
    fn fire_once_takes_the_newest_and_the_rest_is_one_gap() {
        let missed = hourly_gap();
        let made_up = make_up(&spec(MisfirePolicy::FireOnce), &missed.newest, at(61));
        assert_eq!(made_up, [at(60)]);
        let gap = gap(&missed, &made_up).expect("five are left");
        assert_eq!((gap.first, gap.last, gap.count, gap.more), (at(10), at(50), 5, false));
    }

    #[test]
    fn fire_all_keeps_to_its_maximum_and_its_window() {
        let mut all = spec(MisfirePolicy::FireAll);
        all.misfire_max = 2;
        assert_eq!(make_up(&all, &hourly_gap().newest, at(61)), [at(50), at(60)]);
        all.misfire_max = 0;
        all.misfire_window = Some(Duration::from_secs(25 * 60));
        assert_eq!(make_up(&all, &hourly_gap().newest, at(61)), [at(40), at(50), at(60)]);
    }

    #[test]
    fn a_gap_too_long_to_count_says_more_than() {
        let missed = Missed { newest: vec![at(50), at(60)], first: Some(at(0)) };
        let gap = gap(&missed, &[at(60)]).expect("the old ones are left");
        assert_eq!((gap.first, gap.last, gap.more), (at(0), at(50), true));
        assert!(explain(&spec(MisfirePolicy::FireOnce), &gap).starts_with("more than"));
    }

    #[test]
    fn what_was_decided_before_is_not_decided_again() {
        let decided = Decided { alone: [at(40)].into(), stretches: vec![(at(10), at(30))] };
        let mut missed = hourly_gap();
        decided.take_out(&mut missed, |_| None);
        assert_eq!(missed.newest, [at(50), at(60)]);
        // Too long to list: the begin is decided, what follows it up to the listed ones is not.
        let mut long = Missed { newest: vec![at(50), at(60)], first: Some(at(10)) };
        decided.take_out(&mut long, |after| Some(after + TimeDelta::minutes(5)));
        assert_eq!((long.first, long.newest.len()), (Some(at(35)), 2));
        let mut whole = Missed { newest: vec![at(50), at(60)], first: Some(at(10)) };
        decided.take_out(&mut whole, |_| Some(at(50)));
        assert_eq!(whole.first, None);
    }

    #[test]
    fn nothing_missed_leaves_no_gap() {
        assert_eq!(gap(&Missed::default(), &[]), None);
        assert!(make_up(&spec(MisfirePolicy::FireOnce), &[], at(0)).is_empty());
    }
}
