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
mod punches;
#[cfg(not(feature = "loom"))]
mod readers;
#[cfg(not(feature = "loom"))]
mod scans;
#[cfg(not(feature = "loom"))]
mod space;
#[cfg(not(feature = "loom"))]
mod updates;
#[cfg(not(feature = "loom"))]
mod walks;

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard},
};

#[cfg(not(feature = "loom"))]
use ecotone_substrate::memory::Component;
use ecotone_substrate::{Seq, storage::FileId, table::Name};
use ecotone_sys::epoch::Domain;
use ecotone_testkit::sim::SimStorage;

use super::*;
use crate::{
    engine::Operation,
    hash::{
        Sizes,
        recovery::open_runs,
        structure::{File, Structure},
    },
};

const SEED: u64 = 7;
const BITS: u32 = 6;

/// What is done where the log is synced; it gets the number of records.
type OnSettle = Box<dyn FnMut(usize) + Send>;

/// A log of structural records, each with what it leads to.
struct Journal {
    environment: Environment,
    records: Mutex<Vec<Structure>>,
    synced: Mutex<usize>,
    births: Mutex<u64>,
    floor: Mutex<Address>,
    on_settle: Mutex<Option<OnSettle>>,
    /// Whether a model does not try orders just now.
    #[cfg(feature = "loom")]
    one_order: Mutex<bool>,
    /// Whether every record is synced at once.
    at_once: bool,
}

impl Journal {
    fn new(environment: &Environment, at_once: bool) -> Journal {
        Journal {
            environment: environment.clone(),
            records: Mutex::new(vec![Structure::new(BITS as u8)]),
            synced: Mutex::default(),
            births: Mutex::default(),
            floor: Mutex::new(Address::FIRST),
            on_settle: Mutex::default(),
            #[cfg(feature = "loom")]
            one_order: Mutex::default(),
            at_once,
        }
    }

    fn records(&self) -> MutexGuard<'_, Vec<Structure>> {
        self.records.lock().unwrap()
    }

    /// The records that a crash now may leave: those that are synced, and any number of others.
    fn survivors(&self) -> Vec<Structure> {
        self.records()[*self.synced.lock().unwrap()..].to_vec()
    }

    /// Syncs all records, and removes what the last one does not need any more.
    fn sync(&self) {
        let records = self.records();
        let before = std::mem::replace(&mut *self.synced.lock().unwrap(), records.len() - 1);
        let needed = files(records.last().unwrap());
        let gone: BTreeSet<_> =
            records[before..].iter().flat_map(files).filter(|file| !needed.contains(file)).collect();
        gone.into_iter().for_each(|file| drop(self.environment.storage.remove(file)));
    }
}

fn name(File { number, birth }: File) -> Name {
    Name { database: SEED, keyspace: 3, number, birth }
}

/// The files of runs that this needs.
fn files(structure: &Structure) -> BTreeSet<FileId> {
    structure.tables().map(|file| name(file).file()).collect()
}

fn open(environment: &Environment, structure: &Structure) -> Result<Runs> {
    open_runs(environment, structure, name)
}

impl Journal {
    /// Has a model try all orders from now on, or one.
    #[cfg(feature = "loom")]
    fn try_orders(&self, all: bool) {
        use ecotone_sys::primitive::loom;

        match (std::mem::replace(&mut *self.one_order.lock().unwrap(), !all), !all) {
            (true, false) => loom::explore(),
            (false, true) => loom::stop_exploring(),
            _ => {}
        }
    }

    #[cfg(not(feature = "loom"))]
    fn try_orders(&self, _: bool) {}
}

impl Install for Journal {
    fn name(&self) -> Result<Name> {
        // What is written until the log is synced nobody else looks at.
        self.try_orders(false);
        let mut births = self.births.lock().unwrap();
        *births += 1;
        Ok(name(File { number: *births as u32, birth: *births }))
    }

    fn is_logged(&self) -> bool {
        false
    }

    fn floor(&self) -> Address {
        *self.floor.lock().unwrap()
    }

    fn index_bits(&self) -> u8 {
        BITS as u8
    }

    fn settle(&self) -> Result<()> {
        self.try_orders(true);
        let records = self.records().len();
        self.on_settle.lock().unwrap().iter_mut().for_each(|then| then(records));
        self.environment.health.check()
    }

    fn install(&self, change: &Change, publish: &mut dyn FnMut()) -> Result<Seq> {
        self.environment.health.check()?;
        let record = {
            let mut records = self.records();
            let (next, _) = records.last().unwrap().after(change).expect("it fits");
            records.push(next);
            records.len() - 1
        };
        publish();
        Ok(record as Seq)
    }

    fn conclude(&self, _: Seq) -> Result<()> {
        if self.at_once {
            self.sync();
        }
        Ok(())
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

impl World {
    fn new(seed: u64, at_once: bool) -> World {
        println!("seed {seed}");
        World::with(seed, at_once, Sizes { bucket_bits: BITS, frames: 64, copies: 12 })
    }

    fn with(seed: u64, at_once: bool, sizes: Sizes) -> World {
        let disk = SimStorage::new(seed);
        let environment = disk.environment(SEED, 64 << 20);
        let hash = Arc::new(Hash::new(&Domain::new(), &environment.memory, SEED, sizes).unwrap());
        let journal = Journal::new(&environment, at_once);
        World { disk, environment, hash, journal, goals: Goals::TINY }
    }

    /// Two that differ in how compaction finds what lives.
    #[cfg(not(feature = "loom"))]
    fn both(seed: u64) -> [World; 2] {
        [Compaction::Lookup, Compaction::Scan].map(|compaction| {
            let mut world = World::new(seed, true);
            world.goals.compaction = compaction;
            world
        })
    }

    fn compactor(&self) -> Compactor<'_> {
        Compactor {
            hash: &self.hash,
            environment: &self.environment,
            install: &self.journal,
            goals: self.goals,
            is_idle: false,
        }
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
    Runs::check(|| runs, environment, &hash_of, &mut |damage| panic!("{damage}")).unwrap();
}
