//! Looks for a key among the tables of a version, one run after the other.

use ecotone_substrate::{Result, table::Answer};

use super::{handle::Handle, version::Version};

impl Version<Handle> {
    /// What the newest record of a key says, whose hash is given beside it; a value is appended to `value`. `None` if no table has the key.
    ///
    /// # Errors
    /// If something is damaged or cannot be read, or there is no memory for it.
    pub(super) fn find(&self, (hash, key): (u64, &[u8]), value: &mut Vec<u8>) -> Result<Option<Answer>> {
        let mut memory = None;
        for handle in self.counting(key).filter_map(|run| run.covering(key)) {
            let answer = handle.find((hash, key), &mut memory, value)?;
            if answer.is_some() {
                return Ok(answer);
            }
        }
        Ok(None)
    }
}
