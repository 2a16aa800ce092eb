//! How full pages are planned (T9, A9).

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Fill percentage of pages, for records and fences, 1..=100. Pages of a line may be fuller, up to what fits, or
/// emptier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FillFactor {
    /// The same percentage for each page.
    Even(u8),
    /// From half of `most` to all of it, with density 1/x², so that pages that grow at the same rate do not all
    /// overflow at the same time. Such pages have no lines. The percentage depends on the seed and on the position
    /// where a page begins.
    Spread { most: u8, seed: u64 },
}

impl FillFactor {
    /// The greatest percentage.
    pub(super) fn most(self) -> u8 {
        match self {
            FillFactor::Even(percent) | FillFactor::Spread { most: percent, .. } => percent,
        }
    }

    /// Whether all pages have the same target.
    pub(super) fn is_even(self) -> bool {
        matches!(self, FillFactor::Even(_))
    }

    /// Target bytes of the page that begins at a position, where the fullest pages have `most` bytes.
    pub(super) fn bytes(self, position: usize, most: usize) -> usize {
        match self {
            FillFactor::Even(_) => most,
            FillFactor::Spread { seed, .. } => (most as f64 / (2.0 - drawn(seed, position))) as usize,
        }
    }
}

/// A pseudo-random number in 0..1.
fn drawn(seed: u64, position: usize) -> f64 {
    (xxh3_64_with_seed(&(position as u64).to_le_bytes(), seed) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For density 1/x² on [1/2, 1] the part below x is 2 - 1/x, and the mean is ln 2.
    #[test]
    fn parts_of_pages_have_the_density_of_the_sound_remedy() {
        const PAGES: usize = 20_000;
        let fill = FillFactor::Spread { most: 100, seed: 7 };
        let parts: Vec<f64> =
            (0..PAGES).map(|position| fill.bytes(position, 1 << 20) as f64 / f64::from(1 << 20)).collect();
        for x in [0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0] {
            let below = parts.iter().filter(|part| **part < x).count() as f64 / PAGES as f64;
            assert!((below - (2.0 - 1.0 / x)).abs() < 0.02, "{below} are below {x}");
        }
        let mean = parts.iter().sum::<f64>() / PAGES as f64;
        assert!((mean - 2f64.ln()).abs() < 0.005, "{mean}");
    }

    #[test]
    fn parts_follow_from_the_seed() {
        let bytes = |seed| [0, 1, 2].map(|position| FillFactor::Spread { most: 100, seed }.bytes(position, 4000));
        assert_eq!(bytes(1), bytes(1));
        assert!(bytes(1) != bytes(2) && bytes(1)[0] != bytes(1)[1]);
        assert_eq!(FillFactor::Even(90).bytes(5, 4000), 4000);
    }
}
