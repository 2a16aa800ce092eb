//! The cache's part of the write-out of dirty records (mechanism T4).

use std::ops::{Bound, ControlFlow};

use ecotone_engine::remaining_range::{Direction, RemainingRange};
use ecotone_substrate::{Seq, bug};

use super::{
    Cache, CacheKeyspace,
    dirty_index::Keys,
    handle::{Address, SlotHandle},
    record::{self, Meta},
    shard::Shard,
};
use crate::dirty::{DirtyRecord, DirtyRecords};

/// A range of keys of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KeySpan {
    pub(crate) lower: Vec<u8>,
    /// The upper bound, exclusive; `None` for no bound.
    pub(crate) upper: Option<Vec<u8>>,
}

impl KeySpan {
    fn keys(&self, space: CacheKeyspace) -> Keys<'_> {
        Keys::of(space.number, &self.lower, self.upper.as_deref())
    }

    /// The rest of the range after its first part `part`, if any.
    pub(crate) fn behind(&self, part: &KeySpan) -> Option<KeySpan> {
        let lower = part.upper.clone().filter(|_| part.upper != self.upper)?;
        Some(KeySpan { lower, upper: self.upper.clone() })
    }

    /// The part of the range that remains of a scan.
    fn within(&self, rest: &RemainingRange) -> KeySpan {
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
        KeySpan { lower: lower.max(self.lower.clone()), upper: least }
    }
}

/// Copies of dirty records, by key.
#[derive(Debug, Default)]
pub(crate) struct DirtyOverlay {
    pub(crate) records: DirtyRecords,
    /// The key at which the copies stop, if there are more records: exclusive on the way up, inclusive on the way down
    /// (see [`RemainingRange::split_before`]).
    pub(crate) limit: Option<Vec<u8>>,
}

impl Shard {
    fn record(&self, handle: SlotHandle) -> DirtyRecord<'_> {
        let cell = self.slabs.cell(handle);
        let page_reported = record::meta(cell).page_reported();
        DirtyRecord { key: record::key(cell), value: record::value(cell), page_reported }
    }

    fn end_write(&mut self, handle: SlotHandle, meta: Meta, keep: bool) {
        if meta.tombstone() || !keep {
            self.remove(handle);
        } else {
            self.common.heat.note(meta.bytes(), meta.is_hot());
            self.set_meta(handle, meta.as_clean());
        }
    }
}

impl Cache {
    /// The first key of a range whose record is dirty or being written since a sequence below `below`, or a little
    /// above it.
    pub(crate) fn next_dirty(&self, space: CacheKeyspace, span: &KeySpan, below: Seq) -> Option<Vec<u8>> {
        self.index(space.logged).next(span.keys(space), below, self)
    }

    /// A lower bound of the first sequence since which any record is dirty or being written, or was a moment ago. A
    /// write whose application ended before the call is seen; one that is applied meanwhile may not be.
    pub(crate) fn first_dirty(&self, space: CacheKeyspace) -> Option<Seq> {
        // The known bug: records being written are ignored.
        let is_dirty = |address: Address| self.shards[address.shard()].lock().slabs.meta(address.handle()).dirty();
        let counts = bug!(WatermarkTooHigh).then_some(&is_dirty as &dyn Fn(Address) -> bool);
        self.index(space.logged).first(KeySpan::default().keys(space), self, counts)
    }

    /// Records of a keyspace that are dirty or being written.
    pub(crate) fn dirty_records(&self, space: CacheKeyspace) -> usize {
        self.dirty_within(space, &KeySpan::default(), usize::MAX)
    }

    /// Dirty records of a range; stops counting soon after `most`.
    pub(crate) fn dirty_within(&self, space: CacheKeyspace, span: &KeySpan, most: usize) -> usize {
        self.index(space.logged).count(span.keys(space), self, most)
    }

    /// Fill of the index leaves that hold nothing but dirty records of the range: their entries, and the number of
    /// leaves.
    pub(crate) fn fill(&self, space: CacheKeyspace, span: &KeySpan) -> (usize, usize) {
        self.index(space.logged).fill(span.keys(space), self)
    }

    /// Takes dirty records of a range for writing: about `most` bytes of keys and values from its beginning. Returns
    /// them by key, with the part of the range that was covered. They stay readable, and count as unflushed until
    /// [`end_write`](Self::end_write) of that part. All their sequences are below the log's tail at the return of this
    /// call. The caller ensures that no other write-out touches the range meanwhile.
    pub(crate) fn begin_write(&self, space: CacheKeyspace, span: &KeySpan, most: usize) -> (DirtyRecords, KeySpan) {
        let (mut records, mut bytes) = (DirtyRecords::default(), 0);
        let end = self.index(space.logged).look(span.keys(space), Direction::Up, self, |address| {
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
        (records, KeySpan { lower: span.lower.clone(), upper: end.or_else(|| span.upper.clone()) })
    }

    /// The records that [`begin_write`](Self::begin_write) took of this range are in their pages, synced. Records that
    /// were not written again become clean, and are removed unless `keep`; tombstones are removed.
    pub(crate) fn end_write(&self, space: CacheKeyspace, span: &KeySpan, keep: bool) {
        self.index(space.logged).retain(span.keys(space), self, |address| {
            let mut shard = self.shards[address.shard()].lock();
            let meta = shard.slabs.meta(address.handle());
            let stays = meta.dirty() && !bug!(CleanAfterRewrite);
            if !stays {
                shard.end_write(address.handle(), meta, keep);
            } else if meta.writing() {
                shard.set_meta(address.handle(), meta.as_rewritten());
            }
            stays
        });
    }

    /// The records that [`begin_write`](Self::begin_write) took of this range were not written: they are dirty as
    /// before, since the same sequences.
    pub(crate) fn abort_write(&self, space: CacheKeyspace, span: &KeySpan) {
        self.index(space.logged).look(span.keys(space), Direction::Up, self, |address| {
            let mut shard = self.shards[address.shard()].lock();
            let meta = shard.slabs.meta(address.handle());
            shard.set_meta(address.handle(), meta.as_dirty());
            ControlFlow::<()>::Continue(())
        });
    }

    /// Copies records of a range that are dirty or being written and remain of a scan, by key: the first ones in scan
    /// order, up to `most` bytes of memory. Called before the pages are read: a record that is not returned is then in
    /// these pages, or in pages that replaced them.
    pub(crate) fn peek(
        &self,
        space: CacheKeyspace,
        span: &KeySpan,
        rest: &RemainingRange,
        direction: Direction,
        most: usize,
    ) -> DirtyOverlay {
        let (mut nearest, span) = (DirtyOverlay::default(), span.within(rest));
        let beyond = self.index(space.logged).look(span.keys(space), direction, self, |address| {
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

    /// The same for all records that are dirty or being written.
    pub(crate) fn peek_all(&self, space: CacheKeyspace, span: &KeySpan) -> DirtyRecords {
        let everything = RemainingRange::new((Bound::Unbounded, Bound::Unbounded));
        self.peek(space, span, &everything, Direction::Up, usize::MAX).records
    }

    /// Drops all dirty records of a keyspace, including those being written.
    pub(super) fn forget_dirty(&self, space: CacheKeyspace) {
        self.index(space.logged).retain(KeySpan::default().keys(space), self, |address| {
            self.shards[address.shard()].lock().remove(address.handle());
            false
        });
    }
}
