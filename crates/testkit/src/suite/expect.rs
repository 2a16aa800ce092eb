//! The expected content of a database, during a session and after its end.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use ecotone_engine::contract::Record;

use super::{Kind, Store, UNLOGGED, Verdict, superseded::Versions, unlogged::Unlogged, verified};
use crate::model::{Change, Ending, Level, Model};

/// Expectations of all keyspaces of one database.
#[derive(Debug, Clone, Default)]
pub(super) struct Expect {
    logged: Model,
    unlogged: Unlogged,
    keyspaces: BTreeSet<u32>,
    /// Keyspaces whose creation or drop was not answered.
    doubtful: BTreeSet<u32>,
    pub(super) versions: Versions,
}

impl Expect {
    pub(super) fn has(&self, keyspace: u32) -> bool {
        self.keyspaces.contains(&keyspace)
    }

    pub(super) fn keyspaces(&self) -> impl Iterator<Item = u32> + '_ {
        self.keyspaces.iter().copied()
    }

    pub(super) fn created(&mut self, keyspace: u32) {
        self.keyspaces.insert(keyspace);
    }

    pub(super) fn dropped(&mut self, keyspace: u32) {
        self.keyspaces.remove(&keyspace);
        self.forget(keyspace);
    }

    /// Notes that a creation or drop of this keyspace was not answered.
    pub(super) fn doubt(&mut self, keyspace: u32) {
        self.doubtful.insert(keyspace);
    }

    fn forget(&mut self, keyspace: u32) {
        self.versions.dropped(keyspace);
        match keyspace {
            UNLOGGED => self.unlogged = Unlogged::default(),
            _ => self.logged.forget(keyspace),
        }
    }

    /// Notes a write that was answered with this promise, or not at all.
    pub(super) fn wrote(&mut self, changes: &[Change], level: Level) {
        self.versions.wrote(changes);
        let (unlogged, logged): (Vec<_>, Vec<_>) =
            changes.iter().cloned().partition(|((keyspace, _), _)| *keyspace == UNLOGGED);
        unlogged.into_iter().for_each(|((_, key), value)| self.unlogged.record(&key, value));
        if !logged.is_empty() {
            self.logged.record(logged, level);
        }
    }

    /// Notes that everything logged was synced.
    pub(super) fn synced(&mut self) {
        self.logged.acknowledge_all(Level::Sync);
    }

    /// Notes that everything was flushed to the data files.
    pub(super) fn flushed(&mut self) {
        self.synced();
        self.unlogged.settle();
    }

    pub(super) fn get(&self, keyspace: u32, key: &[u8]) -> Option<&Vec<u8>> {
        match keyspace {
            UNLOGGED => self.unlogged.now().get(key),
            _ => self.logged.get(keyspace, key),
        }
    }

    /// The records of a keyspace, in order.
    pub(super) fn content(&self, keyspace: u32) -> BTreeMap<Vec<u8>, Vec<u8>> {
        if keyspace == UNLOGGED {
            return self.unlogged.now().clone();
        }
        let range = (keyspace, Vec::new())..(keyspace + 1, Vec::new());
        self.logged.now().range(range).map(|((_, key), value)| (key.clone(), value.clone())).collect()
    }

    /// Judges what a store holds after an end, and continues from that content.
    pub(super) fn restart(&mut self, ending: Ending, store: &dyn Store, kind: Kind) -> Verdict {
        self.settle_keyspaces(store)?;
        let mut logged = Vec::new();
        for keyspace in self.keyspaces.clone() {
            let found = read_all(store, kind, keyspace)?;
            match keyspace {
                UNLOGGED => self.unlogged.restart(ending == Ending::Closed, found.into_iter().collect())?,
                _ => logged.extend(found.into_iter().map(|(key, value)| ((keyspace, key), value))),
            }
        }
        self.logged.restart(ending, logged)?;
        let content =
            |keyspace: u32| self.content(keyspace).into_iter().map(move |(key, value)| ((keyspace, key), value));
        let content: Vec<_> = self.keyspaces().flat_map(content).collect();
        self.versions.begin(content.into_iter(), ending);
        self.compare_gets(store)?;
        verified(store)
    }

    fn settle_keyspaces(&mut self, store: &dyn Store) -> Verdict {
        let found: BTreeSet<u32> = store.keyspaces().into_iter().collect();
        for keyspace in std::mem::take(&mut self.doubtful) {
            if found.contains(&keyspace) {
                self.keyspaces.insert(keyspace);
            } else {
                self.dropped(keyspace);
            }
        }
        if found == self.keyspaces {
            Ok(())
        } else {
            Err(format!("the keyspaces {:?} became {found:?}", self.keyspaces))
        }
    }

    /// Point reads must give what scans gave.
    fn compare_gets(&self, store: &dyn Store) -> Verdict {
        for keyspace in self.keyspaces() {
            let content = self.content(keyspace);
            let keys: Vec<Vec<u8>> = content.keys().flat_map(|key| [key.clone(), absent(key)]).collect();
            let values = store.multi_get(keyspace, &keys).map_err(|error| format!("multi_get failed: {error}"))?;
            for (key, value) in keys.iter().zip(values) {
                if content.get(key) != value.as_ref() {
                    return Err(format!(
                        "keyspace {keyspace}: a scan gives {:?}, multi_get {value:?}",
                        content.get(key)
                    ));
                }
            }
        }
        Ok(())
    }
}

/// A key beside this one.
fn absent(key: &[u8]) -> Vec<u8> {
    [&key[..key.len() - 1], &[key[key.len() - 1] ^ 1]].concat()
}

/// Everything in a keyspace, by key.
pub(super) fn read_all(store: &dyn Store, kind: Kind, keyspace: u32) -> Verdict<Vec<Record>> {
    match kind {
        Kind::Ordered => scan_all(store, keyspace),
        Kind::Hashed => walk_all(store, keyspace),
    }
}

fn walk_all(store: &dyn Store, keyspace: u32) -> Verdict<Vec<Record>> {
    let mut records =
        store.walk(keyspace).map_err(|error| format!("the walk over keyspace {keyspace} failed: {error}"))?;
    records.sort_unstable();
    match records.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(records),
        Some(pair) => Err(format!("the walk over keyspace {keyspace} gave {} twice", pair[0].0.escape_ascii())),
    }
}

/// Reads everything from both ends, and compares.
fn scan_all(store: &dyn Store, keyspace: u32) -> Verdict<Vec<Record>> {
    let scan = |reverse| {
        let records = store.scan(keyspace, (Bound::Unbounded, Bound::Unbounded), reverse);
        records.map_err(|error| format!("the scan of keyspace {keyspace} failed: {error}"))
    };
    let (forward, mut backward) = (scan(false)?, scan(true)?);
    backward.reverse();
    if forward != backward {
        return Err(format!(
            "keyspace {keyspace} has {} records forward and {} backward",
            forward.len(),
            backward.len()
        ));
    }
    if forward.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err(format!("the scan of keyspace {keyspace} is out of order"));
    }
    Ok(forward)
}
