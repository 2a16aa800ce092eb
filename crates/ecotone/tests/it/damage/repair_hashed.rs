//! Repair of hash keyspaces. Their keys have no order, so a whole keyspace is doubtful or none of it. The saved records
//! are checked key by key.

use ecotone::internal::substrate::{
    limits::PAGE,
    storage::{FileId, Storage},
};
use ecotone_testkit::{
    model::{Key, State},
    sim::{Crash, SimStorage},
};

use super::{
    image::Image,
    repair::{flushed, remove_logs, remove_manifests, repair},
    repaired::Repaired,
};

/// Most records of a page of a hot log, or of a block, of values of 600 bytes; and of some of 40.
const MOST_OF_A_PAGE: usize = 45;

fn data_files(disk: &SimStorage) -> Vec<(FileId, Vec<u8>)> {
    disk.files().into_iter().filter(|(file, _)| file.keyspace().is_some()).collect()
}

#[test]
fn hashed_keyspaces_come_back_whole() {
    let image = Image::hashed(1);
    for disk in [image.copy(), flushed(&image)] {
        let repaired = repair(&disk);
        assert_eq!(repaired.fits(image.now(), "intact"), 0);
        assert!(repaired.report.is_complete() && repaired.report.problems.is_empty(), "{:#?}", repaired.report);
        assert!(repaired.report.keyspaces.iter().all(|keyspace| keyspace.indexed && keyspace.records > 0));
    }
}

#[test]
fn without_a_manifest_the_log_tells_what_a_hashed_keyspace_consists_of() {
    let image = Image::hashed(1);
    let disk = image.copy();
    remove_manifests(&disk);
    let repaired = repair(&disk);
    assert_eq!(repaired.fits(image.now(), "no manifest"), 0);
    assert!(repaired.report.is_complete(), "{:#?}", repaired.report);
    assert!(repaired.report.keyspaces.iter().all(|keyspace| keyspace.indexed), "{:#?}", repaired.report);
}

#[test]
fn runs_and_segments_alone_are_judged_by_what_they_say() {
    let image = Image::hashed(1);
    let disk = flushed(&image);
    remove_manifests(&disk);
    remove_logs(&disk);
    let repaired = repair(&disk);
    let wrong = repaired.fits(image.now(), "files alone");
    assert!(wrong * 20 < image.now().len(), "{wrong} of {}, {:#?}", image.now().len(), repaired.report);
    assert!(repaired.report.keyspaces.iter().all(|keyspace| !keyspace.indexed) && !repaired.report.is_complete());
}

/// Asserts that the repaired database has no record that the image never had.
fn assert_invents_nothing(repaired: &Repaired, ever: &[State], place: &str) {
    let was = |key: &Key, value: &Vec<u8>| ever.iter().any(|state| state.get(key) == Some(value));
    let invented = repaired.content.iter().find(|(key, value)| !was(key, value));
    assert!(invented.is_none(), "{place}: {:?} was never there", invented.map(|(key, _)| key));
}

#[test]
fn a_flipped_bit_of_a_run_or_segment_costs_a_page() {
    let image = Image::hashed(1);
    let disk = flushed(&image);
    let (mut lost, mut harmless) = (0, 0);
    for (file, bytes) in data_files(&disk) {
        let used = bytes.chunks(PAGE).rposition(|page| page.iter().any(|byte| *byte != 0)).map_or(0, |last| last + 1);
        for page in 0..used {
            let copy = disk.crash(Crash::KeepAll);
            copy.flip_bit(file, (page * PAGE + [9, 1000, 4000][page % 3]) as u64, 3);
            let repaired = repair(&copy);
            let place = format!("page {page} of {file}");
            let wrong = repaired.fits(image.now(), &place);
            assert!(wrong <= MOST_OF_A_PAGE, "{place}: {wrong} are wrong, {:#?}", repaired.report);
            *(if wrong > 0 { &mut lost } else { &mut harmless }) += 1;
        }
    }
    assert!(lost > 10 && harmless > 10, "{lost} places lost something, {harmless} did not");
}

#[test]
fn files_of_a_hashed_keyspace_that_are_cut_or_missing_are_told() {
    let image = Image::hashed(1);
    let base = flushed(&image);
    let mut lost = 0;
    for (file, bytes) in data_files(&base) {
        for length in [Some(0), Some(100), Some(PAGE), Some(bytes.len() / 2 + 5), Some(bytes.len() - 1), None] {
            // Without manifest and log, a keyspace without files is unknown.
            let is_only =
                data_files(&base).iter().filter(|(other, _)| other.keyspace() == file.keyspace()).count() == 1;
            for manifest in [true, false].into_iter().filter(|manifest| *manifest || length.is_some() || !is_only) {
                let disk = base.crash(Crash::KeepAll);
                if !manifest {
                    remove_manifests(&disk);
                    remove_logs(&disk);
                }
                match length {
                    Some(length) => disk.truncate(file, length as u64),
                    None => disk.remove(file).expect("a file"),
                }
                let repaired = repair(&disk);
                let place = format!("{length:?} bytes of {file}, manifest {manifest}");
                lost += repaired.fits(image.now(), &place);
            }
        }
    }
    assert!(lost > 50, "{lost}");
}

#[test]
fn damage_of_the_log_costs_a_hashed_keyspace_what_was_written_there() {
    let image = Image::hashed(1);
    let segment = image.last_segment();
    let bytes = &image.files()[&segment];
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    for offset in [9, 30, 60, 530].into_iter().chain((PAGE..used).step_by(71)) {
        let disk = image.copy();
        disk.flip_bit(segment, offset as u64, 4);
        let repaired = repair(&disk);
        let place = format!("byte {offset}");
        let is_touched = |key: &Key| image.states.iter().any(|state| state.get(key) != image.states[0].get(key));
        let wrong = repaired.wrong(image.now());
        assert!(wrong.iter().all(is_touched), "{place}: {wrong:?}, {:#?}", repaired.report);
        assert_invents_nothing(&repaired, &image.states, &place);
    }
}
