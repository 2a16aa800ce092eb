//! Merge operators: updates that depend on the old value but need no closure, so that an engine can apply them in
//! place.

use ecotone_substrate::{Error, Result, limits};

use crate::contract::{UpdateAction, UpdateFn};

/// An update of the value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge<'a> {
    /// Adds to a counter: eight bytes, little-endian, wrapping. A missing value counts as 0.
    Add(i64),
    /// Appends these bytes to the value. A missing value counts as empty.
    Append(&'a [u8]),
}

impl Merge<'_> {
    /// Writes the result for the value `before` into `after`, which is empty.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an addition to a value that is no counter.
    #[doc(hidden)]
    pub fn apply(self, before: Option<&[u8]>, after: &mut Vec<u8>) -> Result<()> {
        match self {
            Merge::Add(amount) => after.extend_from_slice(&counter(before)?.wrapping_add(amount).to_le_bytes()),
            Merge::Append(bytes) => {
                after.extend_from_slice(before.unwrap_or_default());
                after.extend_from_slice(bytes);
            }
        }
        Ok(())
    }

    /// Applies the update to the value of `key` by way of `modify`.
    ///
    /// # Errors
    /// Those of `modify` and of [`apply_to`](Self::apply_to). Then nothing is changed.
    #[doc(hidden)]
    pub fn apply_by(self, key: &[u8], modify: impl FnOnce(&mut UpdateFn<'_>) -> Result<()>) -> Result<()> {
        let mut refused = None;
        modify(&mut |before, after| {
            refused = self.apply_to(key, before, after).err();
            if refused.is_none() { UpdateAction::Store } else { UpdateAction::Keep }
        })?;
        refused.map_or(Ok(()), Err)
    }

    /// Writes the result for the value of `key` into `after`, which is empty, if it fits into a record.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an addition to a value that is no counter, [`Error::Limit`] where the value becomes too
    /// long.
    #[doc(hidden)]
    pub fn apply_to(self, key: &[u8], before: Option<&[u8]>, after: &mut Vec<u8>) -> Result<()> {
        self.apply(before, after)?;
        let bytes = key.len() + after.len();
        if bytes > limits::MAX_RECORD {
            let what = "the length of key and value together in bytes";
            return Err(Error::Limit { what, limit: limits::MAX_RECORD as u64, actual: bytes as u64 });
        }
        Ok(())
    }
}

fn counter(value: Option<&[u8]>) -> Result<i64> {
    let Some(value) = value else { return Ok(0) };
    let bytes = value.try_into().map_err(|_| {
        Error::Invalid(format!("a counter has 8 bytes, and this value has {}; add to counters alone", value.len()))
    })?;
    Ok(i64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(merge: Merge<'_>, before: Option<&[u8]>) -> Result<Vec<u8>> {
        let mut after = Vec::new();
        merge.apply(before, &mut after).map(|()| after)
    }

    #[test]
    fn counters_begin_at_nothing_go_both_ways_and_wrap() {
        assert_eq!(merged(Merge::Add(3), None).unwrap(), 3i64.to_le_bytes());
        assert_eq!(merged(Merge::Add(-5), Some(&3i64.to_le_bytes())).unwrap(), (-2i64).to_le_bytes());
        assert_eq!(merged(Merge::Add(1), Some(&i64::MAX.to_le_bytes())).unwrap(), i64::MIN.to_le_bytes());
    }

    #[test]
    fn what_has_not_eight_bytes_is_no_counter() {
        for length in (0..20).filter(|length| *length != 8) {
            let refused = merged(Merge::Add(1), Some(&vec![0; length]));
            assert!(matches!(refused, Err(Error::Invalid(_))), "{length}: {refused:?}");
        }
    }

    #[test]
    fn appending_begins_with_nothing() {
        assert_eq!(merged(Merge::Append(b"ab"), None).unwrap(), b"ab");
        assert_eq!(merged(Merge::Append(b"cd"), Some(b"ab")).unwrap(), b"abcd");
        assert_eq!(merged(Merge::Append(b""), None).unwrap(), b"");
    }
}
