//! Spreading the records of a range over pages.

use std::ops::Range;

use ecotone_substrate::page::{capacity, prefix_len, record_bytes};

use super::{index::Placement, records::Records};

/// One page of a new layout: which records, and its lower fence. Its upper fence is the next part's lower one, or the range's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) lower: Vec<u8>,
    pub(crate) records: Range<usize>,
}

/// The shortest string that is above `left` and not above `right`: a fence between two neighbouring keys.
fn separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    &right[..(common + 1).min(right.len())]
}

/// Spreads the records of the range from `lower` to `upper` evenly, by bytes, over as few pages as `fill` percent allows. There is always one
/// page, and each fits.
pub(crate) fn spread(records: &Records, lower: &[u8], upper: Option<&[u8]>, fill: usize) -> Vec<Part> {
    let layout = Layout { records, lower, upper };
    let most = capacity(&[], None) * fill / 100;
    let parts = layout.pack(most);
    // The smallest target that needs no more pages leaves no nearly empty one at the end.
    let (mut low, mut high) = (most / 2, most);
    while high - low > 32 {
        let middle = low.midpoint(high);
        if layout.pack(middle).len() > parts.len() { low = middle } else { high = middle }
    }
    if parts.len() == 1 { parts } else { layout.pack(high) }
}

/// Fills pages to `fill` percent one after the other and leaves the last as it comes: for loads in key order.
pub(crate) fn fill_up(records: &Records, lower: &[u8], upper: Option<&[u8]>, fill: usize) -> Vec<Part> {
    Layout { records, lower, upper }.pack(capacity(&[], None) * fill / 100)
}

struct Layout<'a> {
    records: &'a Records,
    lower: &'a [u8],
    upper: Option<&'a [u8]>,
}

impl Layout<'_> {
    /// Fills each page up to `target` bytes, fences included; at least one record goes into each, which always fits.
    fn pack(&self, target: usize) -> Vec<Part> {
        let mut parts = vec![Part { lower: self.lower.to_vec(), records: 0..0 }];
        let mut raw = 0;
        for position in 0..self.records.len() {
            let part = parts.last_mut().expect("there is a first part");
            let (key, value) = self.records.get(position);
            let bytes = record_bytes(0, key.len(), value.len());
            let room = self.bytes(&part.lower, part.records.start, position + 1, raw + bytes);
            if !part.records.is_empty() && room > target {
                let lower = separator(self.records.get(position - 1).0, key).to_vec();
                parts.push(Part { lower, records: position..position + 1 });
                raw = bytes;
            } else {
                part.records.end = position + 1;
                raw += bytes;
            }
        }
        parts
    }

    /// Bytes of a page of the records from `start` to `end`, fences included, prefix left out; `raw` are the records' bytes without a prefix.
    fn bytes(&self, lower: &[u8], start: usize, end: usize, raw: usize) -> usize {
        let upper = match end < self.records.len() {
            true => Some(separator(self.records.get(end - 1).0, self.records.get(end).0)),
            false => self.upper,
        };
        raw - (end - start) * prefix_len(lower, upper) + lower.len() + upper.map_or(0, <[u8]>::len)
    }
}

/// How lines are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Optimal.
    Optimal,
    /// Greedy.
    Greedy,
}

pub(crate) struct Planned {
    pub(crate) placement: Placement,
    pub(crate) pages: Vec<Part>,
}
