//! The choice of evicted entries, and the chains and memory after eviction.

use super::*;
use crate::log::{FRAME, HotLog, PAGE, PAGE_HEADER};

const FRAMES: usize = 16;
/// Entries of 8 + 100 bytes in a frame.
const IN_A_FRAME: u64 = FRAME / 8 / CachedRecord::words(8, 100);

fn value(key: u64) -> [u8; 100] {
    [key as u8; 100]
}

/// A fixture with this many cold records.
fn fixture(records: u64) -> Fixture {
    let fixture = Fixture::new(12, 8, FRAMES);
    (0..records).for_each(|key| fixture.set_cold(&key.to_le_bytes(), &value(key)));
    fixture.hash.chains.evict_for_inserts();
    fixture
}

fn read(fixture: &Fixture, keys: impl Iterator<Item = u64>) {
    keys.for_each(|key| assert_eq!(fixture.get(&key.to_le_bytes()).unwrap(), value(key)));
}

fn copied(fixture: &Fixture, keys: impl Iterator<Item = u64>) -> usize {
    keys.filter(|key| fixture.is_linked(&key.to_le_bytes())).count()
}

#[test]
fn what_is_read_again_stays_while_others_pass() {
    let often = 4 * IN_A_FRAME;
    let fixture = fixture(often + 100 * IN_A_FRAME);
    for round in 0..100 {
        read(&fixture, 0..often);
        read(&fixture, (often + round * IN_A_FRAME)..(often + (round + 1) * IN_A_FRAME));
    }
    let kept = copied(&fixture, 0..often);
    assert!(kept as u64 > often * 95 / 100, "{kept} of {often}");
}

#[test]
fn memory_stays_within_its_limit_and_is_used() {
    let fixture = fixture(40 * IN_A_FRAME);
    for _ in 0..3 {
        read(&fixture, 0..40 * IN_A_FRAME);
        let leased = fixture.hash.chains.read_cache.frames();
        assert_eq!(leased, FRAMES as u64);
    }
    let kept = copied(&fixture, 0..40 * IN_A_FRAME) as u64;
    assert!(kept > (FRAMES as u64 - 7) * IN_A_FRAME && kept < FRAMES as u64 * IN_A_FRAME, "{kept} copies");
}

/// A grace period may end on any thread, also while frames are collected.
#[test]
fn no_frame_is_lost_while_others_unpin() {
    let (fixture, done) = (fixture(40 * IN_A_FRAME), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    drop(fixture.hash.chains.domain.pin());
                }
            });
        }
        (0..10).for_each(|_| read(&fixture, 0..40 * IN_A_FRAME));
        done.store(true, Ordering::Relaxed);
    });
    let mut evictor = fixture.hash.chains.read_cache.evictor.lock();
    // One call collects the frames that were given up, the next one their block.
    (0..3).for_each(|_| {
        fixture.hash.chains.read_cache.collect(&mut evictor);
        fixture.hash.chains.domain.drain();
    });
    assert!(!fixture.hash.chains.read_cache.is_leaving(&mut evictor), "a frame is neither in a queue nor spare");
}

/// A key that was missed lately goes to the main queue at once, where a scan of other keys does not evict it.
#[test]
fn a_key_that_is_missed_again_stays() {
    let frames = |from: u64, until: u64| from * IN_A_FRAME..until * IN_A_FRAME;
    let fixture = fixture(80 * IN_A_FRAME);
    // The main queue has its full length.
    (0..2).for_each(|_| read(&fixture, frames(0, 10)));
    read(&fixture, frames(20, 50));
    read(&fixture, frames(10, 11));
    read(&fixture, frames(50, 55));
    assert!(copied(&fixture, frames(10, 11)) < 5, "but those that were taken for known ones");
    read(&fixture, frames(10, 11));
    read(&fixture, frames(55, 60));
    let kept = copied(&fixture, frames(10, 11));
    // Between the two misses of each key there were as many others as the ghost list remembers in all.
    assert!(kept as u64 > IN_A_FRAME / 2, "{kept} of {IN_A_FRAME}");
}

/// In a chain of entries one is used and moves to the other queue; the others are evicted; the hot record below stays.
#[test]
fn a_chain_keeps_what_is_not_evicted() {
    for keys in crate::tests::crowds(4).iter().take(10) {
        let fixture = Fixture::new(0, 8, FRAMES);
        fixture.hash.chains.evict_for_inserts();
        keys[1..].iter().for_each(|key| fixture.set_cold(key, b"cold"));
        fixture.set(&keys[0], Some(b"hot"));
        keys[1..].iter().for_each(|key| assert_eq!(fixture.get(key).as_deref(), Some(&b"cold"[..])));
        assert!(keys[1..].iter().all(|key| fixture.is_linked(key)));
        for other in 0..1_500u64 {
            let other = (other | 1 << 63).to_le_bytes();
            fixture.set_cold(&other, &[0; 1_800]);
            fixture.get(&other);
            fixture.get(&keys[2]);
        }
        let linked: Vec<bool> = keys.iter().map(|key| fixture.is_linked(key)).collect();
        assert_eq!(linked[..4], [false, false, true, false]);
        assert!(matches!(fixture.see(&keys[0]).1.place, Found::Memory(..)));
        assert_eq!(fixture.get(&keys[0]).as_deref(), Some(&b"hot"[..]));
        keys[1..].iter().for_each(|key| assert_eq!(fixture.get(key).as_deref(), Some(&b"cold"[..])));
    }
}

#[test]
fn an_entry_whose_last_copy_goes_is_free_if_nothing_hot_is_below() {
    let fixture = fixture(60 * IN_A_FRAME);
    read(&fixture, 0..60 * IN_A_FRAME);
    let there = |key: u64| {
        fixture
            .hash
            .chains
            .index
            .find(fixture.hash.chains.key(&key.to_le_bytes()).hash, &fixture.hash.chains.domain.pin())
            .is_some()
    };
    let entries = (0..60 * IN_A_FRAME).filter(|key| there(*key)).count();
    let kept = copied(&fixture, 0..60 * IN_A_FRAME);
    assert!(kept > 5_000 && entries.abs_diff(kept) < 20, "{entries} entries, {kept} copies");
}

#[test]
fn links_that_are_stale_are_swept_when_the_log_has_grown() {
    let mut fixture = Fixture::new(3, 8, 8);
    // So far that short addresses wrap around.
    let at = Address::new(5 << 43);
    fixture.hash.chains.log = HotLog::new(&fixture.hash.chains.domain, at, 8);
    fixture.set_cold(b"key", b"cold");
    fixture.set(b"other", Some(b"hot"));
    fixture.hash.chains.evict_for_inserts();
    let (hash, pin) = (&fixture.hash, fixture.hash.chains.domain.pin());
    let found = hash.chains.index.find_or_insert(hash.chains.key(b"key").hash, &pin).unwrap();
    let stale = Link::to(Address::new(at.get() - PAGE + PAGE_HEADER));
    let copy = hash.chains.read_cache.append(CacheQueue::Small, b"key", b"cold", stale, 0, &pin).unwrap();
    found.place.exchange(found.entry, found.entry.with_link(copy)).unwrap();
    let hot = hash.chains.index.find(hash.chains.key(b"other").hash, &pin).unwrap().entry.link();
    let above = hash.chains.read_cache.append(CacheQueue::Main, b"third", b"cold", hot, 0, &pin).unwrap();
    drop(pin);
    hash.chains.clear_stale_links();
    let pin = hash.chains.domain.pin();
    assert_eq!(
        (hash.chains.read_cache.below(copy, &pin), hash.chains.read_cache.below(above, &pin)),
        (Link::NONE, hot)
    );
    assert!(fixture.is_copied(b"key"));
}
