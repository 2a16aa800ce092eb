//! What a hash keyspace consists of: which files, and what of them counts (`docs/format/hash.md`, "Structural records"
//! and "Root"). Names alone, so that replay needs no I/O.

mod apply;
mod change;
pub(super) mod codec;
#[cfg(test)]
mod tests;

pub use self::{
    apply::Gone,
    change::{Change, Part},
};
pub use ecotone_substrate::table::File;

use super::{
    cold::Stretch,
    log::{Address, MAX_LOG, Segment},
};

/// Segments at a time.
pub(super) const MAX_SEGMENTS: usize = 1 << 16;
/// Deltas at a time.
pub(super) const MAX_DELTAS: usize = 255;
/// Partitions, by the bits that their hashes have in common at most.
pub(super) const MAX_PARTITION_BITS: u8 = 8;
/// Bits of a hash that can stand before the tag of an entry of the index.
pub(super) const MAX_INDEX_BITS: u8 = 43;

/// A segment of the hot log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFile {
    /// Which file has it.
    pub file: File,
    /// Address of its first byte.
    pub from: Address,
    /// Bytes of log.
    pub bytes: u64,
}

impl LogFile {
    /// The address behind its last one.
    pub(super) fn end(&self) -> Address {
        self.from.plus(self.bytes)
    }

    fn is_possible(&self) -> bool {
        Segment::is_possible(self.from, self.bytes)
    }
}

/// A delta: what was alive in the hot log below an address, and above the one of the delta before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) file: File,
    pub(crate) until: Address,
}

/// A partition: its base, which has what the deltas have that end at or below an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) part: Part,
    pub(crate) folded: Address,
}

/// What a keyspace consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// Keys whose hashes begin with the same so many bits, and the bits of a tag, are in one chain of the hot log. It
    /// is the same in a life, and no less in the next one if records are left of this one.
    pub(crate) index_bits: u8,
    /// Where the hot log begins.
    pub(crate) begin: Address,
    /// Up to where its pages are whole.
    pub(crate) durable: Address,
    /// Oldest first.
    pub(crate) segments: Vec<LogFile>,
    /// Oldest first.
    pub(crate) deltas: Vec<Delta>,
    /// In the order of their hashes, of which they have all.
    pub(crate) partitions: Vec<Partition>,
}

/// Why something is no structure.
pub type Misfit = &'static str;

impl Structure {
    /// Of an empty keyspace.
    pub fn new(index_bits: u8) -> Structure {
        let all = Partition { part: Part { stretch: Stretch::ALL, base: None }, folded: Address::FIRST };
        Structure {
            index_bits,
            begin: Address::FIRST,
            durable: Address::FIRST,
            segments: Vec::new(),
            deltas: Vec::new(),
            partitions: vec![all],
        }
    }

    /// Numbers of all files.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.files().map(|file| file.number)
    }

    fn files(&self) -> impl Iterator<Item = File> {
        self.segments.iter().map(|segment| segment.file).chain(self.tables())
    }

    /// The runs.
    pub(crate) fn tables(&self) -> impl Iterator<Item = File> {
        let bases = self.partitions.iter().filter_map(|partition| partition.part.base);
        self.deltas.iter().map(|delta| delta.file).chain(bases)
    }

    /// Whether everything fits together.
    pub(crate) fn check(&self) -> Result<(), Misfit> {
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

    fn check_segments(&self) -> Result<(), Misfit> {
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

    fn check_deltas(&self) -> Result<(), Misfit> {
        if self.deltas.len() > MAX_DELTAS {
            return Err("there are too many deltas");
        }
        let rise = self.deltas.windows(2).all(|pair| pair[0].until < pair[1].until);
        let last = self.deltas.last().is_none_or(|last| last.until <= self.begin);
        if rise && last { Ok(()) } else { Err("the deltas do not follow each other up to the hot log") }
    }

    fn check_partitions(&self) -> Result<(), Misfit> {
        let mut next = 0;
        for Partition { part: Part { stretch, .. }, folded } in &self.partitions {
            let size = 1_u32 << (MAX_PARTITION_BITS - stretch.bits());
            if u32::from(stretch.number()) * size != next {
                return Err("the partitions do not follow each other");
            }
            if *folded > self.begin {
                return Err("a partition has what is in the hot log");
            }
            next += size;
        }
        if next == 1 << MAX_PARTITION_BITS { Ok(()) } else { Err("the partitions have not all hashes") }
    }

    fn check_numbers(&self) -> Result<(), Misfit> {
        let mut numbers: Vec<u32> = self.numbers().collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("two files have one number");
        }
        Ok(())
    }
}
