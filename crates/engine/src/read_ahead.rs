//! Scan read-ahead: chooses the width of each read from the lengths of recent scans (T17).
//!
//! A read that is too narrow is followed by another request; one that is too wide transfers pages that the scan does
//! not use. Which costs more depends on how many scans go on, so scan lengths are counted, and the cheapest width for
//! each position in a scan follows from the counts.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU32, Ordering::Relaxed},
};

use ecotone_substrate::{limits::PAGE, memory::Component};
use ecotone_sys::chunk::Size;

/// Pages of the largest read, which fills a slab.
pub const LARGEST_READ: usize = Size::Slab.bytes() / PAGE;

/// Pages after which a scan is long: it reads the maximum, and ahead, whatever other scans did.
pub const LONG_SCAN_PAGES: usize = 48;
/// Scans after which the widths are recomputed, and older scans count half.
const EPOCH: u32 = 1024;
/// The cost of a request, in pages transferred (`docs/history/performance-log.md`).
const REQUEST: f32 = 16.0;
/// Flag in a stride: the next read is issued together with this one.
const AHEAD: u8 = 0x80;
/// Of eight scans that reach a read, how many must go on after it for the next read to be issued too.
const SURE: u64 = 7;

/// The width of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadWidth {
    /// Pages of this read.
    pub pages: usize,
    /// Whether the scan will most likely go on after this read.
    pub ahead: bool,
}

/// The lengths of scans over the same pages, and the read widths derived from them.
#[derive(Debug)]
pub struct ScanLengths {
    /// The width of the first read as long as no scan was counted.
    first: u8,
    /// Scans that ended in each page, counted from 0; the last is for all that are long.
    ended: [AtomicU32; LONG_SCAN_PAGES + 1],
    scans: AtomicU32,
    /// By pages requested before: the width in pages, and whether [`AHEAD`].
    strides: [AtomicU8; LONG_SCAN_PAGES],
}

/// The stride as long as no scan was counted: small at first, since most scans are short.
fn beginning(first: u8, before: usize) -> u8 {
    match before / usize::from(first) {
        0 => first,
        1..3 => 2 * first,
        _ => LARGEST_READ as u8 | AHEAD,
    }
}

/// The read-ahead policy of a scan.
#[derive(Debug, Clone)]
pub struct ReadAhead {
    /// Adapts to the lengths of recent scans.
    pub scan_lengths: Arc<ScanLengths>,
    /// The component whose memory the reads take.
    pub memory: Component,
}

impl ScanLengths {
    /// Creates empty statistics. Until scans are counted, a first read takes so many pages.
    pub fn new(first: u8) -> ScanLengths {
        let strides = std::array::from_fn(|before| AtomicU8::new(beginning(first, before)));
        ScanLengths { first, ended: std::array::from_fn(|_| AtomicU32::new(0)), scans: AtomicU32::new(0), strides }
    }

    /// The read that follows after so many pages; none for a long scan.
    pub fn next_read(&self, before: usize) -> Option<ReadWidth> {
        let stride = self.strides.get(before)?.load(Relaxed);
        Some(ReadWidth { pages: usize::from(stride & !AHEAD), ahead: stride & AHEAD != 0 })
    }

    /// Counts a scan that visited so many pages, at least one. Concurrent calls may lose a count now and then.
    pub fn count(&self, pages: usize) {
        self.ended[(pages - 1).min(LONG_SCAN_PAGES)].fetch_add(1, Relaxed);
        let scans = self.scans.fetch_add(1, Relaxed).wrapping_add(1);
        if scans.is_multiple_of(EPOCH) {
            self.plan();
        }
    }

    fn plan(&self) {
        let ended = self.ended.each_ref().map(|count| count.load(Relaxed));
        let strides = strides(&ended.map(u64::from), self.first);
        self.strides.iter().zip(strides).for_each(|(stride, planned)| stride.store(planned, Relaxed));
        self.ended.iter().zip(ended).for_each(|(count, ended)| count.store(ended / 2, Relaxed));
    }
}

/// The strides with the least cost for scans that end in these pages. Computed backwards from the last page: a read
/// costs a request, its pages, and, for the share of scans that go on after it, the cost of the rest. (The cost of a
/// long scan is the same for all.)
fn strides(ended: &[u64; LONG_SCAN_PAGES + 1], first: u8) -> [u8; LONG_SCAN_PAGES] {
    let mut reached = *ended;
    (0..LONG_SCAN_PAGES).rev().for_each(|page| reached[page] += reached[page + 1]);
    let mut costs = [0.0; LONG_SCAN_PAGES + 1];
    let mut strides = [0; LONG_SCAN_PAGES];
    for before in (0..LONG_SCAN_PAGES).rev() {
        let behind = |pages: usize| (before + pages).min(LONG_SCAN_PAGES);
        let goes_on = |pages: usize| reached[behind(pages)] as f32 / reached[before] as f32;
        // Every scan that comes this far uses the pages beyond those of a long scan.
        let cost = |pages: usize| REQUEST + (behind(pages) - before) as f32 + goes_on(pages) * costs[behind(pages)];
        if reached[before] == 0 {
            let stride = beginning(first, before);
            (strides[before], costs[before]) = (stride, REQUEST + f32::from(stride & !AHEAD));
            continue;
        }
        let cheapest = (1..=LARGEST_READ).rev().min_by(|one, other| cost(*one).total_cmp(&cost(*other))).unwrap_or(1);
        let sure = reached[behind(cheapest)] * 8 >= reached[before] * SURE;
        strides[before] = cheapest as u8 | if sure { AHEAD } else { 0 };
        costs[before] = cost(cheapest);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::{EPOCH, LARGEST_READ, LONG_SCAN_PAGES, ReadWidth, ScanLengths};

    /// The strides of a scan that goes on, after many of these lengths.
    fn learned(lengths: impl Iterator<Item = usize>) -> Vec<ReadWidth> {
        let known = ScanLengths::new(4);
        lengths.take(4 * EPOCH as usize).for_each(|pages| known.count(pages));
        let mut before = 0;
        std::iter::from_fn(|| {
            let stride = known.next_read(before)?;
            before += stride.pages;
            Some(stride)
        })
        .collect()
    }

    #[test]
    fn scans_of_one_length_are_one_request() {
        for pages in 1..=LARGEST_READ {
            assert_eq!(learned(std::iter::repeat(pages))[0], ReadWidth { pages, ahead: false });
        }
    }

    #[test]
    fn long_scans_read_ahead_at_once() {
        let strides = learned(std::iter::repeat(LONG_SCAN_PAGES + 1));
        assert!(strides.iter().all(|stride| *stride == ReadWidth { pages: LARGEST_READ, ahead: true }), "{strides:?}");
    }

    #[test]
    fn a_page_that_one_scan_in_hundred_needs_is_not_read() {
        let lengths = (0..).map(|scan| if scan % 100 == 0 { 3 } else { 2 });
        assert_eq!(learned(lengths)[0], ReadWidth { pages: 2, ahead: false });
        let lengths = (0..).map(|scan| if scan % 2 == 0 { 3 } else { 2 });
        assert_eq!(learned(lengths)[0], ReadWidth { pages: 3, ahead: false });
    }

    #[test]
    fn what_scans_do_is_forgotten() {
        let known = ScanLengths::new(4);
        (0..EPOCH * 64).for_each(|_| known.count(LONG_SCAN_PAGES + 1));
        (0..EPOCH * 16).for_each(|_| known.count(1));
        assert_eq!(known.next_read(0), Some(ReadWidth { pages: 1, ahead: false }));
    }
}
