//! The hot index maps a hash to the newest record of its chain (H2; hash-protocol.md, "The index entry"). It grows
//! while it is in use.

mod bucket;
mod bucket_split;
mod control;
mod entry;
mod find;
mod grow;
mod links;
mod load;
mod overflow;
mod sweep;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use std::{ptr, sync::Arc};

use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin, Slot},
    primitive::{Mutex, atomic::AtomicU64},
};

pub(crate) use self::find::Found;
use self::{bucket::ENTRIES, find::Refused, load::Load, table::Table};

/// Overflow buckets that threads may have taken and are about to give back.
const IN_HANDS: u64 = 64;

/// The index of one keyspace.
#[derive(Debug)]
pub(crate) struct Index {
    domain: Arc<Domain>,
    tables: Slot<Tables>,
    load: Arc<Load>,
    /// Number of entries from which the index is crowded.
    crowded: AtomicU64,
    /// Held by a thread that changes the tables, or how much memory they have.
    shape: Mutex<()>,
    /// Held by the thread that grows the index: one growth at a time.
    growing: Mutex<()>,
}

/// The table of all entries and, during growth, the next one, which gets them bucket by bucket.
#[derive(Debug)]
struct Tables {
    current: Arc<Table>,
    next: Option<Arc<Table>>,
}

impl Tables {
    /// The table that gets memory for overflow buckets.
    fn last(&self) -> &Arc<Table> {
        self.next.as_ref().unwrap_or(&self.current)
    }
}

impl Index {
    /// Bytes of 2^`bits` buckets.
    pub(crate) const fn bytes(bits: u32) -> usize {
        Table::bytes(bits)
    }

    /// An empty index of 2^`bits` buckets in blocks of one size.
    ///
    /// # Panics
    /// If the blocks have too few words.
    pub(crate) fn new(domain: &Arc<Domain>, bits: u32, blocks: Vec<Block>) -> Index {
        let current = Arc::new(Table::new(domain, bits, blocks));
        let (load, crowded) = (current.load.clone(), AtomicU64::new(current.crowded()));
        let tables = Slot::new(domain, Some(Box::new(Tables { current, next: None })));
        Index { domain: domain.clone(), tables, load, crowded, shape: Mutex::new(()), growing: Mutex::new(()) }
    }

    /// Adds a block for overflow buckets. Returns the block if there are enough.
    pub(crate) fn add_overflow(&self, block: Block) -> Result<(), Block> {
        let _shape = self.shape.lock();
        self.last().overflow.add(block)
    }

    /// Overflow buckets that are left.
    pub(crate) fn overflow_left(&self) -> u64 {
        self.last().overflow.left()
    }

    /// The most overflow buckets that `inserts` inserts need. Each insert needs at most one, and inserts into one
    /// bucket share each by as many as it has entries. Some free buckets may be held by threads that are about to give
    /// them back.
    pub(crate) fn most_overflow(&self, inserts: u64) -> u64 {
        inserts.min(self.buckets() + inserts / ENTRIES as u64 + IN_HANDS)
    }

    /// Prefetches the first bucket of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64, pin: &Pin<'_>) {
        let table = self.current(pin);
        table.bucket(table.number(hash)).prefetch();
    }

    /// The entry of a hash. A tentative one is not found.
    #[inline]
    pub(crate) fn find<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Option<Found<'p>> {
        let table = self.current(pin);
        match table.find(hash, pin) {
            Ok(found) => found,
            Err(Refused) => self.find_after(table, hash, pin),
        }
    }

    /// The entry of a hash. If there is none, inserts one without an address. `None` if that needs an overflow bucket
    /// and none is free.
    pub(crate) fn find_or_insert<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Option<Found<'p>> {
        let mut table = self.current(pin);
        loop {
            match table.find_or_insert(hash, pin) {
                Ok(found) => return Some(found),
                Err(Refused) => table = self.after(table, hash, pin)?,
            }
        }
    }

    /// Goes on with a search that met a bucket under split.
    #[cold]
    fn find_after<'p>(&'p self, mut table: &'p Table, hash: u64, pin: &'p Pin<'_>) -> Option<Found<'p>> {
        loop {
            table = self.after(table, hash, pin).expect("what is frozen goes on in another table");
            if let Ok(found) = table.find(hash, pin) {
                return found;
            }
        }
    }

    /// The table that has a hash's entries after this one. Splits the hash's bucket first if needed. `None` if this is
    /// the last table.
    #[cold]
    fn after<'p>(&'p self, table: &Table, hash: u64, pin: &'p Pin<'_>) -> Option<&'p Table> {
        let Tables { current, next } = self.tables(pin);
        match next {
            Some(next) if ptr::eq(table, &**next) => None,
            Some(next) => {
                current.split(current.number(hash), next, pin);
                Some(next)
            }
            None => (!ptr::eq(table, &**current)).then_some(current),
        }
    }

    #[inline]
    fn current<'p>(&'p self, pin: &'p Pin<'_>) -> &'p Table {
        &self.tables(pin).current
    }

    #[inline]
    fn tables<'p>(&'p self, pin: &'p Pin<'_>) -> &'p Tables {
        self.tables.load(pin).expect("there is always one")
    }

    /// The table that gets memory for overflow buckets.
    fn last(&self) -> Arc<Table> {
        self.tables(&self.domain.pin()).last().clone()
    }
}
