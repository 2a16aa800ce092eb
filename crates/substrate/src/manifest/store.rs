//! Manifests on disk.

use super::Manifest;
use crate::{
    Error, Result,
    limits::MAX_MANIFEST,
    storage::{Access, FileId, Storage},
};

impl Manifest {
    /// The newest valid manifest, or `None` if there is no database yet. An invalid one with a higher number was being stored when a crash came. A lone
    /// first manifest that is invalid is the trace of a creation that was interrupted: no keyspace existed yet.
    ///
    /// What is found is made durable, and its predecessors are removed, since the process that stored it may have died before it did so.
    ///
    /// # Errors
    /// `Corruption`, naming the newest, if there are manifests and none is valid; `NewerFormat` if the newest is of a later version.
    pub fn load(storage: &dyn Storage) -> Result<Option<Self>> {
        Self::newest(storage)?.map(|manifest| settle(storage, manifest)).transpose()
    }

    /// As [`load`](Self::load), for whoever only looks: nothing is changed.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn newest(storage: &dyn Storage) -> Result<Option<Self>> {
        let mut damage = None;
        for &number in numbers(storage)?.iter().rev() {
            match read(storage, number) {
                Ok(manifest) => return Ok(Some(manifest)),
                Err(error) if error.is_corruption() => {
                    tracing::warn!(%error, "a manifest is passed over");
                    damage = damage.or(Some((number, error)));
                }
                Err(error) => return Err(error),
            }
        }
        match damage {
            Some((1, _)) | None => Ok(None),
            Some((_, error)) => Err(error),
        }
    }

    /// Stores this manifest in a file of its own, durably, and then removes its predecessors, durably. Its number is higher than that of
    /// every valid one.
    ///
    /// # Errors
    /// `NoSpace` before anything changed, `Limit` above [`MAX_MANIFEST`] bytes; after any other error either manifest may be the valid one.
    pub fn store(&self, storage: &dyn Storage) -> Result<()> {
        let bytes = self.encode();
        if bytes.len() > MAX_MANIFEST {
            let (limit, actual) = (MAX_MANIFEST as u64, bytes.len() as u64);
            return Err(Error::Limit { what: "the length of the manifest in bytes", limit, actual });
        }
        let (others, leftovers): (Vec<_>, Vec<_>) = numbers(storage)?.into_iter().partition(|&number| number < self.number);
        remove(storage, &leftovers)?;
        if let Err(error) = write(storage, self.number, &bytes) {
            // The error of the file itself tells more than one of its removal would.
            let _ = storage.remove(FileId::Manifest(self.number));
            return Err(error);
        }
        sync_names(storage)?;
        remove(storage, &others)
    }
}

/// Numbers of the manifest files, ascending.
fn numbers(storage: &dyn Storage) -> Result<Vec<u64>> {
    let number = |id| if let FileId::Manifest(number) = id { Some(number) } else { None };
    let mut numbers: Vec<u64> = storage.list()?.into_iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn read(storage: &dyn Storage, number: u64) -> Result<Manifest> {
    let id = FileId::Manifest(number);
    let file = storage.open(id, Access::Cached)?;
    let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    if length > MAX_MANIFEST {
        return Err(Error::corruption(id, 0, "the manifest is longer than any"));
    }
    let mut bytes = vec![0; length];
    file.read(&mut bytes, 0)?;
    Manifest::decode(&bytes, number)
}

/// Finishes what the one who stored `manifest` may not have come to.
fn settle(storage: &dyn Storage, manifest: Manifest) -> Result<Manifest> {
    manifest.check_writable()?;
    let mut predecessors = numbers(storage)?;
    predecessors.retain(|number| *number < manifest.number);
    storage.open(FileId::Manifest(manifest.number), Access::Cached)?.sync()?;
    sync_names(storage)?;
    remove(storage, &predecessors)?;
    Ok(manifest)
}

fn write(storage: &dyn Storage, number: u64, bytes: &[u8]) -> Result<()> {
    let file = storage.create(FileId::Manifest(number), Access::Cached)?;
    file.preallocate(0, bytes.len() as u64)?;
    file.write(bytes, 0)?;
    file.sync()
}

fn remove(storage: &dyn Storage, numbers: &[u64]) -> Result<()> {
    numbers.iter().try_for_each(|&number| storage.remove(FileId::Manifest(number)))?;
    if numbers.is_empty() { Ok(()) } else { sync_names(storage) }
}

fn sync_names(storage: &dyn Storage) -> Result<()> {
    if bug!(SkipDirSync) { Ok(()) } else { storage.sync_dir() }
}
