//! The cold tier of a keyspace: its current runs, which readers load without a lock and one writer at a time replaces
//! (hash-protocol.md, invariant 27).

use std::sync::Arc;

use ecotone_substrate::{Result, Seq};
use ecotone_sys::{
    epoch::{Domain, Pin, Slot},
    primitive::{Mutex, MutexGuard},
};

use super::{partition::Partition, punch::PendingPunches, runs::Runs};

/// The current runs of a keyspace, and the locks of those that change them.
#[derive(Debug)]
pub struct Tier {
    domain: Arc<Domain>,
    runs: Slot<Arc<Runs>>,
    /// Held from reading the current runs until those derived from them are published.
    changing: Mutex<()>,
    /// `compacting` is held while a delta is added, `merging` while deltas are merged.
    compacting: Mutex<()>,
    merging: Mutex<()>,
    punches: Mutex<PendingPunches>,
}

impl Tier {
    /// A tier with these runs.
    pub fn new(domain: &Arc<Domain>, runs: Runs) -> Tier {
        let runs = Slot::new(domain, Some(Box::new(Arc::new(runs))));
        let [changing, compacting, merging] = std::array::from_fn(|_| Mutex::new(()));
        Tier {
            domain: domain.clone(),
            runs,
            changing,
            compacting,
            merging,
            punches: Mutex::new(PendingPunches::default()),
        }
    }

    /// The partition that has a hash. The returned version and its files stay as long as it is referenced.
    #[inline]
    pub fn partition(&self, hash: u64, pin: &Pin<'_>) -> Arc<Partition> {
        self.now(pin).partition(hash).clone()
    }

    /// All runs.
    pub fn runs(&self) -> Arc<Runs> {
        self.now(&self.domain.pin()).clone()
    }

    /// Locks the runs against replacement by other threads.
    pub fn change(&self) -> Changing<'_> {
        Changing { tier: self, _guard: self.changing.lock() }
    }

    /// Locks out other threads that add deltas.
    pub fn compaction_lock(&self) -> MutexGuard<'_, ()> {
        self.compacting.lock()
    }

    /// Locks out other threads that merge deltas.
    pub fn merge_lock(&self) -> MutexGuard<'_, ()> {
        self.merging.lock()
    }

    /// Registers the merge of a partition, which was published with this log record: the blocks of deltas that it
    /// supersedes are punched later.
    pub fn finish_merge(&self, partition: &Partition, record: Seq) {
        let blocks = self.runs().superseded(partition.hash_range());
        self.punches.lock().push(&blocks, partition.readers(), record);
    }

    /// Punches blocks that merges have superseded, if no reader needs them and the merges' records are synced.
    ///
    /// # Errors
    /// If a file cannot be changed.
    pub fn punch(&self, synced: impl Fn(Seq) -> bool) -> Result<()> {
        let due = self.punches.lock().take(synced);
        due.into_iter().try_for_each(|(run, blocks)| run.punch(blocks))
    }

    fn now<'p>(&'p self, pin: &'p Pin<'_>) -> &'p Arc<Runs> {
        self.runs.load(pin).expect("runs take the place of runs")
    }
}

/// The right to replace the runs.
pub struct Changing<'t> {
    tier: &'t Tier,
    _guard: MutexGuard<'t, ()>,
}

impl Changing<'_> {
    /// The runs, which no other thread replaces meanwhile.
    pub fn runs(&self) -> Arc<Runs> {
        self.tier.runs()
    }

    /// Replaces the runs for all later readers.
    pub fn publish(&self, runs: Runs) {
        self.tier.runs.swap(Some(Box::new(Arc::new(runs))), drop);
    }
}
