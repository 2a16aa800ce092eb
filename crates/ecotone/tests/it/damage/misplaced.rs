//! A sound page at the wrong place, as a misdirected or a lost write leaves it. Its fences reveal it.

use std::ops::Bound;

use ecotone::internal::substrate::{
    limits::PAGE,
    page::{Page, PageAddress, PageKind},
    storage::FileId,
};
use ecotone_testkit::{sim::Crash, suite::Opener};

use super::seal::seal;
use crate::{
    traps::{Fixture, KEYSPACE, key, value},
    tree,
};

const FILE: FileId = FileId::Pages(KEYSPACE);
const RECORDS: u32 = 60;

#[test]
fn trap_04_model_drift() {
    let fixture = Fixture::loaded(tree, (0..RECORDS).map(|_| 900));
    let bytes = fixture.disk.files()[&FILE].clone();
    let base = |number: &usize| {
        let place = PageAddress { file: FILE.identity(), page: *number as u32 };
        Page::parse(&bytes[number * PAGE..(number + 1) * PAGE], place).is_ok_and(|page| page.kind() == PageKind::Base)
    };
    let bases: Vec<usize> = (1..bytes.len() / PAGE).filter(base).collect();
    let mut found = 0;
    for pair in bases.windows(2) {
        let mut changed = bytes.clone();
        changed.copy_within(pair[1] * PAGE..(pair[1] + 1) * PAGE, pair[0] * PAGE);
        // The header holds the page's number, so only the fences are wrong.
        changed[pair[0] * PAGE + 16..][..4].copy_from_slice(&(pair[0] as u32).to_le_bytes());
        seal(FILE, &mut changed);
        let disk = fixture.disk.crash(Crash::KeepAll);
        disk.put(FILE, &changed);
        let store = tree().open(&disk, 1).unwrap();
        let answers: Vec<_> = (0..RECORDS).map(|number| store.get(KEYSPACE, &key(number))).collect();
        let right = |(number, answer): (u32, &Option<Vec<u8>>)| *answer == Some(value(number, 0, 900));
        assert!(
            (0..)
                .zip(&answers)
                .all(|(number, answer)| answer.as_ref().is_ok_and(|answer| right((number, answer))) || answer.is_err())
        );
        let errors = answers
            .iter()
            .filter(|answer| answer.as_ref().is_err_and(|error| error.to_string().contains("pages.1")))
            .count();
        let scanned = store.scan(KEYSPACE, (Bound::Unbounded, Bound::Unbounded), false);
        let problems = store.verify().unwrap();
        // The index no longer names the old page, so its damage does no harm.
        assert_eq!(
            (scanned.is_err(), problems.is_empty()),
            (errors > 0, errors == 0),
            "page {} at {}: {problems:?}",
            pair[1],
            pair[0]
        );
        found += usize::from(errors > 0);
    }
    assert!(found > bases.len() / 2, "{found} of {} were noticed", bases.len());
}
