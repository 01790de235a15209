//! What the runs of one backfill have in common.

use serde::{Deserialize, Serialize};

use super::ids::RunId;

/// The runs that one backfill made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackfillGroup {
    /// The first of them.
    pub first: RunId,
    /// How many of them may be under way at once, at least 1.
    pub at_once: u32,
}
