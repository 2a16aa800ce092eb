//! The databases under damage contain every kind of file, page and record, so that damage reaches all of them.

use std::collections::{BTreeMap, BTreeSet};

use ecotone::{Shape, internal::substrate::storage::FileId};

use super::image::{self, Image, records_of};

const PAGE: usize = 4096;

/// The kinds of the records of a log segment.
fn record_kinds(segment: &[u8]) -> BTreeSet<u8> {
    records_of(segment).into_iter().map(|record| segment[record + 8]).collect()
}

/// The kinds of the records of all log segments.
fn all_record_kinds(image: &Image) -> BTreeSet<u8> {
    let logs = image.files().into_iter().filter(|(file, _)| matches!(file, FileId::Log(_)));
    logs.flat_map(|(_, bytes)| record_kinds(&bytes)).collect()
}

/// Batches, structural records and marks.
const RECORDS: [u8; 3] = [1, 2, 3];

/// The kinds of the pages of a file.
fn page_kinds(image: &Image, file: FileId) -> BTreeSet<u8> {
    image.files()[&file].chunks(PAGE).skip(1).map(|page| page[5]).collect()
}

/// Base, overflow and index pages.
const PAGES: [u8; 3] = [1, 2, 3];

/// Pages in the last batch of the double-write area.
fn batch(image: &Image) -> u8 {
    image.files()[&FileId::Double(0)][28]
}

/// The first pages of all tables or runs.
fn headers(image: &Image) -> Vec<Vec<u8>> {
    let tables = image.files().into_iter().filter(|(file, _)| matches!(file, FileId::Table { .. }));
    tables.map(|(_, bytes)| bytes[..PAGE].to_vec()).collect()
}

/// The counters of the first keyspace, and the shapes of its ranges.
fn towns(image: &Image) -> (BTreeMap<&'static str, u64>, Vec<Shape>) {
    let disk = image.copy();
    let database = image::open(&disk, 7).unwrap();
    let towns = database.open_keyspace("towns").unwrap();
    let told = (towns.stats().counters.into_iter().collect(), towns.shapes().iter().map(|range| range.shape).collect());
    drop(towns);
    image::abandon(&disk, database);
    told
}

#[test]
fn the_images_have_something_of_everything() {
    for image in [150, 30].map(|records| Image::of(1, records)) {
        let kinds: BTreeSet<u8> =
            [1, 2].into_iter().flat_map(|number| page_kinds(&image, FileId::Pages(number))).collect();
        assert!(kinds.is_superset(&BTreeSet::from(PAGES)), "{kinds:?}");
        assert_eq!(all_record_kinds(&image), BTreeSet::from(RECORDS));
        assert!(batch(&image) > 0, "a double-write batch");
        let (counters, _) = towns(&image);
        assert!(counters["overflow_pages"] > 0, "an overflow page in use: {counters:?}");
    }
}

#[test]
fn the_image_of_hash_keyspaces_has_something_of_everything() {
    let image = Image::hashed(1);
    let segments: Vec<_> =
        image.files().into_iter().filter(|(file, _)| matches!(file, FileId::Segment { .. })).collect();
    assert!(
        segments.len() >= 2 && segments.iter().all(|(_, bytes)| bytes[PAGE + 4] == 1),
        "a page of the hot log in each"
    );
    let kinds: BTreeSet<u8> = headers(&image).iter().map(|header| header[64]).collect();
    assert_eq!(kinds, BTreeSet::from([1, 2]), "deltas and bases");
    assert_eq!(all_record_kinds(&image), BTreeSet::from(RECORDS));
}

#[test]
fn the_image_of_lsm_keyspaces_has_something_of_everything() {
    let image = Image::lsm(1);
    let of_headers = |offset: usize| headers(&image).iter().map(|header| header[offset]).collect::<BTreeSet<u8>>();
    assert_eq!(of_headers(65), BTreeSet::from([3, 4]), "indexes of both kinds of lines");
    assert_eq!(of_headers(67), BTreeSet::from([0, 1]), "tables with and without packed blocks");
    let is_packed = |(file, bytes): (FileId, Vec<u8>)| matches!(file, FileId::Table { .. }) && bytes[PAGE + 4] == 2;
    assert!(image.files().into_iter().any(is_packed), "a packed block");
    assert_eq!(all_record_kinds(&image), BTreeSet::from(RECORDS));
    let (counters, _) = towns(&image);
    assert!(counters["runs"] >= 2 && counters["levels"] >= 2 && counters["table_tombstones"] > 0, "{counters:?}");
}

#[test]
fn the_image_of_an_adaptive_keyspace_has_something_of_everything() {
    let image = Image::adaptive(1);
    let kinds = page_kinds(&image, FileId::Pages(1));
    // Overflow pages are in the images of trees: here jobs remove them.
    assert!(kinds.is_superset(&BTreeSet::from([PAGES[0], PAGES[2]])), "{kinds:?}");
    assert_eq!(all_record_kinds(&image), BTreeSet::from(RECORDS));
    assert!(batch(&image) > 0, "a double-write batch");
    let (counters, shapes) = towns(&image);
    assert_eq!(shapes, [Shape::Pages, Shape::PagesBelowTables, Shape::MergeOnRead, Shape::Pages], "{counters:?}");
    assert!(["runs", "levels", "table_tombstones"].iter().all(|name| counters[name] > 0), "{counters:?}");
}
