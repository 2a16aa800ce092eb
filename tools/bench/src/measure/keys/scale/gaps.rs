//! Scales a sorted set up: resamples its gaps in blocks.
//!
//! The sequence of gaps is cut into blocks. Each place of the output gets a block drawn from those near the same place
//! of the input, perhaps mirrored. So gaps stay real, neighbours stay neighbours and the coarse distribution is kept;
//! the range grows with the number of keys. The few great jumps between regions are not drawn; each is put back once.

use hdrhistogram::Histogram;
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::{
    error::Result,
    measure::{
        keys::words::{U64File, Writer},
        zipf::below,
    },
};

/// Gaps of a block.
const BLOCK: u64 = 2048;
/// A place draws from this many blocks on either side.
const REACH: u64 = 8;
/// A gap is a jump if it is longer than the range divided by this, at most ...
const JUMPS: u64 = 10_000;
/// ... and than this many mean gaps.
const JUMP_GAPS: u64 = 100;

/// Facts about the set that is drawn from.
struct Original<'a> {
    keys: &'a U64File,
    block: u64,
    blocks: u64,
    /// A longer gap is a jump.
    jump: u64,
    /// Replaces a jump in drawn blocks.
    median: u64,
    /// Place and length of each jump, at most [`JUMPS`].
    jumps: Vec<(u64, u64)>,
}

/// Writes `wanted` keys, at least as many as `keys` has. `keys` is sorted and has at least two.
pub(super) fn scale(keys: &U64File, wanted: u64, seed: u64, target: &mut Writer) -> Result<()> {
    let original = Original::survey(keys)?;
    let (mut rng, mut gaps) = (SmallRng::seed_from_u64(seed), Vec::new());
    let places = (wanted - 1).div_ceil(original.block);
    let (mut key, mut left) = (keys.get(0)?, wanted - 1);
    target.push(key)?;
    for place in 0..places {
        original.draw(place, places, &mut rng, &mut gaps)?;
        for gap in gaps.iter().take(usize::try_from(left)?) {
            key = key.checked_add(*gap).ok_or_else(|| format!("{wanted} keys of this set do not fit into 64 bits"))?;
            target.push(key)?;
        }
        left = left.saturating_sub(gaps.len() as u64);
    }
    Ok(())
}

impl<'a> Original<'a> {
    fn survey(keys: &'a U64File) -> Result<Self> {
        let gaps = keys.count() - 1;
        let range = keys.get(gaps)? - keys.get(0)?;
        let jump = range / (gaps / JUMP_GAPS).clamp(1, JUMPS);
        let block = BLOCK.min(gaps);
        let (mut lengths, mut jumps) = (Histogram::<u64>::new(3).expect("three digits are possible"), Vec::new());
        let (mut last, mut place) = (keys.get(0)?, 0);
        keys.scan(|window| {
            for key in window {
                let gap = key - last;
                lengths.record(gap).expect("it grows as it must");
                if gap > jump {
                    jumps.push((place - 1, gap));
                }
                (last, place) = (*key, place + 1);
            }
            Ok(())
        })?;
        let median = lengths.value_at_quantile(0.5).min(jump).max(1);
        Ok(Original { keys, block, blocks: gaps / block, jump, median, jumps })
    }

    /// Draws the gaps at one of `places` places.
    fn draw(&self, place: u64, places: u64, rng: &mut SmallRng, gaps: &mut Vec<u64>) -> Result<()> {
        let here = self.origin(place, places);
        let (draw, side) = below(rng.next_u64(), 2 * REACH + 1);
        let drawn = (here + draw).saturating_sub(REACH).min(self.blocks - 1);
        let mut keys = vec![0; (self.block + 1) as usize];
        self.keys.read(drawn * self.block, &mut keys)?;
        // Equal keys become neighbours.
        let lengths = keys.windows(2).map(|pair| (pair[1] - pair[0]).max(1));
        gaps.clear();
        gaps.extend(lengths.map(|gap| if gap > self.jump { self.median } else { gap }));
        if side > u64::MAX / 2 {
            gaps.reverse();
        }
        if place == 0 || self.origin(place - 1, places) != here {
            self.put_jumps(here, places, gaps);
        }
        Ok(())
    }

    /// The block of the input that corresponds to `place` in the output.
    fn origin(&self, place: u64, places: u64) -> u64 {
        (u128::from(place) * u128::from(self.blocks) / u128::from(places)) as u64
    }

    /// Puts the jumps of an input block back, scaled like the whole range.
    fn put_jumps(&self, block: u64, places: u64, gaps: &mut [u64]) {
        let first = block * self.block;
        let from = self.jumps.partition_point(|(place, _)| *place < first);
        for (place, length) in self.jumps[from..].iter().take_while(|(place, _)| *place < first + self.block) {
            let longer = u128::from(*length) * u128::from(places) / u128::from(self.blocks);
            gaps[(place - first) as usize] = u64::try_from(longer).unwrap_or(u64::MAX);
        }
    }
}
