//! Salvage of an adaptive keyspace: reads the records of its tables and pages that are still readable (repair.md,
//! "Tables and pages").

use std::fmt;

use ecotone_engine::{
    contract::Record,
    files::RECORD,
    repair::{Problems, SalvageReport, SalvageSource},
};
use ecotone_lsm::{
    self,
    repair::{Layout as Tables, TablePlacement},
};
use ecotone_substrate::{Error, Result, environment::Environment};
use ecotone_tree::repair::{IndexedPages, Layout as Pages, Salvage as PageSalvage};

use super::{
    blob::Blob,
    keyspace::{PAGES, TABLES},
};

/// Where the records of a keyspace are, while structural records are replayed.
#[derive(Debug)]
pub struct Layout {
    tables: Tables,
    /// `None` if the index of the pages is damaged.
    pages: Option<Pages>,
}

/// Where the records of a keyspace are.
#[derive(Debug, Default)]
pub struct Known {
    /// The tables.
    pub tables: TablePlacement,
    /// The pages, if their index is whole.
    pub pages: Option<IndexedPages>,
}

impl Layout {
    /// The layout that the engine checkpoint in the manifest describes. Damage of the index of pages goes into
    /// `problems`.
    ///
    /// # Errors
    /// `Corruption` if the bytes are no engine checkpoint, `NewerFormat`, `Memory`.
    pub fn open(environment: &Environment, keyspace: u32, blob: &[u8], problems: &mut Problems) -> Result<Layout> {
        let malformed = |malformed: ecotone_substrate::codec::Malformed| {
            malformed.at(format!("the root of keyspace {keyspace} in the manifest"), 0)
        };
        let Blob { paged_ranges, lsm: tables, tree: pages, .. } = Blob::decode(blob).map_err(malformed)?;
        let (_, manifest) = ecotone_lsm::blob::decode(&tables).map_err(malformed)?;
        let pages = problems.survive(Pages::open(environment, keyspace, &pages))?;
        Ok(Layout { tables: Tables::of(manifest.with_paged_ranges(paged_ranges)), pages })
    }

    /// The layout of a keyspace whose log is complete from its beginning. The index of its pages is not known.
    pub fn empty() -> Layout {
        Layout { tables: Tables::empty(), pages: None }
    }

    /// The layout of a keyspace whose beginning is lost.
    pub fn unknown() -> Layout {
        Layout { tables: Tables::unknown(), pages: None }
    }

    /// Replays a structural record.
    ///
    /// # Errors
    /// `Corruption` if it is no structural record, or does not fit. Its subject is unknown from then on. `NewerFormat`,
    /// `Memory`.
    pub fn replay(&mut self, body: &[u8]) -> Result<()> {
        match body.split_first() {
            Some((&TABLES, body)) => self.tables.replay(body),
            Some((&PAGES, body)) => match self.pages.take() {
                Some(pages) => pages.replay(body).map(|()| self.pages = Some(pages)),
                None => Ok(()),
            },
            _ => Err(Error::corruption(RECORD, 0, "an adaptive keyspace has no such part")),
        }
    }

    /// Where the records are. `is_whole` says that no record of the log is missing. Damage of the index of pages goes
    /// into `problems`.
    ///
    /// # Errors
    /// `Memory`.
    pub fn known(self, is_whole: bool, problems: &mut Problems) -> Result<Known> {
        let pages = self.pages.filter(|_| is_whole).map(|pages| pages.named());
        let pages = pages.and_then(|named| problems.survive(named).transpose()).transpose()?;
        Ok(Known { tables: self.tables.placed(is_whole), pages })
    }
}

/// The newest records of one keyspace, in ascending order, as far as they can be read.
pub struct Salvage {
    merged: ecotone_lsm::repair::Salvage<PageSalvage>,
    /// Findings from before the merge.
    before: SalvageReport,
}

impl Salvage {
    /// Reads all pages once, and the headers of all tables. `database` is the identity that tables must have, if it is
    /// known; `progress` is called with numbers of pages.
    ///
    /// # Errors
    /// `NewerFormat`, `Memory`, and errors of writing a scratch file. Damage is no error.
    pub fn begin(
        environment: &Environment,
        source: &SalvageSource,
        database: Option<u64>,
        keyspace: u32,
        known: Known,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Salvage> {
        let mut before = SalvageReport::default();
        let pages = before.problems.survive(PageSalvage::begin(source, keyspace, known.pages, progress))?;
        if pages.is_none() {
            before.missing.add((Vec::new(), None));
        }
        let merged = ecotone_lsm::repair::Salvage::begin(environment, database, keyspace, known.tables, pages)?;
        Ok(Salvage { merged, before })
    }

    /// The findings, complete when there are no more records.
    pub fn findings(self) -> SalvageReport {
        let (tables, pages) = self.merged.finish();
        let pages = pages.map(PageSalvage::findings).unwrap_or_default();
        self.before.with(pages).with(tables)
    }
}

impl Iterator for Salvage {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        self.merged.next()
    }
}

impl fmt::Debug for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salvage").field("merged", &self.merged).finish_non_exhaustive()
    }
}
