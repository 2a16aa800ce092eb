//! A cell of a suite: one measurement of some stores side by side.

use clap::ValueEnum;

use super::{comparison::Comparison, keys::Keys, scale::Scale};
use crate::{
    measure::options::Warmup,
    row::{Durability, Shape, Workload},
};

/// Default exponent of Zipf's law.
const THETA: f64 = 0.99;
/// Default fraction of all keys in the key range of shape `Stretch`.
const STRETCH: f64 = 0.1;
/// Default number of threads that call a store.
const THREADS: u16 = 8;
/// The smallest memory budget of a cell, which is the minimum of an Ecotone database.
const LEAST_MEMORY: u64 = 16 << 20;

/// The records of a cell. Cells with the same data share the states of the stores.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Data {
    /// Records at the small and at the full scale.
    pub(super) small: u64,
    pub(super) full: u64,
    /// Bytes of a key.
    pub(super) key_size: u64,
    /// Bytes of a value.
    pub(super) value_size: u64,
    pub(super) keys: Keys,
}

impl Data {
    /// Data with synthetic keys, evenly spread.
    pub(super) fn synthetic(small: u64, full: u64, key_size: u64, value_size: u64) -> Self {
        Data { small, full, key_size, value_size, keys: Keys::Synthetic }
    }

    /// Replaces the keys.
    pub(super) fn keys(self, keys: Keys) -> Self {
        Data { keys, ..self }
    }

    /// Records at a scale.
    pub(super) fn records(&self, scale: Scale) -> u64 {
        match scale {
            Scale::Tiny => 2000,
            Scale::Small => self.small,
            Scale::Full => self.full,
        }
    }

    /// Bytes of a record: key and value.
    pub(super) fn record_size(&self) -> u64 {
        self.key_size + self.value_size
    }

    /// Bytes of all records.
    pub(super) fn bytes(&self, scale: Scale) -> u64 {
        self.records(scale) * self.record_size()
    }

    /// The label in the names of cells: `64B`, `osm 1024B`.
    pub(super) fn label(&self) -> String {
        let keys = self.keys.label().map_or(String::new(), |keys| format!("{keys} "));
        format!("{keys}{}B", self.record_size())
    }
}

/// The same cell with other engine settings; variants are measured in turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Variant {
    /// Settings by name; the plain variant has none.
    pub(super) settings: Vec<(&'static str, &'static str)>,
    /// The store of these settings. `None` means all stores of the suite that no other variant names.
    pub(super) store: Option<&'static str>,
}

impl Variant {
    /// The suffix of the store's name: `forecast=off`, or nothing.
    pub(super) fn label(&self) -> String {
        self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// The store with the settings: `tree forecast=off`.
    pub(super) fn contender(&self, store: &str) -> String {
        format!("{store} {}", self.label()).trim_end().to_owned()
    }

    /// The name of the cell in rows of this variant.
    pub(super) fn cell(&self, cell: &Cell) -> String {
        format!("{} {}", cell.name(), self.label()).trim_end().to_owned()
    }
}

/// How a cell is warmed up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Warm {
    /// By so many operations a record.
    Operations(f64),
    /// Until the device reads of an operation no longer fall.
    Steady,
    /// By reading every record once.
    All,
}

/// One measurement.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) workload: Workload,
    pub(super) distribution: Shape,
    pub(super) data: Data,
    pub(super) durability: Durability,
    pub(super) theta: f64,
    /// The fraction of all keys in the key range.
    pub(super) stretch: f64,
    /// Memory as a fraction of the bytes of the records.
    pub(super) memory: f64,
    /// Whether it is one point of a curve over memory, and has the memory in its name.
    pub(super) on_curve: bool,
    /// Limit for indexes and filters of tables, as a fraction of the bytes of the records; `None` for the default.
    pub(super) table_cache: Option<f64>,
    pub(super) threads: u16,
    pub(super) batch: u16,
    /// The fraction of reads beside the inserts of the workload `insert`.
    pub(super) read_share: f64,
    pub(super) warmup: Warm,
    /// Consecutive workloads in stores that stay open, starting with the cell's own, each with its operations per
    /// record; empty if one workload is measured for a time.
    pub(super) phases: &'static [(Workload, f64)],
    pub(super) variants: Vec<Variant>,
    /// Its stores, if they differ from the suite's.
    pub(super) stores: Option<&'static [&'static str]>,
    /// Stores that are excluded, because they take too long or their result is meaningless.
    pub(super) without: &'static [&'static str],
    /// Additional stores that only this cell measures, besides its share of the chosen ones.
    pub(super) beside: &'static [&'static str],
    /// Comparisons with other stores in addition to throughput, and the ratios of the paper.
    pub(super) comparisons: Vec<Comparison>,
}

impl Cell {
    /// A cell with the default threads and exponent; `memory` is a fraction of the bytes of the records.
    pub(super) fn new(
        workload: Workload,
        distribution: Shape,
        data: &Data,
        durability: Durability,
        memory: f64,
    ) -> Self {
        Cell {
            workload,
            distribution,
            data: data.clone(),
            durability,
            theta: THETA,
            stretch: STRETCH,
            memory,
            on_curve: false,
            table_cache: None,
            threads: THREADS,
            batch: 1,
            read_share: 0.0,
            warmup: Warm::Operations(0.0),
            phases: &[],
            variants: vec![Variant::default()],
            stores: None,
            without: &[],
            beside: &[],
            comparisons: Vec::new(),
        }
    }

    /// Sets a warm-up of this many operations per record.
    pub(super) fn warmup(self, warmup: f64) -> Self {
        Cell { warmup: Warm::Operations(warmup), ..self }
    }

    /// Sets a warm-up until the device reads per operation no longer fall.
    pub(super) fn steady(self) -> Self {
        Cell { warmup: Warm::Steady, ..self }
    }

    /// A cell of consecutive phases.
    pub(super) fn of_phases(distribution: Shape, data: &Data, memory: f64, phases: &'static [(Workload, f64)]) -> Self {
        Cell { phases, ..Cell::new(phases[0].0, distribution, data, Durability::None, memory) }
    }

    /// Sets the fraction of all keys in the key range.
    pub(super) fn stretch(self, stretch: f64) -> Self {
        Cell { stretch, ..self }
    }

    /// Excludes these of the chosen stores.
    pub(super) fn without(self, without: &'static [&'static str]) -> Self {
        Cell { without, ..self }
    }

    /// Adds these stores to the chosen ones.
    pub(super) fn beside(self, beside: &'static [&'static str]) -> Self {
        Cell { beside, ..self }
    }

    /// Overrides the suite's memory, as a fraction of the bytes of the records.
    pub(super) fn with_memory(self, memory: f64) -> Self {
        Cell { memory, on_curve: true, ..self }
    }

    /// Limits the memory for indexes and filters of tables, as a fraction of the bytes of the records.
    pub(super) fn with_table_cache(self, part: f64) -> Self {
        Cell { table_cache: Some(part), ..self }
    }

    /// Sets the number of threads.
    pub(super) fn threads(self, threads: u16) -> Self {
        Cell { threads, ..self }
    }

    /// Replaces the plain variant with these.
    pub(super) fn variants(self, variants: Vec<Variant>) -> Self {
        Cell { variants, ..self }
    }

    /// Adds a comparison.
    pub(super) fn compare(mut self, comparison: Comparison) -> Self {
        self.comparisons.push(comparison);
        self
    }

    /// The name, unique in the suite: `A zipfian 64B none`.
    pub(super) fn name(&self) -> String {
        let mut name = value(&self.workload);
        if name.len() == 1 {
            name.make_ascii_uppercase();
        }
        if self.workload != Workload::Load {
            name += &format!(" {}", value(&self.distribution));
        }
        if self.theta != THETA {
            name += &format!("-{}", self.theta);
        }
        if self.stretch != STRETCH {
            name += &format!("-{}", self.stretch);
        }
        name += &format!(" {}", self.data.label());
        if self.on_curve {
            name += &format!(" memory {}%", self.memory * 100.0);
        }
        if let Some(part) = self.table_cache {
            name += &format!(" table cache {}%", part * 100.0);
        }
        if !self.phases.is_empty() {
            name += &format!(" {} phases", self.phases.len());
        }
        if self.batch != 1 {
            name += &format!(" batch {}", self.batch);
        }
        if self.threads != THREADS {
            name += &format!(" {} thread{}", self.threads, if self.threads == 1 { "" } else { "s" });
        }
        let by = self.variants.iter().find_map(|variant| variant.settings.first());
        let by = by.map_or(String::new(), |(option, _)| format!(" by {option}"));
        format!("{name} {}{by}", value(&self.durability))
    }

    /// The memory budget in bytes.
    pub(super) fn memory_bytes(&self, scale: Scale) -> u64 {
        ((self.data.bytes(scale) as f64 * self.memory) as u64).max(LEAST_MEMORY)
    }

    /// The limit in bytes for indexes and filters of tables.
    pub(super) fn table_cache_bytes(&self, scale: Scale) -> Option<u64> {
        self.table_cache.map(|part| (self.data.bytes(scale) as f64 * part) as u64)
    }

    /// The warm-up as a command-line option.
    pub(super) fn warmup_at(&self, scale: Scale) -> Warmup {
        match self.warmup {
            Warm::Operations(a_record) => Warmup::Operations((self.data.records(scale) as f64 * a_record) as u64),
            Warm::Steady => Warmup::Steady,
            Warm::All => Warmup::All,
        }
    }

    /// The phases with their numbers of operations.
    pub(super) fn phases_at(&self, scale: Scale) -> impl Iterator<Item = (Workload, u64)> {
        let records = self.data.records(scale) as f64;
        self.phases.iter().map(move |(workload, a_record)| (*workload, (records * a_record) as u64))
    }

    /// The name of a phase in comparisons.
    pub(super) fn phase_name(&self, phase: usize) -> String {
        format!("{}, phase {}: {}", self.name(), phase + 1, value(&self.phases[phase].0))
    }

    /// The chosen stores that measure a variant.
    pub(super) fn stores_of(&self, variant: &Variant, chosen: &[String]) -> Vec<String> {
        let own = |store: &String| {
            let store = &store.as_str();
            self.stores.is_none_or(|stores| stores.contains(store)) && !self.without.contains(store)
        };
        let named = |store: &String| self.variants.iter().any(|other| other.store == Some(store));
        let fits = |store: &&String| match variant.store {
            Some(wanted) => *store == wanted,
            None => own(store) && !named(store),
        };
        let mut stores: Vec<_> = chosen.iter().filter(fits).cloned().collect();
        if !stores.is_empty() && variant.store.is_none() {
            let beside: Vec<_> =
                self.beside.iter().map(|&store| store.to_owned()).filter(|store| !stores.contains(store)).collect();
            stores.extend(beside);
        }
        stores
    }

    /// Whether the state outlives the cell. A load needs an empty directory, adapting needs a store that has not
    /// adapted, and a queue needs all of its records; their remaining states are useless to other cells.
    pub(super) fn keeps_state(&self) -> bool {
        let uses_up = |workload: &Workload| *workload == Workload::Adapt || workload.removes();
        self.workload != Workload::Load && !self.phases.iter().map(|(workload, _)| workload).any(uses_up)
    }

    /// The directory of a variant's states, relative to that of all states.
    pub(super) fn state(&self, variant: &Variant, scale: Scale) -> String {
        let Data { key_size, value_size, keys, .. } = &self.data;
        let log = if self.durability == Durability::None { "unlogged" } else { "logged" };
        let keys = keys.label().unwrap_or("synthetic");
        let mut parts = vec![
            self.data.records(scale).to_string(),
            format!("{key_size}+{value_size}B"),
            keys.to_owned(),
            log.to_owned(),
        ];
        parts.extend(variant.settings.iter().map(|(name, value)| format!("{name}={value}")));
        if !self.keeps_state() {
            parts.push("load".to_owned());
        }
        parts.join("-")
    }
}

/// The name of a value on the command line.
pub(super) fn value(of: &impl ValueEnum) -> String {
    of.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}
