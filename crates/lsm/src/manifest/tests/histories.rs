//! Random histories of edits. Each leaves a manifest that has every table once, in the expected run, and that its root
//! restores.

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::manifest::tests::*;

/// The tables that an edit deletes, and those that it adds with their runs.
type Drawn = (Vec<u32>, Vec<(RunId, u32)>);

/// A history of edits, and the expected run of each table.
struct History {
    random: SmallRng,
    manifest: LevelManifest,
    next: u32,
    there: BTreeMap<u32, RunId>,
}

impl History {
    fn new(seed: u64) -> History {
        let random = SmallRng::seed_from_u64(seed);
        History { random, manifest: LevelManifest::default(), next: 1, there: BTreeMap::new() }
    }

    fn fresh(&mut self, run_id: RunId) -> (RunId, u32) {
        self.next += 1;
        (run_id, self.next)
    }

    /// Some tables of one run or level.
    fn some(&mut self) -> Option<(RunId, Vec<u32>)> {
        let places = numbers(&self.manifest);
        let (run_id, tables) = places.get(self.random.random_range(0..places.len().max(1)))?;
        let few = tables.iter().copied().filter(|_| self.random.random_bool(0.5)).collect();
        Some((*run_id, few))
    }

    /// A valid edit.
    fn change(&mut self) -> Option<Drawn> {
        let runs = numbers(&self.manifest).iter().filter(|(run_id, _)| run_id.is_l0()).count();
        if runs < MAX_RUNS && self.random.random_bool(0.4) {
            let run = RunId::L0(self.manifest.next_ordinal() + self.random.random_range(0..3));
            return Some((vec![], (0..self.random.random_range(1..4)).map(|_| self.fresh(run)).collect()));
        }
        let (run_id, deleted) = self.some()?;
        let depth = match run_id {
            RunId::L0(_) => self.random.random_range(1..=MAX_LEVELS),
            RunId::LAST => return None,
            RunId::Level(level) => self.random.random_range(1..=level.levels_below()),
        };
        let to = RunId::at_depth(depth);
        let moves = self.random.random_bool(0.3);
        let added = deleted.iter().map(|number| if moves { (to, *number) } else { self.fresh(to) }).collect();
        Some((deleted, added))
    }

    fn step(&mut self) {
        let Some((deleted, added)) = self.change() else { return };
        let wanted = change(&deleted, &added);
        let replayed = VersionEdit::decode(&wanted.encode()).unwrap();
        assert_eq!(replayed, wanted);
        self.manifest.apply(&replayed).unwrap_or_else(|what| panic!("{wanted:?}: {what}"));
        deleted.iter().for_each(|number| assert!(self.there.remove(number).is_some()));
        added.iter().for_each(|(run_id, number)| assert_eq!(self.there.insert(*number, *run_id), None));
        assert_eq!(self.manifest.tables().count(), self.there.len());
        self.there.iter().for_each(|(number, run_id)| assert_eq!(self.manifest.run_of(file(*number)), Some(*run_id)));
        let root = blob::encode(LsmOptions::default(), &self.manifest);
        assert_eq!(blob::decode(&root).as_ref().map(|(_, manifest)| manifest), Ok(&self.manifest));
    }
}

#[test]
fn random_changes_leave_what_fits_and_lose_no_table() {
    for seed in 0..40 {
        let mut history = History::new(seed);
        (0..150).for_each(|_| history.step());
        assert!(history.next > 100 && numbers(&history.manifest).len() > 3, "seed {seed}");
    }
}

/// An edit may be split into several, and then leaves the same manifest.
#[test]
fn a_flush_told_table_by_table_is_the_same_flush() {
    let whole = flush(&LevelManifest::default(), &[1, 2, 3]);
    let at_once = after(&LevelManifest::default(), &whole).unwrap();
    let mut parts = LevelManifest::default();
    for placed in &whole.added {
        parts.apply(&VersionEdit { added: vec![*placed], ..VersionEdit::default() }).unwrap();
    }
    assert_eq!(parts, at_once);
}
