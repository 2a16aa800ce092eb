//! The settings of an unwritten keyspace, which the manifest stores in place of an engine checkpoint, and the record of
//! the first write (`docs/format/manifest.md`).

use ecotone_substrate::codec::{Malformed, Reader, Writer};

/// The most settings, and the most bytes of a name and of a value.
const MOST: u64 = 64;
const LONGEST: usize = 1024;

/// Encodes settings.
pub(crate) fn encode(settings: &[(String, String)]) -> Vec<u8> {
    let mut w = Writer::new();
    w.varint(settings.len() as u64);
    for (name, value) in settings {
        w.prefixed(name.as_bytes()).prefixed(value.as_bytes());
    }
    w.finish()
}

/// Decodes the output of [`encode`].
///
/// # Errors
/// If the bytes are malformed.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
    let mut r = Reader::new(bytes);
    let count = r.varint()?;
    if count > MOST {
        return r.fail("a keyspace has too many settings");
    }
    let mut settings = Vec::new();
    for _ in 0..count {
        let (name, value) = (text(&mut r)?, text(&mut r)?);
        settings.push((name, value));
    }
    r.finish()?;
    Ok(settings)
}

/// The prefix of the record of a first write. Records of engines begin with a small number, so the two can be told
/// apart without the keyspace's history.
const FIRST: &[u8] = b"ECOfirst";

/// Encodes the structural record of a first write.
pub(super) fn encode_first(root: &[u8]) -> Vec<u8> {
    [FIRST, root].concat()
}

/// The engine checkpoint of a first write. `None` if the record is one of an engine.
pub(crate) fn first_root(body: &[u8]) -> Option<&[u8]> {
    body.strip_prefix(FIRST)
}

fn text(r: &mut Reader<'_>) -> Result<String, Malformed> {
    match std::str::from_utf8(r.prefixed(LONGEST)?) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => r.fail("a setting is not UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_and_nothing_else_does() {
        let settings = [("fill".to_owned(), "80".to_owned()), ("model".to_owned(), String::new())];
        let bytes = encode(&settings);
        assert_eq!(decode(&bytes).unwrap(), settings);
        assert_eq!(decode(&encode(&[])).unwrap(), []);
        (0..bytes.len()).for_each(|cut| assert!(decode(&bytes[..cut]).is_err()));
        assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(decode(&[65]).is_err());
    }
}
