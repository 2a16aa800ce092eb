//! The records of a keyspace: how they are written and read (decision 11, "Reading"; decision 12, invariants 1 to 4).

use std::{array, sync::Arc};

use ecotone_substrate::{
    Error, Result, Seq,
    held::Kind,
    limits::MAX_LEVELS,
    metrics::{Counter, Histogram},
    single::Single,
};
use ecotone_sys::{chunk::Size, primitive::Mutex};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    absorb::Absorbing,
    base::{Around, Base},
    compact::{rounds::Rounds, whole::Wholes},
    divert::Leaving,
    family::Sizes,
    handle::Handle,
    idle::Use,
    install::Files,
    memtable::Memtable,
    pool::Pool,
    pressure::Pressure,
    room::{Credit, Room, size_of_next},
    shortage::Shortage,
    structure::Place,
    toll::Toll,
    version::Version,
    view::{Beyond, Hashed, Present},
    worked::Worked,
};
use crate::{engine::Operation, front::Front, idle::Idle, lengths::Lengths, turn::Turn};

/// What the records of one keyspace are in.
#[derive(Debug)]
pub(crate) struct Lsm {
    pub(super) present: Present<Version<Handle>>,
    pub(super) room: Arc<Room>,
    pub(super) pool: Arc<Pool>,
    pub(super) files: Arc<Files>,
    pub(super) around: Around,
    pub(super) sizes: Sizes,
    /// Held by the one that flushes, across its I/O. Who has waited for it looks again whether he needs it, and calls
    /// for the job when he gives it back: that only tries (decision 16, invariants 14 and 17).
    pub(super) flushing: Turn,
    /// Held by the one that compacts, or loads records in bulk, across its I/O, likewise. Taken before `flushing`.
    pub(super) compacting: Turn,
    pub(super) absorbing: Absorbing,
    /// Marked by the one that compacts, with the turn to flush; unmarked without.
    pub(super) leaving: Leaving,
    /// The job that flushes what waits, and the one that compacts what is due.
    pub(super) flush_job: Single,
    pub(super) compaction_job: Single,
    /// Full compactions, during which no runs become one.
    pub(super) wholes: Wholes,
    pub(super) toll: Toll,
    /// Changed by who compacts.
    pub(super) rounds: Mutex<Rounds>,
    /// Jobs of compaction that were done.
    pub(super) compactions: Counter,
    /// Slices of those that were done so for want of space.
    pub(super) slices: Counter,
    /// Parts of these.
    pub(super) parts: Counter,
    pub(super) absorption_parts: Counter,
    /// Memtables that became runs.
    pub(super) flushes: Counter,
    /// Records that flushes brought below the tables at once, and how often that was given up.
    pub(super) diverted: Counter,
    pub(super) diversions_given_up: Counter,
    /// Parts of covers in which all tables came to count again.
    pub(super) opened: Counter,
    /// Bytes of keys and values that were written to tables.
    pub(super) written: Counter,
    /// Bytes of pages and tables that were written to change what ranges are in.
    pub(super) adapted: Counter,
    /// How long parts of compaction and of absorptions had a processor.
    pub(super) worked: Arc<Worked>,
    /// How far scans went in the runs of level 0, and in each level by its depth.
    lengths: [Arc<Lengths>; MAX_LEVELS as usize + 1],
    /// Reads and stretches of scans that came to what is below the tables.
    pub(super) below: Counter,
    pub(super) pressure: Pressure,
    pub(super) shortage: Shortage,
    pub(super) idle: Idle<Use>,
    /// How long writers are held up.
    pub(super) delays: Histogram,
    seed: u64,
}

impl Lsm {
    /// Of a keyspace with these tables, whose memtables are some of the pool's.
    pub(super) fn new(
        files: &Arc<Files>,
        sizes: Sizes,
        pool: &Arc<Pool>,
        version: Version<Handle>,
        around: Around,
    ) -> Lsm {
        let present = Present::new(&files.context().shared.domain, Memtable::new(b""), version);
        Lsm {
            present,
            room: Arc::new(Room::new(pool)),
            pool: pool.clone(),
            files: files.clone(),
            around,
            sizes,
            flushing: Turn::of(Kind::FlushTurn),
            compacting: Turn::of(Kind::CompactionTurn),
            absorbing: Absorbing::default(),
            leaving: Leaving::default(),
            flush_job: Single::default(),
            compaction_job: Single::default(),
            wholes: Wholes::default(),
            toll: Toll::default(),
            rounds: Mutex::default(),
            compactions: Counter::default(),
            slices: Counter::default(),
            parts: Counter::default(),
            absorption_parts: Counter::default(),
            flushes: Counter::default(),
            diverted: Counter::default(),
            diversions_given_up: Counter::default(),
            opened: Counter::default(),
            written: Counter::default(),
            adapted: Counter::default(),
            worked: Worked::new(&files.context().shared.clock),
            lengths: array::from_fn(|_| Arc::new(Lengths::new(1))),
            below: Counter::default(),
            pressure: Pressure::default(),
            shortage: Shortage::default(),
            idle: Idle::default(),
            delays: Histogram::default(),
            seed: files.environment().database,
        }
    }

    /// How far scans went in a run or a level.
    pub(super) fn lengths_of(&self, place: Place) -> &Arc<Lengths> {
        match place {
            Place::Run(_) => &self.lengths[0],
            Place::Level(depth) => &self.lengths[usize::from(depth)],
        }
    }

    /// The cache in front of the tables.
    pub(super) fn front(&self) -> Option<&dyn Front> {
        self.around.front.as_deref()
    }

    /// What is below the tables.
    pub(super) fn base(&self) -> Option<&Arc<dyn Base>> {
        self.around.base.as_ref()
    }

    /// By this a key is found in filters and by shortcuts of memtables, where it has its height by it too.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    /// Words that the memtables which can be written have left.
    pub(super) fn free(&self) -> u64 {
        self.present.load(&self.present.pin()).unsealed().map(|memtable| memtable.free() as u64).sum()
    }

    /// The size of the slab that its memtables get next.
    fn size_of_next(&self) -> Size {
        size_of_next(self.memtable_bytes() + self.room.bytes())
    }

    /// Takes room for a write, after it has seen to it that there is a memtable for it.
    pub(super) fn admit(self: &Arc<Self>, Operation { key, value }: Operation<'_>) -> Result<Credit> {
        let words = Memtable::words(self.hash(key), key, value);
        loop {
            self.make_room()?;
            match self.room.admit(words, || self.size_of_next(), || self.free()) {
                Err(Error::Memory { .. }) if self.pool.give_memory()? => {}
                Err(Error::Memory { .. }) => {
                    return self.room.admit_at_last(words, || self.size_of_next(), || self.free());
                }
                admitted => return admitted,
            }
        }
    }

    /// The same for a record of the log. On a full disk nothing is flushed, and memtables take it as long as there is
    /// memory at all: an opening needs no space.
    pub(super) fn admit_logged(self: &Arc<Self>, operation: Operation<'_>) -> Result<Credit> {
        match self.admit(operation) {
            Err(error) if error.is_no_space() => {}
            admitted => return admitted,
        }
        if let (_, _, Some(full)) = self.fill_level() {
            self.switch(&full)?;
        }
        let words = Memtable::words(self.hash(operation.key), operation.key, operation.value);
        self.room.admit_at_last(words, || self.size_of_next(), || self.free())
    }

    /// Makes a write, on the credit that it was admitted with.
    pub(super) fn apply(&self, credit: Credit, seq: Seq, Operation { key, value }: Operation<'_>) {
        self.ledger().into_iter().for_each(|ledger| ledger.begin(key, value, seq));
        {
            let pin = self.present.pin();
            self.present.load(&pin).active().apply(self.hash(key), key, value, seq, &mut || self.room.take());
        }
        self.ledger().into_iter().for_each(|ledger| ledger.end(key, true));
        self.room.give_back(credit);
    }

    /// Makes a write in place, if the active memtable has a shortcut to the key and room for the value there.
    pub(super) fn overwrite(&self, seq: Seq, Operation { key, value }: Operation<'_>) -> bool {
        self.ledger().into_iter().for_each(|ledger| ledger.begin(key, value, seq));
        let is_done = self.present.load(&self.present.pin()).active().overwrite(self.hash(key), key, value, seq);
        self.ledger().into_iter().for_each(|ledger| ledger.end(key, is_done));
        is_done
    }

    /// The newest value of a key, in place of what `value` had. False, and an empty one, if there is none.
    #[inline]
    pub(super) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        match self.ledger() {
            Some(ledger) => self.find_judged(ledger, key, value),
            None => self.find(key, value),
        }
    }

    /// The same, where `value` is empty.
    pub(super) fn find(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let (sought, front) = ((self.hash(key), key), self.front());
        self.present.search(sought, value, front).or_else(|Beyond { version, ticket }| {
            let found = self.find_on_disk(&version, sought, value)?;
            if let (true, Some(front), Some(ticket)) = (found, front, ticket) {
                front.admit(key, value, ticket);
            }
            Ok(found)
        })
    }

    /// Looks for a key that no memtable has.
    fn find_on_disk(&self, version: &Version<Handle>, sought: Hashed<'_>, value: &mut Vec<u8>) -> Result<bool> {
        let (key, mut memory) = (sought.1, None);
        let find = |handle: &Handle, value: &mut Vec<u8>| handle.find(sought, &mut memory, value);
        version.search(key, value, find, |value| self.find_below(key, value))
    }

    /// Looks below the tables for a key that is covered.
    fn find_below(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(base) = self.base() else { return Ok(false) };
        self.below.increment();
        base.find(key, value)
    }

    /// Reads of blocks, also of tables that are gone.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn reads(&self) -> u64 {
        self.files.loader().heat.reads(&self.version())
    }

    /// Records that were written to the active memtable.
    pub(crate) fn written(&self) -> u64 {
        self.present.load(&self.present.pin()).active().writes()
    }

    /// The tables of now.
    pub(crate) fn version(&self) -> Arc<Version<Handle>> {
        self.present.load(&self.present.pin()).version.clone()
    }

    /// An error if the keyspace was dropped.
    #[inline]
    pub(super) fn check_live(&self) -> Result<()> {
        self.files.check_live()
    }
}
