//! Measures the disk briefly and repeatedly at one depth, to detect changes of its speed.

use std::path::{Path, PathBuf};

use ecotone::internal::substrate::storage::Op;

use super::{
    point::Point,
    scratch::{DIRECTORY, ScratchFile},
};
use crate::error::{Context, Result};

/// Requests in flight, number of threads, and duration.
const DEPTH: usize = 32;
const THREADS: usize = 2;
const SECONDS: f64 = 0.15;
/// Bytes of the scratch file. A small file flatters the disk, but always by the same amount.
const SIZE: u64 = 64 << 20;

/// An open scratch file.
pub(crate) struct Gauge {
    scratch: ScratchFile,
}

impl Gauge {
    /// The scratch file's path for a directory.
    pub(crate) fn directory(directory: &Path) -> PathBuf {
        directory.join(DIRECTORY)
    }

    /// Opens the scratch file, or creates it.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let directory = Self::directory(directory);
        std::fs::create_dir_all(&directory).context("create", &directory)?;
        Ok(Gauge { scratch: ScratchFile::open(&directory, SIZE)? })
    }

    /// Measures random reads.
    pub(crate) fn measure(&self) -> Result<Point> {
        Point::measure(&self.scratch, "random_read", Op::Read, DEPTH, THREADS, SECONDS)
    }
}
