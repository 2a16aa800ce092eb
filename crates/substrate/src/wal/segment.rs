//! A segment of the log: a file of fixed size with a header in its first sector (`docs/format/log.md`).

use std::sync::Arc;

use ecotone_sys::checksum::crc32c;

use super::successor::Successor;
use crate::{
    Error, Result, Seq,
    codec::{Malformed, Reader, Writer, is_zero},
    limits::SECTOR,
    storage::{Access, File, FileId, Storage},
};

type Parsed<T> = std::result::Result<T, Malformed>;

/// Bytes of a segment before its first log byte.
pub(super) const HEADER_BYTES: u64 = 4096;
/// Sectors in use: the header, and the successor.
const SECTORS: usize = 2 * SECTOR;

const MAGIC: [u8; 8] = *b"ECOTLOG\0";
/// Version 2 has marks, version 3 names successors.
const VERSION: u32 = 3;
const CHECKSUM_AT: usize = SECTOR - 4;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The database that the segment belongs to.
    pub database: u64,
    /// Position of its first log byte.
    pub start: Seq,
    /// Position of the first record that begins in the segment, or a later one if one record covers all of it.
    pub first_record: Seq,
    /// The incarnation that wrote its records.
    pub incarnation: u64,
    /// A position that was synced when the header was written. A log that ends before it has lost records.
    pub synced: Seq,
    /// Bytes of the file, header included.
    pub bytes: u64,
}

impl SegmentHeader {
    /// The header as its sector.
    pub fn encode(&self) -> [u8; SECTOR] {
        let mut writer = Writer::new();
        writer.bytes(&MAGIC).u32(VERSION).u32(0).u64(self.database).u64(self.start).u64(self.first_record);
        writer.u64(self.incarnation).u64(self.synced).u64(self.bytes);
        let mut sector = [0; SECTOR];
        sector[..writer.len()].copy_from_slice(writer.as_slice());
        let checksum = crc32c(0, &sector[..CHECKSUM_AT]);
        sector[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        sector
    }

    /// Decodes a header. `None` for a sector of zeros, to which none was written yet.
    ///
    /// # Errors
    /// `Corruption` for any other sector: a sector is written whole or not at all, so no crash leaves one.
    /// `NewerFormat` for a whole header of a later version.
    pub fn decode(sector: &[u8; SECTOR], file: FileId) -> Result<Option<Self>> {
        let Some((body, checksum)) = sector.split_last_chunk::<4>() else { return Ok(None) };
        if is_zero(sector) {
            return Ok(None);
        }
        if !body.starts_with(&MAGIC) || crc32c(0, body) != u32::from_le_bytes(*checksum) {
            return Err(Error::corruption(file, 0, "the header of a log segment is damaged"));
        }
        let (version, header) = Self::fields(body).map_err(|malformed| malformed.at(file, 0))?;
        if version > VERSION {
            return Err(Error::NewerFormat {
                file: file.to_string(),
                found: u64::from(version),
                known: u64::from(VERSION),
            });
        }
        if version == 0 || !header.is_plausible() {
            return Err(Error::corruption(file, 0, "the header of a log segment contradicts itself"));
        }
        Ok(Some(header))
    }

    fn fields(body: &[u8]) -> Parsed<(u32, Self)> {
        let mut reader = Reader::new(body);
        reader.bytes(MAGIC.len())?;
        let version = reader.u32()?;
        reader.u32()?;
        let (database, start, first_record) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (incarnation, synced, bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
        Ok((version, SegmentHeader { database, start, first_record, incarnation, synced, bytes }))
    }

    /// Whether positions can be computed with these numbers without overflow.
    fn is_plausible(&self) -> bool {
        let numbers = [self.start, self.first_record, self.incarnation, self.synced, self.bytes];
        numbers.iter().all(|&number| number <= u64::MAX >> 2)
            && self.bytes > HEADER_BYTES
            && self.first_record >= self.start
    }

    /// The position after the last byte that fits.
    pub(super) fn end(&self) -> Seq {
        self.start + (self.bytes - HEADER_BYTES)
    }
}

/// A segment that holds a part of the log.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) file: Arc<dyn File>,
    pub(super) header: SegmentHeader,
    /// The segment after this one, as named in the file when it was opened.
    pub(super) successor: Result<Option<Successor>>,
}

/// The contents of a log file.
pub(super) enum Content {
    /// A part of a log, of this database or another.
    Segment(Segment),
    /// Empty: a spare segment, or one that is not finished.
    Blank,
    /// Damage.
    Damaged(Error),
}

impl Segment {
    /// Writes the header that makes `file` hold the log from `header.start` on. Not synced.
    pub(super) fn begin(file: Arc<dyn File>, header: SegmentHeader) -> Result<Self> {
        file.write(&header.encode(), 0)?;
        Ok(Segment { file, header, successor: Ok(None) })
    }

    /// Reads the contents of a file of this length.
    ///
    /// # Errors
    /// `NewerFormat`.
    pub(super) fn read(file: Arc<dyn File>, length: u64) -> Result<Content> {
        let mut sectors = [0; SECTORS];
        if length < HEADER_BYTES {
            return Ok(Content::Blank);
        }
        if let Err(error) = file.read(&mut sectors, 0) {
            return Ok(Content::Damaged(error));
        }
        match Self::decode(file, &sectors) {
            Ok(segment) => Ok(segment.map_or(Content::Blank, Content::Segment)),
            Err(error) if error.is_corruption() => Ok(Content::Damaged(error)),
            Err(error) => Err(error),
        }
    }

    fn decode(file: Arc<dyn File>, sectors: &[u8; SECTORS]) -> Result<Option<Self>> {
        let (sectors, _) = sectors.as_chunks::<SECTOR>();
        let [first, second] = sectors else { return Ok(None) };
        let Some(header) = SegmentHeader::decode(first, file.id())? else { return Ok(None) };
        let successor = Successor::decode(second, &header, file.id());
        Ok(Some(Segment { file, header, successor }))
    }

    /// The successor that this segment names, if it is not among `segments`.
    pub(super) fn missing_successor(&self, segments: &[Segment]) -> Option<Successor> {
        let named = self.successor.as_ref().ok().copied().flatten();
        named.filter(|successor| !successor.is_among(&self.header, segments))
    }

    /// The number of its file.
    pub(super) fn number(&self) -> u32 {
        let FileId::Log(number) = self.file.id() else { unreachable!("a segment is a log file") };
        number
    }

    /// The file offset of the byte at `position`.
    pub(super) fn offset(&self, position: Seq) -> u64 {
        HEADER_BYTES + (position - self.header.start)
    }

    /// Opens a file of the log, with its length. A segment whose length differs from its header's is damaged.
    ///
    /// # Errors
    /// `NewerFormat`, and errors of opening it.
    pub(super) fn open(storage: &dyn Storage, id: FileId) -> Result<(Arc<dyn File>, u64, Content)> {
        let file = storage.open(id, Access::Cached)?;
        let length = file.len()?;
        let content = match Self::read(file.clone(), length)? {
            Content::Segment(segment) if segment.header.bytes != length => Content::Damaged(Error::corruption(
                id,
                length,
                "the length of a log segment is not what its header says",
            )),
            content => content,
        };
        Ok((file, length, content))
    }
}

/// Makes an empty segment file of `bytes` zeros, with its name durable, so that a later sync changes no metadata. The
/// only part of the log that allocates disk space. A file that fails half-way is removed again.
pub(super) fn make(storage: &dyn Storage, id: FileId, bytes: u64) -> Result<Arc<dyn File>> {
    let file = storage.create(id, Access::Cached)?;
    match fill(storage, &*file, bytes) {
        Ok(()) => Ok(file),
        Err(error) => {
            drop(file);
            // The error of the file itself says more than an error of its removal.
            let _ = storage.remove(id);
            Err(error)
        }
    }
}

fn fill(storage: &dyn Storage, file: &dyn File, bytes: u64) -> Result<()> {
    file.preallocate(0, bytes)?;
    for offset in (0..bytes).step_by(ZEROS.len()) {
        let left = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(ZEROS.len());
        file.write(&ZEROS[..left], offset)?;
    }
    file.sync()?;
    file.forget(0, bytes);
    sync_names(storage)
}

pub(super) fn sync_names(storage: &dyn Storage) -> Result<()> {
    if bug!(SkipDirSync) { Ok(()) } else { storage.sync_dir() }
}
