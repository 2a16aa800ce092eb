//! Version edits: the log records that change which tables an lsm keyspace has, and in which run or level each is
//! (`docs/format/lsm.md`, "Structural records").

use std::collections::BTreeSet;

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::{MAX_PAGED_RANGES, MAX_TABLES},
    table::FileRef,
};

use crate::manifest::{PagedRangeEdit, RunId};

/// The form of a record without edits of paged ranges.
const FORM: u8 = 1;
/// The form of a record with edits of paged ranges (`docs/format/adaptive.md`).
const WITH_PAGED_RANGES: u8 = 2;
/// The one kind of record.
const EDIT: u8 = 1;

/// The result of one flush, compaction or conversion. Added tables and their names are synced before the edit is
/// logged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// Tables that leave their run; the manifest has them.
    pub deleted: Vec<FileRef>,
    /// New tables, and tables of `deleted` that move to another run.
    pub added: Vec<(RunId, FileRef)>,
    /// Edits of paged ranges, applied after those of the tables.
    pub paged_ranges: Vec<PagedRangeEdit>,
}

impl VersionEdit {
    /// The body of the log record, behind the keyspace's number.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let form = if self.paged_ranges.is_empty() { FORM } else { WITH_PAGED_RANGES };
        w.u8(form).u8(EDIT).varint(self.deleted.len() as u64);
        self.deleted.iter().for_each(|file| FileRef::encode(Some(*file), &mut w));
        w.varint(self.added.len() as u64);
        for (run_id, file) in &self.added {
            run_id.encode(&mut w);
            FileRef::encode(Some(*file), &mut w);
        }
        if form == WITH_PAGED_RANGES {
            w.varint(self.paged_ranges.len() as u64);
            self.paged_ranges.iter().for_each(|edit| edit.encode(&mut w));
        }
        w.finish()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If it is something else.
    pub fn decode(body: &[u8]) -> Result<VersionEdit, Malformed> {
        let mut r = Reader::new(body);
        let form = r.version(WITH_PAGED_RANGES)?;
        if r.u8()? != EDIT {
            return r.fail("there is no such structural record of an lsm keyspace");
        }
        let most = MAX_TABLES as usize;
        let (deleted, added) = (r.list(most, FileRef::decode_some)?, r.list(most, decode_added)?);
        let paged_ranges =
            if form == WITH_PAGED_RANGES { r.list(MAX_PAGED_RANGES, PagedRangeEdit::decode)? } else { Vec::new() };
        if form == WITH_PAGED_RANGES && paged_ranges.is_empty() {
            return r.fail("a change of paged ranges changes none");
        }
        r.finish()?;
        Ok(VersionEdit { deleted, added, paged_ranges })
    }

    /// The tables that the manifest no longer has after the edit.
    pub fn dropped(&self) -> impl Iterator<Item = FileRef> {
        let added: BTreeSet<FileRef> = self.added.iter().map(|(_, file)| *file).collect();
        self.deleted.iter().copied().filter(move |file| !added.contains(file))
    }
}

fn decode_added(r: &mut Reader<'_>) -> Result<(RunId, FileRef), Malformed> {
    Ok((RunId::decode(r)?, FileRef::decode_some(r)?))
}
