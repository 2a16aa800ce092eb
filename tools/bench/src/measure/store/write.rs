//! The writes of a transaction, for stores with a single writer.

use super::{
    contract::{Change, Record},
    group::Group,
};
use crate::error::Result;

/// The writable side of a transaction.
pub(super) trait Table {
    /// Whether the key has exactly this value; `None` means no value.
    fn holds(&self, key: &[u8], value: Option<&[u8]>) -> Result<bool>;
    /// Writes a record.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes a record.
    fn remove(&mut self, key: &[u8]) -> Result<()>;
}

/// One thread's part of a transaction.
#[derive(Debug)]
pub(super) enum Write {
    /// Records, all together.
    Put(Vec<(Vec<u8>, Vec<u8>)>),
    /// A new value, if the old one is unchanged.
    Replace { key: Vec<u8>, old: Option<Vec<u8>>, new: Vec<u8> },
    /// Removes the key, if it still has this value.
    Take { key: Vec<u8>, value: Vec<u8> },
}

impl Write {
    /// Records to be written together.
    pub(super) fn put(records: &[Record<'_>]) -> Self {
        Write::Put(records.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
    }

    /// Applies the write, and returns whether it was done.
    pub(super) fn apply(&self, table: &mut impl Table) -> Result<bool> {
        match self {
            Write::Put(records) => records.iter().try_for_each(|(key, value)| table.put(key, value)).map(|()| true),
            Write::Replace { key, old, new } if table.holds(key, old.as_deref())? => table.put(key, new).map(|()| true),
            Write::Take { key, value } if table.holds(key, Some(value))? => table.remove(key).map(|()| true),
            Write::Replace { .. } | Write::Take { .. } => Ok(false),
        }
    }
}

/// Read-modify-write: computes the new value outside of the transaction, and retries if the old value has changed
/// meanwhile.
pub(super) fn update(
    group: &Group<Write>,
    key: &[u8],
    change: &mut Change<'_>,
    read: impl Fn() -> Result<Option<Vec<u8>>>,
    commit: impl Fn(&[Write]) -> Result<Vec<bool>>,
) -> Result<()> {
    loop {
        let old = read()?;
        let new = change(old.as_deref());
        if group.submit(Write::Replace { key: key.to_vec(), old, new }, &commit)? {
            return Ok(());
        }
    }
}
