//! What a history is made of.

use std::ops::Bound;

use ecotone_engines::engine::{Hint, Range, Record};

use crate::model::{Change, Key, Level};

/// One thing that a test does with a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// One write, or a batch.
    Write(Vec<Change>, Level),
    /// A look at one key.
    Get(Key),
    /// A look at many keys of a keyspace.
    MultiGet(u32, Vec<Vec<u8>>),
    /// All records of a hashed keyspace.
    Walk(u32),
    /// A range, forward or in reverse.
    Scan(u32, Range, bool),
    /// A prefix.
    Prefix(u32, Vec<u8>),
    /// An atomic update, to a value made of the old one and this.
    Update(Key, Option<Vec<u8>>),
    /// A compare-and-swap; the expectation is right or wrong.
    Swap(Key, Option<Vec<u8>>, bool),
    /// An addition to a counter, or to what may be none.
    Add(Key, i64),
    /// Bytes appended to a value.
    Append(Key, Vec<u8>),
    /// A bulk load of records that are made to lie above everything.
    BulkLoad(u32, Vec<Record>),
    /// How a range will be used, as somebody says.
    Hint(u32, Range, Hint),
    /// Everything into the files.
    Flush,
    /// The log synced.
    Sync,
    /// One background job, if one waits.
    Background,
    /// Background jobs until none waits.
    Idle,
    /// Closed and opened again.
    Reopen,
    /// A keyspace goes.
    Drop(u32),
    /// A keyspace comes.
    Create(u32),
}

/// A history in a line or so: long keys and values are told by their lengths.
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

/// A range that holds everything.
pub(super) const EVERYTHING: Range = (Bound::Unbounded, Bound::Unbounded);

/// A write of one value.
pub(super) fn put(keyspace: u32, key: &[u8], value: &[u8], level: Level) -> Step {
    Step::Write(vec![((keyspace, key.to_vec()), Some(value.to_vec()))], level)
}

/// A delete of one key.
pub(super) fn delete(keyspace: u32, key: &[u8], level: Level) -> Step {
    Step::Write(vec![((keyspace, key.to_vec()), None)], level)
}
