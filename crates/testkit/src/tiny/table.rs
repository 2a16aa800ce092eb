//! The table of the in-place engine: it maps keys to buckets, and buckets to pages.

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    page,
};

/// A power of two of buckets on successive pages. Bucket `b` of `n` has the keys whose first byte is in `b * 256 / n
/// ..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Table {
    /// The page of the first bucket.
    pub(super) base: u32,
    /// The number of buckets.
    pub(super) count: u32,
}

impl Table {
    /// The table of a new keyspace.
    pub(super) const FIRST: Table = Table { base: 0, count: 4 };
    /// Buckets of the largest table: one for each first byte.
    pub(super) const MOST: u32 = 256;

    /// The page after the last bucket.
    pub(super) fn end(self) -> u32 {
        self.base + self.count
    }

    /// The table that follows when this one is too small.
    pub(super) fn doubled(self) -> Option<Self> {
        (self.count < Self::MOST).then(|| Table { base: self.end(), count: self.count * 2 })
    }

    /// The bucket of the keys with this first byte.
    pub(super) fn bucket(self, first: u8) -> u32 {
        u32::from(first) * self.count / 256
    }

    /// The smallest key of a bucket, and of the next bucket.
    pub(super) fn fences(self, bucket: u32) -> (Vec<u8>, Option<Vec<u8>>) {
        let start = |bucket: u32| (bucket * 256 / self.count) as u8;
        let lower = if bucket == 0 { Vec::new() } else { vec![start(bucket)] };
        (lower, (bucket + 1 < self.count).then(|| vec![start(bucket + 1)]))
    }

    /// Bytes for records on a bucket's page, whatever the fences of the page are, so that the records of a bucket fit
    /// each of its halves too.
    pub(super) fn capacity() -> usize {
        page::capacity(&[0], Some(&[0]))
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u32(self.base).u32(self.count);
        writer.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let table = Table { base: reader.u32()?, count: reader.u32()? };
        if !table.count.is_power_of_two()
            || !(Self::FIRST.count..=Self::MOST).contains(&table.count)
            || table.base > 2 * Self::MOST
        {
            return reader.fail("the table of buckets has an impossible size");
        }
        reader.finish()?;
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_first_byte_has_one_bucket_whose_fences_cover_it() {
        let mut table = Table::FIRST;
        loop {
            for byte in 0..=u8::MAX {
                let (lower, upper) = table.fences(table.bucket(byte));
                assert!(
                    lower.as_slice() <= &[byte][..] && upper.is_none_or(|upper| &[byte, 255][..] < upper.as_slice()),
                    "{table:?} {byte}"
                );
            }
            assert_eq!(Table::decode(&table.encode()), Ok(table));
            let Some(next) = table.doubled() else { break };
            assert_eq!(next.base, table.end());
            table = next;
        }
        assert_eq!(table.count, Table::MOST);
    }

    #[test]
    fn impossible_tables_are_refused() {
        for table in [
            Table { base: 0, count: 0 },
            Table { base: 0, count: 12 },
            Table { base: 0, count: 512 },
            Table { base: 9999, count: 4 },
        ] {
            assert!(Table::decode(&table.encode()).is_err(), "{table:?}");
        }
        assert!(Table::decode(&[0; 7]).is_err());
    }
}
