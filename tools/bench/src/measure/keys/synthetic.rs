//! Keys computed from the record's number.

use super::order::{Numbering, Order};
use crate::{
    error::Result,
    measure::permutation::{Permutation, mix},
};

/// Seed of the bijections for short keys.
const SEED: u64 = 0x5eed_0002;

/// Key `i` is the number that the order assigns to `i` (by default a bijective 64-bit mix), big-endian, followed by
/// filler derived from it. Keys shorter than eight bytes are a bijection over all their bits.
#[derive(Debug)]
pub(crate) struct Synthetic {
    key_size: usize,
    numbering: Numbering,
    short: Option<Permutation>,
}

impl Synthetic {
    /// Keys of `key_size` bytes for `records` records.
    pub(crate) fn new(key_size: usize, records: u64, order: Order) -> Result<Self> {
        check_size(key_size)?;
        let numbering = Numbering::new(order);
        if order == Order::Arrival {
            return Err("--order arrival is of the keys of a file, and there is no --keys".into());
        }
        if key_size < 8 && !numbering.is_even() {
            return Err("keys of fewer than 8 bytes come shuffled alone".into());
        }
        let short = (key_size < 8).then(|| Permutation::of_bits(8 * key_size as u32, SEED));
        let keys = Synthetic { key_size, numbering, short };
        match keys.count() {
            count if count < records => {
                Err(format!("{key_size} bytes make {count} keys, and --records is {records}").into())
            }
            _ => Ok(keys),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.short.as_ref().map_or(u64::MAX, Permutation::size)
    }

    pub(super) fn is_even(&self) -> bool {
        self.numbering.is_even()
    }

    pub(super) fn key_size(&self) -> usize {
        self.key_size
    }

    /// The relative position of a record's key among all keys of that length, 0 to 1.
    pub(super) fn place(&self, record: u64) -> f64 {
        match &self.short {
            None => self.numbering.apply(record) as f64 / 2f64.powi(64),
            Some(short) => short.apply(record) as f64 / short.size() as f64,
        }
    }

    pub(super) fn write(&self, record: u64, buffer: &mut Vec<u8>) {
        match &self.short {
            None => stretch(self.numbering.apply(record), self.key_size, buffer),
            Some(short) => {
                buffer.clear();
                buffer.extend_from_slice(&short.apply(record).to_be_bytes()[8 - self.key_size..]);
            }
        }
    }
}

/// Checks that keys can have this many bytes.
pub(super) fn check_size(key_size: usize) -> Result<()> {
    match key_size {
        1..=ecotone::limits::MAX_KEY => Ok(()),
        _ => Err(format!("--key-size is {key_size}, and keys have 1 to {} bytes", ecotone::limits::MAX_KEY).into()),
    }
}

/// `number`, big-endian, followed by filler up to `key_size` bytes, at least 8.
pub(super) fn stretch(number: u64, key_size: usize, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.extend_from_slice(&number.to_be_bytes());
    let mut filler = number;
    while buffer.len() < key_size {
        filler = mix(filler);
        let wanted = (key_size - buffer.len()).min(8);
        buffer.extend_from_slice(&filler.to_be_bytes()[..wanted]);
    }
}
