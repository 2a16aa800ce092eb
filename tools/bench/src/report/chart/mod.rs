//! Charts as SVG. Colours and fonts come from `style.css`. Coordinates are pixels at the nominal width; the page scales
//! the chart.

mod axis;
mod bars;
mod comparison;
mod frame;
mod latency;
mod over_time;
mod plot;
mod ratios;
mod spread;
mod throughput;

pub(crate) use self::{
    comparison::comparisons,
    frame::{Chart, STYLE},
    over_time::phases,
    ratios::ratios,
};
use crate::report::{figures, group::Group};

/// The large charts of a group.
pub(crate) fn large(group: &Group) -> Vec<Chart> {
    let throughput = Some(throughput::throughput(group));
    let others = [latency::latency(group), over_time::memory(group), over_time::throughput_over_time(group)];
    throughput.into_iter().chain(others.into_iter().flatten()).collect()
}

/// The small charts of a group, one for each figure.
pub(crate) fn small(group: &Group) -> Vec<Chart> {
    let all = figures::DEVICE.iter().chain(figures::LATENCY).chain(figures::SPACE_AND_TIME);
    all.filter_map(|figure| bars::panel(group, figure, figure.chart?)).collect()
}
