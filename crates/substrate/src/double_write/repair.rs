//! Repair of torn pages at open.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ecotone_sys::{checksum::crc32c, chunk::Size};

use super::{
    DoubleWrite,
    area::{Area, Entry},
};
use crate::{
    Result,
    codec::is_zero,
    limits::PAGE,
    memory::Component,
    page::{Page, PageAddress, PageError},
    storage::File,
};

/// The result of a repair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Pages of the last batch; zero if the area is not whole.
    pub pages: u32,
    /// Pages of the batch that were torn and are whole again.
    pub repaired: u32,
}

impl DoubleWrite {
    /// Makes torn pages of the last batch whole. Runs once at open, before anything else reads or writes pages;
    /// [`settle`](Self::settle) follows. `file_of` gives the file of an identity, opened for direct access, if it still
    /// exists. May be interrupted and repeated.
    pub fn repair(&self, file_of: &mut dyn FnMut(u64) -> Option<Arc<dyn File>>) -> Result<Repaired> {
        let area = self.area.lock();
        let entries = area.entries(&*self.file)?;
        let mut page = self.memory.lease_essential(Component::DoubleWrite, Size::Frame)?;
        let (mut touched, mut repaired) = (BTreeMap::new(), 0);
        for entry in &entries {
            let Some(file) = file_of(entry.file) else { continue };
            if read_torn(&*file, entry, &mut page)? && overlay(&area, entry, &mut page) {
                file.write(&page, offset(entry)).map_err(|e| self.health.poison(e))?;
                repaired += 1;
                touched.insert(file.id(), file);
            }
        }
        touched.values().try_for_each(|file| file.sync()).map_err(|e| self.health.poison(e))?;
        Ok(Repaired { pages: entries.len() as u32, repaired })
    }

    /// Syncs the files of the last batch, unless a clean shutdown did. If only the process died, a whole page may be in
    /// the kernel's cache alone. So the area must not be used again before this sync, and nothing may build on the
    /// page.
    pub fn settle(&self, file_of: &mut dyn FnMut(u64) -> Option<Arc<dyn File>>) -> Result<()> {
        if bug!(SkipRepairSync) {
            return Ok(());
        }
        let files: BTreeSet<u64> = self.area.lock().entries(&*self.file)?.iter().map(|entry| entry.file).collect();
        let synced = files.into_iter().filter_map(file_of).try_for_each(|file| file.sync());
        synced.map_err(|error| self.health.poison(error))
    }
}

fn offset(entry: &Entry) -> u64 {
    u64::from(entry.page) * PAGE as u64
}

fn parse<'a>(entry: &Entry, page: &'a [u8]) -> std::result::Result<Page<'a>, PageError> {
    Page::parse(page, PageAddress { file: entry.file, page: entry.page })
}

/// Reads the page in place. Returns whether the page is there and fails its checksum. A page of zeros was not torn by
/// the batch, since both versions have their head in the first sector: the page was freed since, and is a hole that
/// must not be written to.
fn read_torn(file: &dyn File, entry: &Entry, page: &mut [u8]) -> Result<bool> {
    if file.len()? < offset(entry) + PAGE as u64 {
        return Ok(false);
    }
    file.read(page, offset(entry))?;
    Ok(matches!(parse(entry, page), Err(PageError::Checksum)) && !is_zero(page))
}

/// Lays the saved sectors over the page. Returns whether the result is the page that the batch wrote.
pub(super) fn overlay(area: &Area, entry: &Entry, page: &mut [u8]) -> bool {
    area.overlay(entry, page);
    crc32c(0, page) == entry.crc && parse(entry, page).is_ok()
}
