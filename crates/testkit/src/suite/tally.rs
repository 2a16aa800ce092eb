//! Merges: threads add to counters and append to lists. Every merge of a thread must be in them exactly once, in the
//! thread's order.

use std::{collections::BTreeMap, sync::Mutex};

use ecotone_engine::merge::Merge;
use ecotone_substrate::Result;

use super::{Store, Verdict};

/// The keyspace of the tallies, which holds nothing else.
const KEYSPACE: u32 = 3;
/// The number of tallies; each is a counter and a list.
const TALLIES: u8 = 2;

fn counter_key(tally: u8) -> [u8; 2] {
    [tally, b'c']
}

fn list_key(tally: u8) -> [u8; 2] {
    [tally, b'l']
}

/// Creates the keyspace of the tallies if it does not exist.
pub(super) fn prepare(store: &dyn Store) -> Verdict {
    let made = if store.keyspaces().contains(&KEYSPACE) { Ok(()) } else { store.create(KEYSPACE) };
    made.map_err(|error| format!("making the keyspace of the tallies failed: {error}"))
}

/// The last numbers that were answered, by tally and thread.
#[derive(Debug, Default)]
pub(super) struct Answered(Mutex<BTreeMap<(u8, u8), u8>>);

/// One thread that merges.
pub(super) struct Merger<'a> {
    store: &'a dyn Store,
    answered: &'a Answered,
    thread: u8,
    /// The last number that this thread added to each tally.
    made: [u8; TALLIES as usize],
}

impl<'a> Merger<'a> {
    /// Continues where the thread of this number was. Results as of [`merge`](Self::merge).
    pub(super) fn new(store: &'a dyn Store, answered: &'a Answered, thread: u8) -> Verdict<Result<Merger<'a>>> {
        let mut made = [0; TALLIES as usize];
        for tally in 0..TALLIES {
            match read(store, tally)? {
                Ok(read) => made[usize::from(tally)] = read.last_of(thread),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(Merger { store, answered, thread, made }))
    }

    /// Adds to a tally and reads it. The inner result is the store's; the outer one reports an answer that no history
    /// could explain.
    pub(super) fn merge(&mut self, draw: u32) -> Verdict<Result<()>> {
        let tally = (draw % u32::from(TALLIES)) as u8;
        let Some(number) = self.made[usize::from(tally)].checked_add(1) else { return Ok(Ok(())) };
        self.made[usize::from(tally)] = number;
        let added = self.store.merge(KEYSPACE, &counter_key(tally), Merge::Add(1));
        let append = || self.store.merge(KEYSPACE, &list_key(tally), Merge::Append(&[self.thread, number]));
        let found = match added.and_then(|()| append()) {
            Ok(()) => {
                self.answered.0.lock().unwrap().insert((tally, self.thread), number);
                read(self.store, tally)?
            }
            Err(error) => Err(error),
        };
        match found {
            Ok(found) if found.last_of(self.thread) != number => {
                Err(format!("thread {} has added {number} to tally {tally}, and finds {found:?}", self.thread))
            }
            found => Ok(found.map(drop)),
        }
    }
}

/// All tallies, as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tallies([Tally; TALLIES as usize]);

impl Tallies {
    /// The tallies of a database, which may have no keyspace for them yet.
    pub(super) fn read(store: &dyn Store) -> Verdict<Tallies> {
        let mut tallies = Tallies::default();
        if store.keyspaces().contains(&KEYSPACE) {
            for (number, tally) in (0..).zip(&mut tallies.0) {
                *tally = read(store, number)?.map_err(|error| format!("reading a tally failed: {error}"))?;
            }
        }
        Ok(tallies)
    }

    /// Checks that these tallies grew out of earlier ones: at most `unfinished` additions are in a counter and not in
    /// its list, and every answered addition is there, unless it is in doubt.
    pub(super) fn become_of(
        &self,
        store: &dyn Store,
        unfinished: u64,
        answered: Option<&Answered>,
    ) -> Verdict<Tallies> {
        let found = Tallies::read(store)?;
        for (before, after) in self.0.iter().zip(&found.0) {
            if !after.list.starts_with(&before.list) || after.ahead() > before.ahead() + unfinished {
                return Err(format!("of {before:?} has become {after:?}"));
            }
        }
        let answered = answered.map(|answered| answered.0.lock().unwrap().clone()).unwrap_or_default();
        for ((tally, thread), number) in answered {
            let last = found.0[usize::from(tally)].last_of(thread);
            if last < number {
                return Err(format!(
                    "thread {thread} was told that it had added {number} to tally {tally}, which has {last}"
                ));
            }
        }
        Ok(found)
    }
}

/// A tally as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Tally {
    counter: u64,
    /// The numbers in the list, by the thread that appended them.
    list: Vec<[u8; 2]>,
}

impl Tally {
    /// How many counted additions are not in the list.
    fn ahead(&self) -> u64 {
        self.counter - self.list.len() as u64
    }

    /// The last number that a thread appended.
    fn last_of(&self, thread: u8) -> u8 {
        self.list.iter().rfind(|[its, _]| *its == thread).map_or(0, |[_, number]| *number)
    }

    /// Checks that nothing is missing, repeated, out of a thread's order, or in the list without being counted.
    fn check(&self) -> Verdict {
        let follows = |at: usize| {
            let [thread, number] = self.list[at];
            let before = self.list[..at].iter().rfind(|[its, _]| *its == thread).map_or(0, |[_, number]| *number);
            u16::from(number) == u16::from(before) + 1
        };
        if (0..self.list.len()).all(follows) && self.counter >= self.list.len() as u64 {
            Ok(())
        } else {
            Err(format!("a tally has lost or doubled what was added: {self:?}"))
        }
    }
}

/// Reads a tally: the list first, since a thread counts before it appends.
fn read(store: &dyn Store, tally: u8) -> Verdict<Result<Tally>> {
    let both =
        store.get(KEYSPACE, &list_key(tally)).and_then(|list| Ok((list, store.get(KEYSPACE, &counter_key(tally))?)));
    let (list, counter) = match both {
        Ok(both) => both,
        Err(error) => return Ok(Err(error)),
    };
    let (list, []) = list.as_deref().unwrap_or_default().as_chunks() else {
        return Err(format!("the list of a tally ends within what was appended: {list:?}"));
    };
    let counter = counter.as_deref().unwrap_or(&[0; 8]).try_into().map_err(|_| "the counter of a tally is none")?;
    let tally = Tally { counter: u64::from_le_bytes(counter), list: list.to_vec() };
    tally.check()?;
    Ok(Ok(tally))
}
