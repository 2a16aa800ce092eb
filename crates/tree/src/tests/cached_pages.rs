//! Cached pages that are not the ones that a scan expects (tree-protocol.md, invariant 19).

use std::{ops::Bound, sync::Arc};

use ecotone_engine::{contract::Ordered, remaining_range::Direction};
use ecotone_substrate::{
    limits::PAGE,
    storage::{FileKind, Storage},
};

use super::fixture::{Fixture, Records};
use crate::{Tree, TreeOptions};

fn records() -> Records {
    (0..500_u32).map(|number| (number.to_be_bytes().to_vec(), Some(vec![number as u8; 60]))).collect()
}

/// All records, from one of the ends.
fn scan(tree: &Arc<Tree>, direction: Direction) -> Records {
    let (mut cursor, mut records) = (tree.clone().cursor((Bound::Unbounded, Bound::Unbounded)), Records::new());
    loop {
        let next = match direction {
            Direction::Up => cursor.next(),
            Direction::Down => cursor.next_back(),
        };
        let Some((key, value)) = next.expect("a cached page is no damage of the disk") else { return records };
        assert_eq!(records.insert(key.to_vec(), Some(value.to_vec())), None, "a record comes twice");
    }
}

fn cached(tree: &Tree, page: u32) -> [u8; PAGE] {
    let mut bytes = [0; PAGE];
    assert!(tree.pages.read(tree.page_id(page), &mut bytes), "page {page} is cached");
    bytes
}

#[test]
fn invariant_19_a_cached_page_of_other_keys_is_removed_and_costs_one_read() {
    let (fixture, records) = (Fixture::new(1, TreeOptions::default()), records());
    fixture.ingest(&records).unwrap();
    let tree = &fixture.tree;
    let segments: Vec<_> = tree.store.index.snapshot().ascend(&[]).map(|(_, segment)| segment).collect();
    let pages: Vec<u32> =
        segments.iter().flat_map(|segment| segment.page..segment.page + segment.base_count() as u32).collect();
    assert!(pages.len() > 5, "{} pages", pages.len());
    let reads = || fixture.disk.counters_of(FileKind::Pages).reads;
    for direction in [Direction::Up, Direction::Down] {
        assert_eq!(scan(tree, direction), records);
        for (number, page) in pages.iter().enumerate() {
            let (right, wrong) = (cached(tree, *page), cached(tree, pages[(number + 1) % pages.len()]));
            let id = tree.page_id(*page);
            tree.pages.forget(id);
            tree.pages.admit(id, &wrong, tree.pages.ticket(id));
            assert!(cached(tree, *page) == wrong);
            let before = reads();
            assert_eq!(scan(tree, direction), records);
            assert!(cached(tree, *page) == right, "the page that was read is cached in its place");
            assert_eq!(reads() - before, 1);
        }
    }
}
