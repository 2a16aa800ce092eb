//! What scans of a cell have lost since it was absorbed last, and whether that has paid (decision 14, "Price",
//! "Caution").

/// Caution at most.
const MOST_CAUTION: f64 = 64.0;
/// The part of the scans that there were at most, since it became pages or tables, with which a cell is cold.
const COLD: f64 = 0.25;
/// The weight of a scan by that of the next, in the mean of what one loses. Of all scans since the last adaptation it
/// would be far less than just before the next, if they began to lose with a burst of writes.
const KEPT: f64 = 255.0 / 256.0;
/// Scans below which a cell is not judged.
const FEW: f64 = 100.0;

/// Of one cell. Times are nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Account {
    /// Scans that began in it, which fade as waste does, and the most that there were.
    scans: f64,
    most_scans: f64,
    waste: f64,
    /// What they would have lost to pages, which fades as well.
    air: f64,
    /// The last scans, each of less weight than the next, and what they lost.
    last: (f64, f64),
    /// What one lost when they lost most, which fades.
    lost: f64,
    /// Scans since the last flush.
    lately: f64,
    /// How much dearer than its price an adaptation has to be.
    caution: f64,
    adapted: Option<Adapted>,
}

/// How the last absorption has paid.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Adapted {
    cost: f64,
    saved: f64,
    /// Whether nothing was left above it.
    is_whole: bool,
}

impl Adapted {
    /// Whether it has not.
    pub(super) fn has_failed(&self) -> bool {
        self.saved < self.cost / 2.0
    }

    /// Of two ranges, all together.
    pub(super) fn with(self, other: Adapted) -> Adapted {
        Adapted {
            cost: self.cost + other.cost,
            saved: self.saved + other.saved,
            is_whole: self.is_whole && other.is_whole,
        }
    }
}

impl Default for Account {
    fn default() -> Account {
        let (last, adapted) = ((0.0, 0.0), None);
        Account {
            scans: 0.0,
            most_scans: 0.0,
            waste: 0.0,
            air: 0.0,
            last,
            lost: 0.0,
            lately: 0.0,
            caution: 1.0,
            adapted,
        }
    }
}

impl Account {
    /// A scan has lost so much, and would have lost so much to pages.
    pub(super) fn scan(&mut self, (waste, air): (f64, f64)) {
        self.scans += 1.0;
        self.lately += 1.0;
        self.waste += waste;
        self.air += air;
        self.last = (self.last.0 * KEPT + 1.0, self.last.1 * KEPT + waste);
        if let Some(adapted) = &mut self.adapted {
            adapted.saved += (self.lost - waste).max(0.0);
        }
    }

    /// What was counted fades to this part.
    pub(super) fn fade(&mut self, part: f64) {
        self.most_scans = self.most_scans.max(self.scans);
        self.scans *= part;
        self.waste *= part;
        self.air *= part;
        self.lost = self.loses().max(self.lost * part);
    }

    /// What a scan loses now.
    fn loses(&self) -> f64 {
        let (scans, waste) = self.last;
        if scans > 0.0 { waste / scans } else { 0.0 }
    }

    /// What scans have lost.
    pub(super) fn waste(&self) -> f64 {
        self.waste
    }

    /// What they would have lost to pages.
    pub(super) fn air(&self) -> f64 {
        self.air
    }

    /// Scans that began in it.
    pub(super) fn scans(&self) -> f64 {
        self.scans
    }

    /// Scans that began in it since the last flush.
    pub(super) fn lately(&self) -> f64 {
        self.lately
    }

    /// A memtable is being flushed.
    pub(super) fn flush(&mut self) {
        self.lately = 0.0;
    }

    /// What is at stake before it is adapted again, as a multiple of the price.
    pub(super) fn caution(&self) -> f64 {
        // What is absorbed place by place saves nothing before the last one is.
        if self.adapted.as_ref().is_some_and(|adapted| !adapted.is_whole) { self.caution } else { self.judged() }
    }

    /// The caution that the last absorption teaches.
    fn judged(&self) -> f64 {
        match self.adapted.as_ref().map(Adapted::has_failed) {
            None => self.caution,
            Some(true) => (self.caution * 2.0).min(MOST_CAUTION),
            Some(false) => (self.caution / 2.0).max(1.0),
        }
    }

    /// Its last adaptation.
    pub(super) fn adapted(&self) -> Option<&Adapted> {
        self.adapted.as_ref()
    }

    /// Whether it was absorbed.
    pub(super) fn is_adapted(&self) -> bool {
        self.adapted.is_some()
    }

    /// It was absorbed, which cost so much, wholly or one place of several. These are one absorption.
    pub(super) fn adapt(&mut self, cost: f64, is_whole: bool) {
        self.caution = self.caution();
        self.lost = self.loses().max(self.lost);
        let begun = self.adapted.as_ref().filter(|adapted| !adapted.is_whole);
        let (paid, saved) = begun.map_or((0.0, 0.0), |adapted| (adapted.cost, adapted.saved));
        self.adapted = Some(Adapted { cost: paid + cost, saved, is_whole });
        (self.waste, self.air) = (0.0, 0.0);
        self.most_scans = self.scans;
    }

    /// Whether scans have left it.
    pub(super) fn is_cold(&self) -> bool {
        self.most_scans > FEW && self.scans < COLD * self.most_scans
    }

    /// It is in tables again.
    pub(super) fn leave(&mut self) {
        self.caution = self.judged();
        self.adapted = None;
        self.most_scans = self.scans;
    }

    /// Somebody has said what it is to be.
    pub(super) fn forget(&mut self) {
        *self = Account { scans: self.scans, most_scans: self.scans, ..Account::default() };
    }

    /// Leaves one half, and gives the other.
    pub(super) fn halve(&mut self) -> Account {
        self.scans /= 2.0;
        self.lately /= 2.0;
        self.most_scans /= 2.0;
        self.waste /= 2.0;
        self.air /= 2.0;
        self.last = (self.last.0 / 2.0, self.last.1 / 2.0);
        if let Some(Adapted { cost, saved, .. }) = &mut self.adapted {
            *cost /= 2.0;
            *saved /= 2.0;
        }
        self.clone()
    }

    /// Takes that of a neighbour, which is adapted as this one is.
    pub(super) fn join(&mut self, other: &Account) {
        self.scans += other.scans;
        self.lately += other.lately;
        self.most_scans += other.most_scans;
        self.waste += other.waste;
        self.air += other.air;
        self.last = (self.last.0 + other.last.0, self.last.1 + other.last.1);
        self.lost = self.lost.max(other.lost);
        self.caution = self.caution.max(other.caution);
        if let (Some(own), Some(other)) = (&self.adapted, &other.adapted) {
            self.adapted = Some(own.clone().with(other.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Absorbed once, after which scans lose as much.
    fn absorbed(scans: u32, waste: f64) -> Account {
        let mut account = Account::default();
        (0..10).for_each(|_| account.scan((100.0, 0.0)));
        account.adapt(1000.0, true);
        (0..scans).for_each(|_| account.scan((waste, 0.0)));
        account
    }

    #[test]
    fn who_is_adapted_in_vain_becomes_cautious_and_who_gains_by_it_bold() {
        let mut account = absorbed(1, 0.0);
        assert_eq!(account.caution(), 2.0);
        for times in [4.0, 8.0, 16.0, 32.0, 64.0, 64.0] {
            account.adapt(1000.0, true);
            assert_eq!(account.caution(), times);
        }
        (0..6).for_each(|_| account.scan((0.0, 0.0)));
        assert_eq!(account.caution(), 32.0);
        assert_eq!((absorbed(6, 0.0).caution(), absorbed(6, 90.0).caution()), (1.0, 2.0));
    }

    #[test]
    fn what_is_absorbed_place_by_place_is_judged_when_the_last_one_is() {
        let mut account = Account::default();
        (0..10).for_each(|_| account.scan((100.0, 0.0)));
        account.adapt(600.0, false);
        (0..5).for_each(|_| account.scan((100.0, 0.0)));
        assert_eq!((account.caution(), account.waste()), (1.0, 500.0));
        account.adapt(400.0, true);
        assert_eq!(account.caution(), 2.0, "of 1000 nothing is saved yet");
        (0..4).for_each(|_| account.scan((0.0, 0.0)));
        assert_eq!(account.caution(), 2.0);
        (0..2).for_each(|_| account.scan((0.0, 0.0)));
        assert_eq!(account.caution(), 1.0);
        account.adapt(600.0, false);
        account.leave();
        assert_eq!(account.caution(), 2.0, "it was in vain");
    }

    #[test]
    fn a_cell_that_scans_have_left_is_cold_as_soon_as_it_was_hot() {
        let mut account = absorbed(500, 0.0);
        assert!(!account.is_cold());
        account.fade(0.5);
        assert!(!account.is_cold());
        account.fade(0.4);
        assert!(account.is_cold());
        account.leave();
        assert!(!account.is_cold() && !account.is_adapted());
        let mut rare = absorbed(50, 0.0);
        rare.fade(0.01);
        assert!(!rare.is_cold());
    }

    #[test]
    fn two_halves_are_the_whole() {
        let mut account = absorbed(20, 30.0);
        let before = account.clone();
        let half = account.halve();
        account.join(&half);
        assert_eq!(account, before);
    }
}
