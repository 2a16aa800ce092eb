//! All interleavings of a few calls, within a bound on preemptions, by loom (lsm-protocol.md, K1 and K2). A slab has 16
//! words, two nodes.

use ecotone_sys::primitive::orders::{self, spawn};

use crate::memtable::tests::*;

/// Hashes of nodes with one link and with two.
const LOW: u64 = 1;
const HIGH: u64 = 4;

/// Tries the interleavings of `work` with at most this many preemptions. The memtable begins with two keys.
fn all_orders(preemptions: usize, work: impl Fn(Arc<Fixture>) + Send + Sync + 'static) {
    let begin = || {
        let fixture = Fixture::new(b"");
        fixture.write(LOW, b"a", Some(b"0"), 1);
        fixture.write(LOW, b"z", Some(b"0"), 2);
        fixture
    };
    orders::all_orders(preemptions, begin, work);
}

fn insert(fixture: &Fixture, hash: u64, key: &[u8], seq: Seq) {
    fixture.write(hash, key, Some(key), seq);
}

/// K1: two inserts between the same neighbours, one of them of two levels, beside a walk. The test fails if a node is
/// linked by a store instead of the compare-and-swap: one of the two is lost.
#[test]
fn a_walk_beside_two_inserts_is_in_order_and_misses_nothing_old() {
    all_orders(2, |fixture| {
        let others = [(HIGH, &b"m"[..]), (LOW, &b"n"[..])];
        let others = others.map(|(hash, key)| spawn(&fixture, move |fixture| insert(fixture, hash, key, 3)));
        let keys = fixture.keys();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert!(keys.contains(&b"a".to_vec()) && keys.contains(&b"z".to_vec()), "{keys:?}");
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(fixture.keys(), [b"a", b"m", b"n", b"z"]);
    });
}

/// K1: the same inserts beside searches. A search finds a node with all of its words, and finds it again from then on.
/// The test fails if the compare-and-swap that links a node does not release, or if a shortcut is stored before the
/// node is linked.
#[test]
fn a_search_beside_two_inserts_finds_whole_nodes() {
    all_orders(2, |fixture| {
        let others = [(HIGH, &b"m"[..]), (HIGH, &b"n"[..])];
        let others = others.map(|(hash, key)| spawn(&fixture, move |fixture| insert(fixture, hash, key, 3)));
        let first = fixture.get(HIGH, b"n");
        assert!(first.is_none() || first == Some((Some(b"n".to_vec()), 3)), "{first:?}");
        assert!(first.is_none() || fixture.get(HIGH, b"n").is_some(), "it was found, and then not");
        assert!(first.is_none() || fixture.keys().contains(&b"n".to_vec()), "it was found, and no walk has it");
        assert_eq!(fixture.get(LOW, b"z"), Some((Some(b"0".to_vec()), 2)));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(fixture.keys(), [b"a", b"m", b"n", b"z"]);
        [b"m", b"n"].iter().for_each(|key| assert_eq!(fixture.get(HIGH, *key), Some((Some(key.to_vec()), 3))));
    });
}

/// K2: a record is changed in place, then outgrown, beside a reader. There is one reader alone: two would wait for each
/// other for ever where the writer stands, and loom does not end that. The test fails if the new record is published
/// before it is filled, if a record is changed without its lock, or if a reader takes the sequence after it has checked
/// the header again.
#[test]
fn a_reader_beside_a_change_and_one_that_outgrows_sees_whole_values_that_do_not_become_older() {
    all_orders(3, |fixture| {
        let reader = spawn(&fixture, |fixture| {
            let read = [(); 2].map(|()| fixture.get(LOW, b"a").expect("it is there"));
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
        fixture.write(LOW, b"a", Some(b"11"), 5);
        fixture.write(LOW, b"a", Some(b"222222222"), 6);
        reader.join().unwrap();
        assert_eq!(fixture.get(LOW, b"a"), Some((Some(b"222222222".to_vec()), 6)));
    });
}

/// A tombstone is written in place beside a reader; the key has the only shortcut. The test fails if a record is
/// changed without its lock.
#[test]
fn a_delete_beside_a_reader_is_seen_or_not() {
    all_orders(3, |fixture| {
        let reader = spawn(&fixture, |fixture| fixture.get(LOW, b"z").expect("it is there"));
        assert!(fixture.memtable.overwrite(LOW, b"z", None, 7, &SupersededReports::default()));
        let read = reader.join().unwrap();
        assert!([(Some(b"0".to_vec()), 2), (None, 7)].contains(&read), "{read:?}");
        assert_eq!(fixture.get(LOW, b"z"), Some((None, 7)));
    });
}
