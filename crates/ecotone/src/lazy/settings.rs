//! The settings of an unwritten keyspace, as the manifest has them in place of a root, and the record of its first
//! write (`docs/format/manifest.md`).

use ecotone_substrate::codec::{Malformed, Reader, Writer};

/// Settings at most, and bytes of each name and value.
const MOST: u64 = 64;
const LONGEST: usize = 1024;

/// The bytes that stand for settings.
pub(crate) fn encode(settings: &[(String, String)]) -> Vec<u8> {
    let mut w = Writer::new();
    w.varint(settings.len() as u64);
    for (name, value) in settings {
        w.prefixed(name.as_bytes()).prefixed(value.as_bytes());
    }
    w.finish()
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// If it is something else.
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

/// How the record of a first write begins. Records of engines begin with a small number, so whoever does not know the
/// beginning of a keyspace can tell them from it.
const FIRST: &[u8] = b"ECOfirst";

/// The structural record of a first write, which left this root.
pub(super) fn encode_first(root: &[u8]) -> Vec<u8> {
    [FIRST, root].concat()
}

/// The root of a first write; `None` if the record is one of an engine.
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
