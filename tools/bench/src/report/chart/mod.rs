//! Charts as SVG. Colours and fonts come from the page's style sheet. Coordinates are pixels at the nominal width; the
//! page scales the chart.

mod axis;
mod bars;
mod comparison;
mod frame;
mod latency;
mod over_time;
mod plot;
mod spread;
mod throughput;

pub(crate) use self::{
    bars::panel,
    comparison::comparisons,
    latency::latency,
    over_time::{memory, phases, throughput_over_time},
    throughput::throughput,
};
