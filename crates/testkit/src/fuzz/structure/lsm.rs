//! Of an lsm keyspace.

use ecotone_engines::lsm::{
    LsmOptions, blob,
    structure::{Change, Structure},
};

/// A root, and behind it records of changes that follow each other; before each its length in two bytes. A root and a
/// record have one form alone, and what fits together before a change that fits does so afterwards. Tells how many of
/// them are whole.
///
/// # Panics
/// If that is not so.
pub fn history(input: &[u8]) -> usize {
    super::history(input, root, change)
}

/// The root of an lsm, by itself or as the part of another keyspace.
pub(super) fn root(bytes: &[u8]) -> Option<(LsmOptions, Structure)> {
    let (options, structure) = blob::decode(bytes).ok()?;
    assert!(blob::encode(options, &structure) == bytes, "a root has another form");
    Some((options, structure))
}

/// An lsm by itself covers nothing.
fn change((options, structure): (LsmOptions, Structure), body: &[u8]) -> Option<(LsmOptions, Structure)> {
    let structure = after(structure, body).filter(|structure| structure.covers().iter().next().is_none())?;
    let back = blob::decode(&blob::encode(options, &structure));
    assert!(back == Ok((options, structure.clone())), "what was changed does not come back");
    Some((options, structure))
}

/// What a record makes of a structure, if it is one that fits.
pub(super) fn after(mut structure: Structure, body: &[u8]) -> Option<Structure> {
    let change = Change::decode(body).ok()?;
    assert!(change.encode() == body, "a record has another form");
    structure.apply(&change).ok()?;
    change.comes.iter().for_each(|(place, file)| assert_eq!(structure.place_of(*file), Some(*place)));
    change.drops().for_each(|file| assert_eq!(structure.place_of(file), None));
    Some(structure)
}
