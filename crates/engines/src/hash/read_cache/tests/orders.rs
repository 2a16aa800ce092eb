//! All orders of a few operations, within a number of preemptions, by loom (decision 10, M5 and M7). A frame has 16
//! words, so a copy of 8 and 56 bytes has one for itself.

use super::*;
use crate::{
    hash::tests::{crowds, fill_up},
    tests::orders::{self, spawn},
};

/// A key whose records have two places in a page.
const KEY: &[u8] = b"k";

/// Keys of one entry, of 8 bytes: a page has one record of them.
type Keys = Vec<Vec<u8>>;

/// Tries the orders of `work` with at most so many preemptions. It begins with an empty world.
fn all_orders(preemptions: usize, copies: usize, work: impl Fn(Arc<World>, &Keys) + Send + Sync + 'static) {
    let keys = crowds(3).swap_remove(0);
    let begin = move || {
        let world = World::new(0, 4, copies);
        fill_up(&world.hash);
        world.hash.make_room_for_copies();
        world
    };
    orders::all_orders(preemptions, begin, move |world| work(world, &keys));
}

/// Adds a byte to what the key has.
fn extend(world: &World, key: &[u8], byte: u8) {
    world.modify(key, |old, new| {
        new.extend_from_slice(old.unwrap_or_default());
        new.push(byte);
        Outcome::Store
    });
}

/// The value of a copy that fills a frame.
fn large(byte: u8) -> [u8; 56] {
    [byte; 56]
}

/// Makes the keys cold, and copies of them, each in a frame of its own: that of the first is the lowest of the chain.
fn copy_all(world: &World, keys: &[Vec<u8>]) {
    for (key, byte) in keys.iter().zip(b'0'..) {
        world.set_cold(key, &large(byte));
        assert_eq!(world.get(key).as_deref(), Some(&large(byte)[..]));
        let found = world.hash.table.find(world.hash.key(key).hash, &world.hash.domain.pin()).map(|found| found.entry);
        assert!(found.is_some_and(|entry| entry.link().copy().is_some()));
    }
}

/// Makes a key cold, and a copy of it above all others of its chain, in a frame that can be evicted.
fn copy_one(world: &World, key: &[u8]) {
    for key in [key, &b"the next"[..]] {
        world.set_cold(key, &large(b'0'));
        assert_eq!(world.get(key).as_deref(), Some(&large(b'0')[..]));
    }
}

/// Evicts the oldest frame of copies, and lets its block in again when nobody looks at it.
fn evict(world: &World) {
    world.hash.evict_frame(&mut world.hash.copies.evictor.lock());
    world.hash.make_room_for_copies();
}

/// M5: an update of what is cold beside a blind write, which it is before or sees. It fails where a conditional insert
/// does not look at what is new in the chain.
#[test]
fn a_conditional_insert_beside_an_upsert_loses_neither() {
    all_orders(3, 0, |world, _| {
        world.set_cold(KEY, b"0");
        let other = spawn(&world, |world| world.set(KEY, Some(b"b")));
        extend(&world, KEY, b'1');
        other.join().unwrap();
        let value = world.get(KEY).unwrap();
        assert!([&b"b"[..], b"b1"].contains(&&value[..]), "{value:?}");
    });
}

/// M5: the same where the write leaves the log at once, and its entry is cleared. Its record may be allocated before
/// the search and linked after it. It fails without the test of SAFE against BEGIN.
#[test]
fn a_conditional_insert_beside_an_upsert_that_becomes_cold_loses_neither() {
    all_orders(2, 0, |world, _| {
        world.set_cold(KEY, b"0");
        // The record of the key ends where its page ends.
        world.set(b"j", Some(b"0"));
        let other = spawn(&world, |world| extend(world, KEY, b'1'));
        world.set(KEY, Some(b"b"));
        world.compact();
        other.join().unwrap();
        let value = world.get(KEY).unwrap();
        assert!([&b"b"[..], b"b1"].contains(&&value[..]), "{value:?}");
    });
}

/// M7: a copy that is inserted beside a write of its key is out of reach when both are done. It fails where the first
/// hot record need not be that of the search.
#[test]
fn a_copy_beside_an_upsert_is_never_what_is_read_after_it() {
    all_orders(3, 7, |world, keys| {
        world.set_cold(&keys[0], b"0");
        let key = keys[0].clone();
        let reader = spawn(&world, move |world| {
            let value = world.get(&key).unwrap();
            assert!([&b"0"[..], b"b"].contains(&&value[..]), "{value:?}");
        });
        world.set(&keys[0], Some(b"b"));
        assert_eq!(world.get(&keys[0]).as_deref(), Some(&b"b"[..]));
        reader.join().unwrap();
        assert_eq!(world.get(&keys[0]).as_deref(), Some(&b"b"[..]));
    });
}

/// M7: the same where the write becomes cold and its entry is cleared. It fails without the test of SAFE against BEGIN.
#[test]
fn a_copy_beside_an_upsert_that_becomes_cold_is_equal_to_it() {
    all_orders(2, 7, |world, keys| {
        world.set_cold(&keys[0], b"0");
        let key = keys[0].clone();
        let writer = spawn(&world, move |world| {
            world.set(&key, Some(b"b"));
            world.compact();
        });
        let value = world.get(&keys[0]).unwrap();
        assert!([&b"0"[..], b"b"].contains(&&value[..]), "{value:?}");
        writer.join().unwrap();
        assert_eq!(world.get(&keys[0]).as_deref(), Some(&b"b"[..]));
    });
}

/// M7: both copies of a chain go while a reader passes, and their blocks come in again. The upper one was used, so it
/// comes to the other queue. It fails where a frame leaves without a grace.
#[test]
fn a_reader_beside_eviction_sees_whole_copies() {
    all_orders(2, 7, |world, keys| {
        copy_all(&world, &keys[..2]);
        world.get(&keys[1]);
        let key = keys[0].clone();
        let reader = spawn(&world, move |world| assert_eq!(world.see(&key).0.as_deref(), Some(&large(b'0')[..])));
        (0..2).for_each(|_| evict(&world));
        world.set_cold(b"another.", &large(b'9'));
        world.get(b"another.");
        reader.join().unwrap();
        assert_eq!(world.get(&keys[1]).as_deref(), Some(&large(b'1')[..]));
    });
}

/// M7: while the head of a chain goes, a record is linked above it. It fails where an entry is changed whatever it
/// names by now.
#[test]
fn eviction_beside_a_write_above_leaves_the_chain_whole() {
    all_orders(2, 7, |world, keys| {
        copy_one(&world, &keys[0]);
        let key = keys[1].clone();
        let writer = spawn(&world, move |world| world.set(&key, Some(b"b")));
        evict(&world);
        writer.join().unwrap();
        assert_eq!(world.get(&keys[1]).as_deref(), Some(&b"b"[..]));
        assert_eq!(world.get(&keys[0]).as_deref(), Some(&large(b'0')[..]));
    });
}

/// M7: or a copy comes above it. It fails where eviction gives up when the entry has changed.
#[test]
fn eviction_beside_a_copy_that_comes_above_leaves_the_chain_whole() {
    all_orders(2, 7, |world, keys| {
        copy_one(&world, &keys[0]);
        world.set_cold(&keys[2], b"2");
        let key = keys[2].clone();
        let reader = spawn(&world, move |world| assert_eq!(world.get(&key).as_deref(), Some(&b"2"[..])));
        evict(&world);
        reader.join().unwrap();
        assert_eq!(world.get(&keys[0]).as_deref(), Some(&large(b'0')[..]));
        assert_eq!(world.get(&keys[2]).as_deref(), Some(&b"2"[..]));
    });
}

/// M7: a copy above a record that becomes cold goes, beside a conditional insert of a search from before that record.
/// It fails where eviction clears an entry by BEGIN.
#[test]
fn eviction_that_clears_an_entry_loses_no_write() {
    all_orders(2, 7, |world, keys| {
        world.set_cold(&keys[0], b"0");
        let (_, seen) = world.see(&keys[0]);
        world.set(&keys[0], Some(b"b"));
        copy_one(&world, &keys[1]);
        world.hash.log.raise_read_only(world.hash.log.close_page());
        let compactor = spawn(&world, |world| {
            world.compact();
            evict(world);
        });
        let written = world.hash.write_if(&world.hash.key(&keys[0]), &seen, Some(b"01"), &world.hash.domain.pin());
        assert_eq!(written, Ok(false));
        compactor.join().unwrap();
        assert_eq!(world.get(&keys[0]).as_deref(), Some(&b"b"[..]));
    });
}

/// M8 with the product's own eviction: while the index gets more buckets, the head of a chain goes, and then `work` is
/// done.
fn eviction_beside_growth(work: impl Fn(&Arc<World>, &Keys) + Send + Sync + 'static) {
    all_orders(1, 7, move |world, keys| {
        copy_one(&world, &keys[0]);
        let grower = spawn(&world, |world| world.hash.table.grow(|| world.hash.room.lease().ok()));
        work(&world, keys);
        assert!(grower.join().unwrap() && world.hash.table.buckets() == 2);
        assert_eq!(world.get(&keys[0]).as_deref(), Some(&large(b'0')[..]));
    });
}

/// M8: it fails where a word of a bucket that is being split can still be written: then the entry of the new table
/// names a frame that is gone.
#[test]
fn a_copy_that_is_evicted_beside_growth_does_not_come_back() {
    eviction_beside_growth(|world, _| evict(world));
}

/// M8: the same beside a write above it.
#[test]
fn a_write_beside_growth_and_eviction_is_not_lost() {
    eviction_beside_growth(|world, keys| {
        let key = keys[1].clone();
        let writer = spawn(world, move |world| world.set(&key, Some(b"b")));
        evict(world);
        writer.join().unwrap();
        assert_eq!(world.get(&keys[1]).as_deref(), Some(&b"b"[..]));
    });
}
