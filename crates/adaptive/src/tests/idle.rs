//! Conversions in an idle keyspace.

use std::time::Duration;

use ecotone_engine::contract::{Hint, Hintable, Maintained};

use super::{
    controller::{is_pages, layered, range},
    fixture::key,
};
use crate::{AdaptiveOptions, Insert};

const KEYS: u32 = 4000;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_was_deleted_above_pages_ends_when_nobody_uses_the_keyspace() {
    let (mut fixture, mut model) = layered(AdaptiveOptions { insert: Insert::Batch, ..AdaptiveOptions::default() });
    fixture.keyspace.hint(&range(0, KEYS), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    fixture.keyspace.hint(&range(0, KEYS), Hint::Auto).unwrap();
    assert!(is_pages(&fixture, 0, KEYS), "{:?}", fixture.keyspace.shapes());
    let pages = fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(0), &key(KEYS)).pages;
    (0..KEYS).filter(|number| number % 50 > 0).for_each(|number| fixture.put(&mut model, number, None));
    fixture.flush();
    (0..60).for_each(|_| fixture.tick());
    let left = fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(0), &key(KEYS));
    assert!(left.bytes == 0 && 4 * left.pages < pages, "{left:?} of {pages}");
    assert!(fixture.keyspace.reclaimable_deletes() > 0, "a checkpoint gives their space back");
    fixture.expect(&model);
}
