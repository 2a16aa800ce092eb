//! Looks for a key among the tables of a version, one run after the other, and in what is below them.

use ecotone_substrate::{Result, table::Answer};

use super::version::{Ranged, Version};

impl<T: Ranged> Version<T> {
    /// Whether the newest record of a key has a value, which is appended to `value`. `find` looks into a table that may
    /// have the key, `below` into what is below the tables: afterwards, never before (decision 15, invariants 2 and 3).
    ///
    /// # Errors
    /// Those of the two.
    pub(super) fn search(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        mut find: impl FnMut(&T, &mut Vec<u8>) -> Result<Option<Answer>>,
        below: impl FnOnce(&mut Vec<u8>) -> Result<bool>,
    ) -> Result<bool> {
        for table in self.counting(key).filter_map(|run| run.covering(key)) {
            if let Some(answer) = find(table, value)? {
                return Ok(answer == Answer::Value);
            }
        }
        if self.covers().at(key).is_some() { below(value) } else { Ok(false) }
    }
}
