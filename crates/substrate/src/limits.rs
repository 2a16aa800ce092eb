//! Every maximum of Ecotone, once. Checked where a caller's data enters (the public API) and where a decoder reads a
//! length.

/// Longest key, in bytes; the shortest has one byte.
pub const MAX_KEY: usize = 1024;
/// Key and value together, in bytes, stored inline by every engine. Larger values (out of line) are a later capability.
pub const MAX_RECORD: usize = 1900;
/// A batch: the encoded bytes of its operations.
pub const MAX_BATCH: usize = 1 << 20;
/// Body of one log record: a batch with its framing, or a structural record.
pub const MAX_LOG_RECORD: usize = MAX_BATCH + (64 << 10);
/// Bytes of a page, the unit of direct I/O.
pub const PAGE: usize = 4096;
/// Bytes that the disk writes atomically.
pub const SECTOR: usize = 512;
/// Pages in one batch of in-place writes.
pub const DOUBLE_WRITE_PAGES: usize = 256;
/// Longest name of a keyspace, in bytes.
pub const MAX_NAME: usize = 255;
/// Keyspaces that one database can hold at a time.
pub const MAX_KEYSPACES: usize = 1 << 16;
/// Numbers for the tables of one keyspace over its whole existence: 24 bits, so that together with the keyspace they
/// fit a file's identity.
pub const MAX_TABLES: u32 = 1 << 24;
/// Levels of an lsm keyspace below level 0.
pub const MAX_LEVELS: u8 = 12;
/// Runs in level 0 of an lsm keyspace.
pub const MAX_RUNS: usize = 64;
/// Paged ranges of one keyspace: key ranges whose oldest records are in the page tier of an lsm.
pub const MAX_PAGED_RANGES: usize = 4096;
/// Bytes of the boundary keys of all paged ranges, so that they take only a part of a manifest.
pub const MAX_PAGED_RANGE_BYTES: usize = 1 << 20;
/// Bytes of a manifest. Engine checkpoints are small: names take the largest part.
pub const MAX_MANIFEST: usize = 64 << 20;
/// Smallest memory budget, in bytes.
pub const MIN_BUDGET: usize = 16 << 20;
/// Pages of one keyspace's file: page numbers are 32 bits, the last one means "none".
pub const MAX_PAGES: u32 = u32::MAX - 1;

/// Limit of the log's weight, the bytes of distinct records in it, for a memory budget. It is 0.8 of the
/// memory that memtables or dirty records may have, three eighths of the budget, so that replay has memory for
/// everything that it makes dirty (commit-and-recovery.md, "Log reclaim").
pub const fn log_limit(budget: usize) -> u64 {
    (budget as u64) / 10 * 3
}

/// Least number of files that the process must be allowed to open, to open a database.
pub const MIN_FILES: usize = 64;

/// Limit of the log's length: the budget less 32 MiB, or the weight limit if that is more.
pub const fn log_length_limit(budget: usize) -> u64 {
    let (limit, most) = (log_limit(budget), (budget as u64).saturating_sub(32 << 20));
    if most > limit { most } else { limit }
}
