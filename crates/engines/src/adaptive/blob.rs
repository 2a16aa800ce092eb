//! The root of an adaptive keyspace in the manifest (`docs/format/adaptive.md`, "Root").

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_MANIFEST,
};

use super::{insert::Insert, options::MOST_ADAPT};
use crate::lsm::structure::Covers;

/// The form of the root.
const FORM: u8 = 1;
/// Of `split` and `page_fill` what there is so far: side, even. `insert` and `adapt` follow.
const CHOICES: [u8; 2] = [0, 0];

/// What a checkpoint leaves of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) insert: Insert,
    pub(super) adapt: u8,
    pub(super) covers: Covers,
    /// The roots of the parts.
    pub(super) lsm: Vec<u8>,
    pub(super) tree: Vec<u8>,
}

impl Blob {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(FORM).bytes(&CHOICES).u8(self.insert.code()).u8(self.adapt);
        self.covers.encode(&mut w);
        w.prefixed(&self.lsm).prefixed(&self.tree);
        w.finish()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(super) fn decode(bytes: &[u8]) -> Result<Blob, Malformed> {
        let mut r = Reader::new(bytes);
        r.version(FORM)?;
        if r.array()? != CHOICES {
            return r.fail("an option of an adaptive keyspace is not known");
        }
        let Some(insert) = Insert::of(r.u8()?) else {
            return r.fail("an option of an adaptive keyspace is not known");
        };
        let adapt = r.u8()?;
        if adapt > MOST_ADAPT {
            return r.fail("an adaptive keyspace adapts for more than all of the time");
        }
        let covers = Covers::decode(&mut r)?;
        let (lsm, tree) = (r.prefixed(MAX_MANIFEST)?.to_vec(), r.prefixed(MAX_MANIFEST)?.to_vec());
        r.finish()?;
        Ok(Blob { insert, adapt, covers, lsm, tree })
    }
}
