//! Manifests of an adaptive keyspace: its paged ranges, and its visible tables.

use ecotone_adaptive::blob::Blob;
use ecotone_lsm::{
    LsmOptions, blob,
    manifest::{LevelManifest, RunId},
};

use super::lsm::{after, root as root_of_lsm};

/// The byte in front of a version edit of tables and paged ranges.
const TABLES: u8 = 1;

/// Decodes a root and the version edits of tables and paged ranges that follow it; each is preceded by its length in
/// two bytes. A root and a record have only one encoding. A consistent manifest stays consistent after an edit that
/// fits: paged ranges are disjoint, the next run added is not superseded, and the manifest comes back from its root.
/// Returns how many of them are whole.
///
/// # Panics
/// If a whole root or record breaks these rules.
pub fn history(input: &[u8]) -> usize {
    super::history(input, root, change)
}

type State = (Blob, LsmOptions, LevelManifest);

fn root(bytes: &[u8]) -> Option<State> {
    let blob = Blob::decode(bytes).ok()?;
    assert!(blob.encode() == bytes, "a root has another form");
    let (options, tables) = root_of_lsm(&blob.lsm)?;
    let manifest = tables.with_paged_ranges(blob.paged_ranges.clone());
    check(&manifest);
    Some((blob, options, manifest))
}

fn change((blob, options, manifest): State, record: &[u8]) -> Option<State> {
    let (_, body) = record.split_first().filter(|(part, _)| **part == TABLES)?;
    let manifest = after(manifest, body)?;
    check(&manifest);
    let blob =
        Blob { paged_ranges: manifest.paged_ranges().as_ref().clone(), lsm: blob::encode(options, &manifest), ..blob };
    let (same, _, back) = root(&blob.encode()).expect("a root is read again");
    assert!((&same, &back) == (&blob, &manifest), "what was changed does not come back");
    Some((blob, options, manifest))
}

/// Checks the invariants of all paged ranges.
fn check(manifest: &LevelManifest) {
    let (mut end, next) = (&[][..], manifest.next_ordinal());
    for paged_range in manifest.paged_ranges().iter() {
        let (lower, upper) = paged_range.bounds();
        assert!(end <= lower && lower < upper, "covers have keys in common, or none");
        assert!(
            paged_range.superseded_from().is_none_or(|superseded_from| superseded_from > RunId::L0(next)),
            "what added next would not count"
        );
        end = upper;
    }
}
