//! One group of blocks of a linear index: its line, its grid, its deviations (`docs/format/lsm.md`, "Linear").

use ecotone_substrate::search::partition_near;

use crate::table::{
    boundaries::Bounds,
    index::bits::{self, LOOK},
};

/// Bytes of a group's head.
pub(super) const HEAD: usize = 16;
/// The grid is made finer while the ties of a group cost more than one read for this many records.
const COST: u64 = 128;
/// Deviations of more bits are stored around zero; narrower ones above the smallest.
const NARROW: u32 = 22;
/// Bits of the head's field for the smallest deviation.
const LEAST_BITS: u32 = 24;

/// The digest of the first key.
#[inline]
pub(super) fn base(head: &[u8; HEAD]) -> u64 {
    u64::from_le_bytes(*head.first_chunk().expect("a head is longer"))
}

/// The offset of the deviations.
#[inline]
pub(super) fn body_at(head: &[u8; HEAD]) -> usize {
    4 * u32::from_le_bytes([head[8], head[9], head[10], 0]) as usize
}

/// Bytes of the deviations; `None` if the shift or the width is invalid.
pub(super) fn body_bytes(head: &[u8; HEAD], blocks: usize) -> Option<usize> {
    let (shift, width) = (head[11], u32::from(head[12]));
    let least_is_zero = width <= NARROW || head[13..] == [0; 3];
    (u32::from(shift) < u64::BITS && width <= bits::MAX_BITS && least_is_zero)
        .then(|| (blocks.saturating_sub(1) * width as usize).div_ceil(8))
}

/// The line from the first digest of a group to that of the next, over the blocks of the group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    base: u64,
    /// The span of digests of a full group.
    span: u128,
    log: u8,
}

impl Line {
    #[inline]
    pub(super) fn new(base: u64, next: u64, blocks: usize, log: u8) -> Line {
        let span = u128::from(next.saturating_sub(base));
        let is_whole = blocks == 1 << log;
        Line { base, span: if is_whole { span } else { (span << log) / blocks as u128 }, log }
    }

    /// The grid point that the line predicts for the separator before a block.
    #[inline]
    fn predicted(self, block: usize, shift: u8) -> i128 {
        (((self.span * block as u128) >> self.log) >> shift) as i128
    }

    /// The grid point of a digest, which is at or above the first.
    #[inline]
    fn number(self, digest: u64, shift: u8) -> i128 {
        i128::from(digest.saturating_sub(self.base) >> shift)
    }

    /// The block that the line predicts for a digest.
    #[inline]
    fn guess(self, digest: u64) -> usize {
        let blocks = digest.saturating_sub(self.base) as f64 / self.span as f64 * f64::from(1_u32 << self.log);
        blocks as usize
    }
}

/// A group that is being built.
#[derive(Debug)]
pub(super) struct Draft {
    base: u64,
    shift: u8,
    width: u32,
    /// The smallest deviation, for the head.
    least: i32,
    stored: Vec<u64>,
    /// Extra reads that ties cost if every record is read once.
    pub(super) cost: u64,
}

impl Draft {
    /// A group with the coarsest grid whose ties cost little enough. `None` if deviations are too large.
    pub(super) fn new(blocks: &[Bounds], line: Line) -> Option<Draft> {
        let records: u64 = blocks.iter().map(|bounds| u64::from(bounds.records)).sum();
        let spacing = line.span >> line.log;
        let coarsest = (u128::BITS - spacing.leading_zeros()).min(u64::BITS - 1) as u8;
        let costs = (0..=coarsest).rev().map(|shift| (shift, ties(blocks, line, shift)));
        let mut costs = costs.skip_while(|(shift, cost)| cost * COST > records && *shift > 0);
        let (shift, cost) = costs.next()?;
        let numbers = blocks.windows(2).map(|pair| separator(pair, line, shift).unwrap_or_else(|tied| tied));
        let deviations: Vec<i128> =
            (1..).zip(numbers).map(|(block, number)| number - line.predicted(block, shift)).collect();
        let (width, least) = measure(&deviations)?;
        let origin = origin(width, least);
        let stored = deviations.iter().map(|deviation| (deviation - origin) as u64).collect();
        Some(Draft { base: line.base, shift, width, least, stored, cost })
    }

    /// Its deviations, packed.
    pub(super) fn body(&self) -> Vec<u8> {
        bits::pack(self.width, self.stored.iter().copied())
    }

    /// Its head; `at` is the offset of its deviations.
    pub(super) fn head(&self, at: usize) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&self.base.to_le_bytes());
        head[8..11].copy_from_slice(&(at as u32 / 4).to_le_bytes()[..3]);
        (head[11], head[12]) = (self.shift, self.width as u8);
        head[13..].copy_from_slice(&self.least.to_le_bytes()[..3]);
        head
    }
}

/// The number of the separator of two blocks: the lowest grid point between them. If they tie, the error is the number
/// of the right block's first key.
fn separator(pair: &[Bounds], line: Line, shift: u8) -> Result<i128, i128> {
    let [left, right] = pair else { return Err(0) };
    let (lowest, first) = (line.number(left.last, shift) + 1, line.number(right.first, shift));
    if lowest <= first { Ok(lowest) } else { Err(first) }
}

/// The estimated number of records of left blocks that have the number of the right block's first key.
fn ties(blocks: &[Bounds], line: Line, shift: u8) -> u64 {
    let cost = |pair: &[Bounds]| match separator(pair, line, shift) {
        Ok(_) => 0,
        Err(number) => records_from(pair[0], line.base + ((number as u64) << shift)),
    };
    blocks.windows(2).map(cost).sum()
}

/// The estimated number of records of a block at or above a digest, if records are evenly spread; at least the last
/// one.
fn records_from(bounds: Bounds, digest: u64) -> u64 {
    let Bounds { first, last, records } = bounds;
    let (whole, part) = (u128::from(last - first), u128::from(last.saturating_sub(digest.max(first))));
    let others = u128::from(records - 1);
    1 + (part * others).checked_div(whole).unwrap_or(others) as u64
}

/// The width of the deviations, and the smallest one for the head.
fn measure(deviations: &[i128]) -> Option<(u32, i32)> {
    let (least, most) = (deviations.iter().min().copied().unwrap_or(0), deviations.iter().max().copied().unwrap_or(0));
    let bits = |number: i128| i128::BITS - number.leading_zeros();
    let limit = 1 << (LEAST_BITS - 1);
    if least >= -limit {
        let least = least.min(limit - 1);
        let width = bits(most - least);
        if width <= NARROW {
            return Some((width, least as i32));
        }
    }
    let width = (bits(most.max(-least - 1).max(0)) + 1).max(NARROW + 1);
    (width <= bits::MAX_BITS).then_some((width, 0))
}

/// The deviation that a stored zero stands for.
#[inline]
fn origin(width: u32, least: i32) -> i128 {
    if width > NARROW { -(1 << (width - 1)) } else { least.into() }
}

/// A group of an index in memory. Its deviations are unpacked on use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group<'a> {
    line: Line,
    shift: u8,
    width: u32,
    origin: i128,
    blocks: usize,
    body: &'a [u8],
}

impl<'a> Group<'a> {
    /// A group whose deviations are at the beginning of `body`.
    #[inline]
    pub(super) fn new(line: Line, head: &[u8; HEAD], blocks: usize, body: &'a [u8]) -> Group<'a> {
        let (shift, width) = (head[11], u32::from(head[12]));
        let least = i32::from_le_bytes([0, head[13], head[14], head[15]]) >> 8;
        Group { line, shift, width, origin: origin(width, least), blocks, body }
    }

    /// The number of the separator before a block. The first block's is 0.
    #[inline]
    pub(super) fn number(&self, block: usize) -> i128 {
        if block == 0 {
            return 0;
        }
        let (at, shift) = bits::place(self.width, block - 1);
        let look: [u8; LOOK] = self.body.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        self.line.predicted(block, self.shift) + self.origin + i128::from(bits::unpack(self.width, shift, look))
    }

    /// The last block whose number is at or below that of a digest.
    #[inline]
    pub(super) fn last_up_to(&self, digest: u64) -> usize {
        let wanted = self.line.number(digest, self.shift);
        partition_near(self.blocks, self.line.guess(digest) + 1, |block| self.number(block) <= wanted).saturating_sub(1)
    }

    /// The number of blocks with numbers below that of a digest.
    #[inline]
    pub(super) fn blocks_below(&self, digest: u64) -> usize {
        let wanted = self.line.number(digest, self.shift);
        partition_near(self.blocks, self.line.guess(digest), |block| self.number(block) < wanted)
    }
}
