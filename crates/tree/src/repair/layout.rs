//! The layout that an intact index gives: the base pages, and the overflow page of each.

use std::sync::Arc;

use ecotone_substrate::{Error, Result, environment::Environment};

use super::super::{
    blob::Blob,
    index::{Index, PagePair},
    logged_edit::LoggedEdit,
    page_allocator::{PageAllocator, PageFile},
};

/// The index of a keyspace: loaded from a checkpoint, then changed by replay of the log.
#[derive(Debug)]
pub struct Layout {
    index: Index,
    space: PageAllocator,
}

impl Layout {
    /// Reads the index that the root in the manifest names.
    ///
    /// # Errors
    /// `Corruption` for damage anywhere in the index, `NewerFormat`, `Memory`.
    pub fn open(environment: &Environment, keyspace: u32, blob: &[u8]) -> Result<Self> {
        let place = format!("the root of keyspace {keyspace} in the manifest");
        let root = Blob::decode(blob).map_err(|malformed| malformed.at(place, 0))?.index;
        let file = PageFile::open(environment, keyspace)?;
        let space = PageAllocator::new(&file)?;
        let index = Index::open(&Arc::clone(&environment.memory), &root, &space)?;
        Ok(Layout { index, space })
    }

    /// Reapplies a structural record. A change is one record, which the log has completely or not at all, so there is
    /// no separate check of the start and end of a change (Check II).
    ///
    /// # Errors
    /// `Corruption` if the record does not fit the index, `Memory`.
    pub fn replay(&self, body: &[u8]) -> Result<()> {
        let edit = LoggedEdit::decode(body).map_err(|malformed| malformed.at("the log's structural record", 0))?;
        let prepared = self.index.prepare(&edit.change).map_err(|error| match error {
            Error::Invalid(what) => self.space.file().corruption(0, format!("the log does not fit the index: {what}")),
            other => other,
        })?;
        self.index.install(prepared);
        Ok(())
    }

    /// The pages that the index refers to.
    ///
    /// # Errors
    /// `Corruption` if a page lies beyond the end of the file, or is named twice.
    pub fn named(&self) -> Result<IndexedPages> {
        let mut named = IndexedPages { pages: vec![UNNAMED; self.space.total() as usize] };
        for pair in self.index.snapshot().ascend(&[]).flat_map(|(_, segment)| segment.page_pairs().collect::<Vec<_>>())
        {
            let overflow = (pair.overflow != PagePair::NONE).then_some(pair.overflow);
            named.name(pair.page, overflow).ok_or_else(|| {
                self.space.file().corruption(pair.page, "the index names a page beyond the end of the file, or twice")
            })?;
        }
        Ok(named)
    }
}

const UNNAMED: u32 = 0;
const ALONE: u32 = u32::MAX;
const OVERFLOW: u32 = u32::MAX - 1;

/// The role that an index gives each page of a file. It takes four bytes a page, outside of the memory budget.
#[derive(Debug)]
pub struct IndexedPages {
    /// For a base page its overflow page or [`ALONE`], for an overflow page [`OVERFLOW`], for all others [`UNNAMED`].
    pages: Vec<u32>,
}

impl IndexedPages {
    fn name(&mut self, base: u32, overflow: Option<u32>) -> Option<()> {
        let roles = [Some((base, overflow.unwrap_or(ALONE))), overflow.map(|page| (page, OVERFLOW))];
        for (page, role) in roles.into_iter().flatten() {
            let place = self.pages.get_mut(page as usize).filter(|place| **place == UNNAMED)?;
            *place = role;
        }
        Some(())
    }

    fn role(&self, page: u32) -> u32 {
        self.pages.get(page as usize).copied().unwrap_or(UNNAMED)
    }

    /// The overflow page of a base page, if any; `None` if the page is no base page.
    pub(super) fn base(&self, page: u32) -> Option<Option<u32>> {
        match self.role(page) {
            UNNAMED | OVERFLOW => None,
            ALONE => Some(None),
            overflow => Some(Some(overflow)),
        }
    }

    /// Whether the index uses the page for records.
    pub(super) fn uses(&self, page: u32) -> bool {
        self.role(page) != UNNAMED
    }
}
