//! The cache of loaded stores below `--dir`: one directory for each combination of records and settings, and in it one
//! for each store.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde_json::Value;

use crate::{
    error::{Context, Result},
    size,
};

/// Maximum size of all states together.
pub(super) const MOST_BYTES: u64 = 20_000_000_000;
/// The file in which `run` describes a directory.
const NAME: &str = "bench.json";
/// Bytes that must stay free in the file system.
const RESERVE_BYTES: u64 = 1 << 30;

/// The directory of all states.
#[derive(Debug)]
pub(super) struct States {
    path: PathBuf,
}

impl States {
    /// The states below `directory`, which need not exist.
    pub(super) fn new(directory: &Path) -> Self {
        States { path: directory.join("states") }
    }

    /// The directory of a state's store.
    pub(super) fn store(&self, state: &str, store: &str) -> PathBuf {
        self.path.join(state).join(store)
    }

    /// The directory of a state's stores.
    pub(super) fn state(&self, state: &str) -> PathBuf {
        self.path.join(state)
    }

    /// Whether the store exists and is finished.
    pub(super) fn is_ready(&self, state: &str, store: &str) -> bool {
        let text = fs::read_to_string(self.store(state, store).join(NAME)).unwrap_or_default();
        serde_json::from_str::<Value>(&text).is_ok_and(|found| found["finished"] == true)
    }

    /// Whether a store exists, finished or not.
    pub(super) fn is_store(&self, state: &str, store: &str) -> bool {
        self.store(state, store).join(NAME).exists()
    }

    /// Removes a state's store, if it exists.
    pub(super) fn remove(&self, state: &str, store: &str) -> Result<()> {
        remove(&self.store(state, store))
    }

    /// Makes space for `bytes` more: removes the states other than `kept`, those longest unused first, until all fit
    /// below `most` and into the file system.
    ///
    /// # Errors
    /// If they do not fit even so.
    pub(super) fn make_space(&self, bytes: u64, kept: &[String], most: u64) -> Result<()> {
        fs::create_dir_all(&self.path).context("create", &self.path)?;
        let mut others = self.others(kept)?;
        loop {
            let (used, free) = (disk_usage(&self.path)?, free_bytes(&self.path)?);
            if used + bytes <= most && bytes + RESERVE_BYTES <= free {
                return Ok(());
            }
            match others.pop() {
                Some((_, oldest)) => remove(&oldest)?,
                None => {
                    return Err(too_little(
                        &self.path,
                        bytes,
                        most.saturating_sub(used).min(free.saturating_sub(RESERVE_BYTES)),
                    ));
                }
            }
        }
    }

    /// The states except `kept`, with the time of their last use, the least recently used last.
    fn others(&self, kept: &[String]) -> Result<Vec<(SystemTime, PathBuf)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).context("read", &self.path)? {
            let entry = entry.context("read", &self.path)?;
            if !kept.iter().any(|name| entry.file_name() == name.as_str()) {
                found.extend(last_use(&entry.path())?.map(|time| (time, entry.path())));
            }
        }
        found.sort_by(|one, other| other.cmp(one));
        Ok(found)
    }
}

/// The last time that a store of a state was opened; every open rewrites its `bench.json`. `None` for a directory
/// without stores, which this program did not create.
fn last_use(state: &Path) -> Result<Option<SystemTime>> {
    let mut last = None;
    for entry in fs::read_dir(state).context("read", state)? {
        let file = entry.context("read", state)?.path().join(NAME);
        last = last.max(fs::metadata(&file).and_then(|metadata| metadata.modified()).ok());
    }
    Ok(last)
}

/// Allocated bytes of everything below `path`.
pub(super) fn disk_usage(path: &Path) -> Result<u64> {
    let metadata = fs::symlink_metadata(path).context("look at", path)?;
    let mut bytes = metadata.blocks() * 512;
    if metadata.is_dir() {
        for entry in fs::read_dir(path).context("read", path)? {
            bytes += disk_usage(&entry.context("read", path)?.path())?;
        }
    }
    Ok(bytes)
}

/// Free bytes in the file system of `path`.
fn free_bytes(path: &Path) -> Result<u64> {
    let found = rustix::fs::statvfs(path).context("ask for the free space of", path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn remove(path: &Path) -> Result<()> {
    if path.exists() { fs::remove_dir_all(path).context("remove", path) } else { Ok(()) }
}

fn too_little(path: &Path, needed: u64, there: u64) -> crate::error::Error {
    format!("the stores need {} in {}, and there are {}", size::show(needed), path.display(), size::show(there)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(states: &States, state: &str, store: &str, bytes: usize) {
        let directory = states.store(state, store);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("bench.json"), br#"{"finished": true}"#).unwrap();
        fs::write(directory.join("data"), vec![7; bytes]).unwrap();
    }

    #[test]
    fn the_state_longest_unused_goes_first() {
        let temporary = tempfile::tempdir().unwrap();
        let states = States::new(temporary.path());
        for (age, state) in ["newest", "kept", "oldest"].into_iter().enumerate() {
            put(&states, state, "tree", 1 << 20);
            let file = fs::File::options().write(true).open(states.store(state, "tree").join("bench.json")).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(60 * age as u64)).unwrap();
        }
        let kept = ["kept".to_owned()];
        fs::create_dir(states.state("photographs")).unwrap();
        states.make_space(1 << 20, &kept, 4 << 20 | 1 << 19).unwrap();
        let ready = |state| states.is_ready(state, "tree");
        assert!(ready("oldest") && ready("newest"));
        states.make_space(1 << 20, &kept, 3 << 20 | 1 << 19).unwrap();
        assert!(!ready("oldest") && ready("newest"));
        states.make_space(1 << 20, &kept, 2 << 20 | 1 << 19).unwrap();
        assert!(ready("kept") && !ready("newest"));
        let told = states.make_space(2 << 20, &kept, 2 << 20 | 1 << 19).unwrap_err().to_string();
        assert!(ready("kept") && told.contains("need 2.0 MiB"), "{told}");
        assert!(states.state("photographs").exists(), "what is not a state stays");
    }

    #[test]
    fn a_store_is_ready_when_it_is_finished() {
        let temporary = tempfile::tempdir().unwrap();
        let states = States::new(temporary.path());
        assert!(!states.is_ready("some", "tree"));
        put(&states, "some", "tree", 1);
        assert!(states.is_ready("some", "tree"));
        fs::write(states.store("some", "tree").join("bench.json"), br#"{"finished": false}"#).unwrap();
        assert!(!states.is_ready("some", "tree"));
        states.remove("some", "tree").unwrap();
        assert!(!states.store("some", "tree").exists());
    }

    #[test]
    fn a_full_file_system_is_told() {
        let temporary = tempfile::tempdir().unwrap();
        let told = States::new(temporary.path()).make_space(1 << 60, &[], u64::MAX).unwrap_err().to_string();
        assert!(told.contains("need"), "{told}");
    }
}
