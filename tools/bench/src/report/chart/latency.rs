//! A chart of the latency distributions of a group's stores.

use super::{
    axis::Axis,
    frame::Chart,
    plot::{Ends, Line, Plot},
};
use crate::{
    report::{group::Group, number, palette, series::Series},
    row::record::RowRecord,
    statistics,
};

/// The highest quantile shown.
const LAST: f64 = 0.9999;

/// Cumulative distributions over a logarithmic time axis. The vertical axis is stretched towards 100%, so that each
/// decade of rare operations gets the same space.
pub(super) fn latency(group: &Group) -> Option<Chart> {
    let lines: Vec<Line> =
        group.series.iter().filter(|series| series.store != palette::HARNESS).filter_map(line).collect();
    let times = lines.iter().flat_map(|line| &line.points).map(|point| 10_f64.powf(point.0));
    let x = Axis::logarithmic(statistics::range(times)?, short_time);
    let shares = [0.5, 0.9, 0.99, 0.999, LAST];
    let ticks = shares.iter().map(|share| (nines(*share), format!("{}%", number::tick(share * 100.0)))).collect();
    let y = Axis { low: 0.0, high: nines(LAST), ticks };
    let note = "share of operations that took at most so long, in the median round";
    Some(Plot { what: "Latency", of: group.title(), note, x, y, lines, level: None, ends: Ends::Top }.chart())
}

/// The number of nines: 0.9 gives 1, 0.99 gives 2, and so on.
fn nines(share: f64) -> f64 {
    -(1.0 - share.min(LAST)).log10()
}

/// Formats a tick, which is a whole number of its unit.
fn short_time(microseconds: f64) -> String {
    match microseconds {
        us if us < 1e3 => format!("{} µs", number::tick(us)),
        us if us < 1e6 => format!("{} ms", number::tick(us / 1e3)),
        us => format!("{} s", number::tick(us / 1e6)),
    }
}

fn line(series: &Series) -> Option<Line> {
    let shares: Vec<(f64, f64)> = series.typical(distribution)?;
    let points = shares.iter().map(|(share, time)| (time.log10(), nines(*share))).collect();
    let tip = format!("{}: {}", series.label, in_words(&shares));
    Some(Line { label: series.label.clone(), class: palette::class(&series.store), points, tip })
}

/// Fractions of the operations and their latencies in microseconds, ascending; falls back to the percentiles of a row
/// without a distribution.
fn distribution(row: &RowRecord) -> Option<Vec<(f64, f64)>> {
    let mut shares: Vec<(f64, f64)> = match &row.latency_cdf {
        Some(points) if !points.is_empty() => points.iter().filter_map(|(share, time)| share.zip(*time)).collect(),
        _ => {
            let latency = row.latency_us.as_ref()?;
            let known = [(0.5, latency.p50), (0.99, latency.p99), (0.999, latency.p999), (LAST, latency.p9999)];
            known.into_iter().filter_map(|(share, time)| Some((share, time?))).collect()
        }
    };
    shares.retain(|(share, time)| (0.0..=LAST).contains(share) && *time > 0.0);
    shares.sort_by(|one, other| one.0.total_cmp(&other.0));
    (shares.len() > 1).then_some(shares)
}

fn in_words(shares: &[(f64, f64)]) -> String {
    let at = |wanted: f64| shares.iter().find(|(share, _)| *share >= wanted - 1e-9);
    let words = [0.5, 0.9, 0.99, 0.999, LAST].into_iter().filter_map(|wanted| {
        let time = number::microseconds(at(wanted)?.1);
        Some(format!("{}% within {time}", number::tick(wanted * 100.0)))
    });
    words.collect::<Vec<_>>().join(", ")
}
