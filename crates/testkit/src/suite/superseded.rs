//! Superseded versions: a listener that keeps the reports of a session, and the versions that it may hear of
//! (superseded.md, "Proof").

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use ecotone_engine::{contract::Record, superseded::Superseded};
use ecotone_substrate::Seq;

use super::Verdict;
use crate::model::{Change, Ending, Key};

/// A report.
#[derive(Debug, Clone)]
pub struct ReportedVersion {
    /// The keyspace's number in the database.
    pub keyspace: u32,
    /// Key and value.
    pub version: Record,
    /// The upper bound of the sequence of the write that hid it.
    pub sequence: Seq,
}

/// A listener that keeps all reports.
#[derive(Debug, Default)]
pub struct ReportRecorder(Mutex<Vec<ReportedVersion>>);

impl ReportRecorder {
    /// The reports since the last call.
    pub fn take(&self) -> Vec<ReportedVersion> {
        std::mem::take(&mut self.0.lock().expect("no report panics"))
    }
}

impl Superseded for ReportRecorder {
    fn superseded(&self, keyspace: u32, key: &[u8], old: &[u8], sequence: Seq) {
        let report = ReportedVersion { keyspace, version: (key.to_vec(), old.to_vec()), sequence };
        self.0.lock().expect("no report panics").push(report);
    }
}

/// A version that was superseded in this session, in one keyspace or several.
#[derive(Debug, Clone, Default)]
struct Count {
    superseded: u64,
    reported: u64,
    /// The end of the log before it was superseded first.
    log_end: Seq,
    /// Whether one of them is older than the session, so that there may be copies of it.
    is_inherited: bool,
    /// Whether one of them was in a keyspace that was dropped.
    is_dropped: bool,
    keyspaces: BTreeSet<u32>,
}

/// The versions of all keys. Reports name keyspaces by other numbers than histories do. Nearly all values differ, so
/// versions are told apart by key and value.
#[derive(Debug, Clone, Default)]
pub(super) struct Versions {
    newest: BTreeMap<Key, Vec<u8>>,
    /// The keys whose newest version is older than the session.
    inherited: BTreeSet<Key>,
    superseded: BTreeMap<Record, Count>,
    /// Superseded versions that were written in earlier sessions, or in keyspaces that were dropped. There may be
    /// copies of them, and they may be gone already.
    earlier: BTreeSet<Record>,
    /// Whether replay may have written versions again.
    is_replayed: bool,
    /// The keyspaces of histories, by the numbers of reports.
    keyspaces: BTreeMap<u32, u32>,
    /// The end of the log before the present step.
    log_end: Seq,
    longest_batch: u64,
}

impl Versions {
    /// A session begins with this content, after `ending`.
    pub(super) fn begin(&mut self, content: impl Iterator<Item = (Key, Vec<u8>)>, ending: Ending) {
        let before = std::mem::replace(&mut self.newest, content.collect());
        let lost = before.into_iter().filter(|(key, value)| self.newest.get(key) != Some(value));
        self.earlier.extend(lost.map(|((_, key), value)| (key, value)));
        self.earlier.extend(std::mem::take(&mut self.superseded).into_keys());
        self.inherited = self.newest.keys().cloned().collect();
        self.is_replayed = ending != Ending::Closed;
        self.keyspaces.clear();
    }

    /// A step begins, at this end of the log.
    pub(super) fn begin_step(&mut self, log_end: Seq) {
        self.log_end = log_end;
    }

    /// Notes a write that is visible, or in doubt.
    pub(super) fn wrote(&mut self, changes: &[Change]) {
        self.longest_batch = self.longest_batch.max(changes.len() as u64);
        for (key, value) in changes {
            let old = match value {
                Some(value) => self.newest.insert(key.clone(), value.clone()),
                None => self.newest.remove(key),
            };
            let Some(old) = old.filter(|old| Some(old) != value.as_ref()) else { continue };
            let first = Count { log_end: self.log_end, ..Count::default() };
            let count = self.superseded.entry((key.1.clone(), old)).or_insert(first);
            count.superseded += 1;
            count.is_inherited |= self.inherited.remove(key);
            count.keyspaces.insert(key.0);
        }
    }

    /// Notes that a keyspace was dropped: its versions may be reported or not.
    pub(super) fn dropped(&mut self, keyspace: u32) {
        let gone = self.newest.extract_if((keyspace, Vec::new())..(keyspace + 1, Vec::new()), |_, _| true);
        self.earlier.extend(gone.map(|((_, key), value)| (key, value)));
        self.inherited.retain(|(of, _)| *of != keyspace);
        let counts = self.superseded.values_mut().filter(|count| count.keyspaces.contains(&keyspace));
        counts.for_each(|count| count.is_dropped = true);
    }

    /// The keys, with keyspaces, whose newest version this is.
    fn newest_of(&self, (key, value): &Record) -> impl Iterator<Item = &Key> {
        self.newest.iter().filter(move |((_, of), newest)| of == key && *newest == value).map(|(key, _)| key)
    }

    /// Judges reports, at this end of the log. With `once` there are no copies that a stopped job or a crash has left.
    pub(super) fn judge(&mut self, reports: Vec<ReportedVersion>, log_end: Seq, once: bool) -> Verdict {
        // The operations of an unlogged batch have sequences above the end of the log.
        let most = log_end.saturating_add(self.longest_batch);
        for ReportedVersion { keyspace, version, sequence } in reports {
            let what = || format!("{} of {}", version.1.escape_ascii(), version.0.escape_ascii());
            if self.earlier.contains(&version) {
                continue;
            }
            let is_newest = self.newest_of(&version).next().is_some();
            let may_be_copy = self.is_replayed && self.newest_of(&version).any(|key| self.inherited.contains(key));
            match self.superseded.get_mut(&version) {
                None if may_be_copy => {}
                None if is_newest => return Err(format!("the newest version, {}, was reported", what())),
                None => return Err(format!("{} was reported and never written", what())),
                Some(count) => {
                    count.reported += 1;
                    if once && !count.is_inherited && count.reported > count.superseded {
                        let times = count.reported;
                        return Err(format!("{} was reported {times} times", what()));
                    }
                    let right = count.log_end..=most;
                    if !right.contains(&sequence) {
                        return Err(format!("{} was reported with sequence {sequence}, not of {right:?}", what()));
                    }
                    let of = count.keyspaces.first().filter(|_| count.keyspaces.len() == 1);
                    if of.is_some_and(|of| self.keyspaces.entry(keyspace).or_insert(*of) != of) {
                        return Err(format!("{} was reported of another keyspace, {keyspace}", what()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that all superseded versions were reported, after all of them are gone. A version that was written again
    /// may have become a copy. Returns their number.
    pub(super) fn settle(&self) -> Verdict<u64> {
        let mut reported = 0;
        for (version, count) in self.superseded.iter().filter(|(_, count)| !count.is_dropped) {
            let may_stay = self.newest_of(version).next().is_some() || self.earlier.contains(version);
            if count.reported == 0 && !may_stay {
                let (key, old) = (version.0.escape_ascii(), version.1.escape_ascii());
                return Err(format!("{old} of {key} is gone and was not reported"));
            }
            reported += count.reported;
        }
        Ok(reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keyspace: u32) -> Key {
        (keyspace, b"k".to_vec())
    }

    fn report(keyspace: u32, old: &[u8], sequence: Seq) -> Vec<ReportedVersion> {
        vec![ReportedVersion { keyspace, version: (b"k".to_vec(), old.to_vec()), sequence }]
    }

    /// A session that began with the value 1 after `ending`, and supersedes it at 10.
    fn superseded(ending: Ending) -> Versions {
        let mut versions = Versions::default();
        versions.begin([(key(1), b"1".to_vec())].into_iter(), ending);
        versions.begin_step(10);
        versions.wrote(&[(key(1), Some(b"2".to_vec()))]);
        versions
    }

    #[test]
    fn inherited_versions_are_reported_at_least_once() {
        let mut versions = superseded(Ending::Closed);
        assert!(versions.settle().is_err());
        (0..2).for_each(|_| versions.judge(report(7, b"1", 10), 10, true).unwrap());
        assert_eq!(versions.settle(), Ok(2));
    }

    #[test]
    fn only_replay_leaves_copies_of_the_newest_version() {
        let after = |ending| {
            let mut versions = Versions::default();
            versions.begin([(key(1), b"1".to_vec())].into_iter(), ending);
            versions.judge(report(7, b"1", 10), 10, true)
        };
        assert!(after(Ending::Closed).is_err());
        assert!(after(Ending::PowerLoss).is_ok());
    }

    #[test]
    fn sequences_and_keyspaces_are_judged() {
        let judge = |report| superseded(Ending::Closed).judge(report, 20, true).is_ok();
        assert_eq!([9, 10, 21, 22].map(|sequence| judge(report(7, b"1", sequence))), [false, true, true, false]);
        let mut versions = superseded(Ending::Closed);
        versions.wrote(&[(key(2), Some(b"3".to_vec())), (key(2), None)]);
        assert!(versions.judge(report(7, b"1", 20), 20, true).is_ok());
        assert!(versions.judge(report(7, b"3", 20), 20, true).is_err(), "another keyspace");
    }
}
