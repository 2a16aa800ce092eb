//! A sharded hash map behind locks: the baseline of a program whose data fits in memory and need not be durable.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::PathBuf,
};

use foldhash::fast::FixedState;
use parking_lot::RwLock;

use super::contract::{Change, Options, Record, Stats, Store, Visit, VisitRecord};
use crate::{error::Result, measure::value, row::Durability};

/// Enough that threads rarely contend for a lock of different keys.
const SHARDS: usize = 256;

type Shard = HashMap<Box<[u8]>, Box<[u8]>, FixedState>;

/// The records, and the file that keeps them between runs.
pub(super) struct Map {
    shards: Box<[RwLock<Shard>]>,
    path: PathBuf,
}

impl Map {
    /// Loads what the last run left. It ignores the budget.
    pub(super) fn open(options: &Options<'_>) -> Result<Self> {
        if options.durability != Durability::None {
            return Err("a map has no log; only --durability none can be had".into());
        }
        std::fs::create_dir_all(options.directory)?;
        let map =
            Map { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), path: options.directory.join("records") };
        map.load()?;
        Ok(map)
    }

    fn shard(&self, key: &[u8]) -> &RwLock<Shard> {
        // These bits differ from those that choose a position within a shard.
        &self.shards[value::identity(key) as usize % SHARDS]
    }

    fn load(&self) -> Result<()> {
        let mut file = match File::open(&self.path) {
            Ok(file) => BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut next = || -> io::Result<Box<[u8]>> {
            let mut length = [0; 4];
            file.read_exact(&mut length)?;
            let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
            file.read_exact(&mut bytes)?;
            Ok(bytes.into())
        };
        loop {
            match next() {
                Ok(key) => drop(self.shard(&key).write().insert(key.clone(), next()?)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn save(&self) -> Result<()> {
        let mut file = BufWriter::new(File::create(&self.path)?);
        for shard in &self.shards {
            for (key, value) in shard.read().iter() {
                for bytes in [key, value] {
                    file.write_all(&(bytes.len() as u32).to_le_bytes())?;
                    file.write_all(bytes)?;
                }
            }
        }
        Ok(file.flush()?)
    }
}

impl Store for Map {
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        visit(self.shard(key).read().get(key).map(AsRef::as_ref));
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.shard(key).write().insert(key.into(), value.into());
        Ok(())
    }

    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()> {
        records.iter().try_for_each(|(key, value)| self.insert(key, value))
    }

    fn scan(&self, _: &[u8], _: usize, _: &mut VisitRecord<'_>) -> Result<()> {
        Err("a map keeps its records in no order of keys, so it has no scans".into())
    }

    fn update(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        let mut shard = self.shard(key).write();
        let new = change(shard.get(key).map(AsRef::as_ref));
        shard.insert(key.into(), new.into());
        Ok(())
    }

    fn wait_until_quiet(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.save()
    }
}
