//! Any number of iterators may be open, in the least memory. Together they use a share of it, and writers and readers
//! have the rest.

use ecotone::{Database, Iter, limits};

use crate::{either::Either, liveness::keyspace};

const RECORDS: u64 = 40_000;
const ITERATORS: u64 = 600;

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn value(number: u64, version: u8) -> Vec<u8> {
    [&key(number)[..], &[version; 500]].concat()
}

/// Advances an iterator. Its records come in order, each with its own value.
fn go_on(iter: &mut Iter, is_backward: bool, steps: u64, last: &mut Option<u64>) {
    for _ in 0..steps {
        let next = if is_backward { iter.next_back() } else { iter.next() };
        let Some(record) = next else { return };
        let (key, value) = record.unwrap();
        assert_eq!(value[..8], key[..]);
        let number = u64::from_be_bytes(key.try_into().unwrap());
        let expected = last.map(|last| if is_backward { last - 1 } else { last + 1 });
        assert!(expected.is_none_or(|expected| expected == number), "{number} after {last:?}");
        *last = Some(number);
    }
}

#[test]
#[ignore = "long"]
fn six_hundred_iterators_and_a_writer_go_on_in_the_least_memory() {
    for engine in ["tree", "lsm", "adaptive"] {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::builder(directory.path().join("db")).memory_budget(limits::MIN_BUDGET).open().unwrap();
        let Either::Ordered(ks) = keyspace(&database, "k", engine, true).unwrap() else { panic!("it has an order") };
        (0..RECORDS).for_each(|number| ks.insert(key(number), value(number, 0)).unwrap());
        database.flush().unwrap();
        let mut open: Vec<(Iter, bool, Option<u64>)> = Vec::new();
        for number in 0..ITERATORS {
            let (from, is_backward) = (key(number * RECORDS / ITERATORS), number % 2 == 1);
            let mut iter = if is_backward { ks.range(..from) } else { ks.range(from..) };
            let mut last = None;
            go_on(&mut iter, is_backward, 30, &mut last);
            open.push((iter, is_backward, last));
        }
        let windows = || {
            let stats = database.stats();
            stats.memory.iter().find(|part| part.component == "read windows").expect("it is counted").bytes
        };
        assert!(windows() <= limits::MIN_BUDGET as u64 / 4, "{engine}: {} bytes", windows());
        for number in 0..10_000 {
            ks.insert(key(number * 7 % RECORDS), value(number * 7 % RECORDS, 1)).unwrap();
            if number % 50 == 0 {
                ks.get(key(number * 13 % RECORDS)).unwrap().unwrap();
            }
        }
        database.flush().unwrap();
        for (iter, is_backward, last) in &mut open {
            go_on(iter, *is_backward, 30, last);
        }
        // From both ends, until the two meet.
        let (mut iter, mut seen) = (ks.range(key(100)..key(1100)), 0);
        while let Some(record) = if seen % 3 == 0 { iter.next_back() } else { iter.next() } {
            record.unwrap();
            seen += 1;
        }
        assert_eq!(seen, 1000);
        drop(open);
        assert_eq!(windows(), 0, "{engine}");
        database.close().unwrap();
    }
}
