//! Adaptive keyspaces beside those of other engines, in one database with the smallest budget.

use std::sync::Arc;

use ecotone_engine::contract::{AnyEngine, Context, EngineFactory, Get, Operation, Ordered};
use ecotone_lsm::{LsmFamily, LsmOptions};
use ecotone_substrate::{
    Seq,
    limits::MIN_BUDGET,
    memory::{Component, Memory},
};
use ecotone_testkit::{engine::context, sim::SimStorage};
use ecotone_tree::{TreeFamily, page_allocator::PageFile};

use super::fixture::{ALL, LOG};
use crate::{AdaptiveFamily, AdaptiveKeyspace, AdaptiveOptions};

const VALUE: usize = 1500;
/// Memory limit of all memtables.
const MOST: usize = MIN_BUDGET / 8 * 3;
/// Size limit of one memtable, within that of all.
const FULL: u64 = 64 << 20;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn write(keyspace: &dyn Ordered, memory: &Memory, number: u32) {
    let operation = Operation { key: &key(number), value: Some(&[number as u8; VALUE]) };
    let admission = keyspace.admit(operation).unwrap();
    keyspace.apply(admission, Seq::from(number) + 1, operation);
    assert!(
        memory.used(&[Component::Memtable]) <= MOST && memory.used(&Component::ALL) <= MIN_BUDGET,
        "write {number}"
    );
}

fn check(keyspace: Arc<dyn Ordered>, memory: &Memory, records: u32) {
    for number in (0..records).step_by(7) {
        assert_eq!(keyspace.get(&key(number)).unwrap().unwrap(), [number as u8; VALUE]);
    }
    let mut cursor = keyspace.cursor(ALL);
    let mut count = 0;
    while let Some(record) = cursor.next().unwrap() {
        assert_eq!(record, (&key(count)[..], &[count as u8; VALUE][..]));
        count += 1;
    }
    assert_eq!(count, records);
    assert!(memory.used(&Component::ALL) <= MIN_BUDGET);
}

/// Memory of one engine's memtables goes to another engine that needs it. Pages and tables of all keyspaces have their
/// caches.
#[test]
fn keyspaces_of_three_engines_live_in_sixteen_mebibytes() {
    let environment = SimStorage::new(1).environment(7, MIN_BUDGET);
    let (memory, context) = (environment.memory.clone(), context(&environment, LOG, true, 1));
    let (lsm, tree) = (LsmFamily::default(), TreeFamily::default());
    let family = AdaptiveFamily::beside(&lsm, &tree);
    let of_number = |keyspace: u32| Context { keyspace, ..context.clone() };
    let adaptive: Vec<Arc<AdaptiveKeyspace>> = (10..14)
        .map(|number| {
            let file = PageFile::create(&environment, number).unwrap();
            let lsm = LsmOptions::default().memtable(FULL);
            let options = AdaptiveOptions { lsm, ..AdaptiveOptions::default() };
            Arc::new(family.empty(&of_number(number), options, &file).unwrap())
        })
        .collect();
    let settings = vec![("memtable".to_owned(), FULL.to_string())];
    let others =
        [(14, &lsm as &dyn EngineFactory, settings), (15, &tree, Vec::new())].map(|(number, family, settings)| {
            let (made, _) = family.create(Context { settings, ..of_number(number) }).unwrap();
            if let AnyEngine::Ordered(keyspace) = made { keyspace } else { panic!("its keys have an order") }
        });
    // No memtable is full, and together they reach their memory limit.
    let mut records = 0;
    while memory.used(&[Component::Memtable]) < MOST {
        adaptive.iter().for_each(|keyspace| write(&**keyspace, &memory, records));
        records += 1;
    }
    for keyspace in &others {
        (0..records).for_each(|number| write(&**keyspace, &memory, number));
    }
    let all: Vec<Arc<dyn Ordered>> = adaptive.iter().map(|keyspace| keyspace.clone() as _).chain(others).collect();
    all.iter().for_each(|keyspace| check(keyspace.clone(), &memory, records));
    all.iter().for_each(|keyspace| keyspace.flush(Seq::MAX).unwrap());
    adaptive.iter().for_each(|keyspace| keyspace.convert_to_pages(&key(50), &key(records)).unwrap());
    for _ in 0..3 {
        all.iter().for_each(|keyspace| check(keyspace.clone(), &memory, records));
    }
}
