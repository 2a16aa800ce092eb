//! Memory over time, against the budget.

use maud::Markup;

use super::{
    super::{group::Group, number, palette, record::Row, series::Series},
    axis::Axis,
    plot::{Ends, Line, Plot},
};

/// Resident memory through the measured phase of each store's median round.
pub(crate) fn memory(group: &Group) -> Option<Markup> {
    let lines: Vec<Line> = group.series.iter().filter(|series| series.store != palette::HARNESS).filter_map(line).collect();
    let (_, latest) = number::range(lines.iter().flat_map(|line| &line.points).map(|point| point.0))?;
    let (_, most) = number::range(lines.iter().flat_map(|line| &line.points).map(|point| point.1))?;
    let budget = group.parameters.memory_budget.map(|budget| budget as f64);
    let level = budget.map(|budget| (budget, format!("budget {}", number::bytes(budget))));
    let x = Axis::linear(latest, 5.0, |seconds| format!("{} s", number::tick(seconds)));
    let y = Axis::bytes(most.max(budget.unwrap_or(0.0)) * 1.1, 4.0);
    Some(Plot { title: format!("Memory over time: {}", group.title()), x, y, lines, level, ends: Ends::Right }.html())
}

fn line(series: &Series) -> Option<Line> {
    let points = series.typical(moments)?;
    let (_, most) = number::range(points.iter().map(|point| point.1))?;
    let tip = format!("{}: at most {}", series.label, number::bytes(most));
    Some(Line { label: series.label.clone(), class: palette::class(&series.store), points, tip })
}

fn moments(row: &Row) -> Option<Vec<(f64, f64)>> {
    let moments = row.timeline.as_ref()?.iter();
    let points: Vec<(f64, f64)> = moments.filter_map(|moment| moment.seconds.zip(moment.memory_bytes)).collect();
    (points.len() > 1).then_some(points)
}
