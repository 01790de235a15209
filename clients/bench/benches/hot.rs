//! Wall times of the parts that each fire goes through, for people: `cargo bench -p clawjob-bench`.

use clawjob_bench::hot;
use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for mut case in hot::cases(hot::TIMED_JOBS) {
        criterion.bench_function(case.name, |bencher| bencher.iter(&mut case.run));
    }
    criterion.final_summary();
}
