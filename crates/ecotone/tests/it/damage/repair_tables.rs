//! Repair of keyspaces made of tables, and of tables above pages. Damage costs only its own records and those reported
//! as doubtful.

use ecotone::internal::substrate::{
    limits::PAGE,
    storage::{FileId, Storage},
};
use ecotone_testkit::{model::Key, sim::SimStorage};

use super::{
    image::Image,
    repair::{flushed, remove_logs, remove_manifests, repair},
    units::{self, Blocks, Keys},
};

fn images() -> [Image; 2] {
    [Image::lsm(1), Image::adaptive(1)]
}

#[test]
fn tables_come_back_whole() {
    for image in images() {
        let repaired = repair(&image.copy());
        assert_eq!(repaired.fits(image.now(), image.engines[0]), 0);
        assert!(repaired.report.is_complete() && repaired.report.problems.is_empty(), "{:#?}", repaired.report);
        assert!(repaired.report.keyspaces.iter().all(|keyspace| keyspace.indexed && keyspace.records > 0));
    }
}

/// The log of a young database has everything that the manifest knows, except for names and options.
#[test]
fn without_a_manifest_the_log_tells_which_tables_count() {
    for image in images() {
        let disk = image.copy();
        remove_manifests(&disk);
        let repaired = repair(&disk);
        assert_eq!(repaired.fits(image.now(), image.engines[0]), 0);
        assert!(repaired.report.is_complete(), "{:#?}", repaired.report);
        let lsm = || repaired.report.keyspaces.iter().filter(|_| image.engines[0] == "lsm");
        assert!(lsm().all(|keyspace| keyspace.indexed), "{:#?}", repaired.report);
    }
}

/// Neither manifest nor log: one image as it is, with runs and two levels, whose first life ended with a flush; and one
/// that a flush and compactions made smaller.
#[test]
fn tables_alone_are_judged_by_what_they_say() {
    for image in images() {
        for (disk, expected) in [(image.copy(), &image.states[0]), (flushed(&image), image.now())] {
            remove_manifests(&disk);
            remove_logs(&disk);
            let repaired = repair(&disk);
            let wrong = repaired.fits(expected, image.engines[0]);
            assert!(wrong * 10 < expected.len(), "{wrong} of {}, {:#?}", expected.len(), repaired.report);
            assert!(repaired.report.keyspaces.iter().all(|keyspace| !keyspace.indexed));
        }
    }
}

/// The files of the keyspaces with their bytes.
fn data_files(image: &Image) -> impl Iterator<Item = (FileId, Vec<u8>)> {
    image.files().into_iter().filter(|(file, _)| file.keyspace().is_some())
}

/// Damages a copy, repairs it, and returns the keys that are wrong. All of them must be reported. With a manifest they
/// must be keys of `lost`.
fn assert_costs(image: &Image, damage: &dyn Fn(&SimStorage), file: FileId, lost: &Keys, place: &str) -> usize {
    let mut count = 0;
    for manifest in [true, false] {
        let disk = image.copy();
        if !manifest {
            remove_manifests(&disk);
        }
        damage(&disk);
        let place = format!("{place} of {file}, manifest {manifest}");
        let repaired = repair(&disk);
        count += repaired.fits(image.now(), &place);
        let costs = |(id, key): &Key| Some(*id) == file.keyspace() && lost.have(key);
        let other = repaired.wrong(image.now()).into_iter().find(|key| manifest && !costs(key));
        assert!(other.is_none(), "{place}: {other:?} was not there, {:#?}", repaired.report);
    }
    count
}

#[test]
#[ignore = "long"]
fn a_flipped_bit_of_a_table_costs_a_block() {
    let (mut lost, mut harmless) = (0, 0);
    for image in images() {
        for (file, bytes) in data_files(&image).filter(|(file, _)| matches!(file, FileId::Table { .. })) {
            let blocks = Blocks::of(&image, file);
            for page in 0..bytes.len() / PAGE {
                let offset = page * PAGE + [9, 1500, 4000][page % 3];
                let wrong = assert_costs(
                    &image,
                    &|disk| disk.flip_bit(file, offset as u64, 2),
                    file,
                    &blocks.at(offset),
                    &format!("byte {offset}"),
                );
                *(if wrong > 0 { &mut lost } else { &mut harmless }) += 1;
            }
        }
    }
    assert!(lost > 20 && harmless > 20, "{lost} places lost something, {harmless} did not");
}

#[test]
fn a_flipped_bit_of_pages_below_tables_costs_a_page() {
    let image = Image::adaptive(1);
    let mut lost = 0;
    for (file, bytes) in data_files(&image).filter(|(file, _)| *file == FileId::Pages(1)) {
        for page in 0..bytes.len() / PAGE {
            let offset = (page * PAGE + 3000) as u64;
            let keys = units::of_page(&bytes, page);
            lost += assert_costs(&image, &|disk| disk.flip_bit(file, offset, 2), file, &keys, &format!("page {page}"));
        }
    }
    assert!(lost > 0);
}

#[test]
#[ignore = "long"]
fn a_table_that_is_cut_or_missing_costs_its_own_records() {
    let mut lost = 0;
    for image in images() {
        for (file, bytes) in data_files(&image).filter(|(file, _)| matches!(file, FileId::Table { .. })) {
            let range = Blocks::of(&image, file).range();
            for length in [0, 100, PAGE, PAGE + 700, bytes.len() / 2, bytes.len() - 1] {
                let cut = &|disk: &SimStorage| disk.truncate(file, length as u64);
                lost += assert_costs(&image, cut, file, &range, &format!("{length} bytes"));
            }
            let remove = &|disk: &SimStorage| disk.remove(file).expect("a file");
            lost += assert_costs(&image, remove, file, &range, "nothing");
        }
    }
    assert!(lost > 20, "{lost}");
}

#[test]
fn pages_below_tables_that_are_missing_are_told() {
    let image = Image::adaptive(1);
    let file = FileId::Pages(1);
    for manifest in [true, false] {
        for cut in [Some(0), Some(5000), Some(8 * PAGE as u64), None] {
            let disk = image.copy();
            if !manifest {
                remove_manifests(&disk);
            }
            cut.map_or_else(|| disk.remove(file).expect("a file"), |length| disk.truncate(file, length));
            let repaired = repair(&disk);
            assert!(repaired.fits(image.now(), &format!("{cut:?} bytes, manifest {manifest}")) > 0);
        }
    }
}

/// The writes of the last session may be lost with a part of the log. Every other wrong record is reported. Without a
/// manifest the log is replayed from its beginning, so a gap may bring back older values of any key, which the report
/// says.
#[test]
fn damage_of_the_log_costs_what_was_written_there() {
    for image in images() {
        let is_touched = |key: &Key| image.states.iter().any(|state| state.get(key) != image.states[0].get(key));
        for (file, bytes) in image.files().into_iter().filter(|(file, _)| matches!(file, FileId::Log(_))) {
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let records = (PAGE..used).step_by((used.saturating_sub(PAGE) / 40).max(1));
            for offset in [9, 30, 60, 530].into_iter().chain(records) {
                for manifest in [true, false] {
                    let disk = image.copy();
                    if !manifest {
                        remove_manifests(&disk);
                    }
                    disk.flip_bit(file, offset as u64, 4);
                    let repaired = repair(&disk);
                    let place = format!("{}: byte {offset} of {file}, manifest {manifest}", image.engines[0]);
                    let is_end = file == image.last_segment() && offset >= image.last_write();
                    let has_gap = !repaired.report.log_gaps.is_empty();
                    let is_told = |key: &Key| {
                        repaired.is_hurt(key) || (is_touched(key) && (is_end || has_gap)) || (!manifest && has_gap)
                    };
                    let wrong = repaired.wrong(image.now()).into_iter().find(|key| !is_told(key));
                    assert!(wrong.is_none(), "{place}: {wrong:?} is wrong and was not told, {:#?}", repaired.report);
                }
            }
        }
    }
}
