//! Per-cell scan cost, and the outcome of the last conversion. A conversion that did not pay back doubles the back-off
//! of the cell: the next one has to be worth more. One that paid back halves it (adaptive.md, "Cost model" and
//! "Back-off").

/// Maximum back-off.
const MAX_BACKOFF: f64 = 64.0;
/// A cell is cold if its scans are below this share of their peak since it became pages or tables.
const COLD: f64 = 0.25;
/// Weight of a scan relative to the next one, in the mean cost of recent scans. The mean of all scans since the last
/// conversion would be far below the cost just before the next conversion, if scans began to lose with a burst of
/// writes.
const RECENT_WEIGHT: f64 = 255.0 / 256.0;

/// Statistics of one cell. Times are nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CellStats {
    /// Scans that began in the cell, which fade as the read cost does, and their peak.
    scans: f64,
    peak_scans: f64,
    read_cost: f64,
    /// What the scans would have lost to pages, which fades as well.
    page_overhead: f64,
    /// Weighted number and read cost of the recent scans.
    recent: (f64, f64),
    /// Highest mean cost of a scan, which fades.
    peak_cost_per_scan: f64,
    /// Scans since the last flush.
    scans_since_flush: f64,
    /// Factor on the cost of the next conversion.
    backoff: f64,
    last_conversion: Option<LastConversion>,
}

/// Cost of the last conversion, and what scans have saved since.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LastConversion {
    cost: f64,
    saved: f64,
    /// Whether it converted all runs and levels.
    is_whole: bool,
}

impl LastConversion {
    /// Whether scans have saved less than half of the cost.
    pub(super) fn did_not_pay_back(&self) -> bool {
        self.saved < self.cost / 2.0
    }

    /// The sum for two ranges.
    pub(super) fn with(self, other: LastConversion) -> LastConversion {
        LastConversion {
            cost: self.cost + other.cost,
            saved: self.saved + other.saved,
            is_whole: self.is_whole && other.is_whole,
        }
    }
}

impl Default for CellStats {
    fn default() -> CellStats {
        let (recent, last_conversion) = ((0.0, 0.0), None);
        CellStats {
            scans: 0.0,
            peak_scans: 0.0,
            read_cost: 0.0,
            page_overhead: 0.0,
            recent,
            peak_cost_per_scan: 0.0,
            scans_since_flush: 0.0,
            backoff: 1.0,
            last_conversion,
        }
    }
}

impl CellStats {
    /// Records a scan: what it lost, and what it would have lost to pages.
    pub(super) fn scan(&mut self, (read_cost, page_overhead): (f64, f64)) {
        self.scans += 1.0;
        self.scans_since_flush += 1.0;
        self.read_cost += read_cost;
        self.page_overhead += page_overhead;
        self.recent = (self.recent.0 * RECENT_WEIGHT + 1.0, self.recent.1 * RECENT_WEIGHT + read_cost);
        if let Some(last_conversion) = &mut self.last_conversion {
            last_conversion.saved += (self.peak_cost_per_scan - read_cost).max(0.0);
        }
    }

    /// Fades the statistics to this share.
    pub(super) fn fade(&mut self, part: f64) {
        self.peak_scans = self.peak_scans.max(self.scans);
        self.scans *= part;
        self.read_cost *= part;
        self.page_overhead *= part;
        self.peak_cost_per_scan = self.cost_per_scan().max(self.peak_cost_per_scan * part);
    }

    /// Mean cost of a recent scan.
    fn cost_per_scan(&self) -> f64 {
        let (scans, read_cost) = self.recent;
        if scans > 0.0 { read_cost / scans } else { 0.0 }
    }

    /// What scans have lost, faded.
    pub(super) fn read_cost(&self) -> f64 {
        self.read_cost
    }

    /// What scans would have lost to pages, faded.
    pub(super) fn page_overhead(&self) -> f64 {
        self.page_overhead
    }

    /// Scans that began in the cell, faded.
    pub(super) fn scans(&self) -> f64 {
        self.scans
    }

    /// Scans that began in the cell since the last flush.
    pub(super) fn scans_since_flush(&self) -> f64 {
        self.scans_since_flush
    }

    /// A memtable is being flushed.
    pub(super) fn flush(&mut self) {
        self.scans_since_flush = 0.0;
    }

    /// Factor on the cost of the next conversion.
    pub(super) fn backoff(&self) -> f64 {
        // A conversion by single runs and levels saves nothing before the last step.
        if self.last_conversion.as_ref().is_some_and(|last_conversion| !last_conversion.is_whole) {
            self.backoff
        } else {
            self.updated_backoff()
        }
    }

    /// The back-off after the outcome of the last conversion.
    fn updated_backoff(&self) -> f64 {
        match self.last_conversion.as_ref().map(LastConversion::did_not_pay_back) {
            None => self.backoff,
            Some(true) => (self.backoff * 2.0).min(MAX_BACKOFF),
            Some(false) => (self.backoff / 2.0).max(1.0),
        }
    }

    /// The last conversion.
    pub(super) fn last_conversion(&self) -> Option<&LastConversion> {
        self.last_conversion.as_ref()
    }

    /// Whether the cell was converted.
    pub(super) fn was_converted(&self) -> bool {
        self.last_conversion.is_some()
    }

    /// Records a conversion at this cost. Steps that take one run or level each are one conversion, which ends with a
    /// step that is whole.
    pub(super) fn convert(&mut self, cost: f64, is_whole: bool) {
        self.backoff = self.backoff();
        self.peak_cost_per_scan = self.cost_per_scan().max(self.peak_cost_per_scan);
        let begun = self.last_conversion.as_ref().filter(|last_conversion| !last_conversion.is_whole);
        let (paid, saved) = begun.map_or((0.0, 0.0), |last_conversion| (last_conversion.cost, last_conversion.saved));
        self.last_conversion = Some(LastConversion { cost: paid + cost, saved, is_whole });
        (self.read_cost, self.page_overhead) = (0.0, 0.0);
        self.peak_scans = self.scans;
    }

    /// Whether it has far fewer scans than at its peak.
    pub(super) fn has_fallen(&self) -> bool {
        self.scans < COLD * self.peak_scans
    }

    /// The most scans that it had at a time.
    pub(super) fn peak_scans(&self) -> f64 {
        self.peak_scans
    }

    /// The cell is in tables again.
    pub(super) fn leave(&mut self) {
        self.backoff = self.updated_backoff();
        self.last_conversion = None;
        self.peak_scans = self.scans;
    }

    /// A hint was given for the cell: its statistics start again, but for the scans.
    pub(super) fn forget(&mut self) {
        *self = CellStats { scans: self.scans, peak_scans: self.scans, ..CellStats::default() };
    }

    /// Keeps one half of the statistics and returns the other.
    pub(super) fn split_half(&mut self) -> CellStats {
        self.scans /= 2.0;
        self.scans_since_flush /= 2.0;
        self.peak_scans /= 2.0;
        self.read_cost /= 2.0;
        self.page_overhead /= 2.0;
        self.recent = (self.recent.0 / 2.0, self.recent.1 / 2.0);
        if let Some(LastConversion { cost, saved, .. }) = &mut self.last_conversion {
            *cost /= 2.0;
            *saved /= 2.0;
        }
        self.clone()
    }

    /// Adds the statistics of a neighbour that has the same form.
    pub(super) fn join(&mut self, other: &CellStats) {
        self.scans += other.scans;
        self.scans_since_flush += other.scans_since_flush;
        self.peak_scans += other.peak_scans;
        self.read_cost += other.read_cost;
        self.page_overhead += other.page_overhead;
        self.recent = (self.recent.0 + other.recent.0, self.recent.1 + other.recent.1);
        self.peak_cost_per_scan = self.peak_cost_per_scan.max(other.peak_cost_per_scan);
        self.backoff = self.backoff.max(other.backoff);
        if let (Some(own), Some(other)) = (&self.last_conversion, &other.last_conversion) {
            self.last_conversion = Some(own.clone().with(other.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converted once; then so many scans lose this much each.
    fn converted(scans: u32, read_cost: f64) -> CellStats {
        let mut account = CellStats::default();
        (0..10).for_each(|_| account.scan((100.0, 0.0)));
        account.convert(1000.0, true);
        (0..scans).for_each(|_| account.scan((read_cost, 0.0)));
        account
    }

    #[test]
    fn who_is_adapted_in_vain_becomes_cautious_and_who_gains_by_it_bold() {
        let mut account = converted(1, 0.0);
        assert_eq!(account.backoff(), 2.0);
        for times in [4.0, 8.0, 16.0, 32.0, 64.0, 64.0] {
            account.convert(1000.0, true);
            assert_eq!(account.backoff(), times);
        }
        (0..6).for_each(|_| account.scan((0.0, 0.0)));
        assert_eq!(account.backoff(), 32.0);
        assert_eq!((converted(6, 0.0).backoff(), converted(6, 90.0).backoff()), (1.0, 2.0));
    }

    #[test]
    fn what_is_converted_place_by_place_is_judged_when_the_last_one_is() {
        let mut account = CellStats::default();
        (0..10).for_each(|_| account.scan((100.0, 0.0)));
        account.convert(600.0, false);
        (0..5).for_each(|_| account.scan((100.0, 0.0)));
        assert_eq!((account.backoff(), account.read_cost()), (1.0, 500.0));
        account.convert(400.0, true);
        assert_eq!(account.backoff(), 2.0, "of 1000 nothing is saved yet");
        (0..4).for_each(|_| account.scan((0.0, 0.0)));
        assert_eq!(account.backoff(), 2.0);
        (0..2).for_each(|_| account.scan((0.0, 0.0)));
        assert_eq!(account.backoff(), 1.0);
        account.convert(600.0, false);
        account.leave();
        assert_eq!(account.backoff(), 2.0, "it was in vain");
    }

    #[test]
    fn a_cell_that_scans_have_left_has_fallen_once_it_was_hot() {
        let mut account = converted(500, 0.0);
        assert!(!account.has_fallen());
        account.fade(0.5);
        assert!(!account.has_fallen());
        account.fade(0.4);
        assert!(account.has_fallen());
        account.leave();
        assert!(!account.has_fallen() && !account.was_converted());
    }

    #[test]
    fn two_halves_are_the_whole() {
        let mut account = converted(20, 30.0);
        let before = account.clone();
        let half = account.split_half();
        account.join(&half);
        assert_eq!(account, before);
    }
}
