//! The bytes of a root, and others.

use ecotone_substrate::{
    Error,
    codec::{
        Reader,
        hex::{golden, render},
    },
};

use super::world::World;
use crate::{
    adaptive::{AdaptiveOptions, Insert, blob::Blob},
    engine::{Engine, Root},
    lsm::{
        Split,
        structure::{Become, CoverEdit, Covers},
    },
    tree::PageFill,
};

fn example() -> Blob {
    let bytes = [1, 1, b'a', 1, b'c', 0, 5];
    let covers = Covers::decode(&mut Reader::new(&bytes)).unwrap();
    let options = AdaptiveOptions { insert: Insert::Batch, ..AdaptiveOptions::default() };
    Blob { options, covers, lsm: b"lsm".to_vec(), tree: b"tree".to_vec() }
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

/// What is carved beside a cover that ends within a segment would take a part of it along.
#[test]
fn covers_of_a_root_that_end_within_a_segment_are_noticed() {
    let mut world = World::new(1, AdaptiveOptions::default());
    (0..600_u32).for_each(|number| world.write(&number.to_be_bytes(), Some(&[1; 100])));
    world.flush();
    world.keyspace.absorb(&100_u32.to_be_bytes(), &500_u32.to_be_bytes()).unwrap();
    let root = world.keyspace.checkpoint().unwrap();
    assert!(world.structure_of(&root).is_ok());
    for (lower, upper) in [(100_u32, 103_u32), (497, 500)] {
        let mut blob = Blob::decode(&root.blob).unwrap();
        let (lower, upper) = (lower.to_be_bytes().to_vec(), upper.to_be_bytes().to_vec());
        blob.covers.apply(&[CoverEdit { lower, upper, becomes: Become::Uncovered }]).unwrap();
        let opened = world.structure_of(&Root { blob: blob.encode(), ..root.clone() }).map(drop);
        assert!(matches!(opened, Err(Error::Corruption { .. })), "{opened:?}");
    }
}
