//! The bytes of an engine checkpoint, and malformed ones.

use ecotone_engine::contract::{Engine, EngineCheckpoint};
use ecotone_lsm::{
    Split,
    manifest::{PagedRangeEdit, PagedRanges, RangeEditKind},
};
use ecotone_substrate::{
    Error,
    codec::{
        Reader,
        hex::{golden, render},
    },
};
use ecotone_tree::PageFill;

use super::fixture::Fixture;
use crate::{AdaptiveOptions, Insert, blob::Blob};

fn example() -> Blob {
    let bytes = [1, 1, b'a', 1, b'c', 0, 5];
    let paged_ranges = PagedRanges::decode(&mut Reader::new(&bytes)).unwrap();
    let options = AdaptiveOptions { insert: Insert::Batch, ..AdaptiveOptions::default() };
    Blob { options, paged_ranges, lsm: b"lsm".to_vec(), tree: b"tree".to_vec() }
}

#[test]
fn the_bytes_of_a_root() {
    let labels = [
        (1, "form"),
        (1, "split: side"),
        (1, "page_fill: even"),
        (1, "insert: batch"),
        (1, "adapt: percent"),
        (1, "covers"),
        (2, "cover: lower"),
        (2, "upper"),
        (1, "level 0"),
        (1, "ordinal"),
        (4, "root of the lsm"),
        (5, "root of the tree"),
    ];
    golden("adaptive-root", &render(&example().encode(), &labels));
}

#[test]
fn a_root_comes_back_and_damage_is_found() {
    let bytes = example().encode();
    assert_eq!(Blob::decode(&bytes), Ok(example()));
    let options = AdaptiveOptions { split: Split::Down, page_fill: PageFill::Spread, ..example().options };
    let other = Blob { options, ..example() };
    assert_eq!((&other.encode()[..3], Blob::decode(&other.encode())), (&[1, 1, 1][..], Ok(other)));
    (0..bytes.len()).for_each(|cut| assert!(Blob::decode(&bytes[..cut]).is_err(), "{cut}"));
    assert!(Blob::decode(&[&bytes[..], &[0]].concat()).is_err());
    for (at, byte) in [(0, 0), (0, 2), (1, 2), (2, 2), (3, 3), (4, 101)] {
        let mut other = bytes.clone();
        other[at] = byte;
        assert!(Blob::decode(&other).is_err(), "{byte} at {at}");
    }
}

/// Clearing a range beside a paged range that ends within a segment would clear a part of the paged range.
#[test]
fn covers_of_a_root_that_end_within_a_segment_are_noticed() {
    let mut fixture = Fixture::new(1, AdaptiveOptions::default());
    (0..600_u32).for_each(|number| fixture.write(&number.to_be_bytes(), Some(&[1; 100])));
    fixture.flush();
    fixture.keyspace.convert_to_pages(&100_u32.to_be_bytes(), &500_u32.to_be_bytes()).unwrap();
    let root = fixture.keyspace.checkpoint().unwrap();
    assert!(fixture.structure_of(&root).is_ok());
    for (lower, upper) in [(100_u32, 103_u32), (497, 500)] {
        let mut blob = Blob::decode(&root.blob).unwrap();
        let (lower, upper) = (lower.to_be_bytes().to_vec(), upper.to_be_bytes().to_vec());
        blob.paged_ranges.apply(&[PagedRangeEdit { lower, upper, kind: RangeEditKind::Remove }]).unwrap();
        let opened = fixture.structure_of(&EngineCheckpoint { blob: blob.encode(), ..root.clone() }).map(drop);
        assert!(matches!(opened, Err(Error::Corruption { .. })), "{opened:?}");
    }
}
