//! Adaptive keyspaces beside those of other engines, in one database with the smallest budget.

use std::sync::Arc;

use ecotone_substrate::{
    Seq,
    limits::MIN_BUDGET,
    memory::{Component, Memory},
};
use ecotone_testkit::sim::SimStorage;

use super::world::{ALL, LOG};
use crate::{
    adaptive::{AdaptiveFamily, AdaptiveOptions, keyspace::AdaptiveKeyspace},
    engine::{Context, Family, Made, Operation, Ordered},
    lsm::{LsmFamily, LsmOptions},
    tests::context,
    tree::{TreeFamily, space::PageFile},
};

const VALUE: usize = 1500;
/// What all memtables may have.
const MOST: usize = MIN_BUDGET / 8 * 3;
/// Records of a keyspace whose memtable is not full.
const RECORDS: u32 = (MOST / 3 / (VALUE + 50)) as u32;
/// Bytes of a memtable that is full, if it may have them.
const FULL: u64 = 64 << 20;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn write(keyspace: &dyn Ordered, memory: &Memory, from: Seq) {
    for number in 0..RECORDS {
        let operation = Operation { key: &key(number), value: Some(&[number as u8; VALUE]) };
        let admission = keyspace.admit(operation).unwrap();
        keyspace.apply(admission, from + u64::from(number), operation);
        assert!(memory.used(&[Component::Memtable]) <= MOST && memory.used(&Component::ALL) <= MIN_BUDGET, "write {number}");
    }
}

fn check(keyspace: Arc<dyn Ordered>, memory: &Memory) {
    for number in (0..RECORDS).step_by(7) {
        assert_eq!(keyspace.get(&key(number)).unwrap().unwrap(), [number as u8; VALUE]);
    }
    let mut cursor = keyspace.cursor(ALL);
    let mut count = 0;
    while let Some(record) = cursor.next().unwrap() {
        assert_eq!(record, (&key(count)[..], &[count as u8; VALUE][..]));
        count += 1;
    }
    assert_eq!(count, RECORDS);
    assert!(memory.used(&Component::ALL) <= MIN_BUDGET);
}

/// What one engine's memtables have, another's get when it needs memory, and pages and tables of all have their caches.
#[test]
fn keyspaces_of_three_engines_live_in_sixteen_mebibytes() {
    let environment = SimStorage::new(1).environment(7, MIN_BUDGET);
    let (memory, context) = (environment.memory.clone(), context(&environment, LOG, true, 1));
    let (lsm, tree) = (LsmFamily::default(), TreeFamily::default());
    let family = AdaptiveFamily::beside(&lsm, &tree);
    let of_number = |keyspace: u32| Context { keyspace, ..context.clone() };
    let adaptive: Vec<Arc<AdaptiveKeyspace>> = (10..13)
        .map(|number| {
            let file = PageFile::create(&environment, number).unwrap();
            let lsm = LsmOptions { memtable: Some(FULL), ..LsmOptions::default() };
            let options = AdaptiveOptions { lsm, ..AdaptiveOptions::default() };
            Arc::new(family.empty(&of_number(number), options, &file).unwrap())
        })
        .collect();
    let settings = vec![("memtable".to_owned(), FULL.to_string())];
    let others = [(13, &lsm as &dyn Family, settings), (14, &tree, Vec::new())].map(|(number, family, settings)| {
        let (made, _) = family.create(Context { settings, ..of_number(number) }).unwrap();
        if let Made::Ordered(keyspace) = made { keyspace } else { panic!("its keys have an order") }
    });
    let all: Vec<Arc<dyn Ordered>> = adaptive.iter().map(|keyspace| keyspace.clone() as _).chain(others).collect();
    for (keyspace, from) in all.iter().zip((1..).step_by(RECORDS as usize)) {
        write(&**keyspace, &memory, from);
    }
    all.iter().for_each(|keyspace| check(keyspace.clone(), &memory));
    all.iter().for_each(|keyspace| keyspace.flush(Seq::MAX).unwrap());
    adaptive.iter().for_each(|keyspace| keyspace.absorb(&key(50), &key(RECORDS)).unwrap());
    for _ in 0..3 {
        all.iter().for_each(|keyspace| check(keyspace.clone(), &memory));
    }
}
