//! Point lookup in a version: the visible tables from young to old, then the page tier.

use ecotone_substrate::{Result, table::Answer};

use crate::version::{TableMeta, Version};

impl<T: TableMeta> Version<T> {
    /// Whether the newest record of a key has a value, which is appended to `value`. `find` looks into a table that may
    /// have the key; `below` looks into the page tier, after the tables and never before (adaptive-protocol.md,
    /// invariants 2 and 3).
    ///
    /// # Errors
    /// Those of the two.
    pub(crate) fn search(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        mut find: impl FnMut(&T, &mut Vec<u8>) -> Result<Option<Answer>>,
        below: impl FnOnce(&mut Vec<u8>) -> Result<bool>,
    ) -> Result<bool> {
        for table in self.visible_runs(key).filter_map(|run| run.table_for(key)) {
            if let Some(answer) = find(table, value)? {
                return Ok(answer == Answer::Value);
            }
        }
        if self.paged_ranges().at(key).is_some() { below(value) } else { Ok(false) }
    }
}
