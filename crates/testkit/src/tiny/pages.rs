//! The file of a tiny engine: slotted pages by number.

use std::sync::Arc;

use ecotone_engine::contract::Context;
use ecotone_substrate::{
    Error, Result,
    limits::PAGE,
    memory::Component,
    page::{Page, PageAddress, PageBuilder, PageKind, RecordKind},
    storage::{Access, Block, File, FileId},
};
use ecotone_sys::chunk::Size;

/// A record of a page: a value, or `None` for a tombstone.
pub(super) type Stored = (Vec<u8>, Option<Vec<u8>>);

/// The pages of one file.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) file: Arc<dyn File>,
    context: Context,
}

impl Pages {
    /// Makes the file; its name is durable after a sync of the directory.
    pub(super) fn create(context: &Context, id: FileId) -> Result<Self> {
        let file = context.shared.storage.create(id, Access::Direct)?;
        Ok(Pages { file, context: context.clone() })
    }

    pub(super) fn open(context: &Context, id: FileId) -> Result<Self> {
        let file = context.shared.storage.open(id, Access::Direct)?;
        Ok(Pages { file, context: context.clone() })
    }

    pub(super) fn count(&self) -> Result<u32> {
        let pages = self.file.len()? / PAGE as u64;
        u32::try_from(pages).map_err(|_| self.corruption(0, "the file is longer than any"))
    }

    /// Makes room for `pages` pages in all.
    pub(super) fn reserve(&self, pages: u32) -> Result<()> {
        let reserved = self.file.preallocate(0, u64::from(pages) * PAGE as u64);
        reserved.map_err(|error| self.context.shared.health.poison(error))
    }

    pub(super) fn corruption(&self, page: u32, what: &str) -> Error {
        Error::corruption(self.file.id(), u64::from(page) * PAGE as u64, what)
    }

    pub(super) fn frame(&self) -> Result<Block> {
        self.context.shared.memory.lease_essential(Component::Frames, Size::Frame)
    }

    /// Reads a page, which verifies.
    pub(super) fn read(&self, number: u32) -> Result<Block> {
        let mut block = self.frame()?;
        self.file.read(&mut block, u64::from(number) * PAGE as u64)?;
        self.context.shared.double_write.amend(self.file.id(), number, &mut block);
        self.parse(number, &block)?;
        Ok(block)
    }

    pub(super) fn parse<'a>(&self, number: u32, block: &'a [u8]) -> Result<Page<'a>> {
        let page = Page::parse(block, self.place(number)).map_err(|error| error.at(self.file.id(), number))?;
        if page.kind() == PageKind::Bucket {
            Ok(page)
        } else {
            Err(self.corruption(number, "the page is of another kind"))
        }
    }

    /// The records of a page, in order.
    pub(super) fn records(&self, number: u32) -> Result<Vec<Stored>> {
        let block = self.read(number)?;
        let page = self.parse(number, &block)?;
        page.check().map_err(|error| error.at(self.file.id(), number))?;
        let record = |entry: ecotone_substrate::page::Entry<'_>| {
            let value = (entry.kind == RecordKind::Value).then(|| entry.value.to_vec());
            ([page.prefix(), entry.suffix].concat(), value)
        };
        Ok(page.iter().map(record).collect())
    }

    /// An empty page in `block` with these fences.
    pub(super) fn build<'a>(
        &self,
        block: &'a mut Block,
        number: u32,
        (lower, upper): (&[u8], Option<&[u8]>),
    ) -> PageBuilder<'a> {
        PageBuilder::new(block, self.place(number), PageKind::Bucket, 0, lower, upper)
    }

    /// Writes pages to places that nothing refers to yet, and syncs them.
    pub(super) fn write_fresh(&self, pages: &[(u32, Block)]) -> Result<()> {
        let health = &self.context.shared.health;
        health.check()?;
        let write = |(number, block): &(u32, Block)| self.file.write(block, u64::from(*number) * PAGE as u64);
        pages.iter().try_for_each(write).and_then(|()| self.file.sync()).map_err(|error| health.poison(error))
    }

    fn place(&self, page: u32) -> PageAddress {
        PageAddress { file: self.file.id().identity(), page }
    }
}

/// Adds a record to a page; false if it does not fit.
pub(super) fn push(builder: &mut PageBuilder<'_>, (key, value): &Stored) -> bool {
    match value {
        Some(value) => builder.push(RecordKind::Value, key, value),
        None => builder.push(RecordKind::Tombstone, key, &[]),
    }
}
