//! The structural records of an lsm keyspace: changes of which tables there are and where, as the log has them
//! (`docs/format/lsm.md`, "Structural records").

use std::collections::BTreeSet;

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::{MAX_COVERS, MAX_TABLES},
    table::File,
};

use super::{CoverEdit, Place};

/// The form of a record that leaves covers as they are.
const FORM: u8 = 1;
/// The form of one that does not (`docs/format/adaptive.md`).
const WITH_COVERS: u8 = 2;
/// The one kind of record.
const EDIT: u8 = 1;

/// One flush or compaction. The tables that come are synced, with their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Tables that are there.
    pub goes: Vec<File>,
    /// Tables that are not, or that go from elsewhere.
    pub comes: Vec<(Place, File)>,
    /// What becomes of covers, when the tables have come.
    pub covers: Vec<CoverEdit>,
}

impl Change {
    /// The body of the log record, behind the keyspace's number.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let form = if self.covers.is_empty() { FORM } else { WITH_COVERS };
        w.u8(form).u8(EDIT).varint(self.goes.len() as u64);
        self.goes.iter().for_each(|file| File::encode(Some(*file), &mut w));
        w.varint(self.comes.len() as u64);
        for (place, file) in &self.comes {
            place.encode(&mut w);
            File::encode(Some(*file), &mut w);
        }
        if form == WITH_COVERS {
            w.varint(self.covers.len() as u64);
            self.covers.iter().for_each(|edit| edit.encode(&mut w));
        }
        w.finish()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If it is something else.
    pub fn decode(body: &[u8]) -> Result<Change, Malformed> {
        let mut r = Reader::new(body);
        let form = r.version(WITH_COVERS)?;
        if r.u8()? != EDIT {
            return r.fail("there is no such structural record of an lsm keyspace");
        }
        let most = MAX_TABLES as usize;
        let (goes, comes) = (r.list(most, File::decode_some)?, r.list(most, placed)?);
        let covers = if form == WITH_COVERS { r.list(MAX_COVERS, CoverEdit::decode)? } else { Vec::new() };
        if form == WITH_COVERS && covers.is_empty() {
            return r.fail("a change of covers changes none");
        }
        r.finish()?;
        Ok(Change { goes, comes, covers })
    }

    /// The tables that are nowhere after it.
    pub fn drops(&self) -> impl Iterator<Item = File> {
        let comes: BTreeSet<File> = self.comes.iter().map(|(_, file)| *file).collect();
        self.goes.iter().copied().filter(move |file| !comes.contains(file))
    }
}

fn placed(r: &mut Reader<'_>) -> Result<(Place, File), Malformed> {
    Ok((Place::decode(r)?, File::decode_some(r)?))
}
