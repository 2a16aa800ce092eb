//! What every test of the log needs: a machine around a disk, and records to compare.

use std::sync::Arc;

use ecotone_substrate::{
    Result, Seq,
    environment::Environment,
    health::Health,
    memory::Memory,
    scheduler::Scheduler,
    storage::{FileId, Storage},
    wal::{
        AppendedAt, Durability, FRAME_BYTES, Record, RecordKind, Replay, ReservationKind, Wal, WalOptions,
        encode_structure,
    },
};
use ecotone_testkit::sim::SimStorage;

pub(crate) const DATABASE: u64 = 0xdb;
/// Bytes of a segment before its first log byte.
pub(crate) const HEADER: u64 = 4096;
/// Small segments, so that records cross their ends.
pub(crate) const OPTIONS: WalOptions =
    WalOptions { first_bytes: 64 << 10, segment_bytes: 64 << 10, limit_bytes: 1 << 20, longest_bytes: 1 << 20 };
/// Where the log of a new database is replayed from.
pub(crate) const FRESH: Replay = Replay { from: 1, synced: 1, incarnation: 1, segment: None, clean: false };

/// One open log and what it stands on.
pub(crate) struct Fixture {
    pub(crate) disk: SimStorage,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) health: Arc<Health>,
    pub(crate) memory: Arc<Memory>,
    storage: Arc<dyn Storage>,
}

/// A record as recovered: sequence, keyspace, body.
pub(crate) type Seen = (Seq, u32, Vec<u8>);

/// The position after a structural record of keyspace 7.
pub(crate) fn end(seen: &Seen) -> Seq {
    seen.0 + (FRAME_BYTES + 1 + seen.2.len()) as u64
}

impl Fixture {
    pub(crate) fn on(disk: &SimStorage) -> Self {
        let health = Arc::new(Health::default());
        let scheduler = Scheduler::manual(health.clone());
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        Fixture { disk: disk.clone(), scheduler, health, memory: Memory::new(16 << 20), storage }
    }

    /// A log whose background jobs have threads.
    pub(crate) fn threaded(disk: &SimStorage) -> Self {
        let fixture = Fixture::on(disk);
        Fixture { scheduler: Scheduler::threaded(1, fixture.health.clone()), ..fixture }
    }

    pub(crate) fn create(&self, options: WalOptions) -> Result<Arc<Wal>> {
        Wal::create(self.environment(DATABASE), options)
    }

    pub(crate) fn open(&self, database: u64, options: WalOptions) -> Result<Arc<Wal>> {
        Wal::open(self.environment(database), options)
    }

    pub(crate) fn environment(&self, database: u64) -> Environment {
        let Fixture { storage, memory, scheduler, health, .. } = self;
        let (storage, memory, scheduler, health) = (storage.clone(), memory.clone(), scheduler.clone(), health.clone());
        Environment { database, storage, memory, scheduler, health }
    }

    /// Recovers, and reads the log once more.
    pub(crate) fn recover(&self, options: WalOptions, replay: Replay) -> Result<(Arc<Wal>, Vec<Seen>)> {
        let wal = self.open(DATABASE, options)?;
        let (mut seen, mut again) = (Vec::new(), Vec::new());
        let replay_range = wal.recover(replay, &mut |seq, record| see(seq, record, &mut seen))?;
        wal.replay(&replay_range, &mut |seq, record| see(seq, record, &mut again))?;
        assert_eq!(seen, again, "the log is the same the second time");
        Ok((wal, seen))
    }
}

pub(crate) fn see(seq: Seq, record: Record<'_>, seen: &mut Vec<Seen>) -> Result<()> {
    match record {
        Record::Structure { keyspace, body } => seen.push((seq, keyspace, body.to_vec())),
        Record::Batch(operations) => {
            for operation in operations {
                let (keyspace, key, value) = operation?;
                seen.push((seq, keyspace, [key, b"=", value.unwrap_or(b"(none)")].concat()));
            }
        }
        Record::Synced(position) => assert!(position <= seq, "a mark tells of the past"),
    }
    Ok(())
}

/// A fresh log on a fresh disk.
pub(crate) fn fresh() -> (Fixture, Arc<Wal>) {
    let fixture = Fixture::on(&SimStorage::new(1));
    let wal = fixture.create(OPTIONS).unwrap();
    (fixture, wal)
}

/// Appends a structural record of keyspace 7.
pub(crate) fn append(wal: &Wal, body: &[u8]) -> Result<AppendedAt> {
    let body = encode_structure(7, body);
    let reservation = wal.reserve(ReservationKind::Write, body.len())?;
    Ok(wal.append(reservation, RecordKind::Structure, &body, |_| ()))
}

/// Appends and commits; the record as recovery should give it.
pub(crate) fn put(wal: &Wal, body: &[u8], durability: Durability) -> Result<Seen> {
    let placed = append(wal, body)?;
    wal.commit(placed.end, durability)?;
    Ok((placed.seq, 7, body.to_vec()))
}

/// Where the log byte of a position is, in the segment that was made last.
pub(crate) fn place(disk: &SimStorage, position: Seq) -> (FileId, u64) {
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let logs = disk.files().into_iter().filter(|(_, bytes)| bytes.starts_with(b"ECOTLOG"));
    let holds = logs.filter(|(_, bytes)| {
        let start = number(bytes, 24);
        start <= position && position < start + number(bytes, 56) - HEADER
    });
    let (file, bytes) = holds.max_by_key(|(_, bytes)| number(bytes, 40)).unwrap();
    (file, HEADER + position - number(&bytes, 24))
}
