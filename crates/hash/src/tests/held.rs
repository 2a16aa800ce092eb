//! Searches that are held at their I/O while the records that they follow change (trap 7).

use std::thread;

use ecotone_substrate::storage::FileId;
use ecotone_testkit::sim::SimStorage;

use super::{
    disk::{Fixture, key},
    *,
};

/// Numbers of keys that are in no crowd.
const FILLERS: u64 = 1 << 32;

/// Result of a search for the first of three keys of a chain. The search has passed a read-cache entry of the third and
/// is held at the page of the second while `meanwhile` runs. `meanwhile` gets the keys and a boundary between the
/// pages.
fn passed_by(meanwhile: impl FnOnce(&Fixture, &[Vec<u8>], Address)) -> Option<Vec<u8>> {
    let crowd = &crowds(3)[0];
    let fixture = Fixture::new(4, Sizes { bucket_bits: 0, frames: 16, copies: 4 });
    fixture.write(&crowd[2], Some(b"copied"));
    fixture.write(&crowd[0], Some(b"wanted"));
    let below = fixture.hash.chains.log.close_page();
    fixture.write(&crowd[1], Some(b"in the way"));
    let end = fixture.hash.chains.log.close_page();
    (0..3_000).for_each(|number| fixture.write(&key(FILLERS + number), Some(&[0; 100])));
    fixture.keep(1);
    assert!(fixture.hash.chains.log.bounds().head() > end);
    fixture.hash.chains.evict_for_inserts();
    assert_eq!(fixture.hash.value(&crowd[2]), Some(b"copied".to_vec()));
    assert!(is_copied(&fixture, &crowd[2]));
    let file = FileId::Segment { keyspace: 3, number: 0 };
    let page = fixture.hash.chains.log.segments()[0].offset(below);
    fixture.log_disk.disk.hold(file, page);
    let found = thread::scope(|scope| {
        let search = scope.spawn(|| fixture.hash.value(&crowd[0]));
        let held = Held(&fixture.log_disk.disk, file, page);
        fixture.log_disk.disk.wait_blocked(file, page);
        meanwhile(&fixture, crowd, below);
        drop(held);
        search.join().unwrap()
    });
    assert_eq!(fixture.hash.value(&crowd[1]), Some(b"in the way".to_vec()));
    found
}

/// Whether the chain of a key begins with a read-cache entry.
fn is_copied(fixture: &Fixture, key: &[u8]) -> bool {
    let found = fixture
        .hash
        .chains
        .index
        .find(fixture.hash.chains.key(key).hash, &fixture.hash.chains.domain.pin())
        .map(|found| found.entry);
    found.is_some_and(|entry| entry.link().copy().is_some())
}

/// While this value exists, transfers of a page wait. It is dropped also when a test fails.
struct Held<'w>(&'w SimStorage, FileId, u64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release(self.1, self.2);
    }
}

/// Adds read-cache entries until the earlier ones are evicted.
fn evict(fixture: &Fixture, keys: &[Vec<u8>]) {
    (0..2_500).for_each(|number| assert!(fixture.hash.value(&key(FILLERS + number)).is_some()));
    assert!(!is_copied(fixture, &keys[2]));
}

/// As compaction does: the record is somewhere else before BEGIN passes it.
fn move_and_truncate(fixture: &Fixture, key: &[u8], below: Address) {
    fixture.write(key, Some(b"moved"));
    assert!(fixture.hash.chains.log.truncate(below, drop).is_empty());
}

/// The next record of the chain was written anew and has left the log (trap 7).
#[test]
fn trap_07_a_search_that_a_truncation_passes_begins_again() {
    let found = passed_by(|fixture, keys, below| move_and_truncate(fixture, &keys[0], below));
    assert_eq!(found, Some(b"moved".to_vec()));
}

/// The search goes on with the page that it has read; if it begins again, it does so in another table.
#[test]
fn trap_07_a_search_that_growth_passes_goes_on() {
    let grow = |fixture: &Fixture| (0..4).for_each(|_| fixture.hash.grow());
    assert_eq!(passed_by(|fixture, _, _| grow(fixture)), Some(b"wanted".to_vec()));
    let found = passed_by(|fixture, keys, below| {
        grow(fixture);
        move_and_truncate(fixture, &keys[0], below);
        grow(fixture);
    });
    assert_eq!(found, Some(b"moved".to_vec()));
}

/// The search follows the link below the read-cache entries, which are evicted.
#[test]
fn trap_07_a_search_that_eviction_passes_goes_on() {
    assert_eq!(passed_by(|fixture, keys, _| evict(fixture, keys)), Some(b"wanted".to_vec()));
    let found = passed_by(|fixture, keys, below| {
        evict(fixture, keys);
        move_and_truncate(fixture, &keys[0], below);
    });
    assert_eq!(found, Some(b"moved".to_vec()));
}

/// The page was never written, since the log was truncated before. That is no damage.
#[test]
fn trap_07_a_page_that_left_the_log_unwritten_is_not_missed() {
    let crowd = &crowds(2)[0];
    let fixture = Fixture::new(4, Sizes { bucket_bits: 0, frames: 16, copies: 0 });
    (0..3_000).for_each(|number| fixture.write(&key(FILLERS + number), Some(&[0; 100])));
    fixture.keep(1);
    fixture.write(&crowd[0], Some(b"wanted"));
    let end = fixture.hash.chains.log.close_page();
    let (wanted, mut value) = (fixture.hash.chains.key(&crowd[0]), Vec::new());
    let start = fixture.hash.chains.start(&wanted, &fixture.hash.chains.domain.pin());
    fixture.hash.chains.log.freeze(end);
    fixture.hash.chains.log.truncate(end, drop);
    // The page's frame is evicted as well.
    (0..3_000).for_each(|number| fixture.write(&key(FILLERS + number), Some(&[1; 100])));
    fixture.keep(1);
    let search = |value: &mut Vec<u8>| {
        let gone_on = fixture.hash.chains.go_on(
            &wanted,
            start,
            start.hot.address_from(start.begin),
            &fixture.hash.chains.domain.pin(),
            value,
        );
        fixture.hash.searcher().search_beyond(&wanted, gone_on.expect_err("it left memory"), value).unwrap().has_value()
    };
    assert!(!search(&mut value) && value.is_empty());
    fixture.write(&crowd[0], Some(b"moved"));
    assert!(search(&mut value) && value == b"moved");
}
