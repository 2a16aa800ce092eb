//! The cost model: what scans lose by reading several runs, and what it costs to convert a range. Both are in
//! nanoseconds, so that the policy can compare them (adaptive.md, "Cost model").

use std::ops::Range;

use ecotone_lsm::{observer::ScanReport, pages::tier::RangeSize};

use super::task::Target;

/// Nanoseconds of processor for a seek in one source of a scan, for a read request of one thread to the disk, for a
/// record in a merge of several sources, and for passing a superseded record.
const SEEK: f64 = 1_200.0;
const READ: f64 = 20_000.0;
const MERGED_RECORD: f64 = 60.0;
const SUPERSEDED_RECORD: f64 = 130.0;
/// Nanoseconds that a read request of a scan costs more for pages than for one run. Pages are not full, end with each
/// segment, and take more work to search (`docs/history/performance-log.md`, "Pages that do not pay"). In memory both
/// cost the same.
const PAGE_READ_OVERHEAD: f64 = 12_000.0;
/// Nanoseconds that one more run costs a scan.
pub(super) const EXTRA_RUN: f64 = SEEK + READ;
/// Nanoseconds of processor per byte read and rewritten, for a conversion to pages and for one to one run. They were
/// measured. (Wall-clock time includes waits for a processor: beside eight scanning threads it is up to five times as
/// long.)
const PAGES_BYTE: f64 = 10.0;
const RUN_BYTE: f64 = 3.0;
/// Nanoseconds per byte for which the disk is busy, in addition.
pub(super) const DISK: f64 = 1.0;
/// Ratios of the hot set to the memory budget for which a range is better kept as one run. Pages are a quarter larger,
/// and memtables and indexes need memory too.
const ONE_RUN_BUDGETS: Range<f64> = 0.6..1.2;
/// A range is merged again only if the data outside its largest run is at least this share of that run: a merge
/// rewrites nearly all of it, however little is new.
const MIN_NEW_SHARE: f64 = 1.0 / 8.0;
/// Fixed cost of a conversion in nanoseconds, whatever its size.
pub(super) const FIXED_COST: f64 = 5e6;

/// Nanoseconds that a scan lost to sources other than the main one.
pub(super) fn read_cost(report: &ScanReport<'_>) -> f64 {
    let merged = if report.sources > 0 { report.records as f64 * MERGED_RECORD } else { 0.0 };
    report.sources as f64 * SEEK + report.reads as f64 * READ + merged + report.hidden as f64 * SUPERSEDED_RECORD
}

/// Nanoseconds that the scan would have lost to pages in place of the oldest source.
pub(super) fn page_overhead(report: &ScanReport<'_>) -> f64 {
    report.main as f64 * PAGE_READ_OVERHEAD
}

/// Estimated bytes that a conversion to pages reads and rewrites: the visible table records, and the pages that get
/// some of them.
pub(super) fn bytes_rewritten(range_size: &RangeSize) -> f64 {
    let pages = range_size.pages as f64;
    let part = if pages > 0.0 { 1.0 - (-(range_size.records as f64) / pages).exp() } else { 0.0 };
    range_size.bytes as f64 + part * range_size.page_bytes as f64
}

/// Whether a hot set of so many bytes in tables fits into the memory budget, or nearly fits, as one run but not as
/// pages.
pub(super) fn fits_as_one_run(bytes: u64, budget: u64) -> bool {
    ONE_RUN_BUDGETS.contains(&(bytes as f64 / budget as f64))
}

/// Whether a range has enough data outside its largest run to be merged with that run.
pub(super) fn is_worth_merging(range_size: &RangeSize) -> bool {
    (range_size.bytes - range_size.largest_run) as f64 >= MIN_NEW_SHARE * range_size.largest_run as f64
}

/// Nanoseconds to convert so many bytes, without [`FIXED_COST`].
pub(super) fn conversion_cost(target: Target, bytes: f64) -> f64 {
    bytes * if target == Target::OneRun { RUN_BYTE } else { PAGES_BYTE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_of_one_source_loses_nothing() {
        let report =
            |main, sources, reads, hidden| ScanReport { from: b"a", records: 100, hidden, main, sources, reads };
        let lost = |report: ScanReport<'_>| (read_cost(&report), page_overhead(&report));
        assert_eq!((lost(report(0, 0, 0, 0)), lost(report(2, 0, 0, 0))), ((0.0, 0.0), (0.0, 2.0 * PAGE_READ_OVERHEAD)));
        assert_eq!(lost(report(0, 2, 1, 10)), (2.0 * 1200.0 + 20_000.0 + 6000.0 + 1300.0, 0.0));
    }

    #[test]
    fn the_cost_is_of_what_counts_and_of_pages_that_get_some_of_it() {
        let range_size =
            |bytes, records, pages| RangeSize { bytes, largest_run: bytes, records, pages, page_bytes: pages * 4096 };
        assert_eq!(
            (
                bytes_rewritten(&range_size(0, 0, 9)),
                conversion_cost(Target::Pages, bytes_rewritten(&range_size(1000, 10, 0)))
            ),
            (0.0, 10_000.0)
        );
        let few = bytes_rewritten(&range_size(1000, 10, 1000));
        assert!((1000.0 + 9.0 * 4096.0..1000.0 + 10.0 * 4096.0).contains(&few), "{few}");
        assert!(bytes_rewritten(&range_size(1_000_000, 10_000, 1000)) > 1_000_000.0 + 999.0 * 4096.0);
    }
}
