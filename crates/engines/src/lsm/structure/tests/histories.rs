//! Random rows of changes: each leaves a structure that names every table once, as its neighbours do, and comes back
//! from its root.

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

/// Tables that go, and where each comes.
type Drawn = (Vec<u32>, Vec<(Place, u32)>);

/// A row of changes, and where each table should be by them.
struct History {
    random: SmallRng,
    structure: Structure,
    next: u32,
    there: BTreeMap<u32, Place>,
}

impl History {
    fn new(seed: u64) -> History {
        let random = SmallRng::seed_from_u64(seed);
        History { random, structure: Structure::default(), next: 1, there: BTreeMap::new() }
    }

    fn fresh(&mut self, place: Place) -> (Place, u32) {
        self.next += 1;
        (place, self.next)
    }

    /// A few tables of one place, and how old it is.
    fn some(&mut self) -> Option<(Place, Vec<u32>)> {
        let places = numbers(&self.structure);
        let (place, tables) = places.get(self.random.random_range(0..places.len().max(1)))?;
        let few = tables.iter().copied().filter(|_| self.random.random_bool(0.5)).collect();
        Some((*place, few))
    }

    /// A change that fits.
    fn change(&mut self) -> Option<Drawn> {
        let runs = numbers(&self.structure).iter().filter(|(place, _)| place.is_run()).count();
        if runs < MAX_RUNS && self.random.random_bool(0.4) {
            let run = Place::Run(self.structure.next_ordinal() + self.random.random_range(0..3));
            return Some((vec![], (0..self.random.random_range(1..4)).map(|_| self.fresh(run)).collect()));
        }
        let (place, goes) = self.some()?;
        let depth = match place {
            Place::Run(_) => self.random.random_range(1..=MAX_LEVELS),
            Place::Level(1) => return None,
            Place::Level(depth) => self.random.random_range(1..depth),
        };
        let to = Place::Level(depth);
        let moves = self.random.random_bool(0.3);
        let comes = goes.iter().map(|number| if moves { (to, *number) } else { self.fresh(to) }).collect();
        Some((goes, comes))
    }

    fn step(&mut self) {
        let Some((goes, comes)) = self.change() else { return };
        let wanted = change(&goes, &comes);
        let replayed = Change::decode(&wanted.encode()).unwrap();
        assert_eq!(replayed, wanted);
        self.structure.apply(&replayed).unwrap_or_else(|what| panic!("{wanted:?}: {what}"));
        goes.iter().for_each(|number| assert!(self.there.remove(number).is_some()));
        comes.iter().for_each(|(place, number)| assert_eq!(self.there.insert(*number, *place), None));
        assert_eq!(self.structure.tables().count(), self.there.len());
        self.there.iter().for_each(|(number, place)| assert_eq!(self.structure.place_of(file(*number)), Some(*place)));
        let root = blob::encode(LsmOptions::default(), &self.structure);
        assert_eq!(blob::decode(&root).as_ref().map(|(_, structure)| structure), Ok(&self.structure));
    }
}

#[test]
fn random_changes_leave_what_fits_and_lose_no_table() {
    for seed in 0..40 {
        let mut history = History::new(seed);
        (0..150).for_each(|_| history.step());
        assert!(history.next > 100 && numbers(&history.structure).len() > 3, "seed {seed}");
    }
}

/// A change may be told in parts, and then leaves the same.
#[test]
fn a_flush_told_table_by_table_is_the_same_flush() {
    let whole = flush(&Structure::default(), &[1, 2, 3]);
    let at_once = after(&Structure::default(), &whole).unwrap();
    let mut parts = Structure::default();
    for placed in &whole.comes {
        parts.apply(&Change { comes: vec![*placed], ..Change::default() }).unwrap();
    }
    assert_eq!(parts, at_once);
}
