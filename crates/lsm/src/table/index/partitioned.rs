//! A partitioned index: its partitions are pages of separators, which are loaded and evicted one by one. The separators
//! between partitions stay in memory (L2).

use std::{mem, result};

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::PAGE,
    table::{BlockAddress, Pages},
};

use crate::table::index::{
    Built, Candidates, IndexKind,
    single::{Separators, Single},
};

/// Bytes of a partition's header: checksum, first block, number of blocks, end of the separators.
const FRONT: usize = 16;

/// Builds a partitioned index. `None` if one partition holds all separators.
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
        kind: IndexKind::Partitioned,
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

/// Sets the checksum of a partition, which depends on its address.
pub(in super::super) fn seal(partition: &mut [u8], place: BlockAddress) {
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
    /// Parses and checks the page of a partition at an address, of a table with `blocks` blocks.
    pub(in super::super) fn parse(
        page: Pages,
        place: BlockAddress,
        blocks: u32,
    ) -> result::Result<Partition, Malformed> {
        let bytes = page.page(0);
        let mut r = Reader::new(bytes);
        if r.u32()? != place.checksum(bytes) {
            return Err(Malformed::new(0, "the checksum of a partition of the index does not match"));
        }
        let (first, own, len) = (r.u32()?, r.u32()?, r.u32()? as usize);
        if own == 0 || first.checked_add(own).is_none_or(|end| end > blocks) || !(FRONT..=PAGE).contains(&len) {
            return r.fail("a partition of the index has blocks that the table has not, or ends where it cannot");
        }
        // A partition keeps a whole frame, since its used length is not known before it is read.
        let page = page.ending_at(len, PAGE)?;
        Ok(Partition { separators: Single::parse(page, (FRONT, len), own)?, first })
    }

    /// The block that can have a key, among the blocks of this partition.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> Candidates {
        Candidates::one(self.first + self.separators.locate(key))
    }
}
