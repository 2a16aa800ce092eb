//! Opens a damaged database, reads everything in every way, and judges the answers.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use ecotone::Error;
use ecotone_testkit::{
    model::{Key, State},
    sim::SimStorage,
};

use super::{
    either::{Either, either},
    image::{self, NAMES},
};

/// The effect of a damage.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The database does not open.
    Refused(Error),
    /// It opens, and reads of damaged data fail.
    Hurt(Vec<Error>),
    /// Everything is there.
    Intact,
    /// It opens with the content after an earlier write.
    Shorter,
}

impl Verdict {
    /// The errors that the user gets.
    pub(super) fn errors(&self) -> &[Error] {
        match self {
            Verdict::Refused(error) => std::slice::from_ref(error),
            Verdict::Hurt(errors) => errors,
            Verdict::Intact | Verdict::Shorter => &[],
        }
    }
}

/// Opens the database on `disk` and reads everything. All answers must fit the same one of the `allowed` contents. The
/// last of these is the right one.
///
/// # Panics
/// If an answer is wrong, or something panicked. The message names `place`, the description of the damage.
pub(super) fn examine(disk: &SimStorage, allowed: &[State], place: &str) -> Verdict {
    match catch_unwind(AssertUnwindSafe(|| attempt(disk, allowed, place))) {
        Ok(verdict) => verdict,
        Err(panic) => {
            eprintln!("the panic above came after: {place}");
            resume_unwind(panic)
        }
    }
}

fn attempt(disk: &SimStorage, allowed: &[State], place: &str) -> Verdict {
    let database = match image::open(disk, 7) {
        Ok(database) => database,
        Err(error) => return Verdict::Refused(error),
    };
    let now = allowed.last().expect("one content is allowed");
    let mut reading = Reading::default();
    for (number, name) in NAMES {
        let keyspace = image::keyspace(&database, name).unwrap_or_else(|error| panic!("{place}: {error}"));
        reading.read(number, &keyspace, now);
    }
    match database.verify() {
        Ok(reports) => reading.problems = reports.iter().map(|(_, check)| check.problems.len()).sum(),
        Err(error) => reading.errors.push(error),
    }
    image::abandon(disk, database);
    reading.judge(allowed, place)
}

/// The order in which records come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Forwards,
    Backwards,
    Any,
}

/// The records from one end of a keyspace, until the end or an error.
struct Scanned {
    keyspace: u32,
    order: Order,
    records: Vec<(Vec<u8>, Vec<u8>)>,
    complete: bool,
}

#[derive(Default)]
struct Reading {
    gets: Vec<(Key, Option<Vec<u8>>)>,
    scans: Vec<Scanned>,
    errors: Vec<Error>,
    problems: usize,
}

impl Reading {
    fn read(&mut self, number: u32, keyspace: &Either, expected: &State) {
        for (number, key) in expected.keys().filter(|(keyspace, _)| *keyspace == number) {
            match either!(keyspace, keyspace => keyspace.get(key)) {
                Ok(value) => self.gets.push(((*number, key.clone()), value)),
                Err(error) => self.errors.push(error),
            }
        }
        match keyspace {
            Either::Ordered(keyspace) => {
                self.scan(number, Order::Forwards, keyspace.iter());
                self.scan(number, Order::Backwards, keyspace.iter().rev());
            }
            Either::Hashed(keyspace) => self.scan(number, Order::Any, keyspace.iter()),
        }
    }

    fn scan(
        &mut self,
        keyspace: u32,
        order: Order,
        records: impl Iterator<Item = ecotone::Result<(Vec<u8>, Vec<u8>)>>,
    ) {
        let mut scanned = Scanned { keyspace, order, records: Vec::new(), complete: true };
        for record in records {
            match record {
                Ok(record) => scanned.records.push(record),
                Err(error) => {
                    self.errors.push(error);
                    scanned.complete = false;
                }
            }
        }
        self.scans.push(scanned);
    }

    fn judge(self, allowed: &[State], place: &str) -> Verdict {
        let fits = |state: &State| {
            self.gets.iter().all(|(key, value)| state.get(key) == value.as_ref())
                && self.scans.iter().all(|scan| scan.fits(state))
        };
        let Some(found) = allowed.iter().rposition(fits) else {
            panic!(
                "{place}: a wrong answer, with {} errors and {} problems found by verify: {:?}",
                self.errors.len(),
                self.problems,
                self.errors.first()
            )
        };
        let clean = self.errors.is_empty();
        assert!(
            clean || self.problems > 0,
            "{place}: reading fails and verify finds nothing: {:?}",
            self.errors.first()
        );
        match allowed.len() - 1 - found {
            _ if !clean => Verdict::Hurt(self.errors),
            0 => Verdict::Intact,
            _ => Verdict::Shorter,
        }
    }
}

impl Scanned {
    fn fits(&self, state: &State) -> bool {
        let records = state.range((self.keyspace, Vec::new())..(self.keyspace + 1, Vec::new()));
        let records = records.map(|((_, key), value)| (key, value));
        if self.order == Order::Any {
            return self.fits_in_any_order(records.collect());
        }
        let expected: Vec<_> = if self.order == Order::Backwards { records.rev().collect() } else { records.collect() };
        let same = self.records.iter().zip(&expected).all(|((key, value), expected)| (key, value) == *expected);
        same && (self.records.len() == expected.len() || (self.records.len() < expected.len() && !self.complete))
    }

    fn fits_in_any_order(&self, expected: BTreeMap<&Vec<u8>, &Vec<u8>>) -> bool {
        let found: BTreeMap<_, _> = self.records.iter().map(|(key, value)| (key, value)).collect();
        let same =
            found.len() == self.records.len() && found.iter().all(|(key, value)| expected.get(key) == Some(value));
        same && (found.len() == expected.len() || !self.complete)
    }
}
