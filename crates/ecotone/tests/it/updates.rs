//! Atomic read-modify-write, on keyspaces of both kinds, logged and unlogged.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ecotone::{Error, Merge, Swap, limits};
use ecotone_testkit::sim::{Crash, SimStorage};

use crate::mixed::{hashed, hashed_unlogged, open, ordered, ordered_unlogged};

/// Runs the same test on a keyspace of each kind.
macro_rules! on_each {
    ($keyspace:ident => $body:expr) => {
        on_each!(_database, $keyspace => $body)
    };
    ($database:ident, $keyspace:ident => $body:expr) => {{
        let $database = open(&SimStorage::new(1));
        let $keyspace = ordered(&$database);
        $body;
        let $keyspace = ordered_unlogged(&$database);
        $body;
        let $keyspace = hashed(&$database);
        $body;
        let $keyspace = hashed_unlogged(&$database);
        $body;
        assert!($database.verify().unwrap().iter().all(|(_, check)| check.problems.is_empty()));
    }};
}

fn value(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

/// Appends a byte to a value.
fn more(old: Option<&[u8]>) -> Option<Vec<u8>> {
    Some([old.unwrap_or(b"-"), b"+"].concat())
}

#[test]
fn an_update_gives_the_value_before_or_the_value_after() {
    on_each!(keyspace => {
        assert_eq!(keyspace.fetch_update("k", more).unwrap(), None);
        assert_eq!(keyspace.update_fetch("k", more).unwrap(), value("-++"));
        assert_eq!(keyspace.fetch_update("k", more).unwrap(), value("-++"));
        assert_eq!(keyspace.get("k").unwrap(), value("-+++"));
        assert_eq!(keyspace.update_fetch("k", |_| None).unwrap(), None);
        assert_eq!(keyspace.get("k").unwrap(), None);
        assert_eq!(keyspace.fetch_update("k", |_| None).unwrap(), None);
        assert_eq!(keyspace.update_fetch("k", |_| None).unwrap(), None);
        assert!(!keyspace.contains_key("k").unwrap());
    });
}

#[test]
fn an_update_works_on_what_is_in_the_files() {
    on_each!(database, keyspace => {
        keyspace.insert("k", "old").unwrap();
        keyspace.merge("n", Merge::Add(40)).unwrap();
        database.flush().unwrap();
        assert_eq!(keyspace.update_fetch("k", more).unwrap(), value("old+"));
        keyspace.merge("n", Merge::Add(2)).unwrap();
        assert_eq!(keyspace.get("n").unwrap().as_deref(), Some(&42i64.to_le_bytes()[..]));
    });
}

#[test]
fn a_swap_happens_where_the_value_is_the_expected_one() {
    on_each!(keyspace => {
        let swap = |expected: Option<&str>, new: Option<&str>| {
            keyspace.compare_and_swap("k", expected.map(str::as_bytes), new.map(str::as_bytes)).unwrap()
        };
        assert_eq!(swap(Some("a"), Some("b")), Swap::Mismatch(None));
        assert_eq!(swap(None, Some("a")), Swap::Done);
        assert_eq!(swap(None, Some("b")), Swap::Mismatch(value("a")));
        assert_eq!(swap(Some("b"), None), Swap::Mismatch(value("a")));
        assert_eq!(keyspace.get("k").unwrap(), value("a"));
        assert_eq!(swap(Some("a"), Some("a")), Swap::Done);
        assert_eq!(swap(Some("a"), None), Swap::Done);
        assert_eq!(swap(None, None), Swap::Done);
        assert_eq!(keyspace.get("k").unwrap(), None);
    });
}

#[test]
fn counters_are_added_to() {
    on_each!(keyspace => {
        let mut expected = 0i64;
        for amount in [3, -5, i64::MAX, i64::MAX, 0, i64::MIN] {
            keyspace.merge("n", Merge::Add(amount)).unwrap();
            expected = expected.wrapping_add(amount);
            assert_eq!(keyspace.get("n").unwrap().as_deref(), Some(&expected.to_le_bytes()[..]));
        }
        keyspace.remove("n").unwrap();
        keyspace.merge("n", Merge::Add(7)).unwrap();
        assert_eq!(keyspace.get("n").unwrap().as_deref(), Some(&7i64.to_le_bytes()[..]));
    });
}

#[test]
fn what_is_no_counter_is_not_added_to() {
    on_each!(keyspace => {
        for length in (0..20).filter(|length| *length != 8) {
            let old = vec![b'x'; length];
            keyspace.insert("n", &old).unwrap();
            let refused = keyspace.merge("n", Merge::Add(1)).unwrap_err();
            let says = format!("this value has {length}");
            assert!(matches!(&refused, Error::Invalid(what) if what.contains(&says)), "{refused}");
            assert_eq!(keyspace.get("n").unwrap(), Some(old));
        }
    });
}

#[test]
fn values_are_appended_to_until_they_are_too_long() {
    on_each!(keyspace => {
        let mut expected = Vec::new();
        keyspace.merge("k", Merge::Append(b"")).unwrap();
        assert_eq!(keyspace.get("k").unwrap().as_deref(), Some(&b""[..]));
        while expected.len() + 100 < limits::MAX_RECORD {
            keyspace.merge("k", Merge::Append(&[expected.len() as u8; 100])).unwrap();
            expected.extend([expected.len() as u8; 100]);
        }
        let refused = keyspace.merge("k", Merge::Append(&[1; 100])).unwrap_err();
        assert!(matches!(refused, Error::Limit { actual, .. } if actual == expected.len() as u64 + 101), "{refused}");
        assert_eq!(keyspace.get("k").unwrap(), Some(expected));
    });
}

#[test]
fn an_update_to_a_value_that_is_too_long_changes_nothing() {
    on_each!(keyspace => {
        keyspace.insert("k", "old").unwrap();
        let long = vec![1; limits::MAX_RECORD];
        let refusals = [
            keyspace.fetch_update("k", |_| Some(long.clone())).map(drop),
            keyspace.update_fetch("k", |_| Some(long.clone())).map(drop),
            keyspace.compare_and_swap("k", Some(b"old"), Some(&long)).map(drop),
            keyspace.fetch_update("", more).map(drop),
            keyspace.merge(vec![1; limits::MAX_KEY + 1], Merge::Add(1)),
        ];
        assert!(refusals.iter().all(|refusal| matches!(refusal, Err(Error::Limit { .. }))), "{refusals:?}");
        assert_eq!(keyspace.get("k").unwrap(), value("old"));
    });
}

#[test]
fn a_panic_in_an_update_writes_nothing() {
    on_each!(keyspace => {
        keyspace.insert("k", "old").unwrap();
        catch_unwind(AssertUnwindSafe(|| keyspace.fetch_update("k", |_| panic!("meant to")))).unwrap_err();
        assert_eq!(keyspace.get("k").unwrap(), value("old"));
        assert_eq!(keyspace.update_fetch("k", more).unwrap(), value("old+"));
    });
}

#[test]
fn an_update_that_was_overtaken_begins_again() {
    on_each!(keyspace => {
        keyspace.insert("k", "old").unwrap();
        let mut runs = 0;
        let after = keyspace.update_fetch("k", |old| {
            runs += 1;
            keyspace.insert("other", "written meanwhile").unwrap();
            if runs == 1 {
                keyspace.insert("k", "new").unwrap();
            }
            more(old)
        });
        assert_eq!((after.unwrap(), runs), (value("new+"), 2));
    });
}

const THREADS: u64 = 4;
const UPDATES: u64 = 1_500;

#[test]
fn no_update_of_several_threads_is_lost() {
    on_each!(keyspace => {
        let next = |old: Option<&[u8]>| old.map_or(0, |old| i64::from_le_bytes(old.try_into().unwrap())) + 1;
        let update = |thread: u64| {
            for number in 0..UPDATES {
                let key = [b'a' + (number % 3) as u8];
                match (number + thread) % 4 {
                    0 => keyspace.merge(key, Merge::Add(1)).unwrap(),
                    1 => drop(keyspace.fetch_update(key, |old| Some(next(old).to_le_bytes().to_vec())).unwrap()),
                    2 => drop(keyspace.update_fetch(key, |old| Some(next(old).to_le_bytes().to_vec())).unwrap()),
                    _ => loop {
                        let old = keyspace.get(key).unwrap();
                        let new = next(old.as_deref()).to_le_bytes();
                        if keyspace.compare_and_swap(key, old.as_deref(), Some(&new)).unwrap() == Swap::Done {
                            break;
                        }
                    },
                }
            }
        };
        std::thread::scope(|scope| {
            let update = &update;
            (0..THREADS).for_each(|thread| drop(scope.spawn(move || update(thread))));
        });
        let count = |key: &str| next(keyspace.get(key).unwrap().as_deref()) - 1;
        assert_eq!(count("a") + count("b") + count("c"), (THREADS * UPDATES) as i64);
    });
}

#[test]
fn the_log_has_results() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let (ordered_one, hashed_one) = (ordered(&database), hashed(&database));
    for amount in 1..=10 {
        ordered_one.merge("n", Merge::Add(amount)).unwrap();
        hashed_one.merge("n", Merge::Add(amount)).unwrap();
    }
    database.sync().unwrap();
    for _ in 0..3 {
        let database = open(&disk.crash(Crash::DropAll));
        let sums = [ordered(&database).get("n").unwrap(), hashed(&database).get("n").unwrap()];
        assert_eq!(sums, [55i64; 2].map(|sum| Some(sum.to_le_bytes().to_vec())));
    }
    disk.power_off();
}
