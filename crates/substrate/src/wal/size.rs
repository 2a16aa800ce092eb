//! The size of the next segment: files grow with the log, so that a database of few records takes little space.

use super::WalOptions;

impl WalOptions {
    /// Bytes of the next segment file of a log of `used` bytes: at least half of them, within the limits.
    pub(super) fn next_bytes(&self, used: u64) -> u64 {
        let power = used.checked_ilog2().map_or(1, |bits| 1 << bits);
        power.clamp(self.first_bytes, self.segment_bytes)
    }

    /// Whether a freed file is kept for the log: if it is as large as the next one would be, and all spare ones
    /// together do not exceed what a full log of distinct records needs.
    pub(super) fn keeps(&self, bytes: u64, used: u64, spare_bytes: u64) -> bool {
        let is_ours = bytes.is_power_of_two() && bytes <= self.segment_bytes;
        let most = self.limit_bytes + 2 * self.segment_bytes;
        is_ours && bytes >= self.next_bytes(used) && spare_bytes + bytes <= most
    }

    /// Whether a file of this length may be a segment.
    pub(super) fn has(&self, bytes: u64) -> bool {
        bytes.is_power_of_two() && (self.first_bytes..=self.segment_bytes).contains(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: WalOptions =
        WalOptions { first_bytes: 256 << 10, segment_bytes: 16 << 20, limit_bytes: 70 << 20, longest_bytes: 200 << 20 };

    #[test]
    fn files_grow_with_the_log_up_to_their_largest_size() {
        let sizes = [0, 1, 300 << 10, 600 << 10, 5 << 20, 16 << 20, 60 << 20].map(|used| OPTIONS.next_bytes(used));
        assert_eq!(sizes, [256 << 10, 256 << 10, 256 << 10, 512 << 10, 4 << 20, 16 << 20, 16 << 20]);
        let mut files = 0;
        let mut bytes = 0;
        while bytes < OPTIONS.limit_bytes {
            bytes += OPTIONS.next_bytes(bytes);
            files += 1;
        }
        assert!(files < 20, "{files} files");
    }

    #[test]
    fn small_files_stay_while_the_log_is_short_and_spare_ones_have_a_limit() {
        assert!(OPTIONS.keeps(256 << 10, 400 << 10, 0));
        assert!(!OPTIONS.keeps(256 << 10, 20 << 20, 0), "a long log has larger ones");
        assert!(OPTIONS.keeps(16 << 20, 20 << 20, 80 << 20));
        assert!(!OPTIONS.keeps(16 << 20, 20 << 20, 90 << 20));
        assert!(!OPTIONS.keeps(32 << 20, 20 << 20, 0), "of a life with more memory");
    }
}
