//! All orders of a few operations, within a number of preemptions, by loom (hash-protocol.md, M5 and M7). A frame has
//! 16 words, so an entry of 8 and 56 bytes fills one.

use ecotone_sys::primitive::orders::{self, spawn};

use super::*;
use crate::tests::{crowds, fill_up};

/// A key whose records have two places in a page.
const KEY: &[u8] = b"k";

/// Keys of 8 bytes that share an index entry: a page holds one record of them.
type Keys = Vec<Vec<u8>>;

/// Tries the orders of `work` with at most `preemptions` preemptions. Each begins with an empty fixture.
fn all_orders(preemptions: usize, copies: usize, work: impl Fn(Arc<Fixture>, &Keys) + Send + Sync + 'static) {
    let keys = crowds(3).swap_remove(0);
    let begin = move || {
        let fixture = Fixture::new(0, 4, copies);
        fill_up(&fixture.hash);
        fixture.hash.chains.evict_for_inserts();
        fixture
    };
    orders::all_orders(preemptions, begin, move |fixture| work(fixture, &keys));
}

/// Appends a byte to the key's value.
fn extend(fixture: &Fixture, key: &[u8], byte: u8) {
    fixture.modify(key, |old, new| {
        new.extend_from_slice(old.unwrap_or_default());
        new.push(byte);
        UpdateAction::Store
    });
}

/// The value of an entry that fills a frame.
fn large(byte: u8) -> [u8; 56] {
    [byte; 56]
}

/// Makes the keys cold and caches each in a frame of its own. The first key's entry is the lowest of the chain.
fn copy_all(fixture: &Fixture, keys: &[Vec<u8>]) {
    for (key, byte) in keys.iter().zip(b'0'..) {
        fixture.set_cold(key, &large(byte));
        assert_eq!(fixture.get(key).as_deref(), Some(&large(byte)[..]));
        let found = fixture
            .hash
            .chains
            .index
            .find(fixture.hash.chains.key(key).hash, &fixture.hash.chains.domain.pin())
            .map(|found| found.entry);
        assert!(found.is_some_and(|entry| entry.link().copy().is_some()));
    }
}

/// Makes a key cold and caches it above all other entries of its chain, in a frame that can be evicted.
fn copy_one(fixture: &Fixture, key: &[u8]) {
    for key in [key, &b"the next"[..]] {
        fixture.set_cold(key, &large(b'0'));
        assert_eq!(fixture.get(key).as_deref(), Some(&large(b'0')[..]));
    }
}

/// Evicts the oldest frame of entries, and reuses its block when no thread can see it.
fn evict(fixture: &Fixture) {
    fixture.hash.chains.evict_frame(&mut fixture.hash.chains.read_cache.evictor.lock());
    fixture.hash.chains.evict_for_inserts();
}

/// M5: an update of a cold record beside a blind write. The update comes before the write or sees it. The test fails if
/// a conditional insert does not check the new records of the chain.
#[test]
fn a_conditional_insert_beside_an_upsert_loses_neither() {
    all_orders(3, 0, |fixture, _| {
        fixture.set_cold(KEY, b"0");
        let other = spawn(&fixture, |fixture| fixture.set(KEY, Some(b"b")));
        extend(&fixture, KEY, b'1');
        other.join().unwrap();
        let value = fixture.get(KEY).unwrap();
        assert!([&b"b"[..], b"b1"].contains(&&value[..]), "{value:?}");
    });
}

/// M5: the same if the write leaves the log at once and its index entry is cleared. The record may be allocated before
/// the search and linked after it. The test fails without the check of SAFE against BEGIN.
#[test]
fn a_conditional_insert_beside_an_upsert_that_becomes_cold_loses_neither() {
    all_orders(2, 0, |fixture, _| {
        fixture.set_cold(KEY, b"0");
        // The record of the key ends where its page ends.
        fixture.set(b"j", Some(b"0"));
        let other = spawn(&fixture, |fixture| extend(fixture, KEY, b'1'));
        fixture.set(KEY, Some(b"b"));
        fixture.compact();
        other.join().unwrap();
        let value = fixture.get(KEY).unwrap();
        assert!([&b"b"[..], b"b1"].contains(&&value[..]), "{value:?}");
    });
}

/// M7: an entry that is inserted beside a write of its key cannot be found when both are done. The test fails if the
/// first hot record need not be that of the search.
#[test]
fn a_copy_beside_an_upsert_is_never_what_is_read_after_it() {
    all_orders(3, 7, |fixture, keys| {
        fixture.set_cold(&keys[0], b"0");
        let key = keys[0].clone();
        let reader = spawn(&fixture, move |fixture| {
            let value = fixture.get(&key).unwrap();
            assert!([&b"0"[..], b"b"].contains(&&value[..]), "{value:?}");
        });
        fixture.set(&keys[0], Some(b"b"));
        assert_eq!(fixture.get(&keys[0]).as_deref(), Some(&b"b"[..]));
        reader.join().unwrap();
        assert_eq!(fixture.get(&keys[0]).as_deref(), Some(&b"b"[..]));
    });
}

/// M7: the same if the write becomes cold and its index entry is cleared. The test fails without the check of SAFE
/// against BEGIN.
#[test]
fn a_copy_beside_an_upsert_that_becomes_cold_is_equal_to_it() {
    all_orders(2, 7, |fixture, keys| {
        fixture.set_cold(&keys[0], b"0");
        let key = keys[0].clone();
        let writer = spawn(&fixture, move |fixture| {
            fixture.set(&key, Some(b"b"));
            fixture.compact();
        });
        let value = fixture.get(&keys[0]).unwrap();
        assert!([&b"0"[..], b"b"].contains(&&value[..]), "{value:?}");
        writer.join().unwrap();
        assert_eq!(fixture.get(&keys[0]).as_deref(), Some(&b"b"[..]));
    });
}

/// M7: both entries of a chain are evicted while a reader passes, and their blocks are reused. The upper one was used,
/// so it moves to the other queue. The test fails if a frame leaves without a grace period.
#[test]
fn a_reader_beside_eviction_sees_whole_copies() {
    all_orders(2, 7, |fixture, keys| {
        copy_all(&fixture, &keys[..2]);
        fixture.get(&keys[1]);
        let key = keys[0].clone();
        let reader = spawn(&fixture, move |fixture| assert_eq!(fixture.see(&key).0.as_deref(), Some(&large(b'0')[..])));
        (0..2).for_each(|_| evict(&fixture));
        fixture.set_cold(b"another.", &large(b'9'));
        fixture.get(b"another.");
        reader.join().unwrap();
        assert_eq!(fixture.get(&keys[1]).as_deref(), Some(&large(b'1')[..]));
    });
}

/// M7: while the head of a chain is evicted, a record is linked above it. The test fails if an index entry is changed
/// whatever it names by then.
#[test]
fn eviction_beside_a_write_above_leaves_the_chain_whole() {
    all_orders(2, 7, |fixture, keys| {
        copy_one(&fixture, &keys[0]);
        let key = keys[1].clone();
        let writer = spawn(&fixture, move |fixture| fixture.set(&key, Some(b"b")));
        evict(&fixture);
        writer.join().unwrap();
        assert_eq!(fixture.get(&keys[1]).as_deref(), Some(&b"b"[..]));
        assert_eq!(fixture.get(&keys[0]).as_deref(), Some(&large(b'0')[..]));
    });
}

/// M7: the same with a read-cache entry linked above it. The test fails if eviction gives up when the index entry has
/// changed.
#[test]
fn eviction_beside_a_copy_that_comes_above_leaves_the_chain_whole() {
    all_orders(2, 7, |fixture, keys| {
        copy_one(&fixture, &keys[0]);
        fixture.set_cold(&keys[2], b"2");
        let key = keys[2].clone();
        let reader = spawn(&fixture, move |fixture| assert_eq!(fixture.get(&key).as_deref(), Some(&b"2"[..])));
        evict(&fixture);
        reader.join().unwrap();
        assert_eq!(fixture.get(&keys[0]).as_deref(), Some(&large(b'0')[..]));
        assert_eq!(fixture.get(&keys[2]).as_deref(), Some(&b"2"[..]));
    });
}

/// M7: an entry above a record that becomes cold is evicted, beside a conditional insert whose search came before that
/// record. The test fails if eviction clears an index entry by BEGIN.
#[test]
fn eviction_that_clears_an_entry_loses_no_write() {
    all_orders(2, 7, |fixture, keys| {
        fixture.set_cold(&keys[0], b"0");
        let (_, seen) = fixture.see(&keys[0]);
        fixture.set(&keys[0], Some(b"b"));
        copy_one(&fixture, &keys[1]);
        fixture.hash.chains.log.raise_read_only(fixture.hash.chains.log.close_page());
        let compactor = spawn(&fixture, |fixture| {
            fixture.compact();
            evict(fixture);
        });
        let written = fixture.hash.chains.write_if(
            &fixture.hash.chains.key(&keys[0]),
            &seen,
            Some(b"01"),
            &fixture.hash.chains.domain.pin(),
        );
        assert_eq!(written, Ok(false));
        compactor.join().unwrap();
        assert_eq!(fixture.get(&keys[0]).as_deref(), Some(&b"b"[..]));
    });
}

/// M8 with the product's own eviction: the head of a chain is evicted while the index grows, and then `work` runs.
fn eviction_beside_growth(work: impl Fn(&Arc<Fixture>, &Keys) + Send + Sync + 'static) {
    all_orders(1, 7, move |fixture, keys| {
        copy_one(&fixture, &keys[0]);
        let grower =
            spawn(&fixture, |fixture| fixture.hash.chains.index.grow(|| fixture.hash.reservations.lease().ok()));
        work(&fixture, keys);
        assert!(grower.join().unwrap() && fixture.hash.chains.index.buckets() == 2);
        assert_eq!(fixture.get(&keys[0]).as_deref(), Some(&large(b'0')[..]));
    });
}

/// M8: the test fails if a word of a bucket under split can still be written. The new table's entry then names a frame
/// that is gone.
#[test]
fn a_copy_that_is_evicted_beside_growth_does_not_come_back() {
    eviction_beside_growth(|fixture, _| evict(fixture));
}

/// M8: the same beside a write above it.
#[test]
fn a_write_beside_growth_and_eviction_is_not_lost() {
    eviction_beside_growth(|fixture, keys| {
        let key = keys[1].clone();
        let writer = spawn(fixture, move |fixture| fixture.set(&key, Some(b"b")));
        evict(fixture);
        writer.join().unwrap();
        assert_eq!(fixture.get(&keys[1]).as_deref(), Some(&b"b"[..]));
    });
}
