//! What a search among records comes to.

/// What a search that has ended found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A value.
    Value,
    /// A tombstone: nothing older counts.
    Deleted,
}

impl Answer {
    /// That of a record with this value, which is appended to `to`; none is a tombstone's.
    pub fn of(value: Option<&[u8]>, to: &mut Vec<u8>) -> Answer {
        match value {
            Some(bytes) => {
                to.extend_from_slice(bytes);
                Answer::Value
            }
            None => Answer::Deleted,
        }
    }
}
