//! Structure edits of a hash keyspace, as records of the database's log (`docs/format/hash.md`, "Structural records").

use ecotone_substrate::codec::{Malformed, Reader, Writer};

use super::{
    FileRef, LogFile, MAX_DELTAS, PartitionEntry,
    codec::{address, index_bits, part, push_part, push_segment, segment},
};
use crate::log::Address;

/// The version of the record's format.
const FORM: u8 = 1;

/// A change of a keyspace's structure. The files that come are synced, with their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestEdit {
    /// The hot log continues in a new segment, to which nothing need be written yet.
    Segment(LogFile),
    /// Compaction: the live records of the hot log below an address are in a new delta, if there are any.
    Compact {
        /// The delta, if any record is live.
        added: Option<FileRef>,
        /// The new beginning of the hot log.
        begin: Address,
        /// The address below which the hot log is durable.
        durable: Address,
        /// See [`HashManifest`](super::HashManifest).
        index_bits: u8,
    },
    /// Merge into the base: a partition becomes one or two, whose bases have all records of the deltas that end at or
    /// below an address. Deltas that no partition needs any more are dropped.
    MergeIntoBase {
        /// The partition before.
        deleted: PartitionEntry,
        /// The partition after, or its halves.
        added: Vec<PartitionEntry>,
        /// The address up to which deltas are in the new bases.
        merged_until: Address,
    },
    /// One delta takes the place of adjacent ones, or none does, if none of their records is visible any more.
    MergeDeltas {
        /// The merged deltas, oldest first.
        deleted: Vec<FileRef>,
        /// The delta in their place.
        added: Option<FileRef>,
    },
}

impl ManifestEdit {
    /// The body of the log record, behind the keyspace's number.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(FORM);
        match self {
            ManifestEdit::Segment(segment) => push_segment(w.u8(1), *segment),
            ManifestEdit::Compact { added, begin, durable, index_bits } => {
                FileRef::encode(*added, w.u8(2));
                w.u64(begin.get()).u64(durable.get()).u8(*index_bits);
            }
            ManifestEdit::MergeIntoBase { deleted, added, merged_until } => {
                push_part(w.u8(3), *deleted);
                w.varint(added.len() as u64);
                added.iter().for_each(|part| push_part(&mut w, *part));
                w.u64(merged_until.get());
            }
            ManifestEdit::MergeDeltas { deleted, added } => {
                w.u8(4).varint(deleted.len() as u64);
                deleted.iter().for_each(|file| FileRef::encode(Some(*file), &mut w));
                FileRef::encode(*added, &mut w);
            }
        }
        w.finish()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(body: &[u8]) -> Result<ManifestEdit, Malformed> {
        let mut r = Reader::new(body);
        r.version(FORM)?;
        let change = match r.u8()? {
            1 => ManifestEdit::Segment(segment(&mut r)?),
            2 => ManifestEdit::Compact {
                added: FileRef::decode(&mut r)?,
                begin: address(&mut r)?,
                durable: address(&mut r)?,
                index_bits: index_bits(&mut r)?,
            },
            3 => ManifestEdit::MergeIntoBase {
                deleted: part(&mut r)?,
                added: r.list(2, part)?,
                merged_until: address(&mut r)?,
            },
            4 => ManifestEdit::MergeDeltas {
                deleted: r.list(MAX_DELTAS, FileRef::decode_some)?,
                added: FileRef::decode(&mut r)?,
            },
            _ => return r.fail("there is no such structural record of a hash keyspace"),
        };
        r.finish()?;
        Ok(change)
    }
}
