//! Draws random histories of steps for the suites.

use std::ops::Bound;

use ecotone_engine::contract::{Hint, Range, Record};
use ecotone_substrate::limits::MAX_RECORD;
use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

use super::{
    Kind, Opener, UNLOGGED,
    step::{EVERYTHING, Step},
};
use crate::model::{Change, Level};

/// The keyspaces of all histories.
pub(super) const KEYSPACES: [u32; 3] = [UNLOGGED, 1, 2];
/// Keys of bulk loads begin at this byte; the keys of all other writes begin with smaller bytes.
const BULK_FIRST: u8 = 224;

/// Batches that fill the log, and the records of each, which have almost two kilobytes. Together they fill more than
/// half of the log of the smallest database, past the end of one more segment.
const FILL_ROUNDS: u16 = 76;
const FILL_KEYS: u16 = 28;

/// One step in so many is a hint, for openers that take hints.
const HINTS: u32 = 12;

/// Whether a history writes so much that the log must be reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// In no history.
    Never,
    /// Once or twice; in a campaign only in one of four histories.
    Sometimes,
    /// In every history, again and again: replay then usually needs several segments of the log, and each of them has
    /// been used before.
    Always,
}

impl Fill {
    /// The value for the history of a seed.
    pub(super) fn of(self, seed: u64) -> Fill {
        if self == Fill::Sometimes && !seed.is_multiple_of(4) { Fill::Never } else { self }
    }

    fn rounds(self) -> u16 {
        match self {
            Fill::Never => 0,
            Fill::Sometimes => FILL_ROUNDS,
            Fill::Always => 2 * FILL_ROUNDS,
        }
    }
}

/// The shape of histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Steps.
    pub steps: usize,
    /// Different keys of a keyspace.
    pub keys: u16,
    /// Records in the largest ordinary batch.
    pub batch: usize,
    /// Whether a history writes so much that the log must be reclaimed.
    pub fill_log: Fill,
    /// Whether histories create and drop keyspaces.
    pub keyspaces: bool,
}

/// Draws histories. A version number in every value makes writes distinct.
pub(super) struct Generator {
    random: SmallRng,
    kind: Kind,
    takes_hints: bool,
    shape: Shape,
    version: u32,
}

impl Generator {
    /// A generator for what the keyspaces of this opener can do.
    pub(super) fn of(opener: &dyn Opener, seed: u64, shape: Shape) -> Self {
        Generator { takes_hints: opener.takes_hints(), ..Self::new(seed, opener.kind(), shape) }
    }

    fn new(seed: u64, kind: Kind, shape: Shape) -> Self {
        Generator { random: SmallRng::seed_from_u64(seed), kind, takes_hints: false, shape, version: 0 }
    }

    pub(super) fn history(&mut self) -> Vec<Step> {
        let mut steps: Vec<Step> = (0..self.shape.steps).flat_map(|_| self.step_or_hint()).collect();
        if self.shape.fill_log != Fill::Never {
            let at = self.random.random_range(0..=steps.len());
            let fill: Vec<Step> = (0..self.shape.fill_log.rounds()).flat_map(|round| self.fill(round)).collect();
            steps.splice(at..at, fill);
        }
        steps
    }

    fn step_or_hint(&mut self) -> Vec<Step> {
        // Openers without hints draw nothing, so that their histories stay the same.
        if self.takes_hints && self.random.random_ratio(1, HINTS) { self.hint() } else { vec![self.step()] }
    }

    /// A hint. Three of four are followed at once, so that crashes meet every I/O of that work; the others are followed
    /// beside later steps.
    fn hint(&mut self) -> Vec<Step> {
        let hint = match self.random.random_range(0..5) {
            0 => Hint::Auto,
            1..3 => Hint::WriteMostly,
            _ => Hint::ReadMostly,
        };
        let step = Step::Hint(self.keyspace(), self.range(), hint);
        if self.random.random_ratio(3, 4) { vec![step, Step::Idle] } else { vec![step] }
    }

    fn step(&mut self) -> Step {
        match self.random.random_range(0..100) {
            0..30 => Step::Write(vec![self.change()], self.level()),
            30..42 => self.batch(),
            42..44 if self.kind == Kind::Ordered => self.arrivals(),
            42..52 => Step::Get((self.keyspace(), self.key())),
            52..57 => {
                Step::MultiGet(self.keyspace(), (0..self.random.random_range(0..20)).map(|_| self.key()).collect())
            }
            57..69 | 79..81 if self.kind == Kind::Hashed => self.hashed_step(),
            57..66 => Step::Scan(self.keyspace(), self.range(), self.random.random()),
            66..69 => Step::Prefix(self.keyspace(), vec![(self.key())[0]]),
            69..74 => Step::Update((self.keyspace(), self.key()), self.value(24)),
            74..79 => Step::Swap((self.keyspace(), self.key()), self.value(24), self.random.random_ratio(3, 4)),
            79..81 => self.bulk_load(),
            81..87 => Step::Flush,
            87..91 => Step::Sync,
            91..95 => Step::Background,
            95..97 => Step::Reopen,
            _ => self.keyspace_step(),
        }
    }

    /// The step of a hashed keyspace in place of ranges and bulk loads. An engine that compacts gets background time
    /// for that.
    fn hashed_step(&mut self) -> Step {
        let key = (self.keyspace(), self.key());
        match self.random.random_range(0..10) {
            0..3 => Step::Walk(key.0),
            3..5 => Step::Add(key, self.random.random_range(-1000..1000)),
            5..7 => Step::Append(key, vec![self.random.next_u32() as u8; self.random.random_range(0..200)]),
            _ => Step::Idle,
        }
    }

    fn keyspace_step(&mut self) -> Step {
        match (self.shape.keyspaces, self.random.random_range(0..3)) {
            (false, _) => Step::Flush,
            (true, 0) => Step::Drop(self.keyspace()),
            (true, _) => Step::Create(self.keyspace()),
        }
    }

    fn keyspace(&mut self) -> u32 {
        KEYSPACES[self.random.random_range(0..KEYSPACES.len())]
    }

    fn level(&mut self) -> Level {
        if self.random.random_ratio(1, 5) { Level::Sync } else { Level::Buffered }
    }

    /// Keys are spread over all first bytes below those of bulk loads; few keys are long.
    fn key(&mut self) -> Vec<u8> {
        key(self.random.random_range(0..self.shape.keys))
    }

    fn value(&mut self, most: usize) -> Option<Vec<u8>> {
        self.version += 1;
        let length = self.random.random_range(0..=most);
        let mut value = self.version.to_be_bytes().to_vec();
        value.resize(4 + length, self.random.next_u32() as u8);
        (!self.random.random_ratio(1, 4)).then_some(value)
    }

    fn change(&mut self) -> Change {
        let keyspace = self.keyspace();
        self.change_in(keyspace)
    }

    fn change_in(&mut self, keyspace: u32) -> Change {
        let most = if self.random.random_ratio(1, 12) { MAX_RECORD - 400 } else { 60 };
        ((keyspace, self.key()), self.value(most))
    }

    /// Several changes, either of logged keyspaces or of the unlogged one. Each key occurs once, so the order within
    /// the batch does not matter.
    fn batch(&mut self) -> Step {
        let unlogged = self.random.random_ratio(1, 5);
        let count = self.random.random_range(2..=self.shape.batch);
        let mut changes = std::collections::BTreeMap::new();
        for _ in 0..count {
            let keyspace = if unlogged { UNLOGGED } else { self.random.random_range(1..=2) };
            let (key, value) = self.change_in(keyspace);
            changes.insert(key, value);
        }
        Step::Write(changes.into_iter().collect(), self.level())
    }

    /// Consecutive keys, more than fit a page, are written in order; or all of them are deleted.
    fn arrivals(&mut self) -> Step {
        let (keyspace, before) = (self.keyspace(), self.key());
        let (count, most, comes) = (self.random.random_range(10..40), 400, self.random.random_ratio(3, 4));
        let change = |number: u8| {
            let value = self.value(most).or_else(|| self.value(most)).filter(|_| comes);
            ((keyspace, [before.as_slice(), &[number]].concat()), value)
        };
        Step::Write((0..count).map(change).collect(), self.level())
    }

    /// Some tens of kilobytes of log in few keys, then perhaps background jobs. Each quarter of the usual rounds has
    /// other keys, so that log reclaim finds old records to write out and leaves new ones.
    fn fill(&mut self, round: u16) -> Vec<Step> {
        let (quarter, fill) = (round * 4 / FILL_ROUNDS, self.random.next_u32() as u8);
        let change =
            |index: u16| ((1 + u32::from(index) % 2, fill_key(quarter * FILL_KEYS + index)), Some(vec![fill; 1800]));
        let write = Step::Write((0..FILL_KEYS).map(change).collect(), Level::Buffered);
        let work = if self.kind == Kind::Hashed { Step::Idle } else { Step::Background };
        if self.random.random_ratio(1, 6) { vec![write, work] } else { vec![write] }
    }

    fn range(&mut self) -> Range {
        let mut bound = || match self.random.random_range(0..3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key(self.random.random_range(0..self.shape.keys))),
            _ => Bound::Excluded(key(self.random.random_range(0..self.shape.keys))),
        };
        let range = (bound(), bound());
        if self.random.random_ratio(1, 8) { EVERYTHING } else { range }
    }

    fn bulk_load(&mut self) -> Step {
        let count = self.random.random_range(1..=usize::from(self.shape.keys));
        let start = BULK_FIRST + self.random.random_range(0..16);
        let key = |index: usize| vec![start + (index * 8 / count) as u8, (index >> 8) as u8, index as u8];
        let records: Vec<Record> = (0..count).map(|index| (key(index), vec![index as u8; 20 + index % 40])).collect();
        Step::BulkLoad(self.random.random_range(1..=2), records)
    }
}

/// The `index`-th key.
fn key(index: u16) -> Vec<u8> {
    let spread = (u32::from(index) * 151 % u32::from(BULK_FIRST)) as u8;
    let length = if index % 23 == 7 { 300 } else { 3 + usize::from(index % 11) };
    let mut key = vec![spread, (index >> 8) as u8, index as u8];
    key.resize(length, b'k');
    key
}

/// Keys that fill the log, one for each of many first bytes.
fn fill_key(index: u16) -> Vec<u8> {
    vec![(u32::from(index) * 2 % u32::from(BULK_FIRST)) as u8, b'f']
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { steps: 200, keys: 300, batch: 8, fill_log: Fill::Always, keyspaces: true };

    #[test]
    fn a_seed_gives_one_history_of_its_kind_and_keys_are_unique() {
        let histories = [1, 1, 2].map(|seed| Generator::new(seed, Kind::Ordered, SHAPE).history());
        assert_eq!(histories[0], histories[1]);
        assert_ne!(histories[0], histories[2]);
        let ordered = |step: &Step| matches!(step, Step::Scan(..) | Step::Prefix(..) | Step::BulkLoad(..));
        assert!(histories[0].iter().any(ordered));
        assert!(
            !Generator::new(1, Kind::Hashed, SHAPE).history().iter().any(ordered),
            "there is no order in a hashed keyspace"
        );
        let keys: std::collections::BTreeSet<_> = (0..300).map(key).collect();
        assert_eq!(keys.len(), 300);
        assert!(keys.iter().all(|key| key[0] < BULK_FIRST));
    }

    #[test]
    fn hints_are_drawn_where_they_are_taken_and_some_are_followed_at_once() {
        let is_hint = |step: &Step| matches!(step, Step::Hint(..));
        assert!(!Generator::new(1, Kind::Ordered, SHAPE).history().iter().any(is_hint));
        let hinted = Generator { takes_hints: true, ..Generator::new(1, Kind::Ordered, SHAPE) }.history();
        let followed = hinted.windows(2).filter(|pair| is_hint(&pair[0]) && pair[1] == Step::Idle).count();
        assert!(0 < followed && followed < hinted.iter().filter(|step| is_hint(step)).count());
    }
}
