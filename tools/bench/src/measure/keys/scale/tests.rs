use std::{collections::BTreeSet, path::Path};

use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

use super::{cells::Cell, *};

/// Keys per segment of a greedy piecewise linear model with an error of 8 positions; measures how hard a set is for
/// such models.
fn keys_per_segment(keys: &[u64]) -> f64 {
    let (mut segments, mut start, mut low, mut high) = (1, 0, 0.0, f64::INFINITY);
    for place in 1..keys.len() {
        let (x, y) = ((keys[place] - keys[start]) as f64, (place - start) as f64);
        let (least, most) = ((y - 8.0) / x, (y + 8.0) / x);
        if most < low || least > high {
            (segments, start, low, high) = (segments + 1, place, 0.0, f64::INFINITY);
        } else {
            (low, high) = (f64::max(low, least), f64::min(high, most));
        }
    }
    keys.len() as f64 / f64::from(segments)
}

/// The fraction of gaps whose power of two would have to change to make the sets alike.
fn gap_distance(one: &[u64], other: &[u64]) -> f64 {
    let histogram = |keys: &[u64]| {
        let mut parts = [0.0; 64];
        keys.windows(2).for_each(|pair| parts[(pair[1] - pair[0]).ilog2() as usize] += 1.0 / (keys.len() - 1) as f64);
        parts
    };
    histogram(one).iter().zip(histogram(other)).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

struct Sets {
    directory: tempfile::TempDir,
}

impl Sets {
    fn new() -> Self {
        Sets { directory: tempfile::tempdir().unwrap() }
    }

    fn put(&self, name: &str, keys: impl IntoIterator<Item = u64>) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, keys.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>()).unwrap();
        path
    }

    fn scale(&self, file: &Path, keys: u64, seed: u64) -> Result<Vec<u64>> {
        let words = scale(Source::open(file)?, self.directory.path(), Scale { keys, seed })?;
        all(&words)
    }
}

fn all(words: &U64File) -> Result<Vec<u64>> {
    let mut keys = Vec::new();
    words.scan(|window| {
        keys.extend_from_slice(window);
        Ok(())
    })?;
    Ok(keys)
}

/// A sorted set with dense runs, sparse regions and a few great jumps.
fn regions(count: usize) -> Vec<u64> {
    let mut rng = SmallRng::seed_from_u64(4);
    let (mut key, mut density) = (1000u64, 1);
    let gaps = (0..count).map(|number| {
        if number % 5000 == 0 {
            density = 1 << rng.random_range(0..12);
        }
        let jump = if number % 30_000 == 29_999 { 1 << 32 } else { 0 };
        jump + 1 + rng.random_range(0..density) * u64::from(rng.random_bool(0.3))
    });
    let gaps: Vec<u64> = gaps.collect();
    let mut step = |gap: &u64| {
        key += gap;
        key
    };
    gaps.iter().map(&mut step).collect()
}

#[test]
fn sorted_sets_keep_their_local_shape() {
    let (sets, real) = (Sets::new(), regions(200_000));
    let file = sets.put("ids.u64", real.iter().copied());
    for wanted in [200_000, 333_333, 1_000_000] {
        let scaled = sets.scale(&file, wanted, 1).unwrap();
        assert_eq!(scaled.len() as u64, wanted);
        assert!(scaled.is_sorted_by(|a, b| a < b), "sorted, without duplicates");
        let distance = gap_distance(&real, &scaled);
        assert!(distance < 0.05, "{wanted} keys: {distance} of the gaps differ");
        let (before, after) = (keys_per_segment(&real), keys_per_segment(&scaled));
        assert!((0.8..1.25).contains(&(after / before)), "{wanted} keys: {before} and {after} keys a segment");
        let jumps = |keys: &[u64]| keys.windows(2).filter(|pair| pair[1] - pair[0] >= 1 << 32).count();
        assert!(jumps(&scaled).abs_diff(jumps(&real)) <= 1, "every jump is there once");
    }
}

#[test]
fn uniform_keys_would_be_told_from_scaled_ones() {
    let (real, mut rng) = (regions(200_000), SmallRng::seed_from_u64(1));
    let uniform: BTreeSet<u64> = (0..200_000).map(|_| rng.next_u64() >> 20).collect();
    let uniform: Vec<u64> = uniform.into_iter().collect();
    assert!(gap_distance(&real, &uniform) > 0.5);
    assert!(
        keys_per_segment(&uniform) / keys_per_segment(&real) < 0.8
            || keys_per_segment(&uniform) / keys_per_segment(&real) > 1.25
    );
}

#[test]
fn a_seed_makes_the_same_keys_again_and_another_does_not() {
    let (sets, others) = (Sets::new(), Sets::new());
    let real = regions(20_000);
    let (file, other) = (sets.put("ids.u64", real.iter().copied()), others.put("ids.u64", real));
    let first = sets.scale(&file, 50_000, 1).unwrap();
    assert_eq!(first, sets.scale(&file, 50_000, 1).unwrap());
    assert_eq!(first, others.scale(&other, 50_000, 1).unwrap());
    assert_ne!(first, sets.scale(&file, 50_000, 2).unwrap());
}

#[test]
fn what_cannot_be_scaled_is_told() {
    let sets = Sets::new();
    for (name, keys, wanted, message) in [
        ("mixed.u64", vec![3, 1, 2], 10, "is not sorted, and has no times beside it"),
        ("few.u64", vec![1, 2, 3], 2, "has 3 keys already"),
        ("wide.u64", vec![0, 1, u64::MAX], 1000, "do not fit into 64 bits"),
        ("paths.txt", vec![0x0a61_0a61], 10, "only numbers can be scaled"),
    ] {
        let error = sets.scale(&sets.put(name, keys), wanted, 1).unwrap_err().to_string();
        assert!(error.contains(message), "{name}: {error}");
    }
}

/// Cells between the positions of the pick-ups of one hour and the next; much more than any replay moves.
const APART: i64 = 100_000;

/// Pick-ups in the middle of the hours 0, 5, 10 … of the week, those of each hour around a place of their own.
fn pickups(sets: &Sets, count: u64) -> (PathBuf, Cell) {
    let origin = Cell::from_id(0x89c2_5a31_0000_0001).unwrap();
    let origin = origin.moved(-origin.i + 1_000_000, -origin.j + 1_000_000);
    let hours: Vec<u64> = (0..count).map(|number| number * 7 % 33 * 5).collect();
    let place = |number: u64| origin.moved(hours[number as usize] as i64 * APART, number as i64 % 50);
    let file = sets.put("rides.u64", (0..count).map(|number| place(number).id()));
    // The week begins with a Monday, the clock of Unix with a Thursday.
    let time = |number: u64| (4 + number % 9 * 7) * 24 * 3600 + hours[number as usize] * 3600 + 1800;
    let times: Vec<u8> = (0..count).flat_map(|number| u32::try_from(time(number)).unwrap().to_le_bytes()).collect();
    fs::write(file.with_file_name("rides.ts.u32"), times).unwrap();
    (file, origin)
}

#[test]
fn pickups_come_hour_by_hour_near_real_ones_and_only_once() {
    let sets = Sets::new();
    let (file, origin) = pickups(&sets, 3300);
    let scaled = sets.scale(&file, 20_000, 1).unwrap();
    assert_eq!((scaled.len(), scaled.iter().collect::<BTreeSet<_>>().len()), (20_000, 20_000));
    let cells: Vec<Cell> = scaled.iter().map(|key| Cell::from_id(*key).unwrap()).collect();
    let hours: Vec<i64> = cells.iter().map(|cell| (cell.i - origin.i + APART / 2).div_euclid(APART)).collect();
    let near = |(cell, hour): (&Cell, &i64)| {
        (cell.i - origin.i - hour * APART).abs() < 10_000
            && (cell.j - origin.j).abs() < 10_000
            && hour % 5 == 0
            && (0..165).contains(hour)
    };
    assert!(cells.iter().zip(&hours).all(near), "12 m are 1290 cells");
    let weeks = hours.windows(2).filter(|pair| pair[1] < pair[0]).count() + 1;
    assert!((45..=52).contains(&weeks), "{weeks} weeks, in each of which the hours rise");
    let least = (0..33).map(|hour| hours.iter().filter(|other| **other == hour * 5).count()).min().unwrap();
    assert!(least > 400, "every hour has its part of 606: {least}");
    let moved =
        cells.iter().zip(&hours).map(|(cell, hour)| ((cell.i - origin.i - hour * APART) as f64).powi(2)).sum::<f64>();
    let deviation = (moved / cells.len() as f64).sqrt();
    assert!((1200.0..1400.0).contains(&deviation), "{deviation} cells");
}

#[test]
fn many_pickups_of_one_cell_are_still_different_keys() {
    let sets = Sets::new();
    let (file, _) = pickups(&sets, 33);
    let scaled = sets.scale(&file, 200_000, 3).unwrap();
    assert_eq!(scaled.iter().collect::<BTreeSet<_>>().len(), 200_000);
    assert_eq!(fs::read_dir(sets.directory.path()).unwrap().count(), 3, "keys, times, scaled keys");
}

#[test]
fn pickups_without_enough_times_or_with_strange_keys_are_told() {
    let sets = Sets::new();
    let (file, _) = pickups(&sets, 33);
    fs::write(file.with_file_name("rides.ts.u32"), [0; 40]).unwrap();
    assert!(sets.scale(&file, 50, 1).unwrap_err().to_string().contains("fewer times"));
    sets.put("rides.u64", 2..35);
    fs::write(file.with_file_name("rides.ts.u32"), [0; 33 * 4]).unwrap();
    assert!(sets.scale(&file, 50, 1).unwrap_err().to_string().contains("no S2 leaf cell"));
}
