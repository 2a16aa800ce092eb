//! Dirty records on their way to their pages, packed into one allocation.

use std::ops::Range;

/// A key with the value that its page must get, or with the fact that it was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirtyRecord<'r> {
    /// Its key.
    pub(crate) key: &'r [u8],
    /// Its value, or `None` if it was deleted.
    pub(crate) value: Option<&'r [u8]>,
    /// Whether the version in the page was reported as superseded (superseded.md, invariant 4).
    pub(crate) page_reported: bool,
}

impl DirtyRecord<'_> {
    /// Approximate memory of the record within [`DirtyRecords`].
    pub(crate) fn memory(self) -> usize {
        DirtyRecords::BESIDE + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }
}

/// Location of a record in the packed bytes: the start of its key, the key's length, and the length of the value behind
/// it.
#[derive(Debug, Clone, Copy)]
struct RecordOffset {
    start: u32,
    key: u16,
    page_reported: bool,
    value: Option<u32>,
}

/// Dirty records, ascending by key or in insertion order.
#[derive(Debug, Default, Clone)]
pub(crate) struct DirtyRecords {
    bytes: Vec<u8>,
    places: Vec<RecordOffset>,
}

impl DirtyRecords {
    /// Approximate memory of a record without its key and value. Half of a vector's capacity may be unused.
    pub(crate) const BESIDE: usize = 2 * size_of::<RecordOffset>();

    /// Appends a record.
    pub(crate) fn push(&mut self, DirtyRecord { key, value, page_reported }: DirtyRecord<'_>) {
        let start = u32::try_from(self.bytes.len()).expect("a few pages at a time");
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let (key, value) = (key.len() as u16, value.map(|value| value.len() as u32));
        self.places.push(RecordOffset { start, key, page_reported, value });
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Approximate memory of all records.
    pub(crate) fn memory(&self) -> usize {
        self.bytes() + self.len() * DirtyRecords::BESIDE
    }

    /// The record at a position.
    ///
    /// # Panics
    /// If the position is beyond the end.
    pub(crate) fn get(&self, position: usize) -> DirtyRecord<'_> {
        let RecordOffset { start, key, page_reported, value } = self.places[position];
        let (key, rest) = self.bytes[start as usize..].split_at(key.into());
        DirtyRecord { key, value: value.map(|value| &rest[..value as usize]), page_reported }
    }

    pub(crate) fn last(&self) -> Option<DirtyRecord<'_>> {
        self.len().checked_sub(1).map(|last| self.get(last))
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = DirtyRecord<'_>> {
        self.within(0..self.len())
    }

    /// The records at these positions.
    pub(crate) fn within(&self, positions: Range<usize>) -> impl ExactSizeIterator<Item = DirtyRecord<'_>> + Clone {
        positions.map(|position| self.get(position))
    }

    /// A copy of the records at these positions.
    pub(crate) fn part(&self, positions: Range<usize>) -> DirtyRecords {
        self.within(positions).collect()
    }

    /// Position of a key, or the position where the key would be inserted. The records must ascend.
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let key_of = |place: &RecordOffset| &self.bytes[place.start as usize..][..usize::from(place.key)];
        self.places.binary_search_by(|place| key_of(place).cmp(key))
    }

    /// Number of records below `upper`; all of them if `upper` is `None`. The records must ascend.
    pub(crate) fn count_below(&self, upper: Option<&[u8]>) -> usize {
        upper.map_or(self.len(), |upper| self.search(upper).unwrap_or_else(|place| place))
    }

    pub(crate) fn reverse(&mut self) {
        self.places.reverse();
    }
}

impl<'r> FromIterator<DirtyRecord<'r>> for DirtyRecords {
    fn from_iter<I: IntoIterator<Item = DirtyRecord<'r>>>(records: I) -> Self {
        let mut packed = DirtyRecords::default();
        records.into_iter().for_each(|record| packed.push(record));
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_are_found() {
        let given = [("a", Some("1")), ("bb", None), ("c", Some("")), ("d", Some("4444"))];
        let record = |(key, value): (&'static str, Option<&'static str>)| DirtyRecord {
            key: key.as_bytes(),
            value: value.map(str::as_bytes),
            page_reported: false,
        };
        let records: DirtyRecords = given.into_iter().map(record).collect();
        assert!(records.iter().eq(given.into_iter().map(record)));
        assert_eq!((records.len(), records.bytes()), (4, 10));
        assert_eq!((records.iter().next(), records.last()), (Some(record(given[0])), Some(record(given[3]))));
        assert_eq!(
            ["", "a", "b", "bb", "e"].map(|key| records.search(key.as_bytes())),
            [Err(0), Ok(0), Err(1), Ok(1), Err(4)]
        );
        assert!(records.part(1..3).iter().eq([record(given[1]), record(given[2])]));
        let mut reversed = records.clone();
        reversed.reverse();
        assert!(reversed.iter().eq(given.into_iter().rev().map(record)));
    }
}
