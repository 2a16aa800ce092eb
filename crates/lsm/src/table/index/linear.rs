//! An index by simple linear regression, packed. For each group of blocks there is a line from its first key to that of
//! the next group. For each block the index stores the deviation of its separator from the line, in as many bits as the
//! group needs (L4; lsm.md, "Tables").
//!
//! A separator is stored as its *number*, a point on a grid that is as coarse as possible. If a grid point lies between
//! two blocks, the number tells them apart. Otherwise the blocks *tie*: keys of the left block may have the number of
//! the right one.

mod group;

use std::result;

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::PAGE,
    model::digest,
    search::partition_near,
    table::Pages,
};

use crate::table::{
    boundaries::Bounds,
    index::{
        Built, Candidates, IndexKind, Shape,
        bits::LOOK,
        layout::Layout,
        linear::group::{Draft, Group, HEAD, Line},
    },
};

/// Bytes of the header.
const FRONT: usize = 16;
/// Groups have from 32 to 512 blocks.
const LOGS: std::ops::RangeInclusive<u8> = 5..=9;
/// Ties may cost at most one extra read for this many keys.
const MOST_COST: u64 = 64;

/// The smallest index over all group sizes, if digests tell the blocks apart.
pub(super) fn build(blocks: &[Bounds]) -> Option<Built> {
    LOGS.filter_map(|log| build_with(blocks, log)).min_by_key(|built| built.bytes.len())
}

/// The index with groups of 2^`log` blocks.
fn build_with(blocks: &[Bounds], log: u8) -> Option<Built> {
    let last = blocks.last()?.last;
    let groups: Vec<&[Bounds]> = blocks.chunks(1 << log).collect();
    let mut layout = Layout::zeroed(FRONT + HEAD * groups.len());
    let mut front = Writer::new();
    front.u8(log).bytes(&[0; 3]).u32(groups.len() as u32).u64(last);
    layout.set(0, front.as_slice());
    let (mut cost, mut records) = (0, 0);
    for (number, group) in groups.iter().enumerate() {
        let next = groups.get(number + 1).map_or(last, |next| next[0].first);
        let draft = Draft::new(group, Line::new(group[0].first, next, group.len(), log))?;
        let at = layout.put(&draft.body(), 4, LOOK);
        layout.set(FRONT + HEAD * number, &draft.head(at));
        cost += draft.cost;
        records += group.iter().map(|bounds| u64::from(bounds.records)).sum::<u64>();
    }
    (cost * MOST_COST <= records)
        .then(|| Built::whole(IndexKind::Linear, layout.finish(), cost as f64 / records as f64))
}

/// The groups of a table, in memory.
#[derive(Debug)]
pub(super) struct Linear {
    pages: Pages,
    log: u8,
    groups: usize,
    /// The digest of the table's last key.
    last: u64,
    blocks: u32,
}

impl Linear {
    /// Parses and checks the index of a file.
    pub(super) fn parse(pages: Pages, len: usize, blocks: u32) -> result::Result<Linear, Malformed> {
        let Some(page) = pages.iter().next() else { return Err(Malformed::new(0, "the index has no bytes")) };
        let mut r = Reader::new(page);
        let (log, reserved, groups, last) = (r.u8()?, r.array()?, r.u32()? as usize, r.u64()?);
        if !LOGS.contains(&log) || reserved != [0; 3] || groups != (blocks as usize).div_ceil(1 << log) {
            return Err(Malformed::new(0, "the index has groups that its blocks cannot be in"));
        }
        if FRONT + groups.saturating_mul(HEAD) > len {
            return Err(Malformed::new(4, "the index has more groups than bytes"));
        }
        let linear = Linear { pages, log, groups, last, blocks };
        (0..groups).try_for_each(|number| linear.check(number, len))?;
        Ok(linear)
    }

    fn check(&self, number: usize, len: usize) -> result::Result<(), Malformed> {
        let fail = |what| Err(Malformed::new(FRONT + HEAD * number, what));
        let head = self.head(number);
        if self.base(number) > self.next_base(number) {
            return fail("the groups are out of order");
        }
        let Some(bytes) = group::body_bytes(&head, self.blocks_of(number)) else {
            return fail("a group has a shift or a width that cannot be");
        };
        let at = group::body_at(&head);
        if at + bytes > len || at / PAGE >= self.pages.len() || at % PAGE + bytes + LOOK > PAGE {
            return fail("a group lies outside of its page");
        }
        if number + 1 == self.groups && at + bytes != len {
            return fail("the last group does not end the index");
        }
        let group = self.group(number);
        let numbers: Vec<i128> = (0..self.blocks_of(number)).map(|block| group.number(block)).collect();
        if numbers.is_sorted() { Ok(()) } else { fail("the separators of a group are out of order") }
    }

    fn head(&self, number: usize) -> [u8; HEAD] {
        let at = FRONT + HEAD * number;
        *self.pages.get(at / PAGE, at % PAGE)
    }

    /// The digest of a group's first key.
    #[inline]
    fn base(&self, number: usize) -> u64 {
        group::base(&self.head(number))
    }

    fn next_base(&self, number: usize) -> u64 {
        if number + 1 < self.groups { self.base(number + 1) } else { self.last }
    }

    /// The first block of a group.
    fn start(&self, number: usize) -> u32 {
        (number << self.log) as u32
    }

    fn blocks_of(&self, number: usize) -> usize {
        (self.blocks - self.start(number)).min(1 << self.log) as usize
    }

    #[inline]
    fn group(&self, number: usize) -> Group<'_> {
        let blocks = self.blocks_of(number);
        let line = Line::new(self.base(number), self.next_base(number), blocks, self.log);
        let head = self.head(number);
        let at = group::body_at(&head);
        Group::new(line, &head, blocks, &self.pages.page(at / PAGE)[at % PAGE..])
    }

    /// The blocks that can have a key.
    pub(super) fn locate(&self, key: &[u8], shape: Shape) -> Candidates {
        let digest = digest(key, shape.skip);
        let (low, span) = (self.base(0), self.last.saturating_sub(self.base(0)));
        let guess = digest.saturating_sub(low) as f64 / span as f64 * self.groups as f64;
        let number =
            partition_near(self.groups, guess as usize, |number| self.base(number) <= digest).saturating_sub(1);
        let block = self.group(number).last_up_to(digest);
        let first = self.start(number) + block as u32;
        Candidates::new(first, self.lowest(number, digest).min(first), first)
    }

    /// The lowest block that can have a digest, which is at or below those of group `number`.
    fn lowest(&self, number: usize, digest: u64) -> u32 {
        let mut number = number;
        loop {
            match self.group(number).blocks_below(digest).checked_sub(1) {
                Some(block) => return self.start(number) + block as u32,
                // Groups before may end with the digest that this one begins with.
                None if digest <= self.base(number) && number > 0 => number -= 1,
                None => return self.start(number),
            }
        }
    }
}
