//! The structural record of the first write to a keyspace (`docs/format/manifest.md`).

/// The prefix of the record. Records of engines begin with a small number, so the two can be told apart without the
/// keyspace's history.
const FIRST: &[u8] = b"ECOfirst";

/// Encodes the record of a first write, with the engine checkpoint that follows it.
pub(super) fn encode(root: &[u8]) -> Vec<u8> {
    [FIRST, root].concat()
}

/// The engine checkpoint of a first write. `None` if the record is one of an engine.
pub(crate) fn first_root(body: &[u8]) -> Option<&[u8]> {
    body.strip_prefix(FIRST)
}
