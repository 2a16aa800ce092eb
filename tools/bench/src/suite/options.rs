//! Options of `suite`.

use std::path::PathBuf;

use clap::{Args, builder::PossibleValuesParser};

use super::{
    scale::Scale,
    table::Suite,
    tables::{self, NAMES},
};
use crate::{measure::options::positive, row::StoreKind};

/// Options of `suite`.
#[derive(Debug, Args)]
pub(crate) struct SuiteOptions {
    /// Which suite; docs/suites.md describes them.
    #[arg(value_parser = PossibleValuesParser::new(NAMES))]
    pub(crate) name: String,
    /// How large.
    #[arg(long, value_enum)]
    pub(crate) scale: Scale,
    /// Stores to measure in place of the suite's.
    #[arg(long = "store", value_name = "STORES", value_delimiter = ',', value_parser = known_store)]
    pub(crate) stores: Vec<String>,
    /// Rounds of every cell; the ratios are those of the medians.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Keep the stores of a cell open through its rounds: each is warmed up once, and stands still while others are
    /// measured.
    #[arg(long)]
    pub(crate) stay_open: bool,
    /// Directory of the loaded stores, which later cells and runs use again; they take at most 20 GB.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Only the cells whose names hold this text; may be given several times.
    #[arg(long = "cell", value_name = "PATTERN")]
    pub(crate) cells: Vec<String>,
    /// Directory of the key sets; those in data are found besides.
    #[arg(long, default_value = "../shared/data")]
    pub(crate) data: PathBuf,
    /// No cell begins that would end, by its estimate, after so many minutes.
    #[arg(long, default_value_t = 120.0, value_parser = positive)]
    pub(crate) minutes: f64,
    /// Show the cells with their time and space, and measure nothing.
    #[arg(long)]
    pub(crate) list: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl SuiteOptions {
    /// The stores that are measured.
    pub(super) fn stores(&self, suite: &Suite) -> Vec<String> {
        if self.stores.is_empty() { suite.usual_stores() } else { self.stores.clone() }
    }

    /// Whether a cell is among those asked for.
    pub(super) fn picks(&self, name: &str) -> bool {
        self.cells.is_empty() || self.cells.iter().any(|pattern| name.contains(pattern.as_str()))
    }
}

/// Accepts a store of this build, or one that a suite names; the latter is reported as missing when its turn comes.
fn known_store(text: &str) -> Result<String, String> {
    let named = NAMES.iter().filter_map(|name| tables::named(name)).any(|suite| suite.stores.contains(&text));
    let known = named || <StoreKind as clap::ValueEnum>::from_str(text, false).is_ok();
    known.then(|| text.to_owned()).ok_or_else(|| format!("there is no store {text:?}"))
}
