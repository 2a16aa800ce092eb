//! Point lookup in a version: the sorted runs of the key, from young to old.

use ecotone_substrate::{Result, table::Answer};

use crate::version::{SortedRun, TableMeta, Version};

impl<T: TableMeta> Version<T> {
    /// Whether the newest record of a key has a value, which is appended to `value`. `find` looks into a table that may
    /// have the key; `find_in_pages` looks into the page tier, after the tables and never before (adaptive-protocol.md,
    /// invariants 2 and 3).
    ///
    /// # Errors
    /// Those of the two.
    pub(crate) fn search(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        mut find: impl FnMut(&T, &mut Vec<u8>) -> Result<Option<Answer>>,
        find_in_pages: impl FnOnce(&mut Vec<u8>) -> Result<bool>,
    ) -> Result<bool> {
        for run in self.sorted_runs(self.visibility_at(key)) {
            let SortedRun::Tables(_, run) = run else { return find_in_pages(value) };
            if let Some(table) = run.table_for(key)
                && let Some(answer) = find(table, value)?
            {
                return Ok(answer == Answer::Value);
            }
        }
        Ok(false)
    }
}
