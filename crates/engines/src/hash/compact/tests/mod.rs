//! Compaction, folds and merges, with a structure that is kept in memory.

#[cfg(not(feature = "loom"))]
mod batches;
#[cfg(not(feature = "loom"))]
mod checks;
#[cfg(not(feature = "loom"))]
mod crashes;
#[cfg(not(feature = "loom"))]
mod deletes;
#[cfg(not(feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod orders;
#[cfg(not(feature = "loom"))]
mod readers;
#[cfg(not(feature = "loom"))]
mod space;
#[cfg(not(feature = "loom"))]
mod walks;

use std::sync::{Mutex, MutexGuard};

use ecotone_substrate::{
    Seq,
    health::Health,
    memory::{Component, Memory},
    scheduler::Scheduler,
};
use ecotone_sys::epoch::Domain;
use ecotone_testkit::sim::SimStorage;

use super::*;
use crate::{
    engine::Operation,
    hash::{
        Sizes,
        cold::{Name, Part, Runs, Stretch},
    },
};

const SEED: u64 = 7;

fn environment(disk: &SimStorage, budget: usize) -> Environment {
    let health: Arc<Health> = Arc::default();
    let (storage, scheduler) = (Arc::new(disk.clone()), Scheduler::manual(health.clone()));
    Environment { database: SEED, storage, memory: Memory::new(budget), scheduler, health }
}

/// What a keyspace consists of, as its durable records say.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    begin: Address,
    /// With the addresses behind their last.
    deltas: Vec<(Name, u64)>,
    partitions: Vec<(Part<Name>, u64)>,
}

impl Kept {
    fn new() -> Kept {
        Kept { begin: Address::FIRST, deltas: Vec::new(), partitions: vec![((Stretch::ALL, None), 0)] }
    }

    /// The files that this needs.
    fn names(&self) -> Vec<Name> {
        let bases = self.partitions.iter().filter_map(|((_, base), _)| *base);
        self.deltas.iter().map(|(name, _)| *name).chain(bases).collect()
    }

    /// This with a change.
    fn after(&self, change: &Change) -> Kept {
        let mut next = self.clone();
        match change {
            Change::Compact { comes, begin } => {
                next.begin = *begin;
                next.deltas.extend(comes.map(|name| (name, begin.get())));
            }
            Change::Fold { goes, comes, folded } => {
                let at = next.partitions.iter().position(|(part, _)| part == goes).expect("what goes is there");
                next.partitions.splice(at..=at, comes.iter().map(|part| (*part, *folded)));
                let oldest = next.partitions.iter().map(|(_, folded)| *folded).min().unwrap();
                next.deltas.retain(|(_, until)| *until > oldest);
            }
            Change::Merge { goes, comes } => {
                let at = next.deltas.iter().position(|(name, _)| *name == goes[0]).expect("what goes is there");
                let until = next.deltas[at + goes.len() - 1].1;
                assert!(next.deltas[at..].iter().zip(goes).all(|((name, _), goes)| name == goes));
                next.deltas.splice(at..at + goes.len(), comes.map(|name| (name, until)));
            }
        }
        next
    }

    fn open(&self, environment: &Environment) -> Result<Runs> {
        let deltas: Vec<_> = self.deltas.iter().map(|(name, _)| *name).collect();
        Runs::open(environment, &deltas, &self.partitions)
    }
}

/// A log of structural records, each with what it leads to.
struct Journal {
    environment: Environment,
    records: Mutex<Vec<Kept>>,
    synced: Mutex<usize>,
    births: Mutex<u64>,
    promised: Mutex<Promised>,
    /// Whether every record is synced at once.
    at_once: bool,
}

impl Journal {
    fn new(environment: &Environment, at_once: bool) -> Journal {
        let (records, promised) = (Mutex::new(vec![Kept::new()]), Mutex::new(Promised::NOTHING));
        Journal { environment: environment.clone(), records, synced: Mutex::new(0), births: Mutex::new(0), promised, at_once }
    }

    fn records(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.records.lock().unwrap()
    }

    /// The records that a crash now may leave: those that are synced, and any number of others.
    fn survivors(&self) -> Vec<Kept> {
        self.records()[*self.synced.lock().unwrap()..].to_vec()
    }

    /// Syncs all records, and removes what the last one does not need any more.
    fn sync(&self) {
        let records = self.records();
        let before = std::mem::replace(&mut *self.synced.lock().unwrap(), records.len() - 1);
        let needed = records.last().unwrap().names();
        let gone = records[before..].iter().flat_map(Kept::names).filter(|name| !needed.contains(name));
        let gone: std::collections::BTreeSet<_> = gone.map(|name| name.file()).collect();
        gone.into_iter().for_each(|file| drop(self.environment.storage.remove(file)));
    }
}

impl Install for Journal {
    fn name(&self) -> Result<Name> {
        let mut births = self.births.lock().unwrap();
        *births += 1;
        Ok(Name { database: SEED, keyspace: 3, number: *births as u32, birth: *births })
    }

    fn promised(&self) -> Promised {
        *self.promised.lock().unwrap()
    }

    fn settle(&self) -> Result<()> {
        self.environment.health.check()
    }

    fn install(&self, change: &Change, publish: &mut dyn FnMut()) -> Result<Seq> {
        self.environment.health.check()?;
        let record = {
            let mut records = self.records();
            let next = records.last().unwrap().after(change);
            records.push(next);
            records.len() - 1
        };
        publish();
        if self.at_once {
            self.sync();
        }
        Ok(record as Seq)
    }

    fn is_synced(&self, record: Seq) -> bool {
        record as usize <= *self.synced.lock().unwrap()
    }
}

/// A keyspace in which all is small.
struct World {
    disk: SimStorage,
    environment: Environment,
    hash: Arc<Hash>,
    journal: Journal,
    goals: Goals,
}

/// Bases so small that partitions are halved, and deltas so few that some are merged.
const SMALL: Goals = Goals {
    hot: 1 << 20,
    delta: 64 << 10,
    block: 1024,
    fold_percent: 50,
    least_deltas: 8 << 10,
    largest_base: 16 << 10,
    merge_at: 6,
    merge: 3,
};

impl World {
    fn new(seed: u64, at_once: bool) -> World {
        println!("seed {seed}");
        World::with(seed, at_once, Sizes { bucket_bits: 6, frames: 64, copies: 12 })
    }

    fn with(seed: u64, at_once: bool, sizes: Sizes) -> World {
        let disk = SimStorage::new(seed);
        let environment = environment(&disk, 64 << 20);
        let hash = Arc::new(Hash::new(&Domain::new(), &environment.memory, SEED, sizes).unwrap());
        let journal = Journal::new(&environment, at_once);
        World { disk, environment, hash, journal, goals: SMALL }
    }

    fn compactor(&self) -> Compactor<'_> {
        Compactor { hash: &self.hash, environment: &self.environment, install: &self.journal, goals: self.goals }
    }

    /// All that has been written so far goes into deltas.
    fn compact(&self) -> Result<()> {
        let until = self.hash.log.close_page();
        self.hash.log.freeze(until);
        while self.compactor().compact(until)? < until {}
        Ok(())
    }

    /// Nothing is left in deltas.
    fn fold_all(&self) -> Result<()> {
        while self.compactor().fold_any()? {}
        Ok(())
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.hash.put(Operation { key, value: Some(value) }).expect("there is memory");
    }

    fn remove(&self, key: &[u8]) {
        self.hash.put(Operation { key, value: None }).expect("there is memory");
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = vec![1, 2, 3];
        let found = self.hash.get_into(key, &mut value).expect("nothing is damaged");
        assert!(found || value.is_empty());
        found.then_some(value)
    }

    #[cfg(not(feature = "loom"))]
    fn frame(&self) -> ecotone_substrate::storage::Block {
        self.environment.memory.lease_essential(Component::Frames, Size::Frame).unwrap()
    }

    /// Reads all runs and checks them.
    #[cfg(not(feature = "loom"))]
    fn check_runs(&self) {
        check(&self.environment, &self.hash.cold.runs());
    }
}

fn hash_of(key: &[u8]) -> u64 {
    crate::hash::key::Key::new(key, SEED).hash
}

/// Reads what counts of all runs.
#[cfg(not(feature = "loom"))]
fn check(environment: &Environment, runs: &Runs) {
    runs.check(environment, &hash_of, &mut |damage| panic!("{damage}")).unwrap();
}
