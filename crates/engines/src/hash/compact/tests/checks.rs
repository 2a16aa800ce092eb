//! A full check of the runs.

use ecotone_substrate::limits;

use super::*;
use crate::engine::Check;

fn checked(world: &World) -> Check {
    let mut check = Check::default();
    world.hash.check_runs(&world.environment, &mut check).unwrap();
    check
}

/// Whatever is damaged is told, each by its file, and the others are looked at all the same.
#[test]
fn a_check_tells_all_damage_of_runs() {
    let mut world = World::new(1, true);
    world.goals.largest_base = u64::MAX;
    assert_eq!(checked(&world), Check::default());
    for round in 0..3 {
        (0..200u32).for_each(|key| world.set(&(key * 3 + round).to_be_bytes(), &[round as u8; 100]));
        world.compact().unwrap();
        if round == 0 {
            world.fold_all().unwrap();
        }
    }
    let runs: Vec<_> = world.hash.cold.runs().partitions().next().unwrap().runs().collect();
    let blocks: u64 = runs.iter().map(|run| u64::from(run.blocks())).sum();
    assert_eq!((runs.len(), checked(&world)), (3, Check { pages: blocks, ..Check::default() }));
    for damaged in 1..=runs.len() {
        let file = runs[damaged - 1].name().file();
        world.disk.flip_bit(file, limits::PAGE as u64 + 1_500, 3);
        let check = checked(&world);
        assert_eq!((check.pages, check.problems.len()), (blocks, damaged));
        assert!(check.problems.iter().any(|problem| problem.contains(&file.to_string())), "{:?}", check.problems);
    }
}
