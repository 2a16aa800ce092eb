//! A run of records in key order, packed into one allocation.

use ecotone_substrate::page::Page;

/// Keys and values one after the other.
#[derive(Debug, Default, Clone)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    /// End offsets of each key and each value.
    ends: Vec<(u32, u32)>,
}

impl Records {
    /// Appends a record.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.push_parts(&[], key, value);
    }

    /// Appends a record whose key is given in two parts.
    pub(crate) fn push_parts(&mut self, prefix: &[u8], suffix: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(suffix);
        let key_end = self.end();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.end()));
    }

    /// Appends all records of a page. They must lie above those present.
    pub(crate) fn push_page(&mut self, page: &Page<'_>) {
        page.iter().for_each(|entry| self.push_parts(page.prefix(), entry.suffix, entry.value));
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Key and value at a position.
    ///
    /// # Panics
    /// If the position is beyond the end.
    pub(crate) fn get(&self, position: usize) -> (&[u8], &[u8]) {
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before].1) as usize;
        let (key_end, end) = self.ends[position];
        let (key_end, end) = (key_end as usize, end as usize);
        (&self.bytes[start..key_end], &self.bytes[key_end..end])
    }

    /// A copy of the records at these positions.
    pub(crate) fn part(&self, positions: std::ops::Range<usize>) -> Records {
        let mut part = Records::default();
        positions.map(|position| self.get(position)).for_each(|(key, value)| part.push(key, value));
        part
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|position| self.get(position))
    }

    /// The first position whose key is at or above `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle).0 < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn end(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("a run holds a few pages")
    }
}

#[cfg(test)]
mod tests {
    use super::Records;

    #[test]
    fn records_come_back_and_are_found() {
        let mut records = Records::default();
        for (key, value) in [("a", "1"), ("bb", ""), ("c", "333")] {
            records.push(key.as_bytes(), value.as_bytes());
        }
        assert_eq!(records.get(1), (&b"bb"[..], &b""[..]));
        assert_eq!(records.iter().map(|(_, value)| value.len()).sum::<usize>(), 4);
        assert_eq!([&b""[..], b"a", b"b", b"c", b"d"].map(|key| records.lower_bound(key)), [0, 0, 1, 2, 3]);
    }
}
