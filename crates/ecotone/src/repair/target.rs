//! The keyspaces of the new database.

use ecotone_engine::contract::{Operation, Record};

use super::plans::Plan;
use crate::{
    Database, HashKeyspace, HashKeyspaceOptions, Keyspace, KeyspaceOptions, Result, config::HASH, core::limits_check,
};

/// A keyspace of the new database, of either kind.
pub(super) enum Target {
    Ordered(Keyspace),
    Hashed(HashKeyspace),
}

impl Target {
    /// An empty keyspace with the name, the engine and the kind of the old one.
    pub(super) fn create(database: &Database, plan: &Plan) -> Result<Target> {
        let (name, engine, logged) = (&plan.record.name, &plan.record.engine, plan.record.logged);
        if engine == HASH {
            let options = HashKeyspaceOptions::default();
            let options = if logged { options } else { options.unlogged() };
            return database.create_hash_keyspace(name, options).map(Target::Hashed);
        }
        let options = KeyspaceOptions::default().engine_named(engine);
        let options = if logged { options } else { options.unlogged() };
        database.create_keyspace(name, options).map(Target::Ordered)
    }

    /// Stores or deletes a record. False if the record exceeds the limits of a keyspace.
    pub(super) fn write(&self, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        if limits_check::operation(Operation { key, value }).is_err() {
            return Ok(false);
        }
        match (self, value) {
            (Target::Ordered(keyspace), Some(value)) => keyspace.insert(key, value)?,
            (Target::Ordered(keyspace), None) => keyspace.remove(key)?,
            (Target::Hashed(keyspace), Some(value)) => keyspace.insert(key, value)?,
            (Target::Hashed(keyspace), None) => keyspace.remove(key)?,
        }
        Ok(true)
    }

    /// Loads ascending records into a keyspace without records from files.
    pub(super) fn load(&self, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        match self {
            Target::Ordered(keyspace) => keyspace.handle.engine.clone().bulk_load(records),
            Target::Hashed(_) => {
                let mut count = 0;
                for record in records {
                    let (key, value) = record?;
                    count += u64::from(self.write(&key, Some(&value))?);
                }
                Ok(count)
            }
        }
    }
}
