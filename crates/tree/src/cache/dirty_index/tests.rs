//! Tests of the dirty index against a model.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
};

use ecotone_substrate::memory::{Component, Memory};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

const WINDOW: u32 = 4;

/// Records without a cache: keys by address.
#[derive(Debug, Default)]
struct Records {
    keys: RefCell<HashMap<u32, (u16, Vec<u8>)>>,
    next: RefCell<u32>,
}

impl Cells for Records {
    fn with_key<T>(&self, address: Address, look: impl FnOnce(Key<'_>) -> T) -> T {
        let keys = self.keys.borrow();
        let (keyspace, bytes) = &keys[&address.0];
        look(Key { keyspace: *keyspace, bytes })
    }
}

impl Records {
    fn add(&self, keyspace: u16, key: &[u8]) -> Address {
        *self.next.borrow_mut() += 1;
        let address = *self.next.borrow();
        self.keys.borrow_mut().insert(address, (keyspace, key.to_vec()));
        Address(address)
    }
}

/// The keys that have entries: their addresses, and the sequences since which they are dirty.
type Model = BTreeMap<(u16, Vec<u8>), (Address, Seq)>;

struct Fixture {
    memory: Arc<Memory>,
    index: DirtyIndex,
    records: Records,
    model: Model,
    random: SmallRng,
    now: Seq,
    /// Selects how similar keys are.
    kind: u64,
}

impl Fixture {
    fn new(seed: u64) -> Fixture {
        let memory = Memory::new(16 << 20);
        let index = DirtyIndex::new(&memory, WINDOW);
        let random = SmallRng::seed_from_u64(seed);
        Fixture { memory, index, records: Records::default(), model: Model::new(), random, now: 1, kind: seed % 5 }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.random_range(0..3000_u32);
        match self.kind {
            0 => number.wrapping_mul(0x9E37_79B9).to_be_bytes().to_vec(),
            1 => (self.now as u32).to_be_bytes().to_vec(),
            2 => format!("{}/long/path/of/which/most/is/the/same/{number}", number % 2).into_bytes(),
            3 => vec![b'k'; number as usize % 1024 + 1],
            _ => (u32::MAX - self.now as u32).to_be_bytes()[..(number as usize % 4 + 1)].to_vec(),
        }
    }

    fn write(&mut self) {
        let (keyspace, key) = (self.random.random_range(0..3) * 255, self.key());
        self.now += 1;
        // A write may be applied after one with a higher sequence.
        let seq = self.now.saturating_sub(self.random.random_range(0..20));
        assert!(self.index.admit(&|| false));
        let entry = Key { keyspace, bytes: &key };
        let expected = self.model.get(&(keyspace, key.clone())).copied();
        let address = self.records.add(keyspace, &key);
        let moves = self.random.random_bool(0.3);
        self.index.change(entry, &self.records, |found| {
            assert_eq!(found, expected.map(|(address, _)| address));
            if found.is_some() && moves { EntryUpdate::Moved(address) } else { EntryUpdate::Dirty(address, seq) }
        });
        self.index.leave();
        let seq = expected.filter(|_| moves).map_or(seq, |(_, seq)| seq);
        self.model.insert((keyspace, key), (address, seq));
    }

    /// Two keys in ascending order.
    fn ends(&mut self) -> (u16, Vec<u8>, Option<Vec<u8>>) {
        let (keyspace, mut ends) = (self.random.random_range(0..3) * 255, [self.key(), self.key()]);
        ends.sort();
        let [from, to] = ends;
        if self.random.random_bool(0.3) { (keyspace, Vec::new(), None) } else { (keyspace, from, Some(to)) }
    }

    fn within(&self, keyspace: u16, from: &[u8], to: Option<&[u8]>) -> Model {
        let lies = |key: &[u8]| key >= from && to.is_none_or(|to| key < to);
        self.model
            .iter()
            .filter(|((of, key), _)| *of == keyspace && lies(key))
            .map(|(key, entry)| (key.clone(), *entry))
            .collect()
    }

    fn clean(&mut self) {
        let (keyspace, from, to) = self.ends();
        let part = self.random.random_range(1..4);
        let goes = |address: Address| address.0.is_multiple_of(part);
        for (key, (address, _)) in self.within(keyspace, &from, to.as_deref()) {
            if goes(address) {
                self.model.remove(&key);
            }
        }
        self.index.retain(Keys::of(keyspace, &from, to.as_deref()), &self.records, |address| !goes(address));
    }

    fn look(&mut self) {
        let (keyspace, from, to) = self.ends();
        let keys = Keys::of(keyspace, &from, to.as_deref());
        let expected = self.within(keyspace, &from, to.as_deref());
        let most = self.random.random_range(1..2000);
        for direction in [Direction::Up, Direction::Down] {
            let mut found = Vec::new();
            self.index.look(keys, direction, &self.records, |address| {
                found.push(address);
                if found.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let addresses = expected.iter().map(|(_, (address, _))| *address);
            let expected: Vec<_> = match direction {
                Direction::Up => addresses.take(most).collect(),
                Direction::Down => addresses.rev().take(most).collect(),
            };
            assert_eq!(found, expected, "{direction:?}");
        }
        assert_eq!(self.index.count(keys, &self.records, usize::MAX), expected.len());
        let first = expected.iter().map(|(_, (_, seq))| *seq).min();
        let found = self.index.first(keys, &self.records, None);
        assert_eq!(found.is_some(), first.is_some());
        // The oldest window of a leaf may belong to an entry that was renewed, until entries are removed.
        assert!(found.zip(first).is_none_or(|(found, first)| found <= first));
        self.index.retain(keys, &self.records, |_| true);
        assert_eq!(self.index.first(keys, &self.records, None), first.map(|first| first >> WINDOW << WINDOW));
        let below = self.now.saturating_sub(self.random.random_range(0..2000));
        let since = |seq: Seq| seq >> WINDOW <= (below.max(1) - 1) >> WINDOW;
        let next = expected.iter().find(|(_, (_, seq))| below > 0 && since(*seq)).map(|((_, key), _)| key.clone());
        assert_eq!(self.index.next(keys, below, &self.records), next);
    }

    fn check(&self) {
        let used = self.memory.used(&[Component::DirtyIndex]);
        assert_eq!(used, self.index.bytes());
        let leaves = self.model.len() / 100 + 12;
        assert!(used <= (leaves + self.model.len() / 100) * 4096, "{used} bytes for {} entries", self.model.len());
    }
}

#[test]
fn it_follows_the_model_whatever_keys_come() {
    for seed in 0..15 {
        let mut fixture = Fixture::new(seed);
        for _ in 0..12_000 {
            match fixture.random.random_range(0..1000) {
                0 => fixture.clean(),
                1..=3 => fixture.look(),
                _ => fixture.write(),
            }
            // All dirty entries lie within half of the windows.
            let oldest = fixture.now.saturating_sub(120 << WINDOW);
            let old: Vec<_> =
                fixture.model.iter().filter(|(_, (_, seq))| *seq < oldest).map(|(key, _)| key.clone()).collect();
            if fixture.now.is_multiple_of(256) && !old.is_empty() {
                for (keyspace, key) in old {
                    let upper = [key.as_slice(), &[0]].concat();
                    fixture.index.retain(Keys::of(keyspace, &key, Some(&upper)), &fixture.records, |_| false);
                    fixture.model.remove(&(keyspace, key));
                }
            }
        }
        fixture.check();
        for keyspace in [0, 255, 510] {
            fixture.index.retain(Keys::of(keyspace, &[], None), &fixture.records, |_| false);
            assert_eq!(fixture.index.first(Keys::of(keyspace, &[], None), &fixture.records, None), None);
        }
        fixture.model.clear();
        fixture.check();
    }
}
