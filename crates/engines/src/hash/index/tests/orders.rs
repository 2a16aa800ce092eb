//! All orders of inserts into a bucket, within a number of preemptions, by loom (decision 10, M2). A bucket has two
//! entries.

use super::{
    world::{World, address, link},
    *,
};
use crate::tests::orders::spawn;

/// Tries the orders of `work` with at most so many preemptions. It begins with an empty table of one bucket.
fn all_orders(preemptions: usize, work: impl Fn(Arc<World>) + Send + Sync + 'static) {
    world::all_orders(preemptions, |_, _| (), work);
}

/// One of them takes an entry for another tag first, which the other may have wanted. It fails without the second look
/// at the bucket.
#[test]
fn two_who_insert_one_tag_insert_one_entry() {
    all_orders(3, |world| {
        let other = spawn(&world, |world| world.set(0, 1));
        world.set(1, 3);
        world.set(0, 2);
        other.join().unwrap();
        assert_eq!(world.tags(), [0, 1]);
        assert!((1..3).any(|number| world.find(0) == Some(link(number))));
        assert_eq!(world.find(1), Some(link(3)));
    });
}

/// One of them finds a place that the other saw taken, so each has to see the word of the other in another place: it
/// fails without the fence before the second look.
#[test]
fn two_who_insert_one_tag_in_two_places_insert_one_entry() {
    all_orders(3, |world| {
        world.set(1, 0);
        let other = spawn(&world, |world| world.set(0, 2));
        world.index.sweep(address(1));
        world.set(0, 3);
        other.join().unwrap();
        assert_eq!(world.tags(), [0]);
        assert!((2..4).any(|number| world.find(0) == Some(link(number))));
    });
}

/// It fails where two may claim one overflow bucket.
#[test]
fn tags_that_do_not_fit_go_on_in_one_more_bucket() {
    all_orders(3, |world| {
        world.set(0, 0);
        world.set(1, 1);
        let other = spawn(&world, |world| world.set(2, 2));
        world.set(3, 3);
        other.join().unwrap();
        assert_eq!(world.tags(), [0, 1, 2, 3]);
        (0..4).for_each(|tag| assert_eq!(world.find(tag), Some(link(tag))));
    });
}

/// A sweep frees what lies below CLEARABLE, and what is being inserted: then that is inserted again. It fails where a
/// sweep frees what is there now, and not what it looked at.
#[test]
fn a_sweep_frees_nothing_that_is_in_the_log() {
    all_orders(2, |world| {
        world.set(0, 0);
        world.set(1, 1);
        let sweeper = spawn(&world, |world| world.index.sweep(address(1)));
        let other = spawn(&world, |world| world.set(2, 2));
        world.set(2, 3);
        other.join().unwrap();
        sweeper.join().unwrap();
        world.index.sweep(address(1));
        assert_eq!((world.find(0), world.find(1)), (None, Some(link(1))));
        assert_eq!(world.tags(), [1, 2]);
    });
}
