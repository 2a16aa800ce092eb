//! How compactions are split, over tables that have no file. Each has 100 bytes.

use std::ops::Bound;

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    compaction::{strategy::plan::CompactionPlan, tests::plans::version},
    version::{TableMeta, tests::Fake},
};

/// Bytes of a plan between adjacent cuts. The bytes of a table are divided evenly among the intervals of the finest
/// cuts that it overlaps.
fn shares(plan: &CompactionPlan<Fake>, finest: &[&[u8]], cuts: &[&[u8]]) -> Vec<f64> {
    let mut shares = vec![0.0; cuts.len() + 1];
    for table in plan.inputs.iter().flat_map(|(_, run)| run.tables()) {
        let key_range = |key: &[u8]| finest.partition_point(|cut| *cut <= key);
        let reached = key_range(table.first())..=key_range(table.last());
        let each = table.bytes() as f64 / reached.clone().count() as f64;
        for number in reached {
            let begins = number.checked_sub(1).map_or(&[][..], |number| finest[number]);
            shares[cuts.partition_point(|cut| *cut <= begins)] += each;
        }
    }
    shares
}

#[test]
fn parts_have_their_shares_and_end_where_tables_of_the_level_begin() {
    let (mut random, mut many) = (SmallRng::seed_from_u64(1), 0);
    for _ in 0..500 {
        let version = version(&mut random);
        let plan = version.plan_l0(u64::MAX).expect("there are runs");
        let (finest, parts) = (plan.cuts(1000), random.random_range(1..7));
        let cuts = plan.cuts(parts);
        assert!(
            cuts.len() < parts as usize
                && cuts.is_sorted_by(|a, b| a < b)
                && cuts.iter().all(|cut| finest.contains(cut))
        );
        let heaviest = shares(&plan, &finest, &finest).into_iter().fold(0.0, f64::max);
        let most = plan.bytes() as f64 / parts as f64 + heaviest + 10.0;
        let shares = shares(&plan, &finest, &cuts);
        assert!(shares.iter().all(|share| *share > 0.0 && *share <= most), "{shares:?}, {most}");
        let level = plan.inputs.iter().find(|(run_id, run)| *run_id == plan.target && run.tables().len() > 1);
        if let Some((_, level)) = level {
            assert!(finest.iter().all(|cut| level.tables().iter().any(|table| table.first() == *cut)));
        }
        many += usize::from(cuts.len() > 2);
    }
    assert!(many > 50, "{many}");
}

#[test]
fn ranges_are_all_keys_and_none_is_too_small() {
    let mut random = SmallRng::seed_from_u64(2);
    for threads in 1..5 {
        let version = version(&mut random);
        let plan = version.plan_l0(u64::MAX).expect("there are runs");
        for least in [4, 40, 200, 400, 4000] {
            let ranges = plan.ranges(threads, least);
            let most = (2 * threads as u64).min(plan.bytes() / least).max(1);
            assert!(ranges.len() as u64 <= if threads > 1 { most } else { 1 });
            assert_eq!((&ranges[0].0, &ranges[ranges.len() - 1].1), (&Bound::Unbounded, &Bound::Unbounded));
            for pair in ranges.windows(2) {
                assert!(
                    matches!((&pair[0].1, &pair[1].0), (Bound::Excluded(end), Bound::Included(begin)) if end == begin)
                );
            }
        }
    }
}
