//! The structural log record of a tree: removed segments, inserted segments, and overflow pages attached to segments
//! (`docs/format/tree-structure.md`).

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_KEY,
};

use super::index::{Attach, IndexEdit, Segment};

/// Version of the record's format.
const FORM: u8 = 2;
/// The version before, without production id and without attached overflow pages.
const OLD_FORM: u8 = 1;

/// A change of the index as the log stores it.
#[derive(Debug, PartialEq)]
pub(crate) struct LoggedEdit {
    /// Production id of the inserted base pages (decision 5).
    pub(crate) production: u32,
    pub(crate) change: IndexEdit,
}

impl LoggedEdit {
    /// The body of the log record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let IndexEdit { remove, insert, attach } = &self.change;
        let mut w = Writer::new();
        w.u8(FORM).u32(self.production);
        [remove.len(), insert.len(), attach.len()].iter().for_each(|count| {
            w.varint(*count as u64);
        });
        for lower in remove {
            w.prefixed(lower);
        }
        for (lower, segment) in insert {
            w.prefixed(lower);
            segment.encode(&mut w);
        }
        for Attach { lower, page, overflow } in attach {
            w.prefixed(lower).u32(*page).u32(*overflow);
        }
        w.finish()
    }

    /// Decodes the output of [`encode`](Self::encode).
    pub(crate) fn decode(body: &[u8]) -> Result<LoggedEdit, Malformed> {
        let mut r = Reader::new(body);
        let old = r.version(FORM)? == OLD_FORM;
        let production = if old { 0 } else { r.u32()? };
        let (removed, inserted) = (r.varint()?, r.varint()?);
        let attached = if old { 0 } else { r.varint()? };
        let mut change = IndexEdit::default();
        for _ in 0..removed {
            change.remove.push(r.prefixed(MAX_KEY)?.to_vec());
        }
        for _ in 0..inserted {
            let lower = r.prefixed(MAX_KEY)?.to_vec();
            change.insert.push((lower, Segment::decode(&mut r)?));
        }
        for _ in 0..attached {
            let lower = r.prefixed(MAX_KEY)?.to_vec();
            change.attach.push(Attach { lower, page: r.u32()?, overflow: r.u32()? });
        }
        r.finish()?;
        Ok(LoggedEdit { production, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Placement;

    #[test]
    fn a_change_comes_back_and_damage_is_found() {
        let pages = Segment::placed(8, 2, Placement::directory(b"k", [b"kk".to_vec()]));
        let change = IndexEdit {
            remove: vec![vec![], b"m".to_vec()],
            insert: vec![(vec![], Segment::new(7)), (b"k".to_vec(), pages)],
            attach: vec![Attach { lower: b"p".to_vec(), page: 3, overflow: 4 }],
        };
        let edit = LoggedEdit { production: 5, change };
        let body = edit.encode();
        assert_eq!(LoggedEdit::decode(&body).unwrap(), edit);
        for cut in 0..body.len() {
            assert!(LoggedEdit::decode(&body[..cut]).is_err(), "cut at {cut}");
        }
        assert!(LoggedEdit::decode(&[&body[..], &[0]].concat()).is_err());
    }
}
