//! The jobs held, packed side by side, partition by partition: a job leaves only with its partition.

use crate::model::ids::{JobId, PARTITION_COUNT, PartitionId};

use super::jobs::JobEntry;

/// Jobs of one partition at most: far more than a node has memory for.
const PLACES_MAX: usize = (u32::MAX / PARTITION_COUNT as u32) as usize;
/// No entry is at this place.
const VACANT: u32 = u32::MAX;

/// Where a job's entry is: its partition and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(u32);

impl Slot {
    pub(super) fn new(partition: PartitionId, place: u32) -> Self {
        Self(place * u32::from(PARTITION_COUNT) + u32::from(partition.0))
    }

    /// The job's partition.
    pub(super) fn partition(self) -> PartitionId {
        PartitionId((self.0 % u32::from(PARTITION_COUNT)) as u16)
    }

    fn place(self) -> usize {
        (self.0 / u32::from(PARTITION_COUNT)) as usize
    }
}

/// The jobs of all partitions held.
pub(super) struct Jobs(Vec<Table>);

impl Default for Jobs {
    fn default() -> Self {
        Self((0..PARTITION_COUNT).map(|_| Table::default()).collect())
    }
}

impl Jobs {
    /// Where the job is, if it is known.
    pub(super) fn slot(&self, id: JobId) -> Option<Slot> {
        let partition = id.partition();
        let place = self.0[usize::from(partition.0)].find(id)?;
        Some(Slot::new(partition, place))
    }

    pub(super) fn contains(&self, id: JobId) -> bool {
        self.slot(id).is_some()
    }

    pub(super) fn get(&self, id: JobId) -> Option<&JobEntry> {
        self.at(self.slot(id)?)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut JobEntry> {
        self.at_mut(self.slot(id)?)
    }

    /// The entry at a slot; none once its partition was released.
    pub(super) fn at(&self, slot: Slot) -> Option<&JobEntry> {
        self.0[usize::from(slot.partition().0)].entries.get(slot.place())
    }

    pub(super) fn at_mut(&mut self, slot: Slot) -> Option<&mut JobEntry> {
        self.0[usize::from(slot.partition().0)].entries.get_mut(slot.place())
    }

    /// The name of the job at a slot.
    pub(super) fn name(&self, slot: Slot) -> &str {
        self.0[usize::from(slot.partition().0)].name(slot.place())
    }

    /// Adds a job that is not known yet.
    pub(super) fn add(&mut self, entry: JobEntry, name: &str) {
        self.0[usize::from(entry.id.partition().0)].add(entry, name);
    }

    /// Forgets all jobs of the partition.
    pub(super) fn release(&mut self, partition: PartitionId) {
        self.0[usize::from(partition.0)] = Table::default();
    }

    /// Gives back the room that was kept for further jobs of the partition: few come later.
    pub(super) fn trim(&mut self, partition: PartitionId) {
        let table = &mut self.0[usize::from(partition.0)];
        table.entries.shrink_to_fit();
        table.names.shrink_to_fit();
        let length = least_index(table.entries.len());
        if table.index.len() > length {
            table.index_anew(length);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|table| table.entries.len()).sum()
    }

    /// The jobs of a partition.
    pub(super) fn of(&self, partition: PartitionId) -> impl Iterator<Item = &JobEntry> {
        self.0[usize::from(partition.0)].entries.iter()
    }

    pub(super) fn of_mut(&mut self, partition: PartitionId) -> impl Iterator<Item = &mut JobEntry> {
        self.0[usize::from(partition.0)].entries.iter_mut()
    }
}

/// The jobs of a partition.
#[derive(Default)]
struct Table {
    entries: Vec<JobEntry>,
    /// All names in a row; each entry knows where its own ends.
    names: String,
    /// Places of the entries by a hash of their ids, each at the first vacant place from there on. At
    /// most three quarters are taken.
    index: Vec<u32>,
}

impl Table {
    fn find(&self, id: JobId) -> Option<u32> {
        if self.index.is_empty() {
            return None;
        }
        let mut probe = home(id, self.index.len());
        loop {
            let place = self.index[probe];
            if place == VACANT {
                return None;
            }
            if self.entries[place as usize].id == id {
                return Some(place);
            }
            probe = if probe + 1 == self.index.len() { 0 } else { probe + 1 };
        }
    }

    fn name(&self, place: usize) -> &str {
        let end = |place: usize| self.entries[place].name_end as usize;
        let start = place.checked_sub(1).map_or(0, end);
        &self.names[start..end(place)]
    }

    fn add(&mut self, mut entry: JobEntry, name: &str) {
        self.names.push_str(name);
        let name_end = u32::try_from(self.names.len()).ok();
        let place = Some(self.entries.len()).filter(|place| *place < PLACES_MAX);
        let (Some(name_end), Some(place)) = (name_end, place) else {
            panic!("a partition has more than {PLACES_MAX} jobs, or names of more than 4 GiB");
        };
        entry.name_end = name_end;
        self.entries.push(entry);
        if self.index.len() < least_index(self.entries.len()) {
            self.index_anew(self.entries.len() * 2);
        } else {
            self.note(place);
        }
    }

    /// An index of that length.
    fn index_anew(&mut self, length: usize) {
        self.index = vec![VACANT; length];
        (0..self.entries.len()).for_each(|place| self.note(place));
    }

    /// Puts a place into the index.
    fn note(&mut self, place: usize) {
        let mut probe = home(self.entries[place].id, self.index.len());
        while self.index[probe] != VACANT {
            probe = if probe + 1 == self.index.len() { 0 } else { probe + 1 };
        }
        self.index[probe] = place as u32;
    }
}

/// How long an index of so many jobs is at least.
fn least_index(jobs: usize) -> usize {
    (jobs * 4).div_ceil(3)
}

/// Where in an index of that length a job is looked for first: a multiplicative hash of its id as a
/// fraction of the length.
fn home(id: JobId, length: usize) -> usize {
    let hash = (id.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((u128::from(hash) * length as u128) >> 64) as usize
}
