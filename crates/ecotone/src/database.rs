//! A database: keyspaces that share one log, one manifest and one memory budget.

use std::{
    collections::BTreeMap,
    fmt, mem,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ecotone_engine::contract::{AnyEngine, Context, EngineFactory, Shared};
use ecotone_substrate::{
    health::Health,
    lock_rank::{self, LockRank},
    manifest::{KeyspaceRecord, Manifest},
    memory::Memory,
    scheduler::Scheduler,
    storage::Storage,
    wal::Wal,
};
use ecotone_sys::{
    primitive::{Mutex, RwLock},
    process::Life,
};

use crate::{
    Batch, Builder, Check, Durability, Error, HashKeyspace, HashOptions, Keyspace, KeyspaceOptions, Result, Stats,
    batch_gate::BatchGate,
    gaps::GapSlots,
    handle::KeyspaceHandle,
    idle::IdleWork,
    keyspace_state::KeyspaceState,
    lazy::{self, LazyEngine, RecoveryPhase},
    limits, limits_check,
    opened::Opened,
    options::CreateOptions,
    reclaim::ReclaimSteps,
    recovery,
    shared_work::SharedWork,
    stats,
    stripes::Stripes,
};

/// A handle of an open database. Clones share the database. Dropping the last handle closes it; keyspaces, iterators
/// and batches count as handles.
#[derive(Clone)]
pub struct Database {
    // First, since fields are dropped in order, and the last `Opened` closes `inner`.
    _opened: Arc<Opened>,
    pub(crate) inner: Arc<Inner>,
}

/// The state that all handles share.
pub(crate) struct Inner {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) health: Arc<Health>,
    pub(crate) stripes: Stripes,
    pub(crate) batches: BatchGate,
    pub(crate) spaces: RwLock<BTreeMap<String, Arc<KeyspaceState>>>,
    /// The gap slots of all keyspaces.
    gap_places: Arc<GapSlots>,
    /// The manifest as last stored. A checkpoint, a creation and a drop each hold the lock throughout, so they run one
    /// at a time.
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) durability: Durability,
    pub(crate) shared: Shared,
    families: Vec<Arc<dyn EngineFactory>>,
    /// Tells whether this process is the one that opened the database.
    pub(crate) life: Life,
    closed: AtomicBool,
    /// Held by the thread that closes the database, so that other closers wait and then find it closed.
    closing: Mutex<()>,
    pub(crate) reclaim: ReclaimSteps,
    pub(crate) idle_work: IdleWork,
    pub(crate) flushes: SharedWork,
    /// Held by the scan that reads without memory of its own.
    pub(crate) closed_scans: Mutex<()>,
}

/// An entry of [`Database::keyspaces`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceInfo {
    /// The keyspace's name.
    pub name: String,
    /// The keyspace's id, never reused within the database.
    pub id: u32,
    /// The engine's name.
    pub engine: &'static str,
    /// Whether writes to the keyspace are in the log.
    pub logged: bool,
}

impl Database {
    /// Options to open a database at `path`. The directory need not exist yet.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Opens the keyspace `name`, or creates it with `options`. An existing keyspace keeps the options of its creation.
    ///
    /// # Errors
    /// - The name is empty, longer than [`limits::MAX_NAME`] bytes or holds control characters.
    /// - The keyspace exists with another engine.
    /// - The disk is full.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.ordered(self.open_or_create(name, &options.creation)?)
    }

    /// Creates a keyspace. It is durable when the call returns.
    ///
    /// # Errors
    /// The errors of [`keyspace`](Self::keyspace). Also fails if a keyspace of this name exists.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.ordered(self.create(name, &options.creation, false)?)
    }

    /// Opens an existing keyspace.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`] if there is none; [`Error::Invalid`] if it is a hashed keyspace.
    pub fn open_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.ordered(self.find(name)?)
    }

    /// As [`keyspace`](Self::keyspace), for a hashed keyspace.
    pub fn hash_keyspace(&self, name: &str, options: HashOptions) -> Result<HashKeyspace> {
        self.hashed(self.open_or_create(name, &options.creation)?)
    }

    /// As [`create_keyspace`](Self::create_keyspace), for a hashed keyspace.
    pub fn create_hash_keyspace(&self, name: &str, options: HashOptions) -> Result<HashKeyspace> {
        self.hashed(self.create(name, &options.creation, false)?)
    }

    /// As [`open_keyspace`](Self::open_keyspace), for a hashed keyspace.
    pub fn open_hash_keyspace(&self, name: &str) -> Result<HashKeyspace> {
        self.hashed(self.find(name)?)
    }

    /// The keyspaces, by name. Empty in a forked child process.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        if self.inner.life.is_over() {
            return Vec::new();
        }
        let info = |space: &Arc<KeyspaceState>| KeyspaceInfo {
            name: space.name.clone(),
            id: space.id,
            engine: space.kind,
            logged: space.logged,
        };
        self.inner.spaces.read().values().map(info).collect()
    }

    /// Drops a keyspace with all its records, durably. Its space returns to the file system. From now on its handles
    /// fail with [`Error::Closed`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let inner = &self.inner;
        inner.check_writable()?;
        let mut manifest = inner.manifest.lock();
        let _held = lock_rank::hold(LockRank::Manifest);
        let space =
            inner.spaces.read().get(name).cloned().ok_or_else(|| Error::UnknownKeyspace { name: name.to_owned() })?;
        let mut next = manifest.next();
        next.keyspaces.retain(|record| record.id != space.id);
        inner.store(&mut manifest, next)?;
        inner.spaces.write().remove(name);
        space.engine().mark_dropped();
        space.gaps.retire();
        if space.lazy.is_unwritten() {
            return Ok(());
        }
        inner.remove_files(space.id).map_err(|error| inner.health.poison(error))
    }

    /// Starts an empty batch.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// Makes everything written so far durable, flushes it to the data files, unlogged keyspaces included, and stores a
    /// checkpoint. The next open then has nothing to replay. Takes long if much is unflushed.
    pub fn flush(&self) -> Result<()> {
        self.inner.check_writable()?;
        self.inner.retry_without_memory(|| self.inner.flush_all())
    }

    /// Makes everything written to logged keyspaces so far survive a power failure, by one sync of the log.
    pub fn sync(&self) -> Result<()> {
        self.inner.check_writable()?;
        self.inner.wal.commit(self.inner.wal.tail(), Durability::Sync)
    }

    /// Statistics: memory against the budget, the log, device requests, and the counters of each keyspace. In a forked
    /// child process only `failure` is set.
    pub fn stats(&self) -> Stats {
        if self.inner.life.is_over() {
            return Stats { failure: Some(Error::Forked.to_string()), ..Stats::default() };
        }
        stats::collect(&self.inner)
    }

    /// Reads the whole database and checks every page, every fence and every record. Returns a report for each
    /// keyspace.
    pub fn verify(&self) -> Result<Vec<(String, Check)>> {
        self.inner.check_open()?;
        let spaces: Vec<_> = self.inner.spaces.read().values().cloned().collect();
        let checked =
            spaces.iter().filter_map(|space| match self.inner.retry_without_memory(|| space.engine().verify()) {
                // The keyspace was dropped meanwhile.
                Err(Error::Closed { .. }) if !self.inner.has(space) => None,
                check => Some(check.map(|check| (space.name.clone(), check))),
            });
        checked.collect()
    }

    /// Why the database has stopped writing; `None` while it works.
    pub fn failure(&self) -> Option<Arc<Error>> {
        if self.inner.life.is_over() { Some(Arc::new(Error::Forked)) } else { self.inner.health.cause() }
    }

    /// Flushes, stores a checkpoint and closes the database. From now on other handles and iterators fail with
    /// [`Error::Closed`]. When the call returns, even with an error, any process can open the database again. Dropping
    /// the last handle does the same, but can only log an error.
    ///
    /// # Errors
    /// If not everything could be flushed. Acknowledged writes to logged keyspaces are still in the log.
    pub fn close(self) -> Result<()> {
        self.inner.shut_down()
    }

    /// The first handle.
    pub(crate) fn of(inner: Arc<Inner>) -> Database {
        Database { _opened: Arc::new(Opened::new(inner.clone())), inner }
    }

    fn find(&self, name: &str) -> Result<Arc<KeyspaceState>> {
        self.inner.check_open()?;
        let space = self.inner.spaces.read().get(name).cloned();
        space.ok_or_else(|| Error::UnknownKeyspace { name: name.to_owned() })
    }

    fn open_or_create(&self, name: &str, creation: &CreateOptions) -> Result<Arc<KeyspaceState>> {
        match self.find(name) {
            Err(Error::UnknownKeyspace { .. }) => self.create(name, creation, true),
            Ok(space) if space.kind == creation.engine => space.check_logged(creation.logged).map(|()| space),
            Ok(space) => {
                let (has, wants, open) = (space.kind, &creation.engine, space.opened_with());
                Err(Error::Invalid(format!(
                    "the keyspace {name:?} has the engine {has}, not {wants}; open it with {open}"
                )))
            }
            Err(error) => Err(error),
        }
    }

    fn ordered(&self, space: Arc<KeyspaceState>) -> Result<Keyspace> {
        let AnyEngine::Ordered(engine) = &space.made else { return Err(space.wrong_kind()) };
        let engine = engine.clone();
        Ok(Keyspace { handle: KeyspaceHandle::new(self.clone(), space, engine) })
    }

    fn hashed(&self, space: Arc<KeyspaceState>) -> Result<HashKeyspace> {
        let AnyEngine::Hashed(engine) = &space.made else { return Err(space.wrong_kind()) };
        let engine = engine.clone();
        Ok(HashKeyspace { handle: KeyspaceHandle::new(self.clone(), space, engine) })
    }

    fn create(&self, name: &str, creation: &CreateOptions, or_open: bool) -> Result<Arc<KeyspaceState>> {
        limits_check::name(name)?;
        let inner = &self.inner;
        inner.check_writable()?;
        let mut manifest = inner.manifest.lock();
        let _held = lock_rank::hold(LockRank::Manifest);
        if inner.spaces.read().contains_key(name) {
            drop(manifest);
            let exists = || Err(Error::Invalid(format!("there is already a keyspace named {name:?}")));
            return if or_open { self.open_or_create(name, creation) } else { exists() };
        }
        if manifest.keyspaces.len() >= limits::MAX_KEYSPACES {
            let limit = limits::MAX_KEYSPACES as u64;
            return Err(Error::Limit { what: "the number of keyspaces", limit, actual: limit + 1 });
        }
        let space = Arc::new(inner.create_state(&mut manifest, name, creation)?);
        inner.spaces.write().insert(name.to_owned(), space.clone());
        Ok(space)
    }
}

impl Inner {
    pub(crate) fn new(
        shared: Shared,
        families: Vec<Arc<dyn EngineFactory>>,
        manifest: Manifest,
        spaces: Vec<KeyspaceState>,
        gap_places: Arc<GapSlots>,
        durability: Durability,
    ) -> Self {
        Inner {
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
            durability,
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
        next.store(&*self.storage).map_err(|error| self.health.poison(error))?;
        *manifest = next;
        Ok(())
    }

    /// Creates an unwritten keyspace by one manifest that allocates its id and names it (memory-and-keyspaces.md,
    /// invariant 1).
    fn create_state(&self, manifest: &mut Manifest, name: &str, creation: &CreateOptions) -> Result<KeyspaceState> {
        let CreateOptions { engine, logged, settings } = creation;
        let family = family(&self.families, engine)?;
        family.check(settings)?;
        let id = manifest.next_keyspace;
        let limit = u64::from(u32::MAX);
        let above = Error::Limit { what: "the number of keyspaces ever made", limit, actual: limit + 1 };
        let next_keyspace = id.checked_add(1).ok_or(above)?;
        // A power failure may lose the tail of the log, whose positions are then given out again. So the keyspace
        // begins where replay does. The log has no records of its id.
        let position = manifest.replay;
        let record = KeyspaceRecord {
            id,
            name: name.to_owned(),
            engine: family.name().to_owned(),
            logged: *logged,
            unwritten: true,
            watermark: position,
            structure: position,
            blob: lazy::encode_settings(settings),
        };
        self.store_with(manifest, next_keyspace, record)?;
        let lazy =
            LazyEngine::unwritten(family.clone(), context(&self.shared, id, *logged, settings), RecoveryPhase::over());
        Ok(KeyspaceState::new(id, name, &**family, *logged, lazy, &self.gap_places))
    }

    /// Stores the manifest with one more keyspace. The other records are not copied, since there may be many.
    fn store_with(&self, manifest: &mut Manifest, next_keyspace: u32, record: KeyspaceRecord) -> Result<()> {
        let keyspaces = mem::take(&mut manifest.keyspaces);
        let mut next = Manifest { next_keyspace, keyspaces, ..manifest.next() };
        next.keyspaces.push(record);
        match next.store(&*self.storage) {
            Ok(()) => {
                *manifest = next;
                Ok(())
            }
            Err(error) => {
                next.keyspaces.pop();
                manifest.keyspaces = next.keyspaces;
                Err(self.health.poison(error))
            }
        }
    }

    fn remove_files(&self, keyspace: u32) -> Result<()> {
        recovery::remove_files(&*self.storage, |file| file.keyspace() == Some(keyspace))
    }

    /// Flushes, ends background work, stores a last checkpoint, and releases the files. Only the first call does this;
    /// later calls wait for it.
    pub(crate) fn shut_down(&self) -> Result<()> {
        if self.life.is_over() {
            return Err(Error::Forked);
        }
        let _closing = self.closing.lock();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Runs after a panic as well.
        let _end = End(self);
        self.shut_down_cleanly()
    }
}

/// The context of the engine of keyspace `id`.
pub(crate) fn context(shared: &Shared, id: u32, logged: bool, settings: &[(String, String)]) -> Context {
    Context { keyspace: id, logged, sub_engine: None, settings: settings.to_vec(), shared: shared.clone() }
}

/// The engine factory with this name.
pub(crate) fn family<'a>(families: &'a [Arc<dyn EngineFactory>], name: &str) -> Result<&'a Arc<dyn EngineFactory>> {
    let found = families.iter().find(|family| family.name() == name);
    found.ok_or_else(|| Error::Invalid(format!("this version of Ecotone has no engine named {name:?}")))
}

/// Ends an open database when dropped, after a panic as well. The threads end before the objects that they use.
struct End<'i>(&'i Inner);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.scheduler.stop();
        self.0.storage.close();
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("storage", &self.inner.storage).field("keyspaces", &self.keyspaces()).finish()
    }
}
