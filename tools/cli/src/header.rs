//! The first line of a dump. `load` recognises a dump by it.
//!
//! The line is `#ecotone dump 1`, followed by the options of the encoding: `#ecotone dump 1 --u64 --hex`. It has no
//! tab, and the line of a record has one. So no record looks like a header: not even one whose key is the text of a
//! header.

use crate::text::Encoding;

const START: &[u8] = b"#ecotone dump ";
const VERSION: &str = "1";

/// The header of a dump with this encoding.
pub(crate) fn of(encoding: Encoding) -> Vec<u8> {
    [START, VERSION.as_bytes(), encoding.options().as_bytes()].concat()
}

/// The encoding of the dump that begins with `line`; `None` if that is no header.
pub(crate) fn parse(line: &[u8]) -> Option<Result<Encoding, String>> {
    let rest = line.strip_prefix(START).filter(|rest| !rest.contains(&b'\t'))?;
    let all = [(false, false), (true, false), (false, true), (true, true)].map(|(hex, u64)| Encoding { hex, u64 });
    let found = all.into_iter().find(|&encoding| of(encoding) == line);
    let rest = String::from_utf8_lossy(rest).into_owned();
    Some(found.ok_or_else(|| {
        format!("is a dump of the form {rest:?}, which this version of Ecotone does not know; load it with a newer one")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_tells_the_encoding_and_is_no_record() {
        for (hex, u64, line) in [(false, false, "#ecotone dump 1"), (true, true, "#ecotone dump 1 --u64 --hex")] {
            assert_eq!(of(Encoding { hex, u64 }), line.as_bytes());
            assert_eq!(parse(line.as_bytes()), Some(Ok(Encoding { hex, u64 })));
        }
        assert!(parse(b"#ecotone dump 2").is_some_and(|parsed| parsed.is_err_and(|why| why.contains("newer"))));
        for line in ["", "#ecotone", "#ecotone dump 1\tvalue", "# a comment"] {
            assert!(parse(line.as_bytes()).is_none(), "{line:?}");
        }
    }
}
