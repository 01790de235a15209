//! The table: for each kind of fault how often, the longest gap, what was late, lost, doubled.

use std::collections::{BTreeMap, HashMap};

use super::{
    check::{Evidence, Findings},
    faults::Fault,
    jobs::PULSE,
};

/// A run later than this is counted as late, microseconds.
const LATE_US: i64 = 1_000_000;
/// A run that was under way when a fault began is that fault's, microseconds.
const SLACK_US: i64 = 200_000;
/// What a fault may be blamed for goes on for so long after it, microseconds.
const AFTER_US: i64 = 15_000_000;
/// The period of the jobs that gaps are read from, microseconds.
const PERIOD_US: i64 = 1_000_000;

/// What one kind of fault did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    /// How often it happened.
    pub count: u32,
    /// The longest that a job which fires each second did not run, over that second, seconds.
    pub gap_s: f64,
    /// The longest from the end of a fault that stops all until such a job ran, where no other fault
    /// had begun by then, seconds.
    pub back_s: Option<f64>,
    /// Runs that began more than a second late.
    pub late: usize,
    /// Fire times lost.
    pub lost: usize,
    /// Fire times doubled.
    pub doubled: usize,
}

impl Line {
    /// The longest that the schedulers let all stand still, seconds: how long Postgres was away is not
    /// theirs.
    pub(super) fn stood_still_s(&self) -> f64 {
        self.back_s.unwrap_or(self.gap_s)
    }
}

/// By kind of fault.
#[must_use]
pub(super) fn lines(evidence: &Evidence, findings: &Findings) -> BTreeMap<Fault, Line> {
    let mut lines: BTreeMap<Fault, Line> = BTreeMap::new();
    for done in &evidence.faults {
        lines.entry(done.fault).or_default().count += 1;
    }
    for starts in pulse(evidence).values() {
        for pair in starts.windows(2) {
            let ((_, last), (fire, began)) = (pair[0], pair[1]);
            // A gap begins when the next run is missing, a late run at its fire time.
            let gap = (began - last - PERIOD_US) as f64 / 1e6;
            if let Some(line) = blamed(evidence, last + PERIOD_US, &mut lines) {
                line.gap_s = line.gap_s.max(gap);
            }
            if let Some(line) =
                blamed(evidence, fire, &mut lines).filter(|_| began - fire > LATE_US)
            {
                line.late += 1;
            }
        }
    }
    for (fault, back) in backs(evidence) {
        let line = lines.entry(fault).or_default();
        line.back_s = Some(line.back_s.unwrap_or_default().max(back));
    }
    for (_, fire) in &findings.lost {
        blamed(evidence, *fire, &mut lines).iter_mut().for_each(|line| line.lost += 1);
    }
    for (_, fire) in &findings.doubled {
        blamed(evidence, *fire, &mut lines).iter_mut().for_each(|line| line.doubled += 1);
    }
    lines
}

/// For each fault that stopped all, and each job that fires each second: the time from its end until
/// the job ran again, unless another fault had begun by then.
fn backs(evidence: &Evidence) -> Vec<(Fault, f64)> {
    let pulse = pulse(evidence);
    let mut backs = Vec::new();
    for (index, done) in evidence.faults.iter().enumerate().filter(|(_, d)| d.fault.stops_all()) {
        let next = evidence.faults.get(index + 1).map_or(i64::MAX, |next| next.from);
        for starts in pulse.values() {
            let back = starts.iter().map(|(_, began)| *began).find(|began| *began >= done.until);
            let back = back.filter(|began| *began < next);
            backs.extend(back.map(|began| (done.fault, (began - done.until) as f64 / 1e6)));
        }
    }
    backs
}

/// The line of the last fault that had begun by then, unless that was over long before.
fn blamed<'a>(
    evidence: &Evidence,
    at: i64,
    lines: &'a mut BTreeMap<Fault, Line>,
) -> Option<&'a mut Line> {
    let begun = evidence.faults.partition_point(|done| done.from <= at + SLACK_US);
    let done = evidence.faults.get(begun.checked_sub(1)?)?;
    if at > done.until + AFTER_US {
        return None;
    }
    lines.get_mut(&done.fault)
}

/// Of each job that fires each second: fire times and first beginnings, in order of these.
fn pulse(evidence: &Evidence) -> HashMap<&str, Vec<(i64, i64)>> {
    let mut begins: HashMap<&str, Vec<(i64, i64)>> = HashMap::new();
    let name = format!("/jobs/{PULSE}-");
    let first = evidence.executions.iter().filter(|execution| execution.attempt == 1);
    for execution in first.filter(|execution| execution.job.contains(&name)) {
        begins.entry(&execution.job).or_default().push((execution.fire, execution.began));
    }
    begins.values_mut().for_each(|starts| starts.sort_by_key(|(_, began)| *began));
    begins
}

/// Prints it.
pub(super) fn print(lines: &BTreeMap<Fault, Line>) {
    println!(
        "{:<16} {:>5} {:>10} {:>12} {:>6} {:>5} {:>8}",
        "fault", "count", "gap s", "from its end", "late", "lost", "doubled"
    );
    for (fault, line) in lines {
        let Line { count, gap_s, back_s, late, lost, doubled } = line;
        let name = format!("{fault:?}");
        let back = back_s.map_or_else(|| "-".to_owned(), |back| format!("{back:.2}"));
        println!("{name:<16} {count:>5} {gap_s:>10.2} {back:>12} {late:>6} {lost:>5} {doubled:>8}");
    }
}

#[cfg(test)]
mod tests {
    use super::{super::faults::Done, super::ledger::Execution, *};

    const SECOND: i64 = 1_000_000;

    fn pulse_at(began: i64, fire: i64) -> Execution {
        Execution {
            pid: 1,
            job: format!("apps/torture/jobs/{PULSE}-0"),
            run: format!("r{fire}"),
            attempt: 1,
            fire,
            began,
            ended: Some(began),
            well: true,
        }
    }

    #[test]
    fn a_gap_is_blamed_on_the_fault_that_began_before_it() {
        let seconds = [(1, 1), (2, 2), (8, 3), (9, 9), (10, 10), (40, 40)];
        let executions =
            seconds.map(|(began, fire)| pulse_at(began * SECOND + 5, fire * SECOND)).to_vec();
        let done = |fault, from, until| Done { fault, from: from * SECOND, until: until * SECOND };
        let faults = vec![done(Fault::NodeKill9, 2, 3), done(Fault::LockSession, 9, 10)];
        let evidence = Evidence {
            runs: Vec::new(),
            executions,
            planned: Vec::new(),
            faults,
            by_hand: Vec::new(),
            sessions: 1,
            killed: Vec::new(),
        };
        let lines = lines(&evidence, &Findings::default());
        let of = |fault: &Fault| (lines[fault].count, lines[fault].gap_s, lines[fault].late);
        assert_eq!(of(&Fault::NodeKill9), (1, 5.0, 1));
        // The last pulse came long after; nothing fired in between by any schedule.
        assert_eq!(of(&Fault::LockSession), (1, 29.0, 0));
        assert_eq!(lines[&Fault::NodeKill9].back_s, None, "others go on meanwhile");
    }

    #[test]
    fn after_a_crash_of_postgres_the_time_from_its_return_is_told_too() {
        let seconds = [(1, 1), (2, 2), (9, 3), (10, 10), (21, 11), (30, 30)];
        let executions = seconds.map(|(began, fire)| pulse_at(began * SECOND, fire * SECOND));
        let done = |fault, from, until| Done { fault, from: from * SECOND, until: until * SECOND };
        let faults = vec![
            done(Fault::PostgresCrash, 2, 6),
            done(Fault::PostgresCrash, 11, 13),
            done(Fault::LockSession, 20, 21),
        ];
        let evidence = Evidence {
            runs: Vec::new(),
            executions: executions.to_vec(),
            planned: Vec::new(),
            faults,
            by_hand: Vec::new(),
            sessions: 1,
            killed: Vec::new(),
        };
        let line = lines(&evidence, &Findings::default())[&Fault::PostgresCrash];
        // What came after the second one is another fault's.
        assert_eq!((line.gap_s, line.back_s), (10.0, Some(3.0)));
    }
}
