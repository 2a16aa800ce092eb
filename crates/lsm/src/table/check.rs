//! The full check of a table, which also covers what reads do not verify.

use std::{cmp::Ordering, result, sync::Arc};

use ecotone_engine::remaining_range::Direction;
use ecotone_substrate::{Error, Result, codec::Malformed, environment::Environment, memory::Component};
use ecotone_sys::chunk::Size;

use crate::table::{Candidates, Filter, Table, WholeIndex, window::BlockWindow};

/// The state of a check: the table's parts, and totals of the records seen.
struct Seen<'t> {
    table: &'t Table,
    index: WholeIndex,
    filter: Option<Filter>,
    hash_of: &'t dyn Fn(&[u8]) -> u64,
    records: u64,
    tombstones: u64,
    bytes: u64,
    last: Vec<u8>,
}

impl Table {
    /// Reads the whole table and checks order, range, index, filter and totals. `hash_of` gives the hash of a key for
    /// the filter.
    ///
    /// # Errors
    /// The first damage that it finds.
    pub fn check(self: &Arc<Self>, environment: &Environment, hash_of: &dyn Fn(&[u8]) -> u64) -> Result<()> {
        let lease = |component| move || environment.memory.lease_essential(component, Size::Frame);
        let index = self.whole_index(environment, &lease(Component::TableIndex))?;
        let filter =
            (self.filter_pages() > 0).then(|| self.filter(environment, &lease(Component::Filter))).transpose()?;
        let mut seen =
            Seen { table: self, index, filter, hash_of, records: 0, tombstones: 0, bytes: 0, last: Vec::new() };
        let memory = environment.memory.lease_essential(Component::Frames, Size::Slab)?;
        let mut window = BlockWindow::new(self.clone(), 0..self.blocks(), memory);
        for block in 0..self.blocks() {
            let parsed = window.enter(block, Direction::Up)?;
            let checked = parsed.check().and_then(|()| parsed.each(|key, value| seen.record(block, key, value)));
            checked.map_err(|e| self.damaged(block, e))?;
        }
        if (seen.records, seen.tombstones, seen.bytes) != (self.records(), self.tombstones(), self.bytes())
            || *seen.last != *self.range().1
        {
            return Err(Error::corruption(self.name().file(), 72, "the table has other records than its header says"));
        }
        Ok(())
    }
}

impl Seen<'_> {
    fn record(&mut self, block: u32, key: &[u8], value: Option<&[u8]>) -> result::Result<(), Malformed> {
        let fail = |what| Err(Malformed::new(0, what));
        if *self.last >= *key || (self.records == 0 && *key != *self.table.range().0) || !self.table.covers(key) {
            return fail("the records of the table are out of order, or of its range");
        }
        if !leads_to(self.index.locate(key), block) {
            return fail("the index leads elsewhere");
        }
        if self.filter.as_ref().is_some_and(|filter| !filter.may_have((self.hash_of)(key))) {
            return fail("the filter has not a key");
        }
        self.records += 1;
        self.tombstones += u64::from(value.is_none());
        self.bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }
}

/// Whether a search through these candidates reaches a block.
fn leads_to(mut left: Candidates, block: u32) -> bool {
    loop {
        let goes_on = match block.cmp(&left.first) {
            Ordering::Equal => return true,
            Ordering::Less => left.go_down(),
            Ordering::Greater => left.go_up(),
        };
        if !goes_on {
            return false;
        }
    }
}
