//! Loads with a known end: so many jobs, each firing once a period from a start to an end. What was
//! lost is then a plain difference, and a scheduler that falls behind is seen to catch up.

use clawjob_proto::v1::{
    Job, MisfirePolicy, OverlapPolicy, Placement, RouteStrategy, Schedule, schedule::Trigger,
};
use prost_types::{Duration, Timestamp};

/// How the fire times of one period lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Evenly over the period.
    Spread,
    /// All at its begin.
    Herd,
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Jobs.
    pub jobs: u32,
    /// Each fires once in this time, milliseconds.
    pub period_ms: i64,
    /// And this often.
    pub times: u32,
    /// How the fire times of one period lie.
    pub shape: Shape,
    /// Which executor gets a run.
    pub route: RouteStrategy,
}

impl Load {
    /// `rate` jobs that fire once a second for so many seconds, evenly spread, with the default
    /// route.
    #[must_use]
    pub fn paced(rate: u32, seconds: u32) -> Self {
        let (shape, route) = (Shape::Spread, RouteStrategy::Unspecified);
        Self { jobs: rate, period_ms: 1_000, times: seconds, shape, route }
    }

    /// Fire times in all.
    #[must_use]
    pub fn fires(&self) -> u64 {
        u64::from(self.jobs) * u64::from(self.times)
    }

    /// Fire times of a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        f64::from(self.jobs) * 1_000.0 / self.period_ms as f64
    }

    /// Its jobs by name, the first fire time at `start_us` (microseconds since 1970).
    pub fn jobs(self, start_us: i64) -> impl Iterator<Item = (String, Job)> {
        (0..self.jobs).map(move |number| (format!("j-{number}"), self.job(number, start_us)))
    }

    fn job(self, number: u32, start_us: i64) -> Job {
        let period_us = self.period_ms * 1_000;
        let offset_ms = match self.shape {
            Shape::Spread => i64::from(number) * self.period_ms / i64::from(self.jobs),
            Shape::Herd => 0,
        };
        let first = start_us / 1_000 * 1_000 + offset_ms * 1_000;
        // Half a period after the last one, so that it is plain which that is.
        let end = first + i64::from(self.times) * period_us - period_us / 2;
        let nanos = i32::try_from(self.period_ms % 1_000 * 1_000_000).unwrap_or(0);
        let period = Duration { seconds: self.period_ms / 1_000, nanos };
        let schedule = Schedule {
            trigger: Some(Trigger::Interval(period)),
            start_time: Some(timestamp(first)),
            end_time: Some(timestamp(end)),
            ..Schedule::default()
        };
        Job {
            handler: "note".to_owned(),
            schedules: vec![schedule],
            overlap: OverlapPolicy::Allow.into(),
            max_queued: 10_000,
            // A ceiling is looked for by more than can be served: what is late is still served.
            misfire: MisfirePolicy::FireAll.into(),
            misfire_threshold: Some(Duration { seconds: 3_600, nanos: 0 }),
            placement: Some(Placement { route: self.route.into(), ..Placement::default() }),
            ..Job::default()
        }
    }
}

/// The instant in the contract's form, from microseconds since 1970.
#[must_use]
pub fn timestamp(us: i64) -> Timestamp {
    let nanos = i32::try_from(us.rem_euclid(1_000_000) * 1_000).unwrap_or(0);
    Timestamp { seconds: us.div_euclid(1_000_000), nanos }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_fires_as_often_as_it_says() {
        let load = Load::paced(4, 10);
        assert_eq!((load.fires(), load.rate()), (40, 4.0));
        let start = 1_700_000_000_000_000;
        let jobs: Vec<_> = load.jobs(start).collect();
        let firsts: Vec<i32> = jobs
            .iter()
            .map(|(_, job)| job.schedules[0].start_time.unwrap().nanos / 1_000_000)
            .collect();
        assert_eq!(firsts, [0, 250, 500, 750]);
        let schedule = &jobs[1].1.schedules[0];
        assert_eq!(schedule.end_time.unwrap(), timestamp(start + 250_000 + 9_500_000));
    }
}
