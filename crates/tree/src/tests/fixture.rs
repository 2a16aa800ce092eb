//! A tree on a simulated disk, for tests.

use std::{collections::BTreeMap, iter, ops::Bound, sync::Arc};

use ecotone_engine::contract::{Context, Engine, EngineFactory, Ordered};
use ecotone_substrate::{
    Result,
    memory::Component,
    wal::{Durability, WalOptions},
};
use ecotone_sys::chunk::{Block, Size};
use ecotone_testkit::{
    engine::{context, stat},
    sim::SimStorage,
};

use crate::{PageFill, Tree, TreeFamily, TreeOptions, page_allocator::PageFile};

/// The expected content of a tree.
pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;
/// Records to ingest; no value means a delete.
pub(super) type Records = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

const LOG: WalOptions =
    WalOptions { first_bytes: 1 << 20, segment_bytes: 1 << 20, limit_bytes: 16 << 20, longest_bytes: 16 << 20 };

pub(super) struct Fixture {
    pub(super) disk: SimStorage,
    context: Context,
    pub(super) tree: Arc<Tree>,
}

impl Fixture {
    pub(super) fn new(seed: u64, options: TreeOptions) -> Fixture {
        Fixture::filled(seed, options, PageFill::Even)
    }

    pub(super) fn filled(seed: u64, options: TreeOptions, page_fill: PageFill) -> Fixture {
        let disk = SimStorage::new(seed);
        let environment = disk.environment(7, 64 << 20);
        let context = context(&environment, LOG, true, seed);
        let file = PageFile::create(&environment, context.keyspace).unwrap();
        let tree = TreeFamily::default().empty(&context, (options, page_fill), &file).unwrap();
        Fixture { disk, context, tree }
    }

    pub(super) fn ingest(&self, records: &Records) -> Result<u64> {
        self.tree.ingest(&mut records.iter().map(|(key, value)| Ok((key.clone(), value.clone()))), true)
    }

    /// Leases all memory but so many frames, until the blocks are dropped.
    pub(super) fn leave_memory(&self, frames: usize) -> Vec<Block> {
        let memory = &self.context.shared.memory;
        let mut taken: Vec<_> = iter::from_fn(|| memory.lease_essential(Component::Frames, Size::Frame).ok()).collect();
        taken.truncate(taken.len() - frames);
        taken
    }

    /// Frees all pages that wait for the log.
    pub(super) fn free_all(&self) {
        let wal = &self.context.shared.wal;
        wal.commit(wal.tail(), Durability::Sync).unwrap();
        self.tree.store.space.release(wal.synced());
    }

    /// Lower fences of all segments.
    pub(super) fn fences(&self) -> Vec<Vec<u8>> {
        self.tree.store.index.snapshot().ascend(&[]).map(|(lower, _)| lower).collect()
    }

    /// The value of a key in the pages.
    pub(super) fn find(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        self.tree.find_in_pages(key, &mut value).unwrap().then_some(value)
    }

    /// Checks that the tree equals the model and verifies, both now and after reopening.
    pub(super) fn expect(&self, model: &Model) {
        let check = self.tree.verify().unwrap();
        assert_eq!((check.problems, check.records), (vec![], model.len() as u64));
        assert!(all(self.tree.clone()).eq(model));
        let root = self.tree.checkpoint().unwrap();
        self.tree.checkpoint_is_durable();
        self.free_all();
        let opened = TreeFamily::default().open(self.context.clone(), &root).unwrap();
        opened.engine().structure_recovered().unwrap();
        assert_eq!(opened.engine().verify().unwrap().records, model.len() as u64);
        let used = |stats| stat(&stats, "used_bytes");
        assert_eq!(used(self.tree.stats()), used(opened.engine().stats()), "pages that nobody names are in use");
    }
}

fn all(tree: Arc<Tree>) -> Model {
    let (mut cursor, mut records) = (tree.cursor((Bound::Unbounded, Bound::Unbounded)), Model::new());
    while let Some((key, value)) = cursor.next().unwrap() {
        records.insert(key.to_vec(), value.to_vec());
    }
    records
}

/// Applies records to a model.
pub(super) fn over(model: &mut Model, records: &Records) {
    for (key, value) in records {
        match value {
            Some(value) => _ = model.insert(key.clone(), value.clone()),
            None => _ = model.remove(key),
        }
    }
}
