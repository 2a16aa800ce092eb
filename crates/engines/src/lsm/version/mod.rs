//! The tables of a keyspace at one moment, open: what readers search, as one value that never changes (decision 11,
//! "Shape"; decision 12, invariant 10).

mod run;
mod split;
mod targets;
#[cfg(test)]
pub(super) mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ecotone_substrate::table::File;

pub(crate) use self::run::Run;
pub use self::split::Split;
use super::structure::{Cover, Covers, Misfit, Place, Structure};

type Open<'t, T> = BTreeMap<File, &'t Arc<T>>;

/// What a version has to know of a table.
pub(crate) trait Ranged {
    /// Its file.
    fn file(&self) -> File;
    /// Its first key.
    fn first(&self) -> &[u8];
    /// Its last key, which is not below the first.
    fn last(&self) -> &[u8];
    /// Bytes of its file.
    fn bytes(&self) -> u64;
    /// Its records, tombstones included, and these.
    fn records(&self) -> (u64, u64);
    /// The part of it that can have keys of a range, from one to before another, about.
    fn share(&self, range: (&[u8], &[u8])) -> f64;
    /// Bytes of that.
    fn bytes_within(&self, range: (&[u8], &[u8])) -> u64 {
        (self.bytes() as f64 * self.share(range)) as u64
    }
    /// How often a block of it was read for a key that it does not have.
    fn reads_in_vain(&self) -> u64;
}

/// Runs of level 0 and levels. Of all records of a key the one in the first of them that has the key is the newest.
/// Where covers say so, the older ones do not count.
#[derive(Debug)]
pub(crate) struct Version<T> {
    runs: Box<[(Place, Run<T>)]>,
    covers: Arc<Covers>,
}

impl<T: Ranged> Version<T> {
    /// Of a keyspace without tables.
    pub(crate) fn empty() -> Version<T> {
        Version { runs: Box::default(), covers: Arc::default() }
    }

    /// What follows this version when the keyspace has these tables: those that it has, and those that are `fresh`.
    ///
    /// # Errors
    /// If ranges within a run or level overlap.
    ///
    /// # Panics
    /// If a table is neither here nor fresh.
    pub(crate) fn after(&self, structure: &Structure, fresh: &[Arc<T>]) -> Result<Version<T>, Misfit> {
        let open: Open<'_, T> = self.tables().chain(fresh).map(|table| (table.file(), table)).collect();
        let run = |(place, files)| Ok((place, self.run_of(place, files, &open)?));
        Ok(Version { runs: structure.places().map(run).collect::<Result<_, _>>()?, covers: structure.covers().clone() })
    }

    /// The run that has these tables: the one that was there, if it had them.
    fn run_of(&self, place: Place, files: &BTreeSet<File>, open: &Open<'_, T>) -> Result<Run<T>, Misfit> {
        match self.run(place) {
            Some(same) if same.tables().len() == files.len() && same.files().all(|file| files.contains(&file)) => {
                Ok(same.clone())
            }
            _ => Run::of(files.iter().map(|file| open[file].clone()).collect()),
        }
    }

    /// The same without runs that are younger than one.
    pub(crate) fn without_younger(&self, youngest: Place) -> Version<T> {
        let older = self.runs.iter().filter(|(place, _)| *place >= youngest).map(|(place, run)| (*place, run.clone()));
        Version { runs: older.collect(), covers: self.covers.clone() }
    }

    /// All runs and levels, from young to old: in this order a key is looked for.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = (Place, &Run<T>)> {
        self.runs.iter().map(|(place, run)| (*place, run))
    }

    /// Those whose records of a key count, from young to old: in a cover, those above its floor (decision 14, "Shape").
    #[inline]
    pub(crate) fn counting(&self, key: &[u8]) -> impl Iterator<Item = &Run<T>> {
        self.counting_in(self.covers.at(key)).map(|(_, run)| run)
    }

    /// Those that count in a cover, or where there is none.
    pub(crate) fn counting_in<'v>(&'v self, cover: Option<&'v Cover>) -> impl Iterator<Item = (Place, &'v Run<T>)> {
        self.runs().take_while(move |(place, _)| cover.is_none_or(|cover| cover.counts(*place)))
    }

    /// Tables of which nothing counts if these are the covers.
    pub(crate) fn spent<'v>(&'v self, covers: &'v Covers) -> impl Iterator<Item = &'v Arc<T>> {
        let spent_of = move |(place, run): (Place, &'v Run<T>)| {
            let is_spent = move |table: &&Arc<T>| covers.hides(place, table.first(), table.last());
            run.tables().iter().filter(is_spent)
        };
        self.runs().flat_map(spent_of)
    }

    /// Where some of them do not count.
    pub(crate) fn covers(&self) -> &Arc<Covers> {
        &self.covers
    }

    /// The run or level at a place, if it has tables.
    pub(crate) fn run(&self, place: Place) -> Option<&Run<T>> {
        let at = self.runs.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        Some(&self.runs[at].1)
    }

    /// All tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<T>> {
        self.runs.iter().flat_map(|(_, run)| run.tables())
    }
}
