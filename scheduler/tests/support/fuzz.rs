//! Random inputs for one target: a usual number of them, or as many as a time allows.

#![allow(unreachable_pub, reason = "each test binary uses it")]
#![allow(clippy::disallowed_methods, reason = "fuzzing lasts for a while in real time")]

use std::time::{Duration, Instant};

use proptest::{prelude::ProptestConfig, test_runner::FileFailurePersistence};

/// Tries the property on `usual` inputs, and on as many again for as long as the variable
/// `CLAWJOB_FUZZ_SECONDS` says; prints how many that were. The seed of an input that finds a fault
/// is written to the file `kept`, which belongs into the repository: each later run begins with it.
pub fn fuzz(kept: &'static str, usual: u32, property: impl Fn(ProptestConfig)) {
    let seconds = match std::env::var("CLAWJOB_FUZZ_SECONDS") {
        Ok(text) => text.parse().expect("CLAWJOB_FUZZ_SECONDS is a whole number"),
        Err(_) => 0,
    };
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut tried = 0_u64;
    loop {
        property(ProptestConfig {
            failure_persistence: Some(Box::new(FileFailurePersistence::Direct(kept))),
            ..ProptestConfig::with_cases(usual)
        });
        tried += u64::from(usual);
        if Instant::now() >= until {
            println!("{kept}: {tried} inputs");
            return;
        }
    }
}
