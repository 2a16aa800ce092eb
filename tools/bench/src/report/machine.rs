//! The state of the machine while a row was measured. A shared machine can be nearly half as fast at another time, so
//! rows from different states do not compare stores.

use crate::{
    row::record::{MachineSpeed, RowRecord},
    statistics,
};

/// Stolen time is mentioned above this fraction of the processors' time.
const STOLEN: f64 = 0.05;

/// The state shared by most rows of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usual {
    loop_ns: Option<f64>,
    disk_reads_per_second: Option<f64>,
}

impl Usual {
    /// Takes the medians over rows.
    pub(crate) fn of<'a>(rows: impl Iterator<Item = &'a RowRecord> + Clone) -> Self {
        let over = |value: fn(&MachineSpeed) -> Option<f64>| {
            statistics::lower_median(rows.clone().flat_map(speeds).filter_map(value))
        };
        Usual { loop_ns: over(|speed| speed.loop_ns), disk_reads_per_second: over(|speed| speed.disk_reads_per_second) }
    }

    /// Whether a row is comparable with the others: the known states before and after it are the usual state.
    pub(crate) fn holds(&self, row: &RowRecord) -> bool {
        speeds(row).all(|speed| {
            near(speed.loop_ns, self.loop_ns) && near(speed.disk_reads_per_second, self.disk_reads_per_second)
        })
    }
}

fn near(one: Option<f64>, other: Option<f64>) -> bool {
    one.zip(other).is_none_or(|(one, other)| statistics::are_alike(one, other))
}

/// The known states before and after a row.
pub(crate) fn speeds(row: &RowRecord) -> impl Iterator<Item = &MachineSpeed> {
    row.machine.iter().flat_map(|machine| machine.before.iter().chain(machine.after.iter()))
}

/// The fraction of the processors' time that other guests took during a row, if above the threshold.
pub(crate) fn stolen(row: &RowRecord) -> Option<f64> {
    let speed = row.machine.as_ref()?.after.as_ref()?;
    speed.stolen.filter(|stolen| *stolen > STOLEN)
}
