//! The engine checkpoint of an adaptive keyspace in the manifest (`docs/format/adaptive.md`, "Root").

use ecotone_lsm::{Split, manifest::PagedRanges};
use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_MANIFEST,
};
use ecotone_tree::PageFill;

use super::{AdaptiveOptions, insert::Insert, options::MOST_ADAPT};

/// Version of the encoding.
const FORM: u8 = 1;

/// The checkpoint of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The options, without those of the tables and pages, which are in `lsm` and `tree`.
    pub options: AdaptiveOptions,
    /// The ranges that have pages.
    pub paged_ranges: PagedRanges,
    /// The checkpoint of the tables.
    pub lsm: Vec<u8>,
    /// The checkpoint of the pages.
    pub tree: Vec<u8>,
}

impl Blob {
    /// The encoded form.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let AdaptiveOptions { split, page_fill, insert, adapt, .. } = self.options;
        w.u8(FORM).u8(split as u8).u8(page_fill as u8).u8(insert as u8).u8(adapt);
        self.paged_ranges.encode(&mut w);
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
        let (split, page_fill) = (one_of(Split::ALL, &mut r)?, one_of(PageFill::ALL, &mut r)?);
        let (insert, adapt) = (one_of(Insert::ALL, &mut r)?, r.u8()?);
        if adapt > MOST_ADAPT {
            return r.fail("an adaptive keyspace adapts for more than all of the time");
        }
        let options = AdaptiveOptions { split, page_fill, insert, adapt, ..AdaptiveOptions::default() };
        let paged_ranges = PagedRanges::decode(&mut r)?;
        let (lsm, tree) = (r.prefixed(MAX_MANIFEST)?.to_vec(), r.prefixed(MAX_MANIFEST)?.to_vec());
        r.finish()?;
        Ok(Blob { options, paged_ranges, lsm, tree })
    }
}

/// A value of an option, by its number.
fn one_of<T: Copy, const N: usize>(values: [T; N], r: &mut Reader<'_>) -> Result<T, Malformed> {
    match values.get(usize::from(r.u8()?)) {
        Some(value) => Ok(*value),
        None => r.fail("an option of an adaptive keyspace is not known"),
    }
}
