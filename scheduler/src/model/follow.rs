//! What must happen once a run has ended: a fact of its row, fixed when the run is made.

use serde::{Deserialize, Serialize};

use super::run::RunState;

/// Who waits for a run's end, as a set of bits. The stores read the bits in SQL: their values are
/// part of the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Follow(u8);

impl Follow {
    /// Nobody.
    pub const NOTHING: Self = Self(0);
    /// A parent: the run is one of its shards.
    pub const SHARD: Self = Self(1);
    /// Jobs that its job names under `on_success`.
    pub const ON_SUCCESS: Self = Self(2);
    /// Jobs that its job names under `on_failure`.
    pub const ON_FAILURE: Self = Self(4);
    /// Not a wait: the run is a parent, which is split into shards and never sent itself.
    pub const PARENT: Self = Self(8);

    /// The set of these stored bits.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Both sets together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of the other's bits are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Nobody waits.
    pub fn is_nothing(&self) -> bool {
        *self == Self::NOTHING
    }

    /// Who is to be told when the run ends in `state`: what is CANCELED or SKIPPED starts no other
    /// job, and a shard always tells its parent.
    pub fn at_end(self, state: RunState) -> Self {
        let of_jobs = match state {
            RunState::Succeeded => Self::ON_SUCCESS.0,
            RunState::Failed | RunState::TimedOut | RunState::Lost => Self::ON_FAILURE.0,
            _ => 0,
        };
        Self(self.0 & (Self::SHARD.0 | of_jobs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canceled_and_skipped_runs_start_no_other_job() {
        let all = Follow::ON_SUCCESS.with(Follow::ON_FAILURE).with(Follow::PARENT);
        for state in RunState::ALL {
            let told = match state {
                RunState::Succeeded => Follow::ON_SUCCESS,
                RunState::Failed | RunState::TimedOut | RunState::Lost => Follow::ON_FAILURE,
                _ => Follow::NOTHING,
            };
            assert_eq!(all.at_end(state), told, "{state:?}");
            assert_eq!(Follow::SHARD.at_end(state), Follow::SHARD, "{state:?}");
        }
    }

    #[test]
    fn it_is_stored_as_a_number() {
        let both = Follow::ON_FAILURE.with(Follow::PARENT);
        assert_eq!(serde_json::to_string(&both).expect("a number"), "12");
        assert!(both.has(Follow::PARENT) && !both.has(Follow::SHARD));
    }
}
