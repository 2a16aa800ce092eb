//! Loom tests of a range that is converted to pages and back to tables: all orders of a few calls, within a number of
//! preemptions (adaptive-protocol.md, Q2 to Q4). There is one key, whose values rise.

use std::sync::Arc;

use ecotone_engine::{job_lock::JobLock, superseded::SupersededReports};
use ecotone_substrate::{
    Seq,
    lock_rank::LockRank,
    table::{Answer, FileRef},
};
use ecotone_sys::{
    chunk::{Arena, CHUNK_BYTES, Size},
    epoch::Domain,
    primitive::{
        Mutex,
        orders::{all_orders, spawn},
    },
    words::Words,
};

use crate::{
    manifest::{LevelId, LevelManifest, PagedRangeEdit, PagedRanges, RangeEditKind, RunId, VersionEdit},
    memtable::Memtable,
    pages::{
        converting_range::ConvertingRange,
        pending_frees::{KeySpan, PendingFrees},
    },
    version::{
        SortedRun, TableMeta, Version,
        super_version::{CurrentVersion, MemtableMiss},
    },
};

const KEY: &[u8] = b"k";

/// A table that has the key.
#[derive(Debug)]
struct Table {
    file: FileRef,
    value: u8,
}

impl TableMeta for Table {
    fn file(&self) -> FileRef {
        self.file
    }

    fn first(&self) -> &[u8] {
        KEY
    }

    fn last(&self) -> &[u8] {
        KEY
    }

    fn bytes(&self) -> u64 {
        1
    }

    fn records(&self) -> (u64, u64) {
        (1, 0)
    }

    fn fraction_in(&self, _range: (&[u8], &[u8])) -> f64 {
        1.0
    }

    fn false_positive_reads(&self) -> u64 {
        0
    }
}

/// The state under the structure mutex.
#[derive(Default)]
struct State {
    manifest: LevelManifest,
    pending_frees: PendingFrees<Version<Table>>,
    tables: u32,
}

struct Fixture {
    memory: Arc<Arena>,
    current: CurrentVersion<Version<Table>>,
    state: Mutex<State>,
    /// The value in the page tier.
    pages: Mutex<Option<u8>>,
    compaction_lock: JobLock,
    flush_lock: JobLock,
    converting: ConvertingRange,
}

fn span() -> KeySpan {
    (KEY.to_vec(), b"l".to_vec())
}

fn edit(kind: RangeEditKind) -> PagedRangeEdit {
    let (lower, upper) = span();
    PagedRangeEdit { lower, upper, kind }
}

impl Fixture {
    /// The key has value 1, in an L0 run.
    fn of_tables() -> Fixture {
        let fixture = Fixture {
            memory: Arena::new(CHUNK_BYTES),
            current: CurrentVersion::new(&Domain::new(), Memtable::new(b""), Version::empty()),
            state: Mutex::default(),
            pages: Mutex::default(),
            compaction_lock: JobLock::of(LockRank::CompactionLock),
            flush_lock: JobLock::of(LockRank::FlushLock),
            converting: ConvertingRange::default(),
        };
        fixture.write_and_flush(1);
        fixture
    }

    /// The key has value 1, in pages.
    fn of_pages() -> Fixture {
        let fixture = Fixture::of_tables();
        fixture.convert_to_pages();
        assert_eq!((fixture.read(), *fixture.pages.lock()), (1, Some(1)));
        fixture
    }

    fn write_and_flush(&self, value: u8) {
        {
            let ready = &mut || Words::new(self.memory.lease(Size::Frame, 0).expect("the model needs little"));
            let pin = self.current.pin();
            self.current.load(&pin).active().apply(
                1,
                KEY,
                Some(&[value]),
                Seq::from(value),
                ready,
                &SupersededReports::default(),
            );
        }
        {
            let _structure = self.state.lock();
            self.current.rotate(Memtable::new(b""), || ());
        }
        self.flush();
    }

    fn read(&self) -> u8 {
        let mut value = Vec::new();
        let found = self.current.search((1, KEY), &mut value, None);
        found.map_or_else(|MemtableMiss { version, .. }| self.stored(&version), |_| value[0])
    }

    /// The value in the tables of a version, or in the pages as they are now.
    fn stored(&self, version: &Version<Table>) -> u8 {
        let mut value = Vec::new();
        let in_table = |table: &Table, value: &mut Vec<u8>| {
            value.push(table.value);
            Ok(Some(Answer::Value))
        };
        let in_pages = |value: &mut Vec<u8>| {
            value.extend(*self.pages.lock());
            Ok(!value.is_empty())
        };
        assert!(version.search(KEY, &mut value, in_table, in_pages).unwrap(), "nothing is deleted");
        value[0]
    }

    /// As `ScanEnd`, which goes from an earlier key to this one. Its batch for the earlier key does not include this
    /// key, but its iterators have already read this key's stored value.
    fn scan(&self) -> u8 {
        let before = self.current.get().version;
        let (ahead, mut value) = (self.stored(&before), Vec::new());
        let (copied, version) = {
            let pin = self.current.pin();
            let super_version = self.current.load(&pin);
            (super_version.find((1, KEY), &mut value), super_version.version.clone())
        };
        match copied {
            Some(_) => value[0],
            None if Arc::ptr_eq(&before, &version) => ahead,
            None => self.stored(&version),
        }
    }

    /// A scan gives nothing older than a read before it, and nothing younger than a read behind it.
    fn scans(&self) {
        let seen = [self.read(), self.scan(), self.read()];
        assert!(seen.is_sorted(), "{seen:?}");
    }

    /// Two reads, of which the second gives nothing older.
    fn reads(&self) {
        let read = [self.read(), self.read()];
        assert!(read[0] <= read[1], "{read:?}");
    }

    fn table(&self, value: u8) -> Arc<Table> {
        let mut state = self.state.lock();
        state.tables += 1;
        Arc::new(Table { file: FileRef { number: state.tables, birth: 0 }, value })
    }

    /// As `VersionSet::change`, with a log that is always synced.
    fn change(&self, change: &VersionEdit, fresh: &[Arc<Table>], publish: impl FnOnce(Arc<Version<Table>>)) {
        let mut state = self.state.lock();
        let before = self.current.get().version;
        state.manifest.apply(change).unwrap();
        let version = before.after(&state.manifest, fresh).unwrap();
        let uncovered = change.paged_ranges.iter().filter(|edit| edit.kind == RangeEditKind::Remove);
        state.pending_frees.version_replaced(&before, 0, uncovered.map(|_| span()));
        publish(Arc::new(version));
    }

    /// As `Lsm::flush_oldest`: flushes into pages if the range is pages only, and it is not being converted.
    fn flush(&self) {
        let _guard = self.flush_lock.lock();
        let (oldest, mut value) = (self.current.oldest_immutable().expect("it was switched"), Vec::new());
        oldest.memtable.get(1, KEY, &mut value);
        let (converting, version) = self.converting.before(|| self.current.get().version);
        if converting.is_none() && version.paged_ranges().iter().any(|paged_range| version.is_pages_only(paged_range)) {
            *self.pages.lock() = Some(value[0]);
            self.change(&VersionEdit::default(), &[], |version| self.current.install_flushed(&oldest, version));
        } else {
            let table = self.table(value[0]);
            let run = RunId::L0(self.state.lock().manifest.next_ordinal());
            let change = VersionEdit { added: vec![(run, table.file)], ..VersionEdit::default() };
            self.change(&change, &[table], |version| self.current.install_flushed(&oldest, version));
        }
    }

    /// As `Lsm::convert_from`: does nothing if no table is visible, or if the pages wait to be freed.
    fn convert_to_pages(&self) {
        let _guard = self.compaction_lock.lock();
        let version = self.current.get().version;
        let visibility = version.visibility_at(KEY);
        let mut counting =
            version.sorted_runs(visibility).filter_map(SortedRun::tables).flat_map(|(_, run)| run.tables());
        let Some(newest) = counting.next().filter(|_| self.state.lock().pending_frees.ranges().next().is_none()) else {
            return;
        };
        let superseded_from = version.runs().next().map_or(RunId::Level(LevelId::FIRST), |(run_id, _)| run_id);
        let kind = if visibility.has_pages {
            RangeEditKind::Supersede(superseded_from)
        } else {
            RangeEditKind::Add(superseded_from)
        };
        let mut paged_ranges = PagedRanges::clone(version.paged_ranges());
        paged_ranges.apply(&[edit(kind)]).unwrap();
        *self.pages.lock() = Some(newest.value);
        let deleted = version.fully_superseded(&paged_ranges).map(|table| table.file).collect();
        let change = VersionEdit { deleted, paged_ranges: vec![edit(kind)], ..VersionEdit::default() };
        self.change(&change, &[], |version| self.current.install_version(version));
    }

    /// As `Lsm::convert_to_tables_from`, for a range that is empty in the last level.
    fn convert_to_tables(&self) {
        let _guard = self.compaction_lock.lock();
        self.converting.begin(&self.flush_lock, &span());
        let below = self.pages.lock().expect("it is paged");
        let table = self.table(below);
        let change = VersionEdit {
            added: vec![(RunId::LAST, table.file)],
            paged_ranges: vec![edit(RangeEditKind::Remove)],
            ..VersionEdit::default()
        };
        self.change(&change, &[table], |version| self.current.install_version(version));
        self.converting.end();
    }

    /// As `Lsm::free_converted_pages`.
    fn clear(&self) {
        let _guard = self.compaction_lock.lock();
        self.current.drain();
        let mut state = self.state.lock();
        if state.pending_frees.freeable(Seq::MAX).next().is_some() {
            *self.pages.lock() = None;
            state.pending_frees.freed(&span());
        }
    }
}

/// Q2: a reader runs beside a flush and conversions to pages. The test fails if a paged range is added before its pages
/// have the records, or if `superseded_from` rises to a run that was not converted.
#[test]
fn nothing_is_lost_or_older_beside_an_absorption() {
    all_orders(2, Fixture::of_tables, |fixture| {
        let reader = spawn(&fixture, Fixture::reads);
        let writer = spawn(&fixture, |fixture| fixture.write_and_flush(2));
        fixture.convert_to_pages();
        writer.join().unwrap();
        fixture.convert_to_pages();
        reader.join().unwrap();
        assert_eq!((fixture.read(), *fixture.pages.lock()), (2, Some(2)));
    });
}

/// Q2 with a scan. The test fails if the scan keeps its stored records although the version has changed, or if a flush
/// into pages keeps the old version.
#[test]
fn a_scan_passes_over_nothing_beside_an_absorption_and_a_flush() {
    for begin in [Fixture::of_tables, Fixture::of_pages] {
        all_orders(2, begin, |fixture| {
            let scanner = spawn(&fixture, Fixture::scans);
            let writer = spawn(&fixture, |fixture| fixture.write_and_flush(2));
            fixture.convert_to_pages();
            writer.join().unwrap();
            scanner.join().unwrap();
            assert_eq!(fixture.read(), 2);
        });
    }
}

/// Q3: a reader runs beside a range that is converted to tables, freed, and converted to pages again. The test fails if
/// pages are freed while a reader has an earlier version, or if the range is converted again before its pages are
/// freed.
#[test]
fn pages_stay_for_who_has_a_version_from_before_they_became_tables() {
    all_orders(2, Fixture::of_pages, |fixture| {
        let reader = spawn(&fixture, Fixture::reads);
        fixture.convert_to_tables();
        fixture.clear();
        fixture.write_and_flush(2);
        fixture.convert_to_pages();
        assert_eq!(fixture.read(), 2);
        reader.join().unwrap();
    });
}

/// Q4: a flush that decides whether it goes into pages runs beside a conversion of the range to tables. The test fails
/// if the converting mark is set without the flush lock, if the version is loaded before the mark is read, or if there
/// is no mark: values that come into pages after these were read are lost.
#[test]
fn what_is_flushed_into_pages_is_not_lost_beside_their_becoming_tables() {
    all_orders(2, Fixture::of_pages, |fixture| {
        let writer = spawn(&fixture, |fixture| fixture.write_and_flush(2));
        fixture.convert_to_tables();
        fixture.clear();
        writer.join().unwrap();
        assert_eq!(fixture.read(), 2);
        fixture.clear();
        assert_eq!((fixture.read(), *fixture.pages.lock()), (2, None));
    });
}

/// Q4 with a conversion to pages instead.
#[test]
fn what_is_flushed_into_pages_is_no_older_than_what_is_absorbed() {
    all_orders(2, Fixture::of_pages, |fixture| {
        let writer = spawn(&fixture, |fixture| {
            fixture.write_and_flush(2);
            fixture.write_and_flush(3);
        });
        fixture.convert_to_pages();
        fixture.convert_to_pages();
        writer.join().unwrap();
        fixture.convert_to_pages();
        assert_eq!((fixture.read(), *fixture.pages.lock()), (3, Some(3)));
    });
}
