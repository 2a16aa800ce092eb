//! A repaired database, looked at whole.

use std::sync::Arc;

use ecotone::{
    KeyRange, Repair, RepairReport, RepairedKeyspace, Result,
    internal::{Parts, engines::tree::TreeFamily, substrate::storage::FileId},
};
use ecotone_testkit::{
    model::{Key, State},
    sim::{SimClock, SimStorage},
};

use super::image::{self, Image, NAMES};

const BUDGET: usize = 16 << 20;

/// A repaired database: what was told, and what it holds, with the keyspaces by their old numbers.
pub(super) struct Repaired {
    pub(super) report: RepairReport,
    pub(super) content: State,
}

fn parts(disk: &SimStorage) -> Parts {
    Parts {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(SimClock::new(3)),
        workers: 0,
        families: vec![Arc::new(TreeFamily::default())],
    }
}

/// Repairs what is on `disk`, which must not change by it.
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
        for record in database.open_keyspace(&keyspace.name)?.iter() {
            let (key, value) = record?;
            content.insert((keyspace.id, key), value);
        }
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

    /// Asserts that no more is told to be left out than the first keyspaces of the image, and that the others are as they were.
    pub(super) fn assert_whole_but(&self, left_out: usize, image: &Image, place: &str) {
        let Repaired { report, content } = self;
        let restored: Vec<_> = report.keyspaces.iter().map(|keyspace| keyspace.id).collect();
        let of_trees: Vec<_> = NAMES.iter().skip(left_out).map(|(id, _)| *id).collect();
        assert_eq!((report.left_out, restored), (left_out > 0, of_trees.clone()), "{place}: {report:#?}");
        let expected = image.now().iter().filter(|((id, _), _)| of_trees.contains(id));
        assert!(content.iter().eq(expected), "{place}: {report:#?}");
    }

    /// Whether a key may be otherwise than it was.
    fn is_hurt(&self, (id, key): &Key) -> bool {
        let keyspace = self.of(*id);
        within(&keyspace.missing.listed, key) || within(&keyspace.doubtful.listed, key)
    }

    /// Asserts that all is as expected but for what is told to be hurt. Gives how much is otherwise.
    pub(super) fn fits(&self, expected: &State, place: &str) -> usize {
        let wrong: Vec<_> =
            expected.keys().chain(self.content.keys()).filter(|key| expected.get(*key) != self.content.get(*key)).collect();
        if let Some((id, key)) = wrong.iter().find(|key| !self.is_hurt(key)) {
            let key = String::from_utf8_lossy(key);
            panic!("{place}: {key:?} of keyspace {id} is wrong and was not told, in {:#?}", self.report);
        }
        wrong.len()
    }
}
