//! A chart of the throughput of a group's stores.

use super::{
    bars::{Bar, Bars},
    frame::{Chart, WIDTH},
};
use crate::{
    report::{group::Group, number, palette, series::Series},
    row::record::RowRecord,
};

/// Bars of the medians, with whiskers for the range of the rounds, and a line that marks the ideal.
pub(super) fn throughput(group: &Group) -> Chart {
    let alone = group.series.iter().all(|series| series.store == palette::HARNESS);
    let shown = group.series.iter().filter(|series| alone || series.store != palette::HARNESS);
    let bars = shown.map(|series| bar(group, series)).collect();
    let mark = group.ideal().map(|ideal| (ideal, format!("ideal {}", number::rate(ideal))));
    let bars = Bars { width: WIDTH, bars, reach: 0.0, mark, ticks: Some(number::tick) };
    Chart {
        size: bars.size(),
        what: "Operations a second".to_owned(),
        of: group.title(),
        note: "median, whiskers over the rounds, multiple of ours",
        description: bars.description(),
        body: bars.body(),
    }
}

fn bar(group: &Group, series: &Series) -> Bar {
    if let Some(failed) = failed(series) {
        return failed;
    }
    let (label, class) = (series.label.clone(), palette::class(&series.store));
    let value = series.median(RowRecord::throughput);
    let rounds = series.counted().len();
    let ratio = group.ratio(series).map(number::times);
    let text = value.map_or(String::new(), number::rate);
    let range = series.range().filter(|_| rounds > 1);
    let ends =
        range.map_or(String::new(), |(low, high)| format!(", from {} to {}", number::rate(low), number::rate(high)));
    let doubts: String = series.doubts().iter().map(|doubt| format!("; {doubt}")).collect();
    let times = ratio.as_ref().map_or(String::new(), |ratio| format!(" ({ratio})"));
    let tip = format!("{label}: {text}{times}, median of {rounds}{ends}{doubts}");
    Bar { label, class, value, range, text, aside: ratio, doubt: series.doubt().map(str::to_owned), tip, instead: None }
}

/// The error in place of a bar, if no round ended well.
pub(super) fn failed(series: &Series) -> Option<Bar> {
    let (ending, error) = series.failure()?;
    let label = series.label.clone();
    let tip = format!("{label}: {ending}{}", error.map_or(String::new(), |error| format!(": {error}")));
    let instead = Some(error.unwrap_or("no error was told").to_owned());
    Some(Bar { label, class: palette::class(&series.store), text: ending, instead, tip, ..Bar::default() })
}
