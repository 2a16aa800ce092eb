//! Of an lsm keyspace.

use ecotone_engines::lsm::{
    LsmOptions, blob,
    structure::{Change, Covers, Structure},
};
use ecotone_substrate::codec::{Reader, Writer};

/// A root, and behind it records of changes that follow each other; before each its length in two bytes. A root and a record have one form alone, and what fits
/// together before a change that fits does so afterwards. Tells how many of them are whole.
///
/// # Panics
/// If that is not so.
pub fn history(input: &[u8]) -> usize {
    super::history(input, root, change)
}

fn root(bytes: &[u8]) -> Option<(LsmOptions, Structure)> {
    let (options, structure) = blob::decode(bytes).ok()?;
    assert!(blob::encode(options, &structure) == bytes, "a root has another form");
    Some((options, structure))
}

fn change((options, mut structure): (LsmOptions, Structure), body: &[u8]) -> Option<(LsmOptions, Structure)> {
    let change = Change::decode(body).ok()?;
    assert!(change.encode() == body, "a record has another form");
    structure.apply(&change).ok()?;
    check(&structure, &change);
    let (root, covers) = (blob::encode(options, &structure), covers(&structure));
    let back = blob::decode(&root).map(|(options, tables)| (options, tables.covered(covers)));
    assert!(back == Ok((options, structure.clone())), "what was changed does not come back");
    Some((options, structure))
}

/// The covers of a structure, as they come back from a root that has them.
fn covers(structure: &Structure) -> Covers {
    let mut w = Writer::new();
    structure.covers().encode(&mut w);
    let bytes = w.finish();
    let mut r = Reader::new(&bytes);
    let covers = Covers::decode(&mut r).unwrap_or_else(|malformed| panic!("covers do not come back: {malformed:?}"));
    assert_eq!(r.remaining(), 0, "something is behind covers");
    covers
}

/// What a change that fits says is so.
fn check(structure: &Structure, change: &Change) {
    change.comes.iter().for_each(|(place, file)| assert_eq!(structure.place_of(*file), Some(*place)));
    change.drops().for_each(|file| assert_eq!(structure.place_of(file), None));
}
