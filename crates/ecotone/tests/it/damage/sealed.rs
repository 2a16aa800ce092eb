//! Changes that checksums do not show, as an attacker makes them. The database may answer anything, but does not panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ecotone::internal::substrate::storage::FileId;

use super::{
    exercise::exercise,
    image::{Image, MANIFESTS},
    seal::seal,
};

fn ordered() -> Image {
    Image::of(1, 30)
}

/// Changes single bytes that are not zero, every `stride`-th, of the files that `which` takes. Every third change is of
/// one bit, the others make the byte 0 or 255.
fn change(image: &Image, which: impl Fn(FileId) -> bool, stride: usize) {
    let stride = if std::env::var_os("ECOTONE_FULL").is_some() { 1 } else { stride };
    let mut panics = Vec::new();
    for (file, bytes) in image.files().into_iter().filter(|(file, _)| which(*file)) {
        let used = (0..bytes.len()).filter(|&offset| bytes[offset] != 0).step_by(stride);
        for (number, offset) in used.enumerate() {
            let mut changed = bytes.clone();
            changed[offset] = match number % 3 {
                0 => changed[offset] ^ (1 << (number / 3 % 8)),
                1 => 0,
                _ => 255,
            };
            let place = format!("byte {offset} of {file} made {}", changed[offset]);
            seal(file, &mut changed);
            let disk = if file == MANIFESTS[0] { image.with_one_manifest() } else { image.copy() };
            disk.put(file, &changed);
            if catch_unwind(AssertUnwindSafe(|| exercise(&disk))).is_err() {
                eprintln!("the panic above came after: {place}");
                panics.push(place);
            }
        }
    }
    assert!(panics.is_empty(), "{} panics: {panics:#?}", panics.len());
}

fn others() -> [Image; 3] {
    [Image::hashed(1), Image::lsm(1), Image::adaptive(1)]
}

#[test]
fn changed_manifests_do_not_panic() {
    change(&ordered(), |file| file == MANIFESTS[0], 1);
    others().iter().for_each(|image| change(image, |file| file == MANIFESTS[0], 3));
}

#[test]
#[ignore = "long"]
fn changed_logs_do_not_panic() {
    change(&ordered(), |file| matches!(file, FileId::Log(_)), 167);
    others()
        .iter()
        .zip([9_973, 307, 307])
        .for_each(|(image, stride)| change(image, |file| matches!(file, FileId::Log(_)), stride));
}

#[test]
fn changed_double_write_areas_do_not_panic() {
    [ordered(), Image::adaptive(1)]
        .iter()
        .for_each(|image| change(image, |file| matches!(file, FileId::Double(_)), 83));
}

#[test]
fn changed_pages_do_not_panic() {
    change(&ordered(), |file| matches!(file, FileId::Pages(_)), 29);
    change(&Image::adaptive(1), |file| file == FileId::Pages(1), 97);
}

#[test]
#[ignore = "long"]
fn changed_segments_do_not_panic() {
    change(&Image::hashed(1), |file| matches!(file, FileId::Segment { .. }), 211);
}

#[test]
fn changed_runs_do_not_panic() {
    change(&Image::hashed(1), |file| matches!(file, FileId::Table { .. }), 997);
}

#[test]
#[ignore = "long"]
fn changed_tables_do_not_panic() {
    for image in [Image::lsm(1), Image::adaptive(1)] {
        change(&image, |file| matches!(file, FileId::Table { .. }), 167);
    }
}
