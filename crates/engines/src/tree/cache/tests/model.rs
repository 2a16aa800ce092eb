//! Random histories against a map, with pages that the test plays.

use std::collections::BTreeMap;

use super::{super::Ticket, *};

const KEYSPACES: u16 = 2;
/// The keyspace whose records stay no longer than they are dirty.
const UNCACHED: u16 = 1;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A value read from a page that will be offered to the cache later.
struct Late {
    keyspace: u16,
    key: Vec<u8>,
    value: Vec<u8>,
    ticket: Ticket,
}

/// One keyspace: what it should hold, what its pages hold, and which keys lie on which page.
#[derive(Default)]
struct Space {
    newest: Contents,
    stored: Contents,
    /// Lower fence to page.
    index: BTreeMap<Vec<u8>, u32>,
    next_page: u32,
    /// By key: the sequence of its first write that is not in its page.
    unflushed: BTreeMap<Vec<u8>, Seq>,
    /// By key: the first write since its page's write-out began.
    rewritten: BTreeMap<Vec<u8>, Seq>,
    writing: BTreeMap<u32, Vec<super::super::DirtyRecord>>,
}

impl Space {
    fn page_of(&self, key: &[u8]) -> u32 {
        *self.index.range(..=key.to_vec()).next_back().expect("the first fence is empty").1
    }

    fn remember(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.newest.insert(key, value),
            None => self.newest.remove(&key),
        };
    }

    fn is_being_written(&self, key: &[u8]) -> bool {
        self.writing.values().flatten().any(|record| record.key == key)
    }
}

struct World {
    cache: Arc<Cache>,
    spaces: Vec<Space>,
    random: Random,
    late: Vec<Late>,
    seq: Seq,
}

fn overlay(stored: &mut Contents, records: &[super::super::DirtyRecord]) {
    for record in records {
        match &record.value {
            Some(value) => drop(stored.insert(record.key.clone(), value.clone())),
            None => drop(stored.remove(&record.key)),
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let (_, cache) = cache(3);
        let space = || Space { index: [(vec![], 0)].into(), next_page: 1, ..Space::default() };
        World { cache, spaces: (0..KEYSPACES).map(|_| space()).collect(), random: Random::new(seed), late: vec![], seq: 1 }
    }

    fn key(&mut self) -> Vec<u8> {
        // A quarter of the accesses go to few keys.
        let n = if self.random.one_in(4) { self.random.below(40) } else { self.random.below(6000) };
        let mut key = format!("{n:04}").into_bytes();
        key.resize(4 + n % 60, b'.');
        key
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        if self.random.one_in(6) {
            return None;
        }
        let len = if self.random.one_in(10) { self.random.below(1800) } else { self.random.below(160) };
        Some(vec![self.random.below(250) as u8; len])
    }

    fn write(&mut self, ks: u16) {
        let (key, value) = (self.key(), self.value());
        if self.random.one_in(2) && self.cache.overwrite(ks, &key, value.as_deref()) {
            let space = &mut self.spaces[usize::from(ks)];
            assert!(space.unflushed.contains_key(&key), "only what is dirty is overwritten");
            return space.remember(key, value);
        }
        let len = value.as_ref().map_or(0, Vec::len);
        let token = loop {
            match self.cache.reserve(ks, &key, len) {
                Some(token) => break token,
                None => self.write_everything(),
            }
        };
        if self.random.one_in(20) {
            return self.cache.cancel(token);
        }
        self.seq += 1;
        let space = &mut self.spaces[usize::from(ks)];
        self.cache.apply(token, ks, &key, value.as_deref(), self.seq, &mut |key| space.page_of(key));
        if space.is_being_written(&key) {
            space.rewritten.entry(key.clone()).or_insert(self.seq);
        }
        space.unflushed.entry(key.clone()).or_insert(self.seq);
        space.remember(key, value);
    }

    fn read(&mut self, ks: u16) {
        let key = self.key();
        let space = &self.spaces[usize::from(ks)];
        let expected = space.newest.get(&key);
        match self.cache.get(ks, &key, Purpose::Read, <[u8]>::to_vec) {
            Found::Value(value) => assert_eq!(Some(&value), expected),
            Found::Tombstone => assert_eq!(None, expected),
            Found::Missing(ticket) => {
                assert_eq!(space.stored.get(&key), expected, "a miss, but the page is older");
                if let Some(value) = expected.cloned().filter(|_| ks != UNCACHED) {
                    self.late.push(Late { keyspace: ks, key, value, ticket });
                }
            }
        }
        if self.late.len() > self.random.below(30) {
            let at = self.random.below(self.late.len());
            let late = self.late.swap_remove(at);
            self.cache.admit_clean(late.keyspace, &late.key, &late.value, &late.ticket);
        }
    }

    fn begin(&mut self, ks: u16) {
        let below = if self.random.one_in(2) { Seq::MAX } else { self.seq.saturating_sub(500) };
        let pages = self.cache.dirty_pages(ks, below);
        let space = &mut self.spaces[usize::from(ks)];
        if pages.is_empty() {
            return;
        }
        let page = pages[self.random.below(pages.len())];
        if space.writing.contains_key(&page) {
            return;
        }
        let most = if self.random.one_in(2) { usize::MAX } else { self.random.below(5000) };
        let records = self.cache.begin_write(ks, page, most);
        assert!(records.is_sorted_by(|a, b| a.key < b.key));
        for record in &records {
            assert_eq!(record.value.as_ref(), space.newest.get(&record.key), "not the newest content");
            assert_eq!(space.page_of(&record.key), page);
        }
        if !records.is_empty() {
            space.writing.insert(page, records);
        }
    }

    fn end(&mut self, ks: u16, abort: bool) {
        let space = &mut self.spaces[usize::from(ks)];
        let Some((page, records)) = space.writing.pop_first() else { return };
        if abort {
            space.rewritten.retain(|key, _| records.iter().all(|record| record.key != *key));
            return self.cache.abort_write(ks, page);
        }
        overlay(&mut space.stored, &records);
        for record in &records {
            match space.rewritten.remove(&record.key) {
                Some(seq) => space.unflushed.insert(record.key.clone(), seq),
                None => space.unflushed.remove(&record.key),
            };
        }
        self.cache.end_write(ks, page, ks != UNCACHED);
    }

    fn write_everything(&mut self) {
        for ks in 0..KEYSPACES {
            while !self.spaces[usize::from(ks)].writing.is_empty() {
                self.end(ks, false);
            }
            while !self.cache.dirty_pages(ks, Seq::MAX).is_empty() {
                self.begin(ks);
                self.end(ks, false);
            }
        }
    }

    fn peek(&mut self, ks: u16) {
        let key = self.key();
        let space = &self.spaces[usize::from(ks)];
        let page = space.page_of(&key);
        let on_page = |contents: &Contents| -> Contents {
            contents
                .iter()
                .filter(|(key, _)| space.page_of(key) == page)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let mut seen = on_page(&space.stored);
        let dirty = self.cache.peek_dirty(ks, page);
        assert!(dirty.is_sorted_by(|a, b| a.key < b.key));
        overlay(&mut seen, &dirty);
        assert_eq!(seen, on_page(&space.newest), "page {page}");
    }

    /// A page is replaced by two at a random key. It may be being written, as in a reorganisation, which then ends with the
    /// change.
    fn split(&mut self, ks: u16) {
        let at = self.key();
        let space = &mut self.spaces[usize::from(ks)];
        let (lower, old) = space.index.range(..=at.clone()).next_back().map(|(key, page)| (key.clone(), *page)).unwrap();
        space.index.insert(lower, space.next_page);
        space.index.insert(at, space.next_page + 1);
        space.next_page += 2;
        self.cache.rehome(ks, old, &mut |key| space.page_of(key));
        assert!(!self.cache.dirty_pages(ks, Seq::MAX).contains(&old));
        while self.spaces[usize::from(ks)].writing.contains_key(&old) {
            self.end(ks, false);
        }
    }

    fn check(&self, ks: u16) {
        let space = &self.spaces[usize::from(ks)];
        let oldest = space.unflushed.values().min().copied();
        let first = self.cache.first_dirty(ks);
        assert_eq!(first.is_some(), oldest.is_some());
        assert!(first <= oldest, "the first dirty sequence is {oldest:?}, the cache says {first:?}");
    }

    fn step(&mut self) {
        let ks = self.random.below(usize::from(KEYSPACES)) as u16;
        match self.random.below(1000) {
            0..400 => self.write(ks),
            400..900 => self.read(ks),
            900..930 => self.begin(ks),
            930..970 => self.end(ks, false),
            970..975 => self.end(ks, true),
            975..985 => self.peek(ks),
            985..987 if self.spaces[usize::from(ks)].index.len() < 200 => self.split(ks),
            987..988 => assert!(self.cache.shrink(1 << 16) <= 1 << 16),
            _ => self.check(ks),
        }
    }
}

fn run(seed: u64, steps: usize) {
    println!("seed {seed}");
    let mut world = World::new(seed);
    for step in 0..steps {
        world.step();
        if step % 5000 == 0 {
            check::check(&world.cache);
            assert_eq!(check::clean_records(&world.cache, UNCACHED), 0);
        }
    }
    world.write_everything();
    check::check(&world.cache);
    let counts = world.cache.counts();
    assert_eq!((check::clean_records(&world.cache, UNCACHED), check::clean_records(&world.cache, 0)), (0, counts.records));
    assert_eq!((world.cache.dirty_bytes(), counts.dirty_records), (0, 0));
    assert!(counts.evictions > 0 && counts.slabs_moved > 0, "{counts:?}");
    (0..KEYSPACES).for_each(|ks| {
        assert_eq!(world.cache.first_dirty(ks), None);
        assert_eq!(world.spaces[usize::from(ks)].stored, world.spaces[usize::from(ks)].newest);
    });
    world.cache.forget_keyspace(0);
    check::check(&world.cache);
    assert!(
        world.spaces[0]
            .newest
            .keys()
            .all(|key| matches!(world.cache.get(0, key, Purpose::Read, <[u8]>::to_vec), Found::Missing(_)))
    );
}

#[test]
fn random_histories() {
    (1..=3).for_each(|seed| run(seed, 40_000));
}
