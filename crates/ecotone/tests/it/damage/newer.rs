//! Files of a later version are refused as such, in every format; features that may be ignored are.

use ecotone::{
    Error,
    internal::substrate::{manifest::Manifest, storage::FileId},
};

use super::{
    image::Image,
    judge::{Verdict, examine},
    seal::seal,
};

/// Examines a copy in which one byte of `file` is another and all checksums are right.
fn with_byte(image: &Image, file: FileId, offset: usize, byte: u8) -> Verdict {
    let mut bytes = image.files()[&file].clone();
    assert_ne!(bytes[offset], byte, "nothing would change");
    bytes[offset] = byte;
    seal(file, &mut bytes);
    let disk = image.copy();
    disk.put(file, &bytes);
    examine(&disk, std::slice::from_ref(image.now()), &format!("byte {offset} of {file} made {byte}"))
}

fn refused_as_newer(image: &Image, file: FileId, offset: usize, byte: u8) {
    match with_byte(image, file, offset, byte) {
        Verdict::Refused(Error::NewerFormat { file: named, .. }) => assert_eq!(named, file.to_string()),
        verdict => panic!("byte {offset} of {file} made {byte}: {verdict:?}"),
    }
}

fn manifest(image: &Image) -> FileId {
    image.files().into_keys().find(|file| matches!(file, FileId::Manifest(_))).expect("a manifest")
}

#[test]
fn sealing_changes_nothing_that_is_whole() {
    for (file, bytes) in Image::new(1).files().into_iter().chain(Image::hashed(1).files()) {
        let mut sealed = bytes.clone();
        seal(file, &mut sealed);
        let blank = bytes.starts_with(&[0; 64]);
        assert!(blank || sealed == bytes, "the checksums of {file} are computed in another way here");
    }
}

#[test]
fn a_later_version_of_any_file_is_refused() {
    let image = Image::new(1);
    refused_as_newer(&image, manifest(&image), 8, 2);
    refused_as_newer(&image, image.last_segment(), 8, 3);
    refused_as_newer(&image, FileId::Double(0), 8, 2);
    refused_as_newer(&image, FileId::Pages(1), 12, 2);
    let image = Image::hashed(1);
    let written_once = |file: &FileId| matches!(file, FileId::Segment { .. } | FileId::Table { .. });
    image.files().into_keys().filter(written_once).for_each(|file| refused_as_newer(&image, file, 12, 2));
}

/// The errors that a user sees when one byte is another, all of which must be of a newer format, and say so of `name`.
fn found_newer(verdict: &Verdict, name: &str, version: u64) {
    assert!(!verdict.errors().is_empty(), "{verdict:?}");
    for error in verdict.errors() {
        let newer = matches!(error, Error::NewerFormat { file, found, known }
            if file.contains(name) && (*found, *known) == (version, version - 1));
        assert!(newer, "{error}");
        assert!(error.to_string().contains("open it with a newer one"), "{error}");
    }
}

/// The manifest, and where the root of the first keyspace begins there.
fn first_root(image: &Image) -> (FileId, usize) {
    let file = manifest(image);
    let (FileId::Manifest(number), bytes) = (file, &image.files()[&file]) else { unreachable!() };
    let root = &Manifest::decode(bytes, number).unwrap().keyspaces[0].blob;
    (file, bytes.windows(root.len()).position(|window| window == root).expect("the root is in the manifest"))
}

#[test]
fn a_later_version_of_a_trees_root_is_refused() {
    let image = Image::new(1);
    let (file, offset) = first_root(&image);
    found_newer(&with_byte(&image, file, offset, 3), "keyspace 1 in the manifest", 3);
    // Form, six options and the production id stand before the version of the index.
    found_newer(&with_byte(&image, file, offset + 11, 2), "keyspace 1 in the manifest", 2);
}

#[test]
fn a_later_version_of_the_root_of_a_hash_keyspace_is_refused() {
    let image = Image::hashed(1);
    let (file, offset) = first_root(&image);
    found_newer(&with_byte(&image, file, offset, 3), "keyspace 1 in the manifest", 3);
}

#[test]
fn a_later_form_of_a_structural_record_is_refused() {
    later_forms(&Image::new(1), 3);
    later_forms(&Image::hashed(1), 2);
}

fn later_forms(image: &Image, form: u8) {
    let mut refused = 0;
    for (file, bytes) in image.files().into_iter().filter(|(file, _)| matches!(file, FileId::Log(_))) {
        let mut offset = 4096;
        while bytes[offset..offset + 9] != [0; 9] {
            // Behind the frame and the number of the keyspace. Those before the replay position are not read.
            let verdict = (bytes[offset + 8] == 2).then(|| with_byte(image, file, offset + 9 + 1, form));
            if let Some(verdict) = verdict.filter(|verdict| !verdict.errors().is_empty()) {
                found_newer(&verdict, "structural record", form.into());
                refused += 1;
            }
            offset += 9 + u32::from_le_bytes(*bytes[offset..].first_chunk().unwrap()) as usize;
        }
    }
    assert!(refused > 0, "a structural record to replay");
}

#[test]
fn a_later_version_of_a_page_is_an_error_when_it_is_read() {
    let image = Image::new(1);
    for kind in [1, 2, 3] {
        let used = image.files()[&FileId::Pages(1)].clone();
        let pages = (1..used.len() / 4096).filter(|page| used[page * 4096 + 5] == kind);
        let verdicts: Vec<Verdict> = pages.map(|page| with_byte(&image, FileId::Pages(1), page * 4096 + 4, 2)).collect();
        let found =
            verdicts.iter().filter(|verdict| !verdict.errors().is_empty()).inspect(|verdict| found_newer(verdict, "pages.1", 2));
        assert!(found.count() > 0, "a page of kind {kind} in use: {verdicts:?}");
    }
}

#[test]
fn feature_bits_are_refused_unless_they_may_be_ignored() {
    let image = Image::new(1);
    for (file, compatible) in [(manifest(&image), 16), (FileId::Pages(2), 16)] {
        let verdict = with_byte(&image, file, compatible, 1);
        assert!(matches!(verdict, Verdict::Intact), "{file}: {verdict:?}");
        refused_as_newer(&image, file, compatible + 8, 1);
        refused_as_newer(&image, file, compatible + 16, 1);
    }
}

#[test]
fn later_kinds_of_log_records_and_operations_are_refused() {
    let image = Image::new(1);
    let log = image.last_segment();
    // The first record stands behind the header: nine bytes of frame, of which the last is the kind, one of the count, then an operation.
    let (kind, operation) = (4096 + 8, 4096 + 10);
    assert_eq!(image.files()[&log][kind..=operation], [1, 1, 1], "a batch of one value");
    refused_as_newer(&image, log, kind, 4);
    refused_as_newer(&image, log, operation, 3);
}
