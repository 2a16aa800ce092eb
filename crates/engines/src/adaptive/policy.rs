//! What is worth adapting: which range becomes pages or one run, and which tables again (decision 14, "Price",
//! "Caution", "Hints", "Idle", "Going back").

use std::cell::OnceCell;

use super::{
    heat::{Heat, Stretch},
    hints::Hints,
    part::Part,
    price::{self, PIECE, Prices},
    task::{Kind, Reason, Task},
};
use crate::{
    engine::Hint,
    lsm::{Split, base::Counted, records::Lsm, structure::Cover},
};

/// The part of the price of a range for which what lies between it and other pages goes along.
const GAP: f64 = 1.0 / 4.0;
/// What is left of one scan after as long as the heat remembers.
const RECENT: f64 = 0.36;

/// What is known of a keyspace: what scans have lost where, what work costs, and what somebody has said.
#[derive(Debug, Clone, Default)]
pub(super) struct Policy {
    pub(super) heat: Heat,
    pub(super) prices: Prices,
    pub(super) hints: Hints,
    /// Whether nobody has used it for some time.
    pub(super) is_idle: bool,
}

impl Policy {
    /// What is worth adapting, if anything is. Nothing becomes cold since nobody uses the keyspace at all.
    pub(super) fn choose(&self, lsm: &Lsm, split: Split, budget: u64) -> Option<Task> {
        let ends = lsm.ends()?;
        let fits = OnceCell::new();
        let fits = || *fits.get_or_init(|| price::fit_as_run(self.hot_bytes(lsm, &ends, budget), budget));
        let price = |lower: &[u8], upper: Option<&[u8]>| {
            let (lower, upper) = clip(&ends, lower, upper)?;
            if !self.may_be_pages(&lower, &upper) {
                return None;
            }
            let parts = Part::of(lsm, split, &fits, (lower, upper));
            (!parts.is_empty()).then(|| parts.iter().map(|part| self.price(part)).sum())
        };
        let gathered = |(lower, upper): Stretch| {
            let (lower, upper) = clip(&ends, &lower, upper.as_deref())?;
            Part::of(lsm, split, &fits, (lower, upper)).into_iter().find_map(|part| self.gather(lsm, split, part))
        };
        if let Some(task) = self.heat.candidates(PIECE, price).find_map(gathered) {
            return Some(task);
        }
        if self.is_idle {
            return lsm.is_idle().then(|| self.staged(lsm, split)).flatten();
        }
        let version = lsm.version();
        let is_covered = |lower: &[u8], upper: &[u8]| {
            version.covers().iter().map(Cover::bounds).any(|(from, to)| from < upper && lower < to)
        };
        let uncovered = |(lower, upper): Stretch| {
            let (lower, upper) = clip(&ends, &lower, upper.as_deref())?;
            let mut parts = self.hints.parts(&lower, &upper).into_iter().filter(|(.., hint)| *hint != Hint::ReadMostly);
            let (lower, upper, _) = parts.find(|(lower, upper, _)| is_covered(lower, upper))?;
            Some(Task::new(Kind::Uncover, Reason::Cold, lower.to_vec(), upper.to_vec()))
        };
        self.heat.cold().find_map(uncovered)
    }

    /// Where what is hot begins and ends, ascending.
    pub(super) fn hot_bounds(&self, lsm: &Lsm, budget: u64) -> Vec<Vec<u8>> {
        lsm.ends().map_or_else(Vec::new, |ends| self.heat.hot_bounds(bytes_of(lsm, &ends, budget)))
    }

    /// What was done has a price, and what it is of is judged anew.
    pub(super) fn learn(&mut self, task: &Task) {
        match task.kind {
            // Nobody has paid for it.
            Kind::Absorb if task.reason == Reason::Idle => {}
            kind @ (Kind::Absorb | Kind::Merge) => {
                if task.touched() > 0.0 && !task.is_given_up {
                    self.prices.learn(kind, task.touched(), task.worked);
                }
                self.heat.absorbed(&task.lower, &task.upper, (task.worked as f64, task.above == 0));
            }
            Kind::Uncover if task.is_given_up => self.heat.stays(&task.lower, &task.upper),
            Kind::Uncover => self.heat.uncovered(&task.lower, &task.upper),
        }
    }

    /// Whether nobody has said that some of a range is to be tables.
    fn may_be_pages(&self, lower: &[u8], upper: &[u8]) -> bool {
        self.hints.parts(lower, upper).iter().all(|(.., hint)| *hint != Hint::WriteMostly)
    }

    /// While nobody uses the keyspace: the range that would be pages alone with the least work, of those that are in
    /// part and that scans came to, or whose pages keep what was deleted.
    fn staged(&self, lsm: &Lsm, split: Split) -> Option<Task> {
        let version = lsm.version();
        let is_wanted = |(lower, upper): &(&[u8], &[u8])| {
            let is_wanted = self.heat.of(lower, upper).0 >= RECENT || version.is_mostly_deleted((lower, upper));
            is_wanted && self.may_be_pages(lower, upper)
        };
        let covers = version.covers().iter().map(Cover::bounds).filter(is_wanted);
        let counted = covers.map(|bounds| (price::touched(&lsm.counted_by(split, bounds.0, bounds.1)), bounds));
        let staged = counted.filter(|(bytes, _)| *bytes > 0.0);
        let (bytes, (lower, upper)) = staged.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        Some(Task::absorb(lsm, split, Reason::Idle, (lower.to_vec(), upper.to_vec()), bytes))
    }

    /// How a part of a range comes to be in one place: as one run of tables where it may be that and was not written
    /// too soon the last time; else as pages.
    fn kind_for(&self, part: &Part) -> Kind {
        if part.may_be_run && !self.heat.has_failed(&part.lower, &part.upper) { Kind::Merge } else { Kind::Absorb }
    }

    /// What it costs, in nanoseconds.
    fn price(&self, part: &Part) -> f64 {
        self.prices.of(self.kind_for(part)).of(price::touched(&part.counted))
    }

    /// Has a part of a range in one place for scans, if they have paid for its pages, or for about what it is as one
    /// run if it is to be that. Then it is merged if they have paid for all that is read for that, too. What is one run
    /// but for a little stays that.
    fn gather(&self, lsm: &Lsm, split: Split, part: Part) -> Option<Task> {
        let (kind, price) = (self.kind_for(&part), self.price(&part));
        let Part { lower, upper, counted, may_be_run } = part;
        let is_one_run = may_be_run && !price::has_news(&lsm.counted(&lower, &upper));
        let pays = match kind {
            Kind::Absorb => self.heat.pays_for_pages(&lower, &upper, (price, PIECE)),
            _ => self.heat.pays(&lower, &upper, (price, PIECE)),
        };
        if is_one_run || !pays {
            return None;
        }
        if kind == Kind::Absorb {
            let (lower, upper) = self.joined(lsm, split, (lower, upper), &counted);
            let bytes = price::touched(&lsm.counted_by(split, &lower, &upper));
            return Some(Task::absorb(lsm, split, Reason::Scans, (lower, upper), bytes));
        }
        let plan = lsm.plan_merge((&lower, &upper))?;
        let price = self.prices.of(Kind::Merge).of(plan.bytes as f64);
        self.heat.pays(&lower, &upper, (price, PIECE)).then(|| Task::merge((lower, upper), plan))
    }

    /// A range that becomes pages, of which so much counts, and what lies between it and those beside it if that is
    /// cheap: a scan that passes over it would begin anew behind it.
    fn joined(
        &self,
        lsm: &Lsm,
        split: Split,
        (lower, upper): (Vec<u8>, Vec<u8>),
        counted: &Counted,
    ) -> (Vec<u8>, Vec<u8>) {
        let (version, price) =
            (lsm.version(), |counted: &Counted| self.prices.of(Kind::Absorb).of(price::touched(counted)));
        let most = GAP * (price(counted) + PIECE);
        let is_cheap = |from: &[u8], to: &[u8]| {
            from < to && self.may_be_pages(from, to) && price(&lsm.counted_by(split, from, to)) <= most
        };
        let bounds = || version.covers().iter().map(Cover::bounds);
        let before = bounds().filter(|(begin, _)| *begin < &lower[..]).last();
        let behind = bounds().find(|(_, end)| *end > &upper[..]);
        let from = before.map(|(_, end)| end).filter(|end| is_cheap(end, &lower)).map(<[u8]>::to_vec);
        let to = behind.map(|(begin, _)| begin).filter(|begin| is_cheap(&upper, begin)).map(<[u8]>::to_vec);
        (from.unwrap_or(lower), to.unwrap_or(upper))
    }

    /// Bytes that would be left of what nearly all scans read if of each part there were what the place has that has
    /// most of it. More than the budget is more than fits.
    fn hot_bytes(&self, lsm: &Lsm, ends: &(Vec<u8>, Vec<u8>), budget: u64) -> u64 {
        self.heat.hot_bytes(bytes_of(lsm, ends, budget))
    }
}

/// Tells bytes of what there is of a range if of each part there were what the place has that has most of it; of pages
/// no more than a budget fits twice.
fn bytes_of(lsm: &Lsm, ends: &(Vec<u8>, Vec<u8>), budget: u64) -> impl Fn(Stretch) -> u64 {
    move |(lower, upper)| {
        clip(ends, &lower, upper.as_deref()).map_or(0, |(lower, upper)| lsm.largest(&lower, &upper, 2 * budget))
    }
}

/// What there is of a range between the ends of all keys, if anything.
pub(super) fn clip(
    (first, end): &(Vec<u8>, Vec<u8>),
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let (lower, upper) = (lower.max(first), upper.map_or(&**end, |upper| upper.min(end)));
    (lower < upper).then(|| (lower.to_vec(), upper.to_vec()))
}
