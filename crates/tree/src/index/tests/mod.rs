mod checkpoint;
mod damage;
mod model;

use std::{collections::BTreeMap, sync::Arc};

use ecotone_substrate::{environment::Environment, memory::Memory, storage::Storage};
use ecotone_testkit::sim::SimStorage;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{Attach, Index, IndexEdit, Placement, Segment, Snapshot, TreeRoot};
use crate::page_allocator::{PageAllocator, PageFile};

const DATABASE: u64 = 7;
const KEYSPACE: u32 = 3;

/// The expected content of an index.
type Model = BTreeMap<Vec<u8>, Segment>;

/// An index on a simulated disk with its model.
struct Fixture {
    disk: SimStorage,
    memory: Arc<Memory>,
    space: Arc<PageAllocator>,
    index: Arc<Index>,
    model: Model,
    random: SmallRng,
    /// The log's tail; only edits append to the log.
    tail: u64,
}

/// The shape of test keys.
#[derive(Debug, Clone, Copy)]
enum Keys {
    Numbers,
    Paths,
    /// Up to the longest, in pairs that differ only in their last byte.
    Long,
}

impl Keys {
    fn draw(self, random: &mut SmallRng) -> Vec<u8> {
        match self {
            Keys::Numbers => random.random::<u64>().to_be_bytes().to_vec(),
            Keys::Paths => {
                let (a, b, c) = (random.random_range(0..9), random.random_range(0..99), random.random_range(0..9999));
                format!("https://www.example.org/section-{a}/a-rather-long-chapter-{b}/page-{c}.html").into_bytes()
            }
            Keys::Long => {
                let mut key = vec![b"ab"[random.random_range(0..2)]; random.random_range(900..1023)];
                key[random.random_range(0..3)] = random.random();
                key.push(random.random());
                key
            }
        }
    }
}

impl Fixture {
    fn new(seed: u64) -> Fixture {
        println!("seed {seed}");
        let disk = SimStorage::new(seed);
        let environment = environment(&disk);
        let memory = environment.memory.clone();
        let file = PageFile::create(&environment, KEYSPACE).unwrap();
        environment.storage.sync_dir().unwrap();
        let space = Arc::new(PageAllocator::new(&file).unwrap());
        let first = Segment::new(space.allocate(1).unwrap()[0]);
        let index = Arc::new(Index::create(&memory, first.clone()).unwrap());
        let model = Model::from([(vec![], first)]);
        Fixture { disk, memory, space, index, model, random: SmallRng::seed_from_u64(seed), tail: 0 }
    }

    /// A segment of fresh pages.
    fn segment(&mut self) -> Segment {
        let mut segment = Segment::new(self.space.allocate(1).unwrap()[0]);
        if self.random.random() {
            assert!(segment.attach(segment.page, self.space.allocate(1).unwrap()[0]));
        }
        segment
    }

    /// Applies an edit to index and model. Its record is synced at once, so its old pages may be reused.
    fn apply(&mut self, change: IndexEdit) {
        let prepared = self.index.prepare(&change).unwrap();
        self.index.install(prepared);
        for key in change.remove {
            let segment = self.model.remove(&key).unwrap();
            self.space.free_later(&segment.all_pages().collect::<Vec<_>>(), self.tail);
        }
        for attach in change.attach {
            assert!(self.model.get_mut(&attach.lower).unwrap().attach(attach.page, attach.overflow));
        }
        self.tail += 1;
        self.space.release(self.tail);
        self.model.extend(change.insert);
    }

    /// A reorganisation of neighbours: replaces `removed` segments by `inserted` ones.
    fn reorganise(&mut self, keys: Keys, removed: usize, inserted: usize) {
        let from = keys.draw(&mut self.random);
        let remove: Vec<_> = self.model.range(from..).take(removed).map(|(key, _)| key.clone()).collect();
        let mut insert = BTreeMap::new();
        while insert.len() < inserted {
            let key = keys.draw(&mut self.random);
            if remove.contains(&key) || !self.model.contains_key(&key) {
                insert.insert(key, self.segment());
            }
        }
        self.apply(IndexEdit { remove, insert: insert.into_iter().collect(), attach: vec![] });
    }

    /// Attaches overflow pages to some segments without any.
    fn attach(&mut self, keys: Keys, count: usize) {
        let from = keys.draw(&mut self.random);
        let without = self.model.range(from..).filter(|(_, segment)| segment.overflow_pages() == 0).take(count);
        let pages = self.space.allocate(count).unwrap();
        let attach = |((lower, segment), overflow): ((&Vec<u8>, &Segment), u32)| Attach {
            lower: lower.clone(),
            page: segment.page,
            overflow,
        };
        let attach: Vec<Attach> = without.zip(pages.clone()).map(attach).collect();
        self.space.free_now(&pages[attach.len()..]).unwrap();
        self.apply(IndexEdit { attach, ..IndexEdit::default() });
    }

    /// Inserts segments at random places, in one edit.
    fn scatter(&mut self, keys: Keys, count: usize) {
        self.reorganise(keys, 0, count);
    }

    /// Runs a checkpoint; returns how many pages it wrote.
    fn checkpoint(&mut self) -> (TreeRoot, u64) {
        let before = self.disk.counters().write_bytes;
        let root = self.index.write_checkpoint(self.index.begin_checkpoint(&self.space)).unwrap();
        (root, (self.disk.counters().write_bytes - before) / ecotone_substrate::limits::PAGE as u64)
    }

    fn check(&mut self, keys: Keys) {
        assert_eq!(self.index.segments(), self.model.len() as u64);
        check_equal(&self.index.snapshot(), &self.model);
        for _ in 0..500 {
            let key = keys.draw(&mut self.random);
            check_around(&self.index.snapshot(), &self.model, &key);
        }
    }
}

/// Opens an index as after a restart.
fn reopen(disk: &SimStorage, root: &TreeRoot) -> ecotone_substrate::Result<(Index, PageAllocator)> {
    let environment = environment(disk);
    let file = PageFile::open(&environment, KEYSPACE)?;
    let space = PageAllocator::new(&file)?;
    Ok((Index::open(&environment.memory, root, &space)?, space))
}

fn environment(disk: &SimStorage) -> Environment {
    disk.environment(DATABASE, 256 << 20)
}

/// Compares everything, in both directions.
fn check_equal(snapshot: &Snapshot, model: &Model) {
    assert_eq!(snapshot.segments(), model.len() as u64);
    assert!(snapshot.ascend(&[]).eq(model.clone()), "ascending");
    assert!(snapshot.descend(&[0xff; 1025]).eq(model.clone().into_iter().rev()), "descending");
}

/// Compares all lookups around a key.
fn check_around(snapshot: &Snapshot, model: &Model, key: &[u8]) {
    let owned = |(key, segment): (&Vec<u8>, &Segment)| (key.clone(), segment.clone());
    let up_to = || model.range(..=key.to_vec());
    let floor = up_to().next_back().map(owned).unwrap();
    assert_eq!(snapshot.lookup(key), floor.1.page_pair(0));
    assert_eq!(snapshot.floor(key), floor);
    assert_eq!(snapshot.get(key), model.get(key).cloned());
    assert_eq!(snapshot.get(&floor.0), Some(floor.1.clone()));
    assert_eq!(snapshot.floor_before(key), model.range(..key.to_vec()).next_back().map(owned));
    assert_eq!(snapshot.floor_before(&floor.0), model.range(..floor.0.clone()).next_back().map(owned));
    let above = || model.iter().skip(up_to().count()).map(owned);
    if model.len() < 5000 {
        assert_eq!(snapshot.after(key), above().next());
        assert!(snapshot.ascend(key).skip(1).take(3).eq(above().take(3)));
    }
    assert!(snapshot.descend(key).take(3).eq(up_to().rev().take(3).map(owned)));
}
