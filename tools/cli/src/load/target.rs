//! The two ways into a keyspace: batches of inserts, and bulk load for sorted input.

use std::ops::Bound;

use ecotone::{Batch, Database, Keyspace};

use crate::{
    failure::Failure,
    load::{
        records::{Problem, Record},
        tally::Tally,
    },
    open_keyspace::OpenKeyspace,
};

/// Records in one batch.
const BATCH: usize = 128;

/// Inserts records in batches.
pub(crate) fn insert(
    database: &Database,
    keyspace: &OpenKeyspace,
    records: impl Iterator<Item = Result<Record, Problem>>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut batch = database.batch();
    for record in records {
        match record {
            Ok(Record { key, value, .. }) => keyspace.insert_by(&mut batch, key, value),
            Err(problem) => {
                // The records before the problem are loaded in any case.
                commit(std::mem::replace(&mut batch, database.batch()), tally)?;
                tally.problem(problem)?;
            }
        }
        if batch.len() >= BATCH {
            commit(std::mem::replace(&mut batch, database.batch()), tally)?;
        }
    }
    commit(batch, tally)
}

fn commit(batch: Batch, tally: &mut Tally) -> Result<(), Failure> {
    let records = batch.len() as u64;
    if records > 0 {
        batch.commit()?;
    }
    tally.loaded += records;
    Ok(())
}

/// Bulk-loads ascending records. A record that is not above its predecessor is bad.
pub(crate) fn bulk(
    keyspace: &Keyspace,
    records: impl Iterator<Item = Result<Record, Problem>>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let before = keyspace.last_key_value()?.map_or(Vec::new(), |(key, _)| key);
    let mut last = before.clone();
    let mut failure = None;
    let mut good = records.map_while(|record| {
        let record = record.and_then(|record| ascending(record, &mut last));
        match record
            .map_or_else(|problem| tally.problem(problem).map(|()| None), |record| Ok(Some((record.key, record.value))))
        {
            Ok(record) => Some(record),
            Err(error) => {
                failure = Some(error);
                None
            }
        }
    });
    let loaded = keyspace.bulk_load(good.by_ref().flatten());
    drop(good);
    // After an error a prefix is loaded; only the keyspace knows its length.
    let there =
        |_: &_| keyspace.range((Bound::Excluded(before), Bound::Unbounded)).filter(Result::is_ok).count() as u64;
    tally.loaded = loaded.as_ref().map_or_else(there, |loaded| *loaded);
    loaded?;
    failure.map_or(Ok(()), Err)
}

fn ascending(record: Record, last: &mut Vec<u8>) -> Result<Record, Problem> {
    if record.key <= *last {
        let reason = "its key is not above all before it; load unsorted input without --sorted".to_owned();
        return Err(Problem::Entry { number: record.number, reason });
    }
    last.clone_from(&record.key);
    Ok(record)
}
