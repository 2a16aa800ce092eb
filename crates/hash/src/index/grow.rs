//! Live growth: a table of twice the buckets replaces a crowded one while operations go on (hash-protocol.md, "Growth
//! of the index").

use std::{ops::Range, sync::Arc};

use ecotone_sys::{
    chunk::Block,
    primitive::{Mutex, atomic::Ordering, thread},
};

use super::{Index, Tables, table::Table};

/// Mean entries per bucket at which a table is crowded. Two fifths of its buckets then have an overflow bucket, with
/// one entry of eight. With a smaller value, an index that has just grown takes twice the memory for as many entries.
const CROWDED: u64 = 7;
/// Buckets that are split under one pin.
const BUCKETS_PER_PIN: u64 = 16;

impl Table {
    /// Number of entries from which the table is crowded.
    pub(super) fn crowded(&self) -> u64 {
        CROWDED * self.buckets()
    }
}

impl Index {
    /// Number of entries, estimated from a sample.
    pub(crate) fn entries(&self) -> u64 {
        self.load.entries()
    }

    /// Number of buckets without overflow buckets.
    pub(crate) fn buckets(&self) -> u64 {
        self.last().buckets()
    }

    /// Number of times the index has doubled its buckets.
    pub(crate) fn doublings(&self) -> u64 {
        self.last().doublings().into()
    }

    /// Whether the index should grow.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.load.entries() >= self.crowded.load(Ordering::Relaxed)
    }

    /// Doubles the buckets, unless another thread does. Returns whether this call did: `lease` may refuse memory, and
    /// then the index is not crowded again before it has an eighth more entries.
    pub(crate) fn grow(&self, lease: impl FnMut() -> Option<Block>) -> bool {
        let Some(_growing) = self.growing.try_lock() else { return false };
        let Some(buckets) = self.begin_growth(lease) else {
            let entries = self.load.entries();
            self.crowded.store(entries + entries / 8 + 1, Ordering::Relaxed);
            return false;
        };
        for first in (0..buckets).step_by(BUCKETS_PER_PIN as usize) {
            self.split(first..buckets.min(first + BUCKETS_PER_PIN));
        }
        self.end_growth();
        true
    }

    /// Publishes a next table. Returns the number of buckets to split.
    pub(crate) fn begin_growth(&self, mut lease: impl FnMut() -> Option<Block>) -> Option<u64> {
        let current = self.last();
        if !current.may_double() {
            return None;
        }
        let blocks: Option<Vec<Block>> = (0..current.blocks_for_double()).map(|_| lease()).collect();
        let next = Arc::new(current.double(&self.domain, blocks?));
        while !self.publish(&current, &next) {
            next.overflow.add(lease()?).expect("it may have more than the one before");
        }
        Some(current.buckets())
    }

    /// Publishes the next table if it has as much memory for overflow buckets as the current one. The current one gets
    /// no more from then on.
    fn publish(&self, current: &Arc<Table>, next: &Arc<Table>) -> bool {
        let _shape = self.shape.lock();
        if next.overflow.blocks() < current.overflow.blocks() {
            return false;
        }
        next.overflow.reserve_all();
        self.replace(Tables { current: current.clone(), next: Some(next.clone()) }, drop);
        true
    }

    /// Splits some buckets of the current table.
    pub(crate) fn split(&self, numbers: Range<u64>) {
        let pin = self.domain.pin();
        let Tables { current, next } = self.tables(&pin);
        let next = next.as_ref().expect("growth has begun");
        numbers.for_each(|number| current.split(number, next, &pin));
    }

    /// Makes the next table, which has all entries now, the current one.
    pub(super) fn end_growth(&self) {
        let next = self.last();
        next.overflow.release_all();
        self.crowded.store(next.crowded(), Ordering::Relaxed);
        let gone = Arc::new(Mutex::new(None));
        self.replace(Tables { current: next, next: None }, {
            let gone = gone.clone();
            move |tables| *gone.lock() = Some(tables)
        });
        // The table's memory is given back here, not by whichever operation unpins last.
        while gone.lock().take().is_none() {
            self.domain.drain();
            thread::yield_now();
        }
    }

    fn replace(&self, tables: Tables, then: impl FnOnce(Box<Tables>) + Send + 'static) {
        self.tables.swap(Some(Box::new(tables)), then);
    }
}
