//! Reads the records of an input, each with its number. A bad entry carries the reason.

use std::io::{self, BufRead, Read};

use ecotone::limits::MAX_RECORD;

use crate::{
    load::{format::Content, source::Source},
    text::{check_record, unescape},
};

/// Longest line that is parsed. The longest record, with an escape of four characters for every byte, is shorter.
const MAX_LINE: usize = 4 * MAX_RECORD + 64;

/// Characters of a bad line that are shown.
const SHOWN: usize = 40;

/// One record of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Which line or integer it was, from 1.
    pub(crate) number: u64,
    /// Its key, within the limits.
    pub(crate) key: Vec<u8>,
    /// Its value, within the limits.
    pub(crate) value: Vec<u8>,
}

/// Why a record cannot be loaded.
#[derive(Debug)]
pub(crate) enum Problem {
    /// A line or integer is invalid; the next one may be valid.
    Entry {
        /// The number of the line or integer, from 1.
        number: u64,
        /// Why.
        reason: String,
    },
    /// The input cannot be read any further.
    Input(io::Error),
}

/// The values of records whose input has keys only.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    /// Bytes of the value of an integer, made from the integer.
    pub(crate) bytes: usize,
    /// The value of a line; `{line}` stands for its number.
    pub(crate) template: String,
}

/// Reads records one after the other.
pub(crate) struct Records {
    source: Source,
    values: Values,
    number: u64,
    sum: u64,
    ended: bool,
}

impl Records {
    /// The records of an input. Its header was line 1.
    pub(crate) fn new(source: Source, values: Values) -> Self {
        Records { number: u64::from(source.dump), source, values, sum: 0, ended: false }
    }

    /// The next entry's bytes, a line's end included; `None` at the end of the input.
    fn entry(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match self.source.content {
            Content::Integers | Content::Differences => (&mut self.source.bytes).take(8).read_to_end(&mut bytes)?,
            Content::Lines | Content::Tsv => self.line(&mut bytes)?,
        };
        Ok(if bytes.is_empty() { None } else { Some(bytes) })
    }

    /// Reads a line with its end, of an overlong one only the beginning.
    fn line(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        (&mut self.source.bytes).take(MAX_LINE as u64).read_until(b'\n', bytes)?;
        if bytes.len() == MAX_LINE && bytes.last() != Some(&b'\n') {
            self.source.bytes.skip_until(b'\n')?;
        }
        Ok(bytes.len())
    }

    fn parse(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        match self.source.content {
            Content::Integers => self.integer(bytes),
            Content::Differences => self.difference(bytes),
            Content::Lines | Content::Tsv => {
                let line = without_end(bytes);
                let parsed = self.text_line(line, line.len() < bytes.len());
                parsed.map_err(|why| if line.is_empty() { why } else { format!("{why}: \"{}\"", excerpt(line)) })
            }
        }
    }

    fn text_line(&self, line: &[u8], ended: bool) -> Result<(Vec<u8>, Vec<u8>), String> {
        if line.len() >= MAX_LINE {
            return Err(format!("it is longer than any record, whose limit is {MAX_RECORD} bytes"));
        }
        if self.source.dump && !ended {
            return Err("the dump was cut off in the middle of it".to_owned());
        }
        let (key, value) =
            if self.source.content == Content::Lines { self.key_line(line) } else { self.tsv_line(line) }?;
        check_record(&key, &value).map(|()| (key, value))
    }

    fn integer(&self, bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let key = number(bytes)?;
        self.integer_record(key)
    }

    fn difference(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let key = self.sum.wrapping_add(number(bytes)?);
        let ascends = key > self.sum || self.number == 1;
        self.sum = key;
        if !ascends {
            return Err("it is not above the one before it".to_owned());
        }
        self.integer_record(key)
    }

    fn integer_record(&self, key: u64) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (key, value) = (key.to_be_bytes().to_vec(), derived_value(key, self.values.bytes));
        check_record(&key, &value).map(|()| (key, value))
    }

    fn key_line(&self, line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let key = self.source.encoding.decode_key(line.to_vec()).map_err(|why| format!("the key {why}"))?;
        Ok((key, self.values.template.replace("{line}", &self.number.to_string()).into_bytes()))
    }

    fn tsv_line(&self, bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let mut parts = bytes.splitn(2, |&byte| byte == b'\t');
        let (Some(key), Some(value)) = (parts.next(), parts.next()) else {
            return Err("there is no tab between key and value".to_owned());
        };
        let encoding = self.source.encoding;
        let key = unescape(key).and_then(|key| encoding.decode_key(key)).map_err(|why| format!("the key {why}"))?;
        let value =
            unescape(value).and_then(|value| encoding.decode_value(value)).map_err(|why| format!("the value {why}"))?;
        Ok((key, value))
    }
}

impl Iterator for Records {
    type Item = Result<Record, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let bytes = match self.entry() {
            Ok(bytes) => bytes?,
            Err(error) => {
                self.ended = true;
                return Some(Err(Problem::Input(error)));
            }
        };
        self.number += 1;
        let number = self.number;
        let parsed = self.parse(&bytes).map(|(key, value)| Record { number, key, value });
        Some(parsed.map_err(|reason| Problem::Entry { number, reason }))
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
        None => line,
    }
}

/// The beginning of a line, for a message.
fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let start: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() { format!("{start}…") } else { start }
}

fn number(bytes: &[u8]) -> Result<u64, String> {
    let bytes = bytes.try_into().map_err(|_| format!("the input ends after {} of its 8 bytes", bytes.len()))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Bytes that follow from `key`, so that a reader that knows the key can check the value.
fn derived_value(key: u64, bytes: usize) -> Vec<u8> {
    key.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

#[cfg(test)]
mod tests;
