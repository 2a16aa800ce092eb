//! Files that lost their end or a bit: an error that says so, or the right answer; never a panic, never wrong records.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::harness::Place;

/// Offsets that are tried in each file, spread over it.
const PLACES: usize = 12;

fn sample() -> Place {
    let lines: String = (0..400).map(|line| format!("key {line:04}\tvalue {line}\n")).collect();
    Place::with_lines(&lines)
}

fn files(database: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(database).expect("a directory").flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Dumps the database, with `path` damaged. Tells whether the damage was noticed.
fn survives(place: &Place, path: &Path, damaged: &[u8], right: &[u8]) -> bool {
    let originals: Vec<_> =
        files(&place.path()).into_iter().map(|path| (fs::read(&path).expect("a file"), path)).collect();
    fs::write(path, damaged).expect("a file");
    let dump = place.run("dump", &[]);
    let verify = place.run("verify", &[]);
    fs::remove_dir_all(place.path()).expect("a directory");
    fs::create_dir(place.path()).expect("a directory");
    originals.iter().for_each(|(bytes, path)| fs::write(path, bytes).expect("a file"));
    let name = path.display();
    match dump.code {
        0 => assert!(dump.stdout == right, "{name}: wrong records"),
        1 => assert!(!dump.stderr.trim().is_empty() && right.starts_with(&dump.stdout), "{name}: {}", dump.stderr),
        code => panic!("{name}: exit code {code}, {}", dump.stderr),
    }
    dump.code == 1 || verify.code == 1
}

#[test]
fn flipped_bits() {
    let place = sample();
    let right = place.run("dump", &[]).good().stdout;
    let mut noticed = Vec::new();
    for path in files(&place.path()) {
        let bytes = fs::read(&path).expect("a file");
        // The beginning of a file is tried byte by byte, the rest here and there.
        let spread = (0..PLACES).map(|place| bytes.len() * place / PLACES);
        for at in (0..bytes.len().min(4)).chain(spread).filter(|&at| at < bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            if survives(&place, &path, &damaged, &right) {
                noticed.push(path.file_name().expect("a name").to_string_lossy().into_owned());
            }
        }
    }
    assert!(
        noticed.iter().any(|name| name.starts_with("pages.")),
        "no damage in pages.* was noticed, only in {noticed:?}"
    );
    assert!(!noticed.iter().any(|name| name.starts_with("manifest.")), "a copy of the manifest was missed");
    assert!(place.run("dump", &[]).good().stdout == right, "the restored database differs");
}

#[test]
fn truncated_files() {
    let place = sample();
    let right = place.run("dump", &[]).good().stdout;
    for path in files(&place.path()) {
        let bytes = fs::read(&path).expect("a file");
        for length in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let noticed = survives(&place, &path, &bytes[..length], &right);
            let has_copy = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("manifest."));
            assert!(!noticed || !has_copy, "{} of {length} bytes was missed, though there is a copy", path.display());
        }
    }
    assert!(place.run("dump", &[]).good().stdout == right, "the restored database differs");
}
