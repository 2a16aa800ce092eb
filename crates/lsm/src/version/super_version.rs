//! The super version: the memtables and the version of a keyspace at one moment. It never changes; a rotation, a flush
//! or a compaction publishes another. Readers load it under an epoch pin (lsm-protocol.md, invariants 1 to 4).

use std::sync::{Arc, Weak};

use ecotone_engine::record_cache::{CacheLookup, CacheTicket, RecordCache};
use ecotone_substrate::{Seq, table::Answer};
use ecotone_sys::{
    epoch::{Domain, Pin, Slot},
    primitive::{
        atomic::{AtomicBool, Ordering},
        thread,
    },
};

use crate::memtable::Memtable;

/// A key with its hash.
pub(crate) type HashedKey<'k> = (u64, &'k [u8]);

/// A memtable of a super version.
#[derive(Debug)]
pub(crate) struct MemtableRef {
    /// The memtable.
    pub(crate) memtable: Memtable,
    /// Whether the memtable is immutable: no thread can apply an operation to it any more.
    immutable: AtomicBool,
}

impl MemtableRef {
    /// A memtable that can be written.
    pub(crate) fn new(memtable: Memtable) -> Arc<MemtableRef> {
        Arc::new(MemtableRef { memtable, immutable: AtomicBool::new(false) })
    }

    /// Whether the memtable is immutable.
    pub(crate) fn is_immutable(&self) -> bool {
        self.immutable.load(Ordering::Acquire)
    }
}

/// A consistent picture of a keyspace. The newest record of a key is in the first source that has the key: the
/// memtables from young to old, then the version.
#[derive(Debug)]
pub(crate) struct SuperVersion<V> {
    /// The memtables from young to old. Operations are applied to the first.
    pub(crate) memtables: Vec<Arc<MemtableRef>>,
    /// The tables and paged ranges on disk.
    pub(crate) version: Arc<V>,
}

impl<V> SuperVersion<V> {
    /// The memtable to which operations are applied.
    pub(crate) fn active(&self) -> &Memtable {
        &self.memtables[0].memtable
    }

    /// The memtables that a writer may still apply operations to: at most two, of which the second was rotated a moment
    /// ago.
    pub(crate) fn writable_memtables(&self) -> impl Iterator<Item = &Memtable> + Clone {
        self.memtables
            .iter()
            .filter(|memtable_ref| !memtable_ref.is_immutable())
            .map(|memtable_ref| &memtable_ref.memtable)
    }

    /// Looks for a key, which comes with its hash, in the memtables. Its value is put into `value`.
    #[inline]
    pub(crate) fn find(&self, (hash, key): HashedKey<'_>, value: &mut Vec<u8>) -> Option<Answer> {
        self.memtables
            .iter()
            .find_map(|memtable_ref| memtable_ref.memtable.get(hash, key, value))
            .map(|(answer, _)| answer)
    }

    /// The smallest sequence number in the memtables, so of all records that are in no table (lsm-protocol.md,
    /// invariant 17).
    pub(crate) fn first_unflushed(&self) -> Option<Seq> {
        self.memtables.iter().filter_map(|memtable_ref| memtable_ref.memtable.smallest()).min()
    }
}

impl<V> Clone for SuperVersion<V> {
    fn clone(&self) -> SuperVersion<V> {
        SuperVersion { memtables: self.memtables.clone(), version: self.version.clone() }
    }
}

/// No memtable has the key: the version to search next.
#[derive(Debug)]
pub(crate) struct MemtableMiss<V> {
    pub(crate) version: Arc<V>,
    /// The ticket that admits the value to the record cache.
    pub(crate) ticket: Option<CacheTicket>,
}

/// The current super version. The thread that replaces it holds the structure mutex of the keyspace.
#[derive(Debug)]
pub(crate) struct CurrentVersion<V: Send + Sync + 'static> {
    slot: Slot<SuperVersion<V>>,
    domain: Arc<Domain>,
}

impl<V: Send + Sync + 'static> CurrentVersion<V> {
    /// Begins with a super version of one memtable and this version.
    pub(crate) fn new(domain: &Arc<Domain>, memtable: Memtable, version: V) -> CurrentVersion<V> {
        let super_version = SuperVersion { memtables: vec![MemtableRef::new(memtable)], version: Arc::new(version) };
        CurrentVersion { slot: Slot::new(domain, Some(Box::new(super_version))), domain: domain.clone() }
    }

    /// A pin that keeps the loaded super version alive.
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.domain.pin()
    }

    /// The current super version.
    ///
    /// # Panics
    /// If the pin is of another domain.
    #[inline]
    pub(crate) fn load<'p>(&'p self, pin: &'p Pin<'_>) -> &'p SuperVersion<V> {
        self.slot.load(pin).expect("there is always a super version")
    }

    /// Looks for a key in memory, and appends its value to `value`. True if the newest record of the key has a value.
    /// Memtables come before the record cache, as its values are older than theirs (adaptive-protocol.md, invariant 9).
    pub(crate) fn search(
        &self,
        sought: HashedKey<'_>,
        value: &mut Vec<u8>,
        record_cache: Option<&dyn RecordCache>,
    ) -> Result<bool, MemtableMiss<V>> {
        let Some(record_cache) = record_cache else { return self.search_memtables(sought, value, None) };
        // Memtables first: a record that a flush moves out of them in between is newer than the value that the cache
        // had until then.
        let in_memory = self.load(&self.pin()).find(sought, value);
        if let Some(answer) = in_memory {
            return Ok(answer == Answer::Value);
        }
        match record_cache.lookup(sought.1, value) {
            CacheLookup::Found => Ok(true),
            // Memtables again, now that the ticket is drawn: it must not admit a value of an older version.
            CacheLookup::Missing(ticket) => self.search_memtables(sought, value, Some(ticket)),
        }
    }

    /// Looks in the memtables of one super version. On a miss gives its version: with one of another super version, a
    /// record that is flushed in between could be in neither.
    fn search_memtables(
        &self,
        sought: HashedKey<'_>,
        value: &mut Vec<u8>,
        ticket: Option<CacheTicket>,
    ) -> Result<bool, MemtableMiss<V>> {
        let pin = self.pin();
        let super_version = self.load(&pin);
        let beyond = || MemtableMiss { version: super_version.version.clone(), ticket };
        super_version.find(sought, value).map(|answer| answer == Answer::Value).ok_or_else(beyond)
    }

    /// A copy that keeps its memtables and its version alive.
    pub(crate) fn get(&self) -> SuperVersion<V> {
        self.load(&self.pin()).clone()
    }

    /// Puts a fresh memtable before the active one. That becomes immutable after a grace period of the epoch domain,
    /// and `then` runs afterwards.
    pub(crate) fn rotate(&self, memtable: Memtable, then: impl FnOnce() + Send + 'static) {
        let mut next = self.get();
        let before = next.memtables[0].clone();
        next.memtables.insert(0, MemtableRef::new(memtable));
        self.publish(next, move || {
            before.immutable.store(true, Ordering::Release);
            then();
        });
    }

    /// Removes the oldest memtable, whose records `version` has.
    ///
    /// # Panics
    /// If the memtable is not the oldest, is not immutable, or is the active one.
    pub(crate) fn install_flushed(&self, oldest: &Arc<MemtableRef>, version: Arc<V>) {
        let SuperVersion { mut memtables, .. } = self.get();
        let gone = memtables.pop().expect("a super version has memtables");
        assert!(
            Arc::ptr_eq(&gone, oldest) && gone.is_immutable() && !memtables.is_empty(),
            "memtables are flushed from the oldest on"
        );
        self.publish(SuperVersion { memtables, version }, || ());
    }

    /// Replaces the version by one with the same records, or with more that were never in a memtable.
    pub(crate) fn install_version(&self, version: Arc<V>) {
        let SuperVersion { memtables, .. } = self.get();
        self.publish(SuperVersion { memtables, version }, || ());
    }

    /// Waits until a removed memtable has given its memory back.
    pub(crate) fn wait_until_freed(&self, memtable_ref: &Weak<MemtableRef>) {
        while memtable_ref.strong_count() > 0 {
            self.domain.drain();
            thread::yield_now();
        }
    }

    /// Waits until all memtables but the active one are immutable.
    pub(crate) fn wait_until_immutable(&self) {
        while self.get().memtables[1..].iter().any(|memtable_ref| !memtable_ref.is_immutable()) {
            self.domain.drain();
            thread::yield_now();
        }
    }

    /// The oldest memtable, once it is immutable; `None` if it is the active one.
    pub(crate) fn oldest_immutable(&self) -> Option<Arc<MemtableRef>> {
        self.wait_until_immutable();
        self.get().memtables.split_off(1).pop()
    }

    /// Frees replaced super versions that no thread reads.
    pub(crate) fn drain(&self) {
        self.domain.drain();
    }

    fn publish(&self, super_version: SuperVersion<V>, then: impl FnOnce() + Send + 'static) {
        self.slot.swap(Some(Box::new(super_version)), move |before| {
            drop(before);
            then();
        });
    }
}
