//! The header page of a run: the identity of the file, and its layout.

use std::{result, sync::Arc};

use ecotone_substrate::{
    Result,
    codec::{Malformed, Reader},
    environment::Environment,
    limits::PAGE,
    storage::File,
    table::{self, FileIdentity},
};

use super::{fences, hash_range::HashRange, tags::TagsForm};

const FORMAT: table::Header = table::Header { role: table::FileRole::Table, magic: b"ECOhsrun", version: 2 };
/// Blocks are from 1024 to 4096 bytes long.
pub(super) const BLOCK_BITS: [u8; 3] = [10, 11, 12];

/// The kind of a run, which tells which records it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// Records of all hashes, with tombstones: those that were live in the hot log between two addresses.
    Delta {
        /// The first of these addresses.
        from: u64,
        /// The address behind the last.
        until: u64,
    },
    /// All records of one hash range except those in deltas.
    Base(HashRange),
}

impl RunKind {
    /// The hashes that keys of the run may have.
    pub fn hash_range(self) -> HashRange {
        match self {
            RunKind::Delta { .. } => HashRange::ALL,
            RunKind::Base(hash_range) => hash_range,
        }
    }

    fn is_delta(self) -> bool {
        matches!(self, RunKind::Delta { .. })
    }
}

/// The fields of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: RunKind,
    /// Bytes of a block.
    pub(super) block: usize,
    pub(super) blocks: u32,
    /// Records, tombstones included.
    pub(super) records: u64,
    pub(super) tombstones: u64,
    pub(super) fences_checksum: u32,
    pub(super) tags: TagsForm,
}

impl Header {
    /// Offset of the fences; the blocks lie from byte 4096 up to there.
    pub(super) fn fences_at(&self) -> u64 {
        let blocks = u64::from(self.blocks).saturating_mul(self.block as u64);
        blocks.saturating_add(PAGE as u64).checked_next_multiple_of(PAGE as u64).unwrap_or(u64::MAX)
    }

    /// Offset of the tags, or of the end if there are none.
    pub(super) fn tags_at(&self) -> u64 {
        self.fences_at().saturating_add(fences::pages(self.blocks) as u64 * PAGE as u64)
    }

    /// Length of the file.
    pub(super) fn end(&self) -> u64 {
        let pages = if self.kind.is_delta() { self.tags.pages(self.records) } else { 0 };
        self.tags_at().saturating_add(pages.saturating_mul(PAGE as u64))
    }

    /// Encodes the header into a page.
    pub(super) fn encode(&self, name: FileIdentity, page: &mut [u8]) {
        let mut w = FORMAT.begin(name);
        let (hash_range, block) = (self.kind.hash_range(), self.block.trailing_zeros() as u8);
        w.u8(if self.kind.is_delta() { 1 } else { 2 }).u8(block).u8(hash_range.bits()).u8(hash_range.number());
        w.u32(self.blocks).u64(self.records).u64(self.tombstones);
        let (from, until) = if let RunKind::Delta { from, until } = self.kind { (from, until) } else { (0, 0) };
        w.u64(from).u64(until).u64(self.fences_at()).u64(self.tags_at());
        let (whole, paged) = if let TagsForm::Whole(checksum) = self.tags { (checksum, 0) } else { (0, 1) };
        w.u32(self.fences_checksum).u32(whole).u8(paged);
        FORMAT.seal(name, &w, page);
    }

    /// Opens the file and checks its identity.
    pub(super) fn open(environment: &Environment, name: FileIdentity) -> Result<(Arc<dyn File>, Header)> {
        FORMAT.open_whole(environment, name, fields, Header::end)
    }

    /// Reads the header and checks the file's identity, but not its length.
    pub(super) fn open_part(environment: &Environment, name: FileIdentity) -> Result<Header> {
        FORMAT.open(environment, name, fields).map(|(_, header)| header)
    }

    fn plausible(&self) -> result::Result<(), Malformed> {
        let fail = |offset, what| Err(Malformed::new(offset, what));
        if self.blocks == 0 || self.records < u64::from(self.blocks) {
            return fail(68, "a run has no blocks, or fewer records than blocks");
        }
        if self.tombstones > if self.kind.is_delta() { self.records } else { 0 } {
            return fail(80, "a run has more tombstones than it can");
        }
        Ok(())
    }
}

fn fields(r: &mut Reader<'_>) -> result::Result<Header, Malformed> {
    let (kind, block) = (r.u8()?, r.u8()?);
    let Some(hash_range) = HashRange::new(r.u8()?, r.u8()?) else { return r.fail("there is no such partition") };
    let (blocks, records, tombstones) = (r.u32()?, r.u64()?, r.u64()?);
    let (from, until) = (r.u64()?, r.u64()?);
    let kind = match kind {
        1 if hash_range == HashRange::ALL && from < until => RunKind::Delta { from, until },
        2 if (from, until) == (0, 0) => RunKind::Base(hash_range),
        _ => return r.fail("there is no such kind of run"),
    };
    if !BLOCK_BITS.contains(&block) {
        return r.fail("there are no blocks of this size");
    }
    let offsets = (r.u64()?, r.u64()?);
    let (fences_checksum, whole) = (r.u32()?, r.u32()?);
    // In version 1 the rest of the page is zero.
    let tags = match r.u8()? {
        0 => TagsForm::Whole(whole),
        1 if whole == 0 => TagsForm::Paged,
        _ => return r.fail("there are no tags of this form"),
    };
    let header = Header { kind, block: 1 << block, blocks, records, tombstones, fences_checksum, tags };
    if offsets != (header.fences_at(), header.tags_at()) {
        return r.fail("fences and tags are not where they must be");
    }
    header.plausible()?;
    Ok(header)
}
