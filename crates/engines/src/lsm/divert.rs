//! What a flush brings below the tables at once, and has not in its run (A10; decision 14, "Writing"; decision 15,
//! invariants 4, 5 and 8): records of ranges that are covered, and of which nothing counts but what is below.

use std::{cell::Cell, iter};

use ecotone_substrate::{Result, limits::PAGE, table::Answer};
use ecotone_sys::primitive::Mutex;

use super::{
    base::{Base, Counted, Moved, Offer},
    clearing::Span,
    lift::is_free,
    memtable::{Cursor, Memtable},
    records::Lsm,
};
use crate::turn::Turn;

/// Ranges, ascending, of which all that a memtable has is below the tables.
#[derive(Debug, Default)]
pub(super) struct Diverted(Vec<Span>);

/// A range that is being uncovered: it is read, and nothing is to come to it (invariant 5).
#[derive(Debug, Default)]
pub(super) struct Leaving(Mutex<Option<Span>>);

impl Diverted {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Goes to the next record that is in none of them, and copies its key. False if there is none.
    pub(super) fn advance(&self, cursor: &mut Cursor<'_>, key: &mut Vec<u8>) -> bool {
        let is_there = cursor.advance();
        self.pass(cursor, is_there, key)
    }

    /// Likewise, to the first whose key is not below one.
    pub(super) fn seek(&self, cursor: &mut Cursor<'_>, from: &[u8], key: &mut Vec<u8>) -> bool {
        let is_there = cursor.seek(from);
        self.pass(cursor, is_there, key)
    }

    fn pass(&self, cursor: &mut Cursor<'_>, mut is_there: bool, key: &mut Vec<u8>) -> bool {
        while is_there {
            cursor.read_key(key);
            match self.end_of(key) {
                None => return true,
                Some(end) => is_there = cursor.seek(end),
            }
        }
        false
    }

    /// Where the one ends that has a key.
    fn end_of(&self, key: &[u8]) -> Option<&[u8]> {
        let at = self.0.partition_point(|(_, upper)| upper.as_slice() <= key);
        self.0.get(at).filter(|(lower, _)| lower.as_slice() <= key).map(|(_, upper)| upper.as_slice())
    }
}

impl Leaving {
    /// A range is about to be uncovered, when no flush is under way. The caller has the turn to compact.
    pub(super) fn begin(&self, flushing: &Turn, span: &Span) {
        let _turn = flushing.lock();
        *self.0.lock() = Some(span.clone());
    }

    /// What leaves, and a version that was loaded behind that look: what does not leave any more is not covered in it.
    pub(super) fn before<V>(&self, version: impl FnOnce() -> V) -> (Option<Span>, V) {
        let leaving = self.0.lock().clone();
        (leaving, version())
    }

    /// Nothing leaves any more: who sees that sees what was uncovered.
    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }
}

impl Lsm {
    /// Brings what a sealed memtable has of some ranges below the tables, durable but for the log's tail. Where it is
    /// given up for want of memory or space, or since writers wait, all goes into the run: what is below then is the
    /// same. The log is synced as far as the memtable has it, and the caller has the turn to flush.
    pub(super) fn divert(&self, memtable: &Memtable) -> Result<Diverted> {
        let Some(base) = self.base() else { return Ok(Diverted::default()) };
        let is_late = base.yields() && self.others_wait();
        let taken = base.divert(if is_late { Vec::new() } else { self.offers(&**base, memtable) });
        if taken.is_empty() {
            return Ok(Diverted::default());
        }
        let spans = taken.into_iter().map(|Offer { lower, upper, .. }| (lower, upper)).collect::<Vec<_>>();
        match self.bring_below(&**base, memtable, &spans) {
            Ok(true) => return Ok(Diverted(spans)),
            Ok(false) => {}
            Err(error) if error.is_shortage() => {}
            Err(error) => return Err(error),
        }
        self.diversions_given_up.increment();
        Ok(Diverted::default())
    }

    /// Covers that are free and do not leave, with what a memtable has of them, if anything (invariant 4).
    fn offers(&self, base: &dyn Base, memtable: &Memtable) -> Vec<Offer> {
        let (leaving, version) = self.leaving.before(|| self.version());
        let leaves = |(from, end): (&[u8], &[u8])| {
            leaving.as_ref().is_some_and(|(lower, upper)| **lower < *end && *from < **upper)
        };
        let free = version.covers().iter().filter(|cover| is_free(&version, cover) && !leaves(cover.bounds()));
        free.filter_map(|cover| offer(base, memtable, cover.bounds())).collect()
    }

    /// False if it was given up.
    fn bring_below(&self, base: &dyn Base, memtable: &Memtable, spans: &[Span]) -> Result<bool> {
        let is_late = Cell::new(false);
        let goes_on = || {
            is_late.set(base.yields() && self.others_wait());
            !is_late.get()
        };
        let records = spans.iter().flat_map(|(lower, upper)| records_of(memtable, (lower, upper)));
        let refreshed = records
            .inspect(|(key, value)| self.front().into_iter().for_each(|front| front.refresh(key, value.as_deref())));
        let diverted = base.absorb(&mut refreshed.take_while(|_| goes_on()).map(Ok), true)?;
        self.diverted.add(diverted);
        Ok(!is_late.get())
    }

    /// Whether memtables wait besides the one that is flushed.
    pub(crate) fn others_wait(&self) -> bool {
        self.present.load(&self.present.pin()).memtables.len() > 2
    }
}

/// What a memtable has of a range, and what there is below.
fn offer(base: &dyn Base, memtable: &Memtable, (lower, upper): (&[u8], &[u8])) -> Option<Offer> {
    // All in the same memory: there may be as many as a memtable has.
    let (mut cursor, mut key, mut value) = (memtable.cursor(), Vec::new(), Vec::new());
    let (mut records, mut bytes, mut is_there) = (0, 0, cursor.seek(lower));
    while is_there {
        cursor.read_key(&mut key);
        if *key >= *upper {
            break;
        }
        let (answer, _) = cursor.read(&mut value);
        records += 1;
        bytes += (key.len() + if answer == Answer::Value { value.len() } else { 0 }) as u64;
        is_there = cursor.advance();
    }
    if records == 0 {
        return None;
    }
    let page_bytes = base.extent(lower, upper, u64::MAX).1;
    let counted = Counted { bytes, largest: bytes, records, pages: page_bytes / PAGE as u64, page_bytes };
    Some(Offer { lower: lower.to_vec(), upper: upper.to_vec(), counted })
}

/// The records of a range.
fn records_of<'m>(memtable: &'m Memtable, (lower, upper): (&[u8], &'m [u8])) -> impl Iterator<Item = Moved> + use<'m> {
    let mut cursor = memtable.cursor();
    let mut is_there = cursor.seek(lower);
    iter::from_fn(move || {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        if is_there {
            cursor.read_key(&mut key);
        }
        if !is_there || *key >= *upper {
            return None;
        }
        let (answer, _) = cursor.read(&mut value);
        is_there = cursor.advance();
        Some((key, (answer == Answer::Value).then_some(value)))
    })
}
