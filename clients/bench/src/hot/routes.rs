//! Which executor gets a run.

use std::hint::black_box;

use clawjob_scheduler::{
    model::{job::RouteStrategy, route::RouteCursor},
    route::{Choice, RouteState, note, pick},
};

use super::Case;

/// Executors to choose among.
const EXECUTORS: u32 = 16;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("route_round_robin", RouteStrategy::RoundRobin),
        case("route_random", RouteStrategy::Random),
        case("route_consistent_hash", RouteStrategy::ConsistentHash),
        case("route_least_frequently_used", RouteStrategy::LeastFrequentlyUsed),
        case("route_least_loaded", RouteStrategy::LeastLoaded),
    ]
}

fn case(name: &'static str, route: RouteStrategy) -> Case {
    let names: Vec<String> = (0..EXECUTORS).map(|number| format!("executor-{number}")).collect();
    let mut cursor = RouteCursor::default();
    Case::new(name, move || {
        let choices: Vec<Choice<'_>> = names.iter().zip(1..).map(choice).collect();
        let state = RouteState { cursor: &cursor, key: "orders", busy_threshold: 0.0, random: 0.4 };
        if let Some(chosen) = pick(route, black_box(&choices), state) {
            black_box(note(route, &choices, chosen, &mut cursor));
        }
    })
}

fn choice((name, row): (&String, i64)) -> Choice<'_> {
    let used = (row % 4) as u32;
    Choice { row, name, free: 8 - used, used, slots: 8, cpu: 0.0, silent: false }
}
