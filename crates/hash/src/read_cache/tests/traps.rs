//! Changes that a conditional insert must notice, each made between its search and its end.

use super::*;
use crate::{
    chains::{
        Newest, SearchDepth, Start,
        append::{self, Appended},
    },
    log::PAGE,
    space::NeedsSpace,
};

const KEY: &[u8] = b"key";
const OLD: &[u8] = b"old";
const NEW: &[u8] = b"new";

/// A fixture in which the key has a cold value, and the start of a search for it.
fn searched() -> (Fixture, Start) {
    let fixture = Fixture::new(3, 8, 8);
    fixture.set_cold(KEY, OLD);
    fixture.hash.chains.evict_for_inserts();
    let (value, seen) = fixture.see(KEY);
    assert_eq!(value.as_deref(), Some(OLD));
    assert!(matches!(seen.place, Found::Nowhere));
    (fixture, seen.start)
}

/// A search from before the key's present value leads to neither an update nor a read-cache entry.
fn is_noticed(fixture: &Fixture, start: &Start, value: Option<&[u8]>) {
    let key = fixture.hash.chains.key(KEY);
    assert_eq!(
        fixture.hash.chains.insert_if(&key, start, Some(b"update of old"), &fixture.hash.chains.domain.pin()),
        Ok(false)
    );
    fixture.hash.offer(&key, start, OLD);
    assert!(!fixture.is_copied(KEY));
    assert_eq!(fixture.get(KEY).as_deref(), value);
}

#[test]
fn trap_01_what_was_read_before_a_write_is_not_copied_after_it() {
    let (fixture, start) = searched();
    fixture.set(KEY, Some(NEW));
    is_noticed(&fixture, &start, Some(NEW));
    let (fixture, start) = searched();
    fixture.set(KEY, None);
    is_noticed(&fixture, &start, None);
}

#[test]
fn trap_08_what_was_written_compacted_and_cleared_since_is_noticed() {
    let (fixture, start) = searched();
    fixture.set(KEY, Some(NEW));
    assert!(fixture.compact());
    assert!(
        fixture.hash.chains.index.find(fixture.hash.chains.key(KEY).hash, &fixture.hash.chains.domain.pin()).is_none(),
        "its entry is gone"
    );
    is_noticed(&fixture, &start, Some(NEW));
    assert!(fixture.is_copied(KEY), "by the search after that");
}

/// The same if the record was allocated before the search and linked after it, and ends where the log ended then. A
/// check of the tail does not see it.
#[test]
fn trap_08_a_record_that_was_allocated_before_the_search_is_noticed() {
    let fixture = Fixture::new(3, 8, 8);
    fixture.set_cold(KEY, OLD);
    fixture.hash.reservations.satisfy(&fixture.hash.chains, NeedsSpace::Frame).unwrap();
    let hash = &fixture.hash;
    let start = {
        let pin = hash.chains.domain.pin();
        while hash.chains.log.tail().get() % PAGE != PAGE - 24 {
            drop(hash.chains.log.allocate(b"in vain", Some(b""), &pin));
        }
        let found = hash.chains.index.find_or_insert(hash.chains.key(KEY).hash, &pin).unwrap();
        let raw = hash.chains.log.allocate(KEY, Some(NEW), &pin).unwrap();
        let start = fixture.see(KEY).1.start;
        assert!(matches!(append::append(&hash.chains.log, found, found.entry.link(), raw), Appended::Done(_)));
        start
    };
    let tail = hash.chains.log.tail();
    assert!(fixture.compact());
    assert!(hash.chains.log.bounds().begin() == tail, "nothing was allocated since");
    is_noticed(&fixture, &start, Some(NEW));
}

/// An entry above the record is evicted while a thread is pinned that has seen no truncation, so the index entry must
/// stay. The test fails if eviction frees an index entry by BEGIN instead of CLEARABLE.
#[test]
fn trap_08_eviction_leaves_an_entry_to_who_goes_by_it() {
    let keys = &crate::tests::crowds(2)[0];
    let fixture = Fixture::new(0, 8, 8);
    let (hash, key) = (&fixture.hash, fixture.hash.chains.key(&keys[0]));
    fixture.set_cold(&keys[0], OLD);
    let start = fixture.see(&keys[0]).1.start;
    fixture.set(&keys[0], Some(NEW));
    hash.chains.evict_for_inserts();
    fixture.set_cold(&keys[1], OLD);
    fixture.get(&keys[1]);
    // More entries, so that the frame of this one can be evicted.
    for other in (0..100u64).map(|other| (other | 1 << 63).to_le_bytes()) {
        fixture.set_cold(&other, &[0; 1_800]);
        fixture.get(&other);
    }
    assert!(fixture.hash.chains.read_cache.small.settled() > 0 && fixture.is_linked(&keys[1]));
    hash.chains.log.raise_read_only(hash.chains.log.close_page());
    hash.chains.domain.drain();
    {
        // As an update does that uses the search from before the write.
        let pin = hash.chains.domain.pin();
        let begin = hash.chains.log.bounds().begin();
        assert!(start.safe >= begin);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(fixture.compact() && hash.chains.evict_frame(&mut hash.chains.read_cache.evictor.lock()))
            });
        });
        assert!(!fixture.is_linked(&keys[1]) && hash.chains.log.bounds().begin() > start.safe);
        let reach = SearchDepth { begin, floor: begin };
        let appended = hash
            .chains
            .append_unless(&key, Some(b"update of old"), reach, &pin, |newest| !matches!(newest, Newest::Nowhere));
        assert_eq!(appended, Ok(None));
    }
    fixture.compact();
    assert_eq!(fixture.get(&keys[0]).as_deref(), Some(NEW));
}

/// Other keys of the index entry may be written and cached meanwhile. A conditional insert checks only their hot
/// records.
#[test]
fn an_update_goes_by_its_key_and_a_copy_by_its_entry() {
    let keys = &crate::tests::crowds(4)[0];
    for (update, other_is_written) in [(true, false), (true, true), (false, false), (false, true)] {
        let fixture = Fixture::new(0, 8, 8);
        fixture.hash.reservations.satisfy(&fixture.hash.chains, NeedsSpace::Frame).unwrap();
        keys.iter().for_each(|key| fixture.set_cold(key, OLD));
        fixture.hash.chains.evict_for_inserts();
        let (key, start) = (fixture.hash.chains.key(&keys[0]), fixture.see(&keys[0]).1.start);
        fixture.get(&keys[1]);
        assert!(fixture.is_copied(&keys[1]));
        if other_is_written {
            fixture.set(&keys[2], Some(NEW));
        }
        if update {
            assert_eq!(
                fixture.hash.chains.insert_if(&key, &start, Some(NEW), &fixture.hash.chains.domain.pin()),
                Ok(true)
            );
            assert_eq!(fixture.get(&keys[0]).as_deref(), Some(NEW));
        } else {
            fixture.hash.offer(&key, &start, OLD);
            assert_eq!(fixture.is_copied(&keys[0]), !other_is_written);
        }
        assert_eq!(
            fixture.is_copied(&keys[1]),
            !update && !other_is_written,
            "a record that is linked drops the copies"
        );
        assert_eq!(fixture.get(&keys[1]).as_deref(), Some(OLD));
        assert_eq!(fixture.get(&keys[2]).as_deref(), Some(if other_is_written { NEW } else { OLD }));
    }
}

#[test]
fn a_copy_outlives_compactions_and_is_replaced_by_an_update() {
    let (fixture, _) = searched();
    fixture.set(b"other", Some(NEW));
    fixture.get(KEY);
    assert!(fixture.compact() && fixture.is_copied(KEY));
    fixture.modify(KEY, |old, new| {
        assert_eq!(old, Some(OLD));
        new.extend_from_slice(NEW);
        UpdateAction::Store
    });
    assert!(!fixture.is_copied(KEY));
    assert_eq!(fixture.get(KEY).as_deref(), Some(NEW));
    fixture.modify(KEY, |_, _| UpdateAction::Delete);
    assert!(fixture.compact());
    assert_eq!(fixture.get(KEY), None);
}
