//! The tables of a report.

use super::{
    figures::{self, Figure},
    group::Group,
    number, palette,
    section::Section,
    series::{Round, Series},
    table::{Cell, Head, Table},
};
use crate::{
    row::record::{ComparisonRecord, MachineSpeed, RowRecord},
    statistics,
};

/// All rows that did not end well, grouped by error; `None` if there are none.
pub(crate) fn troubles(sections: &[Section]) -> Option<Table> {
    let mut rows = Vec::new();
    for (section, group) in sections.iter().flat_map(|section| section.groups.iter().map(move |group| (section, group)))
    {
        for series in &group.series {
            for (bad, rounds) in endings(series) {
                rows.push(vec![
                    Cell::new(Some(section.title())),
                    Cell { link: Some(format!("#{}", group.id())), ..Cell::new(Some(group.title())) },
                    store(series),
                    Cell::new((!rounds.is_empty()).then(|| rounds.join(", "))),
                    Cell::new(Some(bad.ending())).class("bad"),
                    Cell::new(bad.error.clone()).class("error"),
                ]);
            }
        }
    }
    let heads = ["in", "measurement", "store", "rounds", "status", "error"].map(Head::words).to_vec();
    (!rows.is_empty()).then(|| Table { caption: "Rows without a result".to_owned(), heads, rows })
}

/// The rows of a series that did not end well, one for each kind of ending, with the rounds that ended so.
fn endings(series: &Series) -> Vec<(&RowRecord, Vec<String>)> {
    let mut endings: Vec<(&RowRecord, Vec<String>)> = Vec::new();
    for row in series.rows.iter().map(|round| &round.row).filter(|row| row.throughput().is_none()) {
        let round = row.round.map(|round| round.to_string());
        match endings.iter_mut().find(|(other, _)| other.status == row.status && other.error == row.error) {
            Some((_, rounds)) => rounds.extend(round),
            None => endings.push((row, round.into_iter().collect())),
        }
    }
    endings
}

/// Throughput and ratio of every store in every group, and the geometric means of the ratios.
pub(crate) fn overview(section: &Section) -> Table {
    let labels = section.labels();
    let mut heads = vec![Head::words("measurement")];
    heads.extend(labels.iter().map(|(label, _)| Head::number(label)));
    let found = |group: &Group, label: &str| {
        let series = group.series.iter().find(|series| series.label == label);
        series.map_or(Cell::new(None), |series| overview_cell(group, series))
    };
    let mut rows = Vec::new();
    for group in &section.groups {
        let link = Some(format!("#{}", group.id()));
        let name = Cell { link, ..Cell::new(Some(group.title())) };
        rows.push(std::iter::once(name).chain(labels.iter().map(|(label, _)| found(group, label))).collect());
    }
    if section.groups.len() > 1 {
        let name = Cell::new(Some("geometric mean of the ratios".to_owned()));
        rows.push(std::iter::once(name).chain(labels.iter().map(|(label, _)| mean_cell(section, label))).collect());
    }
    Table { caption: "At a glance: operations a second, and as a multiple of ours".to_owned(), heads, rows }
}

fn overview_cell(group: &Group, series: &Series) -> Cell {
    if let Some((ending, _)) = series.failure() {
        return Cell::new(Some(ending)).class("bad");
    }
    let ratio = group.ratio(series);
    let remarks: Vec<String> =
        [ratio.map(number::times), series.doubt().map(str::to_owned)].into_iter().flatten().collect();
    let detail = (!remarks.is_empty()).then(|| remarks.join(", "));
    let class = match ratio {
        Some(ratio) if ratio > 1.05 => "ahead",
        Some(ratio) if ratio < 0.95 => "behind",
        _ => "",
    };
    Cell { detail, class, ..Cell::new(series.median(RowRecord::throughput).map(number::rate)) }
}

fn mean_cell(section: &Section, label: &str) -> Cell {
    let of = |group: &Group| group.ratio(group.series.iter().find(|series| series.label == label)?);
    let ratios: Vec<f64> = section.groups.iter().filter_map(of).filter(|ratio| *ratio > 0.0).collect();
    let all = section.groups.len();
    let mean = statistics::geometric_mean(&ratios).map(number::times);
    let detail = (mean.is_some() && ratios.len() < all).then(|| format!("{} of {all}", ratios.len()));
    Cell { detail, class: "mean", ..Cell::new(mean) }
}

/// A paper's ratios and goals beside ours.
pub(crate) fn comparisons(comparisons: &[ComparisonRecord]) -> Table {
    let heads = ["cell", "ours / theirs", "of"].map(Head::words).into_iter();
    let heads = heads.chain(["paper", "goal", "here", "difference", "cells"].map(Head::number)).collect();
    let cells = |comparison: &ComparisonRecord| {
        let of_cells = comparison.cells.zip(comparison.of_cells).filter(|(_, of)| *of > 1);
        vec![
            Cell::new(comparison.cell.clone()),
            Cell::new(Some(comparison.sides())),
            Cell::new(Some(comparison.metric())),
            Cell::new(comparison.paper_ratio.map(number::times)),
            Cell::new(comparison.goal.map(number::times)),
            Cell::new(comparison.our_ratio.map(number::times)),
            Cell::new(comparison.difference().map(number::difference)),
            Cell::new(of_cells.map(|(cells, of)| format!("{cells} of {of}"))),
        ]
    };
    let rows = comparisons.iter().map(cells).collect();
    Table { caption: "Ratios in the paper and here".to_owned(), heads, rows }.without_unknown_columns()
}

/// The tables of a group: medians first, each round last.
pub(crate) fn group(group: &Group) -> Vec<Table> {
    let figures = [
        ("Latency", figures::LATENCY),
        ("Device and processor", figures::DEVICE),
        ("Memory, space and time", figures::SPACE_AND_TIME),
    ];
    let figures = figures.into_iter().map(|(caption, figures)| medians(group, caption, figures));
    // The first column names the store; a table with nothing else is useless.
    let mut tables = vec![speed(group)];
    tables.extend(figures.filter(|table| table.heads.len() > 1));
    tables.push(rounds(group));
    tables
}

fn store(series: &Series) -> Cell {
    Cell { swatch: Some(palette::class(&series.store)), ..Cell::new(Some(series.label.clone())) }
}

fn speed(group: &Group) -> Table {
    let ideal = group.ideal();
    let heads = ["median", "lowest", "highest", "spread", "ratio to ours", "of the ideal", "rounds"].map(Head::number);
    let heads = std::iter::once(Head::words("store")).chain(heads).chain([Head::words("remarks")]).collect();
    let mut rows: Vec<Vec<Cell>> = group.series.iter().map(|series| speed_row(group, series, ideal)).collect();
    if let Some(ideal) = ideal {
        let ours = group.reference().and_then(|ours| ours.median(RowRecord::throughput)).filter(|ops| *ops > 0.0);
        let mut row = vec![Cell::new(Some("ideal".to_owned())), Cell::new(Some(number::rate(ideal)))];
        row.extend([None, None, None].map(Cell::new));
        row.push(Cell::new(ours.map(|ours| number::times(ideal / ours))));
        row.extend([None, None, Some(String::new())].map(Cell::new));
        rows.push(row);
    }
    Table { caption: "Operations a second".to_owned(), heads, rows }.without_unknown_columns()
}

fn speed_row(group: &Group, series: &Series, ideal: Option<f64>) -> Vec<Cell> {
    let median = series.median(RowRecord::throughput);
    let range = series.range().filter(|_| series.counted().len() > 1);
    let ideal = ideal.filter(|ideal| *ideal > 0.0 && series.store != palette::HARNESS);
    let part = |ops: f64| ideal.map(|ideal| number::percent(ops / ideal));
    vec![
        store(series),
        Cell::new(median.map(number::rate)),
        Cell::new(range.map(|range| number::rate(range.0))),
        Cell::new(range.map(|range| number::rate(range.1))),
        Cell::new(series.spread().map(number::percent)),
        Cell::new(group.ratio(series).map(number::times)),
        Cell::new(median.and_then(part)),
        Cell::new(Some(format!("{} of {}", series.counted().len(), series.rows.len()))),
        Cell::new(Some(series.doubts().join("; "))).class("error"),
    ]
}

/// Medians of figures, and the reference values of the charts.
fn medians(group: &Group, caption: &str, figures: &[Figure]) -> Table {
    let name = std::iter::once(Head::words("store"));
    let heads = name.chain(figures.iter().map(|figure| Head::number(figure.name))).collect();
    let of = |series: &Series| {
        let medians = figures.iter().map(|figure| Cell::new(series.median(figure.value).map(figure.show)));
        std::iter::once(store(series)).chain(medians).collect()
    };
    let counted = group.series.iter().filter(|series| !series.counted().is_empty());
    let mut rows: Vec<Vec<Cell>> = counted.map(of).collect();
    for (position, figure) in figures.iter().enumerate() {
        if let Some((name, value)) = figure.chart.and_then(|against| against(group)) {
            let mut row = vec![Cell::new(None); figures.len() + 1];
            row[0] = Cell::new(Some(name.to_owned()));
            row[position + 1] = Cell::new(Some((figure.show)(value)));
            rows.push(row);
        }
    }
    Table { caption: caption.to_owned(), heads, rows }.without_unknown_columns()
}

fn rounds(group: &Group) -> Table {
    let heads = ["round", "throughput", "p99", "fixed loop before", "after", "disk reads before", "after", "stolen"];
    let heads = [Head::words("store"), Head::words("status")].into_iter().chain(heads.map(Head::number));
    let heads = heads.chain([Head::words("machine"), Head::words("error")]).collect();
    let all = group.series.iter().flat_map(|series| series.rows.iter().map(move |one| round(series, one)));
    Table { caption: "Every round".to_owned(), heads, rows: all.collect() }.without_unknown_columns()
}

fn round(series: &Series, Round { row, usual_state }: &Round) -> Vec<Cell> {
    let machine = row.machine.as_ref();
    let before = machine.and_then(|machine| machine.before.as_ref());
    let after = machine.and_then(|machine| machine.after.as_ref());
    let fixed_loop = |speed: &MachineSpeed| Some(number::microseconds(speed.loop_ns? / 1e3));
    let disk = |speed: &MachineSpeed| Some(number::rate(speed.disk_reads_per_second?));
    let state = if *usual_state { "usual state" } else { "another state, not comparable" };
    vec![
        store(series),
        Cell::new(Some(row.ending())).class(if row.throughput().is_some() { "" } else { "bad" }),
        Cell::new(row.round.map(|round| round.to_string())),
        Cell::new(row.throughput().map(number::rate)),
        Cell::new(row.latency_us.as_ref().and_then(|latency| latency.p99).map(number::microseconds)),
        Cell::new(before.and_then(fixed_loop)),
        Cell::new(after.and_then(fixed_loop)),
        Cell::new(before.and_then(disk)),
        Cell::new(after.and_then(disk)),
        Cell::new(after.and_then(|speed| speed.stolen).map(number::percent)),
        Cell::new(machine.map(|_| state.to_owned())).class(if *usual_state { "" } else { "bad" }),
        Cell::new(row.error.clone()).class("error"),
    ]
}
