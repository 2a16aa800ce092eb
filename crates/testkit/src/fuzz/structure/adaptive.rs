//! Of an adaptive keyspace: its covers, and the tables that count beside them.

use ecotone_engines::{
    adaptive::blob::Blob,
    lsm::{
        LsmOptions, blob,
        structure::{Place, Structure},
    },
};

use super::lsm::{after, root as root_of_lsm};

/// What stands before a change of tables and covers.
const TABLES: u8 = 1;

/// A root, and behind it records of changes of tables and covers that follow each other; before each its length in two
/// bytes. A root and a record have one form alone, and what fits together before a change that fits does so afterwards:
/// covers are disjoint, a run that comes next is above all floors, and all comes back from a root. Tells how many of
/// them are whole.
///
/// # Panics
/// If that is not so.
pub fn history(input: &[u8]) -> usize {
    super::history(input, root, change)
}

type State = (Blob, LsmOptions, Structure);

fn root(bytes: &[u8]) -> Option<State> {
    let blob = Blob::decode(bytes).ok()?;
    assert!(blob.encode() == bytes, "a root has another form");
    let (options, tables) = root_of_lsm(&blob.lsm)?;
    let structure = tables.covered(blob.covers.clone());
    check(&structure);
    Some((blob, options, structure))
}

fn change((blob, options, structure): State, record: &[u8]) -> Option<State> {
    let (_, body) = record.split_first().filter(|(part, _)| **part == TABLES)?;
    let structure = after(structure, body)?;
    check(&structure);
    let blob = Blob { covers: structure.covers().as_ref().clone(), lsm: blob::encode(options, &structure), ..blob };
    let (same, _, back) = root(&blob.encode()).expect("a root is read again");
    assert!((&same, &back) == (&blob, &structure), "what was changed does not come back");
    Some((blob, options, structure))
}

/// What is so of all covers.
fn check(structure: &Structure) {
    let (mut end, next) = (&[][..], structure.next_ordinal());
    for cover in structure.covers().iter() {
        let (lower, upper) = cover.bounds();
        assert!(end <= lower && lower < upper, "covers have keys in common, or none");
        assert!(cover.floor().is_none_or(|floor| floor > Place::Run(next)), "what comes next would not count");
        end = upper;
    }
}
