//! The ledger raises the alarm where what is given is right, and what lies below it is not.

use std::{
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::world::{ALL, World, key};
use crate::{adaptive::AdaptiveOptions, engine::Engine};

/// A key in pages, in a run that counts above them, and in the memtable.
fn layered() -> World {
    let mut world = World::new(1, AdaptiveOptions::default());
    world.write(&key(1), Some(b"1"));
    world.flush();
    world.keyspace.absorb(&key(0), &key(9)).unwrap();
    world.write(&key(1), Some(b"2"));
    world.flush();
    world.write(&key(1), Some(b"3"));
    world
}

/// Records that come to pages past an older one in a run would be replaced by it in the next absorption.
#[test]
fn pages_are_no_newer_than_a_run_that_counts() {
    let reads: [fn(&World); 4] = [
        |world| assert_eq!(world.keyspace.get(&key(1)).unwrap().as_deref(), Some(&b"3"[..])),
        |world| assert_eq!(world.multi_get(&[key(1)]), [Some(b"3".to_vec())]),
        |world| assert_eq!(world.collect(ALL, false), [(key(1), b"3".to_vec())]),
        |world| assert_eq!(world.collect(ALL, true), [(key(1), b"3".to_vec())]),
    ];
    for (value, is_right) in [(b"1", true), (b"2", true), (b"3", false)] {
        let world = layered();
        let record = (key(1), Some(value.to_vec()));
        world.keyspace.tree.absorb(&mut iter::once(Ok(record)), true).unwrap();
        for read in reads {
            assert_eq!(catch_unwind(AssertUnwindSafe(|| read(&world))).is_ok(), is_right);
        }
    }
}
