use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

/// A simple reference bitmap.
struct Model {
    used: Vec<bool>,
}

impl Model {
    /// The free runs of a block, as first page and length.
    fn runs(&self, block: usize) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for page in block * 64..((block + 1) * 64).min(self.used.len()) {
            match runs.last_mut() {
                _ if self.used[page] => {}
                Some((first, length)) if *first + *length == page as u32 => *length += 1,
                _ => runs.push((page as u32, 1)),
            }
        }
        runs
    }

    fn choose(&self, length: u32) -> Option<u32> {
        let longest = |block| self.runs(block).iter().map(|(_, length)| *length).max().unwrap_or(0);
        let mut blocks = 0..self.used.len().div_ceil(64);
        let block = blocks.find(|block| longest(*block) >= length)?;
        let fits = self.runs(block).into_iter().filter(|(_, free)| *free >= length);
        fits.min_by_key(|(first, free)| (*free, *first)).map(|(first, _)| first)
    }

    fn set(&mut self, first: u32, length: u32, used: bool) {
        for page in first..first + length {
            assert_ne!(std::mem::replace(&mut self.used[page as usize], used), used, "page {page}");
        }
    }

    fn some(&self, random: &mut SmallRng, used: bool) -> Option<u32> {
        let pages: Vec<usize> = (0..self.used.len()).filter(|page| self.used[*page] == used).collect();
        (!pages.is_empty()).then(|| pages[random.random_range(0..pages.len())] as u32)
    }

    fn step(&mut self, bitmap: &mut Bitmap, random: &mut SmallRng) {
        match random.random_range(0..20) {
            0..9 => {
                let length = if random.random() { random.random_range(1..=MAX_RUN) } else { 1 };
                let first = bitmap.take_run(length);
                assert_eq!(first, self.choose(length), "a run of {length}");
                first.into_iter().for_each(|first| self.set(first, length, true));
            }
            9..18 => {
                for page in self.some(random, true).into_iter().flat_map(|page| page..page + random.random_range(1..30))
                {
                    let used = self.used.get(page as usize).copied().unwrap_or(false);
                    assert_eq!(bitmap.give(page), used);
                    self.set(page, u32::from(used), false);
                }
            }
            18 => {
                let page = random.random_range(0..self.used.len() as u32 + 70);
                let free = self.used.get(page as usize).is_some_and(|used| !used);
                assert_eq!(bitmap.take(page), free);
                self.set(page, u32::from(free), true);
            }
            _ => {
                self.used.resize(self.used.len() + random.random_range(0..40), false);
                bitmap.grow(self.used.len() as u32);
            }
        }
    }
}

#[test]
fn random_runs_are_those_of_a_plain_model() {
    for seed in 0..4 {
        println!("seed {seed}");
        let (mut bitmap, mut model) = (Bitmap::default(), Model { used: Vec::new() });
        let mut random = SmallRng::seed_from_u64(seed);
        for _ in 0..2000 {
            model.step(&mut bitmap, &mut random);
            assert_eq!(bitmap.free() as usize, model.used.iter().filter(|used| !**used).count());
            assert_eq!(bitmap.total() as usize, model.used.len());
        }
        assert!(bitmap.levels.len() > 1, "the tree has some height");
        assert!((0..bitmap.total()).all(|page| bitmap.is_used(page) == model.used[page as usize]));
    }
}

#[test]
fn low_blocks_fill_up_and_small_gaps_first() {
    let mut bitmap = Bitmap::default();
    bitmap.grow(256);
    (0..256).for_each(|page| assert!(bitmap.take(page)));
    // Block 0 has a long gap and a gap of one, block 1 one of 3, block 2 one of 1, block 3 one of 12 and one of 2.
    let gaps = [(0, 20), (30, 1), (70, 3), (130, 1), (200, 12), (240, 2)];
    gaps.iter().flat_map(|(first, length)| *first..first + length).for_each(|page| assert!(bitmap.give(page)));
    let lengths = [1, 1, 16, 3, 2, 1, 2, 13, 12, 1, 1];
    let runs = lengths.map(|length| bitmap.take_run(length));
    assert_eq!(runs, [30, 0, 1, 17, 70, 72, 240, 999, 200, 130, 999].map(|page| Some(page).filter(|page| *page < 999)));
    assert_eq!(bitmap.free(), 0);
}

#[test]
fn pieces_go_out_of_use_and_come_back() {
    let mut bitmap = Bitmap::default();
    bitmap.grow(20 * BLOCK);
    (0..20 * BLOCK).for_each(|page| assert!(bitmap.take(page)));
    // Eight neighbours across a block's end, four, and some pages that hold no piece.
    let gaps = [(48, 32), (16 * BLOCK + 16, 16), (18 * BLOCK + 9, 6)];
    gaps.iter().flat_map(|(first, length)| *first..first + length).for_each(|page| assert!(bitmap.give(page)));
    assert_eq!(bitmap.highest_free(u32::MAX, 9), Some(260..264));
    assert_eq!(bitmap.highest_free(260, 1), Some(19..20));
    assert_eq!(bitmap.highest_free(260, 9), Some(12..20));
    assert_eq!(bitmap.highest_free(12, 9), None);
    bitmap.close(12..20);
    bitmap.close(260..264);
    assert_eq!((bitmap.highest_free(u32::MAX, 9), bitmap.free()), (None, 6));
    assert_eq!([6, 1].map(|length| bitmap.take_run(length)), [Some(18 * BLOCK + 9), None]);
    bitmap.open(16..20);
    assert_eq!([16, 1].map(|length| bitmap.take_run(length)), [Some(BLOCK), None]);
}

#[test]
fn no_operation_looks_at_more_than_a_few_nodes() {
    // 32 GiB of pages, of which one in twenty is free.
    let mut bitmap = Bitmap::default();
    bitmap.grow(8 << 20);
    let mut random = SmallRng::seed_from_u64(1);
    for page in 0..bitmap.total() {
        if random.random_range(0..20) > 0 || page / BLOCK == 100_000 {
            bitmap.take(page);
        }
    }
    bitmap.take_run(1).unwrap();
    let mut most = 0;
    for round in 0..20_000 {
        bitmap.looks = 0;
        if round % 2 == 0 {
            bitmap.take_run(1 + random.random_range(0..4));
        } else {
            bitmap.give(random.random_range(0..bitmap.total()));
        }
        most = most.max(bitmap.looks);
    }
    assert_eq!(bitmap.levels.len(), 5);
    assert!(most <= FAN * (2 * bitmap.levels.len() + 1), "{most} looks");
    let share = bitmap.bytes() as f64 / f64::from(bitmap.total() / 8);
    assert!(share < 1.05, "{share} times a bit for each page");
}
