//! The phases before the kill: loading, reading, scanning, updating.

use std::time::{Duration, Instant};

use ecotone::Keyspace;
use rand::{SeedableRng, rngs::SmallRng};

use crate::{
    demo::{
        check::path_value,
        keyspaces::{DemoKeyspaces, check},
        measure::{self, Limit, Row, nanoseconds},
        operations::{Keys, Operations, THREADS},
        progress,
        sets::{self, Sizes},
        values,
    },
    failure::Failure,
};

/// Paths in one batch.
const PATHS_TOGETHER: usize = 32;
/// Keys in one multi-get.
const GETS_TOGETHER: usize = 32;
/// Records in one scan.
const SCAN: usize = 100;

/// Loads the taxa, which ascend; by bulk load where the engine orders keys.
pub(crate) fn load_taxa(keyspaces: &DemoKeyspaces<'_>) -> Result<Row, Failure> {
    let taxa = &keyspaces.universe.taxa;
    let bar = progress::bar("load taxa, sorted", taxa.len() as u64);
    let records = (0..taxa.len()).map(|index| {
        if index % 1024 == 0 {
            bar.set_position(index as u64);
        }
        let key = taxa.key(index);
        (key.to_be_bytes(), values::value(key, 0))
    });
    let row = measure::whole("load taxa, sorted", keyspaces.database, |_| {
        Ok(keyspaces.taxa.load_sorted(keyspaces.database, records)?)
    });
    bar.finish_and_clear();
    row
}

/// Inserts the towns one by one, in their order of arrival.
pub(crate) fn load_cities(keyspaces: &DemoKeyspaces<'_>) -> Result<Row, Failure> {
    let cities = &keyspaces.universe.cities;
    let all = Limit { operations: cities.len() as u64, time: Duration::MAX / 4 };
    measure::threads("insert towns as they came", keyspaces.database, all, |_| {
        |number| match cities.get(number as usize) {
            None => Ok(0),
            Some(&key) => Ok(keyspaces.cities.insert(&key.to_be_bytes(), &values::value(key, 0)).map(|()| 1)?),
        }
    })
}

/// Inserts the paths in batches.
pub(crate) fn load_paths(keyspaces: &DemoKeyspaces<'_>, sizes: Sizes) -> Result<Row, Failure> {
    let bar = progress::bar("batches of 32 paths", sizes.paths as u64);
    let row = measure::whole("batches of 32 paths", keyspaces.database, |latency| {
        let mut paths = sets::paths(sizes.paths).zip(0u64..).peekable();
        while paths.peek().is_some() {
            let began = Instant::now();
            let mut batch = keyspaces.database.batch();
            for (path, number) in paths.by_ref().take(PATHS_TOGETHER) {
                keyspaces.paths.insert_by(&mut batch, path, path_value(number));
            }
            bar.inc(batch.len() as u64);
            batch.commit()?;
            latency.saturating_record(nanoseconds(began.elapsed()));
        }
        Ok(sizes.paths as u64)
    });
    bar.finish_and_clear();
    row
}

/// Reads single records, chosen by `keys`, and checks them.
pub(crate) fn read(
    phase: &'static str,
    keyspaces: &DemoKeyspaces<'_>,
    limit: Limit,
    keys: &Keys,
) -> Result<Row, Failure> {
    measure::threads(phase, keyspaces.database, limit, |thread| {
        let mut random = SmallRng::seed_from_u64(thread as u64);
        move |_| keyspaces.read(keys.next(&mut random)).map(|()| 1)
    })
}

/// Reads many records at once, and checks them.
pub(crate) fn multi_get(keyspaces: &DemoKeyspaces<'_>, limit: Limit, keys: &Keys) -> Result<Row, Failure> {
    measure::threads("read 32 at once, uniform", keyspaces.database, limit, |thread| {
        let mut random = SmallRng::seed_from_u64(1 << 32 | thread as u64);
        move |_| {
            let some: Vec<u64> = (0..GETS_TOGETHER).map(|_| keyspaces.universe.key(keys.next(&mut random))).collect();
            let values = keyspaces.taxa.multi_get(some.iter().map(|key| key.to_be_bytes()))?;
            some.iter().zip(values).try_for_each(|(&key, value)| check(&keyspaces.taxa, key, value.as_deref()))?;
            Ok(GETS_TOGETHER as u64)
        }
    })
}

/// Scans short ranges, and checks every record.
pub(crate) fn scan(keyspaces: &DemoKeyspaces<'_>, taxa: &Keyspace, limit: Limit, keys: &Keys) -> Result<Row, Failure> {
    measure::threads("scan 100 records", keyspaces.database, limit, |thread| {
        let mut random = SmallRng::seed_from_u64(2 << 32 | thread as u64);
        move |_| {
            let from = keyspaces.universe.key(keys.next(&mut random)).to_be_bytes();
            for record in taxa.range(from..).take(SCAN) {
                let (key, value) = record?;
                let key = key.as_slice().try_into().map_or(0, u64::from_be_bytes);
                check(&keyspaces.taxa, key, Some(&value))?;
            }
            Ok(1)
        }
    })
}

/// Runs the mixed workload in this process. Also returns the number of operations of each thread.
pub(crate) fn mixed(keyspaces: &DemoKeyspaces<'_>, limit: Limit, round: u32) -> Result<(Row, [u32; THREADS]), Failure> {
    let done: [std::sync::atomic::AtomicU32; THREADS] = Default::default();
    let row = measure::threads("update, insert, delete, read", keyspaces.database, limit, |thread| {
        let mut operations = Operations::new(keyspaces.universe.len(), round, thread);
        let done = &done[thread];
        move |_| {
            let operation = operations.next().expect("operations have no end");
            keyspaces.act(&operation)?;
            done.store(operation.number + 1, std::sync::atomic::Ordering::Relaxed);
            Ok(1)
        }
    })?;
    Ok((row, done.map(std::sync::atomic::AtomicU32::into_inner)))
}
