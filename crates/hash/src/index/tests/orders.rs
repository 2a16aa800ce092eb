//! All orders of inserts into a bucket, within a number of preemptions, by loom (hash-protocol.md, M2). A bucket has
//! two entries.

use ecotone_sys::primitive::orders::spawn;

use super::{
    fixture::{Fixture, address, link},
    *,
};

/// Tries the orders of `work` with at most `preemptions` preemptions. Each begins with an empty table of one bucket.
fn all_orders(preemptions: usize, work: impl Fn(Arc<Fixture>) + Send + Sync + 'static) {
    fixture::all_orders(preemptions, |_, _| (), work);
}

/// One thread first takes an entry for another tag, which the other thread may have wanted. The test fails without the
/// second look at the bucket.
#[test]
fn two_who_insert_one_tag_insert_one_entry() {
    all_orders(3, |fixture| {
        let other = spawn(&fixture, |fixture| fixture.set(0, 1));
        fixture.set(1, 3);
        fixture.set(0, 2);
        other.join().unwrap();
        assert_eq!(fixture.tags(), [0, 1]);
        assert!((1..3).any(|number| fixture.find(0) == Some(link(number))));
        assert_eq!(fixture.find(1), Some(link(3)));
    });
}

/// One thread finds a slot that the other saw taken, so each must see the other's word in another slot. The test fails
/// without the fence before the second look.
#[test]
fn two_who_insert_one_tag_in_two_places_insert_one_entry() {
    all_orders(3, |fixture| {
        fixture.set(1, 0);
        let other = spawn(&fixture, |fixture| fixture.set(0, 2));
        fixture.index.sweep(address(1));
        fixture.set(0, 3);
        other.join().unwrap();
        assert_eq!(fixture.tags(), [0]);
        assert!((2..4).any(|number| fixture.find(0) == Some(link(number))));
    });
}

/// The test fails if two threads can claim one overflow bucket.
#[test]
fn tags_that_do_not_fit_go_on_in_one_more_bucket() {
    all_orders(3, |fixture| {
        fixture.set(0, 0);
        fixture.set(1, 1);
        let other = spawn(&fixture, |fixture| fixture.set(2, 2));
        fixture.set(3, 3);
        other.join().unwrap();
        assert_eq!(fixture.tags(), [0, 1, 2, 3]);
        (0..4).for_each(|tag| assert_eq!(fixture.find(tag), Some(link(tag))));
    });
}

/// A sweep frees entries below CLEARABLE and tentative ones; a tentative one is then inserted again. The test fails if
/// a sweep frees the current word instead of the word that it looked at.
#[test]
fn a_sweep_frees_nothing_that_is_in_the_log() {
    all_orders(2, |fixture| {
        fixture.set(0, 0);
        fixture.set(1, 1);
        let sweeper = spawn(&fixture, |fixture| fixture.index.sweep(address(1)));
        let other = spawn(&fixture, |fixture| fixture.set(2, 2));
        fixture.set(2, 3);
        other.join().unwrap();
        sweeper.join().unwrap();
        fixture.index.sweep(address(1));
        assert_eq!((fixture.find(0), fixture.find(1)), (None, Some(link(1))));
        assert_eq!(fixture.tags(), [1, 2]);
    });
}
