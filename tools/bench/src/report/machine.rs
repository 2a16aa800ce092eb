//! In which state the machine was while a row was measured. Machines shared with others are fast at one time and nearly
//! half as fast at another, and rows from different states say nothing about stores.

use super::record::{Pace, Row};
use crate::statistics;

/// Stolen time above this part of the processors' time is mentioned.
const STOLEN: f64 = 0.05;

/// The state that most rows of a group share.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usual {
    loop_ns: Option<f64>,
    disk_reads_per_second: Option<f64>,
}

impl Usual {
    /// The medians over rows.
    pub(crate) fn of<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Self {
        let over =
            |value: fn(&Pace) -> Option<f64>| statistics::lower_median(rows.clone().flat_map(paces).filter_map(value));
        Usual { loop_ns: over(|pace| pace.loop_ns), disk_reads_per_second: over(|pace| pace.disk_reads_per_second) }
    }

    /// Whether a row can be compared with the others: the machine was in the usual state before and after, as far as is
    /// known.
    pub(crate) fn holds(&self, row: &Row) -> bool {
        paces(row).all(|pace| {
            near(pace.loop_ns, self.loop_ns) && near(pace.disk_reads_per_second, self.disk_reads_per_second)
        })
    }
}

fn near(one: Option<f64>, other: Option<f64>) -> bool {
    one.zip(other).is_none_or(|(one, other)| statistics::are_alike(one, other))
}

/// The states before and after a row, as far as they are known.
pub(crate) fn paces(row: &Row) -> impl Iterator<Item = &Pace> {
    row.machine.iter().flat_map(|machine| machine.before.iter().chain(machine.after.iter()))
}

/// The part of the processors' time that others took during a row, if it is worth a word.
pub(crate) fn stolen(row: &Row) -> Option<f64> {
    let pace = row.machine.as_ref()?.after.as_ref()?;
    pace.stolen.filter(|stolen| *stolen > STOLEN)
}
