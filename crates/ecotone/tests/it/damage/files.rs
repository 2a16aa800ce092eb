//! Files that are cut, extended, missing, or of another database.

use ecotone::{
    Error,
    internal::substrate::{
        manifest::Manifest,
        storage::{FileId, Storage},
    },
};
use ecotone_testkit::sim::SimStorage;

use super::{
    image::{Image, MANIFESTS},
    judge::{Verdict, examine},
};

const PAGE: usize = 4096;

/// Whether a file is a segment that the log does not use yet or no longer uses: its contents lie below the replay
/// position.
fn is_spare(image: &Image, file: FileId, bytes: &[u8]) -> bool {
    let number = |offset: usize| u64::from_le_bytes(*bytes[offset..].first_chunk().expect("eight bytes"));
    let replay = || Manifest::decode(&image.files()[&MANIFESTS[0]], 1).expect("a whole manifest").replay;
    let is_blank = bytes.iter().all(|&byte| byte == 0);
    is_blank || matches!(file, FileId::Log(_)) && number(24) + (number(56) - PAGE as u64) <= replay()
}

/// Examines a copy in which `file` has other bytes. If the copy is refused, the right bytes must bring everything back.
fn replaced(image: &Image, file: FileId, bytes: &[u8], place: &str) -> Verdict {
    let disk = image.copy();
    disk.put(file, bytes);
    let verdict = examine(&disk, std::slice::from_ref(image.now()), place);
    if matches!(verdict, Verdict::Refused(_)) {
        disk.put(file, &image.files()[&file]);
        let again = examine(&disk, std::slice::from_ref(image.now()), place);
        assert!(matches!(again, Verdict::Intact), "{place}, then restored: {again:?}");
    }
    verdict
}

/// Lengths around the start of every structure, and some in between; more of these with `ECOTONE_FULL=1`.
fn lengths(length: usize) -> Vec<usize> {
    let small = [0, 1, 8, 39, 40, 59, 60, 63, 64, 100, 511, 512, 513, 4095, 4096, 4097, 8192];
    let every = if std::env::var_os("ECOTONE_FULL").is_some() { 1 } else { 4 };
    let pages = (0..length).step_by(every * PAGE).take(24 / every).map(|page| page + 100);
    let late = [length / 2, length.saturating_sub(512), length - 1];
    small.into_iter().chain(pages).chain(late).filter(|cut| *cut < length).collect()
}

#[test]
#[ignore = "long"]
fn a_cut_file_is_refused_or_was_not_needed() {
    Image::all(1).iter().for_each(cut);
}

fn cut(image: &Image) {
    for (file, bytes) in image.files() {
        // An lsm has many similar tables: a few lengths of each, and all lengths of one.
        let (first, each) = match file {
            FileId::Table { number, .. } if image.engines[0] != "hash" => (number as usize % 6, 6),
            _ => (0, 1),
        };
        for length in lengths(bytes.len()).into_iter().skip(first).step_by(each) {
            let place = format!("{file} cut to {length} of {} bytes", bytes.len());
            let verdict = replaced(image, file, &bytes[..length], &place);
            assert!(verdict.errors().iter().all(Error::is_corruption), "{place}: {:?}", verdict.errors());
            let needed = matches!(file, FileId::Double(_)) || file == image.last_segment() || length < 8192;
            let has_copy = matches!(file, FileId::Manifest(_));
            assert!(!has_copy || matches!(verdict, Verdict::Intact), "{place}: {verdict:?}");
            assert!(
                has_copy || is_spare(image, file, &bytes) || !needed || matches!(verdict, Verdict::Refused(_)),
                "{place}: {verdict:?}"
            );
        }
    }
}

#[test]
fn a_file_that_grew_is_refused_or_read_as_far_as_it_goes() {
    Image::all(1).iter().for_each(grow);
}

fn grow(image: &Image) {
    for (file, mut bytes) in image.files() {
        bytes.extend([0; PAGE]);
        let verdict = replaced(image, file, &bytes, &format!("{file} longer by a page"));
        let refused = matches!(&verdict, Verdict::Refused(error) if error.is_corruption());
        assert!(refused || matches!(verdict, Verdict::Intact), "{file}: {verdict:?}");
    }
}

#[test]
fn a_missing_file_is_named_and_can_be_brought_back() {
    Image::all(1).iter().for_each(remove);
}

fn remove(image: &Image) {
    for (file, bytes) in image.files() {
        let disk = image.copy();
        disk.remove(file).unwrap();
        let place = format!("{file} missing");
        let error = match examine(&disk, std::slice::from_ref(image.now()), &place) {
            Verdict::Refused(error) => error,
            Verdict::Intact if is_spare(image, file, &bytes) || matches!(file, FileId::Manifest(_)) => continue,
            verdict => panic!("{place}: {verdict:?}"),
        };
        match file {
            FileId::Log(_) => {
                assert!(error.is_corruption() && error.to_string().contains(&file.to_string()), "{error}")
            }
            _ => assert!(error.to_string().contains(&file.to_string()), "{error}"),
        }
        disk.put(file, &bytes);
        assert!(
            matches!(examine(&disk, std::slice::from_ref(image.now()), &place), Verdict::Intact),
            "{place}, then restored"
        );
    }
}

/// Ways to lose a file, with or without its name.
const LOSSES: [&str; 5] = ["missing", "emptied", "zeroed", "without its header", "cut in half"];

fn lose(disk: &SimStorage, file: FileId, how: &str) {
    let mut bytes = disk.files()[&file].clone();
    match how {
        "missing" => return disk.remove(file).unwrap(),
        "emptied" => bytes.clear(),
        "zeroed" => bytes.fill(0),
        "cut in half" => bytes.truncate(bytes.len() / 2),
        _ => bytes.iter_mut().take(PAGE).for_each(|byte| *byte = 0),
    }
    disk.put(file, &bytes);
}

/// The result is never less than what was synced, and everything of the last session was synced.
#[test]
#[ignore = "long"]
fn a_lost_log_segment_is_named_or_was_not_needed() {
    let long = Image::with_long_logs(1);
    for (number, image) in Image::all(1).iter().chain(&long).enumerate() {
        let mut needed = 0;
        for file in image.files().into_keys().filter(|file| matches!(file, FileId::Log(_))) {
            for how in LOSSES {
                let (disk, place) = (image.copy(), format!("image {number}: {file} {how}"));
                lose(&disk, file, how);
                match examine(&disk, std::slice::from_ref(image.now()), &place) {
                    Verdict::Intact => {}
                    Verdict::Refused(error) => {
                        assert!(
                            error.is_corruption() && error.to_string().contains(&file.to_string()),
                            "{place}: {error}"
                        );
                        needed += usize::from(how == "missing");
                    }
                    verdict => panic!("{place}: {verdict:?}"),
                }
            }
        }
        assert!(needed >= if number < 4 { 1 } else { 3 }, "image {number}: {needed} segments are needed");
    }
}

#[test]
fn without_both_copies_of_the_manifest_it_is_no_database() {
    for image in Image::all(1) {
        let disk = image.copy();
        MANIFESTS.iter().for_each(|file| disk.remove(*file).unwrap());
        let Verdict::Refused(Error::NotADatabase { why, .. }) =
            examine(&disk, std::slice::from_ref(image.now()), "none")
        else {
            panic!("a database without a manifest");
        };
        assert!(why.contains("manifest"), "{why}");
    }
}

#[test]
fn files_of_another_database_are_refused() {
    Image::all(1).iter().zip(&Image::all(2)).for_each(|(image, other)| exchange(image, other));
}

fn exchange(image: &Image, other: &Image) {
    let foreign = other.files();
    for file in image.files().into_keys() {
        let Some(bytes) = foreign.get(&file) else { continue };
        let verdict = replaced(image, file, bytes, &format!("{file} of another database"));
        let refused = matches!(&verdict, Verdict::Refused(error) if error.is_corruption());
        // The double-write area names its pages by checksums, and a spare segment names nothing.
        let harmless = matches!(file, FileId::Double(_)) || is_spare(image, file, &image.files()[&file]);
        assert!(if harmless { matches!(verdict, Verdict::Intact) } else { refused }, "{file}: {verdict:?}");
    }
}

#[test]
fn files_under_each_others_names_are_refused() {
    Image::all(1).iter().for_each(swap);
}

/// Exchanges each data file with the next one of its kind.
fn swap(image: &Image) {
    let files: Vec<_> = image.files().into_iter().filter(|(file, _)| file.keyspace().is_some()).collect();
    let pairs =
        files.windows(2).map(|pair| (&pair[0], &pair[1])).filter(|((one, _), (other, _))| one.kind() == other.kind());
    let mut swapped = 0;
    for ((one, bytes_of_one), (other, bytes_of_other)) in pairs {
        let disk = image.copy();
        disk.put(*one, bytes_of_other);
        disk.put(*other, bytes_of_one);
        is_refused(image, &disk, &format!("{one} and {other} exchanged"));
        swapped += 1;
    }
    assert!(swapped > 0, "two files of a kind");
}

#[test]
fn a_manifest_under_another_number_is_refused() {
    let image = Image::new(1);
    let disk = image.copy();
    MANIFESTS.iter().for_each(|file| disk.remove(*file).unwrap());
    disk.put(FileId::Manifest(99), &image.files()[&MANIFESTS[0]]);
    is_refused(&image, &disk, "the manifest under another number");
    let disk = image.copy();
    disk.put(MANIFESTS[1], &image.files()[&MANIFESTS[0]]);
    let verdict = examine(&disk, std::slice::from_ref(image.now()), "one copy under the name of the other");
    assert!(matches!(verdict, Verdict::Intact), "{verdict:?}");
}

fn is_refused(image: &Image, disk: &SimStorage, place: &str) {
    let verdict = examine(disk, std::slice::from_ref(image.now()), place);
    assert!(matches!(&verdict, Verdict::Refused(error) if error.is_corruption()), "{place}: {verdict:?}");
}
