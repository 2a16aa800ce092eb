//! Progress reports of a repair.

use std::fmt;

use super::report::{RepairProgress, RepairStep};

/// Operations, pages or records between two reports of progress.
const STRIDE: u64 = 1024;

/// The progress of a repair.
pub(super) struct Progress<'p> {
    report: &'p mut dyn FnMut(RepairProgress),
    /// Pages read so far, and pages of all files together.
    pages: u64,
    pub(super) all_pages: u64,
}

impl<'p> Progress<'p> {
    pub(super) fn new(report: &'p mut dyn FnMut(RepairProgress)) -> Self {
        Progress { report, pages: 0, all_pages: 0 }
    }

    /// Counts `count` more pages.
    pub(super) fn pages(&mut self, count: u64) {
        self.pages += count;
        if self.pages.is_multiple_of(STRIDE) {
            (self.report)(RepairProgress { step: RepairStep::Pages, done: self.pages, total: Some(self.all_pages) });
        }
    }

    /// Reports the progress of another step.
    pub(super) fn tell(&mut self, step: RepairStep, done: u64) {
        if done.is_multiple_of(STRIDE) {
            (self.report)(RepairProgress { step, done, total: None });
        }
    }
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("pages", &self.pages).finish_non_exhaustive()
    }
}
