//! What scans have paid for fewer runs in level 0 (decision 11, "Runs that scans pay for").

use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

/// Bytes that are read and written for about what one more run costs a scan, which is 3 to 4 µs of processor: those of
/// 50 records, and of the seek.
const RUN: u64 = 256;
/// Of all that may be paid, the part after which it is looked whether something has become due.
const LOOKS: u64 = 8;

/// Bytes of runs that scans have paid to have merged.
#[derive(Debug, Default)]
pub(super) struct Toll {
    paid: AtomicU64,
}

impl Toll {
    /// A scan came to so many more runs than one. No more than `most` bytes are paid: what comes later is not to be had
    /// for what was long ago. Whether so much more was that it is worth a look.
    pub(super) fn pass(&self, runs: u64, most: u64) -> bool {
        let before = self.paid();
        if runs == 0 || before >= most {
            return false;
        }
        let after = self.paid.fetch_add(runs * RUN, Ordering::Relaxed) + runs * RUN;
        let step = (most / LOOKS).max(1);
        before / step != after / step
    }

    /// So many bytes.
    pub(super) fn paid(&self) -> u64 {
        self.paid.load(Ordering::Relaxed)
    }

    /// So many bytes of runs were merged.
    pub(super) fn spend(&self, bytes: u64) {
        let left = |paid: u64| Some(paid.saturating_sub(bytes));
        let _before = self.paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn scans_pay_for_each_run_but_one_until_there_is_enough() {
        let toll = Toll::default();
        assert!((0..100).all(|_| !toll.pass(0, 1 << 20)), "they have but one");
        let looks = (0..10_000).filter(|_| toll.pass(2, 1 << 20)).count() as u64;
        assert_eq!((toll.paid(), looks), (1 << 20, LOOKS));
        toll.spend(1 << 19);
        assert_eq!(toll.paid(), 1 << 19);
        toll.spend(1 << 20);
        assert_eq!(toll.paid(), 0);
    }
}
