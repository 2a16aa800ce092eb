//! Files of a later version are refused as such, in every format; features that may be ignored are.

use ecotone::{Error, internal::substrate::storage::FileId};

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
    for (file, bytes) in Image::new(1).files() {
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
    refused_as_newer(&image, image.last_segment(), 8, 2);
    refused_as_newer(&image, FileId::Double(0), 8, 2);
    refused_as_newer(&image, FileId::Pages(1), 12, 2);
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
    refused_as_newer(&image, log, kind, 3);
    refused_as_newer(&image, log, operation, 3);
}
