//! A small database whose files are edited before it is opened.

use std::{collections::BTreeMap, sync::OnceLock};

use ecotone::{Database, Error, Keyspace, internal::substrate::storage::FileId};
use ecotone_testkit::sim::SimStorage;

use crate::{
    image::{self, Image},
    judge::examine,
    seal::seal,
};

/// Bytes to write over a file of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Which file, in the order of their names, counted round.
    pub file: u8,
    /// Which 512-byte sector among those that hold something, counted round.
    pub sector: u8,
    /// Where in the sector, counted round.
    pub offset: u16,
    /// What to write there.
    pub bytes: Vec<u8>,
}

impl Edit {
    /// Reads edits from a fuzzer's input: file, sector, offset (two bytes), a length of up to 32, and as many bytes, again and again.
    pub fn list(mut input: &[u8]) -> Vec<Edit> {
        let mut edits = Vec::new();
        while let Some((&[file, sector, low, high, length], rest)) = input.split_first_chunk() {
            let (bytes, rest) = rest.split_at(rest.len().min(usize::from(length % 33)));
            edits.push(Edit { file, sector, offset: u16::from_le_bytes([low, high]), bytes: bytes.to_vec() });
            input = rest;
        }
        edits
    }
}

/// The files of the database that is damaged.
pub fn files() -> BTreeMap<FileId, Vec<u8>> {
    original().files()
}

/// Puts right checksums into the file's structures.
pub fn seal_file(file: FileId, bytes: &mut [u8]) {
    seal(file, bytes);
}

/// Opens the database with these edits and reads everything. If they are `sealed`, checksums are put right, any content is right, and it is
/// written to as well; otherwise every answer must be the right one.
pub fn damage(edits: &[Edit], sealed: bool) {
    let image = original();
    let mut files = image.files();
    let changed: Vec<FileId> = edits.iter().filter_map(|edit| apply(edit, &mut files)).collect();
    let disk = image.copy();
    for file in changed {
        let Some(bytes) = files.get_mut(&file) else { continue };
        if sealed {
            seal(file, bytes);
        }
        disk.put(file, bytes);
    }
    if sealed {
        use_it(&disk);
    } else {
        let verdict = examine(&disk, &image.states, "the edits");
        let clear = |error: &Error| matches!(error, Error::Corruption { .. } | Error::NewerFormat { .. } | Error::NotADatabase { .. });
        assert!(verdict.errors().iter().all(clear), "{verdict:?}");
    }
}

fn original() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| Image::of(1, 30))
}

/// Gives the file that was changed.
fn apply(edit: &Edit, files: &mut BTreeMap<FileId, Vec<u8>>) -> Option<FileId> {
    let choice = usize::from(edit.file) % files.len();
    let (&file, bytes) = files.iter_mut().nth(choice)?;
    let used: Vec<usize> = (0..bytes.len().div_ceil(512))
        .filter(|sector| bytes.iter().skip(sector * 512).take(512).any(|&byte| byte != 0))
        .collect();
    let sector = used.get(usize::from(edit.sector) % used.len().max(1)).copied().unwrap_or(0);
    let start = sector * 512 + usize::from(edit.offset) % 512;
    bytes.iter_mut().skip(start).zip(&edit.bytes).for_each(|(old, new)| *old = *new);
    Some(file)
}

/// Whatever the content: no panic.
fn use_it(disk: &SimStorage) {
    let Ok(database) = image::open(disk, 7) else { return };
    for info in database.keyspaces() {
        let Ok(keyspace) = database.open_keyspace(&info.name) else { continue };
        read(&keyspace);
        write(&keyspace);
    }
    let _ = database.verify();
    let _ = database.flush();
    after_flush(&database);
    image::abandon(disk, database);
}

fn read(keyspace: &Keyspace) {
    let forward: Vec<_> = keyspace.iter().take(10_000).map_while(Result::ok).collect();
    keyspace.iter().rev().take(10_000).map_while(Result::ok).for_each(drop);
    forward.iter().for_each(|(key, _)| _ = keyspace.get(key));
    let _ = keyspace.multi_get((0..60_u32).map(|i| format!("key/{:06}", i * 10)));
}

fn write(keyspace: &Keyspace) {
    for i in 0..20_u32 {
        let _ = keyspace.insert(format!("key/{:06}", i * 17), vec![i as u8; 100]);
        let _ = keyspace.remove(format!("key/{:06}", i * 10));
    }
}

fn after_flush(database: &Database) {
    database.keyspaces().iter().filter_map(|info| database.open_keyspace(&info.name).ok()).for_each(|keyspace| read(&keyspace));
}
