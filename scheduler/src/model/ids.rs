//! Identities: runs, jobs, apps, partitions.

use std::{fmt, str::FromStr};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ulid::Ulid;

/// How many partitions the jobs are spread over. Fixed when a database is created.
pub const PARTITION_COUNT: u16 = 64;
/// Jobs share so many locks, see [`JobId::stripe`]: a multiple of the partitions. More would keep fewer
/// runs of other jobs waiting for a change, but all of them must find room in Postgres's table of locks.
pub const STRIPE_COUNT: u16 = 16 * PARTITION_COUNT;

/// Where the mark of a shard's id lies: the 16 bits after the time.
const SHARD_MARK_SHIFT: u32 = 64;
/// The mark itself. The stores' filters know it.
const SHARD_MARK: u128 = 0xFFFF << SHARD_MARK_SHIFT;

/// Row id of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(pub i64);

/// Row id of a job. A job made anew under an old name has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub i64);

impl JobId {
    /// The partition the job belongs to: a multiplicative hash, so that jobs made one after the
    /// other spread evenly.
    pub fn partition(self) -> PartitionId {
        PartitionId((self.mixed() % u64::from(PARTITION_COUNT)) as u16)
    }

    /// Which of the [`STRIPE_COUNT`] locks excludes changes of the job and new runs of it from each
    /// other. All jobs of a stripe are of one partition.
    pub fn stripe(self) -> u16 {
        (self.mixed() % u64::from(STRIPE_COUNT)) as u16
    }

    fn mixed(self) -> u64 {
        (self.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
    }
}

/// A share of the jobs that a node may trigger: `0..PARTITION_COUNT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u16);

/// A run's ULID. Its first 48 bits are milliseconds since 1970, so a lookup knows its day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunId(pub Ulid);

impl RunId {
    /// The id of the run that a job's schedule makes for `fire_at`.
    ///
    /// It is a function of both, so the primary key itself is the unique key on (job, fire time):
    /// whoever plans a fire time twice meets the row that is already there. The 80 bits after the
    /// time are a hash; within one millisecond a million jobs collide with probability 4e-13.
    pub fn scheduled(job: JobId, fire_at: DateTime<Utc>) -> Self {
        let ms = fire_at.timestamp_millis();
        Self::derived(ms, &[b"clawjob run", &job.0.to_be_bytes(), &ms.to_be_bytes()])
    }

    /// An id of the millisecond whose other 80 bits are a hash of the parts.
    fn derived(ms: i64, parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        parts.iter().for_each(|part| hash.update(part));
        let mut tail = [0_u8; 16];
        tail[6..].copy_from_slice(&hash.finalize()[..10]);
        Self::plain(ms, u128::from_be_bytes(tail))
    }

    /// An id that is no shard's, whatever its other 80 bits.
    fn plain(ms: i64, tail: u128) -> Self {
        let marked = tail & SHARD_MARK == SHARD_MARK;
        let tail = if marked { tail ^ (1 << SHARD_MARK_SHIFT) } else { tail };
        Self(Ulid::from_parts(clamp_ms(ms), tail))
    }

    /// The id of the run of `target` that the end of a run at `ended_at` starts: whoever follows the
    /// end up a second time meets the row that is already there.
    pub fn chained(ended: Self, target: JobId, ended_at: DateTime<Utc>) -> Self {
        let ms = ended_at.timestamp_millis();
        Self::derived(ms, &[b"clawjob chain", &ended.to_bytes(), &target.0.to_be_bytes()])
    }

    /// The id of a parent's shard. All shards of a parent lie side by side, in the order of their
    /// index and at their parent's instant: see [`RunId::shards`]. The 16 bits after the time are
    /// all set in these ids and in no others, so that lists tell shards by the index of the ids.
    pub fn shard(parent: Self, index: u16) -> Self {
        let hash = Self::derived(0, &[b"clawjob shard", &parent.to_bytes()]).0.0;
        let family = hash & ((1 << SHARD_MARK_SHIFT) - 1) & !u128::from(u16::MAX);
        let tail = SHARD_MARK | family | u128::from(index);
        Self(Ulid::from_parts(parent.0.timestamp_ms(), tail))
    }

    /// Whether it is a shard's.
    pub fn is_shard(self) -> bool {
        self.0.0 & SHARD_MARK == SHARD_MARK
    }

    /// The first and the last id that a shard of the parent can have.
    pub fn shards(parent: Self) -> (Self, Self) {
        (Self::shard(parent, 0), Self::shard(parent, u16::MAX))
    }

    /// The id of a run made by hand (trigger, rerun): created at `now`, otherwise random.
    pub fn by_hand(now: DateTime<Utc>, random: u128) -> Self {
        Self::plain(now.timestamp_millis(), random)
    }

    /// The smallest id of the given instant: bounds a search by time.
    pub fn first_at(at: DateTime<Utc>) -> Self {
        Self(Ulid::from_parts(clamp_ms(at.timestamp_millis()), 0))
    }

    /// The instant the id carries.
    pub fn time(self) -> DateTime<Utc> {
        let ms = i64::try_from(self.0.timestamp_ms()).unwrap_or(i64::MAX);
        DateTime::from_timestamp_millis(ms).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// The 16 bytes as stored.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.0.to_be_bytes()
    }

    /// From the 16 stored bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Ulid(u128::from_be_bytes(bytes)))
    }

    /// As a UUID of the same bytes, the column type on Postgres.
    pub fn to_uuid(self) -> uuid::Uuid {
        uuid::Uuid::from_bytes(self.to_bytes())
    }

    /// From the UUID of the same bytes.
    pub fn from_uuid(id: uuid::Uuid) -> Self {
        Self::from_bytes(id.into_bytes())
    }

    /// The W3C trace id of the run: its own 16 bytes, so a run is one trace without a stored id.
    pub fn trace_id(self) -> [u8; 16] {
        self.to_bytes()
    }
}

fn clamp_ms(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RunId {
    type Err = ulid::DecodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ulid::from_string(text).map(Self)
    }
}

/// One attempt's identity on the wire: what every frame about it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttemptRef {
    /// The run.
    pub run: RunId,
    /// 1, 2, 3 …; grows per retry.
    pub attempt: u32,
    /// Grows per dispatch, even without a new attempt; SQL guards compare it.
    pub fence: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(ms).expect("in range")
    }

    #[test]
    fn the_same_fire_time_of_a_job_always_has_the_same_run_id() {
        let first = RunId::scheduled(JobId(7), at(1_700_000_000_123));
        assert_eq!(first, RunId::scheduled(JobId(7), at(1_700_000_000_123)));
        assert_ne!(first, RunId::scheduled(JobId(8), at(1_700_000_000_123)));
        assert_ne!(first, RunId::scheduled(JobId(7), at(1_700_000_000_124)));
        assert_eq!(first.time(), at(1_700_000_000_123));
    }

    #[test]
    fn the_shards_of_a_parent_lie_side_by_side_at_its_instant() {
        let parent = RunId::by_hand(at(1_700_000_000_000), 7);
        let (first, last) = RunId::shards(parent);
        let ids = [0, 1, 2, 9_999].map(|index| RunId::shard(parent, index));
        assert!(ids.is_sorted() && ids[0] == first && ids[3] < last);
        assert_eq!(ids[3].time(), parent.time());
        assert!(ids.iter().all(|id| id.is_shard()));
        let marked = RunId::by_hand(at(1_700_000_000_000), u128::MAX);
        assert!(!parent.is_shard() && !marked.is_shard());
        let other = RunId::by_hand(at(1_700_000_000_000), 8);
        assert!(!(first..=last).contains(&RunId::shard(other, 1)));
    }

    #[test]
    fn the_jobs_of_a_stripe_are_of_one_partition() {
        for job in (0..10_000).map(JobId) {
            assert!(job.stripe() < STRIPE_COUNT);
            assert_eq!(job.stripe() % PARTITION_COUNT, job.partition().0);
        }
    }

    #[test]
    fn ids_survive_text_bytes_and_uuid() {
        let id = RunId::by_hand(at(1_700_000_000_000), 0x1234_5678_9abc_def0_1234);
        assert_eq!(id.to_string().parse::<RunId>().expect("parses"), id);
        assert_eq!(RunId::from_bytes(id.to_bytes()), id);
        assert_eq!(RunId::from_uuid(id.to_uuid()), id);
    }

    #[test]
    fn jobs_made_in_a_row_spread_over_all_partitions() {
        let mut counts = vec![0_u32; usize::from(PARTITION_COUNT)];
        for id in 1..=6400 {
            counts[usize::from(JobId(id).partition().0)] += 1;
        }
        assert!(counts.iter().all(|count| (60..=140).contains(count)), "{counts:?}");
    }
}
