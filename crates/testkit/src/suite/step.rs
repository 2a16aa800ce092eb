//! The steps of a history.

use std::ops::Bound;

use ecotone_engine::contract::{Hint, Range, Record};

use crate::model::{Change, Key, Level};

/// One call or action of a test on a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// One write, or a batch.
    Write(Vec<Change>, Level),
    /// A read of one key.
    Get(Key),
    /// A read of many keys of a keyspace.
    MultiGet(u32, Vec<Vec<u8>>),
    /// A walk over all records of a hashed keyspace.
    Walk(u32),
    /// A scan of a range, forward or in reverse.
    Scan(u32, Range, bool),
    /// A scan of a prefix.
    Prefix(u32, Vec<u8>),
    /// An atomic update, to a value made of the old value and this one.
    Update(Key, Option<Vec<u8>>),
    /// A compare-and-swap; the expectation is right or wrong.
    Swap(Key, Option<Vec<u8>>, bool),
    /// An addition to a counter; the old value may be no counter.
    Add(Key, i64),
    /// Bytes appended to a value.
    Append(Key, Vec<u8>),
    /// A bulk load of records whose keys are made to lie above all others.
    BulkLoad(u32, Vec<Record>),
    /// A hint how a range will be used.
    Hint(u32, Range, Hint),
    /// A flush of everything to the data files.
    Flush,
    /// A sync of the log.
    Sync,
    /// One background job, if one is pending.
    Background,
    /// Background jobs until none is pending.
    Idle,
    /// A close and a reopen.
    Reopen,
    /// A drop of a keyspace.
    Drop(u32),
    /// A creation of a keyspace.
    Create(u32),
}

/// Formats a history in about one line: long keys and values are shown by their lengths.
pub(super) fn brief(steps: &[Step]) -> String {
    steps.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn one(step: &Step) -> String {
    let short = |bytes: &[u8]| {
        if bytes.len() > 12 { format!("[{} bytes]", bytes.len()) } else { bytes.escape_ascii().to_string() }
    };
    match step {
        Step::Write(changes, level) => {
            let change = |((keyspace, key), value): &Change| {
                format!("{keyspace}/{}={:?}", short(key), value.as_deref().map(short))
            };
            let some: Vec<String> = changes.iter().take(3).map(change).collect();
            format!("{level:?} write of {}: {}", changes.len(), some.join(" "))
        }
        Step::BulkLoad(keyspace, records) => format!("bulk load of {} into {keyspace}", records.len()),
        Step::MultiGet(keyspace, keys) => format!("look at {} keys of {keyspace}", keys.len()),
        other => format!("{other:?}").chars().take(100).collect(),
    }
}

/// A range that holds all keys.
pub(super) const EVERYTHING: Range = (Bound::Unbounded, Bound::Unbounded);

/// A write of one value.
pub(super) fn put(keyspace: u32, key: &[u8], value: &[u8], level: Level) -> Step {
    Step::Write(vec![((keyspace, key.to_vec()), Some(value.to_vec()))], level)
}

/// A delete of one key.
pub(super) fn delete(keyspace: u32, key: &[u8], level: Level) -> Step {
    Step::Write(vec![((keyspace, key.to_vec()), None)], level)
}
