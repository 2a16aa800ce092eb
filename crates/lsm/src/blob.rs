//! The encoding of an LSM keyspace's options and manifest as its root in a checkpoint (`docs/format/lsm.md`, "Root").

use ecotone_substrate::codec::{Malformed, Reader, Writer};

use crate::{manifest::LevelManifest, options::LsmOptions};

/// The version of the format.
const FORM: u8 = 1;

/// Encodes the options and the manifest of a keyspace.
pub fn encode(options: LsmOptions, manifest: &LevelManifest) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(FORM);
    options.encode(&mut w);
    manifest.encode(&mut w);
    w.finish()
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// If the bytes are malformed.
pub fn decode(bytes: &[u8]) -> Result<(LsmOptions, LevelManifest), Malformed> {
    let mut r = Reader::new(bytes);
    r.version(FORM)?;
    let (options, manifest) = (LsmOptions::decode(&mut r)?, LevelManifest::decode(&mut r)?);
    r.finish()?;
    Ok((options, manifest))
}
