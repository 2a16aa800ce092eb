//! Tests of the forecast as a whole, on generated streams of inserts.

mod pages;

use std::{collections::BTreeMap, sync::Arc};

use ecotone_substrate::memory::{Component, Memory};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

const PACE: EpochSchedule = EpochSchedule { epoch: 4000, horizon: 4 };
const MANY: u64 = u64::MAX;

fn forecast(kind: ForecastKind) -> Forecast {
    Forecast::new(Memory::new(16 << 20), kind, PACE, 11)
}

/// Inserts an epoch of keys near a place from 0 to 1.
fn epoch(forecast: &Forecast, random: &mut SmallRng, place: f64) {
    let keys: Vec<[u8; 8]> = (0..PACE.epoch).map(|_| key(random, place)).collect();
    forecast.observe(keys.iter().map(|key| &key[..]), 0);
    forecast.round();
}

fn key(random: &mut SmallRng, place: f64) -> [u8; 8] {
    let away: f64 = (0..4).map(|_| random.random_range(-0.05..0.05)).sum();
    (((place + away).rem_euclid(1.0) * 2f64.powi(63)) as u64).to_be_bytes()
}

/// The forecast after some epochs of a stream with these places.
fn after(kind: ForecastKind, epochs: usize, place: impl Fn(usize) -> f64) -> (Forecast, ForecastStats) {
    let (forecast, mut random) = (forecast(kind), SmallRng::seed_from_u64(5));
    (0..epochs).for_each(|at| epoch(&forecast, &mut random, place(at)));
    let told = forecast.stats();
    (forecast, told)
}

fn between(forecast: &Forecast, from: f64, to: f64) -> f64 {
    let [from, to] = [from, to].map(|place| ((place * 2f64.powi(63)) as u64).to_be_bytes());
    forecast.expected(&from, Some(&to), MANY)
}

#[test]
fn a_stationary_stream_is_foretold_by_the_mean() {
    let (forecast, told) = after(ForecastKind::Auto, 40, |_| 0.5);
    assert_eq!((told.kind, told.season), (ForecastKind::Seasonal, 0));
    assert!(told.error.unwrap() < 0.1, "{told:?}");
    let (near, all) = (between(&forecast, 0.3, 0.7), forecast.expected(b"", None, MANY));
    assert!(near > 0.99 * all && (14_000.0..=16_000.0).contains(&all), "{near} of {all}");
}

#[test]
fn a_drifting_stream_is_foretold_by_the_trend() {
    // Everywhere at first, then along the key space.
    let drift = |at: usize| if at < 20 { 0.37 * at as f64 } else { 0.1 + 0.012 * (at - 20) as f64 };
    let (forecast, told) = after(ForecastKind::Auto, 70, drift);
    assert_eq!((told.kind, told.season), (ForecastKind::Trend, 0));
    let (_, mean) = after(ForecastKind::Seasonal, 70, drift);
    assert!(told.error.unwrap() < 0.9 * mean.error.unwrap(), "{told:?} against {mean:?}");
    assert!(between(&forecast, 0.6, 0.9) > 5.0 * between(&forecast, 0.1, 0.6));
}

#[test]
fn a_periodic_stream_is_foretold_by_its_seasons() {
    let wave = |at: usize| 0.5 + 0.2 * (at as f64 / 8.0 * std::f64::consts::TAU).sin();
    let (forecast, told) = after(ForecastKind::Auto, 64, wave);
    assert_eq!((told.kind, told.season), (ForecastKind::Seasonal, 8));
    let (_, trend) = after(ForecastKind::Trend, 64, wave);
    assert!(told.error.unwrap() < 0.1 && trend.error.unwrap() > 0.4, "{told:?} against {trend:?}");
    // The last epoch was in the lower half; the next four are in the upper half.
    assert!(between(&forecast, 0.5, 1.0) > 2.0 * between(&forecast, 0.0, 0.5));
}

#[test]
fn nothing_is_foretold_when_switched_off_or_before_an_epoch_has_ended() {
    let (off, told) = after(ForecastKind::Off, 3, |_| 0.5);
    assert_eq!((told.kind, told.bins, off.expected(b"", None, MANY)), (ForecastKind::Off, 0, 0.0));
    assert_eq!(off.memory.used(&[Component::Forecast]), 0);
    let (auto, mut random) = (forecast(ForecastKind::Auto), SmallRng::seed_from_u64(1));
    auto.observe((0..9000).map(|_| key(&mut random, 0.5)).collect::<Vec<_>>().iter().map(|key| &key[..]), 0);
    assert_eq!((auto.stats().kind, auto.fill(b"", b"\xff", 100, MANY, 90)), (ForecastKind::Off, 90));
    auto.round();
    assert_eq!((auto.stats().kind, auto.fill(b"", b"\xff", 100, MANY, 90)), (ForecastKind::Trend, LEAST_FILL));
}

#[test]
fn pages_are_filled_so_that_what_comes_has_room() {
    let (forecast, _) = after(ForecastKind::Trend, 4, |_| 0.5);
    let at = |place: f64| ((place * 2f64.powi(63)) as u64).to_be_bytes();
    let fill = |from: f64, to: f64, records, population| forecast.fill(&at(from), &at(to), records, population, 90);
    assert_eq!(fill(0.0, 0.2, 10_000, MANY), 90, "nothing comes there");
    let half = fill(0.3, 0.7, 15_000, MANY);
    assert!((45..=48).contains(&half), "as much comes as there is, and pages are filled to {half}%");
    assert_eq!(fill(0.3, 0.7, 100, MANY), LEAST_FILL, "there is a bound");
    assert_eq!(forecast.fill(&at(0.3), &at(0.7), 100, MANY, 30), 30);
    let small = fill(0.3, 0.7, 4_000, 4_000);
    assert!(
        (LEAST_FILL..90).contains(&small) && fill(0.3, 0.7, 4_000, 400) > 75,
        "a small keyspace looks less far ahead"
    );
}

#[test]
fn ascending_keys_leave_no_room_behind_them() {
    let forecast = forecast(ForecastKind::Auto);
    for batch in 0..200u64 {
        let keys: Vec<[u8; 8]> = (batch * 500..(batch + 1) * 500).map(|key| (1 << 40 | key).to_be_bytes()).collect();
        forecast.observe(keys.iter().map(|key| &key[..]), 0);
        forecast.round();
        let (first, last) = (keys[0], keys[499]);
        // Nothing else is known yet, so the first epoch is taken as the prediction.
        if batch * 500 >= 2 * u64::from(PACE.epoch) {
            assert_eq!(forecast.fill(&first, &last, 500, MANY, 90), 90, "batch {batch}");
        }
    }
    assert!(forecast.expected(b"", None, MANY) > 10_000.0, "they come somewhere");
}

#[test]
fn where_as_much_goes_as_comes_no_room_is_left() {
    let (forecast, mut random) = (forecast(ForecastKind::Auto), SmallRng::seed_from_u64(2));
    for _ in 0..6 {
        forecast.observe([], 4000);
        epoch(&forecast, &mut random, 0.5);
    }
    assert_eq!(forecast.expected(b"", None, MANY), 0.0);
}

#[test]
fn long_keys_get_longer_digests() {
    let forecast = forecast(ForecastKind::Trend);
    let mut random = SmallRng::seed_from_u64(4);
    let path = |number: u32| format!("usr/share/documentation/of/many/packages/{number:05}/README").into_bytes();
    let keys: Vec<Vec<u8>> = (0..40_000).map(|_| path(random.random_range(0..50_000u32))).collect();
    for (at, batch) in keys.chunks(PACE.epoch as usize).enumerate() {
        // One key of each epoch shares no prefix with the others.
        let odd = [b"etc/passwd".to_vec()];
        forecast.observe(batch.iter().chain(odd.iter().filter(|_| at % 2 == 0)).map(Vec::as_slice), 0);
        forecast.round();
    }
    let all = forecast.expected(b"", None, MANY);
    let half = forecast.expected(&path(0), Some(&path(25_000)), MANY);
    assert!((0.4..0.6).contains(&(half / all)), "{half} of {all}");
}

#[test]
fn memory_is_a_small_part_of_the_budget_and_comes_back() {
    let memory = Memory::new(64 << 20);
    let used = || memory.used(&[Component::Forecast]);
    let mut forecasts = Vec::new();
    for _ in 0..8 {
        let forecast = Forecast::new(memory.clone(), ForecastKind::Auto, PACE, 1);
        let mut random = SmallRng::seed_from_u64(1);
        (0..2).for_each(|_| epoch(&forecast, &mut random, 0.5));
        forecasts.push((forecast.stats().bins, forecast));
        assert!(used() <= (64 << 20) / 64, "{}", used());
    }
    let bins: Vec<usize> = forecasts.iter().map(|(bins, _)| *bins).collect();
    assert!(bins[0] >= 400 && bins.is_sorted_by(|a, b| a >= b) && bins[7] == 0, "{bins:?}");
    drop(forecasts);
    assert_eq!(used(), 0);
    let none = Forecast::new(Memory::new(2 << 20), ForecastKind::Auto, PACE, 1);
    (0..2).for_each(|_| epoch(&none, &mut SmallRng::seed_from_u64(1), 0.5));
    assert_eq!(none.expected(b"", None, MANY), 0.0);
}

#[test]
fn the_same_stream_and_seed_give_the_same_forecast() {
    let runs = [1, 2].map(|_| {
        let (forecast, told) = after(ForecastKind::Auto, 12, |at| 0.2 + 0.05 * (at % 3) as f64);
        (told, (0..100).map(|i| between(&forecast, 0.0, f64::from(i) / 100.0)).collect::<Vec<_>>())
    });
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn threads_may_observe_at_once() {
    let forecast = Arc::new(forecast(ForecastKind::Auto));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let forecast = forecast.clone();
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(thread);
                for _ in 0..200 {
                    let keys: Vec<[u8; 8]> = (0..100).map(|_| key(&mut random, 0.5)).collect();
                    forecast.observe(keys.iter().map(|key| &key[..]), 0);
                    forecast.round();
                    assert!(between(&forecast, 0.3, 0.7).is_finite());
                }
            });
        }
    });
    assert!(between(&forecast, 0.3, 0.7) > 0.9 * forecast.expected(b"", None, MANY));
}
