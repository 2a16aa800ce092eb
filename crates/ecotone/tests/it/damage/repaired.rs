//! A repaired database and the checks of its content.

use std::{collections::BTreeSet, sync::Arc};

use ecotone::{
    KeyRange, Repair, RepairReport, RepairedKeyspace, Result,
    internal::{Components, substrate::storage::FileId},
};
use ecotone_testkit::{
    model::{Key, State},
    sim::{SimClock, SimStorage},
};

use super::{
    either::{Either, either},
    image::{self, Image},
};

const BUDGET: usize = 16 << 20;

/// A repaired database: its report, and its content with the keyspaces by their old ids.
pub(super) struct Repaired {
    pub(super) report: RepairReport,
    pub(super) content: State,
}

fn parts(disk: &SimStorage) -> Components {
    let (storage, clock) = (Arc::new(disk.clone()), Arc::new(SimClock::new(3)));
    Components { storage, clock, workers: 0, families: image::families().into() }
}

/// Repairs the database on `disk`, which must not change.
pub(super) fn attempt(disk: &SimStorage) -> Result<Repaired> {
    let before = disk.files();
    let new = SimStorage::new(5);
    let repair = Repair::new("damaged", "repaired").memory_budget(BUDGET);
    let report = repair.run_parts(Arc::new(disk.clone()), parts(&new), &mut |_| {})?;
    assert!(disk.files() == before, "the damaged database was changed");
    let database = image::open(&new, 9)?;
    assert!(database.verify()?.iter().all(|(_, check)| check.problems.is_empty()), "the repaired database is sound");
    let mut content = State::new();
    for keyspace in &report.keyspaces {
        either!(image::keyspace(&database, &keyspace.name)?, opened => for record in opened.iter() {
            let (key, value) = record?;
            content.insert((keyspace.id, key), value);
        });
    }
    assert!(!new.files().keys().any(|file| matches!(file, FileId::Scratch(_))), "scratch files are removed");
    image::abandon(&new, database);
    Ok(Repaired { report, content })
}

fn within(ranges: &[KeyRange], key: &[u8]) -> bool {
    ranges.iter().any(|(start, end)| start.as_slice() <= key && end.as_ref().is_none_or(|end| key < end.as_slice()))
}

impl Repaired {
    pub(super) fn of(&self, id: u32) -> &RepairedKeyspace {
        self.report.keyspaces.iter().find(|keyspace| keyspace.id == id).expect("a keyspace")
    }

    /// Asserts that a keyspace has its old content.
    pub(super) fn assert_has(&self, id: u32, image: &Image, place: &str) {
        let of_it = |state: &State| -> State {
            state.iter().filter(|(key, _)| key.0 == id).map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        assert!(of_it(&self.content) == of_it(image.now()), "{place}: {:#?}", self.report);
    }

    /// Whether the report allows a key to differ from its old state.
    pub(super) fn is_hurt(&self, (id, key): &Key) -> bool {
        let keyspace = self.of(*id);
        within(&keyspace.missing.listed, key) || within(&keyspace.doubtful.listed, key)
    }

    /// The keys that differ from what is expected.
    pub(super) fn wrong(&self, expected: &State) -> Vec<Key> {
        let all = expected.keys().chain(self.content.keys()).cloned().collect::<BTreeSet<Key>>();
        all.into_iter().filter(|key| expected.get(key) != self.content.get(key)).collect()
    }

    /// Asserts that all differences from what is expected are reported. Returns their number.
    pub(super) fn fits(&self, expected: &State, place: &str) -> usize {
        let wrong = self.wrong(expected);
        if let Some((id, key)) = wrong.iter().find(|key| !self.is_hurt(key)) {
            let key = String::from_utf8_lossy(key);
            panic!("{place}: {key:?} of keyspace {id} is wrong and was not told, in {:#?}", self.report);
        }
        wrong.len()
    }
}
