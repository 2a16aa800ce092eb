//! The structural record of a tree: segments that go, segments that come (`docs/format/tree-structure.md`).

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_KEY,
};

use super::index::{Change, Segment};

/// The form of the record, for later ones.
const FORM: u8 = 1;

/// The body of the log record for a change of the index.
pub(crate) fn encode(change: &Change) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(FORM).varint(change.remove.len() as u64).varint(change.insert.len() as u64);
    for lower in &change.remove {
        w.prefixed(lower);
    }
    for (lower, segment) in &change.insert {
        w.prefixed(lower);
        segment.encode(&mut w);
    }
    w.finish()
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(body: &[u8]) -> Result<Change, Malformed> {
    let mut r = Reader::new(body);
    r.version(FORM)?;
    let (removed, inserted) = (r.varint()?, r.varint()?);
    let mut change = Change::default();
    for _ in 0..removed {
        change.remove.push(r.prefixed(MAX_KEY)?.to_vec());
    }
    for _ in 0..inserted {
        let lower = r.prefixed(MAX_KEY)?.to_vec();
        change.insert.push((lower, Segment::decode(&mut r)?));
    }
    r.finish()?;
    Ok(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_comes_back_and_damage_is_found() {
        let change = Change {
            remove: vec![vec![], b"m".to_vec()],
            insert: vec![(vec![], Segment::new(7)), (b"k".to_vec(), Segment { page: 8, overflow: 9 })],
        };
        let body = encode(&change);
        assert_eq!(decode(&body).unwrap(), change);
        for cut in 0..body.len() {
            assert!(decode(&body[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(&[&body[..], &[0]].concat()).is_err());
    }
}
