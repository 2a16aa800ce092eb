//! The options of `run`.

use clap::Args;

use crate::{
    measure::options::{RunOptions, positive},
    row::StoreKind,
    size,
};

/// Options of `run`: the rows, and what is the same in all of them.
#[derive(Debug, Args)]
pub(crate) struct RoundsOptions {
    /// The stores to measure; several take turns, each in a directory of its name below --dir.
    #[arg(long, value_enum, required = true, value_delimiter = ',')]
    pub(crate) store: Vec<StoreKind>,
    /// How often each store is measured.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Keep all stores open through the rounds: each is opened and warmed up once, and stands still while others are
    /// measured.
    #[arg(long)]
    pub(crate) stay_open: bool,
    /// Limit of a store's memory cgroup, or `none`; the default is twice the budget and 64 MiB, or the budget and 16
    /// MiB for stores that count on the page cache.
    #[arg(long, value_name = "BYTES", value_parser = Ceiling::parse)]
    pub(crate) cgroup_memory: Option<Ceiling>,
    /// Seconds without a finished operation after which a store counts as hung.
    #[arg(long, default_value_t = 120.0, value_parser = positive)]
    pub(crate) hang_seconds: f64,
    /// Print one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) row: RunOptions,
}

impl RoundsOptions {
    /// Whether there is one row alone.
    pub(super) fn is_single(&self) -> bool {
        self.store.len() == 1 && self.rounds == 1
    }

    /// The options of a row of this store. With several stores, each has its own directory.
    pub(super) fn row_of(&self, store: StoreKind) -> RunOptions {
        let mut row = self.row.clone();
        row.store = store;
        if self.store.len() > 1 {
            row.dir.push(store.to_string());
        }
        row
    }
}

/// What a memory cgroup allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ceiling {
    /// All that there is.
    None,
    Bytes(u64),
}

impl Ceiling {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Ceiling::None) } else { size::parse(text).map(Ceiling::Bytes) }
    }
}
