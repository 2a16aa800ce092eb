//! Ratios: what the paper says, what we measure, and the difference.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{cell::Cell, figures};
use crate::statistics::{geometric_mean, median};

/// What two rows are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    /// Operations a second; more is better, as of the worst windows. Of everything else less is better.
    Throughput,
    /// Bytes read from the device an operation.
    ReadBytes,
    /// Bytes written to the device an operation.
    WriteBytes,
    /// Bytes read from the device for a byte that the user read.
    ReadAmplification,
    /// Bytes written to the device for a byte that the user wrote.
    WriteAmplification,
    /// Requests to read an operation.
    DeviceReads,
    /// Memory of the index.
    IndexBytes,
    /// Reorganisations an operation.
    Reorganisations,
    /// Throughput of the worst window of scans behind updates, as a part of the steady one.
    WorstWindow,
    /// Bytes that adaptations rewrote, in bytes of the hot range.
    RewrittenBytes,
    /// Seconds that it took to adapt a GB of records.
    AdaptSeconds,
    /// Throughput of the worst second meanwhile, as a part of what it was in the phase before.
    WorstMeanwhile,
}

impl Metric {
    /// Its value in a row, if the row has one.
    fn of(self, row: &Value) -> Option<f64> {
        let an_operation =
            |value: &Value| Some(value.as_f64()? / row["operations"].as_f64().filter(|count| *count > 0.0)?);
        match self {
            Metric::Throughput => row["ops_per_second"].as_f64(),
            Metric::ReadBytes => an_operation(&row["kernel_read_bytes"]),
            Metric::WriteBytes => an_operation(&row["kernel_write_bytes"]),
            Metric::ReadAmplification => row["read_amplification"].as_f64(),
            Metric::WriteAmplification => row["write_amplification"].as_f64(),
            Metric::DeviceReads => row["device_reads_per_op"].as_f64(),
            Metric::IndexBytes => row["index_bytes"].as_f64(),
            Metric::Reorganisations => an_operation(&row["engine"]["reorganisations"]),
            Metric::WorstWindow => figures::worst_window(row),
            Metric::RewrittenBytes => figures::rewritten_bytes(row),
            Metric::AdaptSeconds => figures::adapt_seconds(row),
            Metric::WorstMeanwhile => figures::worst_meanwhile(row),
        }
    }

    /// What the best possible store would have in the place of this row.
    fn ideal(self, row: &Value) -> Option<f64> {
        match self {
            Metric::Throughput => row["ideal_ops_per_second"].as_f64(),
            Metric::DeviceReads => row["ideal_device_reads_per_op"].as_f64(),
            _ => None,
        }
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The suite's own engine, or the store that stands in for it.
    Ours,
    /// A store, followed by the settings of its variant.
    Store(&'static str),
    /// A cache that keeps the hottest records in all of the budget, and nothing in the way of disk and processor.
    Ideal,
    /// The disk's own rate of random reads.
    Disk,
    /// The same row in its steady state.
    Steady,
    /// The bytes of the range that is hot in the same row.
    HotRange,
    /// A GB of records.
    Gigabyte,
    /// The phase before.
    Before,
}

/// What is compared in a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) metric: Metric,
    pub(super) ours: Side,
    pub(super) theirs: Side,
    /// Ours divided by theirs in the paper.
    pub(super) paper: Option<f64>,
    /// What our ratio is to reach: at least so much where more is better, else at most.
    pub(super) goal: Option<f64>,
}

impl Comparison {
    /// Of the suite's own engine with a rival.
    pub(super) fn with(theirs: Side, metric: Metric, paper: Option<f64>) -> Self {
        Comparison { metric, ours: Side::Ours, theirs, paper, goal: None }
    }

    /// Of two variants of one store.
    pub(super) fn of(ours: &'static str, theirs: &'static str, metric: Metric, paper: Option<f64>) -> Self {
        Comparison { metric, ours: Side::Store(ours), theirs: Side::Store(theirs), paper, goal: None }
    }

    /// With a goal for our ratio.
    pub(super) fn goal(self, goal: f64) -> Self {
        Comparison { goal: Some(goal), ..self }
    }
}

/// Cells of which the geometric mean is taken.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) metric: Metric,
    pub(super) contains: fn(&Cell) -> bool,
    /// Ratios of the paper, by the other side.
    pub(super) paper: &'static [(&'static str, f64)],
}

/// The line that is printed. Ratios are ours divided by theirs.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Compared {
    pub(super) kind: &'static str,
    pub(super) suite: &'static str,
    pub(super) cell: String,
    pub(super) metric: Metric,
    pub(super) ours: String,
    pub(super) theirs: String,
    pub(super) paper_ratio: Option<f64>,
    pub(super) our_ratio: Option<f64>,
    /// Our ratio less the paper's.
    pub(super) difference: Option<f64>,
    /// What our ratio is to reach.
    pub(super) goal: Option<f64>,
    /// Cells behind the ratio, and how many there should be: less if some failed or were not picked.
    pub(super) cells: usize,
    pub(super) of_cells: usize,
}

impl Compared {
    /// A comparison, whose difference follows from its ratios.
    fn new(
        suite: &'static str,
        cell: String,
        metric: Metric,
        sides: (String, String),
        paper: Option<f64>,
        ours: Option<f64>,
    ) -> Self {
        let difference = ours.zip(paper).map(|(ours, paper)| ours - paper);
        let (ours_is, theirs) = sides;
        let cells = usize::from(ours.is_some());
        Compared {
            kind: "comparison",
            suite,
            cell,
            metric,
            ours: ours_is,
            theirs,
            paper_ratio: paper,
            our_ratio: ours,
            difference,
            goal: None,
            cells,
            of_cells: 1,
        }
    }
}

/// The good rows of a cell, by store and settings of the variant.
pub(super) type Rows = BTreeMap<String, Vec<Value>>;

/// The rows of all phases of a cell together: what was done in all of the time. Of a cell without phases they are what
/// they are.
pub(super) fn whole(phases: &[Rows]) -> Rows {
    let [first, others @ ..] = phases else { return Rows::new() };
    if others.is_empty() {
        return first.clone();
    }
    let all = |store: &String, first: &Value| -> Option<Value> {
        let (mut operations, mut seconds) = (0.0, 0.0);
        for phase in phases {
            let row = phase.get(store)?.iter().find(|row| row["round"] == first["round"])?;
            operations += row["operations"].as_f64()?;
            seconds += row["seconds"].as_f64()?;
        }
        Some(json!({ "operations": operations, "ops_per_second": operations / seconds }))
    };
    first.iter().map(|(store, rows)| (store.clone(), rows.iter().filter_map(|row| all(store, row)).collect())).collect()
}

/// All comparisons of a cell, or of a phase of it: throughput of our store with every other plain one, and those that
/// the cell names.
pub(super) fn compare(suite: &'static str, (cell, name): (&Cell, String), ours: &str, rows: &Rows) -> Vec<Compared> {
    let is_named = |store: &String| {
        let stated = |comparison: &Comparison| {
            comparison.metric == Metric::Throughput
                && side(comparison.theirs, ours) == *store
                && side(comparison.ours, ours) == ours
        };
        cell.comparisons.iter().any(stated)
    };
    let rivals = rows.keys().filter(|store| *store != ours && !store.contains('=') && !is_named(store));
    let plain =
        rivals.map(|store| line(suite, &name, Metric::Throughput, (ours.to_owned(), store.clone()), None, rows));
    let stated = cell.comparisons.iter().map(|comparison| {
        let sides = (side(comparison.ours, ours), side(comparison.theirs, ours));
        Compared { goal: comparison.goal, ..line(suite, &name, comparison.metric, sides, comparison.paper, rows) }
    });
    let all = plain.filter(|_| rows.contains_key(ours)).chain(stated);
    all.filter(|compared| compared.our_ratio.is_some() || compared.paper_ratio.is_some()).collect()
}

/// The geometric means of a group, one for each other side, over the comparisons of its cells.
pub(super) fn means(suite: &'static str, group: &Group, cells: &[(&Cell, Vec<Compared>)]) -> Vec<Compared> {
    let members = cells.iter().filter(|(cell, _)| (group.contains)(cell));
    let of_cells = members.clone().count();
    let mut sides: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    let of_whole_cells =
        members.flat_map(|(cell, compared)| compared.iter().filter(|compared| compared.cell == cell.name()));
    for compared in of_whole_cells.filter(|compared| compared.metric == group.metric) {
        let ratios = sides.entry((compared.ours.clone(), compared.theirs.clone())).or_default();
        ratios.extend(compared.our_ratio);
    }
    let mean = |(sides, ratios): ((String, String), Vec<f64>)| {
        let positive: Vec<f64> = ratios.iter().copied().filter(|ratio| *ratio > 0.0).collect();
        let paper = group.paper.iter().find(|(theirs, _)| *theirs == sides.1).map(|(_, ratio)| *ratio);
        let compared = Compared::new(
            suite,
            format!("mean: {}", group.name),
            group.metric,
            sides,
            paper,
            geometric_mean(&positive),
        );
        Compared { cells: ratios.len(), of_cells, ..compared }
    };
    sides.into_iter().map(mean).collect()
}

fn side(side: Side, ours: &str) -> String {
    match side {
        Side::Ours => ours.to_owned(),
        Side::Store(store) => store.to_owned(),
        Side::Ideal => "ideal".to_owned(),
        Side::Disk => "disk".to_owned(),
        Side::Steady => "steady".to_owned(),
        Side::HotRange => "hot range".to_owned(),
        Side::Gigabyte => "GB".to_owned(),
        Side::Before => "before".to_owned(),
    }
}

fn line(
    suite: &'static str,
    cell: &str,
    metric: Metric,
    sides: (String, String),
    paper: Option<f64>,
    rows: &Rows,
) -> Compared {
    let values = |store: &str, of: &dyn Fn(&Value) -> Option<f64>| {
        median(rows.get(store)?.iter().map(of).collect::<Option<Vec<f64>>>()?.into_iter())
    };
    let ours = values(&sides.0, &|row| metric.of(row));
    let theirs = match sides.1.as_str() {
        "ideal" => values(&sides.0, &|row| metric.ideal(row)),
        "disk" => values(&sides.0, &|row| row["machine"]["before"]["disk_reads_per_second"].as_f64()),
        // What is set against these is a part of them already.
        "steady" | "hot range" | "GB" | "before" => Some(1.0),
        store => values(store, &|row| metric.of(row)),
    };
    let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs).filter(|ratio| ratio.is_finite());
    Compared::new(suite, cell.to_owned(), metric, sides, paper, ratio)
}
