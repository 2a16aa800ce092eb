//! Manifests on disk: two copies, of which either suffices (commit-and-recovery.md, invariants 1 to 4).

use std::io;

use super::Manifest;
use crate::{
    Error, Result,
    limits::{MAX_MANIFEST, PAGE},
    storage::{Access, File, FileId, Storage},
};

/// The numbers of both copies, in the order in which they are overwritten.
const COPIES: [u64; 2] = [1, 2];
/// Least bytes behind a manifest in its file, if the disk has space, since the next manifest is usually longer.
const RESERVE: u64 = 16 << 10;
/// A manifest of at most this many bytes is rewritten as a whole.
const WHOLE: usize = 64 << 10;

/// The manifest files of a directory.
struct Found {
    whole: Vec<(u64, Manifest)>,
    damaged: Vec<(u64, Error)>,
}

impl Manifest {
    /// The files of both copies.
    pub const FILES: [FileId; 2] = [FileId::Manifest(COPIES[0]), FileId::Manifest(COPIES[1])];

    /// The newest whole manifest, or `None` if there is no database yet. There is none if the directory has no copy, or
    /// only a first copy that is not whole: the trace of a creation that was interrupted before any keyspace existed.
    ///
    /// A copy that is damaged, missing or older is reported and overwritten by the newest. The newest is made durable
    /// before, since the process that stored it may have died in between. Equal copies are left alone.
    ///
    /// # Errors
    /// `Corruption` if there are copies and none is whole; `NewerFormat` if one is of a later version.
    pub fn load(storage: &dyn Storage) -> Result<Option<Self>> {
        let found = Found::read(storage)?;
        let Some((number, manifest)) = found.newest()? else { return Ok(None) };
        manifest.check_writable()?;
        found.settle(storage, *number, manifest)?;
        Ok(Some(manifest.clone()))
    }

    /// Like [`load`](Self::load), but read-only: nothing is changed.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn newest(storage: &dyn Storage) -> Result<Option<Self>> {
        Ok(Found::read(storage)?.newest()?.map(|(_, manifest)| manifest.clone()))
    }

    /// Makes both copies durable as they are. It comes before the first [`store`](Self::store) of a session: that
    /// overwrites one copy and relies on the other, and the process that wrote them may have died before its last sync.
    /// Copies that are equal say nothing of that.
    ///
    /// # Errors
    /// Those of a sync.
    pub fn sync(storage: &dyn Storage) -> Result<()> {
        for number in numbers(storage)? {
            open(storage, number)?.sync()?;
        }
        sync_names(storage)
    }

    /// Stores this manifest in both copies, durably. Each is whole before the other is touched. Its generation is
    /// higher than that of every whole copy.
    ///
    /// # Errors
    /// `NoSpace` before anything changed, `Limit` above [`MAX_MANIFEST`] bytes; after any other error either manifest
    /// may be the newest.
    pub fn store(&self, storage: &dyn Storage) -> Result<()> {
        let copies = COPIES.map(|copy| (copy, self.encode(copy)));
        let length = copies[0].1.len();
        if length > MAX_MANIFEST {
            let (limit, actual) = (MAX_MANIFEST as u64, length as u64);
            return Err(Error::Limit { what: "the length of the manifest in bytes", limit, actual });
        }
        let mut present = Vec::new();
        let mut absent = Vec::new();
        for (copy, bytes) in &copies {
            match open(storage, *copy) {
                Ok(file) => present.push((file, bytes)),
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    absent.push((*copy, bytes))
                }
                Err(error) => return Err(error),
            }
        }
        // A missing copy comes first: until then the other is the only whole one.
        present.iter().try_for_each(|(file, _)| reserve(&**file, length as u64))?;
        for (copy, bytes) in &absent {
            if let Err(error) = create(storage, *copy, bytes) {
                // The error of the file itself says more than an error of its removal.
                let _ = remove(storage, absent.iter().map(|(other, _)| other).filter(|other| *other < copy));
                return Err(error);
            }
        }
        present.iter().try_for_each(|(file, bytes)| overwrite(&**file, bytes))?;
        // Files of version 1 exist only if a copy was missing.
        let files = if absent.is_empty() { Vec::new() } else { numbers(storage)? };
        remove(storage, files.iter().filter(|number| !COPIES.contains(number)))
    }
}

impl Found {
    fn read(storage: &dyn Storage) -> Result<Self> {
        let mut found = Found { whole: Vec::new(), damaged: Vec::new() };
        for number in numbers(storage)? {
            match read(&*open(storage, number)?, number) {
                Ok(manifest) => found.whole.push((number, manifest)),
                // An unreadable sector is damage, and the other copy serves.
                Err(error @ (Error::Corruption { .. } | Error::Io { .. })) => {
                    tracing::warn!(%error, "a copy of the manifest is passed over");
                    found.damaged.push((number, error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The newest whole manifest, and the number of its file.
    fn newest(&self) -> Result<Option<&(u64, Manifest)>> {
        let newest = self.whole.iter().max_by_key(|(_, manifest)| manifest.generation);
        if let Some((stranger, _)) =
            self.whole.iter().find(|(_, other)| newest.is_some_and(|(_, newest)| newest.database != other.database))
        {
            let what = "it and the other copy belong to different databases; remove the one that does not belong here";
            return Err(Error::corruption(FileId::Manifest(*stranger), 0, what));
        }
        match (newest, self.damaged.as_slice()) {
            (None, [.., (_, error)]) if !matches!(self.damaged[..], [(1, Error::Corruption { .. })]) => {
                Err(error.clone())
            }
            _ => Ok(newest),
        }
    }

    /// Makes both copies equal to the newest manifest, which is in the file `number`.
    fn settle(&self, storage: &dyn Storage, number: u64, newest: &Manifest) -> Result<()> {
        let is_current = |copy: &u64| self.whole.iter().any(|(other, manifest)| other == copy && manifest == newest);
        let (mut current, behind): (Vec<u64>, Vec<u64>) = COPIES.iter().partition(|copy| is_current(copy));
        let mut others =
            self.whole.iter().map(|(number, _)| number).chain(self.damaged.iter().map(|(number, _)| number));
        if behind.is_empty() && others.all(|number| COPIES.contains(number)) {
            return Ok(());
        }
        open(storage, number)?.sync()?;
        sync_names(storage)?;
        let files = numbers(storage)?;
        for copy in behind {
            tracing::warn!(file = %FileId::Manifest(copy), "a copy of the manifest is made anew from the other");
            let is_there = files.contains(&copy);
            let bytes = newest.encode(copy);
            let made = if is_there { renew(storage, copy, &bytes) } else { create(storage, copy, &bytes) };
            match made {
                Ok(()) => current.push(copy),
                // The changes of this session may make an older copy wrong.
                Err(error) if error.is_no_space() => remove(storage, [copy].iter().filter(|_| is_there))?,
                Err(error) => return Err(error),
            }
        }
        remove(storage, files.iter().filter(|number| !COPIES.contains(number) && !current.is_empty()))
    }
}

/// Numbers of the manifest files, ascending.
fn numbers(storage: &dyn Storage) -> Result<Vec<u64>> {
    let number = |id| if let FileId::Manifest(number) = id { Some(number) } else { None };
    let mut numbers: Vec<u64> = storage.list()?.into_iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn open(storage: &dyn Storage, number: u64) -> Result<std::sync::Arc<dyn File>> {
    storage.open(FileId::Manifest(number), Access::Cached)
}

fn read(file: &dyn File, number: u64) -> Result<Manifest> {
    let length = usize::try_from(file.len()?).unwrap_or(usize::MAX).min(MAX_MANIFEST);
    let mut bytes = vec![0; length];
    file.read(&mut bytes, 0)?;
    Manifest::decode(&bytes, number)
}

/// Makes a file long enough for a manifest, with a reserve behind it if there is space for that.
fn reserve(file: &dyn File, length: u64) -> Result<()> {
    let has = file.len()?;
    if has >= length + RESERVE / 2 {
        return Ok(());
    }
    match file.preallocate(0, (length + RESERVE).next_multiple_of(RESERVE)) {
        Err(error) if error.is_no_space() && has >= length => Ok(()),
        Err(error) if error.is_no_space() => file.preallocate(0, length),
        reserved => reserved,
    }
}

/// Makes the file begin with these bytes, durably. Of a large manifest only the changed pages are written: one more
/// keyspace changes the first and the last.
fn overwrite(file: &dyn File, bytes: &[u8]) -> Result<()> {
    let mut there = vec![0; bytes.len()];
    // Unreadable bytes are overwritten.
    if bytes.len() <= WHOLE || file.read(&mut there, 0).is_err() {
        file.write(bytes, 0)?;
    } else {
        let pages = bytes.chunks(PAGE).zip(there.chunks(PAGE)).zip((0..).step_by(PAGE));
        pages.filter(|((new, old), _)| new != old).try_for_each(|((new, _), offset)| file.write(new, offset))?;
    }
    file.sync()
}

/// Overwrites a copy that may be too short.
fn renew(storage: &dyn Storage, number: u64, bytes: &[u8]) -> Result<()> {
    let file = open(storage, number)?;
    reserve(&*file, bytes.len() as u64)?;
    overwrite(&*file, bytes)
}

/// Makes a copy and its name durable. After a failure the copy does not exist.
fn create(storage: &dyn Storage, number: u64, bytes: &[u8]) -> Result<()> {
    let file = storage.create(FileId::Manifest(number), Access::Cached)?;
    let made = reserve(&*file, bytes.len() as u64).and_then(|()| overwrite(&*file, bytes));
    drop(file);
    match made {
        Ok(()) => sync_names(storage),
        Err(error) => {
            let _ = storage.remove(FileId::Manifest(number));
            Err(error)
        }
    }
}

/// Removes files, durably.
fn remove<'a>(storage: &dyn Storage, numbers: impl Iterator<Item = &'a u64>) -> Result<()> {
    let mut removed = 0;
    for number in numbers {
        storage.remove(FileId::Manifest(*number))?;
        removed += 1;
    }
    if removed == 0 { Ok(()) } else { sync_names(storage) }
}

fn sync_names(storage: &dyn Storage) -> Result<()> {
    if bug!(SkipDirSync) { Ok(()) } else { storage.sync_dir() }
}
