//! A single-level index: a separator for each two adjacent blocks, prefix-compressed in runs (restart intervals).

use std::{cmp::Ordering, result};

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::{MAX_KEY, PAGE},
    table::Pages,
};

use crate::table::{
    index::{Built, IndexKind, layout::Layout},
    prefix_compare::{PrefixComparer, common_prefix_len},
};

/// Separators of a run. The first of a run is whole.
const RESTART_INTERVAL: usize = 16;
/// Most bytes of a run with more than one separator.
const RUN_BYTES: usize = 1024;
/// Bytes in front of the table of runs, and of each of its rows.
const HEAD: usize = 8;
const ROW: usize = 8;
/// Most bytes of the two lengths of a separator.
const LENGTHS: usize = 4;

/// The separators of a table that is being written, encoded as they come.
#[derive(Debug, Default)]
pub(in super::super) struct Separators {
    coded: Writer,
    /// The offset of each run in `coded`, and the number of its first separator.
    runs: Vec<(usize, u32)>,
    count: u32,
    last: Vec<u8>,
}

impl Separators {
    /// Adds the separator of the last block and the next one.
    pub(in super::super) fn push(&mut self, separator: &[u8]) {
        let (start, first) = self.runs.last().copied().unwrap_or_default();
        let is_full = (self.count - first) as usize >= RESTART_INTERVAL
            || self.coded.len() - start + separator.len() + 2 * ROW > RUN_BYTES;
        let mut shared = common_prefix_len(&self.last, separator);
        if self.runs.is_empty() || is_full {
            self.runs.push((self.coded.len(), self.count));
            shared = 0;
        }
        self.coded.varint(shared as u64).prefixed(&separator[shared..]);
        self.count += 1;
        self.last.clear();
        self.last.extend_from_slice(separator);
    }

    /// Gives each separator to `found`.
    pub(super) fn each(&self, mut found: impl FnMut(&[u8])) {
        let (mut r, mut separator) = (Reader::new(self.coded.as_slice()), Vec::new());
        for _ in 0..self.count {
            let (shared, rest) = separator_of(&mut r).expect("what was coded here can be read");
            separator.truncate(shared);
            separator.extend_from_slice(rest);
            found(&separator);
        }
    }

    /// Whether the index would still take no more than `bytes` with another separator. Only for an index of one page.
    pub(super) fn has_room(&self, separator: &[u8], bytes: usize) -> bool {
        self.encoded_len() + ROW + LENGTHS + separator.len() <= bytes
    }

    /// The estimated bytes of the index; exact if it fits into one page.
    pub(super) fn encoded_len(&self) -> usize {
        HEAD + ROW * self.runs.len() + self.coded.len()
    }

    /// The encoded index, behind `front` zeros.
    pub(super) fn encode(&self, front: usize) -> Vec<u8> {
        let table = front + HEAD;
        let mut layout = Layout::zeroed(table + ROW * self.runs.len());
        layout.set(front, &(self.runs.len() as u32).to_le_bytes());
        let ends = self.runs.iter().skip(1).map(|(start, _)| *start).chain([self.coded.len()]);
        for (number, ((start, first), end)) in self.runs.iter().zip(ends).enumerate() {
            let at = layout.put(&self.coded.as_slice()[*start..end], 1, 0);
            let row = [(at as u32).to_le_bytes(), (first + 1).to_le_bytes()].concat();
            layout.set(table + ROW * number, &row);
        }
        layout.finish()
    }
}

/// Builds a single-level index.
pub(super) fn build(separators: &Separators) -> Built {
    Built::whole(IndexKind::Single, separators.encode(0), 0.0)
}

/// The separators of a table, in memory.
#[derive(Debug)]
pub(super) struct Single {
    pages: Pages,
    /// The offset of the index in its first page.
    front: usize,
    runs: usize,
    blocks: u32,
}

impl Single {
    /// Parses and checks the index of a file, which lies from `front` to `len`.
    pub(super) fn parse(pages: Pages, (front, len): (usize, usize), blocks: u32) -> result::Result<Single, Malformed> {
        let Some(bytes) = pages.iter().next().and_then(|page| page.get(front..)) else {
            return Err(Malformed::new(0, "the index has no bytes"));
        };
        let mut r = Reader::new(bytes);
        let (runs, reserved) = (r.u32()? as usize, r.u32()?);
        if front + HEAD + runs.saturating_mul(ROW) > len || reserved != 0 {
            return Err(Malformed::new(front, "the index has more runs than bytes"));
        }
        let single = Single { pages, front, runs, blocks };
        single.check(len)?;
        Ok(single)
    }

    fn row_at(&self, run: usize) -> usize {
        self.front + HEAD + ROW * run
    }

    /// The offset of a run, and the block behind its first separator.
    fn row(&self, run: usize) -> (usize, u32) {
        let at = self.row_at(run);
        let [a, b, c, d, e, f, g, h] = *self.pages.get::<ROW>(at / PAGE, at % PAGE);
        (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]))
    }

    /// The block behind the first separator of a run; for the number behind the last run, the number of blocks.
    fn first_block(&self, run: usize) -> u32 {
        if run < self.runs { self.row(run).1 } else { self.blocks }
    }

    /// The bytes from a run to the end of its page.
    fn bytes(&self, run: usize) -> &[u8] {
        let at = self.row(run).0;
        if at / PAGE < self.pages.len() { &self.pages.page(at / PAGE)[at % PAGE..] } else { &[] }
    }

    fn check(&self, len: usize) -> result::Result<(), Malformed> {
        let (mut last, mut next) = (Vec::new(), 1);
        for run in 0..self.runs {
            let (at, first) = self.row(run);
            let fail = |what| Err(Malformed::new(self.row_at(run), what));
            let end = self.first_block(run + 1);
            if at < self.row_at(self.runs) || at >= len || first != next || end <= first || end > self.blocks {
                return fail("a run of separators is not where it can be");
            }
            let mut r = Reader::new(self.bytes(run));
            let mut separator: Vec<u8> = Vec::new();
            for block in first..end {
                let (shared, rest) = separator_of(&mut r).map_err(|e| Malformed::new(at + e.offset, e.what))?;
                if shared > separator.len() || (block == first && shared > 0) || shared + rest.len() > MAX_KEY {
                    return fail("a separator shares more than there is, or is too long");
                }
                separator.truncate(shared);
                separator.extend_from_slice(rest);
                if separator <= last {
                    return fail("the separators are out of order");
                }
                last.clone_from(&separator);
            }
            next = end;
            if run + 1 == self.runs && at + r.position() != len {
                return fail("the last run of separators does not end the index");
            }
        }
        if next != self.blocks.max(1) || (self.runs == 0 && len != self.row_at(0)) {
            Err(Malformed::new(self.front, "the index has not a separator for each two blocks"))
        } else {
            Ok(())
        }
    }

    /// The block that can have a key.
    pub(super) fn locate(&self, key: &[u8]) -> u32 {
        let is_before =
            |run: usize| separator_of(&mut Reader::new(self.bytes(run))).is_ok_and(|(_, separator)| separator <= key);
        let (mut low, mut high) = (0, self.runs);
        while low < high {
            let middle = low.midpoint(high);
            if is_before(middle) { low = middle + 1 } else { high = middle }
        }
        let Some(run) = low.checked_sub(1) else { return 0 };
        let (mut r, mut rank) = (Reader::new(self.bytes(run)), PrefixComparer::new(key));
        let mut block = self.first_block(run) - 1;
        for _ in block + 1..self.first_block(run + 1) {
            let order = separator_of(&mut r).map_or(Ordering::Greater, |(shared, rest)| rank.step(shared, rest));
            block += u32::from(order != Ordering::Greater);
            if order != Ordering::Less {
                break;
            }
        }
        block
    }
}

/// The next separator of a run: the bytes shared with the one before, and the rest.
fn separator_of<'a>(r: &mut Reader<'a>) -> result::Result<(usize, &'a [u8]), Malformed> {
    let shared = r.varint()?.min(1 << 20) as usize;
    Ok((shared, r.prefixed(MAX_KEY)?))
}
