//! Summarises the rounds of one store, and compares it with the other stores.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    line::{Line, Request},
    machine::Machine,
};
use crate::{
    row::{Status, StoreKind},
    statistics::{NOISY, median},
};

/// One line of JSON; `docs/benchmark.md` explains the names.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    kind: &'static str,
    #[serde(flatten)]
    pub(super) request: Request,
    /// Rows that ended well.
    pub(super) rounds: usize,
    /// The median of the rounds.
    pub(super) ops_per_second: Option<f64>,
    /// (max - min) / median.
    spread: Option<f64>,
    /// The ratio of this median to the other store's, over the rounds in which both had the machine in the same state.
    pub(super) ratios: BTreeMap<String, f64>,
    noisy: bool,
    why: Option<String>,
}

impl Summary {
    /// The summary of the store in `request`, from the lines of all stores.
    pub(super) fn new(request: Request, lines: &[Line]) -> Self {
        let own: Vec<&Line> = well(lines).filter(|line| line.store() == request.store).collect();
        let speeds: Vec<f64> = own.iter().filter_map(|line| speed(line)).collect();
        let (ops_per_second, spread) = (median(speeds.iter().copied()), spread(&speeds));
        let why = noise(spread, &own);
        let mut others: Vec<StoreKind> = well(lines).map(Line::store).filter(|store| *store != request.store).collect();
        others.dedup();
        let ratios = others.into_iter().filter_map(|other| Some((other.to_string(), ratio(&own, other, lines)?)));
        let noisy = why.is_some();
        Summary {
            kind: "summary",
            request,
            rounds: own.len(),
            ops_per_second,
            spread,
            ratios: ratios.collect(),
            noisy,
            why,
        }
    }

    /// A warning about noise, if there was any.
    pub(super) fn warning(&self) -> Option<String> {
        self.why.as_ref().map(|why| format!("{} is noisy: {why}", self.request.store))
    }
}

fn well(lines: &[Line]) -> impl Iterator<Item = &Line> {
    lines.iter().filter(|line| line.status == Status::Ok)
}

fn speed(line: &Line) -> Option<f64> {
    line.row().map(|row| row.ops_per_second)
}

/// The ratio of the medians over the rounds in which both rows ended well with the machine in like states.
fn ratio(own: &[&Line], other: StoreKind, lines: &[Line]) -> Option<f64> {
    let partner = |line: &Line| {
        let mut partners = well(lines).filter(|partner| partner.store() == other && partner.round == line.round);
        partners.next().filter(|partner| line.machine.is_like(&partner.machine))
    };
    let pairs = own.iter().filter_map(|line| Some((speed(line)?, speed(partner(line)?)?)));
    let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.unzip();
    Some(median(ours.into_iter())? / median(theirs.into_iter())?)
}

/// The reason why a store's rounds are noisy, if they are.
fn noise(spread: Option<f64>, own: &[&Line]) -> Option<String> {
    let machines: Vec<&Machine> = own.iter().map(|line| &line.machine).collect();
    let alike = machines.iter().all(|one| machines.iter().all(|another| one.is_like(another)));
    let wide = spread.filter(|spread| *spread > NOISY);
    let far = wide.map(|spread| format!("the rounds are {:.0}% apart", spread * 100.0));
    let changed = (!alike).then(|| format!("the machine changed: {}", range(&machines)));
    let reasons: Vec<String> = far.into_iter().chain(changed).collect();
    (!reasons.is_empty()).then(|| reasons.join(", and "))
}

/// The slowest and the fastest state, in words.
fn range(machines: &[&Machine]) -> String {
    let states = || machines.iter().flat_map(|machine| [machine.before, machine.after]);
    let loops = || states().map(|state| state.loop_ns as f64 / 1e6);
    let disks = || states().filter_map(|state| state.disk_reads_per_second);
    let (fastest, slowest) = (loops().fold(f64::MAX, f64::min), loops().fold(0.0, f64::max));
    let (least, most) = (disks().fold(f64::MAX, f64::min), disks().fold(0.0, f64::max));
    let disk = if most > 0.0 { format!(", {least:.0} to {most:.0} reads of the disk a second") } else { String::new() };
    format!("{fastest:.1} to {slowest:.1} ms for the same loop{disk}")
}

/// The spread of the numbers relative to their median; `None` for fewer than two.
fn spread(numbers: &[f64]) -> Option<f64> {
    let (least, most) = (numbers.iter().copied().fold(f64::MAX, f64::min), numbers.iter().copied().fold(0.0, f64::max));
    median(numbers.iter().copied()).filter(|_| numbers.len() > 1).map(|median| (most - least) / median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        row::{Shape, Workload},
        suite::rounds::{line::tests::line, machine::tests::machine},
    };

    const TREE: Request =
        Request { store: StoreKind::Tree, workload: Workload::C, distribution: Shape::Uniform, records: Some(10) };

    #[test]
    fn medians_and_spreads() {
        let median = |numbers: &[f64]| median(numbers.iter().copied());
        assert_eq!((median(&[]), median(&[3.0]), median(&[9.0, 1.0, 2.0])), (None, Some(3.0), Some(2.0)));
        assert_eq!((median(&[4.0, 1.0]), spread(&[4.0, 1.0]), spread(&[4.0])), (Some(2.5), Some(1.2), None));
    }

    #[test]
    fn ratios_are_of_like_states_only() {
        let (fast, slow) = (machine(100, 1000.0), machine(200, 500.0));
        let lines = [
            line(StoreKind::Tree, 1, Some(300.0), fast),
            line(StoreKind::Null, 1, Some(100.0), fast),
            line(StoreKind::Tree, 2, Some(150.0), slow),
            line(StoreKind::Null, 2, Some(100.0), fast),
            line(StoreKind::Tree, 3, None, fast),
            line(StoreKind::Null, 3, Some(100.0), fast),
        ];
        let summary = Summary::new(TREE, &lines);
        assert_eq!((summary.rounds, summary.ops_per_second), (2, Some(225.0)));
        assert_eq!(summary.ratios, BTreeMap::from([("null".to_owned(), 3.0)]));
        let why = summary.why.unwrap();
        assert!(summary.noisy && why.contains("67% apart") && why.contains("500 to 1000 reads"), "{why}");
    }

    #[test]
    fn quiet_rounds_are_not_noisy() {
        let quiet = machine(100, 1000.0);
        let lines = [300.0, 310.0].map(|speed| line(StoreKind::Tree, 1, Some(speed), quiet));
        let summary = Summary::new(TREE, &lines);
        assert!(!summary.noisy && summary.why.is_none() && summary.ratios.is_empty());
        let failed = Summary::new(TREE, &[line(StoreKind::Tree, 1, None, quiet)]);
        assert!(failed.ops_per_second.is_none() && failed.spread.is_none() && !failed.noisy);
    }
}
