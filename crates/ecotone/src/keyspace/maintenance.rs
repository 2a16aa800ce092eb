//! Loading, compaction, statistics and hints of an ordered keyspace.

use std::{iter, ops::RangeBounds};

use ecotone_engine::contract::{Hint, Operation, RangeShape, Sampled};
use ecotone_substrate::lock_rank::{self, Wait};

use super::ranges;
use crate::{Keyspace, KeyspaceStats, Result, SampledStats, core::limits_check};

/// Loading, compaction, statistics and hints.
impl Keyspace {
    /// Loads records straight into files, and returns their number. This is the fastest way to fill a keyspace.
    ///
    /// The keys must be strictly ascending and above every key in the keyspace. When the call returns, all records
    /// survive a power failure. After a crash in between, a prefix of them is there. Other threads may read and write
    /// meanwhile. If they write a key that is loaded, either value may stay.
    ///
    /// # Errors
    /// Those of a [write](Self#errors). [`Error::Invalid`](crate::Error::Invalid) names the first key that is out of
    /// order. The records before it stay.
    ///
    /// # Panics
    /// If `records` panics. A prefix of the records may be there then.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let squares = database.keyspace("squares", ecotone::KeyspaceOptions::default())?;
    /// let loaded = squares.bulk_load((0..1000u64).map(|n| (n.to_be_bytes(), (n * n).to_be_bytes())))?;
    /// assert_eq!(loaded, 1000);
    /// assert_eq!(squares.get(30u64.to_be_bytes())?, Some(900u64.to_be_bytes().to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<u64> {
        let database = &self.handle.database;
        database.check_writable()?;
        database.begin_writing()?;
        let mut source = records.into_iter();
        let mut records = iter::from_fn(|| {
            lock_rank::about_to_wait(Wait::Caller);
            let (key, value) = source.next()?;
            let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
            Some(limits_check::operation(Operation { key: &key, value: Some(&value) }).map(|()| (key, value)))
        });
        database.flush_before_load(&self.handle.space)?;
        let _loading = self.handle.space.gaps.load();
        self.handle.engine.clone().bulk_load(&mut records)
    }

    /// Runs a full compaction: merges all tables into as few as possible, without removed or replaced records.
    ///
    /// This suits a keyspace that is read for long after it was written. `progress` is called repeatedly with the bytes
    /// moved so far and in total. Other threads may read and write meanwhile; their writes may stay out of the merge.
    /// The compaction writes a few tables at a time, for which the disk needs space. Returns false if the engine has
    /// nothing to merge: a tree reorganises its pages in place.
    ///
    /// # Errors
    /// Those of a [read](Self#errors), [`Error::NoSpace`](crate::Error::NoSpace) while the disk is full, and
    /// [`Error::Poisoned`](crate::Error::Poisoned) after a failed write. The part merged before the error stays merged.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{Engine, KeyspaceOptions};
    /// let visits = database.keyspace("visits", KeyspaceOptions::default().engine(Engine::Lsm))?;
    /// visits.insert("Utrecht", "1")?;
    /// visits.remove("Utrecht")?;
    /// assert!(visits.compact(|moved, all| println!("{moved} of {all} bytes"))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compact(&self, mut progress: impl FnMut(u64, u64)) -> Result<bool> {
        self.handle.database.check_writable()?;
        let Some(engine) = self.handle.capabilities()?.compact else { return Ok(false) };
        let compacted = engine.compact(&mut |moved, all| {
            lock_rank::about_to_wait(Wait::Caller);
            progress(moved, all);
        });
        compacted.map(|()| true)
    }

    /// Returns the statistics of this keyspace.
    ///
    /// The counters are empty before the first use of the keyspace, and once the database is closed.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// let stats = towns.stats();
    /// assert!(stats.name == "towns" && stats.writer_delays().count == 0);
    /// stats.counters.iter().for_each(|(name, value)| println!("{name}: {value}"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> KeyspaceStats {
        self.handle.stats()
    }

    /// Samples the shape of the keyspace: walks over its structure and reads a few hundred pages.
    ///
    /// Returns `None` if the engine does not support sampling. A tree does.
    ///
    /// # Errors
    /// Those of a [read](Self#errors).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{Engine, KeyspaceOptions};
    /// let towns = database.keyspace("towns", KeyspaceOptions::default().engine(Engine::Tree))?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// database.flush()?;
    /// let sample = towns.survey()?.expect("a tree supports it");
    /// assert_eq!(sample.sampled_records, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn survey(&self) -> Result<Option<SampledStats>> {
        self.handle.database.check_open()?;
        self.handle.capabilities()?.samples.map(Sampled::sampled_stats).transpose()
    }

    /// Hints how a range of keys will be used, before the engine finds out.
    ///
    /// An adaptive keyspace keeps a range that is scanned as pages, and one that is written as tables. It converts the
    /// records of the range in the background, within the share of time that the option
    /// [`adapt`](crate::AdaptiveOptions) sets. [`Hint::Auto`] takes a hint back. Hints are kept in memory, for at most
    /// 64 ranges, until the database is closed. Other engines ignore them.
    ///
    /// # Errors
    /// [`Error::Limit`](crate::Error::Limit) if there are too many ranges; [`Error::Closed`](crate::Error::Closed) if
    /// the database is closed.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{Engine, Hint, KeyspaceOptions};
    /// let events = database.keyspace("events", KeyspaceOptions::default().engine(Engine::Adaptive))?;
    /// events.insert("2026-11-23 08:15", "started")?;
    /// events.hint("2026-11-23".."2026-11-24", Hint::ReadMostly)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hint<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>, hint: Hint) -> Result<()> {
        self.handle.database.check_open()?;
        self.handle.space.lazy.hint(&ranges::owned(&range), hint)
    }

    /// Returns the ranges of an adaptive keyspace that are not plain tables, or are about to be converted.
    ///
    /// Empty for other engines, and once the database is closed.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let events = database.keyspace("events", ecotone::KeyspaceOptions::default())?;
    /// for range in events.shapes() {
    ///     println!("from {:?}: {}, {} bytes of pages", range.lower, range.shape, range.page_bytes);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shapes(&self) -> Vec<RangeShape> {
        if self.handle.database.check_open().is_err() { Vec::new() } else { self.handle.space.lazy.shapes() }
    }
}
