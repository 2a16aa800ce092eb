//! Searches that are held at their I/O while what they go by is changed (trap 7).

use std::thread;

use ecotone_substrate::storage::FileId;
use ecotone_testkit::sim::SimStorage;

use super::{
    disk::{World, key},
    *,
};

/// Numbers of keys that are in no crowd.
const FILLERS: u64 = 1 << 32;

/// What a search for the first of three keys of a chain finds that has passed a copy of the third and is held at the
/// page of the second, while something is done. What is done gets the keys and a boundary between the pages.
fn passed_by(meanwhile: impl FnOnce(&World, &[Vec<u8>], Address)) -> Option<Vec<u8>> {
    let crowd = &crowds(3)[0];
    let world = World::new(4, Sizes { bucket_bits: 0, frames: 16, copies: 4 });
    world.write(&crowd[2], Some(b"copied"));
    world.write(&crowd[0], Some(b"wanted"));
    let below = world.hash.log.close_page();
    world.write(&crowd[1], Some(b"in the way"));
    let end = world.hash.log.close_page();
    (0..3_000).for_each(|number| world.write(&key(FILLERS + number), Some(&[0; 100])));
    world.keep(1);
    assert!(world.hash.log.bounds().head() > end);
    world.hash.make_room_for_copies();
    assert_eq!(world.hash.value(&crowd[2]), Some(b"copied".to_vec()));
    assert!(is_copied(&world, &crowd[2]));
    let file = FileId::Segment { keyspace: 3, number: 0 };
    let page = world.hash.log.segments()[0].offset(below);
    world.ground.disk.hold(file, page);
    let found = thread::scope(|scope| {
        let search = scope.spawn(|| world.hash.value(&crowd[0]));
        let held = Held(&world.ground.disk, file, page);
        world.ground.disk.wait_blocked(file, page);
        meanwhile(&world, crowd, below);
        drop(held);
        search.join().unwrap()
    });
    assert_eq!(world.hash.value(&crowd[1]), Some(b"in the way".to_vec()));
    found
}

/// Whether the chain of a key begins with a copy.
fn is_copied(world: &World, key: &[u8]) -> bool {
    let found = world.hash.table.find(world.hash.key(key).hash, &world.hash.domain.pin()).map(|found| found.entry);
    found.is_some_and(|entry| entry.link().copy().is_some())
}

/// Transfers of a page wait as long as this is there, and not if a test fails meanwhile.
struct Held<'w>(&'w SimStorage, FileId, u64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release(self.1, self.2);
    }
}

/// Copies come until those that were there are gone.
fn evict(world: &World, keys: &[Vec<u8>]) {
    (0..2_500).for_each(|number| assert!(world.hash.value(&key(FILLERS + number)).is_some()));
    assert!(!is_copied(world, &keys[2]));
}

/// As compaction does it: the record is somewhere else before BEGIN passes it.
fn move_and_truncate(world: &World, key: &[u8], below: Address) {
    world.write(key, Some(b"moved"));
    assert!(world.hash.log.truncate(below, drop).is_empty());
}

/// What the chain would go on with has been written anew and has left the log (trap 7).
#[test]
fn trap_07_a_search_that_a_truncation_passes_begins_again() {
    let found = passed_by(|world, keys, below| move_and_truncate(world, &keys[0], below));
    assert_eq!(found, Some(b"moved".to_vec()));
}

/// It goes on with what it has read, and if it begins again it does so in another table.
#[test]
fn trap_07_a_search_that_growth_passes_goes_on() {
    let grow = |world: &World| (0..4).for_each(|_| world.hash.grow());
    assert_eq!(passed_by(|world, _, _| grow(world)), Some(b"wanted".to_vec()));
    let found = passed_by(|world, keys, below| {
        grow(world);
        move_and_truncate(world, &keys[0], below);
        grow(world);
    });
    assert_eq!(found, Some(b"moved".to_vec()));
}

/// It goes by what is below the copies, and these have gone.
#[test]
fn trap_07_a_search_that_eviction_passes_goes_on() {
    assert_eq!(passed_by(|world, keys, _| evict(world, keys)), Some(b"wanted".to_vec()));
    let found = passed_by(|world, keys, below| {
        evict(world, keys);
        move_and_truncate(world, &keys[0], below);
    });
    assert_eq!(found, Some(b"moved".to_vec()));
}

/// The page itself was never written, since the log was truncated before: that is no damage.
#[test]
fn trap_07_a_page_that_left_the_log_unwritten_is_not_missed() {
    let crowd = &crowds(2)[0];
    let world = World::new(4, Sizes { bucket_bits: 0, frames: 16, copies: 0 });
    (0..3_000).for_each(|number| world.write(&key(FILLERS + number), Some(&[0; 100])));
    world.keep(1);
    world.write(&crowd[0], Some(b"wanted"));
    let end = world.hash.log.close_page();
    let (wanted, mut value) = (world.hash.key(&crowd[0]), Vec::new());
    let start = world.hash.start(&wanted, &world.hash.domain.pin());
    world.hash.log.freeze(end);
    world.hash.log.truncate(end, drop);
    // Its frame goes as well.
    (0..3_000).for_each(|number| world.write(&key(FILLERS + number), Some(&[1; 100])));
    world.keep(1);
    let search = |value: &mut Vec<u8>| {
        let gone_on = world.hash.go_on(&wanted, start, start.hot.head(start.begin), &world.hash.domain.pin(), value);
        world.hash.search_beyond(&wanted, gone_on.expect_err("it left memory"), value).unwrap().has_value()
    };
    assert!(!search(&mut value) && value.is_empty());
    world.write(&crowd[0], Some(b"moved"));
    assert!(search(&mut value) && value == b"moved");
}
