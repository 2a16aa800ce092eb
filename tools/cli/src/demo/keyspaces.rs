//! The keys of the demonstration and the keyspaces that hold them.
//!
//! Records have an index: first the taxa in ascending order, then the towns in order of arrival.

use ecotone::Database;

use crate::{
    demo::{
        key_bits::KeyBits,
        operations::{Action, Operation},
        sets::{self, Sizes},
        values,
    },
    failure::Failure,
    open_keyspace::OpenKeyspace,
    target::{Engine, KeyspaceArgument, Setting},
};

/// The integer keys.
#[derive(Debug)]
pub(crate) struct Universe {
    /// Ascending.
    pub(crate) taxa: KeyBits,
    /// In order of arrival.
    pub(crate) cities: Vec<u64>,
}

impl Universe {
    /// Unpacks the embedded keys.
    pub(crate) fn new(sizes: Sizes) -> Self {
        Universe { taxa: sets::taxa(sizes.taxa), cities: sets::cities(sizes.cities) }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.taxa.len() + self.cities.len()
    }

    /// The key with this index.
    pub(crate) fn key(&self, index: usize) -> u64 {
        match index.checked_sub(self.taxa.len()) {
            None => self.taxa.key(index),
            Some(city) => self.cities[city],
        }
    }
}

/// The keyspaces.
#[derive(Debug)]
pub(crate) struct DemoKeyspaces<'a> {
    /// All integer keys.
    pub(crate) universe: &'a Universe,
    /// The database that holds the keyspaces.
    pub(crate) database: &'a Database,
    /// Taxa: loaded sorted.
    pub(crate) taxa: OpenKeyspace,
    /// Towns: inserted one by one.
    pub(crate) cities: OpenKeyspace,
    /// File paths: inserted in batches.
    pub(crate) paths: OpenKeyspace,
}

impl<'a> DemoKeyspaces<'a> {
    /// Makes the keyspaces, with these options.
    pub(crate) fn create(
        database: &'a Database,
        universe: &'a Universe,
        engine: Engine,
        settings: &[Setting],
    ) -> Result<Self, Failure> {
        DemoKeyspaces::of(database, universe, |name| engine.create(database, name, settings))
    }

    /// Opens the existing keyspaces.
    pub(crate) fn open(database: &'a Database, universe: &'a Universe) -> Result<Self, Failure> {
        DemoKeyspaces::of(database, universe, |name| KeyspaceArgument { keyspace: name.to_owned() }.open(database))
    }

    fn of(
        database: &'a Database,
        universe: &'a Universe,
        keyspace: impl Fn(&str) -> Result<OpenKeyspace, Failure>,
    ) -> Result<Self, Failure> {
        let (taxa, cities, paths) = (keyspace("taxa")?, keyspace("cities")?, keyspace("paths")?);
        Ok(DemoKeyspaces { universe, database, taxa, cities, paths })
    }

    /// The keyspace and the key of the record with this index.
    pub(crate) fn place(&self, index: usize) -> (&OpenKeyspace, u64) {
        let space = if index < self.universe.taxa.len() { &self.taxa } else { &self.cities };
        (space, self.universe.key(index))
    }

    /// Runs one operation of the mixed workload. The operation is acknowledged when this returns.
    pub(crate) fn act(&self, operation: &Operation) -> Result<(), Failure> {
        let version = operation.version;
        match &operation.action {
            &Action::Read(index) => self.read(index),
            &Action::Update(index) => self.update(index, version),
            &Action::Insert(index) => {
                let (space, key) = self.place(index);
                Ok(space.insert(&key.to_be_bytes(), &values::value(key, version))?)
            }
            &Action::Delete(index) => {
                let (space, key) = self.place(index);
                Ok(space.remove(&key.to_be_bytes())?)
            }
            Action::Batch(indexes) => self.batch(indexes, version),
        }
    }

    /// Reads a record and checks every byte of its value. The record may have been deleted.
    pub(crate) fn read(&self, index: usize) -> Result<(), Failure> {
        let (space, key) = self.place(index);
        let value = space.get(&key.to_be_bytes())?;
        check(space, key, value.as_deref())
    }

    fn update(&self, index: usize, version: u32) -> Result<(), Failure> {
        let (space, key) = self.place(index);
        let before = space.replace(&key.to_be_bytes(), &values::value(key, version))?;
        check(space, key, before.as_deref())
    }

    fn batch(&self, indexes: &[usize], version: u32) -> Result<(), Failure> {
        let mut batch = self.database.batch();
        for &index in indexes {
            let (space, key) = self.place(index);
            space.insert_by(&mut batch, key.to_be_bytes().into(), values::value(key, version));
        }
        Ok(batch.commit()?)
    }
}

/// Fails if a value does not belong to its key.
pub(crate) fn check(space: &OpenKeyspace, key: u64, value: Option<&[u8]>) -> Result<(), Failure> {
    match value {
        Some(value) if values::version(key, value).is_none() => {
            Err(Failure::Told(format!("the key {key} in {} has a value that was never stored there", space.name())))
        }
        _ => Ok(()),
    }
}
