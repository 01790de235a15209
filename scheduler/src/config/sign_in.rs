//! How long people stay signed in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Shortest and longest time that may be set.
const BOUNDS: (Duration, Duration) =
    (Duration::from_secs(5 * 60), Duration::from_secs(90 * 24 * 60 * 60));

/// How long sign-ins last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignIn {
    /// Without a call one ends after this time.
    #[serde(with = "super::period")]
    pub idle_end: Duration,
    /// It ends after this time, used or not.
    #[serde(with = "super::period")]
    pub absolute_end: Duration,
}

impl Default for SignIn {
    fn default() -> Self {
        let hour = Duration::from_secs(3600);
        Self { idle_end: hour, absolute_end: 12 * hour }
    }
}

impl SignIn {
    /// Values out of bounds.
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        for (key, value) in
            [("sign_in.idle_end", self.idle_end), ("sign_in.absolute_end", self.absolute_end)]
        {
            if value < BOUNDS.0 || value > BOUNDS.1 {
                faults.push((key, "5m to 90d".to_owned()));
            }
        }
        if self.idle_end > self.absolute_end {
            faults.push(("sign_in.idle_end", "at most sign_in.absolute_end".to_owned()));
        }
        faults
    }
}
