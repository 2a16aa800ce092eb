//! Gaps: known ranges of an ordered keyspace that have no visible record. A scan that begins in a gap starts behind it
//! instead (`docs/design/gaps.md`).
//!
//! A scan passes over tombstones until they are merged or flushed. A queue takes its records off one end, so each scan
//! from that end would pass over the tombstones of all records ever taken. So a scan remembers the range that it
//! crossed before its first record, and the next scan skips that range.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use ecotone_engine::contract::{Direction, Range};
use ecotone_substrate::bug;
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    unless_shuttle,
};

/// Tombstones that a scan must pass over before a new gap is worth its memory. One is enough to extend a gap.
const WORTH_A_GAP: u64 = unless_shuttle(32, 1);
/// The most gaps of a keyspace and of a database, and the longest bound in bytes: 4 MiB in all.
const MAX_GAPS: usize = 16;
const MAX_GAPS_OF_DATABASE: usize = 8192;
const LONGEST_BOUND: usize = 256;
/// Inserts into a gap without a scan in between, after which the gap is dropped.
const MOST_CUTS: u8 = 8;
/// Writes and scans of a keyspace without a use of a gap, after which all gaps are dropped and tracking is switched
/// off.
const UNUSED: u32 = 1 << 16;

/// Inserts are not tracked.
const OFF: u8 = 0;
/// New inserts are tracked. Some untracked ones may still be under way.
const TURNING_ON: u8 = 1;
/// All inserts under way are tracked.
const ON: u8 = 2;

/// The gaps of one keyspace.
#[derive(Debug)]
pub(crate) struct Gaps {
    mode: AtomicU8,
    state: Mutex<State>,
    places: Arc<GapSlots>,
    learned: AtomicU64,
    passed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// By first key. Gaps do not touch each other.
    gaps: BTreeMap<Vec<u8>, Gap>,
    scans: Vec<Scan>,
    /// Inserts under way.
    arrivals: Vec<(u64, Keys)>,
    /// The number of bulk loads under way.
    loads: usize,
    next: u64,
    /// Writes and scans since a gap was last used.
    unused: u32,
}

/// A scan that has not reached its first record, and the range that it may still prove empty.
#[derive(Debug)]
struct Scan {
    number: u64,
    direction: Direction,
    span: Span,
}

#[derive(Debug)]
struct Gap {
    /// The first key behind the gap. `None`: the gap has no upper end.
    end: Option<Vec<u8>>,
    cuts: u8,
    /// The time of the last use, by the counter `State::next`.
    used: u64,
    place: GapSlot,
}

/// The keys from `low` to below `end`. `None`: no upper end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    low: Vec<u8>,
    end: Option<Vec<u8>>,
}

/// A key range with inclusive bounds.
#[derive(Debug, Clone)]
struct Keys {
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Keys {
    fn of(key: &[u8]) -> Keys {
        Keys { first: key.to_vec(), last: key.to_vec() }
    }
}

impl Span {
    fn of((low, high): &Range) -> Span {
        let low = match low {
            Bound::Included(key) => key.clone(),
            Bound::Excluded(key) => behind(key),
            Bound::Unbounded => Vec::new(),
        };
        let end = match high {
            Bound::Included(key) => Some(behind(key)),
            Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        Span { low, end }
    }

    fn is_empty(&self) -> bool {
        !goes_beyond(self.end.as_deref(), &self.low)
    }

    fn overlaps(&self, keys: &Keys) -> bool {
        self.low <= keys.last && goes_beyond(self.end.as_deref(), &keys.first)
    }

    /// The part before the first key of `keys`, and the part behind the last one. Either may be empty.
    fn without(&self, keys: &Keys) -> [Span; 2] {
        let before = Span { low: self.low.clone(), end: Some(keys.first.clone()) };
        [before, Span { low: behind(&keys.last), end: self.end.clone() }]
    }

    /// The span with a short end. `None` if nothing is left, or if its lower bound is too long.
    fn shortened(mut self) -> Option<Span> {
        self.end.iter_mut().for_each(|end| end.truncate(LONGEST_BOUND));
        Some(self).filter(|span| !span.is_empty() && span.low.len() <= LONGEST_BOUND)
    }

    /// Shortens the span to the part that a scan in `direction` crosses before it reaches `keys`.
    fn cut(&mut self, direction: Direction, keys: &Keys) {
        if self.overlaps(keys) {
            let [before, behind] = self.without(keys);
            *self = if direction == Direction::Up { before } else { behind };
        }
    }
}

/// The smallest key above `key`.
fn behind(key: &[u8]) -> Vec<u8> {
    let mut behind = Vec::with_capacity(key.len() + 1);
    behind.extend_from_slice(key);
    behind.push(0);
    behind
}

/// Whether a range with this end has a key at or above `key`.
fn goes_beyond(end: Option<&[u8]>, key: &[u8]) -> bool {
    end.is_none_or(|end| end > key)
}

/// The number of gaps in a database.
#[derive(Debug, Default)]
pub(crate) struct GapSlots(AtomicUsize);

/// The slot of one gap, counted until it is dropped.
#[derive(Debug)]
struct GapSlot(Arc<GapSlots>);

impl GapSlots {
    fn take(self: &Arc<Self>) -> Option<GapSlot> {
        let place = GapSlot(self.clone());
        (self.0.fetch_add(1, Ordering::Relaxed) < MAX_GAPS_OF_DATABASE).then_some(place)
    }
}

impl Drop for GapSlot {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A scan that has not reached its first record. Dropped earlier, it learns nothing.
#[derive(Debug)]
pub(crate) struct FirstRecordProbe {
    gaps: Arc<Gaps>,
    /// The scan's number, if it may learn a gap.
    scan: Option<u64>,
}

/// An insert under way. Dropped after the record is applied.
#[derive(Debug)]
pub(crate) struct InsertGuard<'g> {
    gaps: &'g Gaps,
    number: u64,
}

/// A bulk load under way.
#[derive(Debug)]
pub(crate) struct LoadGuard<'g>(&'g Gaps);

impl Gaps {
    pub(crate) fn new(places: Arc<GapSlots>) -> Arc<Gaps> {
        let (mode, state) = (AtomicU8::new(OFF), Mutex::default());
        Arc::new(Gaps { mode, state, places, learned: AtomicU64::new(0), passed: AtomicU64::new(0) })
    }

    /// Begins a scan. The result is a range with the same records, narrowed by a gap.
    pub(crate) fn begin(self: &Arc<Self>, mut range: Range, direction: Direction) -> (Range, FirstRecordProbe) {
        let mut scan = None;
        // Acquire: records that were applied before tracking was switched on are visible from here on.
        if self.mode.load(Ordering::Acquire) == ON {
            let mut state = self.state.lock();
            let used = state.leave_gaps(&mut range, direction);
            self.count(&mut state, used);
            // Tracking may have been switched off meanwhile, and on again.
            if self.mode.load(Ordering::Acquire) == ON && state.loads == 0 {
                scan = Some(state.register(Span::of(&range), direction));
            }
        }
        (range, FirstRecordProbe { gaps: self.clone(), scan })
    }

    /// Whether inserts must call [`arrive`](Self::arrive). The caller holds the stripes of the keys.
    #[inline]
    pub(crate) fn are_noted(&self) -> bool {
        // Relaxed: the thread that switches tracking on passes through every stripe afterwards. It has locked these
        // stripes since the load, or it will, and then it waits until the records are applied.
        self.mode.load(Ordering::Relaxed) != OFF
    }

    /// Registers an insert of these keys that is about to be applied. The caller holds the stripes of the keys.
    pub(crate) fn arrive<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Option<InsertGuard<'_>> {
        let mut state = self.state.lock();
        let mut all: Option<Keys> = None;
        for key in keys.map(Keys::of) {
            if !bug!(StaleGap) {
                state.cut(&key);
            }
            state.scans.iter_mut().for_each(|scan| scan.span.cut(scan.direction, &key));
            let Keys { first, last } = key;
            all = Some(match all.take() {
                Some(all) => Keys { first: all.first.min(first), last: all.last.max(last) },
                None => Keys { first, last },
            });
        }
        let number = state.number();
        state.arrivals.push((number, all?));
        self.count(&mut state, false);
        Some(InsertGuard { gaps: self, number })
    }

    /// Registers a bulk load, whose keys are not known in advance.
    pub(crate) fn load(&self) -> LoadGuard<'_> {
        self.end_learning();
        LoadGuard(self)
    }

    /// Forgets all gaps for good, since the keyspace is dropped. A scan must reach the engine to find that out.
    pub(crate) fn retire(&self) {
        self.end_learning();
    }

    fn end_learning(&self) {
        let mut state = self.state.lock();
        state.loads += 1;
        state.forget();
    }

    /// The number of gaps; how often a gap was learned or extended; tombstones that scans passed over before their
    /// first record.
    pub(crate) fn stats(&self) -> [(&'static str, u64); 3] {
        let (learned, passed) = (self.learned.load(Ordering::Relaxed), self.passed.load(Ordering::Relaxed));
        [("gaps", self.state.lock().gaps.len() as u64), ("gaps_learned", learned), ("deletes_passed", passed)]
    }

    /// Counts a write or a scan. Drops all gaps after [`UNUSED`] of them without a use.
    fn count(&self, state: &mut State, used: bool) {
        state.unused = if used { 0 } else { state.unused.saturating_add(1) };
        if state.unused >= UNUSED && self.mode.load(Ordering::Relaxed) == ON {
            state.unused = 0;
            state.forget();
            self.mode.store(OFF, Ordering::Relaxed);
        }
    }

    /// Switches tracking on. `pass` waits for the untracked inserts under way.
    fn switch_on(&self, pass: impl FnOnce()) {
        if self.mode.compare_exchange(OFF, TURNING_ON, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            pass();
            self.mode.store(ON, Ordering::Release);
        }
    }
}

impl FirstRecordProbe {
    /// The scan has reached its first record `key`, or the end, after `deletes` tombstones. `pass` locks each stripe
    /// for a moment.
    pub(crate) fn found(mut self, key: Option<&[u8]>, deletes: u64, pass: impl FnOnce()) {
        if deletes == 0 {
            return;
        }
        let gaps = &self.gaps;
        gaps.passed.fetch_add(deletes, Ordering::Relaxed);
        let Some(number) = self.scan.take() else {
            if deletes >= WORTH_A_GAP {
                gaps.switch_on(pass);
            }
            return;
        };
        let mut state = gaps.state.lock();
        let Some(Scan { direction, mut span, .. }) = state.take_scan(number) else { return };
        key.into_iter().for_each(|key| span.cut(direction, &Keys::of(key)));
        if span.shortened().is_some_and(|span| state.add(span, deletes >= WORTH_A_GAP, &gaps.places)) {
            gaps.learned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for FirstRecordProbe {
    fn drop(&mut self) {
        if let Some(number) = self.scan {
            self.gaps.state.lock().take_scan(number);
        }
    }
}

impl Drop for InsertGuard<'_> {
    fn drop(&mut self) {
        self.gaps.state.lock().arrivals.retain(|(number, _)| *number != self.number);
    }
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        self.0.state.lock().loads -= 1;
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Moves the start of the range behind the gap that it lies in. False if it lies in none.
    fn leave_gaps(&mut self, range: &mut Range, direction: Direction) -> bool {
        let span = Span::of(range);
        let found = match direction {
            Direction::Up => {
                self.gaps.range_mut::<[u8], _>((Bound::Unbounded, Bound::Included(&*span.low))).next_back()
            }
            Direction::Down => {
                let end = span.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                self.gaps.range_mut::<[u8], _>((Bound::Unbounded, end)).next_back()
            }
        };
        let Some((low, gap)) = found else { return false };
        let is_inside = match (direction, &span.end) {
            (Direction::Up, _) => goes_beyond(gap.end.as_deref(), &span.low),
            (Direction::Down, Some(end)) => gap.end.as_ref().is_none_or(|gap| gap >= end),
            (Direction::Down, None) => gap.end.is_none(),
        };
        if !is_inside {
            return false;
        }
        match (direction, &gap.end) {
            (Direction::Up, Some(end)) => range.0 = Bound::Included(end.clone()),
            (Direction::Up, None) => range.1 = Bound::Excluded(span.low),
            (Direction::Down, _) => range.1 = Bound::Excluded(low.clone()),
        }
        if Span::of(range).is_empty() {
            *range = (Bound::Included(Vec::new()), Bound::Excluded(Vec::new()));
        }
        self.next += 1;
        (gap.used, gap.cuts) = (self.next, 0);
        true
    }

    /// Registers a scan that may learn a gap. Inserts under way limit what it may learn.
    fn register(&mut self, mut span: Span, direction: Direction) -> u64 {
        if !bug!(UnwatchedGap) {
            self.arrivals.iter().for_each(|(_, keys)| span.cut(direction, keys));
        }
        let number = self.number();
        self.scans.push(Scan { number, direction, span });
        number
    }

    fn take_scan(&mut self, number: u64) -> Option<Scan> {
        let at = self.scans.iter().position(|scan| scan.number == number)?;
        Some(self.scans.swap_remove(at))
    }

    /// Drops all gaps. Scans under way learn none.
    fn forget(&mut self) {
        self.gaps.clear();
        self.scans.clear();
    }

    /// Takes inserted keys out of the gaps.
    fn cut(&mut self, keys: &Keys) {
        while let Some((low, Gap { end, cuts, used, place })) = self.remove_overlapping(keys) {
            if cuts + 1 >= MOST_CUTS {
                continue;
            }
            let another = place.0.take();
            let parts = Span { low, end }.without(keys).into_iter().filter_map(Span::shortened);
            for (Span { low, end }, place) in parts.zip([Some(place), another]) {
                let gap = place.map(|place| Gap { end, cuts: cuts + 1, used, place });
                gap.into_iter().for_each(|gap| _ = self.gaps.insert(low.clone(), gap));
            }
        }
        self.keep_few();
    }

    fn remove_overlapping(&mut self, keys: &Keys) -> Option<(Vec<u8>, Gap)> {
        let (low, gap) = self.gaps.range::<[u8], _>((Bound::Unbounded, Bound::Included(&*keys.last))).next_back()?;
        let low = goes_beyond(gap.end.as_deref(), &keys.first).then(|| low.clone())?;
        self.gaps.remove_entry(&low)
    }

    /// Adds an empty range as a gap, joined with the gaps that it touches. A range that touches none is added only if
    /// it is `worth` a gap. Returns whether it was added.
    fn add(&mut self, mut span: Span, worth: bool, places: &Arc<GapSlots>) -> bool {
        let mut place = None;
        while let Some((low, gap)) = self.remove_touching(&span) {
            span.low = span.low.min(low);
            span.end = span.end.zip(gap.end).map(|(one, other)| one.max(other));
            place = Some(gap.place);
        }
        let Some(place) = place.or_else(|| worth.then(|| places.take())?) else { return false };
        let used = self.number();
        self.gaps.insert(span.low, Gap { end: span.end, cuts: 0, used, place });
        self.keep_few();
        true
    }

    fn remove_touching(&mut self, span: &Span) -> Option<(Vec<u8>, Gap)> {
        let end = span.end.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let (low, gap) = self.gaps.range::<[u8], _>((Bound::Unbounded, end)).next_back()?;
        let touches = gap.end.as_ref().is_none_or(|end| *end >= span.low);
        let low = touches.then(|| low.clone())?;
        self.gaps.remove_entry(&low)
    }

    /// Drops the least recently used gaps if there are too many.
    fn keep_few(&mut self) {
        while self.gaps.len() > MAX_GAPS {
            let oldest = self.gaps.iter().min_by_key(|(_, gap)| gap.used).map(|(low, _)| low.clone());
            oldest.into_iter().for_each(|low| drop(self.gaps.remove(&low)));
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn bound(key: &str) -> Vec<u8> {
        key.as_bytes().to_vec()
    }

    fn range(low: &str, end: &str) -> Range {
        (Bound::Included(bound(low)), Bound::Excluded(bound(end)))
    }

    /// Runs a scan that finds `found` after `deletes` tombstones.
    fn scan(gaps: &Arc<Gaps>, within: Range, direction: Direction, found: Option<&str>, deletes: u64) -> Range {
        let (begins, first) = gaps.begin(within, direction);
        first.found(found.map(str::as_bytes), deletes, || ());
        begins
    }

    fn come(gaps: &Gaps, key: &str) {
        drop(gaps.are_noted().then(|| gaps.arrive([key.as_bytes()].into_iter())));
    }

    fn all(gaps: &Gaps) -> Vec<(String, Option<String>)> {
        let text = |key: &Vec<u8>| String::from_utf8_lossy(key).into_owned();
        gaps.state.lock().gaps.iter().map(|(low, gap)| (text(low), gap.end.as_ref().map(text))).collect()
    }

    fn gap(low: &str, end: &str) -> (String, Option<String>) {
        (low.into(), Some(end.into()))
    }

    /// Gaps with one gap, from `b` to `m`.
    fn learned() -> Arc<Gaps> {
        let gaps = Gaps::new(Arc::default());
        for _ in 0..2 {
            scan(&gaps, range("b", "z"), Direction::Up, Some("m"), WORTH_A_GAP);
        }
        assert_eq!(all(&gaps), [gap("b", "m")]);
        gaps
    }

    #[test]
    fn a_gap_is_left_from_either_end_and_grows() {
        let gaps = learned();
        assert_eq!(scan(&gaps, range("c", "z"), Direction::Up, Some("o"), 1), range("m", "z"));
        assert_eq!(all(&gaps), [gap("b", "o")]);
        assert_eq!(scan(&gaps, range("a", "o"), Direction::Down, Some("a"), 1), range("a", "b"));
        assert_eq!(all(&gaps), [gap("a\0", "o")]);
        assert_eq!(scan(&gaps, range("c", "d"), Direction::Up, None, 0), range("", ""));
        // One tombstone elsewhere is not worth a gap.
        scan(&gaps, range("x", "z"), Direction::Up, Some("y"), 1);
        assert_eq!(all(&gaps), [gap("a\0", "o")]);
    }

    #[test]
    fn a_record_cuts_and_what_is_cut_often_goes() {
        let gaps = learned();
        come(&gaps, "d");
        assert_eq!(all(&gaps), [gap("b", "d"), gap("d\0", "m")]);
        assert_eq!(scan(&gaps, range("c", "z"), Direction::Up, Some("d"), 0), range("d", "z"));
        ["e", "f", "g", "h", "i", "j", "k"].into_iter().for_each(|key| come(&gaps, key));
        assert_eq!(all(&gaps).last(), Some(&gap("i\0", "j")));
        assert!(all(&gaps).contains(&gap("b", "d")));
    }

    #[test]
    fn nothing_is_learned_beside_a_record_that_comes() {
        let gaps = learned();
        let arrival = gaps.arrive([&b"p"[..], b"r"].into_iter());
        scan(&gaps, range("m", "z"), Direction::Up, Some("s"), 1);
        assert_eq!(all(&gaps), [gap("b", "p")]);
        drop(arrival);
        let (_, first) = gaps.begin(range("p", "z"), Direction::Up);
        come(&gaps, "q");
        first.found(Some(b"s"), 1, || ());
        assert_eq!(all(&gaps), [gap("b", "q")]);
        let (_, first) = gaps.begin(range("q", "z"), Direction::Up);
        let loading = gaps.load();
        first.found(Some(b"s"), 99, || ());
        scan(&gaps, range("q", "z"), Direction::Up, Some("s"), 99);
        assert_eq!(all(&gaps), []);
        drop(loading);
        scan(&gaps, range("q", "z"), Direction::Up, Some("s"), 99);
        assert_eq!(all(&gaps), [gap("q", "s")]);
    }

    #[test]
    fn gaps_are_few_short_and_forgotten() {
        let gaps = learned();
        for number in 0..2 * MAX_GAPS {
            let low = format!("p{number:03}");
            scan(&gaps, range(&low, "z"), Direction::Up, Some(&format!("{low}5")), 99);
        }
        assert_eq!(all(&gaps).len(), MAX_GAPS);
        let long = "q".repeat(1000);
        scan(&gaps, range("q", "z"), Direction::Up, Some(&long), 99);
        assert!(all(&gaps).contains(&gap("q", &long[..LONGEST_BOUND])));
        scan(&gaps, range(&long, "z"), Direction::Up, Some("r"), 99);
        assert!(!all(&gaps).iter().any(|(low, _)| low.len() > LONGEST_BOUND));
        let (_, first) = gaps.begin(range("s", "z"), Direction::Up);
        (0..UNUSED).for_each(|_| come(&gaps, "z"));
        assert!(!gaps.are_noted() && all(&gaps).is_empty());
        first.found(Some(b"t"), 99, || ());
        assert!(all(&gaps).is_empty());
        assert_eq!(gaps.places.0.load(Ordering::Relaxed), 0);
    }
}
