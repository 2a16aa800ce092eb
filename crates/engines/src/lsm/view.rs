//! What a keyspace consists of at one moment, in memory and on disk, and how that is replaced (decision 12, invariants
//! 1 to 4).

use std::sync::{Arc, Weak};

use ecotone_substrate::{Seq, table::Answer};
use ecotone_sys::{
    epoch::{Domain, Pin, Slot},
    primitive::{
        atomic::{AtomicBool, Ordering},
        thread,
    },
};

use super::memtable::Memtable;
use crate::front::{Front, Look, Ticket};

/// A key with its hash.
pub(super) type Hashed<'k> = (u64, &'k [u8]);

/// A memtable of a view.
#[derive(Debug)]
pub(super) struct Member {
    /// The memtable.
    pub(super) memtable: Memtable,
    /// Whether nobody can apply anything to it any more.
    sealed: AtomicBool,
}

impl Member {
    /// One that can be written.
    pub(super) fn new(memtable: Memtable) -> Arc<Member> {
        Arc::new(Member { memtable, sealed: AtomicBool::new(false) })
    }

    /// Whether nobody can apply anything to it any more.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }
}

/// All that says what a keyspace has. A key's newest record is in the first that has the key, of the memtables from
/// young to old and then the version.
#[derive(Debug)]
pub(super) struct View<V> {
    /// From young to old. Operations are applied to the first.
    pub(super) memtables: Vec<Arc<Member>>,
    /// What is on disk.
    pub(super) version: Arc<V>,
}

impl<V> View<V> {
    /// The memtable to which operations are applied.
    pub(super) fn active(&self) -> &Memtable {
        &self.memtables[0].memtable
    }

    /// Those to which somebody may still apply something: at most two, of which the second is one that was just
    /// switched from.
    pub(super) fn unsealed(&self) -> impl Iterator<Item = &Memtable> + Clone {
        self.memtables.iter().filter(|member| !member.is_sealed()).map(|member| &member.memtable)
    }

    /// What the memtables say of a key, which comes with its hash. The value is put into `value`.
    #[inline]
    pub(super) fn find(&self, (hash, key): Hashed<'_>, value: &mut Vec<u8>) -> Option<Answer> {
        self.memtables.iter().find_map(|member| member.memtable.get(hash, key, value)).map(|(answer, _)| answer)
    }

    /// The smallest sequence of what is in no table (invariant 17).
    pub(super) fn first_unflushed(&self) -> Option<Seq> {
        self.memtables.iter().filter_map(|member| member.memtable.smallest()).min()
    }
}

impl<V> Clone for View<V> {
    fn clone(&self) -> View<V> {
        View { memtables: self.memtables.clone(), version: self.version.clone() }
    }
}

/// Where the search for a key goes on that is not in memory.
#[derive(Debug)]
pub(super) struct Beyond<V> {
    pub(super) version: Arc<V>,
    /// What it takes to offer its value to the cache.
    pub(super) ticket: Option<Ticket>,
}

/// The present view. Who replaces it holds the structure mutex of the keyspace.
#[derive(Debug)]
pub(super) struct Present<V: Send + Sync + 'static> {
    slot: Slot<View<V>>,
    domain: Arc<Domain>,
}

impl<V: Send + Sync + 'static> Present<V> {
    /// Begins with a memtable and a version.
    pub(super) fn new(domain: &Arc<Domain>, memtable: Memtable, version: V) -> Present<V> {
        let view = View { memtables: vec![Member::new(memtable)], version: Arc::new(version) };
        Present { slot: Slot::new(domain, Some(Box::new(view))), domain: domain.clone() }
    }

    /// What keeps a view.
    pub(super) fn pin(&self) -> Pin<'_> {
        self.domain.pin()
    }

    /// The present view.
    ///
    /// # Panics
    /// If the pin is of another domain.
    #[inline]
    pub(super) fn load<'p>(&'p self, pin: &'p Pin<'_>) -> &'p View<V> {
        self.slot.load(pin).expect("there is always a view")
    }

    /// Looks for a key in memory: whether its newest record has a value, which is appended to `value`. What the cache
    /// in front of the version has is older than what memtables have (invariant 9 of decision 15).
    pub(super) fn search(
        &self,
        sought: Hashed<'_>,
        value: &mut Vec<u8>,
        front: Option<&dyn Front>,
    ) -> Result<bool, Beyond<V>> {
        let Some(front) = front else { return self.search_memtables(sought, value, None) };
        // Before the cache: what a flush takes out of them in between is newer than what the cache had till then.
        let in_memory = self.load(&self.pin()).find(sought, value);
        if let Some(answer) = in_memory {
            return Ok(answer == Answer::Value);
        }
        match front.look(sought.1, value) {
            Look::Found => Ok(true),
            // And behind the ticket, which is too young for what an older version has.
            Look::Missing(ticket) => self.search_memtables(sought, value, Some(ticket)),
        }
    }

    /// If no memtable has the key, the version of the same view: what is flushed in between would be in neither.
    fn search_memtables(
        &self,
        sought: Hashed<'_>,
        value: &mut Vec<u8>,
        ticket: Option<Ticket>,
    ) -> Result<bool, Beyond<V>> {
        let pin = self.pin();
        let view = self.load(&pin);
        let beyond = || Beyond { version: view.version.clone(), ticket };
        view.find(sought, value).map(|answer| answer == Answer::Value).ok_or_else(beyond)
    }

    /// A copy that keeps what it has.
    pub(super) fn get(&self) -> View<V> {
        self.load(&self.pin()).clone()
    }

    /// Puts a fresh memtable before the active one, which is sealed a grace later; `then` comes afterwards.
    pub(super) fn switch(&self, memtable: Memtable, then: impl FnOnce() + Send + 'static) {
        let mut next = self.get();
        let before = next.memtables[0].clone();
        next.memtables.insert(0, Member::new(memtable));
        self.publish(next, move || {
            before.sealed.store(true, Ordering::Release);
            then();
        });
    }

    /// Takes the oldest memtable out, whose records the version has.
    ///
    /// # Panics
    /// If it is not the oldest, not sealed, or the active one.
    pub(super) fn flushed(&self, oldest: &Arc<Member>, version: Arc<V>) {
        let View { mut memtables, .. } = self.get();
        let gone = memtables.pop().expect("a view has memtables");
        assert!(
            Arc::ptr_eq(&gone, oldest) && gone.is_sealed() && !memtables.is_empty(),
            "memtables are flushed from the oldest on"
        );
        self.publish(View { memtables, version }, || ());
    }

    /// Replaces the version by one that has the same records, or more that were never in a memtable.
    pub(super) fn installed(&self, version: Arc<V>) {
        let View { memtables, .. } = self.get();
        self.publish(View { memtables, version }, || ());
    }

    /// Waits until a memtable that was taken out has given its memory back.
    pub(super) fn wait_for_end(&self, member: &Weak<Member>) {
        while member.strong_count() > 0 {
            self.domain.drain();
            thread::yield_now();
        }
    }

    /// Waits until all memtables are sealed but the active one.
    pub(super) fn seal(&self) {
        while self.get().memtables[1..].iter().any(|member| !member.is_sealed()) {
            self.domain.drain();
            thread::yield_now();
        }
    }

    /// The oldest memtable, sealed, if it is not the active one.
    pub(super) fn oldest_sealed(&self) -> Option<Arc<Member>> {
        self.seal();
        self.get().memtables.split_off(1).pop()
    }

    /// Lets go of views that were replaced and that nobody looks at.
    pub(super) fn drain(&self) {
        self.domain.drain();
    }

    fn publish(&self, view: View<V>, then: impl FnOnce() + Send + 'static) {
        self.slot.swap(Some(Box::new(view)), move |before| {
            drop(before);
            then();
        });
    }
}
