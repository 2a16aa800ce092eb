//! The layout of the files of an image: the keys that damage at an offset can cost.

use std::{collections::BTreeSet, sync::Arc};

use ecotone::internal::{
    lsm::table::Table,
    substrate::{
        environment::Environment, health::Health, limits::PAGE, memory::Memory, page::Page, scheduler::Scheduler,
        storage::FileId, table::FileIdentity,
    },
};

use super::image::Image;

/// Single keys, or a range of keys.
#[derive(Debug)]
pub(super) enum Keys {
    These(BTreeSet<Vec<u8>>),
    From(Vec<u8>, Option<Vec<u8>>),
}

impl Keys {
    fn none() -> Keys {
        Keys::These(BTreeSet::new())
    }

    pub(super) fn have(&self, key: &[u8]) -> bool {
        match self {
            Keys::These(keys) => keys.contains(key),
            Keys::From(lower, upper) => {
                key >= lower.as_slice() && upper.as_ref().is_none_or(|upper| key < upper.as_slice())
            }
        }
    }
}

/// The keys of the page of a page file. Headers and index pages have none.
pub(super) fn of_page(bytes: &[u8], page: usize) -> Keys {
    let bytes = &bytes[page * PAGE..][..PAGE];
    let is_data = matches!(bytes[5], 1 | 2);
    match Page::reparse(bytes) {
        Ok(page) if is_data => Keys::From(page.lower().to_vec(), page.upper().map(<[u8]>::to_vec)),
        _ => Keys::none(),
    }
}

/// A table of an image.
pub(super) struct Blocks {
    table: Table,
    environment: Environment,
}

impl Blocks {
    pub(super) fn of(image: &Image, file: FileId) -> Blocks {
        let bytes = &image.files()[&file];
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes"));
        let FileId::Table { keyspace, number } = file else { panic!("{file} is no table") };
        let name = FileIdentity { database: word(40), keyspace, number, birth: word(56) };
        let health: Arc<Health> = Arc::default();
        let environment = Environment {
            database: name.database,
            storage: Arc::new(image.copy()),
            memory: Memory::new(16 << 20),
            scheduler: Scheduler::manual(health.clone()),
            health,
        };
        Blocks { table: Table::open(&environment, name).expect("a table"), environment }
    }

    /// The range of all keys.
    pub(super) fn range(&self) -> Keys {
        let (first, last) = self.table.range();
        Keys::From(first.to_vec(), Some([last, &[0]].concat()))
    }

    /// The keys of the block at an offset of the file. Header, index and filter have none.
    pub(super) fn at(&self, offset: usize) -> Keys {
        let block = offset.checked_sub(PAGE).map(|offset| (offset / self.table.block_size()) as u32);
        let Some(block) = block.filter(|block| *block < self.table.blocks()) else { return Keys::none() };
        let mut memory = self.table.memory_for_a_block(&self.environment).expect("memory");
        let mut keys = BTreeSet::new();
        let parsed = self.table.read(block, &mut memory).expect("a whole block");
        parsed.each(|key, _| Ok(_ = keys.insert(key.to_vec()))).expect("whole records");
        Keys::These(keys)
    }
}
