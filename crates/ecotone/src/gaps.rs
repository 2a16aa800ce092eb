//! Gaps: ranges of an ordered keyspace that have no record, so that a scan which begins in one goes on behind it
//! (`docs/design/gaps.md`).
//!
//! A scan passes over deleted records that stand there until they are merged or written out. Where records are taken
//! off one end, as from a queue, each look at that end would pass over all that were ever taken. So a scan notes down
//! how far it went before it came to a record, and the next one jumps.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use ecotone_engines::engine::{Direction, Range};
use ecotone_substrate::bug;
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
};

/// Deleted records that a scan passes over before a gap is worth it. Next to a gap there need only be one.
const WORTH_A_GAP: u64 = if cfg!(feature = "shuttle") { 1 } else { 32 };
/// Gaps of a keyspace, and of all keyspaces of a database, and the bytes that their bounds have: 4 MiB in all.
const MOST: usize = 16;
const MOST_OF_ALL: usize = 8192;
const LONGEST_BOUND: usize = 256;
/// Inserts into a gap that no scan uses in between, after which it goes.
const MOST_CUTS: u8 = 8;
/// Writes and scans of a keyspace, none of which began in a gap, after which its gaps go, and writes need not look for
/// them any more.
const UNUSED: u32 = 1 << 16;

/// Nobody notes anything down.
const OFF: u8 = 0;
/// Inserts are noted down, but some may be under way that began before.
const TURNING_ON: u8 = 1;
/// All inserts that are under way are noted down.
const ON: u8 = 2;

/// The gaps of one keyspace.
#[derive(Debug)]
pub(crate) struct Gaps {
    mode: AtomicU8,
    state: Mutex<State>,
    places: Arc<Places>,
    learned: AtomicU64,
    passed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// By their first keys. They do not touch.
    gaps: BTreeMap<Vec<u8>, Gap>,
    scans: Vec<Scan>,
    /// Inserts that are under way.
    arrivals: Vec<(u64, Keys)>,
    /// Bulk loads that are under way.
    loads: usize,
    next: u64,
    /// Writes and scans since a gap was used.
    unused: u32,
}

/// A scan that is on its way to its first record, and what it may learn.
#[derive(Debug)]
struct Scan {
    number: u64,
    direction: Direction,
    span: Span,
}

#[derive(Debug)]
struct Gap {
    /// The first key behind it; none if there is no end.
    end: Option<Vec<u8>>,
    cuts: u8,
    /// When it was used last.
    used: u64,
    place: Place,
}

/// The keys from one on and below another, if there is another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    low: Vec<u8>,
    end: Option<Vec<u8>>,
}

/// Both belong to it.
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

    /// The part that lies before the first key of `keys`, and the part behind the last one. Either may be empty.
    fn without(&self, keys: &Keys) -> [Span; 2] {
        let before = Span { low: self.low.clone(), end: Some(keys.first.clone()) };
        [before, Span { low: behind(&keys.last), end: self.end.clone() }]
    }

    /// A part of it that has short bounds, if there is one.
    fn shortened(mut self) -> Option<Span> {
        self.end.iter_mut().for_each(|end| end.truncate(LONGEST_BOUND));
        Some(self).filter(|span| !span.is_empty() && span.low.len() <= LONGEST_BOUND)
    }

    /// Leaves what a scan from one end comes to before it comes to `keys`.
    fn cut(&mut self, direction: Direction, keys: &Keys) {
        if self.overlaps(keys) {
            let [before, behind] = self.without(keys);
            *self = if direction == Direction::Up { before } else { behind };
        }
    }
}

/// The smallest key above another.
fn behind(key: &[u8]) -> Vec<u8> {
    let mut behind = Vec::with_capacity(key.len() + 1);
    behind.extend_from_slice(key);
    behind.push(0);
    behind
}

/// Whether what ends there has a key at or above `key`, as far as its end goes.
fn goes_beyond(end: Option<&[u8]>, key: &[u8]) -> bool {
    end.is_none_or(|end| end > key)
}

/// How many gaps a database has.
#[derive(Debug, Default)]
pub(crate) struct Places(AtomicUsize);

/// One of them, until it is dropped.
#[derive(Debug)]
struct Place(Arc<Places>);

impl Places {
    fn take(self: &Arc<Self>) -> Option<Place> {
        let place = Place(self.clone());
        (self.0.fetch_add(1, Ordering::Relaxed) < MOST_OF_ALL).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A scan until it comes to its first record. Dropped before, it has learned nothing.
#[derive(Debug)]
pub(crate) struct First {
    gaps: Arc<Gaps>,
    /// Its number, if it may learn.
    scan: Option<u64>,
}

/// An insert that is under way, until it is dropped: behind its apply.
#[derive(Debug)]
pub(crate) struct Arrival<'g> {
    gaps: &'g Gaps,
    number: u64,
}

/// A bulk load that is under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Loading<'g>(&'g Gaps);

impl Gaps {
    pub(crate) fn new(places: Arc<Places>) -> Arc<Gaps> {
        let (mode, state) = (AtomicU8::new(OFF), Mutex::default());
        Arc::new(Gaps { mode, state, places, learned: AtomicU64::new(0), passed: AtomicU64::new(0) })
    }

    /// A scan begins from one end: the range in which it finds the same records as in this one.
    pub(crate) fn begin(self: &Arc<Self>, mut range: Range, direction: Direction) -> (Range, First) {
        let mut scan = None;
        // What was applied before this was switched on is seen from here on.
        if self.mode.load(Ordering::Acquire) == ON {
            let mut state = self.state.lock();
            let used = state.leave_gaps(&mut range, direction);
            self.count(&mut state, used);
            // It may have been switched off, and on again.
            if self.mode.load(Ordering::Acquire) == ON && state.loads == 0 {
                scan = Some(state.register(Span::of(&range), direction));
            }
        }
        (range, First { gaps: self.clone(), scan })
    }

    /// Whether it must be told of records that come. Asked by who holds their stripes.
    #[inline]
    pub(crate) fn are_noted(&self) -> bool {
        // What switches it on has had these stripes since, or will have them, and then waits until the records are
        // applied.
        self.mode.load(Ordering::Relaxed) != OFF
    }

    /// Records with these keys are about to be applied by who holds their stripes.
    pub(crate) fn arrive<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Option<Arrival<'_>> {
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
        Some(Arrival { gaps: self, number })
    }

    /// Records are about to be loaded, of which nobody tells the keys.
    pub(crate) fn load(&self) -> Loading<'_> {
        self.end_learning();
        Loading(self)
    }

    /// The keyspace is dropped: its scans are to find that out.
    pub(crate) fn retire(&self) {
        self.end_learning();
    }

    fn end_learning(&self) {
        let mut state = self.state.lock();
        state.loads += 1;
        state.forget();
    }

    /// Gaps that there are; how often one was learned or became longer; deleted records that scans passed over before
    /// their first one.
    pub(crate) fn stats(&self) -> [(&'static str, u64); 3] {
        let (learned, passed) = (self.learned.load(Ordering::Relaxed), self.passed.load(Ordering::Relaxed));
        [("gaps", self.state.lock().gaps.len() as u64), ("gaps_learned", learned), ("deletes_passed", passed)]
    }

    /// Counts a write or a scan; forgets everything if it was one too many without a use.
    fn count(&self, state: &mut State, used: bool) {
        state.unused = if used { 0 } else { state.unused.saturating_add(1) };
        if state.unused >= UNUSED && self.mode.load(Ordering::Relaxed) == ON {
            state.unused = 0;
            state.forget();
            self.mode.store(OFF, Ordering::Relaxed);
        }
    }

    /// Has all inserts be noted down from now on. `pass` waits for those that are under way.
    fn switch_on(&self, pass: impl FnOnce()) {
        if self.mode.compare_exchange(OFF, TURNING_ON, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            pass();
            self.mode.store(ON, Ordering::Release);
        }
    }
}

impl First {
    /// It has come to its first record, or there is none, after so many deleted ones. `pass` has each stripe for a
    /// moment.
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

impl Drop for First {
    fn drop(&mut self) {
        if let Some(number) = self.scan {
            self.gaps.state.lock().take_scan(number);
        }
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.gaps.state.lock().arrivals.retain(|(number, _)| *number != self.number);
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.state.lock().loads -= 1;
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Has the range begin, on the side of a scan, behind the gap in which it does. Whether it began in one.
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

    /// A scan begins that may learn what of the range has no record: not beyond what is under way.
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

    /// Knows no gap any more, and no scan that is under way learns one.
    fn forget(&mut self) {
        self.gaps.clear();
        self.scans.clear();
    }

    /// Takes keys out of the gaps.
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

    /// Has a range that has no record be a gap, together with those that it touches. One that touches none only if it
    /// is `worth` one. Whether it was done.
    fn add(&mut self, mut span: Span, worth: bool, places: &Arc<Places>) -> bool {
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

    /// Forgets those that were used longest ago, if there are too many.
    fn keep_few(&mut self) {
        while self.gaps.len() > MOST {
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

    /// What a scan finds, after so many deleted records.
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

    /// With one gap, from `b` to `m`.
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
        // One deleted record elsewhere is not worth a gap.
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
        for number in 0..2 * MOST {
            let low = format!("p{number:03}");
            scan(&gaps, range(&low, "z"), Direction::Up, Some(&format!("{low}5")), 99);
        }
        assert_eq!(all(&gaps).len(), MOST);
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
