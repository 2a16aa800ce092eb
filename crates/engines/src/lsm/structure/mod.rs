//! Which tables an lsm keyspace has, and where each of them is (`docs/format/lsm.md`, "Structural records" and "Root").
//! Names alone, so that replay needs no I/O; what lies where within a run or level is up to who opens the tables.

mod change;
mod cover_edit;
mod covers;
mod place;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::{MAX_LEVELS, MAX_RUNS, MAX_TABLES},
    table::File,
};

pub use self::{
    change::Change,
    cover_edit::{Become, CoverEdit},
    covers::{Cover, Covers, Stretch},
    place::Place,
};

/// Why something is no structure.
pub type Misfit = &'static str;

/// The tables of a keyspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Structure {
    /// From young to old. No place is empty.
    places: BTreeMap<Place, BTreeSet<File>>,
    /// Where some of them do not count. It is shared by all structures and versions that have the same.
    covers: Arc<Covers>,
}

impl Structure {
    /// All places that have tables, from young to old, and these by number.
    pub fn places(&self) -> impl DoubleEndedIterator<Item = (Place, &BTreeSet<File>)> {
        self.places.iter().map(|(place, tables)| (*place, tables))
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = File> {
        self.places.values().flatten().copied()
    }

    /// Where a table is.
    pub fn place_of(&self, file: File) -> Option<Place> {
        self.places().find(|(_, tables)| tables.contains(&file)).map(|(place, _)| place)
    }

    /// Where some tables do not count.
    pub fn covers(&self) -> &Arc<Covers> {
        &self.covers
    }

    /// The same tables, with covers from a root.
    #[must_use]
    pub fn covered(self, covers: Covers) -> Structure {
        Structure { covers: Arc::new(covers), ..self }
    }

    /// The ordinal of a run that is younger than all, and than all floors: or else what comes next would not count
    /// where the runs are gone that a floor was above (decision 15, invariant 7).
    pub fn next_ordinal(&self) -> u64 {
        let youngest = match self.places.keys().next() {
            Some(Place::Run(youngest)) => youngest + 1,
            _ => 0,
        };
        youngest.max(self.covers.next_ordinal())
    }

    /// Makes a change. After an error it is of no use any more.
    ///
    /// # Errors
    /// If the change does not fit.
    pub fn apply(&mut self, change: &Change) -> Result<(), Misfit> {
        let fresh = self.next_ordinal();
        change.comes.iter().try_for_each(|(place, file)| self.allow(*place, *file, fresh))?;
        change.goes.iter().try_for_each(|file| self.remove(*file))?;
        change.comes.iter().try_for_each(|(place, file)| self.insert(*place, *file))?;
        self.check()?;
        self.change_covers(&change.covers, fresh)
    }

    /// A floor may be a run that came or went with the same change; before it, this ordinal was above all.
    fn change_covers(&mut self, edits: &[CoverEdit], before: u64) -> Result<(), Misfit> {
        if edits.is_empty() {
            return Ok(());
        }
        let fresh = Place::Run(self.next_ordinal().max(before));
        let is_possible = |floor: Place| floor.is_possible() && floor > fresh;
        if !edits.iter().filter_map(|edit| edit.becomes.floor()).all(is_possible) {
            return Err("a floor is above all that is there");
        }
        Arc::make_mut(&mut self.covers).apply(edits)
    }

    /// Whether a table may come to a place, of which all there was before decides.
    fn allow(&self, place: Place, file: File, fresh: u64) -> Result<(), Misfit> {
        if let Place::Run(ordinal) = place
            && ordinal < fresh
            && !self.places.contains_key(&place)
        {
            return Err("a run comes that is not the youngest");
        }
        match self.place_of(file) {
            Some(before) if place <= before => Err("a table moves to where it is, or where what is younger is"),
            None if self.has_number(file.number) => Err("a table comes under a number that another has"),
            _ => Ok(()),
        }
    }

    fn remove(&mut self, file: File) -> Result<(), Misfit> {
        let place = self.place_of(file).ok_or("a table goes that is not there")?;
        let tables = self.places.get_mut(&place).ok_or("a table goes that is nowhere")?;
        tables.remove(&file);
        if tables.is_empty() {
            self.places.remove(&place);
        }
        Ok(())
    }

    fn insert(&mut self, place: Place, file: File) -> Result<(), Misfit> {
        if self.has_number(file.number) {
            return Err("two tables have one number");
        }
        self.places.entry(place).or_default().insert(file);
        Ok(())
    }

    /// Whether a table has this number.
    pub(super) fn has_number(&self, number: u32) -> bool {
        let (first, last) = (File { number, birth: 0 }, File { number, birth: u64::MAX });
        self.places.values().any(|tables| tables.range(first..=last).next().is_some())
    }

    /// Whether there are no more places than can be.
    fn check(&self) -> Result<(), Misfit> {
        if !self.places.keys().all(|place| place.is_possible()) {
            return Err("there is no such run or level");
        }
        let runs = self.places.keys().filter(|place| place.is_run()).count();
        if runs > MAX_RUNS { Err("level 0 has too many runs") } else { Ok(()) }
    }

    /// Appends it to a root, without covers.
    pub fn encode(&self, w: &mut Writer) {
        w.varint(self.places.len() as u64);
        for (place, tables) in &self.places {
            place.encode(w);
            w.varint(tables.len() as u64);
            tables.iter().for_each(|file| File::encode(Some(*file), w));
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If it is something else, or does not fit together.
    pub fn decode(r: &mut Reader<'_>) -> Result<Structure, Malformed> {
        let start = r.position();
        let places = r.list(MAX_RUNS + usize::from(MAX_LEVELS), |r| {
            Ok((Place::decode(r)?, r.list(MAX_TABLES as usize, File::decode_some)?))
        })?;
        let misfit = |what| Malformed::new(start, what);
        let mut structure = Structure::default();
        for (place, tables) in places {
            structure.push(place, &tables).map_err(misfit)?;
        }
        structure.check().map_err(misfit)?;
        Ok(structure)
    }

    /// Adds a place that is older than all. It has tables, which ascend.
    fn push(&mut self, place: Place, tables: &[File]) -> Result<(), Misfit> {
        if self.places.last_key_value().is_some_and(|(last, _)| *last >= place) {
            return Err("runs and levels are not from young to old");
        }
        if tables.is_empty() || !tables.is_sorted_by(|a, b| a.number < b.number) {
            return Err("the tables of a run or level are none, or do not ascend");
        }
        tables.iter().try_for_each(|file| self.insert(place, *file))
    }
}
