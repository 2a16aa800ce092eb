//! Compares compaction by scan with compaction by lookup (H8). `ECOTONE_HASH_SCAN=1000000
//! ECOTONE_HASH_SCAN_DIR=/an/empty/directory cargo test --release -p ecotone-hash --lib compact::tests::scans
//! -- --nocapture` measures both on a disk, with a log of so many records.

use std::{env, path::Path, time::Instant};

use ecotone_substrate::{disk::Disk, storage::FileKind};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{model::write_and_evict, *};

/// One part in this many of the log is compacted at a time, as in the paper.
const PART: u64 = 10;
/// Bytes of a value.
const VALUE: usize = 100;

/// The cost of a compaction.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    nanoseconds: u64,
    reads: u64,
    read_bytes: u64,
    /// Memory for the live records, and for the table of a scan, when writing of the delta begins; without the buffers
    /// for reading and writing.
    memory: usize,
    records: u64,
}

/// Records the memory in use when the run is made.
struct Gauge<'w> {
    journal: &'w Journal,
    memory: Mutex<usize>,
}

impl Install for Gauge<'_> {
    fn name(&self) -> Result<FileIdentity> {
        *self.memory.lock().unwrap() = self.journal.environment.memory.used(&[Component::Frames]);
        self.journal.name()
    }

    fn is_logged(&self) -> bool {
        false
    }

    fn durable_floor(&self) -> Address {
        self.journal.durable_floor()
    }

    fn index_bits(&self) -> u8 {
        self.journal.index_bits()
    }

    fn sync_log(&self) -> Result<()> {
        self.journal.sync_log()
    }

    fn install(&self, change: &ManifestEdit, publish: &mut dyn FnMut()) -> Result<Seq> {
        self.journal.install(change, publish)
    }

    fn finish(&self, record: Seq) -> Result<()> {
        self.journal.finish(record)
    }

    fn is_synced(&self, record: Seq) -> bool {
        self.journal.is_synced(record)
    }
}

/// How the oldest part of a log is compacted.
#[derive(Debug, Clone, Copy)]
struct Way {
    compaction: Compaction,
    /// Number of steps.
    steps: u64,
    on_disk: bool,
}

/// Writes `count` records, of keys drawn from half as many, none of which is changed in place any more, and compacts
/// the oldest part of their log.
fn measure(way: Way, environment: Environment, disk: SimStorage, count: u64) -> Cost {
    let frames = (count * 132 / FRAME + 16) as usize;
    let sizes = Sizes { bucket_bits: (count / 8).ilog2(), frames: frames.next_power_of_two(), copies: 0 };
    let hash = Arc::new(Hash::new(&Domain::new(), &environment.memory, SEED, sizes).unwrap());
    let journal = Journal::new(&environment, true);
    let limits =
        CompactionLimits { compaction: way.compaction, ..CompactionLimits::within(environment.memory.budget() as u64) };
    let fixture = Fixture { disk, environment, hash, journal, limits };
    let (mut random, mut model) = (SmallRng::seed_from_u64(1), vec![None; (count / 2) as usize]);
    for number in 0..count {
        let key = random.random_range(0..count / 2);
        model[key as usize] = Some(number as u8);
        fixture.set(&key.to_le_bytes(), &[number as u8; VALUE]);
        if number.is_multiple_of(count / 32) {
            fixture.hash.chains.log.freeze(fixture.hash.chains.log.close_page());
        }
    }
    let end = fixture.hash.chains.log.close_page();
    fixture.hash.chains.log.freeze(end);
    if way.on_disk {
        write_and_evict(&fixture);
    }
    let cost = compact_part(&fixture, way, end);
    for (key, last) in model.into_iter().enumerate().step_by(7) {
        assert_eq!(fixture.value(&(key as u64).to_le_bytes()), last.map(|last| vec![last; VALUE]));
    }
    cost
}

fn compact_part(fixture: &Fixture, way: Way, end: Address) -> Cost {
    let gauge = Gauge { journal: &fixture.journal, memory: Mutex::default() };
    let compactor = Compactor { install: &gauge, ..fixture.compactor() };
    let counters = || fixture.environment.storage.counters_of(FileKind::Segment);
    let step = |number: u64| Address::new((end.get() * number / way.steps / PART).next_multiple_of(PAGE));
    let held = fixture.environment.memory.used(&[Component::Frames]);
    let mut cost = Cost::default();
    if way.compaction == Compaction::Scan {
        cost.memory = memory_of_scan(&compactor, step(1));
    }
    let before = counters();
    #[expect(clippy::disallowed_methods, reason = "it measures the machine")]
    let start = Instant::now();
    for until in (1..=way.steps).map(step) {
        while compactor.compact(until).unwrap() < until {}
        cost.memory = cost.memory.max(*gauge.memory.lock().unwrap() - held);
    }
    cost.nanoseconds = start.elapsed().as_nanos() as u64;
    let after = counters();
    (cost.reads, cost.read_bytes) = (after.reads - before.reads, after.read_bytes - before.read_bytes);
    cost.records = fixture.hash.cold.runs().deltas().runs().map(|run| run.records()).sum();
    cost
}

/// Memory of a scan before it asks the index.
fn memory_of_scan(compactor: &Compactor<'_>, until: Address) -> usize {
    let used = || compactor.environment.memory.used(&[Component::Frames]);
    let (held, bounds) = (used(), compactor.hash.chains.log.bounds());
    let _candidates =
        compactor.candidates(Region { from: bounds.begin(), until }, bounds.safe(), compactor.promised()).unwrap();
    used() - held
}

/// On a disk if there is a directory for it, else on a simulated one.
fn environment(number: usize, count: u64) -> (Environment, SimStorage) {
    let sim = SimStorage::new(1);
    let mut environment = sim.environment(SEED, (count as usize * 400).max(64 << 20));
    if let Some(directory) = env::var_os("ECOTONE_HASH_SCAN_DIR") {
        environment.storage = Arc::new(Disk::open(Path::new(&directory).join(number.to_string()), true).unwrap());
    }
    (environment, sim)
}

#[test]
fn lookup_reads_and_remembers_a_part_of_what_a_scan_does() {
    let count = env::var("ECOTONE_HASH_SCAN").map_or(160_000, |count| count.parse().expect("a number"));
    let (lookup, scan) = (Compaction::Lookup, Compaction::Scan);
    let ways = [(lookup, 1, false), (scan, 1, false), (lookup, 1, true), (lookup, 15, true), (scan, 1, true)]
        .map(|(compaction, steps, on_disk)| Way { compaction, steps, on_disk });
    let mut number = 0;
    let costs = ways.map(|way| {
        let (environment, sim) = environment(number, count);
        number += 1;
        let cost = measure(way, environment, sim, count);
        let Cost { nanoseconds, reads, read_bytes, memory, records } = cost;
        println!(
            "{way:?}: {nanoseconds} ns, {reads} reads of {read_bytes} bytes, {memory} bytes of memory, {records} \
            records"
        );
        cost
    });
    let [in_memory, scan_in_memory, on_disk, in_steps, scan_on_disk] = costs;
    assert_eq!((in_memory.reads, scan_in_memory.reads), (0, 0));
    assert!(in_memory.memory * 20 <= scan_in_memory.memory);
    assert_eq!(in_memory.records, scan_in_memory.records, "both know what lives");
    // Only a scan reads the newer records on disk.
    assert!(scan_on_disk.records == in_memory.records && on_disk.records > scan_on_disk.records);
    for lookup in [&on_disk, &in_steps] {
        assert!(lookup.read_bytes * (PART - 1) <= scan_on_disk.read_bytes && lookup.memory < scan_on_disk.memory);
    }
    assert!(in_steps.memory * 2 < on_disk.memory);
}
