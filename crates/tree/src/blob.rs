//! The root of a tree in the manifest (`docs/format/tree-structure.md`, "Root").

use ecotone_substrate::codec::{Malformed, Reader, Writer};

use super::{TreeOptions, index::TreeRoot};

/// Version of the root's format. The format before had no version byte: it began with the option `fill`, which is at
/// least 50.
const FORM: u8 = 2;
/// Bytes of options in the format before.
const OLD_OPTIONS: usize = 2;

/// The durable description of a tree that a checkpoint writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) options: TreeOptions,
    /// The highest production id allocated.
    pub(crate) production: u32,
    pub(crate) index: TreeRoot,
}

impl Blob {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(FORM);
        self.options.encode(&mut w);
        w.u32(self.production).bytes(&self.index.encode());
        w.finish()
    }

    /// Decodes the output of [`encode`](Self::encode).
    pub(crate) fn decode(bytes: &[u8]) -> Result<Blob, Malformed> {
        if let Some(([fill, neighbours], index)) =
            bytes.split_first_chunk::<OLD_OPTIONS>().filter(|(options, _)| options[0] >= 50)
        {
            let options = TreeOptions { fill: *fill, neighbours: *neighbours, ..TreeOptions::default() };
            return Ok(Blob { options: options.checked()?, production: 0, index: TreeRoot::decode(index)? });
        }
        let mut r = Reader::new(bytes);
        r.version(FORM)?;
        let (options, production) = (TreeOptions::decode(&mut r)?, r.u32()?);
        let index = TreeRoot::decode(&bytes[r.position()..])?;
        Ok(Blob { options, production, index })
    }
}
