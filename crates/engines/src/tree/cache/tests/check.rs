//! Everything that must hold of a cache that nobody uses at the moment (decision 3).

use super::super::{
    Cache,
    class::{CLASSES, Class},
    dirty::Entry,
    handle::{Handle, Link},
    record,
    shard::Shard,
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
        let slots = |number: usize| shard.slabs.slab(number).map_or(0, |slab| slab.fresh());
        let handles = (0..shard.slabs.bound()).flat_map(|number| (0..slots(number)).map(move |slot| Handle::new(number, slot)));
        let counts =
            |handle: &Handle| shard.slabs.meta(*handle).is_clean() && record::keyspace(shard.slabs.slot(*handle)) == keyspace;
        handles.filter(counts).count()
    };
    cache.shards.iter().map(|shard| in_shard(&shard.lock())).sum()
}

/// Gives the bytes of slots that hold chained records.
fn check_shard(shard: &Shard) -> usize {
    let (mut live, mut chained, mut probation, mut dirty_bytes) = (0, 0, 0, 0);
    let mut vacant = [0; CLASSES];
    for number in 0..shard.slabs.bound() {
        let Some(slab) = shard.slabs.slab(number) else { continue };
        let handles = || (0..slab.fresh()).map(|slot| Handle::new(number, slot));
        let metas = || handles().map(|handle| shard.slabs.meta(handle));
        handles().filter(|handle| shard.slabs.meta(*handle).live()).for_each(|handle| check_record(shard, handle));
        let used = metas().filter(|meta| meta.live() || meta.reserved()).count();
        assert_eq!(slab.vacant(), slab.class().slots() - used);
        assert_eq!(slab.reserved(), metas().filter(|meta| meta.reserved()).count());
        assert_eq!(slab.chained(), metas().filter(|meta| meta.chained()).count());
        live += metas().filter(|meta| meta.live()).count();
        chained += slab.chained();
        probation += metas().filter(|meta| meta.is_clean() && meta.on_probation()).count();
        dirty_bytes += slab.chained() * slab.class().bytes();
        vacant[usize::from(slab.class().0)] += slab.vacant();
    }
    assert_eq!((live, chained, probation), (shard.stats.records, shard.stats.dirty_records, shard.on_probation));
    assert_eq!(live, linked(shard));
    vacant.iter().enumerate().for_each(|(class, vacant)| assert_eq!(shard.slabs.vacant(Class(class as u8)), *vacant));
    dirty_bytes
}

/// A record is found under its key, and a chained one knows its entry.
fn check_record(shard: &Shard, handle: Handle) {
    let slot = shard.slabs.slot(handle);
    let found = shard.find(shard.hash_of(handle), record::keyspace(slot), record::key(slot));
    assert_eq!(found, Some(handle));
    let meta = record::meta(slot);
    assert!(!(meta.dirty() && meta.writing()));
    assert!(!meta.tombstone() || meta.chained(), "a clean tombstone stayed");
    if meta.chained() {
        assert_eq!(shard.common.chains.at(Entry(record::entry(slot))), shard.address(handle));
    }
}

fn linked(shard: &Shard) -> usize {
    let next = |handle: &Handle| record::next(shard.slabs.slot(*handle)).handle();
    let chain = |bucket| std::iter::successors(Link(shard.table.get(bucket)).handle(), next).count();
    let buckets = shard.table.bytes() / 4;
    // Buckets that are not in use yet are empty.
    (0..buckets).filter(|bucket| shard.table.get(*bucket) != EMPTY).map(chain).sum()
}
