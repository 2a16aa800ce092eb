//! Requests in flight on a disk.

use std::sync::Arc;

use ecotone_sys::{
    blocking::Blocking,
    transfer::{Finished, Transfer},
};

use super::{Directory, Transfers, gate::OwnedPass};
use crate::{
    Error,
    storage::{Completion, File, Op, Queue, Request},
};

/// Data of a request beyond its transfer.
#[derive(Debug)]
pub(super) struct Origin {
    file: Arc<dyn File>,
    tag: u64,
    /// The pass of a write until it is done.
    pass: Option<OwnedPass>,
}

/// A driver from the pool. Dropping the queue waits for requests in flight.
#[derive(Debug)]
pub(super) struct DiskQueue {
    directory: Arc<Directory>,
    driver: Transfers,
    finished: Vec<Finished<Origin>>,
    /// Requests whose file could not be opened again, or may not be changed any more.
    refused: Vec<Completion>,
}

impl DiskQueue {
    pub(super) fn new(directory: Arc<Directory>, driver: Transfers) -> Self {
        DiskQueue { directory, driver, finished: Vec::new(), refused: Vec::new() }
    }

    fn completion(&self, finished: Finished<Origin>) -> Completion {
        let Finished { transfer, result } = finished;
        let Transfer { write, offset, block, len, context: Origin { file, tag, pass }, .. } = transfer;
        // Bytes read after the directory was closed may be another process's.
        let is_ours = if pass.is_some() { Ok(()) } else { self.directory.gate.check() };
        let op = if write { Op::Write } else { Op::Read };
        let path = || self.directory.path_of(file.id());
        let result = match result {
            Ok(count) if count == len => is_ours,
            Ok(_) => Err(Error::corruption(file.id(), offset, "the file ends early")),
            Err(error) => Err(Error::io(if write { "write" } else { "read" }, path().display(), error)),
        };
        Completion { request: Request { file, op, offset, block, len, tag }, result }
    }
}

impl Queue for DiskQueue {
    /// # Panics
    /// If the file is not one of a disk, the request is longer than its block, or offset or length of a direct file are
    /// no multiples of its unit.
    fn submit(&mut self, request: Request) {
        let Request { file, op, offset, block, len, tag } = request;
        let pass = (op == Op::Write).then(|| OwnedPass::enter(&self.directory)).transpose();
        let opened = pass.and_then(|pass| Ok((pass, file.system(op).expect("a file of a disk")?)));
        let (pass, system) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let request = Request { file, op, offset, block, len, tag };
                return self.refused.push(Completion { request, result: Err(error) });
            }
        };
        let unit = system.unit();
        let aligned = offset.is_multiple_of(unit as u64) && len.is_multiple_of(unit);
        assert!(aligned || !system.is_direct(), "direct I/O on {} that is not aligned", file.id());
        self.directory.tally.request(file.id().kind(), op, len);
        let transfer =
            Transfer { file: system, write: op == Op::Write, offset, block, len, context: Origin { file, tag, pass } };
        self.driver.submit(transfer);
    }

    fn complete(&mut self, at_least: usize, done: &mut Vec<Completion>) {
        let mut finished = std::mem::take(&mut self.finished);
        self.driver.complete(at_least.saturating_sub(self.refused.len()), &mut finished);
        done.append(&mut self.refused);
        done.extend(finished.drain(..).map(|finished| self.completion(finished)));
        self.finished = finished;
    }

    fn in_flight(&self) -> usize {
        self.driver.in_flight() + self.refused.len()
    }
}

impl Drop for DiskQueue {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The panic may have come from the driver. The driver's own drop waits for requests in flight.
            return;
        }
        self.driver.complete(usize::MAX, &mut self.finished);
        let driver = std::mem::replace(&mut self.driver, Box::new(Blocking::default()));
        if driver.is_sound() {
            self.directory.pool.lock().push(driver);
        }
    }
}
