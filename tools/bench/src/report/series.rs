//! One store in one group: its rounds and their medians.

use serde_json::Value;

use super::{
    machine::{self, Usual},
    number,
};
use crate::{
    row::record::{RowRecord, SummaryRecord},
    statistics,
};

/// The rounds of one store that are reported together.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) store: String,
    /// The store's name; with the file's name if the group has the store from several files.
    pub(crate) label: String,
    pub(crate) rows: Vec<Round>,
    summary: Option<SummaryRecord>,
}

/// The row of a round, and the state of the machine in it.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) row: RowRecord,
    /// The machine was in the state of most rows of the group.
    pub(crate) usual_state: bool,
}

impl Series {
    /// A series of one store's rows and their summary.
    pub(crate) fn new(
        store: String,
        label: String,
        rows: Vec<RowRecord>,
        summary: Option<SummaryRecord>,
        usual: &Usual,
    ) -> Self {
        let judge = |row: RowRecord| Round { usual_state: usual.holds(&row), row };
        Series { store, label, rows: rows.into_iter().map(judge).collect(), summary }
    }

    /// The rows that count: those that ended well in the usual state, or if there are none, all that ended well.
    pub(crate) fn counted(&self) -> Vec<&RowRecord> {
        let usual = self.comparable();
        let counts = |round: &&Round| round.row.throughput().is_some() && (round.usual_state || !usual);
        self.rows.iter().filter(counts).map(|round| &round.row).collect()
    }

    /// Whether it has a round that is comparable with those of other stores.
    pub(crate) fn comparable(&self) -> bool {
        self.rows.iter().any(|round| round.usual_state && round.row.throughput().is_some())
    }

    /// The median of a figure over the rounds that count.
    pub(crate) fn median(&self, figure: impl Fn(&RowRecord) -> Option<f64>) -> Option<f64> {
        statistics::median(self.counted().into_iter().filter_map(figure))
    }

    /// The smallest and largest throughput of the rounds that count.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        statistics::range(self.counted().into_iter().filter_map(RowRecord::throughput))
    }

    /// (max - min) / median of the throughput, with two rounds or more.
    pub(crate) fn spread(&self) -> Option<f64> {
        let (low, high) = self.range()?;
        let median = self.median(RowRecord::throughput).filter(|median| *median > 0.0)?;
        (self.counted().len() > 1).then(|| (high - low) / median)
    }

    /// The counted round nearest to the median throughput for which `what` gives a value.
    pub(crate) fn typical<T>(&self, what: impl Fn(&RowRecord) -> Option<T>) -> Option<T> {
        let median = self.median(RowRecord::throughput)?;
        let distance = |row: &RowRecord| row.throughput().map_or(f64::INFINITY, |ops| (ops - median).abs());
        let having = self.counted().into_iter().filter_map(|row| Some((distance(row), what(row)?)));
        having.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, value)| value)
    }

    /// The reasons for doubt; empty if there are none.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut doubts = self.bad_ends();
        doubts.extend(self.other_states());
        doubts.extend(self.noise());
        if let Some(stolen) = statistics::range(self.counted().into_iter().filter_map(machine::stolen)) {
            doubts.push(format!("other guests took up to {} of the processors", number::percent(stolen.1)));
        }
        let capped = |row: &&RowRecord| row.load.as_ref().is_some_and(|load| load.capped == Some(true));
        if self.counted().iter().any(capped) {
            doubts.push("the preparation was capped".to_owned());
        }
        doubts
    }

    /// The doubt in one word, where space is scarce.
    pub(crate) fn doubt(&self) -> Option<&'static str> {
        self.trouble().or_else(|| self.noise().filter(|_| !self.counted().is_empty()).map(|_| "noisy"))
    }

    /// The doubt that is not noise, in one word.
    pub(crate) fn trouble(&self) -> Option<&'static str> {
        if self.counted().is_empty() {
            None
        } else if !self.comparable() {
            Some("not comparable")
        } else {
            (!self.bad_ends().is_empty()).then_some("rounds failed")
        }
    }

    /// The failure, if no round ended well, with the first error.
    pub(crate) fn failure(&self) -> Option<(String, Option<&str>)> {
        let first = &self.rows.first()?.row;
        self.counted().is_empty().then(|| (first.ending(), first.error.as_deref()))
    }

    fn bad_ends(&self) -> Vec<String> {
        let bad = self.rows.iter().map(|round| &round.row).filter(|row| row.throughput().is_none());
        let tell = |row: &RowRecord| {
            let round = row.round.map_or("a round".to_owned(), |round| format!("round {round}"));
            let error = row.error.as_ref().map_or(String::new(), |error| format!(": {error}"));
            format!("{round} {}{error}", row.ending())
        };
        bad.map(tell).collect()
    }

    fn other_states(&self) -> Option<String> {
        let well = self.rows.iter().filter(|round| round.row.throughput().is_some());
        let (all, other) = (well.clone().count(), well.filter(|round| !round.usual_state).count());
        match other {
            0 => None,
            other if other == all => {
                Some("not comparable: the machine changed, or was in another state than with the other rows".to_owned())
            }
            other => Some(format!("{other} of {all} rounds left out: the machine changed, or was in another state")),
        }
    }

    /// The reason for noise: as the summary says it, or derived from the rounds.
    fn noise(&self) -> Option<String> {
        let told =
            self.summary.as_ref().filter(|summary| summary.noisy == Some(true)).map(|summary| match &summary.why {
                None | Some(Value::Null) => "by the bench's own word".to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            });
        let spread = self.spread().filter(|spread| *spread > statistics::NOISY);
        let why = told.or_else(|| spread.map(|spread| format!("the rounds are {} apart", number::percent(spread))))?;
        Some(format!("noisy: {why}"))
    }
}
