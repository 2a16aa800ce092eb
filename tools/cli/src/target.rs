//! The arguments that name the database and the keyspace of a command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ecotone::{Builder, Database, Error, HashKeyspaceOptions, KeyspaceOptions};

use crate::{
    failure::{Failure, warn},
    open_keyspace::{HASH, OpenKeyspace},
};

/// The database of a command.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgument {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// Memory that the database may use; bytes, or a number with KiB, MiB or GiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub(crate) memory: usize,
    /// Print JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// The keyspace of a command.
#[derive(Debug, Args)]
pub(crate) struct KeyspaceArgument {
    /// Name of the keyspace
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) keyspace: String,
}

/// The keyspace of a command that makes it if it is missing.
#[derive(Debug, Args)]
pub(crate) struct NewKeyspaceArgument {
    #[command(flatten)]
    pub(crate) space: KeyspaceArgument,
    /// The engine of a keyspace that is made; without it that is adaptive
    #[arg(long)]
    engine: Option<Engine>,
    /// An option of the engine of a keyspace that is made, such as `index=plr` of lsm or `disk=1073741824` of hash; may
    /// be given several times
    #[arg(long = "set", value_name = "OPTION=VALUE", value_parser = parse_setting)]
    settings: Vec<Setting>,
}

/// The name and the value of an option.
pub(crate) type Setting = (String, String);

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Ordered, with ranges
    Tree,
    /// Ordered, for data that is written much and read rarely
    Lsm,
    /// Ordered, for data whose use changes: tables, and pages where it is scanned
    Adaptive,
    /// Hashed: point reads and writes, counters
    Hash,
}

impl DatabaseArgument {
    /// Opens a database that must exist.
    pub(crate) fn open(&self) -> Result<Database, Failure> {
        Ok(self.builder().create(false).open()?)
    }

    /// Opens a database, or creates it.
    pub(crate) fn open_or_create(&self) -> Result<Database, Failure> {
        Ok(self.builder().open()?)
    }

    fn builder(&self) -> Builder {
        Database::builder(&self.path).memory_budget(self.memory)
    }
}

impl KeyspaceArgument {
    /// Opens a keyspace that must exist.
    pub(crate) fn open(&self, database: &Database) -> Result<OpenKeyspace, Failure> {
        let name = &self.keyspace;
        let found = database.keyspaces().into_iter().find(|info| info.name == *name);
        let info = found.ok_or_else(|| Error::UnknownKeyspace { name: name.clone() })?;
        Ok(OpenKeyspace::open(database, &info)?)
    }
}

impl NewKeyspaceArgument {
    /// Opens a keyspace, or creates it.
    pub(crate) fn open_or_create(&self, database: &Database) -> Result<OpenKeyspace, Failure> {
        let name = &self.space.keyspace;
        match (self.engine, database.keyspaces().iter().find(|info| info.name == *name)) {
            (Some(engine), Some(info)) if engine.name() != info.engine => {
                let there = info.engine;
                Err(Failure::Usage(format!(
                    "the keyspace {name:?} is there and has the engine {there}; leave --engine out"
                )))
            }
            (_, Some(_)) if !self.settings.is_empty() => Err(Failure::Usage(format!(
                "the keyspace {name:?} is there and keeps the options that it was made with; leave --set out"
            ))),
            (_, Some(_)) => self.space.open(database),
            (engine, None) => engine.unwrap_or(Engine::Adaptive).create(database, name, &self.settings),
        }
    }
}

impl Engine {
    /// Creates a keyspace with this engine and these options.
    pub(crate) fn create(self, database: &Database, name: &str, settings: &[Setting]) -> Result<OpenKeyspace, Failure> {
        Ok(match self.ordered() {
            Some(engine) => {
                let plain = KeyspaceOptions::default().engine(engine);
                let options = settings.iter().fold(plain, |options, (option, value)| options.set(option, value));
                OpenKeyspace::Ordered(database.create_keyspace(name, options)?)
            }
            None => {
                let plain = HashKeyspaceOptions::default();
                let options = settings.iter().fold(plain, |options, (option, value)| options.set(option, value));
                OpenKeyspace::Hashed(database.create_hash_keyspace(name, options)?)
            }
        })
    }

    /// The database's name for the engine.
    pub(crate) fn name(self) -> &'static str {
        self.ordered().map_or(HASH, ecotone::Engine::name)
    }

    /// The library's engine, if it orders keys.
    fn ordered(self) -> Option<ecotone::Engine> {
        match self {
            Engine::Tree => Some(ecotone::Engine::Tree),
            Engine::Lsm => Some(ecotone::Engine::Lsm),
            Engine::Adaptive => Some(ecotone::Engine::Adaptive),
            Engine::Hash => None,
        }
    }
}

/// Closes the database at the end of a command. A full disk is no failure then: reads were correct, and writes are in
/// the log.
pub(crate) fn close(database: Database) -> Result<(), Failure> {
    match database.close() {
        Err(error) if error.is_no_space() => {
            warn(&format!("{error}; until then what was written stays in the log"));
            Ok(())
        }
        closed => Ok(closed?),
    }
}

/// Reads `option=value`.
fn parse_setting(text: &str) -> Result<Setting, String> {
    let (option, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is no option and value, such as index=plr"))?;
    Ok((option.to_owned(), value.to_owned()))
}

/// Reads a size such as `65536`, `64KiB`, `32MiB` or `1GiB`.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: usize = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(format!("{unit:?} is no unit; use KiB, MiB or GiB")),
    };
    let number: usize = number.parse().map_err(|_| format!("{text:?} is no size; write for example 64MiB"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text:?} is too large"))
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert_eq!(parse_size("32 mib"), Ok(33_554_432));
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        for bad in ["", "MiB", "-1", "1.5MiB", "1TiB", "99999999999GiB"] {
            assert!(parse_size(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
