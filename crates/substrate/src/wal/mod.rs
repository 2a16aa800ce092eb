//! The write-ahead log: one logical stream of records for all keyspaces of a database. The stream is stored in
//! segments, which are larger the longer the log is (commit-and-recovery.md, "Log reclaim"; `docs/format/log.md`).
//!
//! A write goes [`reserve`](Wal::reserve), [`announce`](Wal::announce), [`append`](Wal::append), then
//! [`commit`](Wal::commit). A sequence is the byte position of a record; the first is 1.

mod append;
mod buffer;
mod commit;
mod distinct_bytes;
mod in_flight;
mod mark;
mod pool;
mod preallocate;
mod reader;
mod reclaim;
mod record;
mod recover;
mod salvage;
mod segment;
mod session;
mod size;
mod successor;

use ecotone_sys::primitive::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize},
};
use std::{
    fmt,
    sync::{Arc, Weak, atomic::Ordering},
};

use append::Appending;
pub use append::{AppendedAt, Reservation, ReservationKind};
use buffer::Buffer;
pub use commit::Durability;
use commit::Output;
use distinct_bytes::DistinctBytes;
pub use in_flight::InFlight;
use in_flight::Slots;
use pool::Pool;
use preallocate::SegmentPreallocation;
pub use reclaim::Call;
use reclaim::LogReclaim;
pub use record::{
    Batch, BatchEncoder, FRAME_BYTES, Location, LoggedOperation, MIN_OPERATION_BYTES, Record, RecordKind,
    encode_structure,
};
use recover::Found;
pub use recover::{Replay, ReplayRange};
pub use salvage::{LogSalvage, MissingLogRange};
pub use segment::SegmentHeader;
pub use successor::Successor;

use crate::{
    Result, Seq, environment::Environment, health::Health, memory::Memory, metrics::Counter, scheduler::Scheduler,
    storage::Storage, throttle::WriteThrottle,
};

/// The first sequence, so that 0 comes before everything.
const FIRST: Seq = 1;

/// Sizes of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalOptions {
    /// Bytes of the first segment files: a power of two, at least 64 KiB.
    pub first_bytes: u64,
    /// Bytes of a segment file of a long log: a power of two, at least those of the first. May differ from the last
    /// open's.
    pub segment_bytes: u64,
    /// Weight of the log (bytes of distinct records) from the replay position to the tail at which writers wait. At
    /// least one segment.
    pub limit_bytes: u64,
    /// Bytes of log at which writers wait whatever the log weighs. At least the limit.
    pub longest_bytes: u64,
}

/// The log of one open database.
pub struct Wal {
    this: Weak<Wal>,
    storage: Arc<dyn Storage>,
    memory: Arc<Memory>,
    scheduler: Arc<Scheduler>,
    health: Arc<Health>,
    database: u64,
    options: WalOptions,
    /// The highest incarnation.
    incarnation: AtomicU64,
    /// Whether `incarnation` is this session's.
    begun: AtomicBool,

    tail: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    kept_from: AtomicU64,
    slots: Slots,

    append: Mutex<Appending>,
    output: Mutex<Output>,
    /// Whether a thread syncs.
    syncing: Mutex<bool>,
    sync_ended: Condvar,
    pool: Mutex<Pool>,
    growing: Mutex<()>,
    ahead: SegmentPreallocation,
    found: Mutex<Found>,
    reclaim: LogReclaim,
    weight: DistinctBytes,
    /// Throttles writers while the log is nearly full.
    pace: WriteThrottle,
    /// Threads that wait for log space.
    waiting: AtomicUsize,

    records: Counter,
    bytes: Counter,
    writes: Counter,
    syncs: Counter,
    waits: Counter,
    delays: Counter,
    delay_ns: Counter,
}

impl Wal {
    /// The most bytes of the log, except for a log that an earlier session wrote with other options.
    pub fn longest(&self) -> u64 {
        self.options.longest_bytes
    }

    fn new(environment: Environment, options: WalOptions) -> Result<Self> {
        assert!(options.first_bytes.is_power_of_two() && options.first_bytes >= 64 << 10, "{options:?}");
        assert!(options.segment_bytes.is_power_of_two() && options.segment_bytes >= options.first_bytes, "{options:?}");
        assert!((options.segment_bytes..=options.longest_bytes).contains(&options.limit_bytes), "{options:?}");
        let Environment { database, storage, memory, scheduler, health } = environment;
        let append = Appending::new(Buffer::new(&memory)?);
        let output = Output::new(Buffer::new(&memory)?);
        Ok(Wal {
            this: Weak::new(),
            storage,
            memory,
            scheduler,
            health,
            database,
            options,
            incarnation: AtomicU64::new(0),
            begun: AtomicBool::new(false),
            tail: AtomicU64::new(0),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            kept_from: AtomicU64::new(0),
            slots: Slots::new(),
            append: Mutex::new(append),
            output: Mutex::new(output),
            syncing: Mutex::default(),
            sync_ended: Condvar::new(),
            pool: Mutex::default(),
            growing: Mutex::default(),
            ahead: SegmentPreallocation::default(),
            found: Mutex::default(),
            reclaim: LogReclaim::default(),
            weight: DistinctBytes::new(options),
            pace: WriteThrottle::default(),
            waiting: AtomicUsize::new(0),
            records: Counter::default(),
            bytes: Counter::default(),
            writes: Counter::default(),
            syncs: Counter::default(),
            waits: Counter::default(),
            delays: Counter::default(),
            delay_ns: Counter::default(),
        })
    }

    /// Wraps the log for sharing by all writers and its own jobs.
    fn shared(self) -> Arc<Self> {
        Arc::new_cyclic(|this| Wal { this: this.clone(), ..self })
    }

    /// The sequence that the next record will get.
    pub fn tail(&self) -> Seq {
        self.tail.load(Ordering::SeqCst)
    }

    /// Everything below was handed to the kernel.
    pub fn written(&self) -> Seq {
        self.written.load(Ordering::SeqCst)
    }

    /// Everything below survives power loss.
    pub fn synced(&self) -> Seq {
        self.synced.load(Ordering::SeqCst)
    }

    /// The highest incarnation that was used. It is this session's once the session [has begun](Self::has_begun). 0
    /// before [`recover`](Self::recover).
    pub fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    /// The sizes in use.
    pub fn options(&self) -> WalOptions {
        self.options
    }

    /// The position at which replay would begin. The log below was truncated.
    pub fn kept_from(&self) -> Seq {
        self.kept_from.load(Ordering::SeqCst)
    }

    /// Bytes from the replay position to the tail.
    pub fn used(&self) -> u64 {
        self.tail().saturating_sub(self.kept_from())
    }

    /// Statistics: records and bytes appended, writes and syncs of segments, waits for space, delays by the throttle
    /// and their sum.
    pub fn stats(&self) -> [(&'static str, u64); 7] {
        [
            ("records", self.records.get()),
            ("bytes", self.bytes.get()),
            ("writes", self.writes.get()),
            ("syncs", self.syncs.get()),
            ("waits", self.waits.get()),
            ("delays", self.delays.get()),
            ("delay_total_us", self.delay_ns.get() / 1000),
        ]
    }
}

impl fmt::Debug for Wal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tail, written, synced) = (self.tail(), self.written(), self.synced());
        f.debug_struct("Wal")
            .field("tail", &tail)
            .field("written", &written)
            .field("synced", &synced)
            .finish_non_exhaustive()
    }
}
