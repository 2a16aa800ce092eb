//! Checks of the limits, where a caller's bytes enter.

use ecotone_engine::contract::Operation;

use crate::{Error, Result, limits};

/// Refuses keys that no engine can store.
pub(crate) fn key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::Limit { what: "the length of a key in bytes", limit: 1, actual: 0 });
    }
    if key.len() > limits::MAX_KEY {
        return Err(Error::Limit {
            what: "the length of a key in bytes",
            limit: limits::MAX_KEY as u64,
            actual: key.len() as u64,
        });
    }
    Ok(())
}

/// Refuses records that no engine can store inline.
pub(crate) fn operation(operation: Operation<'_>) -> Result<()> {
    key(operation.key)?;
    let bytes = operation.key.len() + operation.value.map_or(0, <[u8]>::len);
    if bytes > limits::MAX_RECORD {
        return Err(Error::Limit {
            what: "the length of key and value together in bytes",
            limit: limits::MAX_RECORD as u64,
            actual: bytes as u64,
        });
    }
    Ok(())
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
