//! What scans lose to tables, and what it costs to have their records in pages (decision 14, "Price").

use std::ops::Range;

use super::task::Kind;
use crate::lsm::base::{Counted, Passage};

/// Nanoseconds of processor that it takes to begin a source of a scan, to read from the disk for it (one request of one
/// thread), to have a record go through a merge of several, and to come by an older one of its key.
const SEEK: f64 = 1_200.0;
const READ: f64 = 20_000.0;
const MERGED: f64 = 60.0;
const HIDDEN: f64 = 130.0;
/// Nanoseconds that a request of a scan costs more for pages than for one run: these are not full, end with each
/// segment, and take more to be looked at (`docs/performance.md`, "Pages that do not pay"). What is in memory costs as
/// much either way.
const AIR: f64 = 12_000.0;
/// Nanoseconds that a scan loses to one more run.
pub(super) const RUN: f64 = SEEK + READ;
/// Nanoseconds of processor that an absorption, and a merge, cost for each byte that they read and write again, before
/// one was timed. (By the clock, which goes on while others have the processors, they take up to five times as long
/// beside eight threads that scan.)
const PAGES_BYTE: f64 = 10.0;
const RUN_BYTE: f64 = 3.0;
/// Nanoseconds for which the disk is busy with a byte besides.
pub(super) const DISK: f64 = 1.0;
/// Nanoseconds of a byte at most.
const MOST: f64 = 22.0;
/// Parts of the budget between which a range, as one run, is better left that: pages of it are a quarter larger, and
/// memtables and indexes need some too.
const AS_RUN: Range<f64> = 0.6..1.2;
/// What a range has to have beside its largest place, as a part of that, to be merged again: a merge writes nearly all
/// of it anew, however little has come.
const NEWS: f64 = 1.0 / 8.0;
/// Nanoseconds of a piece, however small.
pub(super) const PIECE: f64 = 5e6;
/// What was known of the price of a byte has as much weight as the next so many bytes.
const KNOWN: f64 = 64e6;

/// Nanoseconds that a scan lost in a stretch to sources besides one.
pub(super) fn waste(passage: &Passage<'_>) -> f64 {
    let merged = if passage.sources > 0 { passage.records as f64 * MERGED } else { 0.0 };
    passage.sources as f64 * SEEK + passage.reads as f64 * READ + merged + passage.hidden as f64 * HIDDEN
}

/// Nanoseconds that it would have lost to pages in place of the oldest source.
pub(super) fn air(passage: &Passage<'_>) -> f64 {
    passage.main as f64 * AIR
}

/// Bytes that an absorption reads and writes, about: what counts, and the pages that have some of it.
pub(super) fn touched(counted: &Counted) -> f64 {
    let pages = counted.pages as f64;
    let part = if pages > 0.0 { 1.0 - (-(counted.records as f64) / pages).exp() } else { 0.0 };
    counted.bytes as f64 + part * counted.page_bytes as f64
}

/// Whether ranges of so many bytes in tables fit into a budget of memory as one run, or nearly, and not as pages.
pub(super) fn fit_as_run(bytes: u64, budget: u64) -> bool {
    AS_RUN.contains(&(bytes as f64 / budget as f64))
}

/// Whether of a range there is enough besides its largest place to be merged with that.
pub(super) fn has_news(counted: &Counted) -> bool {
    (counted.bytes - counted.largest) as f64 >= NEWS * counted.largest as f64
}

/// What a byte of them costs, as far as is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Price(f64);

/// The prices of what becomes pages, and of what becomes one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prices {
    pages: Price,
    run: Price,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices { pages: Price(PAGES_BYTE), run: Price(RUN_BYTE) }
    }
}

impl Prices {
    /// Of what adapts a range in this way.
    pub(super) fn of(&self, kind: Kind) -> Price {
        if kind == Kind::Merge { self.run } else { self.pages }
    }

    /// So many bytes took so many nanoseconds of processor.
    pub(super) fn learn(&mut self, kind: Kind, bytes: f64, worked: u64) {
        let price = if kind == Kind::Merge { &mut self.run } else { &mut self.pages };
        price.learn(bytes, worked);
    }
}

impl Price {
    /// Nanoseconds that it costs to read so many bytes and write them again, without [`PIECE`].
    pub(super) fn of(self, bytes: f64) -> f64 {
        self.0 * bytes
    }

    fn learn(&mut self, bytes: f64, worked: u64) {
        let seen = worked as f64 / bytes.max(1.0) + DISK;
        self.0 = (KNOWN * self.0 + bytes * seen.min(MOST)) / (KNOWN + bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_of_one_source_loses_nothing() {
        let passage = |main, sources, reads, hidden| Passage { from: b"a", records: 100, hidden, main, sources, reads };
        let lost = |passage: Passage<'_>| (waste(&passage), air(&passage));
        assert_eq!((lost(passage(0, 0, 0, 0)), lost(passage(2, 0, 0, 0))), ((0.0, 0.0), (0.0, 2.0 * AIR)));
        assert_eq!(lost(passage(0, 2, 1, 10)), (2.0 * 1200.0 + 20_000.0 + 6000.0 + 1300.0, 0.0));
    }

    #[test]
    fn the_price_is_of_what_counts_and_of_pages_that_get_some_of_it() {
        let counted =
            |bytes, records, pages| Counted { bytes, largest: bytes, records, pages, page_bytes: pages * 4096 };
        let price = Price(PAGES_BYTE);
        assert_eq!((touched(&counted(0, 0, 9)), price.of(touched(&counted(1000, 10, 0)))), (0.0, 10_000.0));
        let few = touched(&counted(1000, 10, 1000));
        assert!((1000.0 + 9.0 * 4096.0..1000.0 + 10.0 * 4096.0).contains(&few), "{few}");
        assert!(touched(&counted(1_000_000, 10_000, 1000)) > 1_000_000.0 + 999.0 * 4096.0);
    }

    #[test]
    fn a_byte_costs_what_pieces_took_within_bounds() {
        let mut price = Prices::default().run;
        price.learn(64e6, 960_000_000);
        assert_eq!(price.0, (RUN_BYTE + 16.0) / 2.0);
        (0..100).for_each(|_| price.learn(1e8, u64::MAX / 2));
        assert!((price.0 - MOST).abs() < 0.1, "{price:?}");
        (0..100).for_each(|_| price.learn(1e8, 0));
        assert!((price.0 - DISK).abs() < 0.1, "{price:?}");
    }
}
