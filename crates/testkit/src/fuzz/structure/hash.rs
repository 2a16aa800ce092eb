//! Of a hash keyspace.

use std::collections::BTreeSet;

use ecotone_engines::hash::{
    HashOptions, blob,
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

/// The form of before has no options, so it comes back in another one.
fn root(bytes: &[u8]) -> Option<(HashOptions, Structure)> {
    let (options, structure) = blob::decode(bytes).ok()?;
    assert!(bytes[0] == 1 || blob::encode(options, &structure) == bytes, "a root has another form");
    Some((options, structure))
}

fn change((options, structure): (HashOptions, Structure), body: &[u8]) -> Option<(HashOptions, Structure)> {
    let change = Change::decode(body).ok()?;
    assert!(change.encode() == body, "a record has another form");
    let (after, gone) = structure.after(&change).ok()?;
    let (before, now) = (numbers(&structure), numbers(&after));
    let leave = |number: &u32| !now.contains(number) && (before.contains(number) || comes(&change, *number));
    assert!(gone.segments.iter().chain(&gone.tables).all(|file| leave(&file.number)), "a file is gone and there");
    let back = blob::decode(&blob::encode(options, &after));
    assert!(back == Ok((options, after.clone())), "what was changed does not come back");
    Some((options, after))
}

fn numbers(structure: &Structure) -> BTreeSet<u32> {
    structure.numbers().collect()
}

/// Whether the change is that a segment comes, which may be too late.
fn comes(change: &Change, number: u32) -> bool {
    matches!(change, Change::Segment(segment) if segment.file.number == number)
}
