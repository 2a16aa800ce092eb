//! What a whole index says: which base pages there are, and which overflow page each has.

use std::sync::Arc;

use ecotone_substrate::{Error, Result, environment::Environment};

use super::super::{
    blob::Blob,
    index::{Home, Index},
    space::{PageFile, Space},
    structure::Structure,
};

/// The index of a keyspace as a checkpoint left it, and as the log changes it.
#[derive(Debug)]
pub struct Layout {
    index: Index,
    space: Space,
}

impl Layout {
    /// Reads the index that the root in the manifest names.
    ///
    /// # Errors
    /// `Corruption` for damage anywhere in it, `NewerFormat`, `Memory`.
    pub fn open(environment: &Environment, keyspace: u32, blob: &[u8]) -> Result<Self> {
        let place = format!("the root of keyspace {keyspace} in the manifest");
        let root = Blob::decode(blob).map_err(|malformed| malformed.at(place, 0))?.index;
        let file = PageFile::open(environment, keyspace)?;
        let space = Space::new(&file)?;
        let index = Index::open(&Arc::clone(&environment.memory), &root, &space)?;
        Ok(Layout { index, space })
    }

    /// Reapplies a structural record (Check II: start and end of a change are one record here, which is there or not).
    ///
    /// # Errors
    /// `Corruption` if it does not fit the index, `Memory`.
    pub fn replay(&self, body: &[u8]) -> Result<()> {
        let structure = Structure::decode(body).map_err(|malformed| malformed.at("the log's structural record", 0))?;
        let prepared = self.index.prepare(&structure.change).map_err(|error| match error {
            Error::Invalid(what) => self.space.file().corruption(0, format!("the log does not fit the index: {what}")),
            other => other,
        })?;
        self.index.install(prepared);
        Ok(())
    }

    /// The pages that it names.
    ///
    /// # Errors
    /// `Corruption` if one lies beyond the end of the file.
    pub fn named(&self) -> Result<Named> {
        let mut named = Named { pages: vec![UNNAMED; self.space.total() as usize] };
        for home in self.index.snapshot().ascend(&[]).flat_map(|(_, segment)| segment.homes().collect::<Vec<_>>()) {
            let overflow = (home.overflow != Home::NONE).then_some(home.overflow);
            named.name(home.page, overflow).ok_or_else(|| {
                self.space.file().corruption(home.page, "the index names a page beyond the end of the file, or twice")
            })?;
        }
        Ok(named)
    }
}

const UNNAMED: u32 = 0;
const ALONE: u32 = u32::MAX;
const OVERFLOW: u32 = u32::MAX - 1;

/// What an index says of each page of a file: four bytes a page, outside of the budget.
#[derive(Debug)]
pub struct Named {
    /// Of a base page its overflow page or [`ALONE`]; [`OVERFLOW`] of an overflow page; [`UNNAMED`] of the rest.
    pages: Vec<u32>,
}

impl Named {
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

    /// If the page is a base page, the overflow page that it has.
    pub(super) fn base(&self, page: u32) -> Option<Option<u32>> {
        match self.role(page) {
            UNNAMED | OVERFLOW => None,
            ALONE => Some(None),
            overflow => Some(Some(overflow)),
        }
    }

    /// Whether records are in it.
    pub(super) fn uses(&self, page: u32) -> bool {
        self.role(page) != UNNAMED
    }
}
