//! The sessions of the images: the first one, by engine, leaves everything that the engine has in files; then the last
//! one.

use std::ops::Range;

use ecotone::Hint;

use super::session::{Session, sparse, value};

/// Length of a value of which three fill a page and eight fill a block.
const LARGE: usize = 1_000;
/// Length of a value of which 34 make a run too large for a merge with others of its size.
const MIDDLE: usize = 480;

impl Session {
    /// Pages of both keyspaces, then a checkpoint, then records that only the log has.
    pub(super) fn fill(&mut self, records: u32) {
        (0..records).for_each(|i| self.insert(1, i * 7 % records * 10, 300));
        (0..records / 4).for_each(|i| self.insert(2, i * 10, 40));
        self.flush();
        // More records than fit in the first page, so that it gets an overflow page.
        (1..20).filter(|i| i % 10 != 0).for_each(|i| self.insert(1, i, 170));
        self.flush();
        self.load_notes(records * 2 / 5);
        (0..records / 15).for_each(|i| self.insert(1, i * 100, 310));
    }

    /// Records evicted from memory go to deltas and from there to base runs. The last of them are flushed. Then more
    /// records are written, and the log tells that some of them are evicted.
    pub(super) fn fill_hashed(&mut self) {
        self.insert_and_compact(600);
        (0..40).for_each(|i| self.insert(2, i * 10, 40));
        (0..20).for_each(|i| self.remove(1, i * 10));
        self.flush();
        self.insert_and_compact(170);
    }

    fn insert_and_compact(&mut self, count: u32) {
        for i in 0..count {
            self.insert(1, i * 7 % 450 * 10, 600);
            self.settle();
        }
    }

    /// A last level that is large enough for another level above it. That level gets the compaction of some runs, and
    /// two more runs follow. Only the log has the records that are loaded last.
    pub(super) fn fill_lsm(&mut self) {
        self.load_towns(260);
        self.make_runs(0, 0..5, MIDDLE);
        self.settle();
        self.make_runs(0, 5..7, 40);
        (0..30).for_each(|i| self.insert(2, i * 10, 40));
        self.flush();
        self.load_notes(100);
    }

    /// An adaptive keyspace with every kind of range: paged ranges, with table ranges between them. A compaction
    /// converts the third paged range back to tables, since it has more pages than the incoming runs have tables. A run
    /// stays above the pages of the second one. Writes to the first one are flushed into its pages. Only the log tells
    /// of the last one.
    pub(super) fn fill_adaptive(&mut self) {
        self.load_towns(300);
        [0..180, 200..380, 400..2_170].into_iter().for_each(|range| self.hint(range, Hint::ReadMostly));
        self.hint(400..2_170, Hint::Auto);
        self.make_runs(400, 0..5, MIDDLE);
        self.settle();
        self.hint(200..380, Hint::Auto);
        (1..8).for_each(|number| self.insert(1, number, 30));
        [205, 2_400].into_iter().for_each(|number| self.insert(1, number, 50));
        [210, 2_300].into_iter().for_each(|number| self.remove(1, number));
        (0..30).for_each(|i| self.insert(2, i * 10, 40));
        self.flush();
        self.load_notes(30);
        self.hint(2_600..2_800, Hint::ReadMostly);
    }

    fn load_towns(&mut self, count: u32) {
        self.bulk_load(1, (0..count).map(|i| (i * 10, sparse(i * 10, LARGE))));
    }

    fn load_notes(&mut self, count: u32) {
        self.bulk_load(2, (1_000..1_000 + count).map(|number| (number, value(number, 250))));
    }

    /// Flushes a run in each round, all of the same keys from `first` on. Some get other values of `bytes` bytes, some
    /// are deleted.
    fn make_runs(&mut self, first: u32, rounds: Range<u32>, bytes: usize) {
        for round in rounds {
            for i in 0..=44 {
                let number = first + i * 40;
                match (i + round) % 4 {
                    0 => self.remove(1, number),
                    _ => self.insert(1, number, bytes + round as usize),
                }
            }
            self.flush();
        }
    }

    /// Fills some segments of the log.
    pub(super) fn log_much(&mut self) {
        (0..4).for_each(|i| self.batch_of(3_000 + i * 400..3_400 + i * 400, 1_500));
        self.log();
    }

    /// The last session: records that only the log has.
    pub(super) fn log(&mut self) {
        self.insert(1, 3, 100);
        self.batch(2_000..2_006);
        self.remove(1, 30);
        self.insert(2, 10, 500);
        self.remove(2, 1_003);
        self.insert(1, 3, 7);
    }
}
