//! The hot index: from a hash to the newest record of its chain (H2; decision 10, "The index entry"). It grows while it
//! is used.

mod bucket;
mod control;
mod entry;
mod find;
mod grow;
mod links;
mod load;
mod overflow;
mod split;
mod sweep;
mod table;
#[cfg(test)]
pub(in crate::hash) mod tests;

use std::{ptr, sync::Arc};

use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin, Slot},
    primitive::{Mutex, atomic::AtomicU64},
};

pub(crate) use self::find::Found;
use self::{bucket::ENTRIES, find::Refused, load::Load, table::Table};

/// Overflow buckets that threads have taken of which they find that they need none.
const IN_HANDS: u64 = 64;

/// The index of one keyspace.
#[derive(Debug)]
pub(crate) struct Index {
    domain: Arc<Domain>,
    tables: Slot<Tables>,
    load: Arc<Load>,
    /// Entries from which on it is crowded.
    crowded: AtomicU64,
    /// Held by who changes which tables there are, or how much memory they have.
    shape: Mutex<()>,
    /// Held by who gives it more buckets: one growth at a time.
    growing: Mutex<()>,
}

/// The table of all entries, and while it grows the one that gets them bucket by bucket.
#[derive(Debug)]
struct Tables {
    current: Arc<Table>,
    next: Option<Arc<Table>>,
}

impl Tables {
    /// The one that gets memory for overflow buckets.
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

    /// Takes a block for overflow buckets. The block itself if there are enough.
    pub(crate) fn add_overflow(&self, block: Block) -> Result<(), Block> {
        let _shape = self.shape.lock();
        self.last().overflow.add(block)
    }

    /// Overflow buckets that are left.
    pub(crate) fn overflow_left(&self) -> u64 {
        self.last().overflow.left()
    }

    /// The most overflow buckets that so many inserts need: one each at most, and of those that go on from one bucket,
    /// one for as many as it has entries. Some may be in the hands of threads that give them back.
    pub(crate) fn most_overflow(&self, inserts: u64) -> u64 {
        inserts.min(self.buckets() + inserts / ENTRIES as u64 + IN_HANDS)
    }

    /// Asks for the first bucket of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64, pin: &Pin<'_>) {
        let table = self.current(pin);
        table.bucket(table.number(hash)).prefetch();
    }

    /// The entry of a hash. One that is being inserted is none.
    #[inline]
    pub(crate) fn find<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Option<Found<'p>> {
        let table = self.current(pin);
        match table.find(hash, pin) {
            Ok(found) => found,
            Err(Refused) => self.find_after(table, hash, pin),
        }
    }

    /// The entry of a hash, which is inserted without an address if there is none. `None` if that needs an overflow
    /// bucket and there is none.
    pub(crate) fn find_or_insert<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Option<Found<'p>> {
        let mut table = self.current(pin);
        loop {
            match table.find_or_insert(hash, pin) {
                Ok(found) => return Some(found),
                Err(Refused) => table = self.after(table, hash, pin)?,
            }
        }
    }

    /// Goes on with a search that met a bucket that is being split.
    #[cold]
    fn find_after<'p>(&'p self, mut table: &'p Table, hash: u64, pin: &'p Pin<'_>) -> Option<Found<'p>> {
        loop {
            table = self.after(table, hash, pin).expect("what is frozen goes on in another table");
            if let Ok(found) = table.find(hash, pin) {
                return found;
            }
        }
    }

    /// The table that has a hash's entries once this one has them no more. If need be its bucket is split first. `None`
    /// if this is the last.
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

    /// The one that gets memory for overflow buckets.
    fn last(&self) -> Arc<Table> {
        self.tables(&self.domain.pin()).last().clone()
    }
}
