//! Covers above which nothing counts, and that a flush leaves so: however wide the tables of its run are, they have
//! none of their keys (decision 14, "Writing"; decision 15, invariant 6).

use super::{
    divert::Diverted,
    handle::Handle,
    memtable::Memtable,
    structure::{Become, Cover, CoverEdit, Place},
    version::{Ranged, Version},
};

/// Rows that are lifted with one flush at most: each takes two keys in the log. The others have the run above them.
const MOST: usize = 64;

/// Lifts the floors of such covers to the run that is to come of a memtable without what was diverted. An edit for each
/// row of covers that touch: a range between two may have records in the memtable, and may be covered by a job before
/// the edits are made.
pub(super) fn lifts(version: &Version<Handle>, flushed: (&Memtable, &Diverted), run: Place) -> Vec<CoverEdit> {
    let mut edits: Vec<CoverEdit> = Vec::new();
    for cover in version.covers().iter() {
        let (lower, upper) = cover.bounds();
        if !is_free(version, cover) || has_some(flushed, (lower, upper)) {
            continue;
        }
        match edits.last_mut().filter(|row| row.upper == lower) {
            Some(row) => row.upper = upper.to_vec(),
            None => {
                edits.push(CoverEdit { lower: lower.to_vec(), upper: upper.to_vec(), becomes: Become::Lifted(run) })
            }
        }
    }
    edits.truncate(MOST);
    edits
}

/// Whether no table that overlaps a cover counts there, and a floor says so.
pub(super) fn is_free<T: Ranged>(version: &Version<T>, cover: &Cover) -> bool {
    cover.floor().is_some() && version.counting_in(Some(cover)).all(|(_, run)| run.within(cover.bounds()).is_empty())
}

fn has_some((memtable, diverted): (&Memtable, &Diverted), (lower, upper): (&[u8], &[u8])) -> bool {
    let (mut cursor, mut key) = (memtable.cursor(), Vec::new());
    diverted.seek(&mut cursor, lower, &mut key) && *key < *upper
}
