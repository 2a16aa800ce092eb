//! The key of each record.

pub(crate) mod numbering;
mod numbers;
mod order;
mod scale;
mod source;
mod strings;
mod synthetic;
#[cfg(test)]
mod tests;
pub(crate) mod words;

use std::path::Path;

use self::{numbers::Numbers, strings::Strings, synthetic::Synthetic};
pub(crate) use self::{
    order::Order,
    scale::Scale,
    source::{Format, Source},
};
use super::permutation::Permutation;
use crate::error::Result;

/// Seed of the order in which the entries of a file become records.
const SHUFFLE: u64 = 0x5eed_0003;

/// The use of a file's keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    /// Bytes of a key; `None` means 8 for numbers. Text keeps its own lengths.
    pub(crate) key_size: Option<usize>,
    pub(crate) order: Order,
    /// Scales the set to more keys of the same kind.
    pub(crate) scale: Option<Scale>,
}

/// The keys of all records. Shared by all threads; a record's number determines its key.
#[derive(Debug)]
pub(crate) struct Keys {
    origin: Origin,
    order: Option<Permutation>,
}

/// The source of keys.
#[derive(Debug)]
enum Origin {
    /// Computed from the record's number.
    Synthetic(Synthetic),
    /// 64-bit numbers of a file.
    Numbers(Numbers),
    /// Lines of a file.
    Strings(Strings),
}

impl Keys {
    /// Keys of `key_size` bytes, computed from the numbers of at least `records` records.
    pub(crate) fn synthetic(key_size: usize, records: u64, order: Order) -> Result<Keys> {
        Ok(Keys { origin: Origin::Synthetic(Synthetic::new(key_size, records, order)?), order: None })
    }

    /// Reads a file window by window and leaves what is needed to find a key by its number in `directory`. The kind of
    /// the file follows from its name: `.u64`, `.u64.zst`, `.du64`, `.du64.zst`, anything else is lines of text,
    /// compressed if it ends in `.zst`.
    pub(crate) fn open(file: &Path, directory: &Path, choice: Use) -> Result<Keys> {
        let source = Source::open(file)?;
        let origin = match (source.format, choice) {
            (_, Use { scale: Some(scale), key_size, .. }) => {
                Origin::Numbers(Numbers::new(scale::scale(source, directory, scale)?, key_size.unwrap_or(8))?)
            }
            (Format::Text, Use { key_size: None, .. }) => Origin::Strings(Strings::unpack(source, directory)?),
            (Format::Text, _) => return Err("--key-size has no meaning with a file of strings; leave it out".into()),
            (_, Use { key_size, .. }) => {
                Origin::Numbers(Numbers::new(numbers::unpack(source, directory)?, key_size.unwrap_or(8))?)
            }
        };
        if !matches!(choice.order, Order::Shuffled | Order::Arrival) {
            return Err("the keys of a file come shuffled or as they arrive; other orders are of synthetic keys".into());
        }
        let keys = Keys { origin, order: None };
        let order = (choice.order == Order::Shuffled).then(|| Permutation::new(keys.count(), SHUFFLE));
        Ok(Keys { order, ..keys })
    }

    /// The number of records that can have a key.
    pub(crate) fn count(&self) -> u64 {
        match &self.origin {
            Origin::Synthetic(keys) => keys.count(),
            Origin::Numbers(keys) => keys.count(),
            Origin::Strings(keys) => keys.count(),
        }
    }

    /// Whether a key is computed without reading a file.
    pub(crate) fn are_computed(&self) -> bool {
        matches!(self.origin, Origin::Synthetic(_))
    }

    /// Writes the key of a record, which is below [`count`](Self::count), into `buffer`.
    pub(crate) fn write(&self, record: u64, buffer: &mut Vec<u8>) -> Result<()> {
        let number = self.order.as_ref().map_or(record, |order| order.apply(record));
        match &self.origin {
            Origin::Synthetic(keys) => {
                keys.write(number, buffer);
                Ok(())
            }
            Origin::Numbers(keys) => keys.write(number, buffer),
            Origin::Strings(keys) => keys.write(number, buffer),
        }
    }

    /// Whether the position of a key among all keys is known, so that a key range can be selected.
    pub(crate) fn have_places(&self) -> bool {
        match &self.origin {
            Origin::Synthetic(keys) => keys.is_even(),
            Origin::Numbers(_) | Origin::Strings(_) => true,
        }
    }

    /// The relative position of a record's key among all possible keys, 0 to 1; for keys of a file, only if they are
    /// sorted.
    pub(crate) fn place(&self, record: u64) -> f64 {
        let number = self.order.as_ref().map_or(record, |order| order.apply(record));
        match &self.origin {
            Origin::Synthetic(keys) => keys.place(number),
            Origin::Numbers(_) | Origin::Strings(_) => number as f64 / self.count() as f64,
        }
    }

    /// The mean length of a key in bytes.
    pub(crate) fn mean_bytes(&self) -> f64 {
        match &self.origin {
            Origin::Synthetic(keys) => keys.key_size() as f64,
            Origin::Numbers(keys) => keys.key_size() as f64,
            Origin::Strings(keys) => keys.mean_bytes(),
        }
    }
}
