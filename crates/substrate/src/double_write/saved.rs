//! The pages of the last batch for read-only use: a repair into another directory makes torn pages whole in memory.

use std::collections::BTreeMap;

use super::{
    FILE,
    area::{Area, Entry},
    repair::overlay,
};
use crate::{
    Result,
    limits::PAGE,
    memory::Memory,
    page::PageAddress,
    storage::{Access, Storage},
};

/// The contents of a database's double-write area.
#[derive(Debug)]
pub struct SavedPages {
    area: Area,
    entries: BTreeMap<(u64, u32), Entry>,
}

impl SavedPages {
    /// Reads the area. One that is not whole protects nothing.
    ///
    /// # Errors
    /// `NewerFormat`; `Io` and `Corruption` if the file is missing or too short.
    pub fn load(storage: &dyn Storage, memory: &Memory) -> Result<Self> {
        let file = storage.open(FILE, Access::Direct)?;
        let mut area = Area::new(memory)?;
        area.load(&*file)?;
        let entries = area.entries(&*file)?.into_iter().map(|entry| ((entry.file, entry.page), entry)).collect();
        Ok(SavedPages { area, entries })
    }

    /// Repairs a page that was read at `place` and fails its checksum. Returns false, with the page unchanged, if the
    /// last batch did not tear it.
    ///
    /// # Panics
    /// If `page` does not have the length of a page.
    pub fn restore(&self, place: PageAddress, page: &mut [u8]) -> bool {
        assert_eq!(page.len(), PAGE, "a page has {PAGE} bytes");
        let Some(entry) = self.entries.get(&(place.file, place.page)) else { return false };
        let torn = page.to_vec();
        let whole = overlay(&self.area, entry, page);
        if !whole {
            page.copy_from_slice(&torn);
        }
        whole
    }
}
