//! Predicts coming epochs from past ones. Each past epoch is a row with the share of its inserts in each cell.

/// Cells of a row.
pub(super) const CELLS: usize = 64;
/// Rows in the mean: epochs without a season, seasons with one.
const SMOOTH: usize = 8;
/// A season is longer than this many epochs; shorter ones cannot be told from noise.
const SHORTEST: usize = 3;
/// Least autocorrelation at the lag of a season.
const ALIKE: f32 = 0.3;
/// How far the correlation must have dropped between two seasons: a slow drift has no such valley.
const VALLEY: f32 = 0.15;

/// Shares of an epoch's inserts by cell, or the mean of several epochs. They add up to 1.
pub(super) type Row = [f32; CELLS];

/// The prediction method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// The coming epochs are like the last one (the paper's method).
    Trend,
    /// The coming epochs are like those at the same place of past seasons; without a season, like the mean of the last
    /// ones.
    Season,
}

/// The predicted mean row of the `epochs` that follow the rows, of which there is at least one.
pub(super) fn ahead(method: Method, rows: &[Row], epochs: usize) -> Row {
    let season = match method {
        Method::Trend => return rows[rows.len() - 1],
        Method::Season => length(rows),
    };
    let Some(season) = season else {
        return mean(&rows[rows.len().saturating_sub(SMOOTH)..]);
    };
    // Whole seasons weigh all places equally; the rest of the horizon goes to the places that come first.
    let (whole, rest) = (epochs / season, epochs % season);
    let mut sum = [0.0; CELLS];
    for place in 0..season {
        let times = whole + usize::from(place < rest);
        if times > 0 {
            add(&mut sum, &at_place(rows, season, place), times as f32 / epochs as f32);
        }
    }
    sum
}

/// The mean of the rows that lie whole seasons before the `place`-th coming epoch.
fn at_place(rows: &[Row], season: usize, place: usize) -> Row {
    let same: Vec<Row> =
        (1..=SMOOTH).map_while(|back| rows.get((rows.len() + place).checked_sub(back * season)?)).copied().collect();
    mean(&same)
}

/// The length of the season in epochs: the lag with the next peak of the autocorrelation, after a valley. At least two
/// whole seasons must have been seen.
pub(super) fn length(rows: &[Row]) -> Option<usize> {
    let correlations = correlations(rows);
    let mut lowest = f32::MAX;
    let mut best: Option<(usize, f32)> = None;
    for lag in 1..correlations.len().saturating_sub(1) {
        let [before, here, behind] = [correlations[lag - 1], correlations[lag], correlations[lag + 1]];
        let peak = lag >= SHORTEST && here >= before && here >= behind && here >= ALIKE && here >= lowest + VALLEY;
        // A multiple of a season correlates hardly better than the season itself.
        if peak && best.is_none_or(|(_, height)| here > height + VALLEY / 2.0) {
            best = Some((lag, here));
        }
        lowest = lowest.min(here);
    }
    best.map(|(lag, _)| lag)
}

/// The autocorrelation of the rows around their mean, at each lag up to half their number.
fn correlations(rows: &[Row]) -> Vec<f32> {
    let mean = mean(rows);
    let around: Vec<Row> = rows.iter().map(|row| std::array::from_fn(|cell| row[cell] - mean[cell])).collect();
    let product = |lag: usize| {
        let pairs = around.iter().zip(&around[lag..]);
        let sum: f32 = pairs.map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>()).sum();
        sum / (around.len() - lag) as f32
    };
    let variance = product(0);
    if variance <= f32::EPSILON {
        return Vec::new();
    }
    (0..=rows.len() / 2).map(|lag| product(lag) / variance).collect()
}

/// The mean of some rows.
pub(super) fn mean(rows: &[Row]) -> Row {
    let mut sum = [0.0; CELLS];
    rows.iter().for_each(|row| add(&mut sum, row, 1.0 / rows.len() as f32));
    sum
}

fn add(sum: &mut Row, row: &Row, weight: f32) {
    sum.iter_mut().zip(row).for_each(|(sum, share)| *sum += share * weight);
}

/// The share of inserts, from 0 to 1, that fell into other cells than predicted (the total variation distance).
pub(super) fn distance(expected: &Row, came: &Row) -> f32 {
    expected.iter().zip(came).map(|(a, b)| (a - b).abs()).sum::<f32>() / 2.0
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;

    /// An epoch of `inserts` around a cell.
    fn row(random: &mut SmallRng, centre: f64, width: f64, inserts: usize) -> Row {
        let mut row = [0.0; CELLS];
        for _ in 0..inserts {
            let away: f64 = (0..4).map(|_| random.random_range(-1.0..1.0)).sum();
            let cell = (centre + away * width).rem_euclid(CELLS as f64) as usize;
            row[cell.min(CELLS - 1)] += 1.0 / inserts as f32;
        }
        row
    }

    fn rows(seed: u64, epochs: usize, inserts: usize, centre: impl Fn(usize) -> f64) -> Vec<Row> {
        let mut random = SmallRng::seed_from_u64(seed);
        (0..epochs).map(|epoch| row(&mut random, centre(epoch), 4.0, inserts)).collect()
    }

    fn wave(season: usize) -> impl Fn(usize) -> f64 {
        move |epoch| 32.0 + 12.0 * (epoch as f64 / season as f64 * std::f64::consts::TAU).sin()
    }

    #[test]
    fn seasons_are_found() {
        for season in [4, 7, 24, 52] {
            for seed in 0..5 {
                let found = length(&rows(seed, 128, 500, wave(season)));
                assert_eq!(found, Some(season), "seed {seed}");
            }
        }
    }

    #[test]
    fn there_is_no_season_where_nothing_returns() {
        for seed in 0..20 {
            assert_eq!(length(&rows(seed, 128, 200, |_| 32.0)), None, "stationary, seed {seed}");
            assert_eq!(length(&rows(seed, 128, 200, |epoch| epoch as f64 / 4.0)), None, "drifting, seed {seed}");
        }
        assert_eq!(length(&[[1.0 / CELLS as f32; CELLS]; 20]), None);
        assert_eq!(length(&rows(1, 1, 200, |_| 32.0)), None);
    }

    #[test]
    fn a_season_is_foretold_place_by_place() {
        let rows = rows(3, 60, 2000, wave(12));
        for (from, epochs) in [(48, 1), (48, 5), (40, 12), (36, 18)] {
            let (past, came) = rows[..from + epochs].split_at(from);
            let [trend, season] =
                [Method::Trend, Method::Season].map(|method| distance(&ahead(method, past, epochs), &mean(came)));
            assert!(season < 0.06 && season < trend / 2.0, "{epochs} epochs from {from}: {season} against {trend}");
        }
    }

    #[test]
    fn forecasts_are_shares() {
        let rows = rows(5, 40, 300, wave(8));
        for (method, epochs) in [(Method::Trend, 3), (Method::Season, 3), (Method::Season, 30)] {
            let sum: f32 = ahead(method, &rows, epochs).iter().sum();
            assert!((sum - 1.0).abs() < 1e-3, "{sum}");
        }
        assert_eq!(distance(&rows[0], &rows[0]), 0.0);
    }
}
