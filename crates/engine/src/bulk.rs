//! Checks that all ordered engines make on the records of a bulk load.

use ecotone_substrate::{Error, Result};

use crate::contract::Record;

/// Returns the record if its key is above the last one.
///
/// # Errors
/// If its key is not above the last one.
pub fn ascends(last: Option<&[u8]>, record: Record) -> Result<Record> {
    if last.is_none_or(|last| last < record.0.as_slice()) {
        return Ok(record);
    }
    let key = String::from_utf8_lossy(&record.0).into_owned();
    Err(Error::Invalid(format!(
        "bulk load wants strictly ascending keys above all keys present, and {key:?} is not above the key before it"
    )))
}
