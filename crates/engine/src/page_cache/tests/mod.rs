//! Tests of the page cache as a whole.

#[cfg(feature = "loom")]
mod orders;

use std::collections::HashMap;

use ecotone_substrate::limits::PAGE;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

const MIB: usize = 1 << 20;

fn id(page: u32) -> PageId {
    PageId::of_tree((page % 3) as u16, page / 3)
}

fn content(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(PAGE / 8)
}

/// The number that fills the content of a page.
fn copied(cache: &PageCache, id: PageId) -> Option<u64> {
    let mut page = vec![0; PAGE];
    (cache.touch(id) && cache.copy(id, &mut page)).then(|| {
        let number = u64::from_le_bytes(page.as_chunks().0[0]);
        assert!(page == content(number), "the page has bytes of another one");
        number
    })
}

/// Admits a page. Offered twice, since a full cache admits only pages that it has seen before.
fn admit(cache: &PageCache, id: PageId, number: u64) {
    for _ in 0..2 {
        cache.admit(id, &content(number), cache.ticket(id));
    }
}

#[test]
fn what_it_gives_is_what_came_in_last_or_nothing() {
    let memory = Memory::new(24 * MIB);
    let cache = PageCache::of_pages(memory.clone());
    let mut random = SmallRng::seed_from_u64(5);
    let mut newest: HashMap<u32, u64> = HashMap::new();
    let mut hits = 0;
    for number in 0..200_000 {
        let page = random.random_range(0..9_000_u32);
        match random.random_range(0..100) {
            0..60 => {
                let found = copied(&cache, id(page));
                hits += u64::from(found.is_some());
                assert!(found.is_none_or(|found| found == newest[&page]), "page {page}");
            }
            60..95 => {
                cache.forget(id(page));
                newest.insert(page, number);
                admit(&cache, id(page), number);
                assert_eq!(copied(&cache, id(page)), Some(number));
            }
            95..99 => cache.forget(id(page)),
            _ => assert_eq!(cache.shrink(1) % Size::Slab.bytes(), 0),
        }
    }
    assert!(hits > 40_000, "{hits} hits");
    assert!(memory.held() <= 24 * MIB);
    while cache.shrink(MIB) > 0 {}
    assert_eq!(memory.used(&[Component::PageCache]), 0, "all of it can be given back");
    assert!((0..9_000).all(|page| copied(&cache, id(page)).is_none()));
}

#[test]
fn pages_that_are_asked_for_stay_and_others_go() {
    let memory = Memory::new(16 * MIB);
    let cache = PageCache::of_pages(memory);
    for page in 0..1_000 {
        admit(&cache, id(page), 1);
    }
    for page in 1_000..50_000 {
        admit(&cache, id(page), 2);
        assert!(copied(&cache, id(page % 1_000)).is_some(), "page {} at {page}", page % 1_000);
    }
    let others = (1_000..46_000).filter(|page| copied(&cache, id(*page)).is_some()).count();
    assert!(others < 1_000, "{others} old pages that nobody asked for are still here");
}

#[test]
fn a_full_cache_takes_in_what_it_is_asked_for_again() {
    let cache = PageCache::of_pages(Memory::new(16 * MIB));
    let once = |page: u32| cache.admit(id(page), &content(1), cache.ticket(id(page)));
    (0..10_000).for_each(once);
    let first = (0..10_000).filter(|page| cache.touch(id(*page))).count();
    assert!(first < 4_000, "{first} pages");
    assert!((0..1_000).all(|page| cache.touch(id(page))), "others that are read once do not push them out");
    (9_000..10_000).for_each(once);
    let known = (9_000..10_000).filter(|page| cache.touch(id(*page))).count();
    assert!(known > 700, "{known} of those that came again were known");
}

#[test]
fn trap_01_a_page_that_was_written_meanwhile_does_not_come_in() {
    let cache = PageCache::of_pages(Memory::new(16 * MIB));
    let ticket = cache.ticket(id(7));
    cache.forget(id(7));
    cache.admit(id(7), &content(1), ticket);
    assert_eq!(copied(&cache, id(7)), None);
    cache.admit(id(7), &content(2), cache.ticket(id(7)));
    assert_eq!(copied(&cache, id(7)), Some(2));
}

#[test]
fn a_keyspace_goes_alone() {
    let cache = PageCache::of_pages(Memory::new(16 * MIB));
    let ids = [0, 1].map(|keyspace| PageId::of_tree(keyspace, 5));
    ids.iter().for_each(|id| admit(&cache, *id, id.keyspace().into()));
    cache.forget_keyspace(0);
    assert_eq!(ids.map(|id| copied(&cache, id)), [None, Some(1)]);
}

#[test]
fn without_memory_it_asks_for_what_it_is_due() {
    let memory = Memory::new(17 * MIB);
    let blocks = Arc::new(Mutex::new(Vec::new()));
    blocks.lock().extend(std::iter::from_fn(|| memory.lease(Component::Memtable, Size::Slab)));
    let held = blocks.clone();
    let give = move |_| held.lock().pop().map_or(0, |block| block.len());
    let other = memory.join(CacheComponents::Components(&[Component::Memtable]), Box::new(give));
    other.count(10);
    let cache = PageCache::of_pages(memory.clone());
    for page in 0..100_000 {
        cache.count(1);
        admit(&cache, id(page), 1);
    }
    let used = memory.used(&[Component::PageCache]);
    assert!(used > 12 * MIB && used <= 15 * MIB, "{used} bytes");
}
