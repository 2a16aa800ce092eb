//! What a hash keyspace consists of, as root and log tell, or as far as they do (decision 7, "Hash keyspaces").

use ecotone_substrate::{Error, Result};

use crate::{
    files::RECORD,
    hash::{
        blob,
        structure::{Change, Structure},
    },
};

/// The files of a keyspace while structural records are replayed.
#[derive(Debug)]
pub struct Layout {
    structure: Structure,
    /// Whether all records so far fit to how the keyspace began, and that is known.
    fits: bool,
    has_durable: bool,
}

/// The files of a keyspace.
#[derive(Debug)]
pub struct Known {
    /// As they were when that was known last.
    pub(super) structure: Structure,
    /// Whether these are all that count.
    pub(super) is_settled: bool,
    /// Whether it is known up to where the hot log is durable: that stands in roots.
    pub(super) has_durable: bool,
}

impl Layout {
    /// As the root in the manifest has it.
    ///
    /// # Errors
    /// `Corruption` if it is no root, `NewerFormat`.
    pub fn open(keyspace: u32, blob: &[u8]) -> Result<Layout> {
        let place = format!("the root of keyspace {keyspace} in the manifest");
        let (_, structure) = blob::decode(blob).map_err(|malformed| malformed.at(place, 0))?;
        Ok(Layout { structure, fits: true, has_durable: true })
    }

    /// That of a logged keyspace of which the log has all records from its beginning on.
    pub fn empty() -> Layout {
        Layout { fits: true, ..Layout::unknown() }
    }

    /// That of a keyspace whose beginning nobody knows.
    pub fn unknown() -> Layout {
        Layout { structure: Structure::new(0), fits: false, has_durable: false }
    }

    /// Replays a structural record. One that does not fit what is known leaves it at that.
    ///
    /// # Errors
    /// `Corruption` if it is none, or does not fit; `NewerFormat`.
    pub fn replay(&mut self, body: &[u8]) -> Result<()> {
        if !self.fits {
            return Ok(());
        }
        self.fits = false;
        let change = Change::decode(body).map_err(|malformed| malformed.at(RECORD, 0))?;
        (self.structure, _) = self.structure.after(&change).map_err(|what| Error::corruption(RECORD, 0, what))?;
        self.fits = true;
        Ok(())
    }

    /// The files. `is_whole` says that no record of the log is missing.
    pub fn known(self, is_whole: bool) -> Known {
        let Layout { structure, fits, has_durable } = self;
        Known { structure, is_settled: fits && is_whole, has_durable }
    }
}

impl Known {
    /// Whether these are all files that count.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }
}
