//! The root of an lsm keyspace in the manifest (`docs/format/lsm.md`, "Root").

use ecotone_substrate::codec::{Malformed, Reader, Writer};

use super::{options::LsmOptions, structure::Structure};

/// The form of the root.
const FORM: u8 = 1;

/// The bytes that stand for what a keyspace was told and what it has.
pub fn encode(options: LsmOptions, structure: &Structure) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(FORM);
    options.encode(&mut w);
    structure.encode(&mut w);
    w.finish()
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// If it is something else.
pub fn decode(bytes: &[u8]) -> Result<(LsmOptions, Structure), Malformed> {
    let mut r = Reader::new(bytes);
    r.version(FORM)?;
    let (options, structure) = (LsmOptions::decode(&mut r)?, Structure::decode(&mut r)?);
    r.finish()?;
    Ok((options, structure))
}
