//! The structural records of an lsm keyspace: changes of which tables there are and where, as the log has them (`docs/format/lsm.md`, "Structural records").

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_TABLES,
    table::File,
};

use super::Place;

/// The form of the record.
const FORM: u8 = 1;
/// The one kind of record.
const EDIT: u8 = 1;

/// One flush or compaction. The tables that come are synced, with their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Tables that are there.
    pub goes: Vec<File>,
    /// Tables that are not, or that go from elsewhere.
    pub comes: Vec<(Place, File)>,
}

impl Change {
    /// The body of the log record, behind the keyspace's number.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(FORM).u8(EDIT).varint(self.goes.len() as u64);
        self.goes.iter().for_each(|file| File::encode(Some(*file), &mut w));
        w.varint(self.comes.len() as u64);
        for (place, file) in &self.comes {
            place.encode(&mut w);
            File::encode(Some(*file), &mut w);
        }
        w.finish()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If it is something else.
    pub fn decode(body: &[u8]) -> Result<Change, Malformed> {
        let mut r = Reader::new(body);
        r.version(FORM)?;
        if r.u8()? != EDIT {
            return r.fail("there is no such structural record of an lsm keyspace");
        }
        let most = MAX_TABLES as usize;
        let change = Change { goes: r.list(most, File::decode_some)?, comes: r.list(most, placed)? };
        r.finish()?;
        Ok(change)
    }

    /// The tables that are nowhere after it.
    pub fn drops(&self) -> impl Iterator<Item = File> {
        let moves = |file: &File| self.comes.iter().any(|(_, comes)| comes == file);
        self.goes.iter().copied().filter(move |file| !moves(file))
    }
}

fn placed(r: &mut Reader<'_>) -> Result<(Place, File), Malformed> {
    Ok((Place::decode(r)?, File::decode_some(r)?))
}
