//! What can be chosen: durability of a write, engine and logging of a keyspace.

pub use ecotone_substrate::wal::Durability;

/// The engine of a keyspace: how its records are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Engine {
    /// Update-in-place pages behind a record cache; ordered. For point reads and updates of a set of keys that grows
    /// slowly: up to a third ahead of [`Engine::Adaptive`] there, and behind it in loads and scans.
    Tree,
    /// Tables of sorted records in levels, found by small learned indexes; ordered. For data that is written much and
    /// read rarely, and for huge data beside little memory. It is new.
    Lsm,
    /// The lsm, and pages of a tree below its tables where scans pay for them: ranges change their shape by themselves,
    /// and back; ordered. The default: loads as [`Engine::Lsm`], scans faster than either of the others where it is
    /// scanned often, and takes less space than [`Engine::Tree`] (`docs/decisions/0019-default-engine.md`).
    #[default]
    Adaptive,
}

impl Engine {
    /// The name that files and tools use.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Tree => "tree",
            Engine::Lsm => "lsm",
            Engine::Adaptive => "adaptive",
        }
    }
}

/// What a keyspace of any kind is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Creation {
    /// The engine's name.
    pub(crate) engine: String,
    pub(crate) logged: bool,
    /// Options of the engine, by name.
    pub(crate) settings: Vec<(String, String)>,
}

impl Creation {
    fn new(engine: &str) -> Self {
        Creation { engine: engine.to_owned(), logged: true, settings: Vec::new() }
    }
}

/// How a keyspace is made. Fixed at its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceOptions {
    pub(crate) creation: Creation,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        KeyspaceOptions { creation: Creation::new(Engine::default().name()) }
    }
}

impl KeyspaceOptions {
    /// The engine; the default is [`Engine::Adaptive`].
    pub fn engine(mut self, engine: Engine) -> Self {
        self.creation.engine = engine.name().to_owned();
        self
    }

    /// Keeps the operations of this keyspace out of the log: faster writes, and after a crash the keyspace is sound and
    /// holds at least what the last [`Database::flush`](crate::Database::flush) covered; later writes may or may not be
    /// there. An unlogged keyspace cannot share a batch with logged ones.
    pub fn unlogged(mut self) -> Self {
        self.creation.logged = false;
        self
    }

    /// Sets a documented option of the engine by its name. Unknown names and bad values are errors when the keyspace is
    /// made.
    ///
    /// | engine | option | default | effect |
    /// |---|---|---|---|
    /// | tree | `fill` | 90 | percent of a page that reorganisation and bulk load fill; less leaves room for inserts, more packs cold data |
    /// | tree | `neighbours` | 5 | how many segments on each side a reorganisation may take along (r of TreeLine §4.2) |
    /// | tree | `segment_pages` | 16 | most pages of a segment, 1 to 16 (TreeLine §4.1); more make a smaller index and cheaper scans, 1 is a plain index of pages |
    /// | tree | `model` | `optimal` | how the lines of segments are found: `optimal` (piecewise linear approximation) or `greedy` (thesis ch. 4), which is less work |
    /// | tree | `forecast` | `off` | where inserts will come, told from where they came, so that reorganisation leaves room there (TreeLine §4.6): `trend`, `seasonal`, `auto` (the one that told the past better) or `off`; saves reorganisations in a keyspace that grows much, and costs space |
    /// | tree | `record_cache` | `on` | `off`: records that were read, or are in their pages, do not stay in memory (a cache of capacity zero, TreeLine §5.3); only those that wait for their write-out do. For a keyspace whose reads hardly repeat, beside others that share the cache |
    /// | lsm | `index` | `linear` | how the blocks of a table are found: `linear` (a line for a group of blocks, and how far each block is from it), `plr` (lines that come near, which are smaller and cost some reads a second block), `single` (a separator of each two blocks) or `partitioned` (the same in pages that are in memory one by one); `auto` takes for each table what costs it least, by bytes and by how much it is read. Keys that lines cannot tell apart get `single` (SpongeKV) |
    /// | lsm | `error` | 2000 | bytes by which lines of `plr` may err, 400 to 16384 |
    /// | lsm | `filter_bits` | 10 | bits of each key in the filter of a table of the last level, 0 (none) to 32; above it 4 more |
    /// | lsm | `compression` | `none` | `lz4`: as many records go into a block as LZ4 packs into it, for cold data that repeats itself; unpacking takes a few microseconds (computed, not measured) at each access to a block. Chosen once |
    /// | lsm | `memtable` | an eighth of the budget | bytes of records that are gathered in memory before they become a table, 1 to 64 MiB; less where memory is short |
    /// | lsm | `table` | half a memtable | bytes of a table, 64 KiB to 64 MiB; at least a 4096th of the memory budget |
    /// | adaptive | `adapt` | 66 | percent of the time in which ranges become pages or tables at most; 0: never, and what [`Keyspace::hint`](crate::Keyspace::hint) asks for has all of the time |
    /// | adaptive | `insert` | `auto` | how what is written in a range that is pages alone gets into these: `tree` (when its memtable is flushed), `batch` (into a table above them, which is brought down when scans have paid for it), or `auto`: at each flush and for each range `tree` where the scans since the last flush would lose more to another table than it costs, and no memtable waits |
    /// | adaptive | `split` | `side` | what becomes pages of a range at once: `side`, all that its tables have, or `down`, what the oldest level has, and the next one when scans have paid for that too |
    /// | adaptive | `page_fill` | `even` | how full its pages are: `even`, all alike, to `fill` percent, or `spread`, from half full to full, so that pages which grow alike are not full at one time |
    /// | adaptive | | | those of lsm, for its tables, and those of tree, for its pages and the record cache |
    pub fn set(mut self, option: impl Into<String>, value: impl Into<String>) -> Self {
        self.creation.settings.push((option.into(), value.into()));
        self
    }

    #[doc(hidden)]
    pub fn engine_named(mut self, name: &str) -> Self {
        self.creation.engine = name.to_owned();
        self
    }
}

/// How a keyspace that finds its keys by a hash is made. Fixed at its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashOptions {
    pub(crate) creation: Creation,
}

impl Default for HashOptions {
    fn default() -> Self {
        HashOptions::engine_named("hash")
    }
}

impl HashOptions {
    #[doc(hidden)]
    pub fn engine_named(name: &str) -> Self {
        HashOptions { creation: Creation::new(name) }
    }

    /// Keeps the operations of this keyspace out of the log, as [`KeyspaceOptions::unlogged`] does. Writes of it take
    /// no locks of the database then, and those of a batch are made one by one.
    pub fn unlogged(mut self) -> Self {
        self.creation.logged = false;
        self
    }

    /// Sets a documented option of the engine by its name. Unknown names and bad values are errors when the keyspace is
    /// made.
    ///
    /// | option | default | effect |
    /// |---|---|---|
    /// | `disk` | none | bytes that the files of the keyspace may have together, at least 16777216; the log of the database does not count. Where old versions come near it they are given up sooner, at the price of more writes, and writers are slowed down. If what lives comes to it, writes that add data fail with [`Error::DiskBudget`](crate::Error::DiskBudget) until enough was deleted. Choose 1.5 times keys and values, and no less than 1.3 times and 5 MiB |
    /// | `hot_disk` | 0 | bytes of what was written last that stay on disk as they came, beside what memory has of it, before they are sorted. More saves rewriting of what is written again and again, and costs memory for the index (a tenth of it) and time at opening |
    /// | `compaction` | `lookup` | how it is found what is to be kept of what was written long ago: `lookup` asks the index, `scan` reads all that was written since, as FASTER does, which takes more time and memory and is there to be compared |
    /// | `read_cache` | `on` | `off` keeps no copies in memory of what is read from the disk, so that the memory is for what is written |
    pub fn set(mut self, option: impl Into<String>, value: impl Into<String>) -> Self {
        self.creation.settings.push((option.into(), value.into()));
        self
    }
}
