//! The engine of an ordered keyspace, and the creation options of keyspaces.

use ecotone_adaptive::AdaptiveOptions;
use ecotone_engine::{option_value, options::EngineOptions};
use ecotone_lsm::LsmOptions;
use ecotone_tree::TreeOptions;

use super::Settings;

/// The engine of an ordered keyspace. It decides how records are stored.
///
/// [`KeyspaceOptions::engine`] sets it. It is fixed when a keyspace is created.
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

    /// Returns the engine's name in files, statistics and tools: `tree`, `lsm` or `adaptive`.
    ///
    /// `Display` writes the same name, and `FromStr` reads it.
    ///
    /// # Examples
    /// ```
    /// use ecotone::Engine;
    /// assert_eq!(Engine::default().name(), "adaptive");
    /// assert_eq!("lsm".parse::<Engine>()?, Engine::Lsm);
    /// # Ok::<(), ecotone::Error>(())
    /// ```
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

/// The creation options of an ordered [`Keyspace`](crate::Keyspace): its engine, the engine's options, and whether
/// writes go to the log.
///
/// They are checked when [`Database::keyspace`](crate::Database::keyspace) gets them, and fixed when the keyspace is
/// created.
///
/// # Examples
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
    /// Returns the options of a logged keyspace of [`Engine::Adaptive`], with the engine's default options.
    fn default() -> Self {
        KeyspaceOptions::with(Engine::default(), Settings::default())
    }
}

impl KeyspaceOptions {
    /// Returns the options of a logged keyspace of [`Engine::Tree`], with these options of the engine.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{KeyspaceOptions, TreeOptions};
    /// let options = KeyspaceOptions::tree(TreeOptions::default().fill(75).record_cache(false));
    /// assert_eq!(database.keyspace("towns", options)?.engine(), "tree");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tree(options: TreeOptions) -> Self {
        KeyspaceOptions::with(Engine::Tree, options.settings())
    }

    /// Returns the options of a logged keyspace of [`Engine::Lsm`], with these options of the engine.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{KeyspaceOptions, LsmOptions, options::Compression};
    /// let options = KeyspaceOptions::lsm(LsmOptions::default().compression(Compression::Lz4));
    /// assert_eq!(database.keyspace("archive", options)?.engine(), "lsm");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lsm(options: LsmOptions) -> Self {
        KeyspaceOptions::with(Engine::Lsm, options.settings())
    }

    /// Returns the options of a logged keyspace of [`Engine::Adaptive`], with these options of the engine.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{AdaptiveOptions, KeyspaceOptions, LsmOptions};
    /// let options = AdaptiveOptions::default().adapt(20).lsm(LsmOptions::default().filter_bits(12));
    /// assert_eq!(database.keyspace("events", KeyspaceOptions::adaptive(options))?.engine(), "adaptive");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn adaptive(options: AdaptiveOptions) -> Self {
        KeyspaceOptions::with(Engine::Adaptive, options.settings())
    }

    fn with(engine: Engine, settings: impl Into<Settings>) -> Self {
        KeyspaceOptions { creation: CreateOptions::new(engine.name(), settings) }
    }

    /// Sets the engine. Default [`Engine::Adaptive`].
    ///
    /// [`tree`](Self::tree), [`lsm`](Self::lsm) and [`adaptive`](Self::adaptive) set the engine together with its
    /// options.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{Engine, KeyspaceOptions};
    /// let options = KeyspaceOptions::default().engine(Engine::Lsm);
    /// assert_eq!(database.keyspace("archive", options)?.engine(), "lsm");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn engine(self, engine: Engine) -> Self {
        self.engine_named(engine.name())
    }

    /// Keeps the operations of this keyspace out of the log. Writes are faster.
    ///
    /// After a crash the keyspace is sound and holds at least what the last
    /// [`Database::flush`](crate::Database::flush) wrote; later writes may or may not be there. An unlogged keyspace
    /// cannot share a batch with logged ones, and its writes are [`Durability::Buffered`](crate::Durability::Buffered).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// let index = database.keyspace("index", ecotone::KeyspaceOptions::default().unlogged())?;
    /// assert!(!index.is_logged());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unlogged(self) -> Self {
        KeyspaceOptions { creation: self.creation.unlogged() }
    }

    /// Sets an option of the engine by its name, for tools that read options from a command line.
    ///
    /// A program uses [`TreeOptions`], [`LsmOptions`] and [`AdaptiveOptions`]: their fields have the names of the
    /// options, and their documentation has the values. Unknown names and bad values are errors when the keyspace is
    /// created.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{Engine, KeyspaceOptions};
    /// let options = KeyspaceOptions::default().engine(Engine::Tree).set("fill", "75");
    /// database.keyspace("towns", options.clone())?;
    /// assert!(database.keyspace("streets", options.set("speed", "9")).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set(self, option: impl Into<String>, value: impl Into<String>) -> Self {
        KeyspaceOptions { creation: self.creation.set(option.into(), value.into()) }
    }

    /// Sets the engine by its name.
    #[doc(hidden)]
    pub fn engine_named(self, name: &str) -> Self {
        KeyspaceOptions { creation: self.creation.engine_named(name) }
    }
}
