//! Small databases whose files are edited before they are opened.

use std::{collections::BTreeMap, sync::OnceLock};

use ecotone::{
    Error,
    internal::substrate::{limits::SECTOR, storage::FileId},
};
use ecotone_testkit::sim::SimStorage;

use crate::{exercise::exercise, image::Image, judge::examine, repaired::attempt, seal::seal};

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
    /// Reads edits from a fuzzer's input: file, sector, offset (two bytes), a length of up to 32, and as many bytes,
    /// again and again.
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

/// What a fuzzer's input says: which database, whether the checksums are put right, and the edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its place among [`ENGINES`], counted round.
    pub database: usize,
    /// Whether any change gets past the checksums.
    pub sealed: bool,
    /// What is changed.
    pub edits: Vec<Edit>,
}

impl Input {
    /// The lowest bit of the first byte is 1 where checksums are put right, and the others are the database's. Edits
    /// follow.
    pub fn parse(input: &[u8]) -> Option<Input> {
        let (&first, edits) = input.split_first()?;
        Some(Input { database: usize::from(first / 2), sealed: first % 2 == 1, edits: Edit::list(edits) })
    }
}

/// The engines of the databases' first keyspaces.
pub const ENGINES: [&str; 4] = ["tree", "hash", "lsm", "adaptive"];

/// The files of one of the databases.
pub fn files(database: usize) -> BTreeMap<FileId, Vec<u8>> {
    original(database).image.files()
}

/// Puts right checksums into the file's structures.
pub fn seal_file(file: FileId, bytes: &mut [u8]) {
    seal(file, bytes);
}

/// Opens the database with these edits and reads everything. If they are sealed, checksums are put right, any content
/// is right, and it is written to as well; otherwise every answer must be the right one.
pub fn damage(input: &Input) {
    let original = original(input.database);
    let disk = original.damaged(input);
    if input.sealed {
        exercise(&disk);
    } else {
        let verdict = examine(&disk, &original.image.states, "the edits");
        let clear = |error: &Error| {
            matches!(error, Error::Corruption { .. } | Error::NewerFormat { .. } | Error::NotADatabase { .. })
        };
        assert!(verdict.errors().iter().all(clear), "{verdict:?}");
    }
}

/// Repairs the database with these edits into a new one. Whatever they are, damage is no error, and the new database is
/// sound.
pub fn repair(input: &Input) {
    match attempt(&original(input.database).damaged(input)) {
        Err(error) if error.is_corruption() => panic!("{error}"),
        _ => {}
    }
}

/// The database before it is damaged.
struct Original {
    image: Image,
    /// The files, each with the offsets of its sectors that are not all zero.
    files: Vec<(FileId, Vec<u8>, Vec<usize>)>,
}

fn original(database: usize) -> &'static Original {
    static ORIGINALS: OnceLock<[Original; ENGINES.len()]> = OnceLock::new();
    let make = || [Image::of(1, 30), Image::hashed(1), Image::lsm(1), Image::adaptive(1)].map(Original::new);
    &ORIGINALS.get_or_init(make)[database % ENGINES.len()]
}

impl Original {
    fn new(image: Image) -> Original {
        let used = |bytes: &[u8]| {
            let sectors = bytes.chunks(SECTOR).enumerate().filter(|(_, sector)| sector.iter().any(|&byte| byte != 0));
            sectors.map(|(number, _)| number * SECTOR).collect::<Vec<_>>()
        };
        let file = |(file, bytes): (FileId, Vec<u8>)| {
            let used = used(&bytes);
            (file, bytes, used)
        };
        let files = image.files().into_iter().map(file).collect();
        Original { image, files }
    }

    /// A disk with the edited files, which have right checksums if they are sealed.
    fn damaged(&self, input: &Input) -> SimStorage {
        let mut changed = BTreeMap::new();
        input.edits.iter().for_each(|edit| self.apply(edit, &mut changed));
        let disk = self.image.copy();
        for (file, mut bytes) in changed {
            if input.sealed {
                seal(file, &mut bytes);
            }
            disk.put(file, &bytes);
        }
        disk
    }

    /// Makes one edit in the files that were changed so far.
    fn apply(&self, edit: &Edit, changed: &mut BTreeMap<FileId, Vec<u8>>) {
        let (file, bytes, used) = &self.files[usize::from(edit.file) % self.files.len()];
        let sector = used.get(usize::from(edit.sector) % used.len().max(1)).copied().unwrap_or(0);
        let place = changed.entry(*file).or_insert_with(|| bytes.clone());
        let start = sector + usize::from(edit.offset) % SECTOR;
        place.iter_mut().skip(start).zip(&edit.bytes).for_each(|(old, new)| *old = *new);
    }
}
