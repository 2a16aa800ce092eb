//! A run of records, measured so that pages can be cut from it.

use std::ops::Range;

use ecotone_substrate::page::{capacity, prefix_len, record_bytes};

use super::{super::records::Records, Fill};

/// Bytes of a page for records and fences.
pub(super) const PAGE_BYTES: usize = capacity(&[], None);
/// Bytes by which a page may miss its target, either way, for a shorter fence.
const WINDOW: usize = PAGE_BYTES / 20;

/// Records of a range, and where they could be cut. A cut is the position of the record behind it.
#[derive(Debug)]
pub(super) struct Run<'a> {
    records: &'a Records,
    lower: &'a [u8],
    upper: Option<&'a [u8]>,
    fill: Fill,
    /// Bytes of the records before each position, with their slots and whole keys.
    before: Vec<usize>,
    /// How many bytes each key shares with the one before; for the first one, with the lower fence.
    common: Vec<u16>,
}

impl<'a> Run<'a> {
    pub(super) fn new(records: &'a Records, lower: &'a [u8], upper: Option<&'a [u8]>, fill: Fill) -> Self {
        let mut before = Vec::with_capacity(records.len() + 1);
        let mut common = Vec::with_capacity(records.len());
        let (mut bytes, mut previous) = (0, lower);
        before.push(0);
        for (key, value) in records.iter() {
            bytes += record_bytes(0, key.len(), value.len());
            before.push(bytes);
            common.push(prefix_len(previous, Some(key)) as u16);
            previous = key;
        }
        Run { records, lower, upper, fill, before, common }
    }

    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.common.len()
    }

    pub(super) fn key(&self, position: usize) -> &'a [u8] {
        self.records.get(position).0
    }

    /// Bytes of records with their slots and whole keys.
    pub(super) fn raw(&self, records: Range<usize>) -> usize {
        self.before[records.end] - self.before[records.start]
    }

    /// The last position, but at most `end`, before which there are at most so many bytes behind `start`.
    pub(super) fn position(&self, start: usize, end: usize, raw: usize) -> usize {
        let most = self.before[start] + raw;
        start + self.before[start + 1..=end].partition_point(|before| *before <= most)
    }

    /// The first of these positions whose key is at or above `key`, or their end.
    pub(super) fn lower_bound(&self, positions: Range<usize>, key: &[u8]) -> usize {
        let (mut low, mut high) = (positions.start, positions.end);
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Where a page or segment that ends at this cut has its upper fence: the shortest key above all records before and
    /// not above those behind. At the end, the range's.
    pub(super) fn fence(&self, cut: usize) -> Option<&'a [u8]> {
        if cut == self.len() { self.upper } else { Some(&self.key(cut)[..usize::from(self.common[cut]) + 1]) }
    }

    /// Where what begins at this cut has its lower fence.
    pub(super) fn lower(&self, cut: usize) -> &'a [u8] {
        if cut == 0 { self.lower } else { self.fence(cut).expect("records follow") }
    }

    /// Length of what all keys share.
    pub(super) fn shared(&self) -> usize {
        if self.len() == 0 { 0 } else { prefix_len(self.key(0), Some(self.key(self.len() - 1))) }
    }

    /// Bytes of a page, fences included.
    pub(super) fn page_bytes(&self, records: Range<usize>, lower: &[u8], upper: Option<&[u8]>) -> usize {
        let stored = self.raw(records.clone()) - records.len() * prefix_len(lower, upper);
        stored + lower.len() + upper.map_or(0, <[u8]>::len)
    }

    /// The cuts of the next pages, at most `pages`, when the fullest have about `target` bytes; `start` is the first of
    /// them.
    pub(super) fn cuts(&self, start: usize, target: usize, pages: usize) -> Vec<usize> {
        let mut cuts = vec![start];
        let mut last = start;
        while cuts.len() == 1 || (cuts.len() <= pages && last < self.len()) {
            last = self.page_end(last, self.fill.bytes(last, target));
            cuts.push(last);
        }
        cuts
    }

    /// The smallest target, at most `most`, that needs no more pages from `start` on than `most` does: it leaves no
    /// nearly empty one at the end.
    pub(super) fn even_target(&self, start: usize, most: usize) -> usize {
        let pages = |target| self.cuts(start, target, usize::MAX).len();
        let fewest = pages(most);
        let (mut low, mut high) = (most / 2, most);
        while high - low > 32 {
            let middle = low.midpoint(high);
            if pages(middle) > fewest { low = middle } else { high = middle }
        }
        high
    }

    /// Where the page that begins at `start` ends: of the cuts within the window around the target the one with the
    /// shortest fence, else the last that leaves the page below it. At least one record goes into a page; it always
    /// fits.
    fn page_end(&self, start: usize, target: usize) -> usize {
        let lower = self.lower(start);
        let limit = (target + WINDOW).min(PAGE_BYTES);
        let (mut last, mut best) = ((start + 1).min(self.len()), None);
        // What the lower fence shares with the key behind the cut.
        let mut prefix = if start < self.len() { prefix_len(lower, Some(self.key(start))) } else { 0 };
        for cut in start + 1..=self.len() {
            let upper = if let Some(common) = self.common.get(cut) {
                prefix = prefix.min((*common).into());
                usize::from(*common) + 1
            } else {
                prefix = prefix_len(lower, self.upper);
                self.upper.map_or(0, <[u8]>::len)
            };
            let bytes = self.raw(start..cut) - (cut - start) * prefix + lower.len();
            if bytes > limit {
                break;
            }
            if bytes + upper > limit {
                continue;
            }
            if cut == self.len() {
                return cut;
            }
            last = cut;
            let rank = (upper, target.abs_diff(bytes + upper));
            if bytes + upper + WINDOW >= target && best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, cut));
            }
        }
        best.map_or(last, |(_, cut)| cut)
    }
}
