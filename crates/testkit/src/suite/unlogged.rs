//! The expected content of an unlogged keyspace after a crash: for every key some value since the last flush.

use std::collections::{BTreeMap, BTreeSet};

use super::Verdict;

type Key = Vec<u8>;
type Value = Option<Vec<u8>>;

/// The writes of an unlogged keyspace.
#[derive(Debug, Clone, Default)]
pub(super) struct Unlogged {
    now: BTreeMap<Key, Vec<u8>>,
    /// The values of every key written since the last flush, the flushed one first.
    since: BTreeMap<Key, Vec<Value>>,
}

impl Unlogged {
    pub(super) fn record(&mut self, key: &[u8], value: Value) {
        let before = self.now.get(key).cloned();
        self.since.entry(key.to_vec()).or_insert_with(|| vec![before]).push(value.clone());
        match value {
            Some(value) => self.now.insert(key.to_vec(), value),
            None => self.now.remove(key),
        };
    }

    /// Notes that a flush was acknowledged.
    pub(super) fn settle(&mut self) {
        self.since.clear();
    }

    pub(super) fn now(&self) -> &BTreeMap<Key, Vec<u8>> {
        &self.now
    }

    /// Judges what was found after an end, and continues from that content. A write that no flush covered stays in
    /// doubt.
    pub(super) fn restart(&mut self, closed: bool, found: BTreeMap<Key, Vec<u8>>) -> Verdict {
        let keys: BTreeSet<&Key> = self.now.keys().chain(found.keys()).chain(self.since.keys()).collect();
        for key in keys {
            let (want, got) = (self.now.get(key), found.get(key));
            let possible = self
                .since
                .get(key)
                .filter(|_| !closed)
                .is_some_and(|values| values.iter().any(|value| value.as_ref() == got));
            if want != got && !possible {
                return Err(format!(
                    "unlogged key {} was never {got:?} since the last flush; it was last {want:?}",
                    key.escape_ascii()
                ));
            }
        }
        self.now = found;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_since_the_flush_is_right_and_no_other() {
        let mut unlogged = Unlogged::default();
        unlogged.record(b"a", Some(b"1".to_vec()));
        unlogged.record(b"b", Some(b"1".to_vec()));
        unlogged.settle();
        unlogged.record(b"a", Some(b"2".to_vec()));
        unlogged.record(b"a", None);
        let state = |a: Option<&[u8]>, b: &[u8]| {
            let a = a.map(|a| (b"a".to_vec(), a.to_vec()));
            a.into_iter().chain([(b"b".to_vec(), b.to_vec())]).collect::<BTreeMap<_, _>>()
        };
        for a in [None, Some(&b"1"[..]), Some(b"2")] {
            assert!(unlogged.clone().restart(false, state(a, b"1")).is_ok(), "{a:?}");
        }
        assert!(unlogged.clone().restart(false, state(Some(b"3"), b"1")).is_err());
        assert!(unlogged.clone().restart(false, state(None, b"2")).is_err());
        assert!(unlogged.clone().restart(true, state(Some(b"2"), b"1")).is_err());
        assert!(unlogged.restart(true, state(None, b"1")).is_ok());
    }
}
