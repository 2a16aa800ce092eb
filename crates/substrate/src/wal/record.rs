//! A log record: a frame of nine bytes, then a batch of operations or a structural change (`docs/format/log.md`).

use ecotone_sys::checksum::crc32c;

use crate::{
    Error, Result, Seq,
    codec::{Malformed, Reader, Writer},
    limits::{MAX_KEY, MAX_RECORD},
    storage::FileId,
};

type Parsed<T> = std::result::Result<T, Malformed>;

/// Bytes before the body of a record: length, checksum, kind.
pub const FRAME_BYTES: usize = 9;

/// Least bytes of log that one operation takes. The log limit is chosen so that replay has memory for operations of
/// this length (commit-and-recovery.md, "Log reclaim").
pub const MIN_OPERATION_BYTES: usize = 32;

const PADDING: u8 = 0;
const VALUE: u8 = 1;
const TOMBSTONE: u8 = 2;

/// The kind of a record's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// Operations that are recovered whole or not at all, see [`BatchEncoder`].
    Batch = 1,
    /// A change of one keyspace's structure, see [`encode_structure`].
    Structure = 2,
    /// A mark: how far the log was synced when the mark was appended.
    Synced = 3,
}

/// An operation as a batch record holds it: keyspace, key, and the value or `None` for a delete.
pub type LoggedOperation<'a> = (u32, &'a [u8], Option<&'a [u8]>);

/// A decoded record.
#[derive(Debug, Clone)]
pub enum Record<'a> {
    /// The operations; the i-th has the sequence of the record plus i.
    Batch(Batch<'a>),
    /// A structural change.
    Structure {
        /// The keyspace that changes.
        keyspace: u32,
        /// The engine's own description of the change.
        body: &'a [u8],
    },
    /// Everything below this position was synced when the record was appended.
    Synced(Seq),
}

impl<'a> Record<'a> {
    /// Decodes the body of a record whose checksum was right. `at` is the record's location, for errors.
    ///
    /// # Errors
    /// `NewerFormat` for an unknown kind, `Corruption` for a body that does not fit its kind.
    pub fn decode(kind: u8, body: &'a [u8], at: Location) -> Result<Self> {
        let mut reader = Reader::new(body);
        match kind {
            kind if kind == RecordKind::Batch as u8 => {
                let left = reader.varint().map_err(|malformed| at.error(malformed))?;
                Ok(Record::Batch(Batch { reader, left, over: false, at }))
            }
            kind if kind == RecordKind::Structure as u8 => {
                let keyspace = keyspace(&mut reader).map_err(|malformed| at.error(malformed))?;
                Ok(Record::Structure { keyspace, body: body.get(reader.position()..).unwrap_or_default() })
            }
            kind if kind == RecordKind::Synced as u8 => {
                let synced = reader.u64().and_then(|synced| reader.finish().map(|()| synced));
                synced.map(Record::Synced).map_err(|malformed| at.error(malformed))
            }
            kind => Err(at.newer(kind, RecordKind::Synced as u8)),
        }
    }
}

/// The location of a record on disk, for errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The segment in which it begins.
    pub file: FileId,
    /// The record's offset in the segment.
    pub offset: u64,
}

impl Location {
    fn error(self, malformed: Malformed) -> Error {
        malformed.at(self.file, self.offset.saturating_add(FRAME_BYTES as u64))
    }

    fn newer(self, found: u8, known: u8) -> Error {
        Error::NewerFormat { file: self.file.to_string(), found: u64::from(found), known: u64::from(known) }
    }
}

/// The operations of a batch record, in order. Ends after an error.
#[derive(Debug, Clone)]
pub struct Batch<'a> {
    reader: Reader<'a>,
    left: u64,
    over: bool,
    at: Location,
}

impl<'a> Iterator for Batch<'a> {
    type Item = Result<LoggedOperation<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let operation = self.operation().transpose();
        self.over = !matches!(operation, Some(Ok(_)));
        operation
    }
}

impl<'a> Batch<'a> {
    fn operation(&mut self) -> Result<Option<LoggedOperation<'a>>> {
        let at = self.at;
        let Some(kind) = self.kind().map_err(|malformed| at.error(malformed))? else { return Ok(None) };
        if kind != VALUE && kind != TOMBSTONE {
            return Err(at.newer(kind, TOMBSTONE));
        }
        self.left -= 1;
        self.content(kind).map(Some).map_err(|malformed| at.error(malformed))
    }

    /// The next byte that is not padding, or `None` at the end of a whole batch.
    fn kind(&mut self) -> Parsed<Option<u8>> {
        while self.reader.remaining() > 0 {
            match self.reader.u8()? {
                PADDING => {}
                _ if self.left == 0 => return self.reader.fail("a batch has bytes after its last operation"),
                kind => return Ok(Some(kind)),
            }
        }
        if self.left == 0 { Ok(None) } else { self.reader.fail("a batch has fewer operations than it says") }
    }

    fn content(&mut self, kind: u8) -> Parsed<LoggedOperation<'a>> {
        let keyspace = keyspace(&mut self.reader)?;
        let key = self.reader.prefixed(MAX_KEY)?;
        let value = if kind == VALUE { Some(self.reader.prefixed(MAX_RECORD)?) } else { None };
        Ok((keyspace, key, value))
    }
}

fn keyspace(reader: &mut Reader<'_>) -> Parsed<u32> {
    match u32::try_from(reader.varint()?) {
        Ok(keyspace) => Ok(keyspace),
        Err(_) => reader.fail("a keyspace number exceeds 32 bits"),
    }
}

/// Appends the body of a batch record to a buffer. The body is complete after each pushed operation.
#[derive(Debug)]
pub struct BatchEncoder<'a> {
    body: &'a mut Vec<u8>,
    start: usize,
    pushed: usize,
    announced: usize,
}

impl<'a> BatchEncoder<'a> {
    /// Begins a batch of exactly `operations` operations at the end of `body`.
    pub fn new(body: &'a mut Vec<u8>, operations: usize) -> Self {
        let start = body.len();
        append(body, |writer| _ = writer.varint(operations as u64));
        BatchEncoder { body, start, pushed: 0, announced: operations }
    }

    /// Appends one operation: a value to store, or `None` to delete.
    ///
    /// # Panics
    /// If more operations are pushed than announced.
    pub fn push(&mut self, keyspace: u32, key: &[u8], value: Option<&[u8]>) {
        self.pushed += 1;
        assert!(self.pushed <= self.announced, "a batch of {} operations is full", self.announced);
        append(self.body, |writer| {
            writer.u8(if value.is_some() { VALUE } else { TOMBSTONE }).varint(u64::from(keyspace)).prefixed(key);
            value.inspect(|value| _ = writer.prefixed(value));
        });
        let least = self.start + (self.pushed * MIN_OPERATION_BYTES).saturating_sub(FRAME_BYTES);
        if self.body.len() < least {
            self.body.resize(least, PADDING);
        }
    }
}

fn append(body: &mut Vec<u8>, write: impl FnOnce(&mut Writer)) {
    let mut writer = Writer::onto(std::mem::take(body));
    write(&mut writer);
    *body = writer.finish();
}

/// The body of a structural record: `body` is the engine's own description of a change in `keyspace`.
pub fn encode_structure(keyspace: u32, body: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.varint(u64::from(keyspace)).bytes(body);
    writer.finish()
}

/// Initial value of every record checksum of one database and one incarnation.
pub(super) fn seed(database: u64, incarnation: u64) -> u32 {
    let incarnation = if bug!(IgnoreIncarnation) { 0 } else { incarnation };
    crc32c(crc32c(0, &database.to_le_bytes()), &incarnation.to_le_bytes())
}

/// The checksum of a body without its position, so that it can be computed before the position is known.
pub(super) fn body_checksum(body: &[u8]) -> u32 {
    crc32c(0, body)
}

/// The frame of a record: the bytes before its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) length: u32,
    pub(super) checksum: u32,
    pub(super) kind: u8,
}

impl Frame {
    /// The frame of a record at `position`.
    pub(super) fn new(seed: u32, position: Seq, kind: u8, length: u32, body_checksum: u32) -> Self {
        let sizes = u64::from(length) | (u64::from(body_checksum) << 32);
        let checksum = crc32c(crc32c(crc32c(seed, &position.to_le_bytes()), &sizes.to_le_bytes()), &[kind]);
        Frame { length, checksum, kind }
    }

    pub(super) fn encode(self) -> [u8; FRAME_BYTES] {
        let mut bytes = [self.kind; FRAME_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: [u8; FRAME_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, kind] = bytes;
        Frame { length: u32::from_le_bytes([a, b, c, d]), checksum: u32::from_le_bytes([e, f, g, h]), kind }
    }
}
