//! bf-tree. `docs/rivals.md` says why it is configured like this.

use std::{fs, path::PathBuf};

use ::bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField, StorageBackend};

use super::{
    contract::{Change, Options, Record, Stats, Store, Visit, VisitRecord},
    stripes::Stripes,
};
use crate::{error::Result, row::Durability};

/// The longest key, and the longest record with its key. Longer keys would leave less space for records in its pages of
/// 4096 bytes.
const LONGEST_KEY: usize = 64;
const LARGEST_RECORD: usize = 1856;
/// The maximum share of the budget for its buffer, in percent; inner nodes and page table need memory besides.
const BUFFER_PERCENT: usize = 80;
/// Names of the file of an open tree, and of the snapshot that a closed tree leaves.
const OPEN: &str = "open.bftree";
const CLOSED: &str = "closed.bftree";

/// An open tree.
pub(super) struct Bf {
    tree: BfTree,
    stripes: Stripes,
    open: PathBuf,
    closed: PathBuf,
}

pub(super) fn open(options: &Options<'_>) -> Result<Box<dyn Store>> {
    if options.durability != Durability::None {
        return Err(
            "bf-tree has no recovery from its log (its own is marked as incomplete): run it with --durability none"
                .into(),
        );
    }
    fs::create_dir_all(options.directory)?;
    let (open, closed) = (options.directory.join(OPEN), options.directory.join(CLOSED));
    let size = buffer_size(options.memory);
    let tree = if closed.exists() {
        // The tree continues to write into the snapshot that it was opened from.
        fs::rename(&closed, &open)?;
        BfTree::new_from_cpr_snapshot(&open, true, None, Some(size), None)
    } else if open.exists() {
        return Err(format!(
            "bf-tree keeps nothing of a tree that was not closed: remove {}",
            options.directory.display()
        )
        .into());
    } else {
        BfTree::with_config(configuration(&open, size), None)
    };
    let tree = tree.map_err(|error| format!("bf-tree: {error:?}"))?;
    Ok(Box::new(Bf { tree, stripes: Stripes::new(), open, closed }))
}

/// The largest power of two within its share of the budget; the tree accepts only powers of two.
fn buffer_size(memory: usize) -> usize {
    let most = (memory / 100 * BUFFER_PERCENT).max(1);
    1 << most.ilog2()
}

fn configuration(file: &std::path::Path, size: usize) -> Config {
    let mut configuration = Config::new(file, size);
    configuration
        .storage_backend(StorageBackend::Std)
        .use_snapshot(true)
        .cb_max_key_len(LONGEST_KEY)
        .cb_max_record_size(LARGEST_RECORD);
    configuration
}

impl Store for Bf {
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let mut value = [0; LARGEST_RECORD];
        match self.tree.read(key, &mut value) {
            LeafReadResult::Found(length) => visit(Some(&value[..length as usize])),
            LeafReadResult::NotFound | LeafReadResult::Deleted => visit(None),
            LeafReadResult::InvalidKey => return Err(format!("bf-tree takes keys of 1 to {LONGEST_KEY} bytes").into()),
        }
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let _lock = self.stripes.lock(key);
        self.write(key, value)
    }

    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()> {
        records.iter().try_for_each(|(key, value)| self.insert(key, value))
    }

    fn scan(&self, start: &[u8], length: usize, visit: &mut VisitRecord<'_>) -> Result<()> {
        let found = self.tree.scan_with_count(start, length, ScanReturnField::KeyAndValue);
        let mut records = found.map_err(|error| format!("bf-tree: {error:?}"))?;
        let mut record = [0; LARGEST_RECORD];
        while let Some((key, value)) = records.next(&mut record) {
            visit(&record[..key], &record[key..key + value]);
        }
        Ok(())
    }

    fn update(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        let _lock = self.stripes.lock(key);
        let mut new = Vec::new();
        self.get(key, &mut |old| new = change(old))?;
        self.write(key, &new)
    }

    fn wait_until_quiet(&self) -> Result<()> {
        // It has no background work, and its only flush is the snapshot of `close`.
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.tree.cpr_snapshot(&self.closed);
        drop(self.tree);
        Ok(fs::remove_file(&self.open)?)
    }
}

impl Bf {
    fn write(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.tree.insert(key, value) {
            LeafInsertResult::Success => Ok(()),
            LeafInsertResult::InvalidKV(why) => Err(format!(
                "bf-tree: {why}; here it takes keys of 1 to {LONGEST_KEY} bytes and records of at most {LARGEST_RECORD}"
            )
            .into()),
        }
    }
}
