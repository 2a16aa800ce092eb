//! The directory of the demonstration's database.

use std::path::Path;

use tempfile::TempDir;

use crate::{
    demo::{child::ChildGuard, report::mib},
    failure::{Failure, warn},
};

/// A fresh directory. It is removed when the value is dropped or the process dies, unless the user keeps it.
pub(crate) struct Directory {
    directory: TempDir,
    /// Declared last, so that the sweeper guards the directory until the directory is removed.
    sweeper: Option<ChildGuard>,
}

impl Directory {
    /// Creates the directory in `parent`, or in the system's directory for temporary files, if `wanted` bytes are free
    /// there.
    pub(crate) fn new(parent: Option<&Path>, keep: bool, wanted: u64) -> Result<Self, Failure> {
        let system = std::env::temp_dir();
        let parent = parent.unwrap_or(&system);
        let refused = |error: std::io::Error| {
            Failure::Told(format!(
                "cannot make a directory in {}: {error}; choose another place with --dir",
                parent.display()
            ))
        };
        let space = rustix::fs::statvfs(parent).map_err(|error| refused(error.into()))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < wanted {
            let (wanted, free, parent) = (mib(wanted), mib(free), parent.display());
            return Err(Failure::Told(format!(
                "the demo needs {wanted} of disk, and {parent} has {free}; choose another place with --dir"
            )));
        }
        let directory = tempfile::Builder::new()
            .prefix("ecotone-demo-")
            .disable_cleanup(keep)
            .tempdir_in(parent)
            .map_err(refused)?;
        let sweeper = if keep { None } else { Some(ChildGuard::sweeper(directory.path())?) };
        Ok(Directory { directory, sweeper })
    }

    /// Keeps the directory, unless it is empty, so that a failure can be examined.
    pub(crate) fn keep(&mut self) {
        if std::fs::read_dir(self.path()).is_ok_and(|mut entries| entries.next().is_none()) {
            return;
        }
        self.directory.disable_cleanup(true);
        drop(self.sweeper.take());
        warn(&format!("the database stays at {}", self.path().display()));
    }

    /// The path of the database.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

#[cfg(test)]
mod tests {
    use super::Directory;

    #[test]
    fn goes_or_stays_and_asks_for_space() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let made = |keep| Directory::new(Some(parent.path()), keep, 1).expect("there is room");
        let (gone, kept) = (made(false), made(true));
        let paths = [gone.path().to_owned(), kept.path().to_owned()];
        drop((gone, kept));
        assert_eq!(paths.map(|path| path.exists()), [false, true]);
        assert!(Directory::new(Some(parent.path()), false, u64::MAX).is_err());
        assert!(Directory::new(Some(&parent.path().join("missing")), false, 1).is_err());
    }
}
