//! Compares the paper's ratios with the measured ones.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    cell::Cell,
    comparison::{Comparison, Metric, Side},
    table::Group,
};
use crate::statistics::{geometric_mean, median};

/// The printed line. Ratios are ours divided by theirs.
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
    /// Our ratio minus the paper's.
    pub(super) difference: Option<f64>,
    /// The goal for our ratio.
    pub(super) goal: Option<f64>,
    /// The number of cells behind the ratio, and the number expected; fewer if some failed or were not picked.
    pub(super) cells: usize,
    pub(super) of_cells: usize,
}

impl Compared {
    /// A comparison; computes the difference from the ratios.
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

/// Combines the rows of all phases of a cell into totals over the whole time. Rows of a cell without phases stay
/// unchanged.
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

/// All comparisons of a cell or of one of its phases: throughput of our store against every other plain one, and the
/// cell's own comparisons.
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

/// The geometric means of a group over the comparisons of its cells, one for each other side.
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
        // These metrics are relative already, so the other side is 1.
        "steady" | "hot range" | "GB" | "before" => Some(1.0),
        store => values(store, &|row| metric.of(row)),
    };
    let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs).filter(|ratio| ratio.is_finite());
    Compared::new(suite, cell.to_owned(), metric, sides, paper, ratio)
}
