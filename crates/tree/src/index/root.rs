//! The tree engine's root blob: the location of the checkpointed index.

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_PAGES,
};

const VERSION: u8 = 1;

/// Greatest height of an index. Every inner node but the last of a level has three children or more, so this is never
/// reached.
pub(super) const MAX_HEIGHT: u8 = 24;

/// A checkpointed index, as the manifest keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeRoot {
    /// Page of the root node.
    pub page: u32,
    /// Levels of nodes, from 1.
    pub height: u8,
    /// Entries in the leaves.
    pub segments: u64,
    /// Nodes in all.
    pub nodes: u64,
    /// Pages of the file at that time; the file never shrinks below.
    pub pages: u32,
}

impl TreeRoot {
    /// Encodes the blob.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VERSION).u8(self.height).u32(self.page).u32(self.pages).u64(self.segments).u64(self.nodes);
        w.finish()
    }

    /// Decodes a blob.
    pub fn decode(blob: &[u8]) -> Result<TreeRoot, Malformed> {
        let mut r = Reader::new(blob);
        r.version(VERSION)?;
        let (height, page, pages) = (r.u8()?, r.u32()?, r.u32()?);
        let root = TreeRoot { page, height, segments: r.u64()?, nodes: r.u64()?, pages };
        if !(1..=MAX_HEIGHT).contains(&height) || pages > MAX_PAGES || page >= pages {
            return r.fail("a tree root is out of bounds");
        }
        r.finish()?;
        Ok(root)
    }
}
