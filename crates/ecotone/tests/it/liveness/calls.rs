//! The calls that the threads of an episode make.

use std::{sync::Arc, time::Instant};

use ecotone::{Database, Durability, Error, HashIter, Hint, Iter, Merge, Result};
use ecotone_sys::process::in_a_fork;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{Shape, keyspace, watch::Watch};
use crate::either::{Either, either};

const KEYS: u64 = 20_000;
/// Iterators that a thread keeps open.
const MOST_ITERATORS: usize = 48;

/// A kind of call that an episode makes more often than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Focus {
    Batches,
    Closures,
    Iterators,
    Flushes,
    Writes,
}

impl Focus {
    pub(crate) const ALL: [Focus; 5] =
        [Focus::Batches, Focus::Closures, Focus::Iterators, Focus::Flushes, Focus::Writes];

    /// Calls of this kind, by their numbers.
    fn calls(self) -> &'static [u32] {
        match self {
            Focus::Batches => &[20, 21, 22, 23],
            Focus::Closures => &[30, 31, 32, 33, 34],
            Focus::Iterators => &[40, 41, 42],
            Focus::Flushes => &[50, 51],
            Focus::Writes => &[0, 1, 2],
        }
    }
}

pub(super) fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A value that encodes its key.
pub(super) fn value(number: u64, length: usize) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(length.max(8), number as u8);
    value
}

/// An iterator of either kind.
enum Open {
    Ordered(Box<Iter>, bool),
    Hashed(Box<HashIter>),
}

impl Open {
    fn next(&mut self) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        match self {
            Open::Ordered(iter, false) => iter.next(),
            Open::Ordered(iter, true) => iter.next_back(),
            Open::Hashed(iter) => iter.next(),
        }
    }
}

pub(super) struct Caller<'a> {
    number: usize,
    random: SmallRng,
    database: &'a Database,
    keyspaces: &'a [Either; 3],
    shape: Shape,
    watch: &'a Arc<Watch>,
    open: Vec<Open>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(
        number: usize,
        seed: u64,
        database: &'a Database,
        keyspaces: &'a [Either; 3],
        shape: Shape,
        watch: &'a Arc<Watch>,
    ) -> Self {
        Caller { number, random: SmallRng::seed_from_u64(seed), database, keyspaces, shape, watch, open: Vec::new() }
    }

    /// Makes `calls` calls. Refusals for lack of memory or space are valid answers.
    pub(super) fn make(mut self, calls: usize) -> std::result::Result<(), String> {
        for _ in 0..calls {
            let number = match self.shape.focus {
                Some(focus) if self.random.random_bool(0.7) => {
                    let calls = focus.calls();
                    calls[self.random.random_range(0..calls.len())]
                }
                _ => self.random.random_range(0..60),
            };
            let which = self.random.random_range(0..3);
            self.watch.note(self.number, &format!("call {number} on keyspace {which}"));
            let began = Instant::now();
            let answer = self.call(number, which);
            self.watch.count(number, began.elapsed());
            match answer {
                Ok(()) | Err(Error::Memory { .. } | Error::NoSpace { .. }) => {}
                Err(error) => return Err(format!("call {number} on keyspace {which}: {error}")),
            }
        }
        self.watch.rest(self.number);
        Ok(())
    }

    fn some_key(&mut self) -> u64 {
        // All threads use some of the keys.
        if self.random.random_bool(0.3) { self.random.random_range(0..64) } else { self.random.random_range(0..KEYS) }
    }

    fn call(&mut self, call: u32, which: usize) -> Result<()> {
        let (keyspaces, database) = (self.keyspaces, self.database);
        let (keyspace, other, number) = (&keyspaces[which], &keyspaces[(which + 1) % 3], self.some_key());
        match call {
            0..=13 => self.write(keyspace, number),
            14..=19 => self.read(keyspace, number),
            20 => self.batch(which, 100, 300),
            // Batches of the largest size, of tiny records and of large ones.
            21 => self.batch(which, 32_000, 0),
            22 => self.batch(which, 21_000, 0),
            23 => self.batch(which, 800, 1200),
            24..=29 => either!(keyspace, keyspace => keyspace.merge(b"counter", Merge::Add(1))),
            30 => self.update_beside(keyspace, other, number),
            31 => self.read_many_and_write(keyspace, other, number),
            32 => nested(keyspace, self.random.random_range(1..40)),
            33 => self.update_and_scan(keyspace, other, number),
            34 => self.read_many_and_flush(keyspace, number),
            35..=39 => self.read_many(keyspace, number),
            40..=44 => {
                self.begin_to_iterate(keyspace, number);
                self.iterate(20)
            }
            45 | 46 => self.iterate(400),
            47 => {
                self.open.clear();
                Ok(())
            }
            48 | 49 => database.sync(),
            50 | 51 => database.flush(),
            52 => {
                database.stats();
                database.verify().map(drop)
            }
            53 => self.make_and_drop(),
            54 => self.load(),
            55 => match keyspace {
                Either::Ordered(keyspace) if self.random.random_bool(0.2) => keyspace.compact(|_, _| {}).map(drop),
                Either::Ordered(keyspace) => {
                    let hint = if self.random.random_bool(0.7) { Hint::ReadMostly } else { Hint::Auto };
                    let hinted = keyspace.hint(key(number)..key(number + 2_000), hint);
                    if matches!(hinted, Err(Error::Limit { .. })) { Ok(()) } else { hinted }
                }
                Either::Hashed(_) => Ok(()),
            },
            56 => fork(keyspace, number),
            _ => self.read(keyspace, number),
        }
    }

    fn write(&mut self, keyspace: &Either, number: u64) -> Result<()> {
        let (length, durability) = (self.random.random_range(8..1400), self.random.random_ratio(1, 20));
        let durability = if durability { Durability::Sync } else { Durability::Buffered };
        // Several, so that a session writes more than its memory holds.
        for number in number..number + 8 {
            either!(keyspace, keyspace => match length % 5 {
                0 => keyspace.remove(key(number))?,
                // An unlogged write cannot be synced.
                1 if keyspace.name() != "unlogged" => {
                    keyspace.durability(durability).insert(key(number), value(number, length))?;
                }
                _ => keyspace.insert(key(number), value(number, length))?,
            });
        }
        Ok(())
    }

    fn read(&mut self, keyspace: &Either, number: u64) -> Result<()> {
        let found = either!(keyspace, keyspace => keyspace.get(key(number)))?;
        found.iter().for_each(|found| check(&key(number), found));
        Ok(())
    }

    fn read_many(&mut self, keyspace: &Either, number: u64) -> Result<()> {
        let keys: Vec<Vec<u8>> = (0..100).map(|step| key(number + 37 * step)).collect();
        let found = either!(keyspace, keyspace => keyspace.multi_get(&keys))?;
        keys.iter().zip(&found).for_each(|(key, found)| found.iter().for_each(|found| check(key, found)));
        Ok(())
    }

    /// A batch into a keyspace, and into another of its kind.
    fn batch(&mut self, which: usize, records: u64, length: usize) -> Result<()> {
        let (mut batch, first) = (self.database.batch(), self.some_key());
        let logged = [&self.keyspaces[0], &self.keyspaces[2]];
        for record in 0..records {
            let number = first + record;
            let keyspace = if which == 1 { &self.keyspaces[1] } else { logged[(record % 2) as usize] };
            // Tiny ones have keys of four bytes and no value.
            let (key, value) = if length == 0 {
                (key(number)[4..].to_vec(), Vec::new())
            } else {
                (key(number), value(number, length))
            };
            either!(keyspace, keyspace => match record % 7 {
                6 => batch.remove(keyspace, key),
                _ => batch.insert(keyspace, key, value),
            });
        }
        batch.commit()
    }

    /// An update whose closure writes many other keys.
    fn update_beside(&mut self, keyspace: &Either, other: &Either, number: u64) -> Result<()> {
        let (mut inner, first) = (Ok(()), self.some_key());
        let update = |old: Option<&[u8]>| {
            for number in first..first + 40 {
                inner = either!(other, other => other.insert(key(KEYS + number), value(KEYS + number, 200)));
            }
            Some(old.map_or_else(|| value(number, 50), <[u8]>::to_vec))
        };
        either!(keyspace, keyspace => keyspace.fetch_update(key(number), update))?;
        inner
    }

    /// An update whose closure scans and reads.
    fn update_and_scan(&mut self, keyspace: &Either, other: &Either, number: u64) -> Result<()> {
        let mut inner = Ok(());
        let update = |old: Option<&[u8]>| {
            inner = either!(other, other => other.iter().take(50).try_for_each(|record| record.map(drop)));
            let keys: Vec<Vec<u8>> = (0..50).map(|step| key(number + step)).collect();
            inner = inner.clone().and_then(|()| either!(other, other => other.multi_get(&keys)).map(drop));
            old.map(<[u8]>::to_vec)
        };
        either!(keyspace, keyspace => keyspace.update_fetch(key(number), update))?;
        inner
    }

    /// A read of many whose closure writes.
    fn read_many_and_write(&mut self, keyspace: &Either, other: &Either, number: u64) -> Result<()> {
        let keys: Vec<Vec<u8>> = (0..60).map(|step| key(number + 11 * step)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut inner = Ok(());
        let found = |place: usize, found: Option<&[u8]>| {
            found.iter().for_each(|found| check(keys[place], found));
            let number = KEYS * 2 + place as u64;
            inner = inner.clone().and_then(|()| either!(other, other => other.insert(key(number), value(number, 900))));
        };
        either!(keyspace, keyspace => keyspace.multi_get_with(&keys, found))?;
        inner
    }

    /// A read of many whose closure flushes, once.
    fn read_many_and_flush(&mut self, keyspace: &Either, number: u64) -> Result<()> {
        let keys: Vec<Vec<u8>> = (0..60).map(|step| key(number + 11 * step)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let (mut inner, database) = (Ok(()), self.database);
        let found = |place: usize, _: Option<&[u8]>| {
            if place == 30 {
                inner = database.flush();
            }
        };
        either!(keyspace, keyspace => keyspace.multi_get_with(&keys, found))?;
        inner
    }

    fn begin_to_iterate(&mut self, keyspace: &Either, number: u64) {
        if self.open.len() >= MOST_ITERATORS {
            let gone = self.random.random_range(0..self.open.len());
            self.open.swap_remove(gone);
        }
        let backward = self.random.random_bool(0.3);
        self.open.push(match keyspace {
            Either::Ordered(keyspace) if backward => Open::Ordered(Box::new(keyspace.range(..key(number))), true),
            Either::Ordered(keyspace) => Open::Ordered(Box::new(keyspace.range(key(number)..)), false),
            Either::Hashed(keyspace) => Open::Hashed(Box::new(keyspace.iter())),
        });
    }

    /// Some records of each of a few open iterators.
    fn iterate(&mut self, records: usize) -> Result<()> {
        for _ in 0..self.open.len().min(4) {
            let which = self.random.random_range(0..self.open.len());
            for _ in 0..records {
                match self.open[which].next() {
                    Some(Ok((key, value))) => check(&key, &value),
                    Some(Err(error)) => {
                        self.open.swap_remove(which);
                        return Err(error);
                    }
                    None => break,
                }
            }
            if self.open.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// A keyspace of the thread's own.
    fn make_and_drop(&mut self) -> Result<()> {
        let name = format!("of thread {}", self.number);
        let own = keyspace(self.database, &name, self.shape.engine, self.random.random_bool(0.5))?;
        let written = (0..50).try_for_each(|number| either!(&own, own => own.insert(key(number), value(number, 500))));
        self.database.drop_keyspace(&name)?;
        written
    }

    /// A bulk load whose records come from an iterator, and beside which the same thread writes.
    fn load(&mut self) -> Result<()> {
        let Either::Ordered(source) = &self.keyspaces[0] else { return Ok(()) };
        let name = format!("loaded by thread {}", self.number);
        let Either::Ordered(own) = keyspace(self.database, &name, self.shape.engine, true)? else { return Ok(()) };
        let (mut inner, mut records) = (Ok(()), source.iter());
        let loaded = own.bulk_load(std::iter::from_fn(|| match records.next()? {
            Ok(record) => {
                inner = inner.clone().and_then(|()| own.insert([b"!", &record.0[..]].concat(), "beside"));
                Some(record)
            }
            Err(error) => {
                inner = Err(error);
                None
            }
        }));
        self.database.drop_keyspace(&name)?;
        loaded.and(inner)
    }
}

/// Reads within reads.
fn nested(keyspace: &Either, depth: u32) -> Result<()> {
    if depth == 0 {
        return Ok(());
    }
    let mut inner = Ok(());
    let keys = [key(0), key(KEYS / 2), key(KEYS + 5)];
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let found = |place: usize, _: Option<&[u8]>| {
        if place == 0 {
            inner = nested(keyspace, depth - 1);
        }
    };
    either!(keyspace, keyspace => keyspace.multi_get_with(&keys, found))?;
    inner
}

fn check(key: &[u8], value: &[u8]) {
    if key.len() == 8 && value.len() >= 8 {
        assert_eq!(value[..8], *key, "a value of another key");
    }
}

/// A forked child process. Its calls are refused, whatever locks the parent's threads hold.
fn fork(keyspace: &Either, number: u64) -> Result<()> {
    let is_refused = || {
        either!(keyspace, keyspace => {
            let (read, written) = (keyspace.get(key(number)), keyspace.insert(key(number), "of another process"));
            matches!((read, written), (Err(Error::Forked), Err(Error::Forked)))
                && keyspace.iter().next().is_some_and(|next| next.is_err())
        })
    };
    let ended = in_a_fork(|| u8::from(is_refused()));
    assert!(matches!(ended, Ok(Some(1))), "a process that was forked off ended with {ended:?}");
    Ok(())
}
