//! The disk at one depth, quickly and again and again: whether it is still as fast as it was.

use std::path::{Path, PathBuf};

use ecotone::internal::substrate::storage::Op;

use super::{DIRECTORY, Point, bed::Bed};
use crate::error::{Context, Result};

/// Requests in flight, of how many threads, for how long.
const DEPTH: usize = 32;
const THREADS: usize = 2;
const SECONDS: f64 = 0.15;
/// Bytes of the scratch file. It is small and so flatters the disk, but always by as much.
const SIZE: u64 = 64 << 20;

/// An open scratch file.
pub(crate) struct Gauge {
    bed: Bed,
}

impl Gauge {
    /// Where the scratch file of a directory is.
    pub(crate) fn directory(directory: &Path) -> PathBuf {
        directory.join(DIRECTORY)
    }

    /// Makes the scratch file, or takes the one that is there.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let directory = Self::directory(directory);
        std::fs::create_dir_all(&directory).context("create", &directory)?;
        Ok(Gauge { bed: Bed::open(&directory, SIZE)? })
    }

    /// Measures random reads.
    pub(crate) fn measure(&self) -> Result<Point> {
        self.bed.point("random_read", Op::Read, DEPTH, THREADS, SECONDS)
    }
}
