//! The mixed workload as a reproducible sequence. The number of acknowledged operations determines what the database
//! must hold.
//!
//! Threads share nothing: key `i` belongs to thread `i % THREADS`, so the last write of each key is known.

use rand::{RngExt, SeedableRng, rngs::SmallRng};
use rand_distr::{Distribution, Zipf};

/// Threads of every phase with threads.
pub(crate) const THREADS: usize = 8;
/// Writes in one batch, at most.
pub(crate) const BATCH: usize = 4;
/// The skew of key choice, as in YCSB.
const THETA: f64 = 0.99;

/// What one operation does, to keys by their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read and check.
    Read(usize),
    /// Store a new version.
    Insert(usize),
    /// Read, check, and store a new version, as one step.
    Update(usize),
    /// Delete.
    Delete(usize),
    /// Store new versions of different keys, all or none.
    Batch(Vec<usize>),
}

impl Action {
    /// The keys that the action writes.
    pub(crate) fn writes(&self) -> &[usize] {
        match self {
            Action::Read(_) => &[],
            Action::Insert(index) | Action::Update(index) | Action::Delete(index) => std::slice::from_ref(index),
            Action::Batch(indexes) => indexes,
        }
    }
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    /// Its number within thread and round, from 0.
    pub(crate) number: u32,
    /// The version that it stores; larger than all earlier versions of the same thread.
    pub(crate) version: u32,
    /// What it does.
    pub(crate) action: Action,
}

/// The endless operations of one thread in one round.
pub(crate) struct Operations {
    random: SmallRng,
    keys: Keys,
    round: u32,
    thread: usize,
    number: u32,
}

impl Operations {
    /// Operations over `keys` keys. A round is one session of the process; rounds are numbered from 1 to 250.
    pub(crate) fn new(keys: usize, round: u32, thread: usize) -> Self {
        let random = SmallRng::seed_from_u64(u64::from(round) << 32 | thread as u64);
        Operations { random, keys: Keys::zipf(keys / THREADS), round, thread, number: 0 }
    }

    fn index(&mut self) -> usize {
        self.keys.next(&mut self.random) * THREADS + self.thread
    }

    fn batch(&mut self) -> Action {
        let mut indexes: Vec<usize> = (0..BATCH).map(|_| self.index()).collect();
        indexes.sort_unstable();
        indexes.dedup();
        Action::Batch(indexes)
    }
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let action = match self.random.random_range(0..100) {
            0..40 => Action::Read(self.index()),
            40..65 => Action::Insert(self.index()),
            65..80 => Action::Update(self.index()),
            80..92 => Action::Delete(self.index()),
            _ => self.batch(),
        };
        let number = self.number;
        self.number += 1;
        Some(Operation { number, version: self.round << 24 | self.number, action })
    }
}

/// A choice of keys by their index.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    /// Every key is equally likely.
    Uniform(usize),
    /// Zipf over all ranks. `step` spreads the ranks over the keys and is coprime to their number.
    Zipf { keys: usize, ranks: Zipf<f64>, step: usize },
}

impl Keys {
    /// Over `0..keys`, skewed.
    pub(crate) fn zipf(keys: usize) -> Self {
        let ranks = Zipf::new(keys as f64, THETA).expect("there are keys");
        // Near the golden ratio of the range, so that neighbouring ranks lie far apart.
        let near = (keys as f64 * 0.618_033_988) as usize;
        let step = (near..).find(|&step| common_factor(step, keys) == 1).expect("some number has no common factor");
        Keys::Zipf { keys, ranks, step }
    }

    /// The next index.
    pub(crate) fn next(&self, random: &mut SmallRng) -> usize {
        match self {
            Keys::Uniform(keys) => random.random_range(0..*keys),
            Keys::Zipf { keys, ranks, step } => (ranks.sample(random) as usize - 1) * step % keys,
        }
    }
}

fn common_factor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_factor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_sequence_can_be_generated_again_and_threads_share_no_key() {
        let operations = |round, thread| Operations::new(10_000, round, thread).take(5_000).collect::<Vec<_>>();
        assert_eq!(operations(1, 3), operations(1, 3));
        assert_ne!(operations(1, 3), operations(2, 3));
        for thread in 0..THREADS {
            let all = operations(2, thread);
            assert!(
                all.iter()
                    .flat_map(|operation| operation.action.writes())
                    .all(|index| index % THREADS == thread && *index < 10_000)
            );
            assert!(all.is_sorted_by(|a, b| a.version < b.version));
            assert!(all.iter().any(|operation| matches!(operation.action, Action::Delete(_))));
        }
    }

    #[test]
    fn skewed_choice_reaches_different_keys_and_prefers_some() {
        let (keys, mut random) = (Keys::zipf(1000), SmallRng::seed_from_u64(1));
        let mut hits = vec![0u32; 1000];
        (0..100_000).for_each(|_| hits[keys.next(&mut random)] += 1);
        hits.sort_unstable();
        assert!(hits[999] > 8_000, "the hottest key has {} of 100,000", hits[999]);
        assert!(hits.iter().filter(|&&hits| hits > 0).count() > 990);
        let Keys::Zipf { step, .. } = keys else { panic!("not skewed") };
        assert_eq!((0..1000).map(|rank| rank * step % 1000).collect::<HashSet<_>>().len(), 1000);
    }
}
