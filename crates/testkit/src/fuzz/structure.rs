//! The root and the structural records of an lsm keyspace.

use ecotone_engines::lsm::{
    blob,
    structure::{Change, Covers, Structure},
};
use ecotone_substrate::codec::{Reader, Writer};

/// A root, and behind it records of changes that follow each other; before each its length in two bytes. A root and a record have one form alone, and what fits
/// together before a change that fits does so afterwards. Tells how many of them are whole.
///
/// # Panics
/// If that is not so.
pub fn history(mut input: &[u8]) -> usize {
    let Some(root) = next(&mut input) else { return 0 };
    let Ok((options, mut structure)) = blob::decode(root) else { return 0 };
    assert!(blob::encode(options, &structure) == root, "a root has another form");
    let mut whole = 1;
    while let Some(body) = next(&mut input) {
        let Ok(change) = Change::decode(body) else { break };
        assert!(change.encode() == body, "a record has another form");
        if structure.apply(&change).is_err() {
            break;
        }
        check(&structure, &change);
        let (root, covers) = (blob::encode(options, &structure), covers(&structure));
        let back = blob::decode(&root).map(|(options, tables)| (options, tables.covered(covers)));
        assert!(back == Ok((options, structure.clone())), "what was changed does not come back");
        whole += 1;
    }
    whole
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

/// The next part of the input, if all of it is there.
fn next<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = input.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    *input = rest;
    Some(part)
}
