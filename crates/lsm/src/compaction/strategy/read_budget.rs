//! The read compaction budget, as LevelDB's allowed seeks: each scan pays for the runs of L0 that it had to read, and
//! the bytes that it paid for are merged (lsm.md, "Compaction").

use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

/// Bytes that a merge reads and writes for about the cost of one more run to a scan. That is 3 to 4 µs of processor:
/// the cost of 50 records, and of the seek.
const RUN: u64 = 256;
/// A check for due compactions follows each time that one `LOOKS`-th of the most was paid.
const LOOKS: u64 = 8;

/// Bytes of runs whose merge scans have paid for.
#[derive(Debug, Default)]
pub(crate) struct ReadCompactionBudget {
    budget: AtomicU64,
}

impl ReadCompactionBudget {
    /// A scan has read so many runs beyond the first. At most `most` bytes are paid, so that old scans do not pay for
    /// later runs. True if so much was paid that a check for due compactions is worth it.
    pub(crate) fn record_scan(&self, runs: u64, most: u64) -> bool {
        let before = self.available();
        if runs == 0 || before >= most {
            return false;
        }
        let after = self.budget.fetch_add(runs * RUN, Ordering::Relaxed) + runs * RUN;
        let step = (most / LOOKS).max(1);
        before / step != after / step
    }

    /// The bytes that may be merged.
    pub(crate) fn available(&self) -> u64 {
        self.budget.load(Ordering::Relaxed)
    }

    /// So many bytes of runs were merged.
    pub(crate) fn consume(&self, bytes: u64) {
        let left = |budget: u64| Some(budget.saturating_sub(bytes));
        let _before = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn scans_pay_for_each_run_but_one_until_there_is_enough() {
        let read_budget = ReadCompactionBudget::default();
        assert!((0..100).all(|_| !read_budget.record_scan(0, 1 << 20)), "they have but one");
        let looks = (0..10_000).filter(|_| read_budget.record_scan(2, 1 << 20)).count() as u64;
        assert_eq!((read_budget.available(), looks), (1 << 20, LOOKS));
        read_budget.consume(1 << 19);
        assert_eq!(read_budget.available(), 1 << 19);
        read_budget.consume(1 << 20);
        assert_eq!(read_budget.available(), 0);
    }
}
