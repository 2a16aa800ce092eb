//! A partitioned index: separators in pages of the file, partitions, of which each comes and goes by itself, and those
//! between partitions in memory (L2).

use std::{mem, result};

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::PAGE,
    table::{Pages, Place},
};

use super::{
    Built, Candidates, Kind,
    single::{Separators, Single},
};

/// Bytes in front of the separators of a partition: checksum, first block, blocks, where the separators end.
const FRONT: usize = 16;

/// Learns one. None if one partition has room for all.
pub(super) fn build(separators: &Separators) -> Option<Built> {
    let (mut between, mut partitions) = (Separators::default(), Vec::new());
    let (mut inside, mut first, mut next) = (Separators::default(), 0, 1);
    separators.each(|separator| {
        if inside.has_room(separator, PAGE - FRONT) {
            inside.push(separator);
        } else {
            partitions.push(encode(&mem::take(&mut inside), first, next - first));
            between.push(separator);
            first = next;
        }
        next += 1;
    });
    partitions.push(encode(&inside, first, next - first));
    (partitions.len() > 1).then(|| Built {
        kind: Kind::Partitioned,
        bytes: between.encode(0),
        partitions,
        in_vain: 0.0,
    })
}

fn encode(separators: &Separators, first: u32, blocks: u32) -> Vec<u8> {
    let mut bytes = separators.encode(FRONT);
    let mut front = Writer::new();
    front.u32(0).u32(first).u32(blocks).u32(bytes.len() as u32);
    bytes[..FRONT].copy_from_slice(front.as_slice());
    bytes.resize(PAGE, 0);
    bytes
}

/// Puts the checksum into a partition that belongs to a place.
pub(in super::super) fn seal(partition: &mut [u8], place: Place) {
    let sum = place.checksum(partition);
    partition[..4].copy_from_slice(&sum.to_le_bytes());
}

/// A partition, in memory.
#[derive(Debug)]
pub struct Partition {
    separators: Single,
    /// Its first block.
    first: u32,
}

impl Partition {
    /// Takes a page that belongs to a place, of a table with so many blocks, and looks at all of it.
    pub(in super::super) fn parse(page: Pages, place: Place, blocks: u32) -> result::Result<Partition, Malformed> {
        let bytes = page.page(0);
        let mut r = Reader::new(bytes);
        if r.u32()? != place.checksum(bytes) {
            return Err(Malformed::new(0, "the checksum of a partition of the index does not match"));
        }
        let (first, own, len) = (r.u32()?, r.u32()?, r.u32()? as usize);
        if own == 0 || first.checked_add(own).is_none_or(|end| end > blocks) || !(FRONT..=PAGE).contains(&len) {
            return r.fail("a partition of the index has blocks that the table has not, or ends where it cannot");
        }
        // It keeps its frame: how much of it is used is not known before it is read.
        let page = page.ending_at(len, PAGE)?;
        Ok(Partition { separators: Single::parse(page, (FRONT, len), own)?, first })
    }

    /// The block that can have a key, of those that the partition is for.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> Candidates {
        Candidates::one(self.first + self.separators.locate(key))
    }
}
