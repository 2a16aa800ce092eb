//! The read checker: a test oracle. It records the writes to a keyspace, and builds for tests check all reads against
//! them (adaptive-protocol.md, "The read checker"). The product has none.
//!
//! What it does not check:
//! - earlier sessions: after an opening it knows only what is replayed and written since;
//! - bulk loads: it forgets their key range, and all unwritten keys become unknown;
//! - equal values: a record below the memtables counts as the newest write that it can be;
//! - batches: each operation is a write of its own;
//! - unreadable layers: an error ends the check.

mod cursor;
mod reads;

use std::{collections::BTreeMap, fmt, ops::Bound};

use ecotone_engine::remaining_range::{Direction, RemainingRange};
use ecotone_substrate::Seq;
use ecotone_sys::primitive::Mutex;
use xxhash_rust::xxh3::xxh3_64;

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Hash(u64),
    /// No record, or a tombstone.
    Nothing,
    /// Unknown: written before the checker began, or in bulk.
    Unknown,
}

/// A record that a read has met, with its sequence if it has one of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObservedRecord {
    content: Content,
    seq: Option<Seq>,
}

/// All visible records of a key at one moment.
#[derive(Debug, Default)]
pub(crate) struct ObservedLayers {
    /// Those of memtables and then of the record cache, from young to old.
    pub(crate) above: Vec<ObservedRecord>,
    /// Those of runs and levels, from young to old.
    pub(crate) tables: Vec<ObservedRecord>,
    /// That of the page tier: no newer than the newest of the tables, or than those above if there are none.
    pub(crate) below: Option<ObservedRecord>,
}

/// A moment between two finished writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogicalTime(u64);

/// A write of a key.
#[derive(Debug, Clone, Copy)]
struct RecordedWrite {
    content: Content,
    seq: Seq,
    /// The moment from which on all threads see the write.
    made: LogicalTime,
}

/// The writes of one keyspace since it was made or opened.
pub(crate) struct ReadChecker(Mutex<State>);

struct State {
    /// The writes of each key from old to new, after an entry that stands for all before.
    histories: BTreeMap<Vec<u8>, Vec<RecordedWrite>>,
    /// The content of keys that were not written yet.
    before: Content,
    now: LogicalTime,
    /// The end of replay: writes before it repeat earlier ones.
    replayed: LogicalTime,
    /// Whether values of earlier writes may be written again.
    repeats: bool,
}

impl Content {
    fn of(value: Option<&[u8]>) -> Content {
        value.map_or(Content::Nothing, |value| Content::Hash(xxh3_64(value)))
    }
}

impl ObservedRecord {
    pub(crate) fn new(value: Option<&[u8]>, seq: Option<Seq>) -> ObservedRecord {
        ObservedRecord { content: Content::of(value), seq }
    }
}

impl RecordedWrite {
    /// The entry for all writes before.
    fn first(content: Content) -> RecordedWrite {
        RecordedWrite { content, seq: 0, made: LogicalTime(0) }
    }

    /// Whether a record can come from this write.
    fn may_be(&self, met: &ObservedRecord) -> bool {
        self.content == Content::Unknown || self.is_of(met)
    }

    /// Whether a record has the content, and the sequence if any, of this write.
    fn is_of(&self, met: &ObservedRecord) -> bool {
        self.content == met.content && met.seq.is_none_or(|seq| seq == self.seq)
    }
}

impl ReadChecker {
    /// A checker for a keyspace that is empty, or whose content is unknown. `repeats` tells whether the same values are
    /// written again and again.
    pub(crate) fn new(is_empty: bool, repeats: bool) -> ReadChecker {
        let before = if is_empty { Content::Nothing } else { Content::Unknown };
        ReadChecker(Mutex::new(State {
            histories: BTreeMap::new(),
            before,
            now: LogicalTime(0),
            replayed: LogicalTime(0),
            repeats,
        }))
    }

    /// Replay has ended. Where it put records above newer ones of before, they are below these again.
    pub(crate) fn replayed(&self) {
        let mut state = self.0.lock();
        state.replayed = state.now;
    }

    /// A write begins; no thread can see it yet.
    pub(crate) fn begin(&self, key: &[u8], value: Option<&[u8]>, seq: Seq) {
        let mut state = self.0.lock();
        let first = RecordedWrite::first(state.before);
        let write = RecordedWrite { content: Content::of(value), seq, made: LogicalTime(u64::MAX) };
        state.histories.entry(key.to_vec()).or_insert_with(|| vec![first]).push(write);
    }

    /// The write of a key has ended; it was applied, or was not.
    pub(crate) fn end(&self, key: &[u8], is_made: bool) {
        let mut state = self.0.lock();
        state.now.0 += 1;
        let now = state.now;
        let Some(writes) = state.histories.get_mut(key) else { return };
        if is_made {
            writes.last_mut().expect("there is one for all before").made = now;
        } else {
            writes.pop();
        }
    }

    /// Forgets records between two keys, which are about to be loaded in bulk. Their content is unknown then, as is
    /// that of keys that were never written.
    pub(crate) fn forget(&self, first: &[u8], last: &[u8]) {
        let mut state = self.0.lock();
        state.before = Content::Unknown;
        state.histories.retain(|key, _| !(first..=last).contains(&key.as_slice()));
    }

    /// The current moment.
    pub(crate) fn now(&self) -> LogicalTime {
        self.0.lock().now
    }

    /// Checks the result of a read that began at a moment.
    ///
    /// # Panics
    /// If the result was not the newest at any time since then.
    pub(crate) fn check_read(&self, since: LogicalTime, key: &[u8], value: Option<&[u8]>) {
        let state = self.0.lock();
        let first = [RecordedWrite::first(state.before)];
        check(state.histories.get(key).map_or(&first, |writes| writes), since, key, value);
    }

    /// Checks a step of a scan that began at a moment: from one end of the remaining range to a record, or to the other
    /// end.
    ///
    /// # Panics
    /// If the record was not the newest of its key at any time since then, or one was passed over that was there all
    /// the time.
    pub(crate) fn check_scan_step(
        &self,
        since: LogicalTime,
        left: &RemainingRange,
        direction: Direction,
        record: Option<(&[u8], &[u8])>,
    ) {
        let mut between = RemainingRange::new((left.low.clone(), left.high.clone()));
        if let Some((key, value)) = record {
            self.check_read(since, key, Some(value));
            match direction {
                Direction::Up => between.high = Bound::Excluded(key.to_vec()),
                Direction::Down => between.low = Bound::Excluded(key.to_vec()),
            }
        }
        // A map panics at bounds that are empty.
        if !between.is_empty() {
            let range = (between.low.as_ref().map(Vec::as_slice), between.high.as_ref().map(Vec::as_slice));
            let state = self.0.lock();
            state.histories.range::<[u8], _>(range).for_each(|(key, writes)| check(writes, since, key, None));
        }
    }

    /// Whether the checker knows anything of a key.
    pub(crate) fn has_history(&self, key: &[u8]) -> bool {
        let state = self.0.lock();
        state.histories.contains_key(key) || state.before != Content::Unknown
    }

    /// Checks the order of all visible records of a key.
    ///
    /// # Panics
    /// If a lower record is newer than a higher one.
    pub(crate) fn check_order(&self, key: &[u8], layers: &ObservedLayers) {
        let state = self.0.lock();
        let first = [RecordedWrite::first(state.before)];
        let all = state.histories.get(key).map_or(&first[..], |writes| writes);
        let (newest, older) = layers.tables.split_at(layers.tables.len().min(1));
        let of_before =
            if state.repeats { all.len() } else { all.partition_point(|write| write.made <= state.replayed) };
        let new = &all[of_before..];
        let descend = |writes, records| descend(new, writes, records);
        let in_order = descend(all, &layers.above).and_then(|above| {
            let newest = descend(above, newest)?;
            descend(newest, older).and(descend(newest, layers.below.as_slice()))
        });
        assert!(
            in_order.is_some(),
            "the ledger has {all:?} of key {key:?}, whose records are out of order: {layers:?}"
        );
    }
}

impl fmt::Debug for ReadChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadChecker").finish_non_exhaustive()
    }
}

fn check(writes: &[RecordedWrite], since: LogicalTime, key: &[u8], value: Option<&[u8]>) {
    let newest = writes.iter().rposition(|write| write.made <= since).expect("the first is older than all moments");
    let met = ObservedRecord::new(value, None);
    let is_right = writes[newest..].iter().any(|write| write.may_be(&met));
    assert!(is_right, "the ledger has {writes:?} of key {key:?}, of which {met:?} was not the newest since {since:?}");
}

/// The writes from which older records can come, after these `records`, from young to old; `None` if the records are
/// out of order. Each record is matched with the newest write that it can come from. A record that equals a write in
/// `new`, with a value that no other write has, comes from that write.
fn descend<'w>(
    new: &[RecordedWrite],
    writes: &'w [RecordedWrite],
    records: &[ObservedRecord],
) -> Option<&'w [RecordedWrite]> {
    let newest = |writes: &'w [RecordedWrite], met: &ObservedRecord| {
        let is_new = met.content != Content::Nothing && new.iter().any(|write| write.is_of(met));
        let position = writes.iter().rposition(|write| if is_new { write.is_of(met) } else { write.may_be(met) });
        position.map(|at| &writes[..=at])
    };
    records.iter().try_fold(writes, newest)
}
