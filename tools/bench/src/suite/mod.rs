//! The subcommand `suite`: runs the papers' tables as lists of cells, each a `run` in its own process, and computes the
//! ratios. `docs/suites.md` describes the suites and where each of the papers' ratios is found. [`rounds`] is the
//! subcommand `run`.

mod cell;
mod child;
mod compare;
mod comparison;
mod estimate;
mod figures;
mod keys;
mod list;
mod options;
mod output;
pub(crate) mod rounds;
mod runner;
mod scale;
mod states;
mod table;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use self::options::SuiteOptions;
use self::runner::Runner;
use crate::error::Result;

/// Runs `suite` and prints its rows and comparisons.
pub(crate) fn run(options: &SuiteOptions) -> Result<()> {
    let suite = tables::named(&options.name).ok_or("there is no such suite")?;
    let cells: Vec<_> = suite.cells.iter().filter(|cell| options.picks(&cell.name())).collect();
    if cells.is_empty() {
        return Err(
            format!("no cell of {} has a name that holds {:?}; --list shows them", suite.name, options.cells).into()
        );
    }
    if options.list {
        return list::show(options, &suite, &cells);
    }
    if let (true, Some(reason)) = (options.stores.is_empty(), table::missing_store(suite.engine)) {
        return Err(format!("{reason}, and {} is its suite; --store measures others on its cells", suite.name).into());
    }
    Runner::new(options, &suite).run(&cells)
}
