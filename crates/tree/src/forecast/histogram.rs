//! An equi-depth histogram: bins that hold about equally many keys of a sample, and a count of inserts for each.

use super::{
    cells::Cells,
    digest::{Digest, DigestPosition, Digester, LONGEST, next, way},
    sample::Sample,
};

/// An outer bin with more inserts than this many times the mean holds the end of ascending or descending keys. Later
/// keys come beyond all others, so its inserts are taken to lie at its outer end.
const FRONT: f64 = 4.0;

/// Memory of a histogram.
#[derive(Debug)]
pub(super) struct HistogramMemory {
    /// Lower bounds of the bins, as digests.
    bounds: Cells,
    /// A number for each bin.
    numbers: Cells,
}

impl HistogramMemory {
    pub(super) fn new(bounds: Cells, numbers: Cells) -> HistogramMemory {
        HistogramMemory { bounds, numbers }
    }
}

/// Bins of the key space. The first bin begins below all keys, and the last ends above all keys; each other one begins
/// at its bound. Every bin contains a possible digest: a digest that fills a whole bin gets one of width one (trap 13).
#[derive(Debug)]
pub(super) struct Histogram {
    digester: Digester,
    room: HistogramMemory,
    bins: usize,
}

impl Histogram {
    /// Cuts at most `bins` bins of equal depth, each with the number 0.
    pub(super) fn cut(sample: &mut Sample, bins: usize, mut room: HistogramMemory) -> Histogram {
        let digester = sample.digester();
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
        let mut last: Option<Digest> = None;
        sample.quantiles(most.min(sample.count()), |digest| {
            push(digest);
            if last.is_some_and(|last| last[..size] == *digest) {
                // Many keys have this digest: it gets a bin of its own.
                next(digest, size).iter().for_each(|above| push(&above[..size]));
            }
            last.get_or_insert([0; LONGEST])[..size].copy_from_slice(digest);
        });
        let mut histogram = Histogram { digester, room, bins: count + 1 };
        histogram.fill(|_| 0.0);
        histogram
    }

    /// Number of bins.
    pub(super) fn bins(&self) -> usize {
        self.bins
    }

    /// Counts an insert.
    pub(super) fn count(&mut self, key: &[u8]) {
        let bin = self.bin_of(key);
        let count = self.room.numbers.number(bin);
        self.room.numbers.set_number(bin, count + 1.0);
    }

    /// Sets the number of each bin, in ascending order.
    pub(super) fn fill(&mut self, mut number: impl FnMut(usize) -> f64) {
        (0..self.bins).for_each(|bin| self.room.numbers.set_number(bin, number(bin)));
    }

    /// The number of a bin.
    pub(super) fn number(&self, bin: usize) -> f64 {
        self.room.numbers.number(bin)
    }

    /// The least key of a bin; `None` for the first, which begins below all keys.
    pub(super) fn begin_key(&self, bin: usize) -> Option<Vec<u8>> {
        self.begin(bin).map(|digest| self.digester.least_key(digest))
    }

    fn begin(&self, bin: usize) -> Option<&[u8]> {
        bin.checked_sub(1).map(|bound| self.room.bounds.get(bound))
    }

    /// The bin that contains a key.
    pub(super) fn bin_of(&self, key: &[u8]) -> usize {
        match self.digester.place(key) {
            DigestPosition::Below => 0,
            DigestPosition::At(digest) => self.bin(&digest),
            DigestPosition::Above => self.bins - 1,
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

    /// The prefix sums of the numbers.
    pub(super) fn sum_up(mut self) -> Sums {
        let mut sum = 0.0;
        for bin in 0..self.bins {
            sum += self.room.numbers.number(bin);
            self.room.numbers.set_number(bin, sum);
        }
        Sums { histogram: self }
    }
}

/// The number of inserts below each key.
#[derive(Debug)]
pub(super) struct Sums {
    histogram: Histogram,
}

impl Sums {
    /// The sum over all bins.
    pub(super) fn total(&self) -> f64 {
        self.histogram.number(self.histogram.bins - 1)
    }

    /// The inserts below a key. Its own bin counts in part, by linear interpolation; an outer bin above [`FRONT`]
    /// counts entirely or not at all. Never decreases for ascending keys.
    pub(super) fn below(&self, key: &[u8]) -> f64 {
        let (histogram, bin) = (&self.histogram, self.histogram.bin_of(key));
        let (before, number) = (self.before(bin), histogram.number(bin) - self.before(bin));
        let (first, last) = (bin == 0, bin + 1 == histogram.bins);
        if number > FRONT * self.total() / histogram.bins as f64 && (first || last) {
            return if first && !key.is_empty() { number } else { before };
        }
        let high = if last { &[255; LONGEST] } else { histogram.room.bounds.get(bin) };
        let low = histogram.begin(bin).unwrap_or(&[0; LONGEST]);
        match histogram.digester.place(key) {
            DigestPosition::Below => before,
            DigestPosition::At(digest) => before + way(low, &digest[..histogram.digester.size], high) * number,
            DigestPosition::Above => before + number,
        }
    }

    fn before(&self, bin: usize) -> f64 {
        bin.checked_sub(1).map_or(0.0, |before| self.histogram.number(before))
    }

    /// Redistributes the total: each part of the key space gets its share. The first part begins below all keys, each
    /// other one at its cut. Within a part, half of the weight follows the current inserts, and half is equal for all
    /// bins, since they have equal depth.
    pub(super) fn redistribute(&mut self, cuts: &[Vec<u8>], shares: &[f32]) {
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

    /// Number of bins.
    pub(super) fn bins(&self) -> usize {
        self.histogram.bins
    }

    /// Returns the memory.
    pub(super) fn into_room(self) -> HistogramMemory {
        self.histogram.room
    }
}

#[cfg(test)]
mod tests {
    use ecotone_substrate::memory::Memory;
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;

    fn cut(keys: &[Vec<u8>], bins: usize) -> Histogram {
        let memory = Memory::new(16 << 20);
        let mut sample = Sample::new(Cells::lease(&memory, keys.len(), 8).unwrap(), 1);
        keys.iter().for_each(|key| sample.offer(key));
        let room =
            HistogramMemory::new(Cells::lease(&memory, bins, 8).unwrap(), Cells::lease(&memory, bins, 8).unwrap());
        Histogram::cut(&mut sample, bins, room)
    }

    /// Keys of one to ten bytes; many share prefixes.
    fn keys(random: &mut SmallRng, count: usize) -> Vec<Vec<u8>> {
        let letters = random.random_range(2..=200);
        let key =
            |random: &mut SmallRng| (0..random.random_range(1..=10)).map(|_| random.random_range(0..letters)).collect();
        (0..count).map(|_| key(random)).collect()
    }

    /// The lower bound of each bin but the first.
    fn begins(histogram: &Histogram) -> Vec<Vec<u8>> {
        (1..histogram.bins()).filter_map(|bin| histogram.begin_key(bin)).collect()
    }

    #[test]
    fn counts_are_those_of_brute_force() {
        for seed in 0..50 {
            let mut random = SmallRng::seed_from_u64(seed);
            let (sampled, inserted) = (keys(&mut random, 800), keys(&mut random, 2000));
            let mut histogram = cut(&sampled, 64);
            inserted.iter().for_each(|key| histogram.count(key));
            let begins = begins(&histogram);
            let bins = histogram.bins();
            assert!(begins.is_sorted() && bins == begins.len() + 1 && bins <= 64, "seed {seed}");
            let counts: Vec<f64> = (0..bins).map(|bin| histogram.number(bin)).collect();
            let sums = histogram.sum_up();
            assert_eq!(sums.total(), 2000.0);
            let exact = |end: &[u8]| inserted.iter().filter(|key| key.as_slice() < end).count() as f64;
            for begin in &begins {
                assert_eq!(sums.below(begin), exact(begin), "seed {seed}, below {begin:?}");
            }
            for key in keys(&mut random, 200) {
                let bin = begins.partition_point(|begin| *begin <= key);
                let off = (sums.below(&key) - exact(&key)).abs();
                assert!(off <= counts[bin], "seed {seed}: {key:?} is {off} off, and its bin has {}", counts[bin]);
            }
        }
    }

    #[test]
    fn what_lies_below_a_key_never_falls_as_keys_rise() {
        for seed in 0..20 {
            let mut random = SmallRng::seed_from_u64(seed);
            let mut histogram = cut(&keys(&mut random, 300), 64);
            keys(&mut random, 1000).iter().for_each(|key| histogram.count(key));
            let sums = histogram.sum_up();
            let mut probes = keys(&mut random, 1000);
            probes.sort_unstable();
            assert!(probes.is_sorted_by_key(|key| sums.below(key)), "seed {seed}");
        }
    }

    #[test]
    fn bins_are_equally_deep() {
        let sampled: Vec<Vec<u8>> = (0..6400u64).map(|i| (i * i).to_be_bytes().to_vec()).collect();
        let mut histogram = cut(&sampled, 64);
        sampled.iter().for_each(|key| histogram.count(key));
        assert_eq!(histogram.bins(), 64);
        assert!((0..64).all(|bin| (99.0..=101.0).contains(&histogram.number(bin))));
    }

    #[test]
    fn trap_13_equal_samples_make_no_bin_of_no_width() {
        let mut sampled = vec![b"same-key".to_vec(); 500];
        sampled.extend((0..500u32).map(|i| format!("{i:08}").into_bytes()));
        let mut histogram = cut(&sampled, 100);
        sampled.iter().for_each(|key| histogram.count(key));
        assert!((40..=60).contains(&histogram.bins()), "{} bins", histogram.bins());
        let begins = begins(&histogram);
        assert!(begins.is_sorted_by(|a, b| a < b));
        let sums = histogram.sum_up();
        // The key that fills half of the sample has a bin of its own, so adjacent bins get none of its inserts.
        assert_eq!((sums.below(b"same-key"), sums.below(b"same-kez"), sums.total()), (500.0, 1000.0, 1000.0));
        assert!(sampled.iter().all(|key| sums.below(key).is_finite()));
    }

    #[test]
    fn trap_13_a_sample_of_one_key_counts_all() {
        let mut histogram = cut(&vec![vec![255; 8]; 100], 10);
        for key in [&b"a"[..], &[255; 8], &[255; 9], b"z"] {
            histogram.count(key);
        }
        let sums = histogram.sum_up();
        assert_eq!((sums.below(b""), sums.below(&[255; 8]), sums.total()), (0.0, 2.0, 4.0));
    }

    #[test]
    fn trap_13_keys_below_the_first_boundary_count() {
        let sampled: Vec<Vec<u8>> = (0..640u64).map(|i| format!("m/{i:08}").into_bytes()).collect();
        let mut histogram = cut(&sampled, 64);
        sampled.iter().for_each(|key| histogram.count(key));
        let outside = [&b""[..], b"a", b"m", b"m/", b"m/0", b"z"];
        outside.iter().for_each(|key| histogram.count(key));
        let boundary = histogram.begin_key(1).unwrap();
        let first = sampled.iter().filter(|key| **key < boundary).count() as f64;
        assert_eq!(histogram.number(0), first + 5.0);
        let sums = histogram.sum_up();
        assert_eq!((sums.below(b""), sums.below(&boundary), sums.total()), (0.0, first + 5.0, 646.0));
    }

    #[test]
    fn what_comes_beyond_all_keys_leaves_those_alone() {
        let key = |number: u64| (1 << 32 | number).to_be_bytes();
        let sampled: Vec<Vec<u8>> = (10_000..16_400u64).map(|i| key(i).to_vec()).collect();
        for (front, inside) in [(16_400..17_400, [16_500, 17_300]), (9_000..10_000, [9_100, 9_900])] {
            let mut histogram = cut(&sampled, 64);
            front.for_each(|number| histogram.count(&key(number)));
            let sums = histogram.sum_up();
            let [low, high] = inside.map(|number| sums.below(&key(number)));
            assert_eq!((high - low, sums.below(b""), sums.total()), (0.0, 0.0, 1000.0));
        }
    }

    #[test]
    fn parts_get_their_shares() {
        let sampled: Vec<Vec<u8>> = (0..6400u64).map(|i| i.to_be_bytes().to_vec()).collect();
        let mut histogram = cut(&sampled, 64);
        sampled[..3200].iter().for_each(|key| histogram.count(key));
        let mut sums = histogram.sum_up();
        let cuts = [1600u64, 4800].map(|key| key.to_be_bytes().to_vec());
        sums.redistribute(&cuts, &[0.5, 0.25, 0.25]);
        let below = |key: u64| sums.below(&key.to_be_bytes());
        for (key, expected) in [(1600, 1600.0), (4800, 2400.0)] {
            assert!((below(key) - expected).abs() < 60.0, "{} below {key}", below(key));
        }
        assert!((sums.total() - 3200.0).abs() < 1e-6);
        // The last epoch and the depth of the bins weigh half each.
        assert!(below(3200) - below(1600) > 1.8 * (below(4800) - below(3200)));
    }
}
