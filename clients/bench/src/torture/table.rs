//! The table: for each kind of fault how often, the longest gap, what was late, lost, doubled.

use std::collections::{BTreeMap, HashMap};

use super::{
    check::{Evidence, Findings},
    faults::Fault,
    jobs::PULSE,
};

/// A run later than this is counted as late, microseconds.
const LATE_US: i64 = 1_000_000;
/// What a fault may be blamed for goes on for so long after it, microseconds.
const AFTER_US: i64 = 15_000_000;
/// The period of the jobs that gaps are read from, microseconds.
const PERIOD_US: i64 = 1_000_000;

/// What one kind of fault did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Line {
    /// How often it happened.
    pub(super) count: u32,
    /// The longest that a job which fires each second did not run, over that second, seconds.
    pub(super) gap_s: f64,
    /// Runs that began more than a second late.
    pub(super) late: usize,
    /// Fire times lost.
    pub(super) lost: usize,
    /// Fire times doubled.
    pub(super) doubled: usize,
}

/// By kind of fault.
#[must_use]
pub(super) fn lines(evidence: &Evidence, findings: &Findings) -> BTreeMap<Fault, Line> {
    let begins = pulse(evidence);
    let mut lines: BTreeMap<Fault, Line> = BTreeMap::new();
    for (index, done) in evidence.faults.iter().enumerate() {
        // What follows belongs to the next fault, when that comes before this one's end.
        let next = evidence.faults.get(index + 1).map_or(i64::MAX, |next| next.from);
        let window = done.from..(done.until + AFTER_US).min(next);
        let line = lines.entry(done.fault).or_default();
        line.count += 1;
        let within = |at: i64| window.contains(&at);
        for starts in begins.values() {
            let gaps = starts.windows(2).filter(|pair| {
                let (last, first) = (pair[0].1, pair[1].1);
                last < window.end && first > window.start
            });
            let longest = gaps.map(|pair| pair[1].1 - pair[0].1 - PERIOD_US).max().unwrap_or(0);
            line.gap_s = line.gap_s.max(longest as f64 / 1e6);
            line.late += starts
                .iter()
                .filter(|(fire, began)| began - fire > LATE_US && within(*fire))
                .count();
        }
        line.lost += findings.lost.iter().filter(|(_, fire)| within(*fire)).count();
        line.doubled += findings.doubled.iter().filter(|(_, fire)| within(*fire)).count();
    }
    lines
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
        "{:<16} {:>5} {:>10} {:>6} {:>5} {:>8}",
        "fault", "count", "gap s", "late", "lost", "doubled"
    );
    for (fault, line) in lines {
        let Line { count, gap_s, late, lost, doubled } = line;
        let name = format!("{fault:?}");
        println!("{name:<16} {count:>5} {gap_s:>10.2} {late:>6} {lost:>5} {doubled:>8}");
    }
}
