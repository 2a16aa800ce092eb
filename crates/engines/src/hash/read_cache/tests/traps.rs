//! What a conditional insert must notice: each written between a search and its end.

use super::*;
use crate::hash::{
    append::{self, Appended},
    log::PAGE,
    lookup::{Newest, Reach, Start},
    room::Lack,
};

const KEY: &[u8] = b"key";
const OLD: &[u8] = b"old";
const NEW: &[u8] = b"new";

/// A world in which the key has a value that is cold, and how a search begins then.
fn searched() -> (World, Start) {
    let world = World::new(3, 8, 8);
    world.set_cold(KEY, OLD);
    world.hash.make_room_for_copies();
    let (value, seen) = world.see(KEY);
    assert_eq!(value.as_deref(), Some(OLD));
    assert!(matches!(seen.place, Found::Nowhere));
    (world, seen.start)
}

/// Neither an update nor a copy comes of what was searched before the key had its present value.
fn is_noticed(world: &World, start: &Start, value: Option<&[u8]>) {
    let key = world.hash.key(KEY);
    assert_eq!(world.hash.insert_if(&key, start, Some(b"update of old"), &world.hash.domain.pin()), Ok(false));
    world.hash.offer(&key, start, OLD);
    assert!(!world.is_copied(KEY));
    assert_eq!(world.get(KEY).as_deref(), value);
}

#[test]
fn trap_01_what_was_read_before_a_write_is_not_copied_after_it() {
    let (world, start) = searched();
    world.set(KEY, Some(NEW));
    is_noticed(&world, &start, Some(NEW));
    let (world, start) = searched();
    world.set(KEY, None);
    is_noticed(&world, &start, None);
}

#[test]
fn trap_08_what_was_written_compacted_and_cleared_since_is_noticed() {
    let (world, start) = searched();
    world.set(KEY, Some(NEW));
    assert!(world.compact());
    assert!(world.hash.table.find(world.hash.key(KEY).hash, &world.hash.domain.pin()).is_none(), "its entry is gone");
    is_noticed(&world, &start, Some(NEW));
    assert!(world.is_copied(KEY), "by the search after that");
}

/// The same where the record was allocated before the search and linked after it, and ends where the log ended then: a
/// test by the tail does not see it.
#[test]
fn trap_08_a_record_that_was_allocated_before_the_search_is_noticed() {
    let world = World::new(3, 8, 8);
    world.set_cold(KEY, OLD);
    world.hash.make_room(Lack::Frame).unwrap();
    let hash = &world.hash;
    let start = {
        let pin = hash.domain.pin();
        while hash.log.tail().get() % PAGE != PAGE - 24 {
            drop(hash.log.allocate(b"in vain", Some(b""), &pin));
        }
        let found = hash.table.find_or_insert(hash.key(KEY).hash, &pin).unwrap();
        let raw = hash.log.allocate(KEY, Some(NEW), &pin).unwrap();
        let start = world.see(KEY).1.start;
        assert!(matches!(append::append(&hash.log, found, found.entry.link(), raw), Appended::Done(_)));
        start
    };
    let tail = hash.log.tail();
    assert!(world.compact());
    assert!(hash.log.bounds().begin() == tail, "nothing was allocated since");
    is_noticed(&world, &start, Some(NEW));
}

/// A copy above the record goes while somebody is pinned who has found that nothing was truncated: the entry stays for
/// him. It fails where eviction frees an entry by BEGIN in place of CLEARABLE.
#[test]
fn trap_08_eviction_leaves_an_entry_to_who_goes_by_it() {
    let keys = &crate::hash::tests::crowds(2)[0];
    let world = World::new(0, 8, 8);
    let (hash, key) = (&world.hash, world.hash.key(&keys[0]));
    world.set_cold(&keys[0], OLD);
    let start = world.see(&keys[0]).1.start;
    world.set(&keys[0], Some(NEW));
    hash.make_room_for_copies();
    world.set_cold(&keys[1], OLD);
    world.get(&keys[1]);
    // More copies, so that the frame of this one can be evicted.
    for other in (0..100u64).map(|other| (other | 1 << 63).to_le_bytes()) {
        world.set_cold(&other, &[0; 1_800]);
        world.get(&other);
    }
    assert!(world.hash.copies.small.settled() > 0 && world.is_linked(&keys[1]));
    hash.log.raise_read_only(hash.log.close_page());
    hash.domain.drain();
    {
        // As an update does that goes by the search from before the write.
        let pin = hash.domain.pin();
        let begin = hash.log.bounds().begin();
        assert!(start.safe >= begin);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(world.compact() && hash.evict_frame(&mut hash.copies.evictor.lock())));
        });
        assert!(!world.is_linked(&keys[1]) && hash.log.bounds().begin() > start.safe);
        let reach = Reach { begin, floor: begin };
        let appended =
            hash.append_unless(&key, Some(b"update of old"), reach, &pin, |newest| !matches!(newest, Newest::Nowhere));
        assert_eq!(appended, Ok(None));
    }
    world.compact();
    assert_eq!(world.get(&keys[0]).as_deref(), Some(NEW));
}

/// Other keys of the entry may be written and copied meanwhile; of these only what is hot is looked at.
#[test]
fn an_update_goes_by_its_key_and_a_copy_by_its_entry() {
    let keys = &crate::hash::tests::crowds(4)[0];
    for (update, other_is_written) in [(true, false), (true, true), (false, false), (false, true)] {
        let world = World::new(0, 8, 8);
        world.hash.make_room(Lack::Frame).unwrap();
        keys.iter().for_each(|key| world.set_cold(key, OLD));
        world.hash.make_room_for_copies();
        let (key, start) = (world.hash.key(&keys[0]), world.see(&keys[0]).1.start);
        world.get(&keys[1]);
        assert!(world.is_copied(&keys[1]));
        if other_is_written {
            world.set(&keys[2], Some(NEW));
        }
        if update {
            assert_eq!(world.hash.insert_if(&key, &start, Some(NEW), &world.hash.domain.pin()), Ok(true));
            assert_eq!(world.get(&keys[0]).as_deref(), Some(NEW));
        } else {
            world.hash.offer(&key, &start, OLD);
            assert_eq!(world.is_copied(&keys[0]), !other_is_written);
        }
        assert_eq!(world.is_copied(&keys[1]), !update && !other_is_written, "a record that is linked drops the copies");
        assert_eq!(world.get(&keys[1]).as_deref(), Some(OLD));
        assert_eq!(world.get(&keys[2]).as_deref(), Some(if other_is_written { NEW } else { OLD }));
    }
}

#[test]
fn a_copy_outlives_compactions_and_is_replaced_by_an_update() {
    let (world, _) = searched();
    world.set(b"other", Some(NEW));
    world.get(KEY);
    assert!(world.compact() && world.is_copied(KEY));
    world.modify(KEY, |old, new| {
        assert_eq!(old, Some(OLD));
        new.extend_from_slice(NEW);
        Outcome::Store
    });
    assert!(!world.is_copied(KEY));
    assert_eq!(world.get(KEY).as_deref(), Some(NEW));
    world.modify(KEY, |_, _| Outcome::Delete);
    assert!(world.compact());
    assert_eq!(world.get(KEY), None);
}
