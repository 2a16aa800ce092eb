//! The successor of a segment: the segment in which the log goes on. It is stored in the second sector, and written
//! when the successor is durable, so that a missing successor is an error (commit-and-recovery.md, invariants 5 to 8).

use ecotone_sys::checksum::crc32c;

use super::segment::{Segment, SegmentHeader};
use crate::{
    Error, Result, Seq,
    codec::{Malformed, Reader, Writer, is_zero},
    limits::SECTOR,
    storage::{File, FileId},
};

/// Offset in a segment file.
pub(super) const SUCCESSOR_AT: u64 = SECTOR as u64;

const MAGIC: [u8; 8] = *b"ECOTNEXT";
const CHECKSUM_AT: usize = SECTOR - 4;

/// The segment that follows a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successor {
    /// The number of the file.
    pub file: u32,
    /// The position at which it begins: the end of the segment before, or the position at which a session ended the
    /// log.
    pub start: Seq,
    /// The incarnation that wrote its header.
    pub incarnation: u64,
}

impl Successor {
    /// The successor that names `next`.
    pub(super) fn of(next: &Segment) -> Self {
        Successor { file: next.number(), start: next.header.start, incarnation: next.header.incarnation }
    }

    /// The sector for the segment with this header.
    pub fn encode(&self, header: &SegmentHeader) -> [u8; SECTOR] {
        let mut writer = Writer::new();
        writer.bytes(&MAGIC).u64(header.start).u64(header.incarnation);
        writer.u32(self.file).u32(0).u64(self.start).u64(self.incarnation);
        let mut sector = [0; SECTOR];
        sector[..writer.len()].copy_from_slice(writer.as_slice());
        let checksum = checksum(header.database, &sector[..CHECKSUM_AT]);
        sector[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        sector
    }

    /// Decodes the second sector of a segment. `None` if no successor was named; a name from an earlier use of the file
    /// does not count.
    ///
    /// # Errors
    /// `Corruption` for any other sector: a sector is written whole or not at all.
    pub fn decode(sector: &[u8; SECTOR], header: &SegmentHeader, file: FileId) -> Result<Option<Self>> {
        let damaged = |what| Error::corruption(file, SUCCESSOR_AT, what);
        let Some((body, sum)) = sector.split_last_chunk::<4>() else { return Ok(None) };
        if is_zero(sector) {
            return Ok(None);
        }
        if !body.starts_with(&MAGIC) || checksum(header.database, body) != u32::from_le_bytes(*sum) {
            return Err(damaged("what says in which log segment the log goes on is damaged"));
        }
        let (start, incarnation, successor) = fields(body).map_err(|malformed| malformed.at(file, SUCCESSOR_AT))?;
        if (start, incarnation) != (header.start, header.incarnation) {
            return Ok(None);
        }
        let is_plausible =
            (header.start..=header.end()).contains(&successor.start) && successor.incarnation >= header.incarnation;
        if is_plausible {
            Ok(Some(successor))
        } else {
            Err(damaged("the successor of a log segment contradicts its header"))
        }
    }

    /// Writes this successor to the segment before it. Not synced.
    pub(super) fn write(&self, file: &dyn File, header: &SegmentHeader) -> Result<()> {
        file.write(&self.encode(header), SUCCESSOR_AT)
    }

    /// Whether the successor is among these segments, or one of them shows that a later opening ended the log before
    /// it. `header` is of the segment that names it.
    pub(super) fn is_among(&self, header: &SegmentHeader, segments: &[Segment]) -> bool {
        let ended_before = header.start..=self.start;
        segments.iter().map(|segment| segment.header).any(|other| match other.incarnation.cmp(&self.incarnation) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => other.start == self.start,
            std::cmp::Ordering::Greater => ended_before.contains(&other.start),
        })
    }
}

fn checksum(database: u64, body: &[u8]) -> u32 {
    crc32c(crc32c(0, &database.to_le_bytes()), body)
}

fn fields(body: &[u8]) -> std::result::Result<(Seq, u64, Successor), Malformed> {
    let mut reader = Reader::new(body);
    reader.bytes(MAGIC.len())?;
    let (start, incarnation) = (reader.u64()?, reader.u64()?);
    let (file, _) = (reader.u32()?, reader.u32()?);
    let successor = Successor { file, start: reader.u64()?, incarnation: reader.u64()? };
    Ok((start, incarnation, successor))
}
