//! Compaction and merges, with a structure that is kept in memory.

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
mod superseded;
#[cfg(not(feature = "loom"))]
mod updates;
#[cfg(not(feature = "loom"))]
mod walks;

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard},
};

use ecotone_engine::contract::Operation;
#[cfg(not(feature = "loom"))]
use ecotone_substrate::memory::Component;
use ecotone_substrate::{Seq, storage::FileId, table::FileIdentity};
use ecotone_sys::epoch::Domain;
use ecotone_testkit::sim::SimStorage;

use super::*;
use crate::{
    Sizes,
    recovery::open_runs,
    structure::{FileRef, HashManifest},
};

const SEED: u64 = 7;
const BITS: u32 = 6;

/// A callback at a sync of the log; it gets the number of records.
type OnSettle = Box<dyn FnMut(usize) + Send>;

/// A log of structure edits, each with the resulting structure.
struct Journal {
    environment: Environment,
    records: Mutex<Vec<HashManifest>>,
    synced: Mutex<usize>,
    births: Mutex<u64>,
    floor: Mutex<Address>,
    on_settle: Mutex<Option<OnSettle>>,
    /// Whether the loom model currently does not explore orders.
    #[cfg(feature = "loom")]
    one_order: Mutex<bool>,
    /// Whether every record is synced at once.
    at_once: bool,
}

impl Journal {
    fn new(environment: &Environment, at_once: bool) -> Journal {
        Journal {
            environment: environment.clone(),
            records: Mutex::new(vec![HashManifest::new(BITS as u8)]),
            synced: Mutex::default(),
            births: Mutex::default(),
            floor: Mutex::new(Address::FIRST),
            on_settle: Mutex::default(),
            #[cfg(feature = "loom")]
            one_order: Mutex::default(),
            at_once,
        }
    }

    fn records(&self) -> MutexGuard<'_, Vec<HashManifest>> {
        self.records.lock().unwrap()
    }

    /// The structures that a crash now may leave: after the synced records and any number of later ones.
    fn survivors(&self) -> Vec<HashManifest> {
        self.records()[*self.synced.lock().unwrap()..].to_vec()
    }

    /// Syncs all records, and removes files that the last one does not need.
    fn sync(&self) {
        let records = self.records();
        let before = std::mem::replace(&mut *self.synced.lock().unwrap(), records.len() - 1);
        let needed = files(records.last().unwrap());
        let gone: BTreeSet<_> =
            records[before..].iter().flat_map(files).filter(|file| !needed.contains(file)).collect();
        gone.into_iter().for_each(|file| drop(self.environment.storage.remove(file)));
    }
}

fn name(FileRef { number, birth }: FileRef) -> FileIdentity {
    FileIdentity { database: SEED, keyspace: 3, number, birth }
}

/// The run files that a structure needs.
fn files(manifest: &HashManifest) -> BTreeSet<FileId> {
    manifest.tables().map(|file| name(file).file()).collect()
}

fn open(environment: &Environment, manifest: &HashManifest) -> Result<Runs> {
    open_runs(environment, manifest, name)
}

impl Journal {
    /// Makes the loom model explore all orders from now on, or one.
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
    fn name(&self) -> Result<FileIdentity> {
        // No other thread reads writes before the log is synced.
        self.try_orders(false);
        let mut births = self.births.lock().unwrap();
        *births += 1;
        Ok(name(FileRef { number: *births as u32, birth: *births }))
    }

    fn is_logged(&self) -> bool {
        false
    }

    fn durable_floor(&self) -> Address {
        *self.floor.lock().unwrap()
    }

    fn index_bits(&self) -> u8 {
        BITS as u8
    }

    fn sync_log(&self) -> Result<()> {
        self.try_orders(true);
        let records = self.records().len();
        self.on_settle.lock().unwrap().iter_mut().for_each(|then| then(records));
        self.environment.health.check()
    }

    fn install(&self, change: &ManifestEdit, publish: &mut dyn FnMut()) -> Result<Seq> {
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

    fn finish(&self, _: Seq) -> Result<()> {
        if self.at_once {
            self.sync();
        }
        Ok(())
    }

    fn is_synced(&self, record: Seq) -> bool {
        record as usize <= *self.synced.lock().unwrap()
    }
}

/// A keyspace with tiny limits.
struct Fixture {
    disk: SimStorage,
    environment: Environment,
    hash: Arc<Hash>,
    journal: Journal,
    limits: CompactionLimits,
}

impl Fixture {
    fn new(seed: u64, at_once: bool) -> Fixture {
        println!("seed {seed}");
        Fixture::with(seed, at_once, Sizes { bucket_bits: BITS, frames: 64, copies: 12 })
    }

    fn with(seed: u64, at_once: bool, sizes: Sizes) -> Fixture {
        let disk = SimStorage::new(seed);
        let environment = disk.environment(SEED, 64 << 20);
        let hash = Arc::new(Hash::new(&Domain::new(), &environment.memory, SEED, sizes).unwrap());
        let journal = Journal::new(&environment, at_once);
        Fixture { disk, environment, hash, journal, limits: CompactionLimits::TINY }
    }

    /// Two fixtures that differ in how compaction finds live records.
    #[cfg(not(feature = "loom"))]
    fn both(seed: u64) -> [Fixture; 2] {
        [Compaction::Lookup, Compaction::Scan].map(|compaction| {
            let mut fixture = Fixture::new(seed, true);
            fixture.limits.compaction = compaction;
            fixture
        })
    }

    fn compactor(&self) -> Compactor<'_> {
        Compactor {
            hash: &self.hash,
            environment: &self.environment,
            install: &self.journal,
            limits: self.limits,
            is_idle: false,
        }
    }

    /// Compacts all records written so far into deltas.
    fn compact(&self) -> Result<()> {
        let until = self.hash.chains.log.close_page();
        self.hash.chains.log.freeze(until);
        while self.compactor().compact(until)? < until {}
        Ok(())
    }

    /// Merges all deltas into bases.
    fn merge_all_bases(&self) -> Result<()> {
        while self.compactor().merge_any_base()? {}
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
    crate::key::Key::new(key, SEED).hash
}

/// Reads all visible records of all runs.
#[cfg(not(feature = "loom"))]
fn check(environment: &Environment, runs: &Runs) {
    Runs::check(|| runs, environment, &hash_of, &mut |damage| panic!("{damage}")).unwrap();
}
