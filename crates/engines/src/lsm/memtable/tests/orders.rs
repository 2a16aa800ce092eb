//! All orders of a few calls, within a number of preemptions, by loom (decision 12, K1 and K2). A slab has 16 words,
//! two nodes.

use super::*;
use crate::tests::orders::{self, spawn};

/// Hashes of nodes with one link and with two.
const LOW: u64 = 1;
const HIGH: u64 = 4;

/// Tries the orders of `work` with at most so many preemptions. It begins with two keys.
fn all_orders(preemptions: usize, work: impl Fn(Arc<World>) + Send + Sync + 'static) {
    let begin = || {
        let world = World::new(b"");
        world.write(LOW, b"a", Some(b"0"), 1);
        world.write(LOW, b"z", Some(b"0"), 2);
        world
    };
    orders::all_orders(preemptions, begin, work);
}

fn insert(world: &World, hash: u64, key: &[u8], seq: Seq) {
    world.write(hash, key, Some(key), seq);
}

/// K1: two inserts between the same neighbours, one of two levels, beside a walk. It fails where a node is linked by a
/// store in place of the compare-and-swap: one of the two is lost.
#[test]
fn a_walk_beside_two_inserts_is_in_order_and_misses_nothing_old() {
    all_orders(2, |world| {
        let others = [(HIGH, &b"m"[..]), (LOW, &b"n"[..])];
        let others = others.map(|(hash, key)| spawn(&world, move |world| insert(world, hash, key, 3)));
        let keys = world.keys();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert!(keys.contains(&b"a".to_vec()) && keys.contains(&b"z".to_vec()), "{keys:?}");
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(world.keys(), [b"a", b"m", b"n", b"z"]);
    });
}

/// K1: the same beside searches, which find a node with all of its words, and once found again. It fails where the
/// compare-and-swap that links a node does not release, and where a shortcut is noted before.
#[test]
fn a_search_beside_two_inserts_finds_whole_nodes() {
    all_orders(2, |world| {
        let others = [(HIGH, &b"m"[..]), (HIGH, &b"n"[..])];
        let others = others.map(|(hash, key)| spawn(&world, move |world| insert(world, hash, key, 3)));
        let first = world.get(HIGH, b"n");
        assert!(first.is_none() || first == Some((Some(b"n".to_vec()), 3)), "{first:?}");
        assert!(first.is_none() || world.get(HIGH, b"n").is_some(), "it was found, and then not");
        assert!(first.is_none() || world.keys().contains(&b"n".to_vec()), "it was found, and no walk has it");
        assert_eq!(world.get(LOW, b"z"), Some((Some(b"0".to_vec()), 2)));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(world.keys(), [b"a", b"m", b"n", b"z"]);
        [b"m", b"n"].iter().for_each(|key| assert_eq!(world.get(HIGH, *key), Some((Some(key.to_vec()), 3))));
    });
}

/// K2: a record is changed in place, then outgrown, beside a reader. Two readers would wait for each other for ever
/// where the writer stands, which loom does not end. It fails where the new record is named before it is filled, where
/// a record is changed without its lock, and where a reader takes the sequence after the state was looked at once more.
#[test]
fn a_reader_beside_a_change_and_one_that_outgrows_sees_whole_values_that_do_not_become_older() {
    all_orders(3, |world| {
        let reader = spawn(&world, |world| {
            let read = [(); 2].map(|()| world.get(LOW, b"a").expect("it is there"));
            for (value, seq) in &read {
                let wanted: &[u8] = match *seq {
                    1 => b"0",
                    5 => b"11",
                    seq => {
                        assert_eq!(seq, 6);
                        b"222222222"
                    }
                };
                assert_eq!(value.as_deref(), Some(wanted), "{seq}");
            }
            assert!(read[0].1 <= read[1].1, "{read:?}");
        });
        world.write(LOW, b"a", Some(b"11"), 5);
        world.write(LOW, b"a", Some(b"222222222"), 6);
        reader.join().unwrap();
        assert_eq!(world.get(LOW, b"a"), Some((Some(b"222222222".to_vec()), 6)));
    });
}

/// A tombstone beside a reader, in place: the key has the one shortcut that there is. It fails where a record is
/// changed without its lock.
#[test]
fn a_delete_beside_a_reader_is_seen_or_not() {
    all_orders(3, |world| {
        let reader = spawn(&world, |world| world.get(LOW, b"z").expect("it is there"));
        assert!(world.memtable.overwrite(LOW, b"z", None, 7));
        let read = reader.join().unwrap();
        assert!([(Some(b"0".to_vec()), 2), (None, 7)].contains(&read), "{read:?}");
        assert_eq!(world.get(LOW, b"z"), Some((None, 7)));
    });
}
