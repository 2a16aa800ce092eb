//! What the keyspaces of several engines do with files that are written once.

use ecotone_substrate::{
    Result, bug,
    limits::MAX_TABLES,
    storage::{FileId, Storage},
    table::File,
    wal::Durability,
};

use crate::engine::Context;

/// Numbers and births that were given to the files of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The number of the last file.
    last: u32,
    /// Files that were made in this life.
    births: u32,
}

impl Numbers {
    /// Goes on behind the highest that is named.
    pub(crate) fn behind(highest: Option<u32>) -> Numbers {
        Numbers { last: highest.unwrap_or(0), births: 0 }
    }

    /// A number that is not taken, and a birth that no file of the keyspace has or had: the life is told by its log's incarnation.
    pub(crate) fn next(&mut self, context: &Context, taken: impl Fn(u32) -> bool) -> File {
        let life = context.shared.wal.incarnation() << 32;
        self.births = self.births.checked_add(1).expect("a life has fewer files");
        loop {
            self.last = if self.last + 1 < MAX_TABLES { self.last + 1 } else { 1 };
            if !taken(self.last) {
                return File { number: self.last, birth: life | u64::from(self.births) };
            }
        }
    }
}

/// Removes the files of a keyspace that nothing names.
pub(crate) fn remove_strays(storage: &dyn Storage, keyspace: u32, named: &[FileId]) -> Result<()> {
    let mine = |file: &FileId| file.keyspace() == Some(keyspace);
    let strays: Vec<FileId> = storage.list()?.into_iter().filter(|file| mine(file) && !named.contains(file)).collect();
    strays.iter().try_for_each(|file| storage.remove(*file))?;
    if strays.is_empty() { Ok(()) } else { storage.sync_dir() }
}

impl Context {
    /// The write-ahead rule, for everything that was appended before.
    pub(crate) fn sync_log(&self) -> Result<()> {
        if !self.logged || bug!(SkipWriteAhead) {
            return Ok(());
        }
        let wal = &self.shared.wal;
        wal.commit(wal.tail(), Durability::Sync)
    }
}
