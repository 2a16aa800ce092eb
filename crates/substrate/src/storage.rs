//! The one interface through which every byte goes to disk: files by numeric id, blocking calls, and queues of requests
//! that are submitted and completed.
//!
//! [`disk`](crate::disk) implements it for real disks; the test kit has a simulated one. `docs/format/disk.md` says
//! what may be assumed of a disk: 512-byte sectors are atomic, nothing else is ordered or durable before a sync, and
//! names are durable after [`Storage::sync_dir`].

mod reads;

use std::{fmt, io, iter::Sum, sync::Arc};

pub use self::reads::Reads;
pub use ecotone_sys::chunk::Block;

use crate::{
    Error, Result,
    limits::{MAX_TABLES, PAGE},
};

/// Name of a file inside a database directory. Made from numbers only, so that no user's text reaches a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileId {
    /// `manifest.N`: one checkpoint of the structure.
    Manifest(u64),
    /// `log.N`: one segment of the write-ahead log.
    Log(u32),
    /// `double.N`: a double-write area.
    Double(u32),
    /// `pages.K`: the pages of keyspace `K`.
    Pages(u32),
    /// `table.K.N`: a file of keyspace `K` that is written once; `N` is below [`MAX_TABLES`].
    Table {
        /// The keyspace.
        keyspace: u32,
        /// The file's number within it.
        number: u32,
    },
    /// `segment.K.N`: a range of the record log of keyspace `K`; `N` is below [`MAX_TABLES`].
    Segment {
        /// The keyspace.
        keyspace: u32,
        /// The file's number within it.
        number: u32,
    },
    /// `scratch.N`: a file for one run only (benchmarks, rebuilds), removed at open.
    Scratch(u32),
}

impl FileId {
    /// A number that tells files apart in checksums: kind in the upper byte, then the numbers of the name.
    pub fn identity(self) -> u64 {
        let (kind, number) = match self {
            FileId::Manifest(n) => (1, n),
            FileId::Log(n) => (2, u64::from(n)),
            FileId::Double(n) => (3, u64::from(n)),
            FileId::Pages(n) => (4, u64::from(n)),
            FileId::Table { keyspace, number } => (5, u64::from(keyspace) << 24 | u64::from(number)),
            FileId::Scratch(n) => (6, u64::from(n)),
            FileId::Segment { keyspace, number } => (7, u64::from(keyspace) << 24 | u64::from(number)),
        };
        (kind << 56) | (number & ((1 << 56) - 1))
    }

    /// Its kind.
    pub fn kind(self) -> FileKind {
        match self {
            FileId::Manifest(_) => FileKind::Manifest,
            FileId::Log(_) => FileKind::Log,
            FileId::Double(_) => FileKind::Double,
            FileId::Pages(_) => FileKind::Pages,
            FileId::Table { .. } => FileKind::Table,
            FileId::Segment { .. } => FileKind::Segment,
            FileId::Scratch(_) => FileKind::Scratch,
        }
    }

    /// The keyspace whose data the file holds; `None` if it is not one keyspace's.
    pub fn keyspace(self) -> Option<u32> {
        match self {
            FileId::Pages(keyspace) | FileId::Table { keyspace, .. } | FileId::Segment { keyspace, .. } => {
                Some(keyspace)
            }
            FileId::Manifest(_) | FileId::Log(_) | FileId::Double(_) | FileId::Scratch(_) => None,
        }
    }

    /// Parses a file name. `None` if it is not a database file's.
    pub fn parse(name: &str) -> Option<Self> {
        let (kind, numbers) = name.split_once('.')?;
        let id = match kind {
            "manifest" => FileId::Manifest(numbers.parse().ok()?),
            "log" => FileId::Log(numbers.parse().ok()?),
            "double" => FileId::Double(numbers.parse().ok()?),
            "pages" => FileId::Pages(numbers.parse().ok()?),
            "table" | "segment" => {
                let (keyspace, number) = numbers.split_once('.')?;
                let number = number.parse().ok().filter(|number| *number < MAX_TABLES)?;
                let keyspace = keyspace.parse().ok()?;
                if kind == "table" { FileId::Table { keyspace, number } } else { FileId::Segment { keyspace, number } }
            }
            "scratch" => FileId::Scratch(numbers.parse().ok()?),
            _ => return None,
        };
        // Names with signs or leading zeros are rejected.
        (id.to_string() == name).then_some(id)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileId::Manifest(n) => write!(f, "manifest.{n}"),
            FileId::Log(n) => write!(f, "log.{n}"),
            FileId::Double(n) => write!(f, "double.{n}"),
            FileId::Pages(n) => write!(f, "pages.{n}"),
            FileId::Table { keyspace, number } => write!(f, "table.{keyspace}.{number}"),
            FileId::Segment { keyspace, number } => write!(f, "segment.{keyspace}.{number}"),
            FileId::Scratch(n) => write!(f, "scratch.{n}"),
        }
    }
}

/// The purpose of a file. I/O is counted by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// Manifests.
    Manifest,
    /// Segments of the log.
    Log,
    /// Double-write areas.
    Double,
    /// Pages of keyspaces.
    Pages,
    /// Tables of keyspaces.
    Table,
    /// Segments of keyspaces' record logs.
    Segment,
    /// Files for one run.
    Scratch,
    /// The names of files.
    Directory,
}

impl FileKind {
    /// All kinds, in their order.
    pub const ALL: [FileKind; 8] = [
        FileKind::Manifest,
        FileKind::Log,
        FileKind::Double,
        FileKind::Pages,
        FileKind::Table,
        FileKind::Segment,
        FileKind::Scratch,
        FileKind::Directory,
    ];

    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Manifest => "manifest",
            FileKind::Log => "log",
            FileKind::Double => "double-write area",
            FileKind::Pages => "pages",
            FileKind::Table => "tables",
            FileKind::Segment => "segments",
            FileKind::Scratch => "scratch",
            FileKind::Directory => "directory",
        }
    }
}

/// How the bytes of a file are transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Past the page cache if the file system allows it (`O_DIRECT`). Offsets, lengths and buffer addresses must be
    /// multiples of the file's [unit](File::unit); multiples of 4096 bytes always are.
    Direct,
    /// Through the page cache, with any alignment. A write is cheap and survives the process, not the machine.
    Cached,
}

/// One database directory.
pub trait Storage: Send + Sync + fmt::Debug {
    /// The files of the directory, in no order. Names of other files are left out.
    fn list(&self) -> Result<Vec<FileId>>;
    /// Makes a new empty file; an existing one is an error. The *name* is durable after [`sync_dir`](Self::sync_dir).
    fn create(&self, id: FileId, access: Access) -> Result<Arc<dyn File>>;
    /// Opens an existing file.
    fn open(&self, id: FileId, access: Access) -> Result<Arc<dyn File>>;
    /// Removes a file's name; durable after [`sync_dir`](Self::sync_dir).
    fn remove(&self, id: FileId) -> Result<()>;
    /// Like [`remove`](Self::remove), but the file may be missing.
    fn remove_if_there(&self, id: FileId) -> Result<()> {
        match self.remove(id) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
    /// Makes all creations and removals so far durable.
    fn sync_dir(&self) -> Result<()>;
    /// Lets another process open the directory while handles of it are alive: from now on no file is changed any more,
    /// and reads fail with [`Closed`](crate::Error::Closed). Waits for changes that have begun.
    fn close(&self) {}
    /// A request queue from a pool. Dropping it waits for requests in flight and gives it back.
    fn queue(&self) -> Result<Box<dyn Queue>>;
    /// Bytes that may still be reserved, approximately: other processes may take them first.
    fn free_space(&self) -> Result<u64>;
    /// Requests and bytes submitted to the device so far.
    fn counters(&self) -> Counters {
        FileKind::ALL.iter().map(|kind| self.counters_of(*kind)).sum()
    }
    /// The counters of one kind of files.
    fn counters_of(&self, kind: FileKind) -> Counters;
}

/// One open file. Calls block; many threads may call at once.
pub trait File: Send + Sync + fmt::Debug {
    /// Its name.
    fn id(&self) -> FileId;
    /// Its length in bytes.
    fn len(&self) -> Result<u64>;
    /// Whether it has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// The smallest transfer of a direct file, in bytes: a power of two, at least 512. Callers that do not need small
    /// transfers use multiples of 4096.
    fn unit(&self) -> usize {
        PAGE
    }
    /// Fills `buffer` from `offset`. A file that ends before is [`Corruption`](crate::Error::Corruption).
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()>;
    /// Writes all of `buffer` at `offset`.
    fn write(&self, buffer: &[u8], offset: u64) -> Result<()>;
    /// Zeroes a whole page of a cached file in the kernel's cache, so that partial writes do not read the page from the
    /// device first. It is no request in the counters: the device sees the page when it is written.
    fn blank(&self, page: u64) -> Result<()> {
        self.write(&[0; PAGE], page)
    }
    /// Makes everything written and the length durable.
    fn sync(&self) -> Result<()>;
    /// Reserves space for `length` bytes from `offset` on and makes the file at least long enough for them; new bytes,
    /// and holes, read as zero. The only call that gives [`NoSpace`](crate::Error::NoSpace).
    fn preallocate(&self, offset: u64, length: u64) -> Result<()>;
    /// Deallocates a range of whole pages within the file. The range reads as zero, and must be preallocated before it
    /// is written again. After a crash before the next sync its contents are undefined. False if the file system cannot
    /// do it, now or ever, or not for all of the range.
    fn punch(&self, offset: u64, length: u64) -> Result<bool>;
    /// Cuts or extends the file.
    fn set_len(&self, length: u64) -> Result<()>;
    /// Bytes of disk that the file takes: reserved or written ones, less the holes.
    fn reserved(&self) -> Result<u64>;
    /// Tells the kernel that its cached pages of this range are not needed (for cached files, after a sync).
    fn forget(&self, offset: u64, length: u64);
    /// The operating system's file for a request, for drivers that need it; `None` in a simulation. It may have to be
    /// reopened.
    fn system(&self, _op: Op) -> Option<Result<Arc<ecotone_sys::file::File>>> {
        None
    }
}

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Fill the first `len` bytes of the block.
    Read,
    /// Write the first `len` bytes of the block.
    Write,
}

/// One transfer between a block of memory and a file. The queue owns the block until it completes.
#[derive(Debug)]
pub struct Request {
    /// The file to transfer to or from.
    pub file: Arc<dyn File>,
    /// The direction.
    pub op: Op,
    /// Byte offset in the file, a multiple of its unit for direct files.
    pub offset: u64,
    /// The memory.
    pub block: Block,
    /// Bytes to transfer, from the start of the block.
    pub len: usize,
    /// The caller's tag, returned with the completion.
    pub tag: u64,
}

/// A finished request.
#[derive(Debug)]
pub struct Completion {
    /// The request, with its block.
    pub request: Request,
    /// Whether all `len` bytes were transferred. A read past the end of the file is corruption.
    pub result: Result<()>,
}

/// Requests in flight. Used by one thread at a time; completions come in any order.
pub trait Queue: Send + fmt::Debug {
    /// Submits a request. It may start at once or with the next [`complete`](Self::complete). Blocks while the queue is
    /// full.
    fn submit(&mut self, request: Request);
    /// Starts all submitted requests, waits until at least `at_least` (or all, if fewer) are finished, and appends all
    /// finished ones to `done`.
    fn complete(&mut self, at_least: usize, done: &mut Vec<Completion>);
    /// Completes as [`complete`](Self::complete) does, and returns the blocks of all finished requests to `free`.
    /// Returns the first failure.
    fn take_back(&mut self, at_least: usize, free: &mut Vec<Block>) -> Result<()> {
        let mut done = Vec::new();
        self.complete(at_least, &mut done);
        let mut result = Ok(());
        for completion in done {
            result = result.and(completion.result);
            free.push(completion.request.block);
        }
        result
    }
    /// Requests submitted and not yet completed.
    fn in_flight(&self) -> usize;
}

/// Device requests and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Syncs of files and directories.
    pub syncs: u64,
}

impl Sum for Counters {
    fn sum<I: Iterator<Item = Counters>>(counters: I) -> Counters {
        counters.fold(Counters::default(), |sum, one| Counters {
            reads: sum.reads + one.reads,
            writes: sum.writes + one.writes,
            read_bytes: sum.read_bytes + one.read_bytes,
            write_bytes: sum.write_bytes + one.write_bytes,
            syncs: sum.syncs + one.syncs,
        })
    }
}
