//! Random histories against a map; the test stands in for the pages.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::{super::RecordTicket, *};

const KEYSPACES: u16 = 2;
/// The keyspace whose records stay in the cache only while they are dirty.
const UNCACHED: u16 = 1;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A value that was read from a page and is offered to the cache later.
struct Late {
    keyspace: u16,
    key: Vec<u8>,
    value: Vec<u8>,
    ticket: RecordTicket,
}

/// One keyspace: its expected content, the content of its pages, and which keys lie on which page.
#[derive(Default)]
struct Kept {
    newest: Contents,
    stored: Contents,
    /// Lower bounds of the pages.
    fences: BTreeSet<Vec<u8>>,
    /// By key: the sequence of its first write that is neither in its page nor being written.
    unflushed: BTreeMap<Vec<u8>, Seq>,
    /// Keys written again since their write-out began.
    rewritten: BTreeSet<Vec<u8>>,
    /// Records taken for writing, by the lower bound of their page.
    writing: BTreeMap<Vec<u8>, (DirtyRecords, KeySpan)>,
}

impl Kept {
    /// The page of a key.
    fn page_of(&self, key: &[u8]) -> KeySpan {
        let lower = self.fences.range(..=key.to_vec()).next_back().expect("the first fence is empty").clone();
        let upper = self.fences.range((Bound::Excluded(lower.clone()), Bound::Unbounded)).next().cloned();
        KeySpan { lower, upper }
    }

    fn remember(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.newest.insert(key, value),
            None => self.newest.remove(&key),
        };
    }

    fn is_being_written(&self, key: &[u8]) -> bool {
        self.writing.values().any(|(records, _)| records.iter().any(|record| record.key == key))
    }
}

struct Fixture {
    cache: Arc<Cache>,
    spaces: Vec<Kept>,
    random: Random,
    late: Vec<Late>,
    seq: Seq,
}

/// The second keyspace is not logged.
fn of(number: u16) -> CacheKeyspace {
    CacheKeyspace { number, logged: number == 0 }
}

fn overlay(stored: &mut Contents, records: &DirtyRecords) {
    for record in records.iter() {
        match record.value {
            Some(value) => drop(stored.insert(record.key.to_vec(), value.to_vec())),
            None => drop(stored.remove(record.key)),
        }
    }
}

impl Fixture {
    fn new(seed: u64) -> Self {
        let (_, cache) = cache(3);
        let kept = || Kept { fences: [vec![]].into(), ..Kept::default() };
        Fixture {
            cache,
            spaces: (0..KEYSPACES).map(|_| kept()).collect(),
            random: Random::new(seed),
            late: vec![],
            seq: 1,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        // A quarter of the accesses goes to few keys.
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
        if self.random.one_in(2) && overwrite(&self.cache, of(ks), &key, value.as_deref()) {
            let space = &mut self.spaces[usize::from(ks)];
            assert!(space.unflushed.contains_key(&key), "only what is dirty is overwritten");
            return space.remember(key, value);
        }
        let len = value.as_ref().map_or(0, Vec::len);
        let token = loop {
            match self.cache.reserve(of(ks), &key, len) {
                Some(token) => break token,
                None => self.write_everything(),
            }
        };
        if self.random.one_in(20) {
            return self.cache.cancel(token, of(ks));
        }
        self.seq += 1;
        let space = &mut self.spaces[usize::from(ks)];
        apply(&self.cache, token, of(ks), &key, value.as_deref(), self.seq);
        if space.is_being_written(&key) && space.rewritten.insert(key.clone()) {
            space.unflushed.insert(key.clone(), self.seq);
        }
        space.unflushed.entry(key.clone()).or_insert(self.seq);
        space.remember(key, value);
    }

    fn read(&mut self, ks: u16) {
        let key = self.key();
        let space = &self.spaces[usize::from(ks)];
        let expected = space.newest.get(&key);
        match self.cache.get(ks, &key, Purpose::Read, <[u8]>::to_vec) {
            RecordLookup::Value(value) => assert_eq!(Some(&value), expected),
            RecordLookup::Tombstone => assert_eq!(None, expected),
            RecordLookup::Missing(ticket) => {
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
        let from = if self.random.one_in(2) { Vec::new() } else { self.key() };
        let rest = KeySpan { lower: from.clone(), upper: None };
        let next = self.cache.next_dirty(of(ks), &rest, below);
        let space = &mut self.spaces[usize::from(ks)];
        let is_due = |(key, seq): (&Vec<u8>, &Seq)| (below > 0 && (*seq < below || ks > 0)).then(|| key.clone());
        let due = space.unflushed.range(from..).find_map(is_due);
        // An entry far from the oldest of its leaf is treated as older than it is.
        let is_early =
            |next: &Vec<u8>| below < Seq::MAX && space.unflushed.contains_key(next) && due.iter().all(|due| next < due);
        assert!(
            next == due || next.as_ref().is_some_and(is_early),
            "{next:?}, not {due:?} since a sequence below {below}"
        );
        let Some(page) = next.map(|key| space.page_of(&key)) else { return };
        if space.writing.contains_key(&page.lower) {
            return;
        }
        let most = if self.random.one_in(2) { usize::MAX } else { self.random.below(5000) };
        let (records, taken) = self.cache.begin_write(of(ks), &page, most);
        assert!(records.iter().is_sorted_by(|a, b| a.key < b.key));
        for record in records.iter() {
            assert_eq!(record.value, space.newest.get(record.key).map(Vec::as_slice), "not the newest content");
            assert_eq!(space.page_of(record.key), page);
        }
        let of_page =
            (Bound::Included(page.lower.clone()), taken.upper.clone().map_or(Bound::Unbounded, Bound::Excluded));
        assert_eq!(space.unflushed.range(of_page).count(), records.len());
        space.writing.insert(page.lower, (records, taken));
    }

    fn end(&mut self, ks: u16, abort: bool) {
        let space = &mut self.spaces[usize::from(ks)];
        let Some((_, (records, taken))) = space.writing.pop_first() else { return };
        if abort {
            space.rewritten.retain(|key| records.iter().all(|record| record.key != *key));
            return self.cache.abort_write(of(ks), &taken);
        }
        overlay(&mut space.stored, &records);
        for record in records.iter() {
            if !space.rewritten.remove(record.key) {
                space.unflushed.remove(record.key);
            }
        }
        self.cache.end_write(of(ks), &taken, ks != UNCACHED);
    }

    fn write_everything(&mut self) {
        for ks in 0..KEYSPACES {
            while !self.spaces[usize::from(ks)].writing.is_empty() {
                self.end(ks, false);
            }
            while self.cache.next_dirty(of(ks), &all(), Seq::MAX).is_some() {
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
        let dirty = self.cache.peek_all(of(ks), &page);
        assert!(dirty.iter().is_sorted_by(|a, b| a.key < b.key));
        overlay(&mut seen, &dirty);
        assert_eq!(seen, on_page(&space.newest), "page {page:?}");
    }

    /// Splits a page at a random key. The page may be in a write-out, as in a reorganisation, which then ends with the
    /// split.
    fn split(&mut self, ks: u16) {
        let at = self.key();
        let space = &mut self.spaces[usize::from(ks)];
        let old = space.page_of(&at).lower;
        space.fences.insert(at);
        while self.spaces[usize::from(ks)].writing.contains_key(&old) {
            self.end(ks, false);
        }
    }

    fn check(&self, ks: u16) {
        let space = &self.spaces[usize::from(ks)];
        let oldest = space.unflushed.values().min().copied();
        let first = self.cache.first_dirty(of(ks));
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
            985..987 if self.spaces[usize::from(ks)].fences.len() < 200 => self.split(ks),
            987..988 => assert!(self.cache.shrink(1 << 16) <= 1 << 16),
            _ => self.check(ks),
        }
    }
}

fn run(seed: u64, steps: usize) {
    println!("seed {seed}");
    let mut fixture = Fixture::new(seed);
    for step in 0..steps {
        fixture.step();
        if step % 5000 == 0 {
            check::check(&fixture.cache);
            assert_eq!(check::clean_records(&fixture.cache, UNCACHED), 0);
        }
    }
    fixture.write_everything();
    check::check(&fixture.cache);
    let counts = fixture.cache.counts();
    assert_eq!(
        (check::clean_records(&fixture.cache, UNCACHED), check::clean_records(&fixture.cache, 0)),
        (0, counts.records)
    );
    assert_eq!((fixture.cache.dirty_bytes(), counts.dirty_records), (0, 0));
    assert!(counts.evictions > 0 && counts.slabs_moved > 0, "{counts:?}");
    (0..KEYSPACES).for_each(|ks| {
        assert_eq!(fixture.cache.first_dirty(of(ks)), None);
        assert_eq!(fixture.spaces[usize::from(ks)].stored, fixture.spaces[usize::from(ks)].newest);
    });
    fixture.cache.forget_keyspace(of(0));
    check::check(&fixture.cache);
    assert!(
        fixture.spaces[0]
            .newest
            .keys()
            .all(|key| matches!(fixture.cache.get(0, key, Purpose::Read, <[u8]>::to_vec), RecordLookup::Missing(_)))
    );
}

#[test]
fn random_histories() {
    (1..=3).for_each(|seed| run(seed, 40_000));
}
