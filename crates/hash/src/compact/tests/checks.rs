//! A full check of the runs.

use ecotone_engine::contract::Check;
use ecotone_substrate::limits;

use super::*;
use crate::check::check_runs;

fn checked(fixture: &Fixture) -> Check {
    let mut check = Check::default();
    check_runs(&fixture.hash, &fixture.environment, &mut check).unwrap();
    check
}

/// All damage is reported, each with its file, and the other runs are checked anyway.
#[test]
fn a_check_tells_all_damage_of_runs() {
    let mut fixture = Fixture::new(1, true);
    fixture.limits.largest_base = u64::MAX;
    assert_eq!(checked(&fixture), Check::default());
    for round in 0..3 {
        (0..200u32).for_each(|key| fixture.set(&(key * 3 + round).to_be_bytes(), &[round as u8; 100]));
        fixture.compact().unwrap();
        if round == 0 {
            fixture.merge_all_bases().unwrap();
        }
    }
    let runs: Vec<_> = fixture.hash.cold.runs().partitions().next().unwrap().runs().collect();
    let blocks: u64 = runs.iter().map(|run| u64::from(run.blocks())).sum();
    assert_eq!((runs.len(), checked(&fixture)), (3, Check { pages: blocks, ..Check::default() }));
    for damaged in 1..=runs.len() {
        let file = runs[damaged - 1].name().file();
        fixture.disk.flip_bit(file, limits::PAGE as u64 + 1_500, 3);
        let check = checked(&fixture);
        assert_eq!((check.pages, check.problems.len()), (blocks, damaged));
        assert!(check.problems.iter().any(|problem| problem.contains(&file.to_string())), "{:?}", check.problems);
    }
}
