//! The structure of a hash keyspace: its files, and which part of each is visible (`docs/format/hash.md`, "Structural
//! records" and "Root"). It has only names, so replay needs no I/O.

mod apply;
mod change;
pub(super) mod codec;
#[cfg(test)]
mod tests;

pub use ecotone_substrate::table::FileRef;

pub use self::{apply::ObsoleteFiles, change::ManifestEdit};
use super::{
    cold::HashRange,
    log::{Address, MAX_LOG, Segment},
};

/// Maximum number of segments.
pub(super) const MAX_SEGMENTS: usize = 1 << 16;
/// Maximum number of deltas.
pub(super) const MAX_DELTAS: usize = 255;
/// Maximum number of common hash bits of a partition.
pub(super) const MAX_PARTITION_BITS: u8 = 8;
/// Maximum number of hash bits before the tag of an index entry.
pub(super) const MAX_INDEX_BITS: u8 = 43;

/// A segment of the hot log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFile {
    /// The file.
    pub file: FileRef,
    /// Address of its first byte.
    pub from: Address,
    /// Bytes of log.
    pub bytes: u64,
}

impl LogFile {
    /// The address behind the last byte.
    pub(super) fn end(&self) -> Address {
        self.from.plus(self.bytes)
    }

    fn is_possible(&self) -> bool {
        Segment::is_possible(self.from, self.bytes)
    }
}

/// The hash range of a partition, and the base that has its records, if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionEntry {
    /// The hash range.
    pub hash_range: HashRange,
    /// The base.
    pub base: Option<FileRef>,
}

/// A delta: the live records of the hot log below an address and above that of the previous delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) file: FileRef,
    pub(crate) until: Address,
}

/// A partition: its base, which has the records of all deltas that end at or below address `merged_until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) part: PartitionEntry,
    pub(crate) merged_until: Address,
}

/// The structure of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashManifest {
    /// Number of upper hash bits that, with the bits of a tag, choose a chain of the hot log. It does not change in a
    /// session, and does not shrink in the next one while records of this one are left.
    pub(crate) index_bits: u8,
    /// The beginning of the hot log.
    pub(crate) begin: Address,
    /// The address below which its pages are complete on disk.
    pub(crate) durable: Address,
    /// Oldest first.
    pub(crate) segments: Vec<LogFile>,
    /// Oldest first.
    pub(crate) deltas: Vec<Delta>,
    /// In hash order; together they have all hashes.
    pub(crate) partitions: Vec<Partition>,
}

/// Why a structure is invalid.
pub type InvalidEdit = &'static str;

impl HashManifest {
    /// The structure of an empty keyspace.
    pub fn new(index_bits: u8) -> HashManifest {
        let all =
            Partition { part: PartitionEntry { hash_range: HashRange::ALL, base: None }, merged_until: Address::FIRST };
        HashManifest {
            index_bits,
            begin: Address::FIRST,
            durable: Address::FIRST,
            segments: Vec::new(),
            deltas: Vec::new(),
            partitions: vec![all],
        }
    }

    /// The numbers of all files.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.files().map(|file| file.number)
    }

    fn files(&self) -> impl Iterator<Item = FileRef> {
        self.segments.iter().map(|segment| segment.file).chain(self.tables())
    }

    /// The runs.
    pub(crate) fn tables(&self) -> impl Iterator<Item = FileRef> {
        let bases = self.partitions.iter().filter_map(|partition| partition.part.base);
        self.deltas.iter().map(|delta| delta.file).chain(bases)
    }

    /// Checks that the structure is consistent.
    pub(crate) fn check(&self) -> Result<(), InvalidEdit> {
        let at_pages = self.begin.in_page() == 0 && self.durable.in_page() == 0;
        if !at_pages || self.begin < Address::FIRST || self.durable < self.begin {
            return Err("the hot log begins or ends where it cannot");
        }
        if self.durable.get() - self.begin.get() > MAX_LOG {
            return Err("the hot log is too long");
        }
        if self.index_bits > MAX_INDEX_BITS {
            return Err("a chain of the hot log has hashes with more bits in common than there are");
        }
        self.check_segments()?;
        self.check_deltas()?;
        self.check_partitions()?;
        self.check_numbers()
    }

    fn check_segments(&self) -> Result<(), InvalidEdit> {
        let (Some(first), Some(last)) = (self.segments.first(), self.segments.last()) else {
            let nothing = self.begin == self.durable;
            return if nothing { Ok(()) } else { Err("the hot log has no segments") };
        };
        if self.segments.len() > MAX_SEGMENTS || !self.segments.iter().all(LogFile::is_possible) {
            return Err("there are too many segments, or one is where it cannot be");
        }
        let follow = self.segments.windows(2).all(|pair| pair[0].end() == pair[1].from);
        let cover = first.from <= self.begin && self.begin < first.end() && self.durable <= last.end();
        if follow && cover { Ok(()) } else { Err("the segments have not what the hot log has") }
    }

    fn check_deltas(&self) -> Result<(), InvalidEdit> {
        if self.deltas.len() > MAX_DELTAS {
            return Err("there are too many deltas");
        }
        let rise = self.deltas.windows(2).all(|pair| pair[0].until < pair[1].until);
        let last = self.deltas.last().is_none_or(|last| last.until <= self.begin);
        if rise && last { Ok(()) } else { Err("the deltas do not follow each other up to the hot log") }
    }

    fn check_partitions(&self) -> Result<(), InvalidEdit> {
        let mut next = 0;
        for Partition { part: PartitionEntry { hash_range, .. }, merged_until } in &self.partitions {
            let size = 1_u32 << (MAX_PARTITION_BITS - hash_range.bits());
            if u32::from(hash_range.number()) * size != next {
                return Err("the partitions do not follow each other");
            }
            if *merged_until > self.begin {
                return Err("a partition has what is in the hot log");
            }
            next += size;
        }
        if next == 1 << MAX_PARTITION_BITS { Ok(()) } else { Err("the partitions have not all hashes") }
    }

    fn check_numbers(&self) -> Result<(), InvalidEdit> {
        let mut numbers: Vec<u32> = self.numbers().collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("two files have one number");
        }
        Ok(())
    }
}
