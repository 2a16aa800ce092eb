//! Memory and throughput over time.

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

/// Seconds and values.
type Points = Vec<(f64, f64)>;

/// Resident memory over the measured phase, for each store's median round.
pub(super) fn memory(group: &Group) -> Option<Chart> {
    let lines = lines(group, sizes, number::bytes);
    let (_, latest) = statistics::range(lines.iter().flat_map(|line| &line.points).map(|point| point.0))?;
    let (_, most) = statistics::range(lines.iter().flat_map(|line| &line.points).map(|point| point.1))?;
    let budget = group.parameters.memory_budget.map(|budget| budget as f64);
    let level = budget.map(|budget| (budget, format!("budget {}", number::bytes(budget))));
    let (x, y) = (time(latest), Axis::bytes(most.max(budget.unwrap_or(0.0)) * 1.1, 4.0));
    let (what, note) = ("Memory over time", "in the median round");
    Some(Plot { what, of: group.title(), note, x, y, lines, level, ends: Ends::Right }.chart())
}

/// Operations a second between the points of the timeline, for each store's median round.
pub(super) fn throughput_over_time(group: &Group) -> Option<Chart> {
    let lines = lines(group, rates, number::rate);
    let (_, latest) = statistics::range(lines.iter().flat_map(|line| &line.points).map(|point| point.0))?;
    let (_, most) = statistics::range(lines.iter().flat_map(|line| &line.points).map(|point| point.1))?;
    let (x, y) = (time(latest), Axis::linear(most * 1.05, 4.0, number::tick));
    let (what, note) = ("Operations a second over time", "in the median round");
    Some(Plot { what, of: group.title(), note, x, y, lines, level: None, ends: Ends::Right }.chart())
}

/// Operations a second over consecutive phases, whose rates differ by decades.
pub(crate) fn phases(phases: &[&Group]) -> Option<Chart> {
    let first = phases.first()?;
    let lines: Vec<Line> = first.series.iter().filter_map(|series| through(series, phases)).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let (_, latest) = statistics::range(points().map(|point| point.0))?;
    let (least, most) = statistics::range(points().map(|point| point.1))?;
    let y = Axis::logarithmic((10_f64.powf(least), 10_f64.powf(most)), number::tick);
    let (what, note) = ("All phases", "operations a second, logarithmic, each phase in its median round");
    Some(Plot { what, of: first.name(), note, x: time(latest), y, lines, level: None, ends: Ends::Right }.chart())
}

/// One store's line over all phases, one after the other. The rates are logarithms.
fn through(series: &Series, phases: &[&Group]) -> Option<Line> {
    let (mut points, mut begin, mut ends) = (Points::new(), 0.0, Vec::new());
    for phase in phases {
        let same = phase.series.iter().find(|other| other.label == series.label)?;
        let (seconds, rates) = same.typical(|row| Some((row.seconds?, rates(row).unwrap_or_default())))?;
        points.extend(rates.into_iter().filter(|rate| rate.1 > 0.0).map(|(at, rate)| (begin + at, rate.log10())));
        begin += seconds;
        ends.push(number::seconds(begin));
    }
    let tip = format!("{}: its phases end after {}", series.label, ends.join(", "));
    (points.len() > 1).then(|| Line { label: series.label.clone(), class: palette::class(&series.store), points, tip })
}

fn time(latest: f64) -> Axis {
    Axis::linear(latest, 5.0, |seconds| format!("{} s", number::tick(seconds)))
}

fn lines(group: &Group, points: fn(&RowRecord) -> Option<Points>, show: fn(f64) -> String) -> Vec<Line> {
    let rivals = group.series.iter().filter(|series| series.store != palette::HARNESS);
    rivals.filter_map(|series| line(series, points, show)).collect()
}

fn line(series: &Series, points: fn(&RowRecord) -> Option<Points>, show: fn(f64) -> String) -> Option<Line> {
    let points = series.typical(points)?;
    let (least, most) = statistics::range(points.iter().map(|point| point.1))?;
    let tip = format!("{}: from {} to {}", series.label, show(least), show(most));
    Some(Line { label: series.label.clone(), class: palette::class(&series.store), points, tip })
}

fn sizes(row: &RowRecord) -> Option<Points> {
    let moments = row.timeline.as_ref()?.iter();
    let points: Points = moments.filter_map(|moment| moment.seconds.zip(moment.memory_bytes)).collect();
    (points.len() > 1).then_some(points)
}

/// The rates between two points. The points count operations from the start of the phase.
fn rates(row: &RowRecord) -> Option<Points> {
    let moments = row.timeline.as_ref()?.iter();
    let counted: Points = moments.filter_map(|moment| moment.seconds.zip(moment.operations)).collect();
    let between = counted.windows(2).filter(|pair| pair[1].0 > pair[0].0);
    let points: Points =
        between.map(|pair| (pair[1].0, (pair[1].1 - pair[0].1).max(0.0) / (pair[1].0 - pair[0].0))).collect();
    (points.len() > 1).then_some(points)
}
