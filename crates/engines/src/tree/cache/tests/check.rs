//! Everything that must hold of a cache that nobody uses at the moment (decision 3).

use super::super::{
    Cache,
    dirty::Entry,
    handle::{Handle, Link},
    record::{self, Meta},
    shard::Shard,
    slab::{PLACE, SLAB},
    table::EMPTY,
};

/// Checks every shard against its counters, its table, and the chains.
pub(super) fn check(cache: &Cache) {
    let chained: usize = cache.shards.iter().map(|shard| check_shard(&shard.lock())).sum();
    assert_eq!(chained, cache.dirty_bytes());
}

/// Records of a keyspace that could be evicted.
pub(super) fn clean_records(cache: &Cache, keyspace: u16) -> usize {
    let in_shard = |shard: &Shard| {
        let handles = (0..shard.slabs.bound()).flat_map(|number| shard.slabs.handles(number));
        let counts =
            |handle: &Handle| shard.slabs.meta(*handle).is_clean() && record::keyspace(shard.slabs.cell(*handle)) == keyspace;
        handles.filter(counts).count()
    };
    cache.shards.iter().map(|shard| in_shard(&shard.lock())).sum()
}

/// Gives the bytes of cells that hold chained records.
fn check_shard(shard: &Shard) -> usize {
    let (mut live, mut chained, mut probation, mut dirty_bytes) = (0, 0, 0, 0);
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
        chained += metas().filter(|meta| meta.chained()).count();
        probation += metas().filter(|meta| meta.is_clean() && meta.on_probation()).count();
        dirty_bytes += bytes(|meta| meta.chained());
    }
    assert_eq!((live, chained, probation), (shard.stats.records, shard.stats.dirty_records, shard.on_probation));
    assert_eq!(live, linked(shard));
    dirty_bytes
}

/// No cell lies over another one or over the table of slots.
fn check_cells(shard: &Shard, number: usize) {
    let slab = shard.slabs.slab(number).expect("looked at");
    let place = |handle: Handle| SLAB - slab.cell(handle.slot()).len();
    let mut cells: Vec<_> = shard.slabs.handles(number).map(|handle| (place(handle), shard.slabs.meta(handle).cell())).collect();
    cells.push((SLAB - usize::from(slab.slots()) * PLACE, 0));
    cells.sort_unstable();
    cells.windows(2).for_each(|pair| assert!(pair[0].0 + pair[0].1 <= pair[1].0));
}

/// A record is found under its key, and a chained one knows its entry.
fn check_record(shard: &Shard, handle: Handle) {
    let cell = shard.slabs.cell(handle);
    let found = shard.find(shard.hash_of(handle), record::keyspace(cell), record::key(cell));
    assert_eq!(found, Some(handle));
    let meta = record::meta(cell);
    assert!(!(meta.dirty() && meta.writing()));
    assert!(!meta.tombstone() || meta.chained(), "a clean tombstone stayed");
    if meta.chained() {
        assert_eq!(shard.common.chains.at(Entry(record::entry(cell))), shard.address(handle));
    }
}

fn linked(shard: &Shard) -> usize {
    let next = |handle: &Handle| record::next(shard.slabs.cell(*handle)).handle();
    let chain = |bucket| std::iter::successors(Link(shard.table.get(bucket)).handle(), next).count();
    let buckets = shard.table.bytes() / 4;
    // Buckets that are not in use yet are empty.
    (0..buckets).filter(|bucket| shard.table.get(*bucket) != EMPTY).map(chain).sum()
}
