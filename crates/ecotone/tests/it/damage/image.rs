//! Small databases with something in every file: pages or tables, a double-write batch, structural records, and
//! operations that only the log has. `fill` has their sessions.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use ecotone::{
    Database, Result,
    internal::{
        Components,
        adaptive::AdaptiveFamily,
        engine::contract::{EngineFactory, Shared},
        hash::HashFamily,
        lsm::LsmFamily,
        substrate::{
            manifest::Manifest,
            storage::{FileId, Storage},
        },
        tree::TreeFamily,
    },
};
use ecotone_testkit::{
    model::State,
    sim::{Crash, SimClock, SimStorage},
    suite::ObservedFactory,
};

use super::{
    either::Either,
    session::{Engines, Session},
};

/// The keyspaces, by id.
pub(super) const NAMES: [(u32, &str); 2] = [(1, "towns"), (2, "notes")];
const BUDGET: usize = 16 << 20;
/// Both copies of the manifest.
pub(super) const MANIFESTS: [FileId; 2] = Manifest::FILES;

/// A database as a crash left it.
pub(super) struct Image {
    pub(super) disk: SimStorage,
    /// The engines of its keyspaces.
    pub(super) engines: Engines,
    /// The content at the start of the last session and after each of its writes.
    pub(super) states: Vec<State>,
}

/// The offsets of the records that lie wholly in a log segment.
pub(super) fn records_of(bytes: &[u8]) -> Vec<usize> {
    let number = |offset: usize| u64::from_le_bytes(*bytes[offset..].first_chunk().expect("eight bytes"));
    let mut offset = 4096 + usize::try_from(number(32) - number(24)).expect("an offset");
    let mut records = Vec::new();
    while offset + 9 <= bytes.len() && bytes[offset..offset + 9] != [0; 9] {
        let end = offset + 9 + u32::from_le_bytes(*bytes[offset..].first_chunk().expect("four bytes")) as usize;
        if end > bytes.len() {
            break;
        }
        records.push(offset);
        offset = end;
    }
    records
}

impl Image {
    /// A few dozen pages. `seed` decides the database's identity.
    pub(super) fn new(seed: u64) -> Self {
        Self::of(seed, 150)
    }

    /// Two sessions. The first flushes, writes `records` records, loads some in bulk, and crashes. The second recovers,
    /// writes and crashes.
    pub(super) fn of(seed: u64, records: u32) -> Self {
        Self::made(seed, ["tree"; 2], |session| session.fill(records))
    }

    /// The same with hash keyspaces, whose records are in a hot log, in deltas and in base runs.
    pub(super) fn hashed(seed: u64) -> Self {
        Self::made(seed, ["hash"; 2], Session::fill_hashed)
    }

    /// The same with lsm keyspaces: two levels below some runs, and tables of two kinds.
    pub(super) fn lsm(seed: u64) -> Self {
        Self::made(seed, ["lsm"; 2], Session::fill_lsm)
    }

    /// The same with an adaptive keyspace that has tables and every kind of paged range. The second keyspace is a tree.
    pub(super) fn adaptive(seed: u64) -> Self {
        Self::made(seed, ["adaptive", "tree"], Session::fill_adaptive)
    }

    /// One image of each.
    pub(super) fn all(seed: u64) -> [Self; 4] {
        [Self::new(seed), Self::hashed(seed), Self::lsm(seed), Self::adaptive(seed)]
    }

    /// One image of each engine, with little in files and a log of several segments in the last session.
    pub(super) fn with_long_logs(seed: u64) -> Vec<Self> {
        let fill = |session: &mut Session| (0..20).for_each(|i| session.insert(1 + i % 2, i * 10, 40));
        let made = |engine| Self::of_lives(seed, [engine; 2], fill, Session::log_much);
        ["tree", "hash", "lsm", "adaptive"].map(made).into()
    }

    fn made(seed: u64, engines: Engines, fill: impl FnOnce(&mut Session)) -> Self {
        Self::of_lives(seed, engines, fill, Session::log)
    }

    fn of_lives(seed: u64, engines: Engines, fill: impl FnOnce(&mut Session), log: impl FnOnce(&mut Session)) -> Self {
        let disk = SimStorage::new(seed);
        let mut session = Session::begin(&disk, seed, engines, State::new());
        fill(&mut session);
        let end = session.end();
        let mut session = Session::begin(&end.disk, seed, engines, end.now().clone());
        log(&mut session);
        session.end()
    }

    /// The current content.
    pub(super) fn now(&self) -> &State {
        self.states.last().expect("a life has a beginning")
    }

    /// The files and their bytes.
    pub(super) fn files(&self) -> BTreeMap<FileId, Vec<u8>> {
        self.disk.files()
    }

    /// A copy with one manifest file, for damage to it.
    pub(super) fn with_one_manifest(&self) -> SimStorage {
        let disk = self.copy();
        disk.remove(MANIFESTS[1]).expect("two copies of the manifest");
        disk
    }

    /// A copy for damage.
    pub(super) fn copy(&self) -> SimStorage {
        self.disk.crash(Crash::KeepAll)
    }

    /// The offset of the last write in [`last_segment`](Self::last_segment). No later mark says that it was synced, so
    /// damage to it looks like a torn end.
    pub(super) fn last_write(&self) -> usize {
        let bytes = &self.files()[&self.last_segment()];
        let number = |offset: usize| u64::from_le_bytes(*bytes[offset..].first_chunk().expect("eight bytes"));
        let (mut offset, mut last) = (4096, 0);
        while bytes[offset..offset + 9] != [0; 9] {
            if bytes[offset + 8] == 3 {
                last = 4096 + usize::try_from(number(offset + 9) - number(24)).expect("an offset");
            }
            offset += 9 + (number(offset) & 0xffff_ffff) as usize;
        }
        last
    }

    /// The log segment of the last session.
    pub(super) fn last_segment(&self) -> FileId {
        let start = |bytes: &[u8]| u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"));
        let logs = self
            .files()
            .into_iter()
            .filter(|(id, bytes)| matches!(id, FileId::Log(_)) && bytes.starts_with(b"ECOTLOG"));
        logs.max_by_key(|(_, bytes)| start(bytes)).expect("there is a log").0
    }
}

/// The background jobs of a database without threads. The test runs them.
pub(crate) struct Jobs(Vec<Arc<OnceLock<Shared>>>);

impl Jobs {
    /// Runs the most urgent job. False if there is none.
    pub(crate) fn run_one(&self) -> bool {
        self.0.iter().find_map(|shared| shared.get()).is_some_and(|shared| shared.scheduler.run_one())
    }
}

/// All engines as a database has them, with small parts. The ledger is left out: it would read more than is asked for,
/// and tables may have been made to say anything.
pub(super) fn families() -> [Arc<dyn EngineFactory>; 4] {
    let tree = TreeFamily::default();
    let lsm = LsmFamily::tiny().unchecked().behind(Arc::new(tree.clone()));
    let adaptive = AdaptiveFamily::beside(&lsm, &tree);
    [Arc::new(tree), Arc::new(HashFamily::tiny()), Arc::new(lsm), Arc::new(adaptive)]
}

/// Opens the database on `disk`, without threads. Fails if there is none.
pub(crate) fn open(disk: &SimStorage, seed: u64) -> Result<Database> {
    open_watched(disk, seed).map(|(database, _)| database)
}

/// The same, with its jobs.
pub(crate) fn open_watched(disk: &SimStorage, seed: u64) -> Result<(Database, Jobs)> {
    open_within(disk, seed, BUDGET)
}

/// The same with another memory budget.
pub(crate) fn open_within(disk: &SimStorage, seed: u64, budget: usize) -> Result<(Database, Jobs)> {
    let (families, shared) = families().map(ObservedFactory::over).into_iter().unzip();
    let (storage, clock) = (Arc::new(disk.clone()), Arc::new(SimClock::new(seed)));
    let parts = Components { storage, clock, workers: 0, families };
    let database = Database::builder("simulated").memory_budget(budget).open_parts(parts)?;
    Ok((database, Jobs(shared)))
}

/// Opens a keyspace, of whatever kind it is.
pub(super) fn keyspace(database: &Database, name: &str) -> Result<Either> {
    let hashed = database.keyspaces().iter().any(|info| info.name == name && info.engine == "hash");
    if hashed {
        database.open_hash_keyspace(name).map(Either::Hashed)
    } else {
        database.open_keyspace(name).map(Either::Ordered)
    }
}

/// Closes a database whose files do not matter any more, without the I/O of a proper end.
pub(crate) fn abandon(disk: &SimStorage, database: Database) {
    disk.power_off();
    drop(database);
}
