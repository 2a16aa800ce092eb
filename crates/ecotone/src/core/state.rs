//! The state of an open database, and the checks that every call begins with.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ecotone_engine::contract::{EngineFactory, Shared};
use ecotone_substrate::{
    health::Health, manifest::Manifest, memory::Memory, scheduler::Scheduler, storage::Storage, wal::Wal,
};
use ecotone_sys::{
    primitive::{Mutex, RwLock},
    process::Life,
};

use super::{
    batch_gate::BatchGate, gaps::GapSlots, idle::IdleWork, keyspace_state::KeyspaceState, reclaim::ReclaimSteps,
    shared_work::SharedWork, stripes::Stripes,
};
use crate::{Durability, Error, Result, config::DatabaseOptions};

/// The state of an open database. All handles share it.
pub(crate) struct DatabaseState {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) health: Arc<Health>,
    pub(crate) stripes: Stripes,
    pub(crate) batches: BatchGate,
    pub(crate) spaces: RwLock<BTreeMap<String, Arc<KeyspaceState>>>,
    /// The gap slots of all keyspaces.
    pub(super) gap_places: Arc<GapSlots>,
    /// The manifest as last stored. A checkpoint, a creation and a drop each hold the lock throughout, so they run one
    /// at a time.
    pub(crate) manifest: Mutex<Manifest>,
    /// Whether this session has stored a manifest, so that the copies are durable.
    has_stored: AtomicBool,
    pub(crate) durability: Durability,
    /// The directory.
    pub(crate) path: PathBuf,
    pub(crate) shared: Shared,
    pub(super) families: Vec<Arc<dyn EngineFactory>>,
    /// Tells whether this process is the one that opened the database.
    pub(crate) life: Life,
    pub(super) closed: AtomicBool,
    /// Held by the thread that closes the database, so that other closers wait and then find it closed.
    pub(super) closing: Mutex<()>,
    pub(crate) reclaim: ReclaimSteps,
    pub(crate) idle_work: IdleWork,
    pub(crate) flushes: SharedWork,
    /// Held by the scan that reads without memory of its own.
    pub(crate) closed_scans: Mutex<()>,
}

impl DatabaseState {
    pub(crate) fn new(
        shared: Shared,
        families: Vec<Arc<dyn EngineFactory>>,
        manifest: Manifest,
        spaces: Vec<KeyspaceState>,
        gap_places: Arc<GapSlots>,
        options: &DatabaseOptions,
    ) -> Self {
        DatabaseState {
            storage: shared.storage.clone(),
            memory: shared.memory.clone(),
            wal: shared.wal.clone(),
            scheduler: shared.scheduler.clone(),
            health: shared.health.clone(),
            stripes: Stripes::new(),
            batches: BatchGate::new(shared.memory.budget()),
            spaces: RwLock::new(spaces.into_iter().map(|space| (space.name.clone(), Arc::new(space))).collect()),
            gap_places,
            manifest: Mutex::new(manifest),
            has_stored: AtomicBool::new(false),
            durability: options.durability,
            path: options.path.clone(),
            shared,
            families,
            life: Life::present(),
            closed: AtomicBool::new(false),
            closing: Mutex::new(()),
            reclaim: ReclaimSteps::default(),
            idle_work: IdleWork::default(),
            flushes: SharedWork::default(),
            closed_scans: Mutex::new(()),
        }
    }

    /// Whether a keyspace was not dropped.
    pub(crate) fn has(&self, space: &Arc<KeyspaceState>) -> bool {
        self.spaces.read().get(&space.name).is_some_and(|there| Arc::ptr_eq(there, space))
    }

    /// Fails if the database is closed or belongs to another process.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.life.is_over() {
            return Err(Error::Forked);
        }
        self.scheduler.wake();
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed { what: "the database" }) } else { Ok(()) }
    }

    /// Fails if the database is closed or has stopped writing.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.health.check()
    }

    /// Fails if the database has stopped writing. The first call begins the session.
    #[inline]
    pub(crate) fn begin_writing(&self) -> Result<()> {
        self.health.check()?;
        self.wal.begin_session().map(drop)
    }

    /// Stores `next` as the manifest and keeps it in `manifest`.
    pub(crate) fn store(&self, manifest: &mut Manifest, next: Manifest) -> Result<()> {
        self.store_copies(&next)?;
        *manifest = next;
        Ok(())
    }

    /// Stores `next` in both copies. The caller holds the lock of the manifest.
    pub(super) fn store_copies(&self, next: &Manifest) -> Result<()> {
        let first = !self.has_stored.swap(true, Ordering::Relaxed);
        let synced = if first { Manifest::sync(&*self.storage) } else { Ok(()) };
        synced.and_then(|()| next.store(&*self.storage)).map_err(|error| self.health.poison(error))
    }
}
