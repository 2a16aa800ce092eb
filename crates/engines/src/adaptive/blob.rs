//! The root of an adaptive keyspace in the manifest (`docs/format/adaptive.md`, "Root").

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_MANIFEST,
};

use super::{AdaptiveOptions, choice::Choice, options::MOST_ADAPT};
use crate::lsm::structure::Covers;

/// The form of the root.
const FORM: u8 = 1;

/// What a checkpoint leaves of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// But for those of the parts, which their roots have.
    pub options: AdaptiveOptions,
    /// Where some tables do not count.
    pub covers: Covers,
    /// The root of the tables.
    pub lsm: Vec<u8>,
    /// The root of the pages.
    pub tree: Vec<u8>,
}

impl Blob {
    /// The bytes that stand for it.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let AdaptiveOptions { split, page_fill, insert, adapt, .. } = self.options;
        w.u8(FORM).u8(split.code()).u8(page_fill.code()).u8(insert.code()).u8(adapt);
        self.covers.encode(&mut w);
        w.prefixed(&self.lsm).prefixed(&self.tree);
        w.finish()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If it is something else.
    pub fn decode(bytes: &[u8]) -> Result<Blob, Malformed> {
        let mut r = Reader::new(bytes);
        r.version(FORM)?;
        let (split, page_fill, insert, adapt) = (choice(&mut r)?, choice(&mut r)?, choice(&mut r)?, r.u8()?);
        if adapt > MOST_ADAPT {
            return r.fail("an adaptive keyspace adapts for more than all of the time");
        }
        let options = AdaptiveOptions { split, page_fill, insert, adapt, ..AdaptiveOptions::default() };
        let covers = Covers::decode(&mut r)?;
        let (lsm, tree) = (r.prefixed(MAX_MANIFEST)?.to_vec(), r.prefixed(MAX_MANIFEST)?.to_vec());
        r.finish()?;
        Ok(Blob { options, covers, lsm, tree })
    }
}

/// A value of an option.
fn choice<C: Choice>(r: &mut Reader<'_>) -> Result<C, Malformed> {
    match C::of(r.u8()?) {
        Some(value) => Ok(value),
        None => r.fail("an option of an adaptive keyspace is not known"),
    }
}
