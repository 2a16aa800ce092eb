//! Memory of the cache: what it costs and how it moves between caches and shards.

use ecotone_substrate::memory::{CacheComponents, Component, Memory, Share};
use ecotone_sys::{chunk::Size, primitive::Mutex};

use super::*;

fn key(number: usize) -> [u8; 8] {
    (number as u64).to_be_bytes()
}

#[test]
fn a_record_costs_little_more_than_its_bytes() {
    let (_memory, cache) = cache(64);
    let records = 450_000;
    (0..records).for_each(|n| {
        read(&cache, &key(n), &[2; 100]);
    });
    let counts = cache.counts();
    assert_eq!((counts.records, counts.evictions), (records, 0));
    let overhead = counts.bytes as f64 / records as f64 - 108.0;
    println!("{overhead:.2} bytes of overhead a record of 8 + 100 bytes that was read");
    assert!(overhead <= 18.0);
}

#[test]
fn a_written_record_costs_little_more() {
    let (memory, cache) = cache(64);
    let records = 400_000;
    (0..records).for_each(|n| {
        assert!(put(&cache, &key(n), Some(&[2; 100]), 1));
        if n % 1000 == 999 {
            write_out(&cache);
        }
    });
    assert_eq!((cache.counts().records, cache.counts().evictions), (records, 0));
    let bytes = memory.used(&[Component::RecordCache, Component::CacheTable]);
    let overhead = bytes as f64 / records as f64 - 108.0;
    println!("{overhead:.2} bytes of overhead a record of 8 + 100 bytes that was written");
    assert!(overhead <= 22.0);
}

/// In a cache that has turned over several times, counting all its memory.
#[test]
fn records_of_mixed_sizes_cost_little_more() {
    for (sizes, most) in [(16..250, 17.8), (250..518, 20.2), (518..1030, 24.4), (1030..1910, 32.8), (16..1910, 20.0)] {
        let seed = 5;
        let (mut random, (_memory, cache)) = (Random::new(seed), cache(64));
        let lens: Vec<usize> =
            (0..(300 << 20) / (sizes.start + sizes.end)).map(|_| sizes.start + random.below(sizes.len())).collect();
        lens.iter().enumerate().for_each(|(n, len)| {
            read(&cache, &key(n), &vec![2; len - 8]);
        });
        let kept = lens.iter().enumerate().filter(|(n, _)| has(&cache, &key(*n))).map(|(_, len)| len).sum::<usize>();
        let counts = cache.counts();
        let overhead = (counts.bytes - kept) as f64 / counts.records as f64;
        println!(
            "seed {seed}: {overhead:.2} bytes of overhead a record of {sizes:?} bytes, {} records",
            counts.records
        );
        assert!(counts.evictions > 50_000 && overhead <= most);
    }
}

#[test]
fn entries_of_dirty_records_cost_little() {
    for (rising, most) in [(false, 13), (true, 10)] {
        let (memory, cache) = cache(64);
        let index =
            |memory: &Memory| memory.usage().iter().find(|(name, _)| *name == Component::DirtyIndex.name()).unwrap().1;
        for n in 0..100_000_u32 {
            let key = if rising { n } else { n.wrapping_mul(0x9E37_79B9) }.to_be_bytes();
            assert!(put(&cache, &key, Some(&[1; 100]), 1));
        }
        let bytes = index(&memory);
        assert!(bytes <= 100_000 * most + (16 << 12), "{bytes} bytes for 100,000 entries, rising: {rising}");
        write_out(&cache);
        assert_eq!((cache.dirty_bytes(), cache.first_dirty(space(0)), cache.dirty_records(space(0))), (0, None, 0));
        assert!(index(&memory) <= 32 << 12, "{} bytes for none", index(&memory));
    }
}

#[test]
fn memory_flows_to_the_sizes_that_are_read() {
    let (memory, cache) = cache(4);
    for (round, len) in [(0, 64), (1, 1024), (2, 64), (3, 300)] {
        for n in 0..60_000 {
            read(&cache, &key(round * 1_000_000 + n), &vec![2; len]);
        }
        let fresh = (0..60_000).filter(|n| has(&cache, &key(round * 1_000_000 + n))).count();
        let share = fresh * (len + 22) * 100 / (3 << 20);
        assert!(share > 70, "records of {len} bytes have {share} percent of the memory");
        assert!(memory.held() <= memory.budget());
        check::check(&cache);
    }
    assert!(cache.counts().evictions > 100_000);
}

#[test]
fn any_mixture_of_sizes_can_be_written_into_a_small_cache() {
    let seed = 3;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (_memory, cache) = cache(3);
    for n in 0..40_000 {
        let value = vec![1; random.below(1800)];
        if cache.dirty_bytes() > cache.capacity_bytes() / 3 {
            write_out(&cache);
        }
        assert!(put(&cache, &key(n), Some(&value), n as Seq), "with {} bytes dirty", cache.dirty_bytes());
    }
    check::check(&cache);
}

#[test]
fn essential_work_gets_the_memory_of_clean_records() {
    let (memory, cache) = cache(8);
    (0..100_000).for_each(|n| {
        read(&cache, &key(n), &[2; 100]);
    });
    (200_000..208_000).for_each(|n| assert!(put(&cache, &key(n), Some(&[2; 100]), 1)));
    let mut frames = Vec::new();
    while let Ok(frame) = memory.lease_essential(Component::Frames, Size::Slab) {
        frames.push(frame);
        assert!(memory.held() <= memory.budget());
    }
    let leased = frames.len() * Size::Slab.bytes();
    assert!(leased > 6 << 20, "{leased} bytes could be leased");
    assert!((200_000..208_000).all(|n| has(&cache, &key(n))), "dirty records stay");
    check::check(&cache);
    drop(frames);
    write_out(&cache);
    assert!(cache.shrink(usize::MAX) > 0);
    let counts = cache.counts();
    assert_eq!((counts.records, counts.dirty_records), (0, 0));
    (0..50_000).for_each(|n| {
        read(&cache, &key(n), &[2; 100]);
    });
    assert!(cache.counts().records > 40_000, "the cache grows again");
}

#[test]
fn what_is_reserved_stays_and_can_be_given_back() {
    let (_memory, cache) = cache(4);
    let tokens: Vec<u64> = (0..500).map(|n| cache.reserve(space(0), &key(n), 100).unwrap()).collect();
    (1000..60_000).for_each(|n| {
        read(&cache, &key(n), &[2; 64]);
    });
    cache.shrink(1 << 20);
    check::check(&cache);
    for (n, token) in tokens.into_iter().enumerate() {
        if n % 2 == 0 {
            apply(&cache, token, space(0), &key(n), Some(&[1; 100]), 1);
        } else {
            cache.cancel(token, space(0));
        }
    }
    assert_eq!(write_out(&cache), 250);
    check::check(&cache);
}

/// A cache beside another one that held all the memory first and gives it back slab by slab.
fn crowded() -> (Arc<Memory>, Arc<Cache>, Share) {
    let memory = Memory::new(33 << 20);
    let lease = || memory.lease(Component::Memtable, Size::Slab);
    let blocks = Mutex::new(std::iter::from_fn(lease).collect::<Vec<_>>());
    let shrink = move |_| blocks.lock().pop().map_or(0, |block| block.len());
    let other = memory.join(CacheComponents::Components(&[Component::Memtable]), Box::new(shrink));
    let cache = Cache::new(memory.clone(), 1, LOG);
    (memory, cache, other)
}

#[test]
fn a_cache_comes_to_its_fair_part_by_reads_and_by_writes() {
    for by_reads in [true, false] {
        let (_memory, cache, other) = crowded();
        for n in 0..300_000 {
            // The other cache could save as many requests.
            other.count(if by_reads { 1 } else { 2 });
            if by_reads {
                read(&cache, &key(n), &[2; 100]);
            } else if !put(&cache, &key(n), Some(&[1; 100]), n as Seq) {
                break;
            }
        }
        let (held, fair) = (cache.share.held(), cache.share.fair_part());
        // When the other cache gives a slab, index blocks take a part of it, and other uses take the rest later.
        assert!(
            held <= fair + Size::Slab.bytes() && held > fair / 10 * 9,
            "{held} of {fair} bytes, by reads: {by_reads}"
        );
        let kept = other.fair_part();
        assert!(other.held() + Size::Slab.bytes() >= kept, "the other keeps its part");
        assert!(fair.abs_diff(kept) < fair / 8, "{fair} and {kept} bytes are for equal demand, by reads: {by_reads}");
    }
}
