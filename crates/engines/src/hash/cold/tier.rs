//! The cold tier of a keyspace: its runs, to be looked at by all and replaced by one at a time (decision 10, invariant
//! 27).

use std::sync::Arc;

use ecotone_substrate::{Result, Seq};
use ecotone_sys::{
    epoch::{Domain, Pin, Slot},
    primitive::{Mutex, MutexGuard},
};

use super::{partition::Partition, punch::Punches, runs::Runs};

/// The runs of a keyspace, as they are now.
#[derive(Debug)]
pub struct Tier {
    domain: Arc<Domain>,
    runs: Slot<Arc<Runs>>,
    /// Held from the look at the runs of which others are made until these have taken their place.
    changing: Mutex<()>,
    /// Held by who adds a delta, and by who folds or merges.
    compacting: Mutex<()>,
    folding: Mutex<()>,
    punches: Mutex<Punches>,
}

impl Tier {
    /// With these runs.
    pub fn new(domain: &Arc<Domain>, runs: Runs) -> Tier {
        let runs = Slot::new(domain, Some(Box::new(Arc::new(runs))));
        let [changing, compacting, folding] = std::array::from_fn(|_| Mutex::new(()));
        Tier { domain: domain.clone(), runs, changing, compacting, folding, punches: Mutex::new(Punches::default()) }
    }

    /// The partition that has a hash. It stays as it is, with its files, as long as somebody has it.
    #[inline]
    pub fn partition(&self, hash: u64, pin: &Pin<'_>) -> Arc<Partition> {
        self.now(pin).partition(hash).clone()
    }

    /// All runs.
    pub fn runs(&self) -> Arc<Runs> {
        self.now(&self.domain.pin()).clone()
    }

    /// Keeps others from replacing the runs.
    pub fn change(&self) -> Changing<'_> {
        Changing { tier: self, _turn: self.changing.lock() }
    }

    /// Keeps others from adding deltas.
    pub fn compaction_turn(&self) -> MutexGuard<'_, ()> {
        self.compacting.lock()
    }

    /// Keeps others from folding and merging.
    pub fn fold_turn(&self) -> MutexGuard<'_, ()> {
        self.folding.lock()
    }

    /// A fold of a partition was published, and its record is this one: what deltas have of the partition is given back
    /// to the disk, later.
    pub fn folded(&self, partition: &Partition, record: Seq) {
        let blocks = self.runs().superseded(partition.stretch());
        self.punches.lock().push(&blocks, partition.readers(), record);
    }

    /// Gives back to the disk what nobody can read any more and folds have replaced whose records are synced.
    ///
    /// # Errors
    /// If a file cannot be changed.
    pub fn punch(&self, synced: impl Fn(Seq) -> bool) -> Result<()> {
        let ripe = self.punches.lock().take(synced);
        ripe.into_iter().try_for_each(|(run, blocks)| run.punch(blocks))
    }

    fn now<'p>(&'p self, pin: &'p Pin<'_>) -> &'p Arc<Runs> {
        self.runs.load(pin).expect("runs take the place of runs")
    }
}

/// The right to replace the runs.
pub struct Changing<'t> {
    tier: &'t Tier,
    _turn: MutexGuard<'t, ()>,
}

impl Changing<'_> {
    /// The runs, which nobody replaces meanwhile.
    pub fn runs(&self) -> Arc<Runs> {
        self.tier.runs()
    }

    /// Replaces the runs for all who look from now on.
    pub fn publish(&self, runs: Runs) {
        self.tier.runs.swap(Some(Box::new(Arc::new(runs))), drop);
    }
}
