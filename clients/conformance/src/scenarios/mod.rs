//! Scenarios that play the scheduler against an SDK's program: C by their numbers in the contract,
//! V for releases of either side that are apart, B for what is too large.

mod bounds;
mod ends;
mod kills;
mod logs;
mod moves;
mod opening;
mod policies;
mod reconnect;
mod results;
mod runs;
mod secure;
mod versions;

use clawjob_conformance::{Fake, Session};
use clawjob_proto::v1::{Heartbeat, Welcome, session_response::Frame as Down};

use crate::judge::Scenario;
use crate::program::{Program, Subject};

/// For a run that ends only when it is told to.
const ENDLESS: &str = r#"{"ms":600000}"#;

/// All of them, in the order of their ids.
pub(crate) fn all() -> Vec<&'static Scenario<Subject>> {
    let parts = [
        opening::SCENARIOS,
        runs::SCENARIOS,
        kills::SCENARIOS,
        results::SCENARIOS,
        reconnect::SCENARIOS,
        moves::SCENARIOS,
        ends::SCENARIOS,
        logs::SCENARIOS,
        policies::SCENARIOS,
        secure::SCENARIOS,
        versions::SCENARIOS,
        bounds::SCENARIOS,
    ];
    let mut all: Vec<_> = parts.into_iter().flatten().collect();
    let place = |kind: char| "CVB".find(kind);
    all.sort_by_key(|scenario| {
        let id = scenario.id();
        (id.chars().next().and_then(place), id)
    });
    all
}

/// A scheduler, a program that serves it, and its session, welcomed.
async fn open(subject: &Subject) -> (Fake, Program, Session) {
    open_with(subject, clawjob_conformance::frames::welcome()).await
}

/// As [`open`], with a Welcome of the scenario's.
async fn open_with(subject: &Subject, welcome: Welcome) -> (Fake, Program, Session) {
    let mut fake = Fake::start().await;
    let program = subject.start(&fake);
    let session = fake.accept().await;
    session.send(Down::Welcome(welcome)).await;
    (fake, program, session)
}

/// The runs that a Heartbeat lists, and which of them have ended.
fn listed(beat: &Heartbeat) -> Vec<(String, bool)> {
    let mut runs: Vec<_> = beat
        .attempts
        .iter()
        .map(|attempt| (attempt.r#ref.clone().unwrap_or_default().run_id, attempt.finished))
        .collect();
    runs.sort();
    runs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn every_number_of_the_contract_has_its_scenario() {
        let ids: BTreeSet<String> =
            super::all().into_iter().map(|scenario| scenario.id()).collect();
        assert_eq!(ids.len(), super::all().len(), "an id twice");
        for number in 1..=60 {
            assert!(ids.contains(&format!("C{number:02}")), "C{number:02} is missing");
        }
    }
}
