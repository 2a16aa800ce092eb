//! Where the tables of a keyspace are, as root and log tell, or as far as they do (decision 7, invariants 10 to 12).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ecotone_substrate::{Error, Result, table::File};

use crate::{
    files::RECORD,
    lsm::{
        blob,
        structure::{Change, Covers, Place, Structure},
    },
};

/// The tables of a keyspace while structural records are replayed.
#[derive(Debug)]
pub struct Layout {
    /// What all records so far fit to; `None` once one did not, or if nobody knows how it began.
    structure: Option<Structure>,
    placed: Placed,
}

/// Where tables are.
#[derive(Debug, Clone, Default)]
pub struct Placed {
    /// Whether these are all tables that count.
    pub(super) is_settled: bool,
    /// Whether a record of the log is none, or does not fit what was before.
    pub(super) is_contradicted: bool,
    pub(super) places: BTreeMap<File, Place>,
    /// Tables that are known to count no more.
    pub(super) gone: BTreeSet<File>,
    /// Where tables do not count, at the last time that it was known.
    pub(super) covers: Arc<Covers>,
}

impl Layout {
    /// As the root in the manifest has it.
    ///
    /// # Errors
    /// `Corruption` if it is no root, `NewerFormat`.
    pub fn open(keyspace: u32, blob: &[u8]) -> Result<Layout> {
        let place = format!("the root of keyspace {keyspace} in the manifest");
        let (_, structure) = blob::decode(blob).map_err(|malformed| malformed.at(place, 0))?;
        Ok(Layout::of(structure))
    }

    /// That of a keyspace that began as `structure`.
    pub(crate) fn of(structure: Structure) -> Layout {
        let places =
            structure.places().flat_map(|(place, tables)| tables.iter().map(move |file| (*file, place))).collect();
        let placed = Placed { places, covers: structure.covers().clone(), ..Placed::default() };
        Layout { structure: Some(structure), placed }
    }

    /// That of a keyspace of which the log has all records from its beginning on.
    pub fn empty() -> Layout {
        Layout::of(Structure::default())
    }

    /// That of a keyspace whose beginning nobody knows.
    pub fn unknown() -> Layout {
        Layout { structure: None, placed: Placed::default() }
    }

    /// Replays a structural record. One that does not fit what is known leaves it at that.
    ///
    /// # Errors
    /// `Corruption` if it is none, or does not fit; `NewerFormat`.
    pub fn replay(&mut self, body: &[u8]) -> Result<()> {
        let before = self.structure.take();
        let replayed = self.after(before, body);
        self.placed.is_contradicted |= replayed.is_err();
        self.structure = replayed?;
        Ok(())
    }

    fn after(&mut self, before: Option<Structure>, body: &[u8]) -> Result<Option<Structure>> {
        let change = Change::decode(body).map_err(|malformed| malformed.at(RECORD, 0))?;
        self.placed.replay(&change);
        let Some(mut structure) = before else { return Ok(None) };
        structure.apply(&change).map_err(|what| Error::corruption(RECORD, 0, what))?;
        self.placed.covers = structure.covers().clone();
        Ok(Some(structure))
    }

    /// Where the tables are. `is_whole` says that no record of the log is missing.
    pub fn placed(self, is_whole: bool) -> Placed {
        Placed { is_settled: is_whole && self.structure.is_some(), ..self.placed }
    }
}

impl Placed {
    /// Whether these are all tables that count.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    fn replay(&mut self, change: &Change) {
        for file in change.drops() {
            self.places.remove(&file);
            self.gone.insert(file);
        }
        self.places.extend(change.comes.iter().map(|(place, file)| (*file, *place)));
    }
}
