//! Errors by what the caller can do about them; detail is context.

use std::{fmt, io, path::PathBuf, sync::Arc};

/// The result of anything that can fail in Ecotone.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, by what the caller can do.
///
/// There is a variant for each thing that a caller can do; everything else is context in it. `Display` writes a whole
/// sentence, with the remedy where it is not obvious. An error is cheap to clone, since one failed write answers many
/// waiters.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes on disk are not what was written there. Restore a backup, or save what can be read with `ecotone repair`.
    /// If the database opens, `ecotone verify` lists all damage.
    #[error("{file} is corrupt at byte {offset}: {what}")]
    Corruption {
        /// Name of the file inside the database directory; or what is damaged, such as `log`, where the damage lies in
        /// no single file.
        file: String,
        /// Byte offset of the damage, or of the structure that holds it; a position in the log if `file` names the log.
        offset: u64,
        /// What was expected there.
        what: String,
    },
    /// The disk is full. Reads go on; writes fail with this until there is space again, without reopening.
    #[error(
        "no space left on the disk for {wanted} more bytes of {file}; free some space, writing then resumes by itself"
    )]
    NoSpace {
        /// Name of the file that could not grow.
        file: String,
        /// Bytes asked for.
        wanted: u64,
    },
    /// Live data fills the disk budget of a keyspace. Reads and deletes go on; writes that add data fail with this
    /// until enough was deleted, without reopening.
    #[error(
        "what lives in the keyspace fills its disk budget of {budget} bytes; delete some of it, writing then resumes \
        by itself, or copy it into a keyspace with a larger option `disk`"
    )]
    DiskBudget {
        /// The budget in bytes.
        budget: u64,
    },
    /// An earlier write or sync failed, so nothing more is written. Reads go on. Reopen the database to recover what is
    /// durable.
    #[error("the database stopped writing after a failure: {cause}; reopen it to recover everything that is durable")]
    Poisoned {
        /// The failure that stopped it.
        cause: Arc<Error>,
    },
    /// A limit of Ecotone, see [`limits`](crate::limits).
    #[error("{what} is {actual}, and {} {limit}", if actual < limit { "must be at least" } else { "the limit is" })]
    Limit {
        /// What is limited, with its unit.
        what: &'static str,
        /// The largest (or, for a minimum, the smallest) that is accepted.
        limit: u64,
        /// What was given.
        actual: u64,
    },
    /// The arguments contradict each other or the state of the database.
    #[error("{0}")]
    Invalid(String),
    /// The memory budget has no space for this, even after all caches have given memory back.
    #[error("the memory budget of {budget} bytes has no room for {what}; open the database with a larger one")]
    Memory {
        /// What asked for memory.
        what: &'static str,
        /// The budget in bytes.
        budget: u64,
    },
    /// Another process (or another handle of this one) has the database open for writing.
    #[error("the database at {} is open elsewhere; close it there first", path.display())]
    Locked {
        /// Directory of the database.
        path: PathBuf,
    },
    /// The path holds no database.
    #[error("{} is not an Ecotone database: {why}", path.display())]
    NotADatabase {
        /// The path that was given.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The database was written by a newer Ecotone, or uses a feature that this one does not know.
    #[error("{file} has format {found}, and this version of Ecotone reads up to {known}; open it with a newer one")]
    NewerFormat {
        /// Name of the file.
        file: String,
        /// Version or feature bits found.
        found: u64,
        /// The newest known.
        known: u64,
    },
    /// No keyspace has this name.
    #[error("there is no keyspace named {name:?}")]
    UnknownKeyspace {
        /// The name asked for.
        name: String,
    },
    /// The keyspace or the database was closed or dropped while a handle of it was in use.
    #[error("{what} was closed or dropped")]
    Closed {
        /// What was closed.
        what: &'static str,
    },
    /// Another process opened the database, and this one was forked from it. Nothing of the database may be used here,
    /// and dropping it here does nothing: the other process goes on with it.
    #[error(
        "the database was opened before this process was forked off, and is the other process's; open one here, once \
        that has closed it"
    )]
    Forked,
    /// The operating system refused an operation.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or directory.
        file: String,
        /// The system's answer.
        source: Arc<io::Error>,
    },
}

impl Error {
    /// Returns an operating-system error with what was tried on which file.
    pub fn io(action: &'static str, file: impl fmt::Display, source: io::Error) -> Self {
        Error::Io { action, file: file.to_string(), source: Arc::new(source) }
    }

    /// Returns the error for damage found in `file` at `offset`.
    pub fn corruption(file: impl fmt::Display, offset: u64, what: impl Into<String>) -> Self {
        Error::Corruption { file: file.to_string(), offset, what: what.into() }
    }

    /// Returns whether the bytes on disk are to blame.
    pub fn is_corruption(&self) -> bool {
        matches!(self, Error::Corruption { .. })
    }

    /// Returns whether a full disk, or a full disk budget, is to blame, so that the same call can succeed later.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Error::NoSpace { .. } | Error::DiskBudget { .. })
    }

    /// Returns whether memory or disk space was short, so that the same call can succeed later.
    pub fn is_shortage(&self) -> bool {
        self.is_no_space() || matches!(self, Error::Memory { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn a_limit_says_on_which_side_it_is() {
        let told = |limit, actual| Error::Limit { what: "the size", limit, actual }.to_string();
        assert_eq!(told(10, 11), "the size is 11, and the limit is 10");
        assert_eq!(told(1, 0), "the size is 0, and must be at least 1");
    }
}
