//! Iteration over a range, from both ends (decision 11, "Reading"; decision 12, invariant 21).
//!
//! Each end merges the records of runs and levels of one version, as their tables have them, with copies of what the
//! memtables have: [`batch`] (these copies), [`written`] (where these come from), [`sources`] (how what is stored
//! begins), [`judged`] (builds for tests). Where the version has covers it goes stretch by stretch, and seeks in each
//! what counts there (decision 14, "Reading").

mod batch;
mod judged;
mod sources;
mod written;

use std::{mem, ops::Bound, sync::Arc};

use ecotone_substrate::{Result, memory::Component};

use self::batch::Batch;
use super::{
    base::{Based, Passage},
    handle::Handle,
    layer::Layer,
    ledger::{IS_BUILT, Ledger, Moment},
    merged::{Merged, Source},
    records::Lsm,
    structure::{Covers, Stretch},
    version::Version,
};
use crate::{
    engine::{Cursor, Range, RecordRef},
    rest::{Direction, Rest},
};

/// A cursor over a range of a keyspace.
pub(super) struct Scan {
    lsm: Arc<Lsm>,
    rest: Rest,
    /// The ends, as soon as they are used: few scans use both.
    front: Option<Box<End>>,
    back: Option<Box<End>>,
    over: bool,
    /// The end that went to a record last.
    direction: Direction,
    /// Whose memory its windows are.
    memory: Component,
    /// When it began, where it is judged.
    since: Option<Moment>,
}

impl Scan {
    pub(super) fn new(lsm: Arc<Lsm>, range: Range, memory: Component) -> Scan {
        let rest = Rest::new(range);
        let over = rest.is_empty();
        let since = lsm.ledger().map(Ledger::now);
        Scan { lsm, rest, front: None, back: None, over, direction: Direction::Up, memory, since }
    }

    #[inline]
    fn advance_end(&mut self, direction: Direction) -> Result<bool> {
        if self.over {
            return Ok(false);
        }
        // So that it ends with an error, and with the end of the range.
        self.over = true;
        self.direction = direction;
        let (front, back) = (&mut self.front, &mut self.back);
        let end = if direction == Direction::Up { front } else { back };
        let end = end.get_or_insert_with(|| Box::new(End::new((direction, self.memory), &self.rest)));
        self.over = !end.advance(&self.lsm, &self.rest)?;
        Ok(!self.over)
    }

    fn take_record(&mut self) -> Result<Option<RecordRef<'_>>> {
        let end = if self.direction == Direction::Up { &self.front } else { &self.back };
        let Some((key, value)) = end.as_ref().and_then(|end| end.record()) else { return Ok(None) };
        self.over = !self.rest.take(self.direction, &[], key);
        Ok((!self.over).then(|| (self.rest.taken(self.direction), value)))
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        let Scan { lsm, rest, front, back, .. } = self;
        [front, back].into_iter().flatten().for_each(|end| end.tell(lsm, rest));
    }
}

impl Cursor for Scan {
    fn advance(&mut self, direction: Direction) -> Result<bool> {
        match self.since.filter(|_| IS_BUILT) {
            Some(since) => self.advance_judged(direction, since),
            None => self.advance_end(direction),
        }
    }

    fn take(&mut self) -> Result<Option<RecordRef<'_>>> {
        match self.since.filter(|_| IS_BUILT) {
            Some(since) => self.take_judged(since),
            None => self.take_record(),
        }
    }

    fn rest(&self) -> Range {
        self.rest.range()
    }

    fn deletes_passed(&self) -> u64 {
        [&self.front, &self.back].into_iter().flatten().map(|end| end.deletes_passed()).sum()
    }
}

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Memory,
    Stored,
}

/// One end of a scan.
struct End {
    direction: Direction,
    /// Whose memory its windows are.
    memory: Component,
    /// Where the copies end.
    from: Bound<Vec<u8>>,
    batch: Batch,
    /// What the sources are of.
    version: Option<Arc<Version<Handle>>>,
    stored: Merged<Layer>,
    /// Where others count than these, if it comes to that: the first key behind on the way up, the last one before on
    /// the way down.
    limit: Option<Vec<u8>>,
    /// The record that it went to.
    found: Option<Found>,
    /// The first that is stored where it sought last, and records that it gave since then: for who keeps what is below.
    sought: Option<Vec<u8>>,
    given: u64,
    /// Tombstones that it passed over.
    deletes: u64,
}

impl End {
    fn new((direction, memory): (Direction, Component), rest: &Rest) -> End {
        let from = match direction {
            Direction::Up => rest.low.clone(),
            Direction::Down => rest.high.clone(),
        };
        let stored = Merged::new(Vec::new(), direction, 0);
        End {
            direction,
            memory,
            from,
            batch: Batch::default(),
            version: None,
            stored,
            limit: None,
            found: None,
            sought: None,
            given: 0,
            deletes: 0,
        }
    }

    /// Goes to the next record that has a value. False if there is none, or it lies beyond the rest.
    fn advance(&mut self, lsm: &Arc<Lsm>, rest: &Rest) -> Result<bool> {
        loop {
            self.pass()?;
            if self.batch.is_used_up() {
                self.refill(lsm, rest)?;
            }
            while let Some(limit) = self.passed_limit() {
                self.tell(lsm, rest);
                self.seek(lsm, &rest.behind(self.direction, &limit))?;
            }
            self.found = self.choose();
            lsm.ledger().into_iter().for_each(|ledger| self.judge(lsm, ledger));
            match self.record_with_tombstones() {
                Some((_, Some(_))) => {
                    self.given += 1;
                    return Ok(true);
                }
                Some((key, None)) if rest.contains(key) => self.deletes += 1,
                _ => return Ok(false),
            }
        }
    }

    /// What lies below where it sought last has passed over some as well.
    fn deletes_passed(&self) -> u64 {
        let below = self.stored.sources().iter().map(|layer| match layer {
            Layer::Below(below) => below.deletes_passed(),
            Layer::Tables(_) => 0,
        });
        self.deletes + below.sum::<u64>()
    }

    /// The record that [`advance`](Self::advance) went to.
    fn record(&self) -> Option<RecordRef<'_>> {
        self.record_with_tombstones().and_then(|(key, value)| Some((key, value?)))
    }

    fn record_with_tombstones(&self) -> Option<(&[u8], Option<&[u8]>)> {
        match self.found? {
            Found::Memory => self.batch.first(),
            Found::Stored => self.stored.first().and_then(Layer::record),
        }
    }

    /// Where the next record is. What is copied of the memtables is newer than what is stored.
    fn choose(&self) -> Option<Found> {
        let (copied, stored) = (self.batch.first(), self.stored.first().and_then(Layer::record));
        match (copied, stored) {
            (Some((copied, _)), Some((stored, _))) if self.direction.order(copied, stored).is_gt() => {
                Some(Found::Stored)
            }
            (Some(_), _) => Some(Found::Memory),
            (None, stored) => stored.map(|_| Found::Stored),
        }
    }

    /// Leaves the present record, and all others of its key.
    fn pass(&mut self) -> Result<()> {
        match self.found.take() {
            None => Ok(()),
            Some(Found::Stored) => self.stored.pass(),
            Some(Found::Memory) => {
                let stored = self.stored.first().and_then(Layer::record);
                let is_stored =
                    self.batch.first().zip(stored).is_some_and(|((copied, _), (stored, _))| copied == stored);
                self.batch.pop();
                if is_stored { self.stored.pass() } else { Ok(()) }
            }
        }
    }

    /// Copies what comes next in the memtables. If the tables are others than before, they are sought again.
    fn refill(&mut self, lsm: &Arc<Lsm>, rest: &Rest) -> Result<()> {
        lsm.check_live()?;
        let left = self.left(rest);
        let version = {
            let pin = lsm.present.pin();
            let view = lsm.present.load(&pin);
            self.batch.copy(&view.memtables, &left, self.direction)?;
            view.version.clone()
        };
        if self.version.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &version)) {
            self.tell(lsm, rest);
            self.version = Some(version);
            self.seek(lsm, &left)?;
        }
        if let Some((last, _)) = self.batch.last() {
            self.from = Bound::Excluded(last.to_vec());
        }
        Ok(())
    }

    /// Goes to the first stored records that are left, in the stretch where what is left begins.
    fn seek(&mut self, lsm: &Arc<Lsm>, left: &Rest) -> Result<()> {
        let Some(version) = &self.version else { return Ok(()) };
        let stretch = first_stretch(version.covers(), left, self.direction);
        let limit = match self.direction {
            Direction::Up => stretch.upper,
            Direction::Down => Some(stretch.lower).filter(|lower| !lower.is_empty()),
        };
        let part = left.until(self.direction, limit);
        let counting = version.counting_in(stretch.cover).filter(|_| !part.is_empty());
        let sources = sources::begin(lsm, counting, &part, (self.direction, self.memory))?;
        let mut layers: Vec<Layer> = sources.into_iter().map(Layer::Tables).collect();
        let base = lsm.base().filter(|_| stretch.cover.is_some() && !part.is_empty());
        if let Some(base) = base {
            layers.push(Layer::Below(Based::begin(base, part, self.direction, self.memory)?));
        }
        self.stored = Merged::new(layers, self.direction, 0);
        self.sought = self.stored.first().and_then(Layer::key).filter(|_| lsm.base().is_some()).map(<[u8]>::to_vec);
        self.limit = limit.filter(|_| !left.is_empty()).map(<[u8]>::to_vec);
        Ok(())
    }

    /// Tells what it met since it sought last, if there is somebody to be told. This is left of the range.
    fn tell(&mut self, lsm: &Lsm, rest: &Rest) {
        let records = mem::take(&mut self.given);
        let (Some(base), Some(sought)) = (lsm.base(), self.sought.take()) else { return };
        let from = match (self.direction, &rest.high) {
            (Direction::Down, Bound::Included(key) | Bound::Excluded(key)) if records > 0 => key.clone(),
            _ => sought,
        };
        let (mut sources, mut reads, mut most, mut main, mut has_base) = (0, 0, 0, 0, false);
        for layer in self.stored.sources() {
            match layer {
                Layer::Tables(stored) => {
                    sources += 1;
                    main = stored.reads();
                    reads += main;
                    most = most.max(main);
                }
                Layer::Below(_) => (has_base, main) = (true, 0),
            }
        }
        if !has_base && sources > 0 {
            sources -= 1;
            reads -= most;
        }
        lsm.below.add(u64::from(has_base));
        base.passed(&Passage { from: &from, records, hidden: self.stored.hidden(), main, sources, reads });
    }

    /// The limit, if nothing is left before it.
    fn passed_limit(&mut self) -> Option<Vec<u8>> {
        let limit = self.limit.as_deref()?;
        let is_before = |key: &[u8]| match self.direction {
            Direction::Up => key < limit,
            Direction::Down => key >= limit,
        };
        let stored = self.stored.first().and_then(Layer::key);
        let copied = self.batch.first().map(|(key, _)| key);
        let is_through = !stored.into_iter().chain(copied).any(is_before);
        self.limit.take_if(|_| is_through)
    }

    /// What is left of the rest behind the copies.
    fn left(&self, rest: &Rest) -> Rest {
        match self.direction {
            Direction::Up => Rest::new((self.from.clone(), rest.high.clone())),
            Direction::Down => Rest::new((rest.low.clone(), self.from.clone())),
        }
    }
}

/// The stretch where an end begins that has this left.
fn first_stretch<'c>(covers: &'c Covers, left: &Rest, direction: Direction) -> Stretch<'c> {
    match (direction, &left.low, &left.high) {
        (Direction::Up, Bound::Included(key) | Bound::Excluded(key), _)
        | (Direction::Down, _, Bound::Included(key)) => covers.stretch_at(key),
        (Direction::Up, Bound::Unbounded, _) => covers.stretch_at(&[]),
        (Direction::Down, _, Bound::Excluded(key)) => covers.stretch_below(Some(key)),
        (Direction::Down, _, Bound::Unbounded) => covers.stretch_below(None),
    }
}
