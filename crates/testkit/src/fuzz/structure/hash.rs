//! Manifests of a hash keyspace.

use std::collections::BTreeSet;

use ecotone_hash::{
    HashOptions, blob,
    structure::{HashManifest, ManifestEdit},
};

/// Decodes a root and the manifest edits that follow it; each is preceded by its length in two bytes. A root and a
/// record have only one encoding. A consistent manifest stays consistent after an edit that fits. Returns how many of
/// them are whole.
///
/// # Panics
/// If a whole root or record breaks these rules.
pub fn history(input: &[u8]) -> usize {
    super::history(input, root, change)
}

/// The older encoding has no options, so it comes back in the newer encoding.
fn root(bytes: &[u8]) -> Option<(HashOptions, HashManifest)> {
    let (options, manifest) = blob::decode(bytes).ok()?;
    assert!(bytes[0] == 1 || blob::encode(options, &manifest) == bytes, "a root has another form");
    Some((options, manifest))
}

fn change((options, manifest): (HashOptions, HashManifest), body: &[u8]) -> Option<(HashOptions, HashManifest)> {
    let change = ManifestEdit::decode(body).ok()?;
    assert!(change.encode() == body, "a record has another form");
    let (after, gone) = manifest.after(&change).ok()?;
    let (before, now) = (numbers(&manifest), numbers(&after));
    let leave = |number: &u32| !now.contains(number) && (before.contains(number) || comes(&change, *number));
    assert!(gone.segments.iter().chain(&gone.tables).all(|file| leave(&file.number)), "a file is gone and there");
    let back = blob::decode(&blob::encode(options, &after));
    assert!(back == Ok((options, after.clone())), "what was changed does not come back");
    Some((options, after))
}

fn numbers(manifest: &HashManifest) -> BTreeSet<u32> {
    manifest.numbers().collect()
}

/// Whether the edit adds this segment, which may be too late.
fn comes(change: &ManifestEdit, number: u32) -> bool {
    matches!(change, ManifestEdit::Segment(segment) if segment.file.number == number)
}
