//! An equi-depth histogram: bins that hold about equally many keys of a sample, and a count of inserts for each.

use super::{
    cells::Cells,
    digest::{Digest, Digester, LONGEST, Place, next, way},
    sample::Sample,
};

/// Memory of a histogram.
#[derive(Debug)]
pub(super) struct Room {
    /// Where bins begin, as digests.
    bounds: Cells,
    /// A number for each bin.
    numbers: Cells,
}

impl Room {
    pub(super) fn new(bounds: Cells, numbers: Cells) -> Room {
        Room { bounds, numbers }
    }
}

/// Bins of the key space. The first begins below, and the last ends above all keys; each of the others begins at its bound. No bin is empty of possible
/// digests: a digest that fills a bin of its own has one of width one (trap 13).
#[derive(Debug)]
pub(super) struct Histogram {
    digester: Digester,
    room: Room,
    bins: usize,
}

impl Histogram {
    /// At most `bins` bins of equal depth, each with the number 0. If the sample is empty the memory comes back.
    pub(super) fn of(sample: &mut Sample, bins: usize, mut room: Room) -> Result<Histogram, Room> {
        let Some(digester) = sample.digester().cloned() else { return Err(room) };
        let size = digester.size;
        room.bounds.divide(size);
        let most = bins.min(room.bounds.len()).min(room.numbers.len());
        let mut count = 0;
        let mut push = |digest: &[u8]| {
            if count + 1 < most && (count == 0 || room.bounds.get(count - 1) < digest) {
                room.bounds.get_mut(count).copy_from_slice(digest);
                count += 1;
            }
        };
        let (mut last, mut ties) = ([0; LONGEST], 0);
        sample.quantiles(most.min(sample.count()), |digest| {
            let tied = last[..size] == *digest;
            if tied && ties == 0 {
                // Many keys have it: it gets a bin of its own.
                next(digest, size).iter().for_each(|above| push(&above[..size]));
            }
            ties = if tied { ties + 1 } else { 0 };
            last[..size].copy_from_slice(digest);
            push(digest);
        });
        let mut histogram = Histogram { digester, room, bins: count + 1 };
        histogram.fill(|_| 0.0);
        Ok(histogram)
    }

    /// Bins.
    pub(super) fn bins(&self) -> usize {
        self.bins
    }

    /// Counts an insert.
    pub(super) fn count(&mut self, key: &[u8]) {
        let bin = self.bin_of(key);
        let count = self.room.numbers.number(bin);
        self.room.numbers.set_number(bin, count + 1.0);
    }

    /// Gives each bin a number, from below.
    pub(super) fn fill(&mut self, mut number: impl FnMut(usize) -> f64) {
        (0..self.bins).for_each(|bin| self.room.numbers.set_number(bin, number(bin)));
    }

    /// The number of a bin.
    pub(super) fn number(&self, bin: usize) -> f64 {
        self.room.numbers.number(bin)
    }

    /// Where a bin begins; `None` for the first, which begins below all keys.
    pub(super) fn begin(&self, bin: usize) -> Option<&[u8]> {
        bin.checked_sub(1).map(|bound| self.room.bounds.get(bound))
    }

    /// How its digests were made.
    pub(super) fn digester(&self) -> &Digester {
        &self.digester
    }

    /// The bin of a key.
    pub(super) fn bin_of(&self, key: &[u8]) -> usize {
        match self.digester.place(key) {
            Place::Below => 0,
            Place::At(digest) => self.bin(&digest),
            Place::Above => self.bins - 1,
        }
    }

    fn bin(&self, digest: &Digest) -> usize {
        let digest = &digest[..self.digester.size];
        let (mut low, mut high) = (0, self.bins - 1);
        while low < high {
            let middle = low.midpoint(high);
            if self.room.bounds.get(middle) <= digest { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Sums of the numbers from below.
    pub(super) fn sum_up(mut self) -> Sums {
        let mut sum = 0.0;
        for bin in 0..self.bins {
            sum += self.room.numbers.number(bin);
            self.room.numbers.set_number(bin, sum);
        }
        Sums { histogram: self }
    }
}

/// How many inserts lie below a key.
#[derive(Debug)]
pub(super) struct Sums {
    histogram: Histogram,
}

impl Sums {
    /// The sum over all bins.
    pub(super) fn total(&self) -> f64 {
        self.histogram.number(self.histogram.bins - 1)
    }

    /// The sum of the bins below a key, its own bin in part, by linear interpolation. Never falls as keys rise.
    pub(super) fn below(&self, key: &[u8]) -> f64 {
        match self.histogram.digester.place(key) {
            Place::Below => 0.0,
            Place::At(digest) => self.below_digest(&digest),
            Place::Above => self.total(),
        }
    }

    fn below_digest(&self, digest: &Digest) -> f64 {
        let histogram = &self.histogram;
        let bin = histogram.bin(digest);
        let before = self.before(bin);
        let low = histogram.begin(bin).unwrap_or(&[0; LONGEST]);
        let high = histogram.begin(bin + 1).filter(|_| bin + 1 < histogram.bins).unwrap_or(&[255; LONGEST]);
        before + way(low, &digest[..histogram.digester.size], high) * (histogram.number(bin) - before)
    }

    fn before(&self, bin: usize) -> f64 {
        bin.checked_sub(1).map_or(0.0, |before| self.histogram.number(before))
    }

    /// Deals the total out anew: each part of the key space gets its share, the first one from below, each of the others from its cut on. In a part, half goes
    /// by what is there and half to all bins alike, since they are of equal depth.
    pub(super) fn deal_out(&mut self, cuts: &[Vec<u8>], shares: &[f32]) {
        let (total, bins) = (self.total(), self.histogram.bins);
        let weights: Vec<f64> =
            (0..bins).map(|bin| self.histogram.number(bin) - self.before(bin) + total / bins as f64).collect();
        let mut numbers = vec![0.0; bins];
        let mut begin = 0;
        let ends = cuts.iter().map(|cut| self.histogram.bin_of(cut)).chain([bins]);
        for (end, share) in ends.zip(shares) {
            let part = begin..end.max(begin + 1);
            let sum: f64 = weights[part.clone()].iter().sum();
            part.for_each(|bin| numbers[bin] += f64::from(*share) * total * weights[bin] / sum);
            begin = end;
        }
        let mut sum = 0.0;
        self.histogram.fill(|bin| {
            sum += numbers[bin];
            sum
        });
    }

    /// Bins.
    pub(super) fn bins(&self) -> usize {
        self.histogram.bins
    }

    /// Gives the memory back.
    pub(super) fn into_room(self) -> Room {
        self.histogram.room
    }
}
