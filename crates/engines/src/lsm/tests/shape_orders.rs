//! All orders of a few calls over a range that becomes pages and tables again, within a number of preemptions, by loom
//! (decision 15, Q2 to Q4). One key is all that there is; its values rise.

use std::sync::Arc;

use ecotone_substrate::{
    Seq,
    held::Kind,
    limits::MAX_LEVELS,
    table::{Answer, File},
};
use ecotone_sys::{
    chunk::{Arena, CHUNK_BYTES, Size},
    epoch::Domain,
    primitive::Mutex,
    words::Words,
};

use crate::{
    lsm::{
        clearing::{Clearing, Span},
        divert::Leaving,
        lift::is_free,
        memtable::Memtable,
        structure::{Become, Change, CoverEdit, Covers, Place, Structure},
        version::{Ranged, Version},
        view::{Beyond, Present},
    },
    tests::orders::{all_orders, spawn},
    turn::Turn,
};

const KEY: &[u8] = b"k";

/// A table that has the key.
#[derive(Debug)]
struct Table {
    file: File,
    value: u8,
}

impl Ranged for Table {
    fn file(&self) -> File {
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

    fn share(&self, _range: (&[u8], &[u8])) -> f64 {
        1.0
    }

    fn reads_in_vain(&self) -> u64 {
        0
    }
}

/// What is under the structure mutex.
#[derive(Default)]
struct State {
    structure: Structure,
    clearing: Clearing<Version<Table>>,
    tables: u32,
}

struct World {
    memory: Arc<Arena>,
    present: Present<Version<Table>>,
    state: Mutex<State>,
    /// The value that pages have.
    pages: Mutex<Option<u8>>,
    compacting: Turn,
    flushing: Turn,
    leaving: Leaving,
}

fn span() -> Span {
    (KEY.to_vec(), b"l".to_vec())
}

fn edit(becomes: Become) -> CoverEdit {
    let (lower, upper) = span();
    CoverEdit { lower, upper, becomes }
}

impl World {
    /// The key has value 1, in a run.
    fn of_tables() -> World {
        let world = World {
            memory: Arena::new(CHUNK_BYTES),
            present: Present::new(&Domain::new(), Memtable::new(b""), Version::empty()),
            state: Mutex::default(),
            pages: Mutex::default(),
            compacting: Turn::of(Kind::CompactionTurn),
            flushing: Turn::of(Kind::FlushTurn),
            leaving: Leaving::default(),
        };
        world.write_and_flush(1);
        world
    }

    /// The same in pages.
    fn of_pages() -> World {
        let world = World::of_tables();
        world.absorb();
        assert_eq!((world.read(), *world.pages.lock()), (1, Some(1)));
        world
    }

    fn write_and_flush(&self, value: u8) {
        {
            let ready = &mut || Words::new(self.memory.lease(Size::Frame, 0).expect("the model needs little"));
            let pin = self.present.pin();
            self.present.load(&pin).active().apply(1, KEY, Some(&[value]), Seq::from(value), ready);
        }
        {
            let _structure = self.state.lock();
            self.present.switch(Memtable::new(b""), || ());
        }
        self.flush();
    }

    fn read(&self) -> u8 {
        let mut value = Vec::new();
        let found = self.present.search((1, KEY), &mut value, None);
        found.map_or_else(|Beyond { version, .. }| self.stored(&version), |_| value[0])
    }

    /// What tables of a version have, or pages as they are now.
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

    /// As `scan::End`, which goes from a key before this one to this one. With the first it copies nothing of this one,
    /// but has read ahead what is stored of it.
    fn scan(&self) -> u8 {
        let before = self.present.get().version;
        let (ahead, mut value) = (self.stored(&before), Vec::new());
        let (copied, version) = {
            let pin = self.present.pin();
            let view = self.present.load(&pin);
            (view.find((1, KEY), &mut value), view.version.clone())
        };
        match copied {
            Some(_) => value[0],
            None if Arc::ptr_eq(&before, &version) => ahead,
            None => self.stored(&version),
        }
    }

    /// A scan gives nothing older than a read before it, and nothing younger than one behind it.
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
        Arc::new(Table { file: File { number: state.tables, birth: 0 }, value })
    }

    /// As `Files::change`, with a log that is always synced.
    fn change(&self, change: &Change, fresh: &[Arc<Table>], publish: impl FnOnce(Arc<Version<Table>>)) {
        let mut state = self.state.lock();
        let before = self.present.get().version;
        state.structure.apply(change).unwrap();
        let version = before.after(&state.structure, fresh).unwrap();
        let uncovered = change.covers.iter().filter(|edit| edit.becomes == Become::Uncovered);
        state.clearing.replace(&before, 0, uncovered.map(|_| span()));
        publish(Arc::new(version));
    }

    /// As `Lsm::flush_oldest`: into pages if these are all that there is of the range, and it does not leave.
    fn flush(&self) {
        let _turn = self.flushing.lock();
        let (oldest, mut value) = (self.present.oldest_sealed().expect("it was switched"), Vec::new());
        oldest.memtable.get(1, KEY, &mut value);
        let (leaving, version) = self.leaving.before(|| self.present.get().version);
        if leaving.is_none() && version.covers().at(KEY).is_some_and(|cover| is_free(&version, cover)) {
            *self.pages.lock() = Some(value[0]);
            self.change(&Change::default(), &[], |version| self.present.flushed(&oldest, version));
        } else {
            let table = self.table(value[0]);
            let run = Place::Run(self.state.lock().structure.next_ordinal());
            let change = Change { comes: vec![(run, table.file)], ..Change::default() };
            self.change(&change, &[table], |version| self.present.flushed(&oldest, version));
        }
    }

    /// As `Lsm::absorb_from`: nothing where tables have nothing that counts, or pages are not cleared yet.
    fn absorb(&self) {
        let _turn = self.compacting.lock();
        let version = self.present.get().version;
        let cover = version.covers().at(KEY);
        let mut counting = version.counting_in(cover).flat_map(|(_, run)| run.tables());
        let Some(newest) = counting.next().filter(|_| self.state.lock().clearing.spans().next().is_none()) else {
            return;
        };
        let floor = version.runs().next().map_or(Place::Level(MAX_LEVELS), |(place, _)| place);
        let becomes = if cover.is_some() { Become::Raised(floor) } else { Become::Covered(floor) };
        let mut covers = Covers::clone(version.covers());
        covers.apply(&[edit(becomes)]).unwrap();
        *self.pages.lock() = Some(newest.value);
        let goes = version.spent(&covers).map(|table| table.file).collect();
        let change = Change { goes, covers: vec![edit(becomes)], ..Change::default() };
        self.change(&change, &[], |version| self.present.installed(version));
    }

    /// As `Lsm::uncover_from`, of a range of which the last level has nothing.
    fn uncover(&self) {
        let _turn = self.compacting.lock();
        self.leaving.begin(&self.flushing, &span());
        let below = self.pages.lock().expect("it is covered");
        let table = self.table(below);
        let change = Change {
            comes: vec![(Place::Level(1), table.file)],
            covers: vec![edit(Become::Uncovered)],
            ..Change::default()
        };
        self.change(&change, &[table], |version| self.present.installed(version));
        self.leaving.end();
    }

    /// As `Lsm::clear_uncovered`.
    fn clear(&self) {
        let _turn = self.compacting.lock();
        self.present.drain();
        let mut state = self.state.lock();
        if state.clearing.ripe(Seq::MAX).next().is_some() {
            *self.pages.lock() = None;
            state.clearing.end(&span());
        }
    }
}

/// Q2: a reader beside a flush and absorptions. It fails if a range is covered before its pages have the records, and
/// if a floor rises to a run that was not absorbed.
#[test]
fn nothing_is_lost_or_older_beside_an_absorption() {
    all_orders(2, World::of_tables, |world| {
        let reader = spawn(&world, World::reads);
        let writer = spawn(&world, |world| world.write_and_flush(2));
        world.absorb();
        writer.join().unwrap();
        world.absorb();
        reader.join().unwrap();
        assert_eq!((world.read(), *world.pages.lock()), (2, Some(2)));
    });
}

/// Q2 with a scan. It fails if that keeps what it has read ahead though the version is another one, and, where a flush
/// goes into pages, if this keeps the version.
#[test]
fn a_scan_passes_over_nothing_beside_an_absorption_and_a_flush() {
    for begin in [World::of_tables, World::of_pages] {
        all_orders(2, begin, |world| {
            let scanner = spawn(&world, World::scans);
            let writer = spawn(&world, |world| world.write_and_flush(2));
            world.absorb();
            writer.join().unwrap();
            scanner.join().unwrap();
            assert_eq!(world.read(), 2);
        });
    }
}

/// Q3: a reader beside a range that becomes tables, is cleared, and becomes pages again. It fails if pages are cleared
/// while somebody has a version from before, and if the range is covered again before it was cleared.
#[test]
fn pages_stay_for_who_has_a_version_from_before_they_became_tables() {
    all_orders(2, World::of_pages, |world| {
        let reader = spawn(&world, World::reads);
        world.uncover();
        world.clear();
        world.write_and_flush(2);
        world.absorb();
        assert_eq!(world.read(), 2);
        reader.join().unwrap();
    });
}

/// Q4: a flush that decides whether it goes into pages, beside a range that becomes tables. It fails if the mark is set
/// without the turn to flush, if the version is loaded before the mark is looked for, and if there is no mark: what
/// came into pages after they were read is lost.
#[test]
fn what_is_flushed_into_pages_is_not_lost_beside_their_becoming_tables() {
    all_orders(2, World::of_pages, |world| {
        let writer = spawn(&world, |world| world.write_and_flush(2));
        world.uncover();
        world.clear();
        writer.join().unwrap();
        assert_eq!(world.read(), 2);
        world.clear();
        assert_eq!((world.read(), *world.pages.lock()), (2, None));
    });
}

/// Q4 with an absorption in the place of that.
#[test]
fn what_is_flushed_into_pages_is_no_older_than_what_is_absorbed() {
    all_orders(2, World::of_pages, |world| {
        let writer = spawn(&world, |world| {
            world.write_and_flush(2);
            world.write_and_flush(3);
        });
        world.absorb();
        world.absorb();
        writer.join().unwrap();
        world.absorb();
        assert_eq!((world.read(), *world.pages.lock()), (3, Some(3)));
    });
}
