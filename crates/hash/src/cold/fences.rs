//! The fences of a run, in memory as in its file. They map a hash to the blocks that may have it, by interpolation and
//! a search in two cache lines (hash.md, "Cold tier").

use std::{ops::Range, result};

use ecotone_substrate::{
    Result,
    codec::{Malformed, is_zero},
    limits::PAGE,
    memory::{Component, Memory},
    search::partition_near,
    table::Pages,
};

/// Blocks of a group.
const BLOCKS: usize = 64;
/// Bytes of a group: first hash, shift, and a number for each block.
const GROUP: usize = HEAD + 2 * BLOCKS;
const HEAD: usize = 16;
/// Groups in a page.
const GROUPS: usize = PAGE / GROUP;
/// The number of an unused place.
const UNUSED: u16 = u16::MAX;
/// The largest shift; a larger one would leave less than sixteen bits.
const MOST_SHIFT: u8 = 48;

/// Pages for the fences of `blocks` blocks.
pub(super) fn pages(blocks: u32) -> usize {
    (blocks as usize).div_ceil(BLOCKS * GROUPS)
}

/// The first hashes of all blocks of a run. Each group of 64 keeps its first hash whole, and for each block 16 bits of
/// the distance from it.
#[derive(Debug)]
pub(super) struct Fences {
    pages: Pages,
    blocks: u32,
}

impl Fences {
    /// Parses the fences of a file.
    pub(super) fn parse(pages: Pages, blocks: u32) -> result::Result<Fences, Malformed> {
        let fences = Fences { pages, blocks };
        let mut below = 0;
        for number in 0..fences.groups() {
            let fail = |what| Err(Malformed::new(number / GROUPS * PAGE + number % GROUPS * GROUP, what));
            let group = fences.group(number);
            if group.shift() > MOST_SHIFT || !group.is_plausible(fences.used(number)) {
                return fail("a group of fences makes no sense");
            }
            if group.first() < below {
                return fail("the fences are out of order");
            }
            below = match group.first().checked_add(group.last_distance(fences.used(number))) {
                Some(below) => below,
                None => return fail("a fence is above all hashes"),
            };
        }
        let rest = fences.groups() % GROUPS;
        let last_is_zero = rest == 0 || is_zero(&fences.pages.get::<PAGE>(fences.pages.len() - 1, 0)[rest * GROUP..]);
        if !last_is_zero || !fences.pages.is_zero_from(GROUPS * GROUP) {
            return Err(Malformed::new(0, "reserved bytes are not zero"));
        }
        Ok(fences)
    }

    /// The pages, as they are in the file.
    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The blocks that may have a hash, mostly one. Empty if all hashes of the run are above it.
    #[inline]
    pub(super) fn candidates(&self, hash: u64) -> Range<u32> {
        let Some(last) = self.groups_up_to(hash).checked_sub(1) else { return 0..0 };
        let group = self.group(last);
        let end = last * BLOCKS + group.position(self.used(last), group.number(hash).saturating_add(1));
        // Records of this hash may begin in the block before the first one that begins with it, and that may be in a
        // group before.
        let mut number = last;
        while number > 0 && self.group(number).first() == hash {
            number -= 1;
        }
        let group = self.group(number);
        let start = number * BLOCKS + group.position(self.used(number), group.number(hash)).saturating_sub(1);
        start as u32..end as u32
    }

    /// Whether a block may begin with a hash.
    pub(super) fn fits(&self, block: u32, first: u64) -> bool {
        let (number, position) = (block as usize / BLOCKS, block as usize % BLOCKS);
        let group = self.group(number);
        first >= group.first() && group.number(first) == u64::from(group.numbers()[position])
    }

    /// The first hashes of the first and the last group.
    pub(super) fn ends(&self) -> [u64; 2] {
        [self.group(0).first(), self.group(self.groups() - 1).first()]
    }

    fn groups(&self) -> usize {
        (self.blocks as usize).div_ceil(BLOCKS)
    }

    /// Blocks of a group.
    fn used(&self, number: usize) -> usize {
        (self.blocks as usize - number * BLOCKS).min(BLOCKS)
    }

    #[inline]
    fn group(&self, number: usize) -> Group<'_> {
        Group(self.pages.get(number / GROUPS, number % GROUPS * GROUP))
    }

    /// Number of groups that begin with this hash or a lower one: interpolated, then searched from there.
    #[inline]
    fn groups_up_to(&self, hash: u64) -> usize {
        partition_near(self.groups(), self.guess(hash), |number| self.group(number).first() <= hash)
    }

    /// Estimated number of groups that begin with this hash or a lower one.
    #[inline]
    fn guess(&self, hash: u64) -> usize {
        let last = self.groups() - 1;
        let (first, end) = (self.group(0).first(), self.group(last).first());
        if hash < first {
            return 0;
        }
        if hash >= end {
            return last + 1;
        }
        1 + (u128::from(hash - first) * last as u128 / u128::from(end - first)) as usize
    }
}

/// One group.
#[derive(Debug, Clone, Copy)]
struct Group<'a>(&'a [u8; GROUP]);

impl Group<'_> {
    #[inline]
    fn first(self) -> u64 {
        u64::from_le_bytes(*self.0.first_chunk().expect("a group is longer"))
    }

    #[inline]
    fn shift(self) -> u8 {
        self.0[8]
    }

    /// The number that stands for a hash that is not below the first.
    #[inline]
    fn number(self, hash: u64) -> u64 {
        (hash - self.first()) >> self.shift()
    }

    #[inline]
    fn numbers(self) -> [u16; BLOCKS] {
        let (numbers, _) = self.0[HEAD..].as_chunks();
        std::array::from_fn(|block| u16::from_le_bytes(numbers[block]))
    }

    /// Number of the `used` blocks with a number lower than `number`.
    #[inline]
    fn position(self, used: usize, number: u64) -> usize {
        let (numbers, _) = self.0[HEAD..].as_chunks();
        numbers[..used].partition_point(|bytes| u64::from(u16::from_le_bytes(*bytes)) < number)
    }

    /// The least possible distance of the last block's first hash.
    fn last_distance(self, used: usize) -> u64 {
        u64::from(self.numbers()[used - 1]) << self.shift()
    }

    fn is_plausible(self, used: usize) -> bool {
        let numbers = self.numbers();
        let (used, unused) = numbers.split_at(used);
        let smallest = self.shift() == 0 || used.last().is_some_and(|last| *last >= 1 << 15);
        let zeros = is_zero(&self.0[9..HEAD]);
        zeros && smallest && used[0] == 0 && used.is_sorted() && unused.iter().all(|number| *number == UNUSED)
    }
}

/// Collects the first hashes of blocks.
#[derive(Debug, Default)]
pub(super) struct FencesBuilder {
    pages: Pages,
    groups: usize,
    /// First hashes of the blocks since the last whole group.
    firsts: Vec<u64>,
}

impl FencesBuilder {
    /// Adds the first hash of the next block.
    pub(super) fn push(&mut self, memory: &Memory, first: u64) -> Result<()> {
        self.firsts.push(first);
        if self.firsts.len() == BLOCKS { self.end_group(memory) } else { Ok(()) }
    }

    /// Completes the fences.
    pub(super) fn finish(mut self, memory: &Memory) -> Result<Fences> {
        let blocks = self.groups * BLOCKS + self.firsts.len();
        if !self.firsts.is_empty() {
            self.end_group(memory)?;
        }
        Ok(Fences { pages: self.pages, blocks: blocks as u32 })
    }

    fn end_group(&mut self, memory: &Memory) -> Result<()> {
        if self.groups.is_multiple_of(GROUPS) {
            self.pages.grow(memory, Component::ColdIndex)?;
        }
        let (page, at) = (self.groups / GROUPS, self.groups % GROUPS * GROUP);
        let (first, last) = (self.firsts[0], self.firsts[self.firsts.len() - 1]);
        let shift = (64 - (last - first).leading_zeros()).saturating_sub(16);
        self.pages.set(page, at, &first.to_le_bytes());
        self.pages.set(page, at + 8, &[shift as u8]);
        for block in 0..BLOCKS {
            let number = self.firsts.get(block).map_or(UNUSED, |hash| ((hash - first) >> shift) as u16);
            self.pages.set(page, at + HEAD + 2 * block, &number.to_le_bytes());
        }
        self.groups += 1;
        self.firsts.clear();
        Ok(())
    }
}
