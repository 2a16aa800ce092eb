//! Flips one bit at a time. By default in every byte of the headers and of the manifest and in some of the rest, which
//! takes seconds. With `ECOTONE_FULL=1` in every byte of every used sector and in one byte of the others, which takes
//! long.

use std::ops::Range;

use ecotone::internal::substrate::{limits::SECTOR, storage::FileId};
use ecotone_testkit::sim::SimStorage;

use super::{
    image::{Image, MANIFESTS},
    judge::{Verdict, examine},
};

/// Bytes from the start of the last write that are flipped in every run.
const LAST_WRITE: usize = 64;

/// Bytes that are flipped in every run: headers, and the entries of the double-write area.
fn header(file: FileId) -> Range<usize> {
    match file {
        FileId::Manifest(_) => 0..100,
        FileId::Log(_) => 0..80,
        FileId::Double(_) => 0..120,
        FileId::Table { .. } => 0..128,
        _ => 0..80,
    }
}

/// Offsets to flip: those in `always`, every `used`-th of the other bytes that are not zero, and every `unused`-th that
/// are.
fn offsets(bytes: &[u8], always: [Range<usize>; 2], used: usize, unused: usize) -> Vec<usize> {
    if std::env::var_os("ECOTONE_FULL").is_some() {
        return all_offsets(bytes);
    }
    let mut seen = [0, 0];
    let mut taken = |offset: &usize| {
        let zero = usize::from(bytes[*offset] == 0);
        seen[zero] += 1;
        always.iter().any(|range| range.contains(offset)) || seen[zero] % [used, unused][zero] == 0
    };
    (0..bytes.len()).filter(|offset| taken(offset)).collect()
}

/// Every byte of the used sectors, and one byte of the others.
fn all_offsets(bytes: &[u8]) -> Vec<usize> {
    let sectors = bytes.chunks(SECTOR).enumerate();
    let of_sector = |(number, sector): (usize, &[u8])| {
        let used = sector.iter().any(|&byte| byte != 0);
        let (start, count) = (number * SECTOR, if used { sector.len() } else { 1 });
        start..start + count
    };
    sectors.flat_map(of_sector).collect()
}

/// Flips one bit at a time in all files that `which` takes. Returns the numbers of refused, hurt, intact and shorter
/// databases.
fn flip(image: &Image, which: impl Fn(FileId) -> bool, used: usize, unused: usize) -> [usize; 4] {
    flip_on(image, &|| image.copy(), which, used, unused)
}

/// The same on another kind of disk.
fn flip_on(
    image: &Image,
    disk: &dyn Fn() -> SimStorage,
    which: impl Fn(FileId) -> bool,
    used: usize,
    unused: usize,
) -> [usize; 4] {
    let (last_segment, last_write) = (image.last_segment(), image.last_write());
    let mut counts = [0; 4];
    for (file, bytes) in image.files().into_iter().filter(|(file, _)| which(*file)) {
        let tail = if file == last_segment { last_write..last_write + LAST_WRITE } else { 0..0 };
        for offset in offsets(&bytes, [header(file), tail], used, unused) {
            let bit = (offset % 8) as u32;
            let place = format!("bit {bit} of byte {offset} of {file} flipped");
            let disk = disk();
            disk.flip_bit(file, offset as u64, bit);
            // All but the last write is known to be synced.
            let last = file == last_segment && offset >= last_write;
            let allowed =
                if last { &image.states[image.states.len() - 2..] } else { std::slice::from_ref(image.now()) };
            let verdict = examine(&disk, allowed, &place);
            // Never a newer format: a flip in a version is ordinary damage.
            assert!(verdict.errors().iter().all(ecotone::Error::is_corruption), "{place}: {:?}", verdict.errors());
            counts[match verdict {
                Verdict::Refused(_) => 0,
                Verdict::Hurt(_) => 1,
                Verdict::Intact => 2,
                Verdict::Shorter => 3,
            }] += 1;
        }
    }
    println!("refused, hurt, intact, shorter: {counts:?}");
    counts
}

#[test]
fn a_flip_in_one_copy_of_the_manifest_changes_nothing() {
    for image in Image::all(1) {
        for file in MANIFESTS {
            let length = image.files()[&file].len();
            for offset in (0..64).step_by(9).chain((64..length).step_by(1_999)) {
                let disk = image.copy();
                disk.flip_bit(file, offset as u64, (offset % 8) as u32);
                let place = format!("byte {offset} of {file} flipped");
                let verdict = examine(&disk, std::slice::from_ref(image.now()), &place);
                assert!(matches!(verdict, Verdict::Intact), "{place}: {verdict:?}");
            }
        }
    }
}

/// The bytes behind the manifest are not needed.
#[test]
fn a_flip_in_the_only_copy_of_the_manifest_is_refused() {
    for image in Image::all(1) {
        let one = |file| file == MANIFESTS[0];
        let [refused, hurt, _, shorter] = flip_on(&image, &|| image.with_one_manifest(), one, 3, 1_999);
        assert!(refused > 100 && [hurt, shorter] == [0; 2]);
    }
}

#[test]
#[ignore = "long"]
fn a_flip_in_the_log_is_refused_or_takes_the_last_write() {
    // The image of the tree has the fewest bytes.
    for (image, used) in Image::all(1).into_iter().zip([17, 4_999, 397, 397]) {
        let [refused, hurt, _, shorter] = flip(&image, |file| matches!(file, FileId::Log(_)), used, 30_011);
        assert!(refused > 100 && hurt == 0 && shorter > 0);
    }
}

/// Who writes in place has something there.
#[test]
fn a_flip_in_the_double_write_area_changes_no_answer() {
    for image in [Image::new(1), Image::adaptive(1)] {
        let [refused, hurt, intact, shorter] = flip(&image, |file| matches!(file, FileId::Double(_)), 401, 30_011);
        assert!(intact > 100 && [refused, hurt, shorter] == [0; 3]);
    }
}

#[test]
#[ignore = "long"]
fn a_flip_in_the_pages_is_refused_or_found_when_read() {
    for image in [Image::new(1), Image::adaptive(1)] {
        let [refused, hurt, intact, shorter] = flip(&image, |file| matches!(file, FileId::Pages(_)), 61, 10_007);
        assert!(refused > 100 && hurt > 100 && intact > 10 && shorter == 0);
    }
}

#[test]
#[ignore = "long"]
fn a_flip_in_a_hash_keyspace_is_refused_or_found_when_read() {
    let image = Image::hashed(1);
    let [refused, hurt, intact, shorter] = flip(&image, |file| matches!(file, FileId::Segment { .. }), 499, 100_003);
    assert!(refused > 50 && intact > 0 && [hurt, shorter] == [0; 2], "all of what counts is read by an opening");
    let [refused, hurt, _, shorter] = flip(&image, |file| matches!(file, FileId::Table { .. }), 499, 10_007);
    assert!(refused > 50 && hurt > 50 && shorter == 0);
}

/// Only a check finds a flip in a filter, since no answer needs the filter.
#[test]
#[ignore = "long"]
fn a_flip_in_the_tables_is_refused_or_found_when_read() {
    for image in [Image::lsm(1), Image::adaptive(1)] {
        let [refused, hurt, intact, shorter] = flip(&image, |file| matches!(file, FileId::Table { .. }), 113, 20_011);
        assert!(refused > 100 && hurt > 20 && intact > 0 && shorter == 0);
    }
}
