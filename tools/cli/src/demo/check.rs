//! Reads everything back and compares it with the expected state.

use ecotone::Database;

use crate::{
    demo::{
        expected::{ABSENT, ExpectedState, Findings},
        keyspaces::{DemoKeyspaces, Universe},
        progress,
        sets::{self, Sizes},
        values,
    },
    failure::Failure,
    open_keyspace::OpenKeyspace,
};

/// Paths read in one multi-get.
const TOGETHER: usize = 64;

/// Compares every record, present and deleted. Returns the findings, and the number of acknowledged writes checked.
pub(crate) fn everything(
    keyspaces: &DemoKeyspaces<'_>,
    sizes: Sizes,
    ledger: &mut ExpectedState,
) -> Result<(Findings, u64), Failure> {
    let universe = keyspaces.universe;
    let mut found = vec![ABSENT; universe.len()];
    let bar = progress::bar("checking every acknowledged write", (universe.len() + sizes.paths) as u64);
    let mut strange = Findings::default();
    let cities = by_key(universe);
    let city = |key| cities.binary_search_by_key(&key, |&(key, _)| key).ok().map(|at| cities[at].1);
    read_all(&keyspaces.taxa, |key| universe.taxa.index(key), &mut found, &mut strange, &bar)?;
    read_all(&keyspaces.cities, city, &mut found, &mut strange, &bar)?;
    paths(&keyspaces.paths, sizes.paths, &mut strange, &bar)?;
    bar.finish_and_clear();
    let mut findings = ledger.compare(&found, |index| name(universe, index));
    findings.wrong += strange.wrong;
    findings.told.append(&mut strange.told);
    Ok((findings, ledger.acknowledged() + sizes.paths as u64))
}

/// Records the version of every record of a keyspace.
fn read_all(
    space: &OpenKeyspace,
    index: impl Fn(u64) -> Option<usize>,
    found: &mut [u32],
    strange: &mut Findings,
    bar: &indicatif::ProgressBar,
) -> Result<(), Failure> {
    let (mut last, is_ordered) = (None, matches!(space, OpenKeyspace::Ordered(_)));
    for record in space.records() {
        let (bytes, value) = record?;
        let key = bytes.as_slice().try_into().map(u64::from_be_bytes);
        let record = key.ok().and_then(|key| Some((key, index(key)?, values::version(key, &value)?)));
        match record {
            Some((key, index, version)) if found[index] == ABSENT && (!is_ordered || last < Some(key)) => {
                last = Some(key);
                found[index] = version;
            }
            _ => strange.add(format!(
                "{} holds a record under {bytes:02x?} that was never stored, or stands twice or in a wrong place",
                space.name()
            )),
        }
        bar.inc(1);
    }
    Ok(())
}

fn paths(
    space: &OpenKeyspace,
    count: usize,
    strange: &mut Findings,
    bar: &indicatif::ProgressBar,
) -> Result<(), Failure> {
    let mut paths = sets::paths(count).zip(0u64..).peekable();
    while paths.peek().is_some() {
        let some: Vec<(Vec<u8>, u64)> = paths.by_ref().take(TOGETHER).collect();
        let values = space.multi_get(some.iter().map(|(path, _)| path))?;
        for ((path, number), value) in some.iter().zip(values) {
            if value != Some(path_value(*number)) {
                strange.add(format!("the path {} has lost its value", String::from_utf8_lossy(path)));
            }
        }
        bar.inc(some.len() as u64);
    }
    Ok(())
}

/// Runs the database's own check. Returns the number of records and of pages.
pub(crate) fn verify(database: &Database) -> Result<(u64, u64), Failure> {
    let spinner = progress::spinner("verifying every page");
    let reports = database.verify();
    spinner.finish_and_clear();
    let (mut records, mut pages) = (0, 0);
    for (name, check) in reports? {
        if let Some(problem) = check.problems.first() {
            return Err(Failure::Told(format!(
                "verify found {} problems in {name}, first: {problem}",
                check.problems.len()
            )));
        }
        records += check.records;
        pages += check.pages;
    }
    Ok((records, pages))
}

/// The value of the path with this number.
pub(crate) fn path_value(number: u64) -> Vec<u8> {
    format!("line {} of the list", number + 1).into_bytes()
}

fn by_key(universe: &Universe) -> Vec<(u64, usize)> {
    let mut cities: Vec<(u64, usize)> = universe.cities.iter().copied().zip(universe.taxa.len()..).collect();
    cities.sort_unstable();
    cities
}

fn name(universe: &Universe, index: usize) -> String {
    let kind = if index < universe.taxa.len() { "taxon" } else { "town" };
    format!("{kind} {}", universe.key(index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    use crate::{demo::phases, target::Engine};

    const SIZES: Sizes = Sizes { taxa: 2_000, cities: 300, paths: 100 };

    #[test]
    fn what_was_lost_is_found() {
        Engine::value_variants().iter().for_each(|&engine| what_was_lost_with(engine));
    }

    fn what_was_lost_with(engine: Engine) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::builder(directory.path().join("db")).memory_budget(16 << 20).open().unwrap();
        let universe = Universe::new(SIZES);
        let keyspaces = DemoKeyspaces::create(&database, &universe, engine, &[]).unwrap();
        phases::load_taxa(&keyspaces).unwrap();
        phases::load_cities(&keyspaces).unwrap();
        phases::load_paths(&keyspaces, SIZES).unwrap();
        let mut ledger = ExpectedState::loaded(universe.len());
        let mut check = || everything(&keyspaces, SIZES, &mut ledger).unwrap();
        let (findings, acknowledged) = check();
        assert_eq!((findings.wrong, acknowledged), (0, 2_400));
        assert_eq!(verify(&database).unwrap().0, 2_400);

        keyspaces.taxa.remove(&universe.key(7).to_be_bytes()).unwrap();
        keyspaces.cities.insert(&universe.key(2_001).to_be_bytes(), &values::value(universe.key(2_001), 9)).unwrap();
        keyspaces.paths.remove(&sets::paths(1).next().unwrap()).unwrap();
        let (findings, _) = check();
        assert_eq!((findings.wrong, findings.told.len()), (3, 3), "{findings:?}");
        // A value of another key, and a key that was never stored.
        keyspaces.taxa.insert(&universe.key(8).to_be_bytes(), &values::value(universe.key(9), 0)).unwrap();
        keyspaces.taxa.insert(b"stranger", b"").unwrap();
        assert!(check().0.wrong > 4);
        assert!(check().0.verdict(acknowledged).is_err());
    }
}
