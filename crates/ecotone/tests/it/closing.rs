//! A thread that waits for background work gets an error when the work cannot come any more: the database is closed,
//! the keyspace is dropped, or writing has stopped.

use std::{
    fmt,
    io::ErrorKind,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::Duration,
};

use ecotone::{
    Database, Engine, Error, HashKeyspace, HashKeyspaceOptions, Keyspace, KeyspaceOptions, Result,
    internal::{Components, engine::contract::Shared, hash::HashFamily, tree::TreeFamily},
    limits,
};
use ecotone_testkit::{
    sim::{SimClock, SimStorage},
    suite::ObservedFactory,
};

const MAX_WAIT: Duration = Duration::from_secs(60);
/// More writes than can succeed without background work.
const ENOUGH: u32 = 1_000_000;
/// Writes after which a writer counts as running.
const AT_WORK: u32 = 300;

/// A database with one keyspace of each kind, and their shared parts.
struct Fixture {
    disk: SimStorage,
    database: Database,
    shared: Arc<OnceLock<Shared>>,
}

impl Fixture {
    fn new(workers: usize) -> Fixture {
        let disk = SimStorage::new(7);
        let (tree, shared) = ObservedFactory::over(Arc::new(TreeFamily::default()));
        let families = vec![tree, Arc::new(HashFamily::tiny()) as _];
        let parts =
            Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers, families };
        let database = Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts).unwrap();
        let fixture = Fixture { disk, database, shared };
        Kind::ALL.iter().for_each(|kind| fixture.writer(*kind).write(0).unwrap());
        fixture
    }

    fn writer(&self, kind: Kind) -> Writer {
        let (name, database) = (kind.to_string(), &self.database);
        match kind {
            Kind::LoggedTree => {
                Writer::Tree(database.keyspace(&name, KeyspaceOptions::default().engine(Engine::Tree)).unwrap())
            }
            Kind::Tree => Writer::Tree(
                database.keyspace(&name, KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap(),
            ),
            Kind::LoggedHash => Writer::Hash(database.hash_keyspace(&name, HashKeyspaceOptions::default()).unwrap()),
            Kind::Hash => {
                Writer::Hash(database.hash_keyspace(&name, HashKeyspaceOptions::default().unlogged()).unwrap())
            }
        }
    }

    /// Stops all background work from now on.
    fn stop_the_background(&self) {
        self.shared.get().expect("there is a keyspace").scheduler.stop();
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    LoggedTree,
    Tree,
    LoggedHash,
    Hash,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::LoggedTree, Kind::Tree, Kind::LoggedHash, Kind::Hash];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

enum Writer {
    Tree(Keyspace),
    Hash(HashKeyspace),
}

impl Writer {
    fn write(&self, number: u32) -> Result<()> {
        let (key, value) = (number.to_be_bytes(), [number as u8; 900]);
        match self {
            Writer::Tree(keyspace) => keyspace.insert(key, value),
            Writer::Hash(keyspace) => keyspace.insert(key, value),
        }
    }

    /// Writes the same `keys` keys over and over until a write fails. Returns the error.
    fn refusal(&self, keys: u32, written: &AtomicU32) -> Option<Error> {
        (0..ENOUGH).find_map(|number| {
            let refusal = self.write(number % keys).err();
            written.fetch_add(1, Ordering::Relaxed);
            refusal
        })
    }
}

/// Work on a thread of its own, which must end in time.
struct Work<T> {
    what: String,
    ended: mpsc::Receiver<T>,
}

impl<T: Send + 'static> Work<T> {
    fn begin(what: impl fmt::Display, work: impl FnOnce() -> T + Send + 'static) -> Work<T> {
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || done.send(work()));
        Work { what: what.to_string(), ended }
    }

    fn end(self) -> T {
        self.ended
            .recv_timeout(MAX_WAIT)
            .unwrap_or_else(|error| panic!("{} waits for what never comes: {error}", self.what))
    }
}

/// A writer that runs until it gets an error.
fn writing(fixture: &Fixture, kind: Kind, keys: u32) -> (Work<Option<Error>>, Arc<AtomicU32>) {
    let (writer, written) = (fixture.writer(kind), Arc::new(AtomicU32::new(0)));
    let count = written.clone();
    (Work::begin(format!("{kind}, over {keys} keys,"), move || writer.refusal(keys, &count)), written)
}

/// Running writers on these kinds of keyspace.
fn all_writing(fixture: &Fixture, kinds: &[Kind]) -> Vec<Work<Option<Error>>> {
    let writers: Vec<_> = kinds.iter().map(|kind| writing(fixture, *kind, ENOUGH)).collect();
    for (_, written) in &writers {
        while written.load(Ordering::Relaxed) < AT_WORK {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    writers.into_iter().map(|(work, _)| work).collect()
}

#[test]
fn a_writer_that_comes_to_wait_when_the_background_has_ended_gets_an_error() {
    // Fresh records fill memory, or the disk share of the hot log. A few records, written again and again, fill the log
    // of the database.
    for (kind, keys) in [
        (Kind::Tree, ENOUGH),
        (Kind::LoggedTree, ENOUGH),
        (Kind::LoggedTree, 100),
        (Kind::Hash, ENOUGH),
        (Kind::LoggedHash, ENOUGH),
    ] {
        let fixture = Fixture::new(1);
        fixture.stop_the_background();
        let refusal = writing(&fixture, kind, keys).0.end();
        assert!(matches!(refusal, Some(Error::Closed { what: "the database" })), "{kind}: {refusal:?}");
        assert!(fixture.database.failure().is_none());
    }
}

#[test]
fn writers_beside_a_close_end() {
    let fixture = Fixture::new(2);
    let writers = all_writing(&fixture, &Kind::ALL);
    let database = fixture.database.clone();
    Work::begin("closing", move || database.close()).end().unwrap();
    for writer in writers {
        let (what, refusal) = (writer.what.clone(), writer.end());
        assert!(matches!(refusal, Some(Error::Closed { what: "the database" })), "{what}: {refusal:?}");
    }
    assert!(fixture.database.failure().is_none());
}

#[test]
fn writers_of_a_keyspace_that_is_dropped_end_and_others_go_on() {
    let fixture = Fixture::new(2);
    for kind in Kind::ALL {
        let writers = all_writing(&fixture, &[kind, kind]);
        let (database, name) = (fixture.database.clone(), kind.to_string());
        Work::begin("dropping", move || database.drop_keyspace(&name)).end().unwrap();
        for writer in writers {
            let refusal = writer.end();
            assert!(matches!(refusal, Some(Error::Closed { what: "the keyspace" })), "{kind}: {refusal:?}");
        }
        for kind in Kind::ALL {
            fixture.writer(kind).write(0).unwrap();
        }
    }
    let database = fixture.database;
    Work::begin("closing", move || database.close()).end().unwrap();
}

#[test]
fn a_flush_beside_a_drop_is_no_failure() {
    let fixture = Fixture::new(2);
    for round in 0..40 {
        Kind::ALL.iter().for_each(|kind| (0..20).for_each(|number| fixture.writer(*kind).write(number).unwrap()));
        let database = fixture.database.clone();
        let flush = Work::begin(format!("flush {round}"), move || database.flush());
        Kind::ALL.iter().for_each(|kind| fixture.database.drop_keyspace(&kind.to_string()).unwrap());
        flush.end().unwrap();
    }
    assert!(fixture.database.failure().is_none());
}

#[test]
fn writers_end_when_the_disk_fails() {
    for after in [10, 40, 100, 300] {
        let fixture = Fixture::new(2);
        // The disk stays broken: if only a read by one keyspace fails, the others go on.
        let first = fixture.disk.io_index() + after;
        (first..first + 10_000).for_each(|index| fixture.disk.fail_at(index, ErrorKind::Other));
        let writers: Vec<_> =
            [Kind::Hash, Kind::Tree].map(|kind| writing(&fixture, kind, ENOUGH).0).into_iter().collect();
        for writer in writers {
            let (what, refusal) = (writer.what.clone(), writer.end());
            assert!(matches!(refusal, Some(Error::Poisoned { .. } | Error::Io { .. })), "{what}: {refusal:?}");
        }
        let database = fixture.database;
        Work::begin("closing", move || database.close()).end().unwrap_err();
    }
}
