//! Files of a later version are refused as such, in every format. Features that may be ignored are ignored.

use ecotone::{
    Error,
    internal::{
        adaptive::blob::Blob,
        substrate::{manifest::Manifest, storage::FileId},
    },
};

use super::{
    image::{Image, MANIFESTS, records_of},
    judge::{Verdict, examine},
    seal::seal,
};

/// Examines a copy in which one byte of `file` is changed and all checksums are right. Both copies of the manifest are
/// changed.
fn with_byte(image: &Image, file: FileId, offset: usize, byte: u8) -> Verdict {
    let disk = image.copy();
    for file in if MANIFESTS.contains(&file) { MANIFESTS.to_vec() } else { vec![file] } {
        let mut bytes = image.files()[&file].clone();
        assert_ne!(bytes[offset], byte, "nothing would change");
        bytes[offset] = byte;
        seal(file, &mut bytes);
        disk.put(file, &bytes);
    }
    examine(&disk, std::slice::from_ref(image.now()), &format!("byte {offset} of {file} made {byte}"))
}

fn refused_as_newer(image: &Image, file: FileId, offset: usize, byte: u8) {
    match with_byte(image, file, offset, byte) {
        Verdict::Refused(Error::NewerFormat { file: named, .. }) => assert_eq!(named, file.to_string()),
        verdict => panic!("byte {offset} of {file} made {byte}: {verdict:?}"),
    }
}

/// Whether a file is not used yet.
fn is_blank(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0; 64])
}

#[test]
fn sealing_changes_nothing_that_is_whole() {
    for (file, bytes) in Image::all(1).iter().flat_map(Image::files) {
        let mut sealed = bytes.clone();
        seal(file, &mut sealed);
        assert!(is_blank(&bytes) || sealed == bytes, "the checksums of {file} are computed in another way here");
    }
}

#[test]
fn a_later_version_of_any_file_is_refused() {
    for image in Image::all(1) {
        let last = image.last_segment();
        for (file, bytes) in image.files() {
            let (offset, later) = match file {
                FileId::Log(_) => (8, 4),
                FileId::Manifest(_) => (8, 4),
                FileId::Double(_) => (8, 2),
                _ if bytes.get(4..12) == Some(&b"ECOhsrun"[..]) => (12, 3),
                _ => (12, 2),
            };
            // Only a part of the earlier log is read.
            let is_old = matches!(file, FileId::Log(_)) && file != last;
            if !is_old && !is_blank(&bytes) && file != MANIFESTS[1] {
                refused_as_newer(&image, file, offset, later);
            }
        }
    }
}

/// Asserts that all errors are of a newer format and name `name`.
fn found_newer(verdict: &Verdict, name: &str, version: u64) {
    assert!(!verdict.errors().is_empty(), "{verdict:?}");
    for error in verdict.errors() {
        let newer = matches!(error, Error::NewerFormat { file, found, known }
            if file.contains(name) && (*found, *known) == (version, version - 1));
        assert!(newer, "{error}");
        assert!(error.to_string().contains("open it with a newer one"), "{error}");
    }
}

/// The engine checkpoint of the first keyspace.
fn root(image: &Image) -> Vec<u8> {
    Manifest::decode(&image.files()[&MANIFESTS[0]], 1).unwrap().keyspaces[0].blob.clone()
}

/// Changes a byte of a root, or of one within it, which makes the form of it a later one.
fn later_root(image: &Image, root: &[u8], offset: usize, form: u8) {
    let file = MANIFESTS[0];
    let place = image.files()[&file]
        .windows(root.len())
        .position(|window| window == root)
        .expect("the root is in the manifest");
    found_newer(&with_byte(image, file, place + offset, form), "keyspace 1 in the manifest", form.into());
}

/// Form, six options and the production id stand before the version of the index in the root of a tree.
const INDEX: usize = 11;

#[test]
fn a_later_version_of_any_root_is_refused() {
    for (image, form) in Image::all(1).iter().zip([3, 3, 2, 2]) {
        later_root(image, &root(image), 0, form);
    }
    let image = Image::new(1);
    later_root(&image, &root(&image), INDEX, 2);
}

#[test]
fn a_later_version_of_a_root_within_that_of_an_adaptive_keyspace_is_refused() {
    let image = Image::adaptive(1);
    let Blob { lsm, tree, .. } = Blob::decode(&root(&image)).unwrap();
    later_root(&image, &lsm, 0, 2);
    later_root(&image, &tree, 0, 3);
    later_root(&image, &tree, INDEX, 2);
}

#[test]
fn a_later_form_of_a_structural_record_is_refused() {
    Image::all(1).iter().zip([3, 2, 3, 3]).for_each(|(image, form)| later_forms(image, form));
}

fn later_forms(image: &Image, form: u8) {
    let (mut refused, has_parts) = (0, image.engines[0] == "adaptive");
    for (file, bytes) in image.files().into_iter().filter(|(file, _)| matches!(file, FileId::Log(_))) {
        for offset in records_of(&bytes) {
            // Behind the frame, the number of the keyspace and the part, if there are any. Those before the replay
            // position are not read.
            let part = usize::from(has_parts && bytes[offset + 9] == 1);
            let verdict = (bytes[offset + 8] == 2).then(|| with_byte(image, file, offset + 9 + 1 + part, form));
            if let Some(verdict) = verdict.filter(|verdict| !verdict.errors().is_empty()) {
                found_newer(&verdict, "structural record", form.into());
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "a structural record to replay");
}

#[test]
fn a_later_version_of_a_page_is_an_error_when_it_is_read() {
    later_pages(&Image::new(1), &[1, 2, 3]);
    later_pages(&Image::adaptive(1), &[1, 3]);
}

fn later_pages(image: &Image, kinds: &[u8]) {
    for &kind in kinds {
        let used = image.files()[&FileId::Pages(1)].clone();
        let pages = (1..used.len() / 4096).filter(|page| used[page * 4096 + 5] == kind);
        let verdicts: Vec<Verdict> = pages.map(|page| with_byte(image, FileId::Pages(1), page * 4096 + 4, 2)).collect();
        let found = verdicts
            .iter()
            .filter(|verdict| !verdict.errors().is_empty())
            .inspect(|verdict| found_newer(verdict, "pages.1", 2));
        assert!(found.count() > 0, "a page of kind {kind} in use: {verdicts:?}");
    }
}

#[test]
fn feature_bits_are_refused_unless_they_may_be_ignored() {
    for image in Image::all(1) {
        let has_features = |file: &FileId| !matches!(file, FileId::Log(_) | FileId::Double(_));
        for file in image.files().into_keys().filter(has_features).filter(|file| *file != MANIFESTS[1]) {
            let verdict = with_byte(&image, file, 16, 1);
            assert!(matches!(verdict, Verdict::Intact), "{file}: {verdict:?}");
            refused_as_newer(&image, file, 24, 1);
            refused_as_newer(&image, file, 32, 1);
        }
    }
}

#[test]
fn later_kinds_of_log_records_and_operations_are_refused() {
    for image in Image::all(1) {
        let log = image.last_segment();
        // The first record stands behind the header: nine bytes of frame, of which the last is the kind, one of the
        // count, then an operation.
        let (kind, operation) = (4096 + 8, 4096 + 10);
        assert_eq!(image.files()[&log][kind..=operation], [1, 1, 1], "a batch of one value");
        refused_as_newer(&image, log, kind, 4);
        refused_as_newer(&image, log, operation, 3);
    }
}
