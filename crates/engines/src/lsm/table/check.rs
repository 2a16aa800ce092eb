//! Checking all of a table, which reading leaves out.

use ecotone_substrate::{Error, Result, codec::Malformed, environment::Environment};

use super::{Candidates, Filter, Index, Table};

/// What a check has seen.
struct Seen<'t> {
    table: &'t Table,
    index: Index,
    filter: Option<Filter>,
    hash_of: &'t dyn Fn(&[u8]) -> u64,
    records: u64,
    tombstones: u64,
    bytes: u64,
    last: Vec<u8>,
}

impl Table {
    /// Reads all of it and checks all that is left out otherwise; `hash_of` makes the hash of a key for the filter.
    ///
    /// # Errors
    /// The first damage that is met.
    pub fn check(&self, environment: &Environment, hash_of: &dyn Fn(&[u8]) -> u64) -> Result<()> {
        let (index, filter) = (self.index(environment)?, self.filter(environment)?);
        let mut seen = Seen { table: self, index, filter, hash_of, records: 0, tombstones: 0, bytes: 0, last: Vec::new() };
        let mut memory = self.memory_for_a_block(environment)?;
        for block in 0..self.blocks() {
            let parsed = self.read(block, &mut memory)?;
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
    fn record(&mut self, block: u32, key: &[u8], value: Option<&[u8]>) -> std::result::Result<(), Malformed> {
        let fail = |what| Err(Malformed::new(0, what));
        if *self.last >= *key || (self.records == 0 && *key != *self.table.range().0) || !self.table.covers(key) {
            return fail("the records of the table are out of order, or of its range");
        }
        let Candidates { low, high, .. } = self.index.locate(key);
        if !(low..=high).contains(&block) {
            return fail("the index leads elsewhere");
        }
        if self.filter.as_ref().is_some_and(|filter| !filter.may_have((self.hash_of)(key))) {
            return fail("the filter has not a key");
        }
        self.records += 1;
        self.tombstones += u64::from(value.is_none());
        self.bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        self.last = key.to_vec();
        Ok(())
    }
}
