//! The engine checkpoint of an adaptive keyspace in the manifest (`docs/format/adaptive.md`, "Root").

use ecotone_engine::options::by_number;
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
        let what = "an option of an adaptive keyspace is not known";
        let split = by_number(&Split::ALL, r.u8()?, &r, what)?;
        let page_fill = by_number(&PageFill::ALL, r.u8()?, &r, what)?;
        let insert = by_number(&Insert::ALL, r.u8()?, &r, what)?;
        let adapt = r.u8()?;
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
