//! A blocked Bloom filter: the seven bits of a key lie in one line of 64 bytes, so that a probe costs one miss of the
//! processor's cache (`docs/format/lsm.md`, "Filter").

use ecotone_substrate::{
    Result,
    codec::Malformed,
    limits::PAGE,
    memory::{Component, Memory},
    table::Pages,
};

/// Bytes of a line.
const LINE: usize = 64;
/// Lines of a page.
const LINES: usize = PAGE / LINE;
/// Bits set per key.
const PROBES: u32 = 7;
/// Width of a bit's number within a line.
const BIT_BITS: u32 = 9;
/// Spreads the lower half of a hash over 64 bits: the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Bytes of a hash that the builder keeps until the filter is built.
const HASH: usize = size_of::<u64>();

/// Lines for a number of records at `bits` bits each.
pub(super) fn lines(records: u64, bits: u16) -> u32 {
    let lines = records.saturating_mul(bits.into()).div_ceil(8 * LINE as u64);
    u32::try_from(lines).unwrap_or(u32::MAX)
}

/// Pages of a number of lines.
pub(super) fn pages(lines: u32) -> usize {
    (lines as usize).div_ceil(LINES)
}

/// Bytes of memory of a number of lines.
pub(super) fn memory(lines: u32) -> usize {
    Pages::memory_ending_at(lines as usize * LINE, 0)
}

/// The filter of one table, in memory as it is in the file.
#[derive(Debug)]
pub struct Filter {
    pages: Pages,
    lines: u32,
}

impl Filter {
    /// Parses the filter of a file.
    pub(super) fn parse(pages: Pages, lines: u32) -> std::result::Result<Filter, Malformed> {
        Ok(Filter { pages: pages.ending_at(lines as usize * LINE, 0)?, lines })
    }

    /// Its pages, as they stand in the file.
    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    pub(super) fn lines(&self) -> u32 {
        self.lines
    }

    /// The page of a hash's line, and the offset of the line in the page.
    #[inline]
    fn place(&self, hash: u64) -> (usize, usize) {
        let line = (((hash >> 32) * u64::from(self.lines)) >> 32) as usize;
        (line / LINES, line % LINES * LINE)
    }

    /// False if the table has no key with this hash.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        let (page, at) = self.place(hash);
        let line: &[u8; LINE] = self.pages.get(page, at);
        bits(hash).all(|bit| line[bit / 8] >> (bit % 8) & 1 == 1)
    }

    fn add(&mut self, hash: u64) {
        let (page, at) = self.place(hash);
        let mut line: [u8; LINE] = *self.pages.get(page, at);
        bits(hash).for_each(|bit| line[bit / 8] |= 1 << (bit % 8));
        self.pages.set(page, at, &line);
    }
}

/// The bits of a hash in its line.
#[inline]
fn bits(hash: u64) -> impl Iterator<Item = usize> {
    let spread = u64::from(hash as u32).wrapping_mul(SPREAD);
    (0..PROBES).map(move |probe| (spread >> (probe * BIT_BITS)) as usize & (8 * LINE - 1))
}

/// Collects the hashes of a table's keys. The filter is built at the end, when their number is known.
#[derive(Debug, Default)]
pub(super) struct FilterBuilder {
    hashes: Pages,
    count: u64,
}

impl FilterBuilder {
    /// Adds a key.
    pub(super) fn push(&mut self, memory: &Memory, hash: u64) -> Result<()> {
        let at = self.count as usize * HASH;
        if at.is_multiple_of(PAGE) {
            self.hashes.grow(memory, Component::Frames)?;
        }
        self.hashes.set(at / PAGE, at % PAGE, &hash.to_le_bytes());
        self.count += 1;
        Ok(())
    }

    /// The filter, with `bits` bits a key; `None` if `bits` is 0.
    pub(super) fn finish(&self, memory: &Memory, bits: u16) -> Result<Option<Filter>> {
        let lines = lines(self.count, bits);
        if lines == 0 {
            return Ok(None);
        }
        let mut filter = Filter { pages: Pages::zeroed(memory, Component::Frames, pages(lines))?, lines };
        for number in 0..self.count as usize {
            let at = number * HASH;
            filter.add(u64::from_le_bytes(*self.hashes.get(at / PAGE, at % PAGE)));
        }
        Ok(Some(filter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_le_bytes(), 7)
    }

    #[test]
    fn no_key_is_missed_and_few_others_pass() {
        let memory = Memory::new(64 << 20);
        let mut builder = FilterBuilder::default();
        const KEYS: u64 = 100_000;
        (0..KEYS).try_for_each(|number| builder.push(&memory, hash(number))).unwrap();
        for (bits, limit) in [(10, 0.012), (14, 0.0025), (20, 0.0005)] {
            let filter = builder.finish(&memory, bits).unwrap().unwrap();
            assert!((0..KEYS).all(|number| filter.may_have(hash(number))));
            let passed = (KEYS..11 * KEYS).filter(|number| filter.may_have(hash(*number))).count();
            let part = passed as f64 / (10 * KEYS) as f64;
            eprintln!("{bits} bits: {part}");
            assert!(part <= limit && part > limit / 4.0, "{bits} bits: {part}");
            assert_eq!(filter.pages().len(), pages(lines(KEYS, bits)));
        }
        assert!(builder.finish(&memory, 0).unwrap().is_none());
    }
}
