//! The bytes of a root, and others.

use ecotone_substrate::codec::{
    Reader,
    hex::{golden, render},
};

use crate::{adaptive::blob::Blob, lsm::structure::Covers};

fn example() -> Blob {
    let bytes = [1, 1, b'a', 1, b'c', 0, 5];
    let covers = Covers::decode(&mut Reader::new(&bytes)).unwrap();
    Blob { covers, lsm: b"lsm".to_vec(), tree: b"tree".to_vec() }
}

#[test]
fn the_bytes_of_a_root() {
    let labels = [
        (1, "form"),
        (1, "split: side"),
        (1, "page_fill: even"),
        (1, "insert: batch"),
        (1, "adapt"),
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
    (0..bytes.len()).for_each(|cut| assert!(Blob::decode(&bytes[..cut]).is_err(), "{cut}"));
    assert!(Blob::decode(&[&bytes[..], &[0]].concat()).is_err());
    for (at, byte) in [(0, 0), (0, 2), (1, 1), (2, 1), (3, 0), (4, 1)] {
        let mut other = bytes.clone();
        other[at] = byte;
        assert!(Blob::decode(&other).is_err(), "{byte} at {at}");
    }
}
