//! Options: the engine and logging of a keyspace, and the durability of its writes.

pub use ecotone_substrate::wal::Durability;

/// The engine of a keyspace. It decides how records are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Engine {
    /// Update-in-place pages behind a record cache; ordered. For point reads and updates of a slowly growing set of
    /// keys: up to a third faster than [`Engine::Adaptive`] there, and slower in loads and scans.
    Tree,
    /// Tables of sorted records in levels, found by small learned indexes; ordered. For data that is written much and
    /// read rarely, and for large data beside little memory. It is new.
    Lsm,
    /// The lsm engine, with pages of a tree below its tables where scans pay for them; ordered. Ranges are converted to
    /// pages and back by themselves. The default: loads as fast as [`Engine::Lsm`], scans often-scanned ranges faster
    /// than either of the others, and takes less space than [`Engine::Tree`] (`docs/decisions/0019-default-engine.md`).
    #[default]
    Adaptive,
}

impl Engine {
    /// The engine's name in files and tools.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Tree => "tree",
            Engine::Lsm => "lsm",
            Engine::Adaptive => "adaptive",
        }
    }
}

/// The creation options of a keyspace of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreateOptions {
    /// The engine's name.
    pub(crate) engine: String,
    pub(crate) logged: bool,
    /// Engine options, as pairs of name and value.
    pub(crate) settings: Vec<(String, String)>,
}

impl CreateOptions {
    fn new(engine: &str) -> Self {
        CreateOptions { engine: engine.to_owned(), logged: true, settings: Vec::new() }
    }
}

/// Creation options of an ordered keyspace. They are fixed at its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceOptions {
    pub(crate) creation: CreateOptions,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        KeyspaceOptions { creation: CreateOptions::new(Engine::default().name()) }
    }
}

impl KeyspaceOptions {
    /// Sets the engine. Default [`Engine::Adaptive`].
    pub fn engine(mut self, engine: Engine) -> Self {
        self.creation.engine = engine.name().to_owned();
        self
    }

    /// Keeps the operations of this keyspace out of the log. Writes are faster. After a crash the keyspace is sound and
    /// holds at least what the last [`Database::flush`](crate::Database::flush) wrote; later writes may or may not be
    /// there. An unlogged keyspace cannot share a batch with logged ones.
    pub fn unlogged(mut self) -> Self {
        self.creation.logged = false;
        self
    }

    /// Sets an engine option by its name. Unknown names and bad values are errors when the keyspace is created.
    ///
    /// Options of the tree engine, with their defaults:
    ///
    /// - `fill` (90): percent of a page that reorganisation and bulk load fill. Less leaves space for inserts; more
    ///   packs cold data.
    /// - `neighbours` (5): the most segments on each side that a reorganisation includes (r of TreeLine §4.2).
    /// - `segment_pages` (16): most pages of a segment, 1 to 16 (TreeLine §4.1). More make a smaller index and cheaper
    ///   scans; 1 is a plain index of pages.
    /// - `model` (`optimal`): how the lines of segments are fitted. `optimal` is piecewise linear approximation;
    ///   `greedy` (thesis ch. 4) is less work.
    /// - `forecast` (`off`): predicts inserts from past ones, so that reorganisation leaves space for them (TreeLine
    ///   §4.6). `trend`, `seasonal`, `auto` (the one that predicted the past better) or `off`. Saves reorganisations in
    ///   a keyspace that grows much, and costs space.
    /// - `record_cache` (`on`): with `off`, records stay in memory only until they are written out (a cache of capacity
    ///   zero, TreeLine §5.3). For a keyspace whose reads hardly repeat, beside others that share the cache.
    ///
    /// Options of the lsm engine:
    ///
    /// - `index` (`linear`): how the blocks of a table are found. `linear` uses a line for a group of blocks and the
    ///   distance of each block from the line. `plr` uses approximate lines, which are smaller and cost some reads a
    ///   second block. `single` uses a separator between each two blocks. `partitioned` uses separators in pages that
    ///   are loaded one by one. `auto` chooses the cheapest for each table, by its size and read frequency. Keys that
    ///   lines cannot tell apart get `single` (SpongeKV).
    /// - `error` (2000): the error bound of `plr` in bytes, 400 to 16384.
    /// - `filter_bits` (10): filter bits per key in a table of the last level, 0 (none) to 32. Other levels have 4
    ///   more.
    /// - `compression` (`none`): with `lz4`, a block holds as many records as LZ4 packs into it. For cold data that
    ///   repeats itself. Unpacking takes a few microseconds (computed, not measured) at each access to a block. Cannot
    ///   be changed later.
    /// - `memtable` (an eighth of the budget): the size of a memtable in bytes, 1 to 64 MiB. Less where memory is
    ///   short.
    /// - `table` (half a memtable): the size of a table in bytes, 64 KiB to 64 MiB, and at least a 4096th of the memory
    ///   budget.
    ///
    /// The adaptive engine has the options of lsm for its tables, those of tree for its pages and the record cache,
    /// and:
    ///
    /// - `adapt` (66): the most percent of time that is spent on converting ranges. 0 turns adaptation off, and hints
    ///   ([`Keyspace::hint`](crate::Keyspace::hint)) may use all of the time.
    /// - `insert` (`auto`): how writes reach a range that has only pages. `tree` writes them to the pages when the
    ///   memtable is flushed. `batch` writes them to a table above the pages, which is converted when scans have paid
    ///   for it. `auto` chooses for each flush and range: `tree` if another table would cost the scans since the last
    ///   flush more than the page writes cost, and no memtable waits.
    /// - `split` (`side`): how much of a range is converted to pages at once. `side` converts all its tables. `down`
    ///   converts the oldest level, and the next level when scans have paid for that too.
    /// - `page_fill` (`even`): how full pages are. `even` fills all to `fill` percent. `spread` fills them from half to
    ///   full, so that pages which grow alike are not full at the same time.
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

/// Creation options of a hashed keyspace. They are fixed at its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashOptions {
    pub(crate) creation: CreateOptions,
}

impl Default for HashOptions {
    fn default() -> Self {
        HashOptions::engine_named("hash")
    }
}

impl HashOptions {
    #[doc(hidden)]
    pub fn engine_named(name: &str) -> Self {
        HashOptions { creation: CreateOptions::new(name) }
    }

    /// Keeps the operations of this keyspace out of the log, as [`KeyspaceOptions::unlogged`] does. Its writes then
    /// take no locks of the database, and those of a batch are made one by one.
    pub fn unlogged(mut self) -> Self {
        self.creation.logged = false;
        self
    }

    /// Sets an engine option by its name. Unknown names and bad values are errors when the keyspace is created.
    ///
    /// The options, with their defaults:
    ///
    /// - `disk` (none): the most bytes that the files of the keyspace may have together, at least 16777216. The log of
    ///   the database does not count. Near the limit, old versions are removed sooner, at the price of more writes, and
    ///   writers are throttled. If live data reaches the limit, writes that add data fail with
    ///   [`Error::DiskBudget`](crate::Error::DiskBudget) until enough is deleted. Choose 1.5 times the size of keys and
    ///   values, and no less than 1.3 times plus 5 MiB.
    /// - `hot_disk` (0): bytes of the latest writes that stay on disk in write order, beyond memory, before they are
    ///   sorted. More saves rewrites of records that change again and again. It costs memory for the index (a tenth of
    ///   it) and time at opening.
    /// - `compaction` (`lookup`): how compaction finds live records. `lookup` asks the index. `scan` reads everything
    ///   written since, as FASTER does. It takes more time and memory, and exists for comparison.
    /// - `read_cache` (`on`): `off` keeps no copies in memory of records read from disk, so that the memory is free for
    ///   writes.
    pub fn set(mut self, option: impl Into<String>, value: impl Into<String>) -> Self {
        self.creation.settings.push((option.into(), value.into()));
        self
    }
}
