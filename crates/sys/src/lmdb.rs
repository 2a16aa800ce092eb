//! Opens LMDB for the benchmark. Mapping a file that others could change is `unsafe`, so it is done here.

use std::path::Path;

use heed::{Env, EnvFlags, EnvOpenOptions, Result};

/// How an environment is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The largest size of the database in bytes, which is also the length of the mapping; a multiple of 4096.
    pub map_size: usize,
    /// The most threads that read at once.
    pub readers: u32,
    /// Whether a commit waits for the disk. If not, a power failure may damage the whole database.
    pub sync: bool,
}

/// Opens the environment in `directory`, or creates it. It does not read ahead, and does not zero fresh pages.
///
/// # Errors
/// As LMDB reports them: the directory is missing, the file is no database, the mapping does not fit.
pub fn open(directory: &Path, options: Options) -> Result<Env> {
    let mut flags = EnvFlags::NO_READ_AHEAD | EnvFlags::NO_MEM_INIT;
    flags.set(EnvFlags::NO_SYNC, !options.sync);
    let mut builder = EnvOpenOptions::new();
    builder.map_size(options.map_size).max_readers(options.readers);
    // SAFETY: none of the three flags turns LMDB's own locking off. NO_SYNC lets a power failure damage the file, which
    // its opener notices no better than other damage on disk; a store that is to be opened after one is made with
    // `sync`.
    unsafe { builder.flags(flags) };
    // SAFETY: the mapping is sound while nobody else changes the file. LMDB's lock file keeps other users of LMDB
    // apart, heed opens a directory once in a process, and the directory belongs to the benchmark, which changes
    // nothing in it.
    unsafe { builder.open(directory) }
}
