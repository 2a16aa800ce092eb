//! What the simulated disk keeps and loses, tested through the storage trait.

mod crashes;
mod faults;
mod history;
mod queues;

use std::sync::Arc;

use ecotone_substrate::storage::{Access, File, FileId, Storage};

use super::SimStorage;

const PAGES: FileId = FileId::Pages(1);
const LOG: FileId = FileId::Log(1);

/// A disk with one durable cached file of `bytes`.
fn disk_with(bytes: &[u8]) -> (SimStorage, Arc<dyn File>) {
    let disk = SimStorage::new(1);
    disk.put(PAGES, bytes);
    let file = disk.open(PAGES, Access::Cached).unwrap();
    (disk, file)
}

fn bytes_of(disk: &SimStorage) -> Vec<u8> {
    disk.files()[&PAGES].clone()
}
