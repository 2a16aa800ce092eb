//! Checks of the limits, where a caller's bytes enter.

use ecotone_engine::contract::Operation;

use crate::{Error, Result, limits};

/// Refuses what is above a limit.
#[inline]
pub(crate) fn at_most(what: &'static str, limit: usize, actual: usize) -> Result<()> {
    if actual > limit {
        return Err(Error::Limit { what, limit: limit as u64, actual: actual as u64 });
    }
    Ok(())
}

/// Refuses keys that no engine can store.
pub(crate) fn key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::Limit { what: "the length of a key in bytes", limit: 1, actual: 0 });
    }
    at_most("the length of a key in bytes", limits::MAX_KEY, key.len())
}

/// Refuses records that no engine can store inline.
pub(crate) fn operation(operation: Operation<'_>) -> Result<()> {
    key(operation.key)?;
    let bytes = operation.key.len() + operation.value.map_or(0, <[u8]>::len);
    at_most("the length of key and value together in bytes", limits::MAX_RECORD, bytes)
}

/// Refuses names that are empty, too long, or hold control characters.
pub(crate) fn name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > limits::MAX_NAME {
        let limit = if name.is_empty() { 1 } else { limits::MAX_NAME as u64 };
        return Err(Error::Limit {
            what: "the length of a keyspace's name in bytes",
            limit,
            actual: name.len() as u64,
        });
    }
    if name.chars().any(char::is_control) {
        return Err(Error::Invalid(format!("the keyspace name {name:?} holds a control character; choose another")));
    }
    Ok(())
}
