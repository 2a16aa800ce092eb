//! What is written to segments, what of it is durable, and how a log goes on in its next life.

use std::{
    io,
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

use ecotone_substrate::{
    Error, Result,
    codec::hex::{golden, render},
    limits::SECTOR,
    storage::{FileId, FileKind, Storage},
    table::FileIdentity,
};
use ecotone_testkit::{
    sim::{Crash, SimStorage},
    table::BEGINNING,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{super::page::Stored, *};

const DATABASE: u64 = 7;
const MIB: u64 = 1 << 20;

/// A disk, and the segments that were made on it.
#[derive(Debug)]
pub(crate) struct LogDisk {
    pub(crate) disk: SimStorage,
    pub(crate) environment: Environment,
    made: AtomicU32,
}

impl LogDisk {
    pub(crate) fn new(disk: SimStorage) -> LogDisk {
        let environment = disk.environment(DATABASE, 32 << 20);
        LogDisk { disk, environment, made: AtomicU32::new(0) }
    }

    fn name(number: u32) -> FileIdentity {
        FileIdentity { database: DATABASE, keyspace: 3, number, birth: u64::from(number) + 40 }
    }

    pub(crate) fn next(&self, from: Address) -> Result<Arc<Segment>> {
        let number = self.made.load(Ordering::Relaxed);
        let segment = Segment::create(&self.environment, Self::name(number), from, MIB)?;
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(segment))
    }

    /// Opens what another disk had after a crash.
    fn open(&self, segments: &[Arc<Segment>]) -> Vec<Arc<Segment>> {
        let open = |segment: &Arc<Segment>| {
            Segment::open(&self.environment, segment.name(), segment.from(), MIB).map(Arc::new).unwrap()
        };
        segments.iter().map(open).collect()
    }
}

struct Fixture {
    log_disk: LogDisk,
    log: HotLog,
}

impl Fixture {
    fn new(disk: SimStorage, frames: usize) -> Fixture {
        let log = HotLog::new(&Domain::new(), Address::FIRST, frames);
        Fixture { log_disk: LogDisk::new(disk), log }
    }

    /// Appends records with these numbers, for which frames come; what is in the way is written and leaves memory.
    fn append(&self, numbers: Range<u64>) -> Vec<Address> {
        numbers.map(|number| self.append_one(number)).collect()
    }

    fn append_one(&self, number: u64) -> Address {
        loop {
            let pin = self.log.domain.pin();
            if let Some(raw) = self.log.allocate(&number.to_le_bytes(), Some(&[number as u8; 100]), &pin) {
                let address = raw.address();
                raw.made_known();
                return address;
            }
            drop(pin);
            let block = self.log_disk.environment.memory.lease(Component::HotLog, Size::Slab).unwrap();
            let oldest = self.log.bounds().head().frame_end();
            if let Err(block) = self.log.grow(block) {
                self.write_and_evict(oldest).unwrap();
                self.log.grow(block).unwrap();
            }
        }
    }

    fn write_and_evict(&self, until: Address) -> Result<()> {
        self.log.write_and_evict(&self.log_disk.environment, until, &mut |from| self.log_disk.next(from))
    }

    /// All that has been appended is written, and durable if `sync` says so.
    fn flush(&self, sync: bool) -> Result<Address> {
        let end = self.log.close_page();
        self.log.freeze(end);
        self.log.write_out(&self.log_disk.environment, end, &mut |from| self.log_disk.next(from))?;
        if sync { self.log.sync(&self.log_disk.environment).map(|()| end) } else { Ok(end) }
    }

    /// The number at an address, modulo 256, wherever it is.
    fn read(&self, address: Address) -> Result<u64> {
        {
            let pin = self.log.domain.pin();
            if let Some(record) = self.log.record(address, &pin) {
                let mut value = Vec::new();
                record.read(&mut value);
                return Ok(u64::from(value[0]));
            }
        }
        read_page(&self.log_disk.environment, &*self.log.segment(address)?, address.page())?
            .iter()
            .find(|(at, _)| *at == address)
            .map(|(_, number)| number % 256)
            .ok_or_else(|| Error::Invalid("there is no such record".into()))
    }
}

/// The records of a page: address and number.
fn read_page(environment: &Environment, segment: &Segment, page: Address) -> Result<Vec<(Address, u64)>> {
    let mut block = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
    segment.file().read(&mut block, segment.offset(page))?;
    let parsed = segment.parse(page, &block)?;
    let number = |record: Stored<'_>| {
        let number = u64::from_le_bytes(record.key.try_into().unwrap());
        assert_eq!((record.kind, record.value), (HeaderKind::Value, &[number as u8; 100][..]));
        number
    };
    let records = parsed.records().map(|record| record.map(|(address, record)| (address, number(record))));
    records.collect::<std::result::Result<_, _>>().map_err(|e| segment.damaged(page, e))
}

#[test]
fn what_leaves_memory_is_in_segments_that_follow_each_other() {
    let fixture = Fixture::new(SimStorage::new(1), 4);
    let addresses = fixture.append(0..20_000);
    assert!(
        fixture.log.bounds().head() > Address::new(2 * MIB)
            && fixture.log.bounds().flushed() >= fixture.log.bounds().head()
    );
    let segments = fixture.log.segments();
    assert!(segments.len() == 3 && segments.windows(2).all(|pair| pair[0].end() == pair[1].from()));
    for (number, address) in (0..).zip(&addresses) {
        assert_eq!(fixture.read(*address).unwrap(), number % 256);
    }
    // A window is a frame, or what of it lies in one segment; nothing is written twice.
    let counters = fixture.log_disk.disk.counters_of(FileKind::Segment);
    let frames = fixture.log.bounds().flushed().get().div_ceil(FRAME);
    assert!(counters.writes <= frames + 2 * segments.len() as u64, "{counters:?} for {frames} frames");
    let written = fixture.log.bounds().flushed().get() - PAGE;
    assert_eq!(counters.write_bytes, written + segments.len() as u64 * PAGE);
    assert_eq!(fixture.log.bounds().durable(), Address::FIRST, "nobody has synced it");
    fixture.log.sync(&fixture.log_disk.environment).unwrap();
    assert_eq!(fixture.log.bounds().durable(), fixture.log.bounds().flushed());
}

#[test]
fn what_left_the_log_unwritten_is_never_written() {
    let fixture = Fixture::new(SimStorage::new(1), 64);
    fixture.append(0..12_000);
    let end = fixture.log.close_page();
    fixture.log.freeze(end);
    let middle = Address::new(MIB + 5 * PAGE);
    assert!(fixture.log.truncate(middle, drop).is_empty());
    assert_eq!(
        [fixture.log.bounds().flushed(), fixture.log.bounds().durable(), fixture.log.bounds().head()],
        [middle; 3]
    );
    fixture.flush(true).unwrap();
    let segments = fixture.log.segments();
    assert_eq!(segments.iter().map(|segment| segment.from()).collect::<Vec<_>>(), [middle]);
    let gone = fixture.log.truncate(fixture.log.bounds().flushed(), drop);
    assert!(gone.is_empty(), "its end is above");
    assert_eq!(fixture.log_disk.disk.counters_of(FileKind::Segment).write_bytes, end.get() - middle.get() + PAGE);
    fixture.append(12_000..30_000);
    fixture.flush(true).unwrap();
    let gone = fixture.log.truncate(Address::new(middle.get() + MIB), drop);
    assert_eq!(gone.iter().map(|segment| segment.from()).collect::<Vec<_>>(), [middle]);
}

/// Every page below DURABLE is there after whatever crash, whole; of those above each sector may be there or not, and
/// no page passes for another.
#[test]
fn trap_06_torn_pages_are_told_and_none_is_below_durable() {
    let fixture = Fixture::new(SimStorage::new(2), 64);
    fixture.append(0..5_000);
    let durable = fixture.flush(true).unwrap();
    fixture.append(5_000..9_000);
    let end = fixture.flush(false).unwrap();
    assert_eq!((fixture.log.bounds().durable(), fixture.log.bounds().flushed()), (durable, end));
    let segments = fixture.log.segments();
    let expected = |page: Address| {
        let segment = segments.iter().find(|segment| segment.end() > page).unwrap();
        read_page(&fixture.log_disk.environment, segment, page).unwrap()
    };
    let (mut torn, mut whole) = (0, 0);
    for how in [Crash::KeepAll, Crash::DropAll].into_iter().chain((0..40).map(Crash::Random)) {
        let next = LogDisk::new(fixture.log_disk.disk.crash(how));
        for segment in next.open(&segments) {
            let until = segment.end().min(end);
            for page in (segment.from().get()..until.get()).step_by(PAGE as usize).map(Address::new) {
                match read_page(&next.environment, &segment, page) {
                    Ok(records) => assert_eq!(records, expected(page)),
                    Err(error) => assert!(error.is_corruption() && page >= durable, "{page:?}: {error}"),
                }
                let found = read_page(&next.environment, &segment, page).is_ok();
                (torn, whole) = (torn + u64::from(!found), whole + u64::from(found && page >= durable));
            }
        }
    }
    assert!(torn > 100 && whole > 100, "{torn} torn, {whole} whole");
}

#[test]
fn trap_06_every_sector_of_a_page_counts() {
    let fixture = Fixture::new(SimStorage::new(2), 4);
    fixture.append(0..300);
    let end = fixture.flush(true).unwrap();
    let segment = &fixture.log.segments()[0];
    let last = Address::new(end.get() - PAGE);
    let at = segment.offset(last);
    let FileId::Segment { .. } = segment.id() else { panic!("it is a segment") };
    let file = segment.id();
    let bytes = fixture.log_disk.disk.files()[&file][at as usize..][..PAGE as usize].to_vec();
    for sector in 0..PAGE / SECTOR as u64 {
        let part = &bytes[sector as usize * SECTOR..][..SECTOR];
        for other in [
            vec![0; SECTOR],
            fixture.log_disk.disk.files()[&file][(at - PAGE + sector * SECTOR as u64) as usize..][..SECTOR].to_vec(),
        ] {
            fixture.log_disk.disk.patch(file, at + sector * SECTOR as u64, &other);
            let read = read_page(&fixture.log_disk.environment, segment, last);
            assert_eq!(read.is_err(), other != part, "sector {sector}");
            fixture.log_disk.disk.patch(file, at + sector * SECTOR as u64, part);
        }
    }
    read_page(&fixture.log_disk.environment, segment, last).unwrap();
}

#[test]
fn a_log_goes_on_in_the_frame_where_it_ended() {
    let mut random = SmallRng::seed_from_u64(3);
    let fixture = Fixture::new(SimStorage::new(3), 8);
    let mut addresses = fixture.append(0..7_321);
    let durable = fixture.flush(true).unwrap();
    assert!(!durable.get().is_multiple_of(FRAME), "it ends within a frame");
    fixture.append(7_321..7_500);
    let log_disk = LogDisk::new(fixture.log_disk.disk.crash(Crash::DropAll));
    let segments = log_disk.open(&fixture.log.segments());
    log_disk.made.store(segments.len() as u32, Ordering::Relaxed);
    let log = HotLog::reopen(&Domain::new(), (Address::FIRST, durable), segments, 8);
    let block = log_disk.environment.memory.lease(Component::HotLog, Size::Slab).unwrap();
    log.resume(&log_disk.environment, block).unwrap();
    let fixture = Fixture { log_disk, log };
    assert_eq!((fixture.log.tail(), fixture.log.bounds().head()), (durable, Address::of_frame(durable.frame())));
    addresses.extend(fixture.append(7_321..20_000));
    assert_eq!(addresses[7_321], durable.plus(PAGE_HEADER));
    for _ in 0..2_000 {
        let number = random.random_range(0..addresses.len());
        assert_eq!(fixture.read(addresses[number]).unwrap(), number as u64 % 256);
    }
    fixture.flush(true).unwrap();
    let environment = &fixture.log_disk.environment;
    let all = fixture.log.segments().into_iter().flat_map(|segment| {
        let until = segment.end().min(fixture.log.bounds().durable()).get();
        let pages: Vec<_> = (segment.from().get()..until).step_by(PAGE as usize).map(Address::new).collect();
        pages.into_iter().flat_map(move |page| read_page(environment, &segment, page).unwrap()).collect::<Vec<_>>()
    });
    let all: Vec<_> = all.collect();
    assert_eq!(all, addresses.into_iter().zip(0..20_000).collect::<Vec<_>>());
}

#[test]
fn a_full_disk_stops_the_writing_where_it_is_and_harms_nothing() {
    let fixture = Fixture::new(SimStorage::new(1), 64);
    let addresses = fixture.append(0..24_000);
    let end = fixture.log.close_page();
    fixture.log.freeze(end);
    fixture.log_disk.disk.space_limit(2 * (MIB + PAGE) + 1);
    let write = || fixture.log.write_out(&fixture.log_disk.environment, end, &mut |from| fixture.log_disk.next(from));
    for _ in 0..2 {
        assert!(write().unwrap_err().is_no_space());
        assert_eq!(fixture.log.bounds().flushed(), Address::FIRST.plus(2 * MIB), "two segments are full");
        assert_eq!(
            (fixture.log.segments().len(), fixture.log_disk.disk.files().len()),
            (2, 2),
            "the third left no file"
        );
    }
    fixture.log.evict(fixture.log.bounds().flushed(), drop);
    assert!(fixture.log_disk.environment.health.check().is_ok());
    addresses.iter().zip(0..).for_each(|(address, number)| assert_eq!(fixture.read(*address).unwrap(), number % 256));
    fixture.log_disk.disk.space_limit(u64::MAX);
    write().unwrap();
    assert_eq!(fixture.log.bounds().flushed(), end);
}

/// A write or sync that fails stops all writing, and neither FLUSHED nor DURABLE rises because of one that comes later.
#[test]
fn every_failed_write_or_sync_stops_the_writing() {
    let run = |failing: Option<u64>| {
        let fixture = Fixture::new(SimStorage::new(5), 64);
        failing.into_iter().for_each(|index| fixture.log_disk.disk.fail_at(index, io::ErrorKind::Other));
        fixture.append(0..12_000);
        let done = fixture.flush(true);
        (fixture, done)
    };
    let count = run(None).0.log_disk.disk.io_index();
    assert!(count > 25, "{count}");
    for index in 0..count {
        let (fixture, done) = run(Some(index));
        assert!(done.is_err(), "I/O {index}");
        let (label, bounds) = (format!("{:?}", fixture.log_disk.disk.labels()[index as usize]), fixture.log.bounds());
        let harmless = label.contains("Create") || label.contains("Preallocate");
        assert_eq!(fixture.log_disk.environment.health.check().is_ok(), harmless, "{label}");
        let again = fixture.flush(true);
        assert_eq!(again.is_ok(), harmless, "{label}");
        if !harmless {
            assert_eq!(bounds.durable(), Address::FIRST, "{label}");
            assert!(
                (label.contains("Hot") && label.contains("Sync")) || bounds.flushed() <= Address::new(MIB + PAGE),
                "{label}"
            );
        }
    }
}

#[test]
fn the_bytes_of_a_segment() {
    let log_disk = LogDisk::new(SimStorage::new(1));
    let segment = log_disk.next(Address::new(5 * PAGE)).unwrap();
    let mut labels = BEGINNING.to_vec();
    labels.extend([
        (8, "address of the first byte"),
        (8, "bytes of log"),
        (PAGE as usize - 80, "reserved"),
        (MIB as usize, "pages"),
    ]);
    golden("hash-segment", &render(&log_disk.disk.files()[&segment.id()], &labels));
}

#[test]
fn a_segment_is_known_by_its_header() {
    let log_disk = LogDisk::new(SimStorage::new(1));
    let segment = log_disk.next(Address::FIRST).unwrap();
    let (name, file) = (segment.name(), segment.id());
    let open = |name, from, bytes| Segment::open(&log_disk.environment, name, from, bytes);
    assert_eq!(open(name, Address::FIRST, MIB).unwrap().end(), Address::new(MIB + PAGE));
    for (database, birth, from, bytes) in
        [(8, 40, PAGE, MIB), (7, 41, PAGE, MIB), (7, 40, 2 * PAGE, MIB), (7, 40, PAGE, 2 * MIB)]
    {
        assert!(open(FileIdentity { database, birth, ..name }, Address::new(from), bytes).unwrap_err().is_corruption());
    }
    log_disk.disk.truncate(file, MIB);
    assert!(open(name, Address::FIRST, MIB).unwrap_err().is_corruption());
    for (from, bytes) in
        [(PAGE + 8, MIB), (PAGE, MIB / 8), (PAGE, 3 * MIB), (PAGE, 128 * MIB), (u64::MAX - PAGE + 1, MIB)]
    {
        assert!(!Segment::is_possible(Address::new(from), bytes));
    }
    assert!(Segment::is_possible(Address::new(5 * PAGE), 64 * MIB));
}
