//! The files of a hash keyspace, as far as checkpoint and log name them (repair.md, "Hash keyspaces").

use ecotone_engine::files::RECORD;
use ecotone_substrate::{Error, Result};

use crate::{
    blob,
    structure::{HashManifest, ManifestEdit},
};

/// The files of a keyspace during the replay of structural records.
#[derive(Debug)]
pub struct Layout {
    manifest: HashManifest,
    /// Whether the keyspace's first state is known and all records so far fit to it.
    fits: bool,
    has_durable: bool,
}

/// The files of a keyspace.
#[derive(Debug)]
pub struct Known {
    /// The last known state.
    pub(super) manifest: HashManifest,
    /// Whether the state names all live files.
    pub(super) is_settled: bool,
    /// Whether the durable end of the hot log is known. Checkpoints hold it.
    pub(super) has_durable: bool,
}

impl Layout {
    /// The state in the checkpoint of the manifest.
    ///
    /// # Errors
    /// `Corruption` if it is no checkpoint, `NewerFormat`.
    pub fn open(keyspace: u32, blob: &[u8]) -> Result<Layout> {
        let place = format!("the root of keyspace {keyspace} in the manifest");
        let (_, manifest) = blob::decode(blob).map_err(|malformed| malformed.at(place, 0))?;
        Ok(Layout { manifest, fits: true, has_durable: true })
    }

    /// The state of a logged keyspace whose log has all records from its beginning on.
    pub fn empty() -> Layout {
        Layout { fits: true, ..Layout::unknown() }
    }

    /// The state of a keyspace whose beginning is unknown.
    pub fn unknown() -> Layout {
        Layout { manifest: HashManifest::new(0), fits: false, has_durable: false }
    }

    /// Replays a structural record. After one that does not fit, the state stays at the last known one.
    ///
    /// # Errors
    /// `Corruption` if it is no structural record, or does not fit; `NewerFormat`.
    pub fn replay(&mut self, body: &[u8]) -> Result<()> {
        if !self.fits {
            return Ok(());
        }
        self.fits = false;
        let change = ManifestEdit::decode(body).map_err(|malformed| malformed.at(RECORD, 0))?;
        (self.manifest, _) = self.manifest.after(&change).map_err(|what| Error::corruption(RECORD, 0, what))?;
        self.fits = true;
        Ok(())
    }

    /// The files. `is_whole` says that no record of the log is missing.
    pub fn known(self, is_whole: bool) -> Known {
        let Layout { manifest, fits, has_durable } = self;
        Known { manifest, is_settled: fits && is_whole, has_durable }
    }
}

impl Known {
    /// Whether the state names all live files.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }
}
