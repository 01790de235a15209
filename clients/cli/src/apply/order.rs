//! Jobs in the order in which they can be written: one that another starts comes before it.

use std::collections::{BTreeMap, BTreeSet};

use clawjob_proto::v1::Job;

use crate::names;

/// Where a job stands while the order is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Begun,
    Done,
}

/// The jobs in an order in which each comes after those of them that it starts; otherwise in their
/// own.
///
/// # Errors
/// The jobs that start themselves again, one fault for each circle.
pub(super) fn order(jobs: &[Job]) -> Result<Vec<&Job>, Vec<String>> {
    let named: BTreeMap<&str, &Job> = jobs.iter().map(|job| (job.name.as_str(), job)).collect();
    let (mut marks, mut ordered, mut faults) = (BTreeMap::new(), Vec::new(), Vec::new());
    for job in jobs {
        // Each with how many of the jobs it starts were looked at; no recursion, chains may be long.
        let mut path: Vec<(&Job, usize)> = vec![(job, 0)];
        while let Some((job, next)) = path.pop() {
            let name = job.name.as_str();
            if next == 0 && marks.insert(name, Mark::Begun) == Some(Mark::Done) {
                marks.insert(name, Mark::Done);
                continue;
            }
            let Some(follower) = job.on_success.iter().chain(&job.on_failure).nth(next) else {
                marks.insert(name, Mark::Done);
                ordered.push(job);
                continue;
            };
            path.push((job, next + 1));
            match (named.get(follower.as_str()), marks.get(follower.as_str())) {
                (None, _) | (_, Some(Mark::Done)) => {}
                (Some(_), Some(Mark::Begun)) => faults.push(format!(
                    "{}: starts {}, by which it is started itself; take one link away",
                    names::short(name),
                    names::short(follower)
                )),
                (Some(follower), None) => path.push((follower, 0)),
            }
        }
    }
    if faults.is_empty() { Ok(ordered) } else { Err(faults) }
}

/// The job without the links to jobs that are still to be made: for a check by the server, which
/// can't know them yet.
pub(super) fn without(job: &Job, to_be_made: &BTreeSet<String>) -> Job {
    let mut job = job.clone();
    job.on_success.retain(|name| !to_be_made.contains(name));
    job.on_failure.retain(|name| !to_be_made.contains(name));
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, on_success: &[&str], on_failure: &[&str]) -> Job {
        let full = |names: &[&str]| names.iter().map(|n| format!("apps/d/jobs/{n}")).collect();
        Job {
            name: format!("apps/d/jobs/{name}"),
            on_success: full(on_success),
            on_failure: full(on_failure),
            ..Job::default()
        }
    }

    fn ordered(jobs: &[Job]) -> Result<Vec<String>, Vec<String>> {
        let jobs = order(jobs)?;
        Ok(jobs.into_iter().map(|job| names::short(&job.name)).collect())
    }

    #[test]
    fn jobs_that_others_start_come_first_and_the_rest_stay_in_place() {
        let jobs = [
            job("z", &[], &[]),
            job("a", &["b", "elsewhere"], &["c"]),
            job("b", &["c"], &[]),
            job("c", &[], &[]),
            job("y", &["c"], &["c"]),
        ];
        assert_eq!(ordered(&jobs).expect("no circle"), ["d/z", "d/c", "d/b", "d/a", "d/y"]);
    }

    #[test]
    fn circles_are_told() {
        let jobs = [job("a", &["b"], &[]), job("b", &[], &["a"]), job("c", &["c"], &[])];
        let faults = ordered(&jobs).expect_err("circles");
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("d/b: starts d/a,"), "{faults:?}");
        assert!(faults[1].starts_with("d/c: starts d/c,"), "{faults:?}");
    }

    #[test]
    fn links_to_jobs_still_to_be_made_are_left_out() {
        let made = BTreeSet::from(["apps/d/jobs/b".to_owned()]);
        let left = without(&job("a", &["b", "c"], &["b"]), &made);
        assert_eq!((left.on_success, left.on_failure), (vec!["apps/d/jobs/c".to_owned()], vec![]));
    }
}
