//! Golden databases, as each version wrote them, kept under `fixtures`. Every later version opens them and finds the
//! same records. `ECOTONE_BLESS=1` rewrites the newest one, for each engine whose test is run. That is right only if no
//! version that wrote the old one was released. Version 2 has marks in the log. Version 3 has two copies of the
//! manifest, log segments that name their successors, and hash runs with a checksum for each page of tags. Version 4
//! has a manifest that knows unwritten keyspaces.

use std::{fmt::Write, fs, path::PathBuf};

use ecotone::internal::substrate::storage::FileId;
use ecotone_sys::checksum::crc32c;
use ecotone_testkit::{
    model::{Key, State},
    sim::SimStorage,
};

use super::{
    image::Image,
    judge::{Verdict, examine},
};

const LINE: usize = 64;

fn directory(store: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(store)
}

/// A file as text: its length, then each line of bytes that are not all zero, behind its offset.
fn to_text(bytes: &[u8]) -> String {
    let mut text = format!("length {}\n", bytes.len());
    for (i, line) in bytes.chunks(LINE).enumerate().filter(|(_, line)| line.iter().any(|&byte| byte != 0)) {
        let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{:x} {hex}", i * LINE).unwrap();
    }
    text
}

fn from_text(text: &str) -> Vec<u8> {
    let (first, lines) = text.split_once('\n').unwrap();
    let mut bytes = vec![0; first.strip_prefix("length ").unwrap().parse().unwrap()];
    for (offset, hex) in lines.lines().map(|line| line.split_once(' ').unwrap()) {
        let offset = usize::from_str_radix(offset, 16).unwrap();
        for (i, digits) in hex.as_bytes().chunks(2).enumerate() {
            bytes[offset + i] = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
        }
    }
    bytes
}

/// One record a line: keyspace, key, length and checksum of the value.
fn content(state: &State) -> String {
    let line = |((keyspace, key), value): (&Key, &Vec<u8>)| {
        format!("{keyspace} {} {} {:08x}\n", key.escape_ascii(), value.len(), crc32c(0, value))
    };
    state.iter().map(line).collect()
}

fn bless(store: &str, image: &Image) {
    let directory = directory(store);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    for (file, bytes) in image.files() {
        fs::write(directory.join(format!("{file}.hex")), to_text(&bytes)).unwrap();
    }
    fs::write(directory.join("content.txt"), content(image.now())).unwrap();
}

#[test]
fn the_golden_stores_of_trees_open_and_hold_what_they_held() {
    hold_what_they_held(&["v1/tree", "v2/tree", "v3/tree", "v4/tree"], &Image::of(1, 30));
}

#[test]
fn the_golden_stores_of_hash_keyspaces_open_and_hold_what_they_held() {
    hold_what_they_held(&["v2/hash", "v3/hash", "v4/hash"], &Image::hashed(1));
}

#[test]
fn the_golden_stores_of_lsm_keyspaces_open_and_hold_what_they_held() {
    hold_what_they_held(&["v2/lsm", "v3/lsm", "v4/lsm"], &Image::lsm(1));
}

#[test]
fn the_golden_stores_of_adaptive_keyspaces_open_and_hold_what_they_held() {
    hold_what_they_held(&["v2/adaptive", "v3/adaptive", "v4/adaptive"], &Image::adaptive(1));
}

/// Checks all stores of an engine. The newest comes last.
fn hold_what_they_held(stores: &[&str], image: &Image) {
    if let Some(newest) = stores.last().filter(|_| std::env::var_os("ECOTONE_BLESS").is_some()) {
        bless(newest, image);
    }
    stores.iter().for_each(|store| holds_what_it_held(store, image));
}

fn holds_what_it_held(store: &str, image: &Image) {
    let disk = SimStorage::new(1);
    for entry in fs::read_dir(directory(store)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some(file) = name.strip_suffix(".hex").and_then(FileId::parse) {
            disk.put(file, &from_text(&fs::read_to_string(&path).unwrap()));
        }
    }
    let held = fs::read_to_string(directory(store).join("content.txt")).unwrap();
    assert_eq!(held, content(image.now()), "the test itself was changed: bless anew");
    let verdict = examine(&disk, std::slice::from_ref(image.now()), store);
    assert!(matches!(verdict, Verdict::Intact), "{store}: {verdict:?}");
}

#[test]
fn text_and_bytes_are_the_same() {
    let bytes: Vec<u8> = (0..1000_usize).map(|i| if (200..600).contains(&i) { 0 } else { i as u8 }).collect();
    assert_eq!(from_text(&to_text(&bytes)), bytes);
}
