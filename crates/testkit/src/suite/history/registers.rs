//! Registers as keys of two keyspaces, surrounded by records that never change.

use std::ops::Bound;

use ecotone_engine::contract::{Hint, Record};

use super::Value;
use crate::{
    model::{Change, Key, Level},
    sim::SimStorage,
    suite::{Kind, Opener, Store, Verdict},
};

/// Records in one batch that fills a hashed keyspace.
const BATCH: usize = 64;
/// The length of a cold record's value: two of them fill a page.
const COLD: usize = 1800;

/// The registers, and how many cold records surround those of the first keyspace.
#[derive(Debug, Clone, Copy)]
pub(in crate::suite) struct Registers {
    pub(in crate::suite) kind: Kind,
    pub(in crate::suite) count: usize,
    pub(in crate::suite) cold: u32,
}

impl Registers {
    /// The key of a register. Even registers are in keyspace 1, each behind every other of the middle cold records; odd
    /// ones are in keyspace 2.
    pub(super) fn key(&self, register: usize) -> Key {
        let mut key = cold_key(self.cold / 2 + register as u32 / 2 * 2);
        key.push(b'r');
        (1 + register as u32 % 2, key)
    }

    /// The registers of one keyspace, in the order of their keys.
    pub(super) fn of(&self, keyspace: u32) -> Vec<usize> {
        (0..self.count).filter(|register| 1 + *register as u32 % 2 == keyspace).collect()
    }

    /// A disk with a database that holds the keyspaces and the cold records.
    pub(in crate::suite) fn prepare(&self, opener: &dyn Opener) -> Verdict<SimStorage> {
        let disk = SimStorage::new(1);
        let make = |store: Box<dyn Store>| {
            store.create(1)?;
            store.create(2)?;
            self.load(&*store)?;
            store.close()
        };
        opener.open(&disk, 1).and_then(make).map_err(|error| format!("preparing failed: {error}"))?;
        Ok(disk)
    }

    /// Hints how registers `from..to` of a keyspace, and the cold records between them, will be used. Hashed keyspaces
    /// have no ranges, so there is nothing to hint.
    pub(super) fn hint(
        &self,
        store: &dyn Store,
        keyspace: u32,
        (from, to): (usize, usize),
        hint: Hint,
    ) -> ecotone_substrate::Result<()> {
        let numbers = &self.of(keyspace)[from..to];
        let (Some(first), Some(last), Kind::Ordered) = (numbers.first(), numbers.last(), self.kind) else {
            return Ok(());
        };
        store.hint(keyspace, (Bound::Included(self.key(*first).1), Bound::Included(self.key(*last).1)), hint)
    }

    /// Loads the cold records.
    fn load(&self, store: &dyn Store) -> ecotone_substrate::Result<()> {
        let records: Vec<Record> = (0..self.cold).map(|number| (cold_key(number), cold_value(number))).collect();
        if self.kind == Kind::Ordered {
            return store.bulk_load(1, records).map(drop);
        }
        let change = |(key, value): &Record| -> Change { ((1, key.clone()), Some(value.clone())) };
        let write = |batch: &[Record]| store.write(&batch.iter().map(change).collect::<Vec<_>>(), Level::Buffered);
        records.chunks(BATCH).try_for_each(write)
    }

    /// The records of a keyspace whose keys lie between these two, from the end if `reverse`.
    fn between(
        &self,
        store: &dyn Store,
        keyspace: u32,
        (low, high): (Vec<u8>, Vec<u8>),
        reverse: bool,
    ) -> ecotone_substrate::Result<Vec<Record>> {
        if self.kind == Kind::Ordered {
            return store.scan(keyspace, (Bound::Included(low), Bound::Included(high)), reverse);
        }
        let mut records = store.walk(keyspace)?;
        records.retain(|(key, _)| (&low..=&high).contains(&key));
        records.sort_unstable_by(|a, b| if reverse { b.cmp(a) } else { a.cmp(b) });
        Ok(records)
    }

    /// Reads the registers and all records around them in every way, and gives the values of the registers.
    pub(in crate::suite) fn read(&self, store: &dyn Store) -> Verdict<Vec<Value>> {
        let mut values = vec![None; self.count];
        for keyspace in [1, 2] {
            let numbers = self.of(keyspace);
            let forward = self.scan(store, keyspace, (0, numbers.len()), false)?;
            if forward != self.scan(store, keyspace, (0, numbers.len()), true)? {
                return Err(format!("keyspace {keyspace} is another one in reverse"));
            }
            let keys: Vec<Vec<u8>> = numbers.iter().map(|number| self.key(*number).1).collect();
            let got = store.multi_get(keyspace, &keys).map_err(|error| format!("multi_get failed: {error}"))?;
            for ((number, got), scanned) in numbers.iter().zip(got).zip(forward) {
                values[*number] = read_value(got.as_deref())?;
                if values[*number] != scanned {
                    return Err(format!(
                        "register {number}: a scan gives {scanned:?}, multi_get {:?}",
                        values[*number]
                    ));
                }
            }
        }
        Ok(values)
    }

    fn scan(&self, store: &dyn Store, keyspace: u32, slots: (usize, usize), reverse: bool) -> Verdict<Vec<Value>> {
        let scanned = self.try_scan(store, keyspace, slots, reverse)?;
        scanned.map_err(|error| format!("the scan of keyspace {keyspace} failed: {error}"))
    }

    /// Scans registers `from..to` of a keyspace and the cold records between them, which must all be there.
    pub(super) fn try_scan(
        &self,
        store: &dyn Store,
        keyspace: u32,
        (from, to): (usize, usize),
        reverse: bool,
    ) -> Verdict<ecotone_substrate::Result<Vec<Value>>> {
        let numbers = &self.of(keyspace)[from..to];
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Ok(Ok(Vec::new())) };
        let (low, high) = (self.key(*first).1, self.key(*last).1);
        let mut records = match self.between(store, keyspace, (low, high), reverse) {
            Ok(records) => records,
            Err(error) => return Ok(Err(error)),
        };
        if reverse {
            records.reverse();
        }
        if records.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(format!("a scan of keyspace {keyspace} gave keys out of order or twice"));
        }
        let (hot, cold): (Vec<_>, Vec<_>) = records.into_iter().partition(|(key, _)| key.last() == Some(&b'r'));
        self.check_cold(keyspace, (*first, *last), &cold)?;
        let mut hot = hot.into_iter().peekable();
        let values = numbers.iter().map(|number| {
            let record = hot.next_if(|(key, _)| *key == self.key(*number).1);
            read_value(record.as_ref().map(|(_, value)| value.as_slice()))
        });
        let values = values.collect::<Verdict<Vec<Value>>>()?;
        if hot.next().is_some() { Err("a scan gave a key that nobody wrote".into()) } else { Ok(Ok(values)) }
    }

    fn check_cold(&self, keyspace: u32, (first, last): (usize, usize), found: &[(Vec<u8>, Vec<u8>)]) -> Verdict {
        let place = |register: usize| self.cold / 2 + register as u32 / 2 * 2;
        let expected = if keyspace == 1 { place(first) + 1..(place(last) + 1).min(self.cold) } else { 0..0 };
        let all = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|((key, value), number)| *key == cold_key(number) && *value == cold_value(number));
        if all {
            Ok(())
        } else {
            Err(format!("a scan of keyspace {keyspace} gave {} cold records, not what is there", found.len()))
        }
    }

    /// Reads these cold records.
    pub(super) fn look_at_cold(&self, store: &dyn Store, numbers: &[u32]) -> Verdict<ecotone_substrate::Result<()>> {
        let keys: Vec<Vec<u8>> = numbers.iter().map(|number| cold_key(*number)).collect();
        match store.multi_get(1, &keys) {
            Err(error) => Ok(Err(error)),
            Ok(values) => {
                let right =
                    numbers.iter().zip(&values).all(|(number, value)| value.as_ref() == Some(&cold_value(*number)));
                if right { Ok(Ok(())) } else { Err("a record that never changes is missing or wrong".into()) }
            }
        }
    }
}

fn cold_key(number: u32) -> Vec<u8> {
    format!("c{number:08}").into_bytes()
}

fn cold_value(number: u32) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(COLD, number as u8);
    value
}

/// The value of a write: its number, and a filler whose length changes with every write; few values are long.
pub(super) fn value_of(number: u32) -> Vec<u8> {
    let most = if number.is_multiple_of(11) { 1500 } else { 90 };
    let mut value = number.to_be_bytes().to_vec();
    value.resize(4 + (number.wrapping_mul(2_654_435_761) % most) as usize, number as u8);
    value
}

/// The number of the write that made this value.
pub(super) fn read_value(bytes: Option<&[u8]>) -> Verdict<Value> {
    let Some(bytes) = bytes else { return Ok(None) };
    let number = bytes.first_chunk().map(|number| u32::from_be_bytes(*number));
    number
        .filter(|number| value_of(*number) == bytes)
        .map(Some)
        .ok_or_else(|| format!("{} bytes that nobody wrote", bytes.len()))
}
