//! B10: the pure parts that each fire goes through. `cargo bench -p clawjob-bench` times them for
//! people; `clawjob-bench b10` counts their instructions, which a busy machine does not change.

mod frames;
mod routes;
mod schedules;
mod tick;

/// Jobs on the board whose steps are counted. Loading more under callgrind takes minutes; a step
/// that is no longer logarithmic shows as well.
pub const COUNTED_JOBS: i64 = 2_000;
/// Jobs on the board whose steps are timed.
pub const TIMED_JOBS: i64 = 1_000_000;
/// Calls of a part that are counted together: they are not quite alike, a fire time is found sooner
/// or later.
const CALLS: u32 = 32;

/// One part.
pub struct Case {
    /// As in the file of counts.
    pub name: &'static str,
    /// Does it once.
    pub run: Box<dyn FnMut()>,
}

impl Case {
    fn new(name: &'static str, run: impl FnMut() + 'static) -> Self {
        Self { name, run: Box::new(run) }
    }
}

/// All parts, made ready, with a board of so many jobs.
#[must_use]
pub fn cases(jobs: i64) -> Vec<Case> {
    let mut all = schedules::cases();
    all.push(tick::case(jobs));
    all.extend(frames::cases());
    all.extend(routes::cases());
    all
}

/// Runs each part under the name that callgrind looks for, and says in that order what they are.
pub fn run_all() {
    for mut case in cases(COUNTED_JOBS) {
        // What is made at the first use only, such as the table of time zones, is not counted.
        (case.run)();
        counted(&mut case.run);
        println!("{} {CALLS}", case.name);
    }
}

/// The calls that are counted: a function of its own, which callgrind knows by its name.
#[inline(never)]
fn counted(run: &mut dyn FnMut()) {
    for _ in 0..CALLS {
        run();
    }
}
