//! Runs the cells of a suite one after the other, and compares their rows.

use std::{collections::BTreeMap, path::PathBuf, time::Instant};

use serde_json::{Value, json};

use super::{
    cell::{Cell, Variant},
    child::{Ended, Request},
    compare::{Compared, Rows, compare, means, whole},
    estimate::Estimate,
    list,
    options::SuiteOptions,
    output::{Output, is_good},
    states::{MOST_BYTES, States},
    table::{Suite, missing_store},
};
use crate::error::Result;

/// A running suite.
pub(super) struct Runner<'a> {
    options: &'a SuiteOptions,
    suite: &'a Suite,
    stores: Vec<String>,
    /// The store that is compared with the others.
    ours: String,
    states: States,
    output: Output,
    begin: Instant,
    /// Stores whose state could not be prepared, with the error of the cell that tried.
    broken: BTreeMap<(String, String), String>,
    /// Number of rows that failed.
    failures: u32,
    /// Number of cells that the time limit excluded.
    left_out: u32,
}

/// The stores of one variant of a cell.
struct VariantRun<'a> {
    variant: &'a Variant,
    stores: Vec<String>,
}

impl<'a> Runner<'a> {
    /// A runner for the stores that the options name, or those of the suite.
    pub(super) fn new(options: &'a SuiteOptions, suite: &'a Suite) -> Self {
        let stores = options.stores(suite);
        let there = |store: &&String| missing_store(store).is_none();
        let own = stores.iter().filter(there).find(|store| *store == suite.engine);
        let ours = own.or_else(|| stores.iter().find(there)).cloned().unwrap_or_default();
        Runner {
            options,
            suite,
            stores,
            ours,
            states: States::new(&options.dir),
            output: Output::new(options.json, 0.0),
            begin: Instant::now(),
            broken: BTreeMap::new(),
            failures: 0,
            left_out: 0,
        }
    }

    /// Runs the cells, then takes the means.
    ///
    /// # Errors
    /// If rows failed; everything else was measured and printed.
    pub(super) fn run(mut self, cells: &[&Cell]) -> Result<()> {
        let estimates = list::estimates(cells, self.options, &self.stores, &self.states);
        self.output = Output::new(self.options.json, estimates.iter().map(|estimate| estimate.seconds()).sum());
        if self.ours != self.suite.engine {
            self.output.say(&format!(
                "{} is for the engine {}; {} stands in for it",
                self.suite.name, self.suite.engine, self.ours
            ));
        }
        let (mut done, mut compared) = (0.0, Vec::new());
        for (cell, estimate) in cells.iter().zip(&estimates) {
            self.output.begin(&cell.name(), done);
            compared.push((*cell, self.measure(cell, *estimate)?));
            done += estimate.seconds();
        }
        self.end(&compared)
    }

    fn end(self, compared: &[(&Cell, Vec<Compared>)]) -> Result<()> {
        let means: Vec<_> =
            self.suite.groups.iter().flat_map(|group| means(self.suite.name, group, compared)).collect();
        self.output.compared(&means)?;
        let all: Vec<_> = compared.iter().flat_map(|(_, lines)| lines).chain(&means).cloned().collect();
        self.output.end(&all);
        if self.left_out > 0 {
            let (count, minutes) = (self.left_out, self.options.minutes);
            self.output
                .say(&format!("{count} cells were left out: they would not have ended within --minutes {minutes}"));
        }
        match self.failures {
            0 => Ok(()),
            count => Err(format!("{count} rows of {} failed", self.suite.name).into()),
        }
    }

    /// Measures a cell and compares; reports a cell that cannot run, and continues with the others.
    fn measure(&mut self, cell: &Cell, estimate: Estimate) -> Result<Vec<Compared>> {
        let name = cell.name();
        let keys = match cell.data.keys.find(&self.options.data) {
            Ok(keys) => keys,
            Err(missing) => {
                self.output.say(&format!("{}, {name}: skipped, because {missing}", self.suite.name));
                return Ok(Vec::new());
            }
        };
        if self.begin.elapsed().as_secs_f64() + estimate.seconds() > self.options.minutes * 60.0 {
            self.left_out += 1;
            return Ok(Vec::new());
        }
        let mut rows = vec![Rows::new(); cell.phases.len().max(1)];
        let parts = self.parts(cell)?;
        let kept: Vec<_> = parts.iter().map(|part| cell.state(part.variant, self.options.scale)).collect();
        match self.states.make_space(estimate.new_bytes, &kept, MOST_BYTES) {
            Ok(()) => self.rounds(cell, &parts, keys, &mut rows)?,
            Err(error) => self.fail(cell, &parts, &error.to_string())?,
        }
        let of = |name, rows: &Rows| compare(self.suite.name, (cell, name), &self.ours, rows);
        let mut compared = of(cell.name(), &whole(&rows));
        let phases = (0..cell.phases.len()).flat_map(|phase| of(cell.phase_name(phase), &rows[phase]));
        compared.extend(phases);
        self.output.compared(&compared)?;
        Ok(compared)
    }

    /// The measurable parts of a cell; prints the rows of the others.
    fn parts<'b>(&mut self, cell: &'b Cell) -> Result<Vec<VariantRun<'b>>> {
        let mut parts = Vec::new();
        for variant in &cell.variants {
            let mut stores = cell.stores_of(variant, &self.stores);
            for store in stores.clone() {
                let state = cell.state(variant, self.options.scale);
                let broken =
                    self.broken.get(&(state, store.clone())).map(|of| format!("it could not be prepared in {of:?}"));
                let reason = missing_store(&store).map(|reason| ("unavailable", reason));
                if let Some((status, reason)) = reason.or(broken.map(|reason| ("failed", reason))) {
                    stores.retain(|other| *other != store);
                    self.print_missing(cell, variant, &store, 1, status, &reason)?;
                }
            }
            if !stores.is_empty() {
                parts.push(VariantRun { variant, stores });
            }
        }
        Ok(parts)
    }

    /// Runs all rounds. A single part leaves the rounds to `run`, which alternates its stores; several parts alternate
    /// here. Each round of a load starts from an empty directory, and phases start with the first one. Each row is
    /// added to the rows of its phase.
    fn rounds(
        &mut self,
        cell: &Cell,
        parts: &[VariantRun<'_>],
        keys: Option<PathBuf>,
        rows: &mut [Rows],
    ) -> Result<()> {
        let together = parts.len() == 1 && cell.keeps_state() && cell.phases.is_empty();
        let stay_open = self.options.stay_open && together;
        let (outer, inner) = if together { (1, self.options.rounds) } else { (self.options.rounds, 1) };
        for round in 0..outer {
            for VariantRun { variant, stores } in parts {
                let scale = self.options.scale;
                let state = cell.state(variant, scale);
                self.clear(cell, &state, stores)?;
                let state_path = self.states.state(&state);
                let keys = keys.as_deref();
                let request =
                    Request { cell, variant, stores, scale, rounds: inner, stay_open, state: state_path, keys };
                self.request(&request, round, rows)?;
                self.clear(cell, &state, stores)?;
            }
        }
        Ok(())
    }

    /// Removes the states that a load must not find and that are of no further use.
    fn clear(&self, cell: &Cell, state: &str, stores: &[String]) -> Result<()> {
        let stores = stores.iter().filter(|_| !cell.keeps_state());
        stores.into_iter().try_for_each(|store| self.states.remove(state, store))
    }

    /// Runs one process. Its rounds count from `round`. A store without any row has failed.
    fn request(&mut self, request: &Request<'_>, round: u32, rows: &mut [Rows]) -> Result<()> {
        let mut seen: Vec<(String, bool)> = Vec::new();
        let (output, suite, rounds) = (&self.output, self.suite.name, self.options.rounds);
        let ended = request.run(|mut line| {
            if line["kind"] == "summary" {
                return if request.rounds == rounds { print(output, suite, request, line) } else { Ok(()) };
            }
            line["kind"] = json!("row");
            line["round"] = json!(line["round"].as_u64().unwrap_or(1) + u64::from(round));
            let store = line["store"].as_str().unwrap_or_default().to_owned();
            seen.push((store.clone(), is_good(&line) || line["status"] == "unavailable"));
            let (leg, contender) = (line["leg"].as_u64().unwrap_or(0) as usize, request.variant.contender(&store));
            if let Some(before) = leg.checked_sub(1).and_then(|leg| rows.get(leg)?.get(&contender)?.last()) {
                line["ops_per_second_before"] = before["ops_per_second"].clone();
            }
            if let Some(rows) = rows.get_mut(leg).filter(|_| is_good(&line)) {
                rows.entry(contender).or_default().push(line.clone());
            }
            print(output, suite, request, line)
        });
        self.settle(request, round, ended, &seen)
    }

    /// Reports the messages of a process and the stores that did not end well.
    fn settle(
        &mut self,
        request: &Request<'_>,
        round: u32,
        ended: Result<Ended>,
        seen: &[(String, bool)],
    ) -> Result<()> {
        let (success, messages) = match ended {
            Ok(ended) => (ended.status.success(), ended.messages),
            Err(error) => (false, error.to_string()),
        };
        let messages = messages.trim();
        if !messages.is_empty() {
            self.output.say(messages);
        }
        self.failures += seen.iter().filter(|(_, good)| !good).count() as u32;
        let silent = request.stores.iter().filter(|store| !seen.iter().any(|(of, _)| of == *store));
        for store in silent.clone() {
            let error = messages.lines().last().unwrap_or("it printed no row").trim_start_matches("error: ");
            self.print_missing(request.cell, request.variant, store, round + 1, "failed", error)?;
        }
        let failed = seen.iter().filter(|(_, good)| !good).map(|(store, _)| store).chain(silent.filter(|_| !success));
        failed.cloned().collect::<Vec<_>>().iter().try_for_each(|store| self.discard(request, store))
    }

    /// Removes an unfinished store, which no cell can use; the cells that need it need not try again. Keeps directories
    /// that are not stores.
    fn discard(&mut self, request: &Request<'_>, store: &str) -> Result<()> {
        let state = request.cell.state(request.variant, self.options.scale);
        if !self.states.is_ready(&state, store) {
            if self.states.is_store(&state, store) {
                self.states.remove(&state, store)?;
            }
            self.broken.insert((state, store.to_owned()), request.cell.name());
        }
        Ok(())
    }

    /// Prints failed rows for a cell that could not start.
    fn fail(&mut self, cell: &Cell, parts: &[VariantRun<'_>], error: &str) -> Result<()> {
        for VariantRun { variant, stores } in parts {
            stores.iter().try_for_each(|store| self.print_missing(cell, variant, store, 1, "failed", error))?;
        }
        Ok(())
    }

    /// Prints the row of a store that was not measured.
    fn print_missing(
        &mut self,
        cell: &Cell,
        variant: &Variant,
        store: &str,
        round: u32,
        status: &str,
        error: &str,
    ) -> Result<()> {
        self.failures += u32::from(status == "failed");
        self.output.row(&json!({
            "kind": "row", "suite": self.suite.name, "cell": variant.cell(cell), "store": store,
                "workload": cell.workload,
            "distribution": cell.distribution, "records": cell.data.records(self.options.scale), "round": round,
            "status": status, "error": error,
        }))
    }
}

/// Prints an object of `run` with the suite and the cell.
fn print(output: &Output, suite: &str, request: &Request<'_>, mut line: Value) -> Result<()> {
    line["suite"] = json!(suite);
    line["cell"] = json!(request.variant.cell(request.cell));
    output.row(&line)
}
