//! The structural records of a hash keyspace: changes of what it consists of, as the log has them
//! (`docs/format/hash.md`, "Structural records").

use ecotone_substrate::codec::{Malformed, Reader, Writer};

use super::{
    File, LogFile, MAX_DELTAS,
    codec::{address, index_bits, part, push_part, push_segment, segment},
};
use crate::hash::{cold::Stretch, log::Address};

/// The form of the record.
const FORM: u8 = 1;

/// The hashes of a partition, and the base that has their records, if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The hashes.
    pub stretch: Stretch,
    /// The base.
    pub base: Option<File>,
}

/// A change of what a keyspace consists of. The files that come are synced, with their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The hot log goes on in a file, of which nothing need be written yet.
    Segment(LogFile),
    /// What lives of the hot log below an address is in a younger delta, or nothing does.
    Compact {
        /// The delta, if anything lives.
        comes: Option<File>,
        /// Where the hot log begins from now on.
        begin: Address,
        /// Up to where it is durable.
        durable: Address,
        /// See [`Structure`](super::Structure).
        index_bits: u8,
    },
    /// A partition becomes one or two, whose bases have all that deltas have that end at or below an address. Deltas
    /// that no partition needs any more go.
    Fold {
        /// As it was.
        goes: Part,
        /// Itself, or its halves.
        comes: Vec<Part>,
        /// Up to where deltas are in the bases that come.
        folded: Address,
    },
    /// One delta takes the place of neighbours, or none does, since nothing of them counts anywhere.
    Merge {
        /// Oldest first.
        goes: Vec<File>,
        /// The one in their place.
        comes: Option<File>,
    },
}

impl Change {
    /// The body of the log record, behind the keyspace's number.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(FORM);
        match self {
            Change::Segment(segment) => push_segment(w.u8(1), *segment),
            Change::Compact { comes, begin, durable, index_bits } => {
                File::encode(*comes, w.u8(2));
                w.u64(begin.get()).u64(durable.get()).u8(*index_bits);
            }
            Change::Fold { goes, comes, folded } => {
                push_part(w.u8(3), *goes);
                w.varint(comes.len() as u64);
                comes.iter().for_each(|part| push_part(&mut w, *part));
                w.u64(folded.get());
            }
            Change::Merge { goes, comes } => {
                w.u8(4).varint(goes.len() as u64);
                goes.iter().for_each(|file| File::encode(Some(*file), &mut w));
                File::encode(*comes, &mut w);
            }
        }
        w.finish()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(body: &[u8]) -> Result<Change, Malformed> {
        let mut r = Reader::new(body);
        r.version(FORM)?;
        let change = match r.u8()? {
            1 => Change::Segment(segment(&mut r)?),
            2 => Change::Compact {
                comes: File::decode(&mut r)?,
                begin: address(&mut r)?,
                durable: address(&mut r)?,
                index_bits: index_bits(&mut r)?,
            },
            3 => Change::Fold { goes: part(&mut r)?, comes: r.list(2, part)?, folded: address(&mut r)? },
            4 => Change::Merge { goes: r.list(MAX_DELTAS, File::decode_some)?, comes: File::decode(&mut r)? },
            _ => return r.fail("there is no such structural record of a hash keyspace"),
        };
        r.finish()?;
        Ok(change)
    }
}
