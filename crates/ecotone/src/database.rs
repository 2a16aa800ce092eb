//! A database: keyspaces over one log, one manifest, one memory budget.

use std::{
    collections::BTreeMap,
    fmt, mem,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ecotone_engines::engine::{Context, Family, Made, Shared};
use ecotone_substrate::{
    health::Health,
    held::{self, Kind},
    manifest::{KeyspaceRecord, Manifest},
    memory::Memory,
    scheduler::Scheduler,
    storage::Storage,
    wal::Wal,
};
use ecotone_sys::{
    life::Life,
    primitive::{Mutex, RwLock},
};

use crate::{
    Batch, Builder, Check, Durability, Error, HashKeyspace, HashOptions, Keyspace, KeyspaceOptions, Result, Stats,
    batch_gate::BatchGate,
    gaps::Places,
    handle::Handle,
    idle::Rest,
    lazy::{self, Lazy, Progress},
    limits, limits_check,
    opened::Opened,
    options::Creation,
    recovery,
    relief::Relief,
    shared_work::SharedWork,
    space::Space,
    stats,
    stripes::Stripes,
};

/// A handle of an open database. Clones share it; the last one to go (keyspaces and batches count) closes it.
#[derive(Clone)]
pub struct Database {
    // First, since fields are dropped in order: the last one closes what is behind.
    _opened: Arc<Opened>,
    pub(crate) inner: Arc<Inner>,
}

/// What is behind all handles.
pub(crate) struct Inner {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) health: Arc<Health>,
    pub(crate) stripes: Stripes,
    pub(crate) batches: BatchGate,
    pub(crate) spaces: RwLock<BTreeMap<String, Arc<Space>>>,
    /// For the gaps of all keyspaces.
    gap_places: Arc<Places>,
    /// The manifest as last stored. Locked for the whole of a checkpoint, a creation and a drop, which so happen one at
    /// a time.
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) durability: Durability,
    pub(crate) shared: Shared,
    families: Vec<Arc<dyn Family>>,
    /// Of the process that opened it.
    pub(crate) life: Life,
    closed: AtomicBool,
    /// Held by who closes it, so that others who do find it closed.
    closing: Mutex<()>,
    pub(crate) relief: Relief,
    pub(crate) rest: Rest,
    pub(crate) flushes: SharedWork,
    /// Held by the scan that reads without memory of its own.
    pub(crate) closed_scans: Mutex<()>,
}

/// What [`Database::keyspaces`] tells of each keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceInfo {
    /// Its name.
    pub name: String,
    /// Its number, never reused within the database.
    pub id: u32,
    /// Its engine's name.
    pub engine: &'static str,
    /// Whether its writes are in the log.
    pub logged: bool,
}

impl Database {
    /// How to open a database at `path`, a directory that may not exist yet.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Opens the keyspace `name`, or makes it with `options` if there is none. An existing one keeps the options it was
    /// made with.
    ///
    /// # Errors
    /// A name that is empty, longer than [`limits::MAX_NAME`] bytes or holds control characters; an existing keyspace
    /// of another engine; a full disk.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.ordered(self.open_or_create(name, &options.creation)?)
    }

    /// Makes a new keyspace. Durable when it returns.
    ///
    /// # Errors
    /// As [`keyspace`](Self::keyspace), and if one of this name exists.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.ordered(self.create(name, &options.creation, false)?)
    }

    /// Opens an existing keyspace.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`] if there is none; [`Error::Invalid`] for one whose keys have no order.
    pub fn open_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.ordered(self.find(name)?)
    }

    /// As [`keyspace`](Self::keyspace), for one that finds its keys by a hash.
    pub fn hash_keyspace(&self, name: &str, options: HashOptions) -> Result<HashKeyspace> {
        self.hashed(self.open_or_create(name, &options.creation)?)
    }

    /// As [`create_keyspace`](Self::create_keyspace), for one that finds its keys by a hash.
    pub fn create_hash_keyspace(&self, name: &str, options: HashOptions) -> Result<HashKeyspace> {
        self.hashed(self.create(name, &options.creation, false)?)
    }

    /// As [`open_keyspace`](Self::open_keyspace), for one that finds its keys by a hash.
    pub fn open_hash_keyspace(&self, name: &str) -> Result<HashKeyspace> {
        self.hashed(self.find(name)?)
    }

    /// The keyspaces, by name. None in a process that was forked off.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        if self.inner.life.is_over() {
            return Vec::new();
        }
        let info = |space: &Arc<Space>| KeyspaceInfo {
            name: space.name.clone(),
            id: space.id,
            engine: space.kind,
            logged: space.logged,
        };
        self.inner.spaces.read().values().map(info).collect()
    }

    /// Drops a keyspace with everything in it, durably. Its space returns to the file system; handles of it fail with
    /// [`Error::Closed`] from now on.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let inner = &self.inner;
        inner.check_writable()?;
        let mut manifest = inner.manifest.lock();
        let _held = held::hold(Kind::Manifest);
        let space =
            inner.spaces.read().get(name).cloned().ok_or_else(|| Error::UnknownKeyspace { name: name.to_owned() })?;
        let mut next = manifest.next();
        next.keyspaces.retain(|record| record.id != space.id);
        inner.store(&mut manifest, next)?;
        inner.spaces.write().remove(name);
        space.engine().retire();
        space.gaps.retire();
        if space.lazy.is_unwritten() {
            return Ok(());
        }
        inner.remove_files(space.id).map_err(|error| inner.health.poison(error))
    }

    /// An empty batch.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// Makes everything written so far durable and brings it into the data files, unlogged keyspaces included, and
    /// writes a checkpoint, so that the next open has nothing to replay. Long if much is unwritten.
    pub fn flush(&self) -> Result<()> {
        self.inner.check_writable()?;
        self.inner.patiently(|| self.inner.flush_all())
    }

    /// Makes everything written to logged keyspaces so far survive a power failure: one sync of the log.
    pub fn sync(&self) -> Result<()> {
        self.inner.check_writable()?;
        self.inner.wal.commit(self.inner.wal.tail(), Durability::Sync)
    }

    /// Numbers: memory against budget, log, device requests, and each keyspace's own. In a process that was forked off,
    /// none but why.
    pub fn stats(&self) -> Stats {
        if self.inner.life.is_over() {
            return Stats { failure: Some(Error::Forked.to_string()), ..Stats::default() };
        }
        stats::collect(&self.inner)
    }

    /// Reads everything and checks it: every page, every fence, every record. Gives a report for each keyspace.
    pub fn verify(&self) -> Result<Vec<(String, Check)>> {
        self.inner.check_open()?;
        let spaces: Vec<_> = self.inner.spaces.read().values().cloned().collect();
        let checked = spaces.iter().filter_map(|space| match self.inner.patiently(|| space.engine().verify()) {
            // It was dropped meanwhile.
            Err(Error::Closed { .. }) if !self.inner.has(space) => None,
            check => Some(check.map(|check| (space.name.clone(), check))),
        });
        checked.collect()
    }

    /// Why writing has stopped, or `None` while all is well.
    pub fn failure(&self) -> Option<Arc<Error>> {
        if self.inner.life.is_over() { Some(Arc::new(Error::Forked)) } else { self.inner.health.cause() }
    }

    /// Flushes, writes a checkpoint and closes; other handles and iterators fail with [`Error::Closed`] from now on.
    /// When this returns, also with an error, the database can be opened again, by whomever. Dropping the last handle
    /// does the same, but can only log an error.
    ///
    /// # Errors
    /// If not everything could be flushed. What was acknowledged is in the log then.
    pub fn close(self) -> Result<()> {
        self.inner.shut_down()
    }

    /// The first handle.
    pub(crate) fn of(inner: Arc<Inner>) -> Database {
        Database { _opened: Arc::new(Opened::new(inner.clone())), inner }
    }

    fn find(&self, name: &str) -> Result<Arc<Space>> {
        self.inner.check_open()?;
        let space = self.inner.spaces.read().get(name).cloned();
        space.ok_or_else(|| Error::UnknownKeyspace { name: name.to_owned() })
    }

    fn open_or_create(&self, name: &str, creation: &Creation) -> Result<Arc<Space>> {
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

    fn ordered(&self, space: Arc<Space>) -> Result<Keyspace> {
        let Made::Ordered(engine) = &space.made else { return Err(space.wrong_kind()) };
        let engine = engine.clone();
        Ok(Keyspace { handle: Handle::new(self.clone(), space, engine) })
    }

    fn hashed(&self, space: Arc<Space>) -> Result<HashKeyspace> {
        let Made::Hashed(engine) = &space.made else { return Err(space.wrong_kind()) };
        let engine = engine.clone();
        Ok(HashKeyspace { handle: Handle::new(self.clone(), space, engine) })
    }

    fn create(&self, name: &str, creation: &Creation, or_open: bool) -> Result<Arc<Space>> {
        limits_check::name(name)?;
        let inner = &self.inner;
        inner.check_writable()?;
        let mut manifest = inner.manifest.lock();
        let _held = held::hold(Kind::Manifest);
        if inner.spaces.read().contains_key(name) {
            drop(manifest);
            let exists = || Err(Error::Invalid(format!("there is already a keyspace named {name:?}")));
            return if or_open { self.open_or_create(name, creation) } else { exists() };
        }
        if manifest.keyspaces.len() >= limits::MAX_KEYSPACES {
            let limit = limits::MAX_KEYSPACES as u64;
            return Err(Error::Limit { what: "the number of keyspaces", limit, actual: limit + 1 });
        }
        let space = Arc::new(inner.create_space(&mut manifest, name, creation)?);
        inner.spaces.write().insert(name.to_owned(), space.clone());
        Ok(space)
    }
}

impl Inner {
    pub(crate) fn new(
        shared: Shared,
        families: Vec<Arc<dyn Family>>,
        manifest: Manifest,
        spaces: Vec<Space>,
        gap_places: Arc<Places>,
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
            relief: Relief::default(),
            rest: Rest::default(),
            flushes: SharedWork::default(),
            closed_scans: Mutex::new(()),
        }
    }

    /// Whether a keyspace was not dropped.
    pub(crate) fn has(&self, space: &Arc<Space>) -> bool {
        self.spaces.read().get(&space.name).is_some_and(|there| Arc::ptr_eq(there, space))
    }

    /// Fails if the database was closed, or is another process's.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.life.is_over() {
            return Err(Error::Forked);
        }
        self.scheduler.wake();
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed { what: "the database" }) } else { Ok(()) }
    }

    /// Fails if the database was closed or has stopped writing.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.health.check()
    }

    /// Fails if the database has stopped writing. The session begins with the first call.
    #[inline]
    pub(crate) fn begin_writing(&self) -> Result<()> {
        self.health.check()?;
        self.wal.begin_session().map(drop)
    }

    /// Stores `next` as the manifest and remembers it.
    pub(crate) fn store(&self, manifest: &mut Manifest, next: Manifest) -> Result<()> {
        next.store(&*self.storage).map_err(|error| self.health.poison(error))?;
        *manifest = next;
        Ok(())
    }

    /// Makes a keyspace, unwritten, by one manifest that gives out its number and names it (decision 18, invariant 1).
    fn create_space(&self, manifest: &mut Manifest, name: &str, creation: &Creation) -> Result<Space> {
        let Creation { engine, logged, settings } = creation;
        let family = family(&self.families, engine)?;
        family.check(settings)?;
        let id = manifest.next_keyspace;
        let limit = u64::from(u32::MAX);
        let above = Error::Limit { what: "the number of keyspaces ever made", limit, actual: limit + 1 };
        let next_keyspace = id.checked_add(1).ok_or(above)?;
        // The log's tail may be lost in a power failure and its positions be given out again, so the keyspace begins
        // where replay does. Nothing in the log has its number.
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
        let lazy = Lazy::unwritten(family.clone(), context(&self.shared, id, *logged, settings), Progress::over());
        Ok(Space::new(id, name, &**family, *logged, lazy, &self.gap_places))
    }

    /// Stores the manifest with one more keyspace. The others are not copied, since there may be many.
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

    /// Ends background work after a last flush, makes a last checkpoint, and lets others open the files. Only the first
    /// call does anything; others wait for it.
    pub(crate) fn shut_down(&self) -> Result<()> {
        if self.life.is_over() {
            return Err(Error::Forked);
        }
        let _closing = self.closing.lock();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Whatever panics in between.
        let _end = End(self);
        self.shut_down_cleanly()
    }
}

/// What an engine is told about the keyspace `id`.
pub(crate) fn context(shared: &Shared, id: u32, logged: bool, settings: &[(String, String)]) -> Context {
    Context { keyspace: id, logged, part: None, settings: settings.to_vec(), shared: shared.clone() }
}

/// The family of engines with this name.
pub(crate) fn family<'a>(families: &'a [Arc<dyn Family>], name: &str) -> Result<&'a Arc<dyn Family>> {
    let found = families.iter().find(|family| family.name() == name);
    found.ok_or_else(|| Error::Invalid(format!("this version of Ecotone has no engine named {name:?}")))
}

/// The end of an open database, also after a panic: its threads end before what they use goes.
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
