//! Manifests of an lsm keyspace.

use ecotone_lsm::{
    LsmOptions, blob,
    manifest::{LevelManifest, VersionEdit},
};

/// Decodes a root and the version edits that follow it; each is preceded by its length in two bytes. A root and a
/// record have only one encoding. A consistent manifest stays consistent after an edit that fits. Returns how many of
/// them are whole.
///
/// # Panics
/// If a whole root or record breaks these rules.
pub fn history(input: &[u8]) -> usize {
    super::history(input, root, change)
}

/// The root of an lsm, by itself or as the part of another keyspace.
pub(super) fn root(bytes: &[u8]) -> Option<(LsmOptions, LevelManifest)> {
    let (options, manifest) = blob::decode(bytes).ok()?;
    assert!(blob::encode(options, &manifest) == bytes, "a root has another form");
    Some((options, manifest))
}

/// An lsm by itself has no paged ranges.
fn change((options, manifest): (LsmOptions, LevelManifest), body: &[u8]) -> Option<(LsmOptions, LevelManifest)> {
    let manifest = after(manifest, body).filter(|manifest| manifest.paged_ranges().iter().next().is_none())?;
    let back = blob::decode(&blob::encode(options, &manifest));
    assert!(back == Ok((options, manifest.clone())), "what was changed does not come back");
    Some((options, manifest))
}

/// The manifest after a record, if the record is an edit that fits.
pub(super) fn after(mut manifest: LevelManifest, body: &[u8]) -> Option<LevelManifest> {
    let change = VersionEdit::decode(body).ok()?;
    assert!(change.encode() == body, "a record has another form");
    manifest.apply(&change).ok()?;
    change.added.iter().for_each(|(place, file)| assert_eq!(manifest.run_of(*file), Some(*place)));
    change.dropped().for_each(|file| assert_eq!(manifest.run_of(file), None));
    Some(manifest)
}
