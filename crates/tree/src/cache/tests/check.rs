//! Checks the invariants of a quiescent cache (decision 3).

use std::ops::ControlFlow;

use ecotone_engine::remaining_range::Direction;

use super::super::{
    Cache,
    dirty_index::{Key, Keys},
    handle::{Link, SlotHandle},
    record::{self, Meta},
    shard::Shard,
    slab::{PLACE, SLAB},
    table::EMPTY,
};

/// Checks every shard against its counters and its table, and the indexes against the records.
pub(super) fn check(cache: &Cache) {
    let dirty: usize = cache.shards.iter().map(|shard| check_shard(&shard.lock())).sum();
    assert_eq!(dirty, cache.dirty_bytes());
    let counted: usize = cache.shards.iter().map(|shard| shard.lock().stats.dirty_records).sum();
    let all = Keys { from: Key { keyspace: 0, bytes: &[] }, to: None };
    let mut entries = 0;
    for (index, logged) in cache.indexes.iter().zip([true, false]) {
        let mut last = None;
        index.look(all, Direction::Up, cache, |address| {
            let shard = cache.shards[address.shard()].lock();
            let cell = shard.slabs.cell(address.handle());
            assert!(record::meta(cell).unwritten() && record::meta(cell).logged() == logged);
            let key = (record::keyspace(cell), record::key(cell).to_vec());
            assert!(last.as_ref() < Some(&key), "entries are in order");
            last = Some(key);
            entries += 1;
            ControlFlow::<()>::Continue(())
        });
    }
    assert_eq!(entries, counted, "each record that is not in its page has an entry");
}

/// Records of a keyspace that may be evicted.
pub(super) fn clean_records(cache: &Cache, keyspace: u16) -> usize {
    let in_shard = |shard: &Shard| {
        let handles = (0..shard.slabs.bound()).flat_map(|number| shard.slabs.handles(number));
        let counts = |handle: &SlotHandle| {
            shard.slabs.meta(*handle).is_clean() && record::keyspace(shard.slabs.cell(*handle)) == keyspace
        };
        handles.filter(counts).count()
    };
    cache.shards.iter().map(|shard| in_shard(&shard.lock())).sum()
}

/// Returns the bytes of cells whose records are not in their pages.
fn check_shard(shard: &Shard) -> usize {
    let (mut live, mut dirty, mut probation, mut dirty_bytes) = (0, 0, 0, 0);
    for number in 0..shard.slabs.bound() {
        let Some(slab) = shard.slabs.slab(number) else { continue };
        let metas = || shard.slabs.handles(number).map(|handle| shard.slabs.meta(handle));
        let bytes = |which: fn(&Meta) -> bool| metas().filter(which).map(Meta::cell).sum::<usize>();
        shard
            .slabs
            .handles(number)
            .filter(|handle| shard.slabs.meta(*handle).live())
            .for_each(|handle| check_record(shard, handle));
        assert!(metas().all(|meta| meta.live() || meta.reserved()));
        assert_eq!(slab.vacant(), SLAB - usize::from(slab.slots()) * PLACE - bytes(|_| true));
        assert_eq!(slab.reserved(), metas().filter(|meta| meta.reserved()).count());
        check_cells(shard, number);
        live += metas().filter(|meta| meta.live()).count();
        dirty += metas().filter(|meta| meta.unwritten()).count();
        probation += metas().filter(|meta| meta.is_clean() && meta.on_probation()).count();
        dirty_bytes += bytes(|meta| meta.unwritten());
    }
    assert_eq!((live, dirty, probation), (shard.stats.records, shard.stats.dirty_records, shard.on_probation));
    assert_eq!(live, linked(shard));
    dirty_bytes
}

/// No cell overlaps another one or the slot table.
fn check_cells(shard: &Shard, number: usize) {
    let slab = shard.slabs.slab(number).expect("looked at");
    let place = |handle: SlotHandle| SLAB - slab.cell(handle.slot()).len();
    let mut cells: Vec<_> =
        shard.slabs.handles(number).map(|handle| (place(handle), shard.slabs.meta(handle).cell())).collect();
    cells.push((SLAB - usize::from(slab.slots()) * PLACE, 0));
    cells.sort_unstable();
    cells.windows(2).for_each(|pair| assert!(pair[0].0 + pair[0].1 <= pair[1].0));
}

/// A record is found under its key.
fn check_record(shard: &Shard, handle: SlotHandle) {
    let cell = shard.slabs.cell(handle);
    let found = shard.find(shard.hash_of(handle), record::keyspace(cell), record::key(cell));
    assert_eq!(found, Some(handle));
    let meta = record::meta(cell);
    assert!(meta.unwritten() || !meta.page_reported(), "a clean record says that its page's version was reported");
    assert!(!meta.tombstone() || meta.unwritten(), "a clean tombstone stayed");
}

fn linked(shard: &Shard) -> usize {
    let next = |handle: &SlotHandle| record::next(shard.slabs.cell(*handle)).handle();
    let chain = |bucket| std::iter::successors(Link(shard.table.get(bucket)).handle(), next).count();
    let buckets = shard.table.bytes() / 4;
    // Buckets that are not in use yet are empty.
    (0..buckets).filter(|bucket| shard.table.get(*bucket) != EMPTY).map(chain).sum()
}
