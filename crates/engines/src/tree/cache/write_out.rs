//! The write-out of dirty records, as far as the cache has a part in it (mechanism T4).

use std::ops::{Bound, ControlFlow};

use ecotone_substrate::{Seq, bug};

use super::{
    Cache, Space,
    dirty_index::Keys,
    handle::{Address, Handle},
    record::{self, Meta},
    shard::Shard,
};
use crate::{
    rest::{Direction, Rest},
    tree::dirty::{DirtyRecord, DirtyRecords},
};

/// Keys of a keyspace that lie side by side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Stretch {
    pub(crate) lower: Vec<u8>,
    /// They lie below this, if it is not the end of all.
    pub(crate) upper: Option<Vec<u8>>,
}

impl Stretch {
    fn keys(&self, space: Space) -> Keys<'_> {
        Keys::of(space.number, &self.lower, self.upper.as_deref())
    }

    /// Those of them that are behind a part of them, if there are any.
    pub(crate) fn behind(&self, part: &Stretch) -> Option<Stretch> {
        let lower = part.upper.clone().filter(|_| part.upper != self.upper)?;
        Some(Stretch { lower, upper: self.upper.clone() })
    }

    /// Those of them that are left of a scan.
    fn within(&self, rest: &Rest) -> Stretch {
        let behind = |key: &[u8]| [key, &[0]].concat();
        let lower = match &rest.low {
            Bound::Unbounded => Vec::new(),
            Bound::Included(low) => low.clone(),
            Bound::Excluded(low) => behind(low),
        };
        let upper = match &rest.high {
            Bound::Unbounded => None,
            Bound::Included(high) => Some(behind(high)),
            Bound::Excluded(high) => Some(high.clone()),
        };
        let least = self.upper.iter().chain(&upper).min().cloned();
        Stretch { lower: lower.max(self.lower.clone()), upper: least }
    }
}

/// Copies of dirty records, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Nearest {
    pub(crate) records: DirtyRecords,
    /// Where they end, if there are more: at this key on the way up, and with it on the way down (see
    /// [`Rest::until`](crate::rest::Rest::until)).
    pub(crate) limit: Option<Vec<u8>>,
}

impl Shard {
    fn record(&self, handle: Handle) -> DirtyRecord<'_> {
        let cell = self.slabs.cell(handle);
        DirtyRecord { key: record::key(cell), value: record::value(cell) }
    }

    fn end_write(&mut self, handle: Handle, meta: Meta, keep: bool) {
        if meta.tombstone() || !keep {
            self.remove(handle);
        } else {
            self.common.heat.note(meta.bytes(), meta.is_hot());
            self.set_meta(handle, meta.as_clean());
        }
    }
}

impl Cache {
    /// The first key of a stretch whose record is dirty or being written since below `below`, or a little above it.
    pub(crate) fn next_dirty(&self, space: Space, stretch: &Stretch, below: Seq) -> Option<Vec<u8>> {
        self.index(space.logged).next(stretch.keys(space), below, self)
    }

    /// A sequence that is at most the first one since which any record is dirty or being written, or one was a moment
    /// ago. A write whose application ended before the call is seen; one that is applied meanwhile may not be.
    pub(crate) fn first_dirty(&self, space: Space) -> Option<Seq> {
        // The known bug: what is being written does not count.
        let is_dirty = |address: Address| self.shards[address.shard()].lock().slabs.meta(address.handle()).dirty();
        let counts = bug!(WatermarkTooHigh).then_some(&is_dirty as &dyn Fn(Address) -> bool);
        self.index(space.logged).first(Stretch::default().keys(space), self, counts)
    }

    /// Records of a keyspace that are dirty or being written.
    pub(crate) fn dirty_records(&self, space: Space) -> usize {
        self.dirty_within(space, &Stretch::default(), usize::MAX)
    }

    /// Those of a stretch, of which not many more than `most` are counted.
    pub(crate) fn dirty_within(&self, space: Space, stretch: &Stretch, most: usize) -> usize {
        self.index(space.logged).count(stretch.keys(space), self, most)
    }

    /// How many entries the leaves of the index have that have nothing but what is dirty of a stretch, and how many
    /// these are.
    pub(crate) fn fill(&self, space: Space, stretch: &Stretch) -> (usize, usize) {
        self.index(space.logged).fill(stretch.keys(space), self)
    }

    /// Takes dirty records of a stretch for writing: about `most` bytes of keys and values from its beginning. They are
    /// given by key, with the stretch that has been gone through; they stay readable, and count as unflushed until
    /// [`end_write`](Self::end_write) of that stretch. All their sequences are below the log's tail at the return of
    /// this call. Nobody else writes out anything of the stretch meanwhile.
    pub(crate) fn begin_write(&self, space: Space, stretch: &Stretch, most: usize) -> (DirtyRecords, Stretch) {
        let (mut records, mut bytes) = (DirtyRecords::default(), 0);
        let end = self.index(space.logged).look(stretch.keys(space), Direction::Up, self, |address| {
            let mut shard = self.shards[address.shard()].lock();
            let (handle, meta) = (address.handle(), shard.slabs.meta(address.handle()));
            if bytes >= most {
                return ControlFlow::Break(record::key(shard.slabs.cell(handle)).to_vec());
            }
            bytes += meta.bytes();
            shard.set_meta(handle, meta.as_writing());
            if !(bug!(DropTombstone) && meta.tombstone()) {
                records.push(shard.record(handle));
            }
            ControlFlow::Continue(())
        });
        (records, Stretch { lower: stretch.lower.clone(), upper: end.or_else(|| stretch.upper.clone()) })
    }

    /// What [`begin_write`](Self::begin_write) took of this stretch is in its pages, synced: records that were not
    /// written again are clean, and go unless they are to be kept; tombstones go.
    pub(crate) fn end_write(&self, space: Space, stretch: &Stretch, keep: bool) {
        self.index(space.logged).retain(stretch.keys(space), self, |address| {
            let mut shard = self.shards[address.shard()].lock();
            let meta = shard.slabs.meta(address.handle());
            let stays = meta.dirty() && !bug!(CleanAfterRewrite);
            if !stays {
                shard.end_write(address.handle(), meta, keep);
            }
            stays
        });
    }

    /// What [`begin_write`](Self::begin_write) took of this stretch was not written: it is dirty as before, since the
    /// same sequences.
    pub(crate) fn abort_write(&self, space: Space, stretch: &Stretch) {
        self.index(space.logged).look(stretch.keys(space), Direction::Up, self, |address| {
            let mut shard = self.shards[address.shard()].lock();
            let meta = shard.slabs.meta(address.handle());
            shard.set_meta(address.handle(), meta.as_dirty());
            ControlFlow::<()>::Continue(())
        });
    }

    /// Copies of records of a stretch that are dirty or being written, and left of a scan, by key: as many as take
    /// `most` bytes of memory, those that it comes to first. Call it before reading the pages: what it does not give is
    /// in these then, or in others that have taken their places.
    pub(crate) fn peek(
        &self,
        space: Space,
        stretch: &Stretch,
        rest: &Rest,
        direction: Direction,
        most: usize,
    ) -> Nearest {
        let (mut nearest, stretch) = (Nearest::default(), stretch.within(rest));
        let beyond = self.index(space.logged).look(stretch.keys(space), direction, self, |address| {
            let shard = self.shards[address.shard()].lock();
            let record = shard.record(address.handle());
            if nearest.records.memory() + record.memory() > most && !nearest.records.is_empty() {
                return ControlFlow::Break(record.key.to_vec());
            }
            nearest.records.push(record);
            ControlFlow::Continue(())
        });
        nearest.limit = beyond;
        if direction == Direction::Down {
            nearest.limit = nearest.limit.and_then(|_| nearest.records.last().map(|last| last.key.to_vec()));
            nearest.records.reverse();
        }
        nearest
    }

    /// The same, of all that are dirty or being written.
    pub(crate) fn peek_all(&self, space: Space, stretch: &Stretch) -> DirtyRecords {
        let everything = Rest::new((Bound::Unbounded, Bound::Unbounded));
        self.peek(space, stretch, &everything, Direction::Up, usize::MAX).records
    }

    /// Drops all dirty records of a keyspace, also those that are being written.
    pub(super) fn forget_dirty(&self, space: Space) {
        self.index(space.logged).retain(Stretch::default().keys(space), self, |address| {
            self.shards[address.shard()].lock().remove(address.handle());
            false
        });
    }
}
