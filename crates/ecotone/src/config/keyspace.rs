//! The engine of an ordered keyspace, and the creation options of keyspaces.

use ecotone_adaptive::AdaptiveOptions;
use ecotone_engine::{option_value, options::EngineOptions};
use ecotone_lsm::LsmOptions;
use ecotone_tree::TreeOptions;

use super::Settings;

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
    const ALL: [Engine; 3] = [Engine::Tree, Engine::Lsm, Engine::Adaptive];

    /// The engine's name in files and tools.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Tree => "tree",
            Engine::Lsm => "lsm",
            Engine::Adaptive => "adaptive",
        }
    }
}

option_value!(Engine, "engine");

/// The creation options of a keyspace of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreateOptions {
    /// The engine's name.
    pub(crate) engine: String,
    pub(crate) logged: bool,
    /// The options of the engine.
    pub(crate) settings: Settings,
}

impl CreateOptions {
    pub(super) fn new(engine: &str, settings: impl Into<Settings>) -> Self {
        CreateOptions { engine: engine.to_owned(), logged: true, settings: settings.into() }
    }

    pub(super) fn unlogged(self) -> Self {
        CreateOptions { logged: false, ..self }
    }

    pub(super) fn set(mut self, option: String, value: String) -> Self {
        self.settings.set(option, value);
        self
    }

    pub(super) fn engine_named(self, name: &str) -> Self {
        CreateOptions { engine: name.to_owned(), ..self }
    }
}

/// Creation options of an ordered keyspace. They are fixed at its creation.
///
/// ```
/// use ecotone::{KeyspaceOptions, LsmOptions, TreeOptions, options::Compression};
/// # let directory = tempfile::tempdir()?;
/// # let database = ecotone::Database::builder(directory.path().join("db")).memory_budget(64 << 20).open()?;
/// let towns = KeyspaceOptions::tree(TreeOptions::default().fill(75));
/// let archive = KeyspaceOptions::lsm(LsmOptions::default().compression(Compression::Lz4)).unlogged();
/// database.keyspace("towns", towns)?;
/// database.keyspace("archive", archive)?;
/// let error = database.keyspace("streets", KeyspaceOptions::tree(TreeOptions::default().fill(49))).unwrap_err();
/// assert_eq!(error.to_string(), "the option fill is \"49\", and must be a number from 50 to 100");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct KeyspaceOptions {
    pub(crate) creation: CreateOptions,
}

impl Default for KeyspaceOptions {
    /// A logged keyspace of the default engine, with the engine's default options.
    fn default() -> Self {
        KeyspaceOptions::with(Engine::default(), Settings::default())
    }
}

impl KeyspaceOptions {
    /// A keyspace of [`Engine::Tree`] with these options.
    pub fn tree(options: TreeOptions) -> Self {
        KeyspaceOptions::with(Engine::Tree, options.settings())
    }

    /// A keyspace of [`Engine::Lsm`] with these options.
    pub fn lsm(options: LsmOptions) -> Self {
        KeyspaceOptions::with(Engine::Lsm, options.settings())
    }

    /// A keyspace of [`Engine::Adaptive`] with these options.
    pub fn adaptive(options: AdaptiveOptions) -> Self {
        KeyspaceOptions::with(Engine::Adaptive, options.settings())
    }

    fn with(engine: Engine, settings: impl Into<Settings>) -> Self {
        KeyspaceOptions { creation: CreateOptions::new(engine.name(), settings) }
    }

    /// Sets the engine. Default [`Engine::Adaptive`]. [`tree`](Self::tree), [`lsm`](Self::lsm) and
    /// [`adaptive`](Self::adaptive) set the engine together with its options.
    pub fn engine(self, engine: Engine) -> Self {
        self.engine_named(engine.name())
    }

    /// Keeps the operations of this keyspace out of the log. Writes are faster. After a crash the keyspace is sound and
    /// holds at least what the last [`Database::flush`](crate::Database::flush) wrote; later writes may or may not be
    /// there. An unlogged keyspace cannot share a batch with logged ones.
    pub fn unlogged(self) -> Self {
        KeyspaceOptions { creation: self.creation.unlogged() }
    }

    /// Sets an option of the engine by its name, for tools that read options from a command line. A program uses
    /// [`TreeOptions`], [`LsmOptions`] and [`AdaptiveOptions`]: their fields have the names of the options, and their
    /// documentation has the values. Unknown names and bad values are errors when the keyspace is created.
    pub fn set(self, option: impl Into<String>, value: impl Into<String>) -> Self {
        KeyspaceOptions { creation: self.creation.set(option.into(), value.into()) }
    }

    /// Sets the engine by its name.
    #[doc(hidden)]
    pub fn engine_named(self, name: &str) -> Self {
        KeyspaceOptions { creation: self.creation.engine_named(name) }
    }
}
