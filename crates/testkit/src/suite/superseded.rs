//! Superseded versions: a listener that keeps the reports of a session, and the versions that it may hear of
//! (superseded.md, "Proof").

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use ecotone_engine::{contract::Record, superseded::Superseded};
use ecotone_substrate::Seq;

use super::Verdict;
use crate::model::{Change, Key};

/// A listener that keeps all reports.
#[derive(Debug, Default)]
pub struct ReportRecorder(Mutex<Vec<Record>>);

impl ReportRecorder {
    /// The reports since the last call: keys and values.
    pub fn take(&self) -> Vec<Record> {
        std::mem::take(&mut self.0.lock().expect("no report panics"))
    }
}

impl Superseded for ReportRecorder {
    fn superseded(&self, _keyspace: u32, key: &[u8], old: &[u8], _sequence: Seq) {
        self.0.lock().expect("no report panics").push((key.to_vec(), old.to_vec()));
    }
}

/// A version that was superseded in this session, in one keyspace or several.
#[derive(Debug, Clone, Default)]
struct Count {
    superseded: u64,
    reported: u64,
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
}

impl Versions {
    /// A session begins with this content.
    pub(super) fn begin(&mut self, content: impl Iterator<Item = (Key, Vec<u8>)>) {
        let before = std::mem::replace(&mut self.newest, content.collect());
        let lost = before.into_iter().filter(|(key, value)| self.newest.get(key) != Some(value));
        self.earlier.extend(lost.map(|((_, key), value)| (key, value)));
        self.earlier.extend(std::mem::take(&mut self.superseded).into_keys());
        self.inherited = self.newest.keys().cloned().collect();
    }

    /// Notes a write that is visible, or in doubt.
    pub(super) fn wrote(&mut self, changes: &[Change]) {
        for (key, value) in changes {
            let old = match value {
                Some(value) => self.newest.insert(key.clone(), value.clone()),
                None => self.newest.remove(key),
            };
            let Some(old) = old.filter(|old| Some(old) != value.as_ref()) else { continue };
            let version = (key.1.clone(), old);
            if self.inherited.remove(key) {
                self.earlier.insert(version);
            } else {
                let count = self.superseded.entry(version).or_default();
                count.superseded += 1;
                count.keyspaces.insert(key.0);
            }
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

    fn is_newest(&self, (key, value): &Record) -> bool {
        self.newest.iter().any(|((_, of), newest)| of == key && newest == value)
    }

    /// Judges reports. With `once` there are no copies that a stopped job or a crash has left.
    pub(super) fn judge(&mut self, reports: Vec<Record>, once: bool) -> Verdict {
        for version in reports {
            let what = || format!("{} of {}", version.1.escape_ascii(), version.0.escape_ascii());
            if self.earlier.contains(&version) {
                continue;
            }
            let is_newest = self.is_newest(&version);
            match self.superseded.get_mut(&version) {
                None if is_newest => return Err(format!("the newest version, {}, was reported", what())),
                None => return Err(format!("{} was reported and never written", what())),
                Some(count) => {
                    count.reported += 1;
                    if once && count.reported > count.superseded {
                        let times = count.reported;
                        return Err(format!("{} was reported {times} times", what()));
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
            if count.reported == 0 && !self.is_newest(version) {
                let (key, old) = (version.0.escape_ascii(), version.1.escape_ascii());
                return Err(format!("{old} of {key} is gone and was not reported"));
            }
            reported += count.reported;
        }
        Ok(reported)
    }
}
