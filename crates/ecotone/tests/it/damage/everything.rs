//! The databases that are damaged have something of everything, so that damage finds it.

use std::collections::BTreeSet;

use ecotone::internal::substrate::storage::FileId;

use super::image::{self, Image};

const PAGE: usize = 4096;
const FRAME: usize = 9;

/// The kinds of the records of a log segment.
fn record_kinds(segment: &[u8]) -> BTreeSet<u8> {
    let mut kinds = BTreeSet::new();
    let mut rest = &segment[PAGE..];
    while let Some((frame, behind)) = rest.split_first_chunk::<FRAME>().filter(|(frame, _)| **frame != [0; FRAME]) {
        let [a, b, c, d, .., kind] = *frame;
        kinds.insert(kind);
        rest = behind.get(u32::from_le_bytes([a, b, c, d]) as usize..).unwrap_or_default();
    }
    kinds
}

#[test]
fn the_images_have_something_of_everything() {
    for image in [150, 30].map(|records| Image::of(1, records)) {
        let (mut pages, mut records, mut batch) = (BTreeSet::new(), BTreeSet::new(), 0);
        for (file, bytes) in image.files() {
            match file {
                FileId::Log(_) => records.extend(record_kinds(&bytes)),
                FileId::Double(_) => batch = bytes[28],
                FileId::Pages(_) => pages.extend(bytes.chunks(PAGE).skip(1).map(|page| page[5])),
                _ => {}
            }
        }
        assert!(pages.is_superset(&BTreeSet::from([1, 2, 3])), "base, overflow and index pages: {pages:?}");
        assert_eq!(records, BTreeSet::from([1, 2, 3]), "batches, structural records and marks");
        assert!(batch > 0, "a double-write batch");
        let disk = image.copy();
        let database = image::open(&disk, 7).unwrap();
        let counters = database.open_keyspace("towns").unwrap().stats().counters;
        let overflowing = counters.iter().find(|(name, _)| *name == "overflow_pages").unwrap().1;
        assert!(overflowing > 0, "an overflow page in use: {counters:?}");
        image::abandon(&disk, database);
    }
}

#[test]
fn the_image_of_hash_keyspaces_has_something_of_everything() {
    let image = Image::hashed(1);
    let (mut kinds, mut records) = (BTreeSet::new(), BTreeSet::new());
    for (file, bytes) in image.files() {
        match file {
            FileId::Log(_) => records.extend(record_kinds(&bytes)),
            FileId::Segment { .. } => assert_eq!(bytes[PAGE + 4], 1, "a page of the hot log"),
            FileId::Table { .. } => kinds.extend([bytes[64]]),
            _ => {}
        }
    }
    assert!(image.files().keys().filter(|file| matches!(file, FileId::Segment { .. })).count() >= 2, "one in each keyspace");
    assert_eq!(kinds, BTreeSet::from([1, 2]), "deltas and bases");
    assert_eq!(records, BTreeSet::from([1, 2, 3]), "batches, structural records and marks");
}
