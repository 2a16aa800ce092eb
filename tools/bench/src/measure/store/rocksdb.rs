//! RocksDB. `docs/rivals.md` says why it is configured like this.

use ::rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DataBlockIndexType,
    Options as Configuration, ReadOptions, WaitForCompactOptions, WriteBatch, WriteBufferManager, WriteOptions,
};

use super::{
    contract::{Change, End, Number, Options, Record, Stats, Store, Visit, VisitMany, VisitRecord},
    stripes::Stripes,
};
use crate::{error::Result, row::Durability};

/// Name of the default column family.
const FAMILY: &str = "default";
/// Size of a data block in bytes, like our pages.
const BLOCK: usize = 4096;
/// Bits of the Bloom filters for each record.
const BLOOM_BITS: f64 = 10.0;
/// Two write buffers share this percentage of the budget, as in TreeLine's evaluation.
const WRITE_BUFFERS_PERCENT: usize = 31;
/// Concurrent compactions and flushes, on two cores.
const BACKGROUND_JOBS: i32 = 2;
/// The smallest write buffer, and the unit of file sizes.
const MIB: usize = 1 << 20;
/// Cheap properties, and our names for them.
const PROPERTIES: [(&str, &str); 6] = [
    ("rocksdb.block-cache-usage", "cache_bytes"),
    ("rocksdb.cur-size-all-mem-tables", "write_buffer_bytes"),
    ("rocksdb.estimate-table-readers-mem", "table_readers_bytes"),
    ("rocksdb.total-sst-files-size", "file_bytes"),
    ("rocksdb.estimate-pending-compaction-bytes", "pending_compaction_bytes"),
    ("rocksdb.num-running-compactions", "running_compactions"),
];

/// The property with aggregated facts of all files, as text.
const FILES: &str = "rocksdb.aggregated-table-properties";

/// An open database with one column family.
pub(super) struct Rocksdb {
    database: DB,
    reading: ReadOptions,
    writing: WriteOptions,
    stripes: Stripes,
}

pub(super) fn open(options: &Options<'_>) -> Result<Box<dyn Store>> {
    let configuration = configuration(options.memory);
    let family = ColumnFamilyDescriptor::new(FAMILY, configuration.clone());
    let database = DB::open_cf_descriptors(&configuration, options.directory, [family])?;
    let mut writing = WriteOptions::default();
    writing.disable_wal(options.durability == Durability::None);
    writing.set_sync(options.durability == Durability::Sync);
    Ok(Box::new(Rocksdb { database, reading: ReadOptions::default(), writing, stripes: Stripes::new() }))
}

fn configuration(memory: usize) -> Configuration {
    let cache = Cache::new_lru_cache(memory);
    let buffers = memory / 100 * WRITE_BUFFERS_PERCENT;
    let buffer = (buffers / 2).max(MIB);
    let file = buffer.clamp(2 * MIB, 64 * MIB) as u64;
    let mut configuration = Configuration::default();
    configuration.create_if_missing(true);
    configuration.set_use_direct_reads(true);
    configuration.set_use_direct_io_for_flush_and_compaction(true);
    configuration.set_compression_type(DBCompressionType::None);
    configuration.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(
        buffers,
        false,
        cache.clone(),
    ));
    configuration.set_write_buffer_size(buffer);
    configuration.set_target_file_size_base(file);
    configuration.set_max_bytes_for_level_base(4 * file);
    configuration.set_level_compaction_dynamic_level_bytes(true);
    configuration.set_max_background_jobs(BACKGROUND_JOBS);
    configuration.set_max_open_files(-1);
    configuration.set_block_based_table_factory(&table(&cache));
    configuration
}

fn table(cache: &Cache) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_block_size(BLOCK);
    table.set_bloom_filter(BLOOM_BITS, false);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    table
}

/// Bytes of the index blocks of all files: their size in the block cache once all were read.
fn index_bytes(files: &str) -> Option<u64> {
    let (_, of_index) = files.split_once("; index block size")?;
    let (_, number) = of_index.split_once('=')?;
    number.split(';').next()?.trim().parse().ok()
}

impl Store for Rocksdb {
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        visit(self.database.get_pinned_opt(key, &self.reading)?.as_deref());
        Ok(())
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut VisitMany<'_>) -> Result<()> {
        let family = self.database.cf_handle(FAMILY).ok_or("the column family is gone")?;
        let values = self.database.batched_multi_get_cf_opt(family, keys.iter().copied(), false, &self.reading);
        for (number, value) in values.into_iter().enumerate() {
            visit(number, value?.as_deref());
        }
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let _lock = self.stripes.lock(key);
        Ok(self.database.put_opt(key, value, &self.writing)?)
    }

    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()> {
        let mut batch = WriteBatch::default();
        records.iter().for_each(|(key, value)| batch.put(key, value));
        let _locks = self.stripes.lock_all(records.iter().map(|(key, _)| *key));
        Ok(self.database.write_opt(batch, &self.writing)?)
    }

    fn scan(&self, start: &[u8], length: usize, visit: &mut VisitRecord<'_>) -> Result<()> {
        let mut iterator = self.database.raw_iterator();
        iterator.seek(start);
        let mut left = length;
        while let Some((key, value)) = iterator.item().filter(|_| left > 0) {
            visit(key, value);
            left -= 1;
            if left > 0 {
                iterator.next();
            }
        }
        Ok(iterator.status()?)
    }

    fn update(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        let _lock = self.stripes.lock(key);
        let new = change(self.database.get_pinned_opt(key, &self.reading)?.as_deref());
        Ok(self.database.put_opt(key, new, &self.writing)?)
    }

    fn end(&self, end: End, visit: &mut VisitRecord<'_>) -> Result<()> {
        let mut iterator = self.database.raw_iterator();
        if end == End::First {
            iterator.seek_to_first();
        } else {
            iterator.seek_to_last();
        }
        iterator.item().into_iter().for_each(|(key, value)| visit(key, value));
        Ok(iterator.status()?)
    }

    fn take(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let _lock = self.stripes.lock(key);
        let is_there = self.database.get_pinned_opt(key, &self.reading)?.as_deref() == Some(value);
        if is_there {
            self.database.delete_opt(key, &self.writing)?;
        }
        Ok(is_there)
    }

    fn wait_until_quiet(&self) -> Result<()> {
        self.database.flush()?;
        Ok(self.database.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn stats(&self) -> Stats {
        let level = |property: &str| self.database.property_int_value(property).ok().flatten();
        let found = PROPERTIES
            .iter()
            .filter_map(|(property, name)| Some(((*name).to_owned(), Number::Level(level(property)?))));
        let files = self.database.property_value(FILES).ok().flatten();
        let index_bytes = files.map_or(0, |files| index_bytes(&files).expect("RocksDB says how large its indexes are"));
        Stats { engine: found.collect(), index_bytes, ..Stats::default() }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.flush()?;
        self.database.cancel_all_background_work(true);
        Ok(())
    }
}
