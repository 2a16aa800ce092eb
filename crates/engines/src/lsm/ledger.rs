//! What was written to a keyspace, by which builds for tests judge what is read (decision 15, "The ledger"). The
//! product has none.

use std::{collections::BTreeMap, fmt, ops::Bound};

use ecotone_substrate::Seq;
use ecotone_sys::primitive::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::rest::{Direction, Rest};

/// Whether this build can have one.
pub(super) const IS_BUILT: bool = cfg!(any(test, feature = "ledger"));

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Hash(u64),
    /// No record, or a tombstone.
    Nothing,
    /// It may be anything: it was written before the ledger began, or in bulk.
    Unknown,
}

/// A record that was met, with its sequence if it has one of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Met {
    content: Content,
    seq: Option<Seq>,
}

/// All that counts of a key at one moment.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// What memtables have, and then the record cache, from young to old.
    pub(super) above: Vec<Met>,
    /// What runs and levels have, from young to old.
    pub(super) tables: Vec<Met>,
    /// What is below them: no newer than the newest of them, or than what is above if there are none.
    pub(super) below: Option<Met>,
}

/// A moment between two writes that were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

/// A write of a key.
#[derive(Debug, Clone, Copy)]
struct Write {
    content: Content,
    seq: Seq,
    /// From when on everybody sees it.
    made: Moment,
}

/// The writes of one keyspace since it was made or opened.
pub(crate) struct Ledger(Mutex<State>);

struct State {
    /// The writes of each key from old to new, behind one that stands for all before.
    histories: BTreeMap<Vec<u8>, Vec<Write>>,
    /// What keys say that were not written yet.
    before: Content,
    now: Moment,
    /// Until when what was written before was written again.
    replayed: Moment,
    /// Whether values that were written before may be written once more.
    repeats: bool,
}

impl Content {
    fn of(value: Option<&[u8]>) -> Content {
        value.map_or(Content::Nothing, |value| Content::Hash(xxh3_64(value)))
    }
}

impl Met {
    pub(super) fn new(value: Option<&[u8]>, seq: Option<Seq>) -> Met {
        Met { content: Content::of(value), seq }
    }
}

impl Write {
    /// Stands for all before.
    fn first(content: Content) -> Write {
        Write { content, seq: 0, made: Moment(0) }
    }

    /// Whether a record can be of this write.
    fn may_be(&self, met: &Met) -> bool {
        self.content == Content::Unknown || self.is_of(met)
    }

    /// Whether a record is of a write as this one.
    fn is_of(&self, met: &Met) -> bool {
        self.content == met.content && met.seq.is_none_or(|seq| seq == self.seq)
    }
}

impl Ledger {
    /// Of a keyspace that is empty, or of which nothing is known yet, to which the same values are written again and
    /// again, or are not.
    pub(super) fn new(is_empty: bool, repeats: bool) -> Ledger {
        let before = if is_empty { Content::Nothing } else { Content::Unknown };
        Ledger(Mutex::new(State { histories: BTreeMap::new(), before, now: Moment(0), replayed: Moment(0), repeats }))
    }

    /// Everything was replayed. What that has put above newer records of before is below these again.
    pub(super) fn replayed(&self) {
        let mut state = self.0.lock();
        state.replayed = state.now;
    }

    /// A write is on its way; nobody can see it yet.
    pub(super) fn begin(&self, key: &[u8], value: Option<&[u8]>, seq: Seq) {
        let mut state = self.0.lock();
        let first = Write::first(state.before);
        let write = Write { content: Content::of(value), seq, made: Moment(u64::MAX) };
        state.histories.entry(key.to_vec()).or_insert_with(|| vec![first]).push(write);
    }

    /// The write of a key that is on its way was made, or was not.
    pub(super) fn end(&self, key: &[u8], is_made: bool) {
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

    /// Records between two keys are about to be loaded: nothing is known of them then, nor of keys that were never
    /// written.
    pub(super) fn forget(&self, first: &[u8], last: &[u8]) {
        let mut state = self.0.lock();
        state.before = Content::Unknown;
        state.histories.retain(|key, _| !(first..=last).contains(&key.as_slice()));
    }

    /// The present moment.
    pub(super) fn now(&self) -> Moment {
        self.0.lock().now
    }

    /// A read that began at a moment has given this.
    ///
    /// # Panics
    /// If it was not the newest at any time since then.
    pub(super) fn gave(&self, since: Moment, key: &[u8], value: Option<&[u8]>) {
        let state = self.0.lock();
        let first = [Write::first(state.before)];
        check(state.histories.get(key).map_or(&first, |writes| writes), since, key, value);
    }

    /// A scan that began at a moment has gone from one end of what was left to a record, or to the other end.
    ///
    /// # Panics
    /// If the record was not the newest of its key at any time since then, or one was passed over that was there all
    /// the time.
    pub(super) fn passed(&self, since: Moment, left: &Rest, direction: Direction, record: Option<(&[u8], &[u8])>) {
        let mut between = Rest::new((left.low.clone(), left.high.clone()));
        if let Some((key, value)) = record {
            self.gave(since, key, Some(value));
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

    /// Whether it knows anything of a key.
    pub(super) fn knows(&self, key: &[u8]) -> bool {
        let state = self.0.lock();
        state.histories.contains_key(key) || state.before != Content::Unknown
    }

    /// Judges all that counts of a key that it knows.
    ///
    /// # Panics
    /// If what lies below is newer than what lies above it.
    pub(super) fn judge(&self, key: &[u8], layers: &Layers) {
        let state = self.0.lock();
        let first = [Write::first(state.before)];
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

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

fn check(writes: &[Write], since: Moment, key: &[u8], value: Option<&[u8]>) {
    let newest = writes.iter().rposition(|write| write.made <= since).expect("the first is older than all moments");
    let met = Met::new(value, None);
    let is_right = writes[newest..].iter().any(|write| write.may_be(&met));
    assert!(is_right, "the ledger has {writes:?} of key {key:?}, of which {met:?} was not the newest since {since:?}");
}

/// The writes of which records can be that follow these, from young to old; none if they are out of order. Each is
/// taken for the newest that it can be of, and one that is of a write that is `new`, with a value that no other has, is
/// of no other.
fn descend<'w>(new: &[Write], writes: &'w [Write], records: &[Met]) -> Option<&'w [Write]> {
    let newest = |writes: &'w [Write], met: &Met| {
        let is_new = met.content != Content::Nothing && new.iter().any(|write| write.is_of(met));
        let position = writes.iter().rposition(|write| if is_new { write.is_of(met) } else { write.may_be(met) });
        position.map(|at| &writes[..=at])
    };
    records.iter().try_fold(writes, newest)
}
