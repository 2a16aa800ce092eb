//! How far scans went lately, and how much each of their reads should take therefore (T17).
//!
//! A read that takes too little is followed by another request; one that takes too much moves pages that nobody looks
//! at. Which costs more depends on how many scans go on, so that is counted, and the cheapest width for each place in a
//! scan follows from the counts.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU32, Ordering::Relaxed},
};

use ecotone_substrate::{limits::PAGE, memory::Component};
use ecotone_sys::chunk::Size;

/// Pages of the largest read, which fill a slab.
pub(crate) const WIDEST: usize = Size::Slab.bytes() / PAGE;

/// Pages after which a scan is long: it reads as much as it can, and ahead, whatever others did.
pub(crate) const LONG: usize = 48;
/// Scans after which the widths are worked out again, and older ones count half.
const EPOCH: u32 = 1024;
/// What a request costs in pages that come with it (`docs/performance.md`).
const REQUEST: f32 = 16.0;
/// In a stride: the next read is asked for together with this one.
const AHEAD: u8 = 0x80;
/// Of eight scans that come to a read, how many must go on behind it, so that the next one is asked for too.
const SURE: u64 = 7;

/// What one read takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stride {
    pub(crate) pages: usize,
    /// Whether the scan will most likely go on behind it.
    pub(crate) ahead: bool,
}

/// The lengths of scans that go through the same pages, and what follows from them.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// What the first read takes as long as nothing is known.
    first: u8,
    /// Scans that ended in each page, counted from 0; the last is for all that are long.
    ended: [AtomicU32; LONG + 1],
    scans: AtomicU32,
    /// By the pages that were asked for before: pages, and whether [`AHEAD`].
    strides: [AtomicU8; LONG],
}

/// The stride as long as nothing is known: at first little, since most scans are short.
fn beginning(first: u8, before: usize) -> u8 {
    match before / usize::from(first) {
        0 => first,
        1..3 => 2 * first,
        _ => WIDEST as u8 | AHEAD,
    }
}

/// How a scan reads ahead.
#[derive(Debug, Clone)]
pub(crate) struct ReadAhead {
    /// As far as scans went on for lately.
    pub(crate) lengths: Arc<Lengths>,
    /// Whose memory that takes.
    pub(crate) memory: Component,
}

impl Lengths {
    /// Of no scans yet: until there are some, a first read takes so many pages.
    pub(crate) fn new(first: u8) -> Lengths {
        let strides = std::array::from_fn(|before| AtomicU8::new(beginning(first, before)));
        Lengths { first, ended: std::array::from_fn(|_| AtomicU32::new(0)), scans: AtomicU32::new(0), strides }
    }

    /// What the read takes that follows so many pages; none for a long scan.
    pub(crate) fn stride(&self, before: usize) -> Option<Stride> {
        let stride = self.strides.get(before)?.load(Relaxed);
        Some(Stride { pages: usize::from(stride & !AHEAD), ahead: stride & AHEAD != 0 })
    }

    /// Counts a scan that looked at so many pages, one at least. Whoever counts at the same time may get lost now and
    /// then.
    pub(crate) fn count(&self, pages: usize) {
        self.ended[(pages - 1).min(LONG)].fetch_add(1, Relaxed);
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

/// The strides that cost the least for scans that end in these pages. From the last page on backwards: a read costs a
/// request, its pages, and for the share of scans that go on behind it what the rest costs. (What a long scan costs is
/// the same for all.)
fn strides(ended: &[u64; LONG + 1], first: u8) -> [u8; LONG] {
    let mut reached = *ended;
    (0..LONG).rev().for_each(|page| reached[page] += reached[page + 1]);
    let mut costs = [0.0; LONG + 1];
    let mut strides = [0; LONG];
    for before in (0..LONG).rev() {
        let behind = |pages: usize| (before + pages).min(LONG);
        let goes_on = |pages: usize| reached[behind(pages)] as f32 / reached[before] as f32;
        // Pages beyond those of a long scan are wanted by all who come this far.
        let cost = |pages: usize| REQUEST + (behind(pages) - before) as f32 + goes_on(pages) * costs[behind(pages)];
        if reached[before] == 0 {
            let stride = beginning(first, before);
            (strides[before], costs[before]) = (stride, REQUEST + f32::from(stride & !AHEAD));
            continue;
        }
        let cheapest = (1..=WIDEST).rev().min_by(|one, other| cost(*one).total_cmp(&cost(*other))).unwrap_or(1);
        let sure = reached[behind(cheapest)] * 8 >= reached[before] * SURE;
        strides[before] = cheapest as u8 | if sure { AHEAD } else { 0 };
        costs[before] = cost(cheapest);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::{EPOCH, LONG, Lengths, Stride, WIDEST};

    /// The strides of a scan that goes on, after many of these lengths.
    fn learned(lengths: impl Iterator<Item = usize>) -> Vec<Stride> {
        let known = Lengths::new(4);
        lengths.take(4 * EPOCH as usize).for_each(|pages| known.count(pages));
        let mut before = 0;
        std::iter::from_fn(|| {
            let stride = known.stride(before)?;
            before += stride.pages;
            Some(stride)
        })
        .collect()
    }

    #[test]
    fn scans_of_one_length_are_one_request() {
        for pages in 1..=WIDEST {
            assert_eq!(learned(std::iter::repeat(pages))[0], Stride { pages, ahead: false });
        }
    }

    #[test]
    fn long_scans_read_ahead_at_once() {
        let strides = learned(std::iter::repeat(LONG + 1));
        assert!(strides.iter().all(|stride| *stride == Stride { pages: WIDEST, ahead: true }), "{strides:?}");
    }

    #[test]
    fn a_page_that_one_scan_in_hundred_needs_is_not_read() {
        let lengths = (0..).map(|scan| if scan % 100 == 0 { 3 } else { 2 });
        assert_eq!(learned(lengths)[0], Stride { pages: 2, ahead: false });
        let lengths = (0..).map(|scan| if scan % 2 == 0 { 3 } else { 2 });
        assert_eq!(learned(lengths)[0], Stride { pages: 3, ahead: false });
    }

    #[test]
    fn what_scans_do_is_forgotten() {
        let known = Lengths::new(4);
        (0..EPOCH * 64).for_each(|_| known.count(LONG + 1));
        (0..EPOCH * 16).for_each(|_| known.count(1));
        assert_eq!(known.stride(0), Some(Stride { pages: 1, ahead: false }));
    }
}
