//! Where jobs are cut, over tables of which nothing is on a disk. Each has 100 bytes.

use std::ops::Bound;

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::pieces::version;
use crate::lsm::{
    compact::pick::Piece,
    version::{Ranged, tests::Fake},
};

/// Bytes of a piece between neighbours of these keys: a table counts alike for all stretches of the finest cut over
/// which it reaches.
fn shares(piece: &Piece<Fake>, finest: &[&[u8]], cuts: &[&[u8]]) -> Vec<f64> {
    let mut shares = vec![0.0; cuts.len() + 1];
    for table in piece.inputs.iter().flat_map(|(_, run)| run.tables()) {
        let stretch = |key: &[u8]| finest.partition_point(|cut| *cut <= key);
        let reached = stretch(table.first())..=stretch(table.last());
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
        let piece = version.piece_of_level_0(u64::MAX).expect("there are runs");
        let (finest, parts) = (piece.cuts(1000), random.random_range(1..7));
        let cuts = piece.cuts(parts);
        assert!(
            cuts.len() < parts as usize
                && cuts.is_sorted_by(|a, b| a < b)
                && cuts.iter().all(|cut| finest.contains(cut))
        );
        let heaviest = shares(&piece, &finest, &finest).into_iter().fold(0.0, f64::max);
        let most = piece.bytes() as f64 / parts as f64 + heaviest + 10.0;
        let shares = shares(&piece, &finest, &cuts);
        assert!(shares.iter().all(|share| *share > 0.0 && *share <= most), "{shares:?}, {most}");
        let level = piece.inputs.iter().find(|(place, run)| *place == piece.target && run.tables().len() > 1);
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
        let piece = version.piece_of_level_0(u64::MAX).expect("there are runs");
        for least in [4, 40, 200, 400, 4000] {
            let ranges = piece.ranges(threads, least);
            let most = (2 * threads as u64).min(piece.bytes() / least).max(1);
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
