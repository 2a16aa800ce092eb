//! Keys and values as people and other programs read and write them.
//!
//! In lines of text a tab, a newline, a carriage return and a backslash are `\t`, `\n`, `\r` and `\\`; other control
//! characters and bytes that are not UTF-8 are `\xNN`. In JSON a byte string is a string under its name if it is UTF-8,
//! else its hexadecimal digits under the name with `_hex`.

use clap::Args;
use ecotone::limits::{MAX_KEY, MAX_RECORD};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// How keys and values are written in arguments, input and output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub(crate) struct Encoding {
    /// Keys and values are hexadecimal digits
    #[arg(long)]
    pub(crate) hex: bool,
    /// Keys are decimal 64-bit integers, stored as 8 bytes, the highest first, as `load` stores integer sets
    #[arg(long)]
    pub(crate) u64: bool,
}

impl Encoding {
    /// The command-line options that select this encoding, each with a space before it.
    pub(crate) fn options(self) -> String {
        [(self.u64, " --u64"), (self.hex, " --hex")].iter().filter(|(on, _)| *on).map(|(_, option)| *option).collect()
    }

    /// The bytes of a key given as an argument.
    pub(crate) fn key(self, argument: &str) -> Result<Vec<u8>, Failure> {
        self.decode_key(argument.as_bytes().to_vec())
            .map_err(|why| Failure::Usage(format!("the key {argument:?} {why}")))
    }

    /// The bytes of a value given as an argument.
    pub(crate) fn value(self, argument: &str) -> Result<Vec<u8>, Failure> {
        self.decode_value(argument.as_bytes().to_vec())
            .map_err(|why| Failure::Usage(format!("the value {argument:?} {why}")))
    }

    /// The bytes of a key from unescaped text, or the error.
    pub(crate) fn decode_key(self, text: Vec<u8>) -> Result<Vec<u8>, &'static str> {
        if !self.u64 {
            return self.decode_value(text);
        }
        let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<u64>().ok());
        number.map(|number| number.to_be_bytes().to_vec()).ok_or("is not a decimal integer of 64 bits")
    }

    /// The bytes of a value from unescaped text, or the error.
    pub(crate) fn decode_value(self, text: Vec<u8>) -> Result<Vec<u8>, &'static str> {
        if !self.hex {
            return Ok(text);
        }
        parse_hex(&text).ok_or("is not an even number of hexadecimal digits")
    }

    /// A key for a line of text.
    pub(crate) fn key_text(self, key: &[u8]) -> Result<Vec<u8>, Failure> {
        if self.u64 { Ok(integer(key)?.to_string().into_bytes()) } else { Ok(self.value_text(key)) }
    }

    /// A value for a line of text.
    pub(crate) fn value_text(self, value: &[u8]) -> Vec<u8> {
        if self.hex { hex(value).into_bytes() } else { escape(value) }
    }

    /// Adds a key to a JSON object.
    pub(crate) fn json_key(self, object: &mut Map<String, Value>, key: &[u8]) -> Result<(), Failure> {
        if self.u64 {
            object.insert("key".to_owned(), integer(key)?.into());
        } else {
            self.json_bytes(object, "key", key);
        }
        Ok(())
    }

    /// Adds a byte string to a JSON object.
    pub(crate) fn json_bytes(self, object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(text) if !self.hex => object.insert(name.to_owned(), text.into()),
            _ => object.insert(format!("{name}_hex"), hex(bytes).into()),
        };
    }

    /// A record as a JSON object.
    pub(crate) fn json_record(self, key: &[u8], value: &[u8]) -> Result<Value, Failure> {
        let mut object = Map::new();
        self.json_key(&mut object, key)?;
        self.json_bytes(&mut object, "value", value);
        Ok(Value::Object(object))
    }
}

/// Returns an error that names the limit, if a record exceeds one.
pub(crate) fn check_record(key: &[u8], value: &[u8]) -> Result<(), String> {
    let (key, record) = (key.len(), key.len() + value.len());
    match () {
        () if key == 0 => Err("the key is empty".to_owned()),
        () if key > MAX_KEY => Err(format!("the key has {key} bytes, and the limit is {MAX_KEY}")),
        () if record > MAX_RECORD => Err(format!("key and value have {record} bytes, and the limit is {MAX_RECORD}")),
        () => Ok(()),
    }
}

/// Reverses [`escape`]; the error says what is wrong.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'\\' { unescape_one(&mut rest)? } else { byte });
    }
    Ok(bytes)
}

fn unescape_one(rest: &mut impl Iterator<Item = u8>) -> Result<u8, &'static str> {
    match rest.next() {
        Some(b't') => Ok(b'\t'),
        Some(b'n') => Ok(b'\n'),
        Some(b'r') => Ok(b'\r'),
        Some(b'\\') => Ok(b'\\'),
        Some(b'x') => match (rest.next().and_then(digit), rest.next().and_then(digit)) {
            (Some(high), Some(low)) => Ok(high << 4 | low),
            _ => Err("has \\x without two hexadecimal digits"),
        },
        _ => Err("has a backslash that does not begin \\t, \\n, \\r, \\\\ or \\xNN"),
    }
}

/// Bytes as one line of text.
pub(crate) fn escape(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| escape_char(&mut text, c));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text.into_bytes()
}

fn escape_char(text: &mut String, c: char) {
    match c {
        '\t' => text.push_str("\\t"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\\' => text.push_str("\\\\"),
        c if c.is_control() => {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")))
        }
        c => text.push(c),
    }
}

fn integer(key: &[u8]) -> Result<u64, Failure> {
    let wrong =
        || Failure::Told(format!("the key 0x{} is no integer of 8 bytes; leave out --u64 to see such keys", hex(key)));
    key.try_into().map(u64::from_be_bytes).map_err(|_| wrong())
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hex(text: &[u8]) -> Option<Vec<u8>> {
    let pairs = text.chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_a_line() {
        let all: Vec<u8> = (0..=u8::MAX).chain("a\tgrüße\\x41\u{85}".bytes()).collect();
        let line = escape(&all);
        assert!(!line.iter().any(|byte| matches!(byte, b'\t' | b'\n' | b'\r')));
        assert_eq!(unescape(&line), Ok(all));
    }

    #[test]
    fn bad_escapes_are_named() {
        for bad in ["\\", "\\q", "\\x", "\\x1", "\\xzz"] {
            assert!(unescape(bad.as_bytes()).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn hex_and_integers() {
        let hex = Encoding { hex: true, u64: false };
        assert_eq!(hex.decode_key(b"00fF".to_vec()), Ok(vec![0, 255]));
        assert!(hex.decode_key(b"0".to_vec()).is_err());
        assert!(hex.decode_key(b"0g".to_vec()).is_err());
        let integers = Encoding { hex: false, u64: true };
        assert_eq!(integers.decode_key(b"258".to_vec()), Ok(vec![0, 0, 0, 0, 0, 0, 1, 2]));
        assert!(integers.decode_key(b"-1".to_vec()).is_err());
        assert!(integers.decode_key(b"18446744073709551616".to_vec()).is_err());
        assert_eq!(integers.key_text(&258u64.to_be_bytes()).ok(), Some(b"258".to_vec()));
        assert!(integers.key_text(b"short").is_err());
    }

    #[test]
    fn json_marks_bytes_that_are_no_text() {
        let record = Encoding::default().json_record(b"key", &[0xff]).map(|record| record.to_string());
        assert_eq!(record.ok().as_deref(), Some(r#"{"key":"key","value_hex":"ff"}"#));
    }
}
