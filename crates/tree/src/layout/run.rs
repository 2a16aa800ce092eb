//! A run of records with its measurements, and where pages can be cut from it.

use std::ops::Range;

use ecotone_substrate::page::{capacity, prefix_len, record_bytes};

use super::{super::records::Records, FillFactor};

/// Bytes of a page for records and fences.
pub(super) const PAGE_BYTES: usize = capacity(&[], None);
/// Bytes by which a page may miss its target, either way, to get a shorter fence.
const WINDOW: usize = PAGE_BYTES / 20;

/// Records of a range with their possible cuts. A cut is the position of the record behind it.
#[derive(Debug)]
pub(super) struct Run<'a> {
    records: &'a Records,
    lower: &'a [u8],
    upper: Option<&'a [u8]>,
    fill: FillFactor,
    /// Total bytes of the records before each position, with their slots and whole keys.
    before: Vec<usize>,
    /// Length of the prefix that each key shares with the key before; for the first, with the lower fence.
    common: Vec<u16>,
}

impl<'a> Run<'a> {
    pub(super) fn new(records: &'a Records, lower: &'a [u8], upper: Option<&'a [u8]>, fill: FillFactor) -> Self {
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

    /// The last position, at most `end`, such that the records from `start` to it have at most `raw` bytes.
    pub(super) fn position(&self, start: usize, end: usize, raw: usize) -> usize {
        let most = self.before[start] + raw;
        start + self.before[start + 1..=end].partition_point(|before| *before <= most)
    }

    /// The first of these positions whose key is at or above `key`, or their end if there is none.
    pub(super) fn lower_bound(&self, positions: Range<usize>, key: &[u8]) -> usize {
        let (mut low, mut high) = (positions.start, positions.end);
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Upper fence of a page or segment that ends at this cut: the shortest key that is above all records before and
    /// not above those behind. At the end, the range's upper fence.
    pub(super) fn fence(&self, cut: usize) -> Option<&'a [u8]> {
        if cut == self.len() { self.upper } else { Some(&self.key(cut)[..usize::from(self.common[cut]) + 1]) }
    }

    /// Lower fence of a page or segment that begins at this cut.
    pub(super) fn lower(&self, cut: usize) -> &'a [u8] {
        if cut == 0 { self.lower } else { self.fence(cut).expect("records follow") }
    }

    /// Length of the prefix that all keys share.
    pub(super) fn shared(&self) -> usize {
        if self.len() == 0 { 0 } else { prefix_len(self.key(0), Some(self.key(self.len() - 1))) }
    }

    /// Bytes of a page, fences included.
    pub(super) fn page_bytes(&self, records: Range<usize>, lower: &[u8], upper: Option<&[u8]>) -> usize {
        let stored = self.raw(records.clone()) - records.len() * prefix_len(lower, upper);
        stored + lower.len() + upper.map_or(0, <[u8]>::len)
    }

    /// The cuts of at most `pages` pages from `start` on, when the fullest have about `target` bytes. `start` is the
    /// first cut.
    pub(super) fn cuts(&self, start: usize, target: usize, pages: usize) -> Vec<usize> {
        let mut cuts = vec![start];
        let mut last = start;
        while cuts.len() == 1 || (cuts.len() <= pages && last < self.len()) {
            last = self.page_end(last, self.fill.bytes(last, target));
            cuts.push(last);
        }
        cuts
    }

    /// The smallest target, at most `most`, with which the records from `start` on need no more pages than with `most`.
    /// It leaves no nearly empty page at the end.
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

    /// The end of the page that begins at `start`: of the cuts within the window around the target the one with the
    /// shortest fence, or else the last that leaves the page below the window. A page gets at least one record, which
    /// always fits.
    fn page_end(&self, start: usize, target: usize) -> usize {
        let lower = self.lower(start);
        let limit = (target + WINDOW).min(PAGE_BYTES);
        let (mut last, mut best) = ((start + 1).min(self.len()), None);
        // Length of the prefix that the lower fence shares with the key behind the cut.
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
