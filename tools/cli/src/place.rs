//! Which database and which keyspace a command works on.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ecotone::{Builder, Database, Error, HashOptions, KeyspaceOptions};

use crate::{
    failure::{Failure, warn},
    kept::{HASH, Kept},
};

/// The database of a command.
#[derive(Debug, Args)]
pub(crate) struct Place {
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
pub(crate) struct Space {
    /// Name of the keyspace
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) keyspace: String,
}

/// The keyspace of a command that makes it if it is missing.
#[derive(Debug, Args)]
pub(crate) struct NewSpace {
    #[command(flatten)]
    pub(crate) space: Space,
    /// The engine of a keyspace that is made; without it that is adaptive
    #[arg(long)]
    engine: Option<Engine>,
    /// An option of the engine of a keyspace that is made, such as `index=plr` of lsm or `disk=1073741824` of hash; may
    /// be given several times
    #[arg(long = "set", value_name = "OPTION=VALUE", value_parser = parse_setting)]
    settings: Vec<Setting>,
}

/// The name of an option, and a value.
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

impl Place {
    /// Opens a database that must exist.
    pub(crate) fn open(&self) -> Result<Database, Failure> {
        Ok(self.builder().create(false).open()?)
    }

    /// Opens a database, or makes it.
    pub(crate) fn open_or_create(&self) -> Result<Database, Failure> {
        Ok(self.builder().open()?)
    }

    fn builder(&self) -> Builder {
        Database::builder(&self.path).memory_budget(self.memory)
    }
}

impl Space {
    /// Opens a keyspace that must exist.
    pub(crate) fn open(&self, database: &Database) -> Result<Kept, Failure> {
        let name = &self.keyspace;
        let found = database.keyspaces().into_iter().find(|info| info.name == *name);
        let info = found.ok_or_else(|| Error::UnknownKeyspace { name: name.clone() })?;
        Ok(Kept::open(database, &info)?)
    }
}

impl NewSpace {
    /// Opens a keyspace, or makes it.
    pub(crate) fn open_or_create(&self, database: &Database) -> Result<Kept, Failure> {
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
    /// Makes a keyspace with it, and with these options.
    pub(crate) fn create(self, database: &Database, name: &str, settings: &[Setting]) -> Result<Kept, Failure> {
        Ok(match self.ordered() {
            Some(engine) => {
                let plain = KeyspaceOptions::default().engine(engine);
                let options = settings.iter().fold(plain, |options, (option, value)| options.set(option, value));
                Kept::Ordered(database.create_keyspace(name, options)?)
            }
            None => {
                let plain = HashOptions::default();
                let options = settings.iter().fold(plain, |options, (option, value)| options.set(option, value));
                Kept::Hashed(database.create_hash_keyspace(name, options)?)
            }
        })
    }

    /// What the database calls it.
    pub(crate) fn name(self) -> &'static str {
        self.ordered().map_or(HASH, ecotone::Engine::name)
    }

    /// The library's, if it keeps keys in order.
    fn ordered(self) -> Option<ecotone::Engine> {
        match self {
            Engine::Tree => Some(ecotone::Engine::Tree),
            Engine::Lsm => Some(ecotone::Engine::Lsm),
            Engine::Adaptive => Some(ecotone::Engine::Adaptive),
            Engine::Hash => None,
        }
    }
}

/// Closes the database at the end of a command. A full disk is then no failure: what was read is right, and what was
/// written is in the log.
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
