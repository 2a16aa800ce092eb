//! The records of an input, each with its number, the bad ones with the reason.

use std::io::{self, BufRead, Read};

use ecotone::limits::{MAX_KEY, MAX_RECORD};

use crate::{
    load::format::Content,
    text::{Encoding, unescape},
};

/// Longest line that is looked at. The longest record, written with an escape of four characters for every byte, is shorter.
const MAX_LINE: usize = 4 * MAX_RECORD + 64;

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

/// What keeps a record from being loaded.
#[derive(Debug)]
pub(crate) enum Problem {
    /// A line or integer is no good; the next one may be.
    Entry {
        /// Which, from 1.
        number: u64,
        /// Why.
        reason: String,
    },
    /// The input cannot be read any further.
    Input(io::Error),
}

/// Which values the records get where the input has none.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    /// Bytes of the value of an integer, made from the integer.
    pub(crate) bytes: usize,
    /// The value of a line; `{line}` stands for its number.
    pub(crate) template: String,
}

/// Reads records one after the other.
pub(crate) struct Records<R> {
    input: R,
    content: Content,
    encoding: Encoding,
    values: Values,
    number: u64,
    sum: u64,
    ended: bool,
}

impl<R: BufRead> Records<R> {
    /// The records of `input`.
    pub(crate) fn new(input: R, content: Content, encoding: Encoding, values: Values) -> Self {
        Records { input, content, encoding, values, number: 0, sum: 0, ended: false }
    }

    /// The next entry's bytes, without a line's end; `None` at the end of the input.
    fn entry(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match self.content {
            Content::Integers | Content::Differences => (&mut self.input).take(8).read_to_end(&mut bytes)?,
            Content::Lines | Content::Tsv => self.line(&mut bytes)?,
        };
        Ok(if bytes.is_empty() { None } else { Some(bytes) })
    }

    /// Reads a line with its end, of an overlong one only the beginning.
    fn line(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        (&mut self.input).take(MAX_LINE as u64).read_until(b'\n', bytes)?;
        if bytes.len() == MAX_LINE && bytes.last() != Some(&b'\n') {
            self.input.skip_until(b'\n')?;
        }
        Ok(bytes.len())
    }

    fn parse(&mut self, mut bytes: Vec<u8>) -> Result<(Vec<u8>, Vec<u8>), String> {
        match self.content {
            Content::Integers => self.integer(&bytes),
            Content::Differences => self.difference(&bytes),
            Content::Lines | Content::Tsv => {
                strip_end(&mut bytes);
                if bytes.len() >= MAX_LINE {
                    return Err(format!("it is longer than any record, whose limit is {MAX_RECORD} bytes"));
                }
                if self.content == Content::Lines { self.key_line(bytes) } else { self.tsv_line(&bytes) }
            }
        }
    }

    fn integer(&self, bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let key = number(bytes)?;
        Ok((key.to_be_bytes().to_vec(), derived_value(key, self.values.bytes)))
    }

    fn difference(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let key = self.sum.wrapping_add(number(bytes)?);
        let ascends = key > self.sum || self.number == 1;
        self.sum = key;
        if !ascends {
            return Err("it is not above the one before it".to_owned());
        }
        Ok((key.to_be_bytes().to_vec(), derived_value(key, self.values.bytes)))
    }

    fn key_line(&self, bytes: Vec<u8>) -> Result<(Vec<u8>, Vec<u8>), String> {
        let key = self.encoding.decode_key(bytes).map_err(|why| format!("the key {why}"))?;
        Ok((key, self.values.template.replace("{line}", &self.number.to_string()).into_bytes()))
    }

    fn tsv_line(&self, bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let mut parts = bytes.splitn(2, |&byte| byte == b'\t');
        let (Some(key), Some(value)) = (parts.next(), parts.next()) else {
            return Err("there is no tab between key and value".to_owned());
        };
        let key = unescape(key).and_then(|key| self.encoding.decode_key(key)).map_err(|why| format!("the key {why}"))?;
        let value =
            unescape(value).and_then(|value| self.encoding.decode_value(value)).map_err(|why| format!("the value {why}"))?;
        Ok((key, value))
    }
}

impl<R: BufRead> Iterator for Records<R> {
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
        let checked = self.parse(bytes).and_then(|(key, value)| check(&key, &value).map(|()| Record { number, key, value }));
        Some(checked.map_err(|reason| Problem::Entry { number, reason }))
    }
}

fn strip_end(line: &mut Vec<u8>) {
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        line.pop_if(|byte| *byte == b'\r');
    }
}

fn number(bytes: &[u8]) -> Result<u64, String> {
    let bytes = bytes.try_into().map_err(|_| format!("the input ends after {} of its 8 bytes", bytes.len()))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Bytes that follow from `key`, so that whoever knows the key can check the value.
fn derived_value(key: u64, bytes: usize) -> Vec<u8> {
    key.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

fn check(key: &[u8], value: &[u8]) -> Result<(), String> {
    let (key, record) = (key.len(), key.len() + value.len());
    match () {
        () if key == 0 => Err("the key is empty".to_owned()),
        () if key > MAX_KEY => Err(format!("the key has {key} bytes, and the limit is {MAX_KEY}")),
        () if record > MAX_RECORD => Err(format!("key and value have {record} bytes, and the limit is {MAX_RECORD}")),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests;
