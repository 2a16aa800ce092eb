//! Groups rows of the same measurement.

use super::{
    machine::Usual,
    number, palette,
    read::{Found, Results, Source},
    series::Series,
};
use crate::{
    row::record::{RowParameters, RowRecord, SummaryRecord},
    statistics,
};

/// One measurement: the stores under the same parameters.
#[derive(Debug)]
pub(crate) struct Group {
    number: usize,
    pub(crate) parameters: RowParameters,
    /// Whether other workloads precede or follow it in the same stores.
    is_phase: bool,
    pub(crate) series: Vec<Series>,
}

impl Group {
    /// The anchor in the page.
    pub(crate) fn id(&self) -> String {
        format!("measurement-{}", self.number)
    }

    /// The series that ratios refer to: our first store, if it has a comparable round.
    pub(crate) fn reference(&self) -> Option<&Series> {
        self.series.iter().find(|series| palette::is_ours(&series.store) && series.comparable())
    }

    /// The ratio of the median throughput to ours; `None` for the harness.
    pub(crate) fn ratio(&self, series: &Series) -> Option<f64> {
        let ours = self.reference()?.median(RowRecord::throughput).filter(|ops| *ops > 0.0)?;
        let theirs = series.median(RowRecord::throughput)?;
        (series.comparable() && series.store != palette::HARNESS).then(|| theirs / ours)
    }

    /// The throughput that disk and processors allow a cache that holds the hottest records in the whole budget.
    pub(crate) fn ideal(&self) -> Option<f64> {
        self.median(|row| row.ideal_ops_per_second)
    }

    /// The median of a figure over all stores, for a figure that does not depend on the store.
    pub(crate) fn median(&self, figure: fn(&RowRecord) -> Option<f64>) -> Option<f64> {
        statistics::median(self.series.iter().flat_map(Series::counted).filter_map(figure))
    }

    /// The parameters that distinguish it from others of its suite.
    pub(crate) fn title(&self) -> String {
        let workload = self.parameters.workload.as_deref().unwrap_or_default();
        match self.parameters.leg.filter(|_| self.is_phase) {
            Some(leg) => format!("{}, phase {}: {workload}", self.name(), leg + 1),
            None => self.name(),
        }
    }

    /// The common name of consecutive phases.
    pub(crate) fn name(&self) -> String {
        let parameters = &self.parameters;
        if let Some(cell) = &parameters.cell {
            return cell.clone();
        }
        let workload = parameters.workload.as_deref().unwrap_or("(no workload)");
        let workload = if workload.len() == 1 { workload.to_uppercase() } else { workload.to_owned() };
        let workload = if self.is_phase { "phases".to_owned() } else { workload };
        let size =
            parameters.value_size.map(|size| format!("{} B", parameters.key_size.unwrap_or(0.0).round() + size as f64));
        let parts = [Some(workload), Some(self.distribution()), size, parameters.durability.clone()];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// The distribution with its theta, in words.
    pub(crate) fn distribution(&self) -> String {
        let name = self.parameters.distribution.clone().unwrap_or_default();
        match self.parameters.theta.filter(|_| matches!(&*name, "zipfian" | "latest")) {
            Some(theta) => format!("{name} {theta}"),
            None => name,
        }
    }

    /// The parameters that the title lacks, in words.
    pub(crate) fn description(&self) -> String {
        self.labels().join(" · ")
    }

    /// The parameters that the title lacks, each in words.
    pub(crate) fn labels(&self) -> Vec<String> {
        let parameters = &self.parameters;
        let durability = parameters.durability.as_deref().map(|durability| format!("durability {durability}"));
        let parts = [
            self.data(),
            parameters.memory_budget.map(|budget| format!("budget {}", number::bytes(budget as f64))),
            parameters.threads.map(|threads| format!("{threads} threads")),
            parameters.batch.filter(|batch| *batch > 1).map(|batch| format!("calls of {batch} operations")),
            parameters.rate.map(|rate| format!("offered {}", number::rate(rate))),
            durability,
        ];
        parts.into_iter().flatten().collect()
    }

    fn data(&self) -> Option<String> {
        let parameters = &self.parameters;
        let records = parameters.records?;
        let Some(value) = parameters.value_size else {
            return Some(format!("{} records", number::count(records as f64)));
        };
        let key = parameters.key_size.unwrap_or(0.0);
        let bytes = records as f64 * (key + value as f64);
        let share = parameters
            .memory_budget
            .filter(|budget| *budget > 0)
            .map_or(String::new(), |budget| format!(", {} the budget", number::times(bytes / budget as f64)));
        let (records, key, bytes) = (number::count(records as f64), number::tick(key), number::bytes(bytes));
        Some(format!("{records} records of {key} + {value} B ({bytes}{share})"))
    }
}

/// Puts rows into groups, in the order in which the groups first occur.
pub(crate) fn groups(results: &Results) -> Vec<Group> {
    let mut heaps: Vec<Heap> = Vec::new();
    // A failed row has only some of its parameters. It joins the group of its neighbours in the file, or else any group
    // that it fits.
    let mut left = Vec::new();
    let mut last = None;
    for found in &results.rows {
        let parameters = &found.record.parameters;
        let fits = |heap: &Heap| heap.parameters.agrees(parameters);
        let place = if parameters.are_whole() {
            heaps.iter().position(fits)
        } else {
            last.filter(|(file, place)| *file == found.file && fits(&heaps[*place])).map(|(_, place)| place)
        };
        match place {
            None if !parameters.are_whole() => left.push(found),
            place => last = Some((found.file, put(&mut heaps, place, found))),
        }
    }
    for found in left {
        let fits = |heap: &&Heap| heap.parameters.agrees(&found.record.parameters);
        let near = |heap: &&Heap| heap.rows.iter().any(|row| row.file == found.file);
        let place = heaps
            .iter()
            .position(|heap| fits(&heap) && near(&heap))
            .or_else(|| heaps.iter().position(|heap| fits(&heap)));
        put(&mut heaps, place, found);
    }
    let is_phase: Vec<bool> = heaps.iter().map(|heap| heaps.iter().any(|other| other.is_beside(heap))).collect();
    let numbered = heaps.into_iter().zip(is_phase).zip(1..);
    numbered.map(|((heap, is_phase), number)| heap.into_group(number, is_phase, results)).collect()
}

/// Collects the groups that are phases of one measurement, in order.
pub(crate) fn phases(groups: &[Group]) -> Vec<Vec<&Group>> {
    let mut rows: Vec<Vec<&Group>> = Vec::new();
    for group in groups.iter().filter(|group| group.is_phase) {
        match rows.iter_mut().find(|row| row[0].parameters.follows(&group.parameters)) {
            Some(row) => row.push(group),
            None => rows.push(vec![group]),
        }
    }
    rows.iter_mut().for_each(|row| row.sort_by_key(|group| group.parameters.leg));
    rows
}

/// Rows of the same parameters.
#[derive(Debug)]
struct Heap {
    parameters: RowParameters,
    rows: Vec<Found<RowRecord>>,
}

fn put(heaps: &mut Vec<Heap>, place: Option<usize>, found: &Found<RowRecord>) -> usize {
    let place = place.unwrap_or_else(|| {
        heaps.push(Heap { parameters: found.record.parameters.clone(), rows: Vec::new() });
        heaps.len() - 1
    });
    heaps[place].rows.push(found.clone());
    place
}

impl Heap {
    fn is_beside(&self, other: &Heap) -> bool {
        let legs = [self, other].map(|heap| heap.parameters.leg);
        legs[0] != legs[1] && legs.iter().all(Option::is_some) && self.parameters.follows(&other.parameters)
    }

    fn into_group(self, number: usize, is_phase: bool, results: &Results) -> Group {
        let usual = Usual::of(self.rows.iter().map(|found| &found.record).filter(|row| row.throughput().is_some()));
        let mut names: Vec<(String, usize)> = Vec::new();
        for found in &self.rows {
            let name = (found.record.store().to_owned(), found.file);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.sort_by_key(|(store, _)| palette::rank(store));
        let series = names.iter().map(|name| self.series(name, &names, &usual, results)).collect();
        Group { number, parameters: self.parameters, is_phase, series }
    }

    fn series(&self, name: &(String, usize), names: &[(String, usize)], usual: &Usual, results: &Results) -> Series {
        let (store, file) = name;
        let alone = names.iter().filter(|(other, _)| other == store).count() == 1;
        let label = if alone { store.clone() } else { format!("{store} ({})", stem(&results.files[*file])) };
        let mine = |found: &&Found<RowRecord>| found.record.store() == store && found.file == *file;
        let rows = self.rows.iter().filter(mine).map(|found| found.record.clone()).collect();
        Series::new(store.clone(), label, rows, self.summary(name, &results.summaries), usual)
    }

    fn summary(&self, (store, file): &(String, usize), summaries: &[Found<SummaryRecord>]) -> Option<SummaryRecord> {
        let mine = |found: &&Found<SummaryRecord>| {
            let summary = &found.record;
            found.file == *file && summary.store.as_ref() == Some(store) && summary.parameters.agrees(&self.parameters)
        };
        summaries.iter().find(mine).map(|found| found.record.clone())
    }
}

fn stem(file: &Source) -> &str {
    file.name.trim_end_matches(".jsonl")
}
