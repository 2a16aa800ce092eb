//! Result of a search among records.

/// The record that a finished search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A value.
    Value,
    /// A tombstone: older records are not visible.
    Deleted,
}

impl Answer {
    /// The answer for a record with this value, which is appended to `to`. No value is a tombstone.
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
