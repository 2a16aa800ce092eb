//! Records that are not in the files yet.

use std::collections::{BTreeMap, HashMap};

use ecotone_substrate::Seq;

/// The newest value of a key, or `None` if it was deleted, and the sequences that the record covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) value: Option<Vec<u8>>,
    /// The oldest write of the key that is not in the files.
    pub(super) first: Seq,
    /// The newest.
    pub(super) last: Seq,
}

pub(super) type Records = BTreeMap<Vec<u8>, Record>;

/// Records that wait for a write-out, and records that are being written. A write during a write-out waits beside the
/// record that is being written.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    fresh: Records,
    writing: Records,
    /// How often each key was written.
    writes: HashMap<Vec<u8>, u64>,
}

impl Unflushed {
    pub(super) fn put(&mut self, key: &[u8], value: Option<&[u8]>, seq: Seq) {
        *self.writes.entry(key.to_vec()).or_default() += 1;
        let first = self.fresh.get(key).map_or(seq, |record| record.first);
        self.fresh.insert(key.to_vec(), Record { value: value.map(<[u8]>::to_vec), first, last: seq });
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Record> {
        self.fresh.get(key).or_else(|| self.writing.get(key))
    }

    /// How often a key was written, flushed or not.
    pub(super) fn writes_of(&self, key: &[u8]) -> u64 {
        self.writes.get(key).copied().unwrap_or(0)
    }

    /// All records, older ones of a key before newer ones.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &Record)> {
        self.writing.iter().chain(&self.fresh)
    }

    /// The smallest sequence that is not in the files.
    pub(super) fn first(&self) -> Option<Seq> {
        self.iter().map(|(_, record)| record.first).min()
    }

    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.writing.len()
    }

    /// Begins to write out the records whose keys are `wanted`, and gives a copy of them. There is one write-out at a
    /// time.
    pub(super) fn begin(&mut self, wanted: impl Fn(&[u8]) -> bool) -> Records {
        assert!(self.writing.is_empty(), "one write-out at a time");
        self.writing = self.fresh.extract_if(.., |key, _| wanted(key)).collect();
        self.writing.clone()
    }

    /// Ends a write-out: its records are in the files, synced.
    pub(super) fn finish(&mut self) {
        self.writing.clear();
    }

    /// Undoes a failed write-out: its records wait again, unless newer ones do.
    pub(super) fn undo(&mut self) {
        for (key, old) in std::mem::take(&mut self.writing) {
            match self.fresh.get_mut(&key) {
                Some(newer) => newer.first = old.first,
                None => drop(self.fresh.insert(key, old)),
            }
        }
    }
}

/// The largest sequence that these records cover.
pub(super) fn newest(records: &Records) -> Option<Seq> {
    records.values().map(|record| record.last).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_as_unflushed_until_its_write_out_ends() {
        let mut unflushed = Unflushed::default();
        unflushed.put(b"a", Some(b"1"), 10);
        unflushed.put(b"b", Some(b"1"), 11);
        unflushed.put(b"a", Some(b"2"), 12);
        let written = unflushed.begin(|key| key == b"a");
        assert_eq!(written[&b"a"[..]], Record { value: Some(b"2".to_vec()), first: 10, last: 12 });
        assert_eq!((unflushed.first(), newest(&written)), (Some(10), Some(12)));
        unflushed.put(b"a", None, 13);
        assert_eq!(unflushed.get(b"a").unwrap().value, None);
        unflushed.finish();
        assert_eq!((unflushed.first(), unflushed.get(b"a").unwrap().first), (Some(11), 13));
    }

    #[test]
    fn a_failed_write_out_gives_its_sequences_back() {
        let mut unflushed = Unflushed::default();
        unflushed.put(b"a", Some(b"1"), 10);
        unflushed.put(b"b", Some(b"1"), 11);
        unflushed.begin(|_| true);
        unflushed.put(b"a", Some(b"2"), 12);
        unflushed.undo();
        let a = unflushed.get(b"a").unwrap();
        assert_eq!((a.value.as_deref(), a.first, a.last), (Some(&b"2"[..]), 10, 12));
        assert_eq!((unflushed.first(), unflushed.len()), (Some(10), 2));
    }
}
