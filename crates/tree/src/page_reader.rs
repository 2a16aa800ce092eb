//! Reads keys from the pages, past the record cache: one key with blocking reads, or many keys with many reads in
//! flight. Each search is a [`Lookup`], which names the page to read next.

use std::sync::Arc;

use ecotone_engine::contract::Shared;
use ecotone_substrate::{
    Result,
    limits::PAGE,
    memory::{Component, Memory},
    storage::{Block, Reads, Storage},
};
use ecotone_sys::chunk::Size;

use super::{
    lookup::{Lookup, Step},
    page_allocator::IoPurpose,
    store::Store,
};

/// Page reads that one [`find_many`](PageReader::find_many) keeps in flight.
const IN_FLIGHT: usize = 64;

/// A search that waits for a page, with the tag of its key.
#[derive(Debug)]
struct PendingLookup<'k, T> {
    tag: T,
    lookup: Lookup<'k>,
}

/// The reader of one keyspace's pages.
#[derive(Debug)]
pub(crate) struct PageReader {
    store: Arc<Store>,
    memory: Arc<Memory>,
    storage: Arc<dyn Storage>,
}

impl PageReader {
    pub(crate) fn new(store: Arc<Store>, shared: &Shared) -> Self {
        PageReader { store, memory: shared.memory.clone(), storage: shared.storage.clone() }
    }

    /// Looks up a key and appends its value to `value`. False if there is none.
    pub(crate) fn find(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut block = self.memory.lease_essential(Component::Frames, Size::Frame)?;
        let (mut lookup, mut page) = Lookup::begin(&self.store, key);
        loop {
            self.store.file.traffic().read(IoPurpose::Get, 1);
            self.store.file.file().read(&mut block, u64::from(page) * PAGE as u64)?;
            match lookup.resume(&self.store, &mut block)? {
                Step::Read(next) => page = next,
                Step::Done(None) => return Ok(false),
                Step::Done(Some(found)) => {
                    value.extend_from_slice(&found);
                    return Ok(true);
                }
            }
        }
    }

    /// Looks up many keys, each with a tag that is passed to `found` with its value. `found` may call the database, so
    /// nothing but the windows of the reads is held while `found` runs.
    pub(crate) fn find_many<'k, T>(
        &self,
        keys: impl IntoIterator<Item = (&'k [u8], T)>,
        mut found: impl FnMut(T, Option<&[u8]>),
    ) -> Result<()> {
        let mut queue = self.storage.queue()?;
        let (mut reads, mut keys) = (Reads::new(&mut *queue), keys.into_iter().peekable());
        loop {
            while reads.in_flight() < IN_FLIGHT && keys.peek().is_some() {
                let Some(block) = reads.lease(&self.memory, Size::Frame)? else { break };
                let Some((key, tag)) = keys.next() else { break };
                let (lookup, page) = Lookup::begin(&self.store, key);
                self.ask(&mut reads, PendingLookup { tag, lookup }, page, block);
            }
            let Some((mut pending, mut block)) = reads.wait()? else { return Ok(()) };
            match pending.lookup.resume(&self.store, &mut block)? {
                Step::Read(page) => self.ask(&mut reads, pending, page, block),
                Step::Done(value) => {
                    drop(block);
                    found(pending.tag, value.as_deref());
                }
            }
        }
    }

    fn ask<W>(&self, reads: &mut Reads<'_, W>, waits: W, page: u32, block: Block) {
        self.store.file.traffic().read(IoPurpose::Get, 1);
        reads.ask(waits, self.store.file.file().clone(), u64::from(page) * PAGE as u64, PAGE, block);
    }
}
