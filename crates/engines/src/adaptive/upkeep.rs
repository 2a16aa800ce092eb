//! Adapting by itself: which range becomes pages next, or tables again, and at what rate (decision 14, "Price", "Rate", "Hints"). One job, a piece at a time.

use std::{
    cell::OnceCell,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use ecotone_substrate::{Error, Result, Seq, metrics::Counter, scheduler::Priority, single::Single};
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use super::{
    heat::{Heat, Stretch},
    hints::{Hints, bounds},
    insert,
    part::Part,
    price::{self, PIECE, Prices},
    task::{Kind, Reason, Task},
};
use crate::{
    engine::{Hint, Range, RangeShape, Shared},
    lsm::{
        Split,
        base::{Counted, Offer, Passage},
        keyspace::LsmKeyspace,
        records::Lsm,
        structure::Cover,
    },
};

/// Nanoseconds of use after which it is looked what is to be done: not many of a phase of seconds.
const TICK: u64 = 100_000_000;
/// How many times as long as it took of a processor to choose what is worth adapting it is not chosen again: that walks over all that scans come to, which may be much.
const SELDOM: u64 = 32;
/// Nanoseconds without a write after which a memtable rests: for good, as it seems, or for long enough where a range is to be absorbed, which is not to get more soon.
const RESTS: u64 = 1_000_000_000;
const RESTS_TO_ABSORB: u64 = TICK;
/// Nanoseconds after which one who rests looks whether he still may, and that he rests after a piece at most.
const STEP: u64 = 10_000_000;
const LONGEST: u64 = 1_000_000_000;

/// Nanoseconds after which it is tried again what somebody asked for and there was no room for.
const PUT_OFF: u64 = 60_000_000_000;

/// What adapts one keyspace.
#[derive(Debug)]
pub(super) struct Upkeep {
    shared: Shared,
    /// Percent of the time in which it works at most, without what it waits for a processor; 0 for never by itself.
    share: u8,
    /// What becomes pages of a range in one adaptation.
    split: Split,
    keyspace: OnceLock<Weak<LsmKeyspace>>,
    ticked_at: AtomicU64,
    state: Mutex<State>,
    job: Single,
    absorbed: Counter,
    merged: Counter,
    uncovered: Counter,
    given_up: Counter,
}

#[derive(Debug, Default)]
struct State {
    heat: Heat,
    /// Where what is hot begins and ends. None until somebody asks after a look.
    guards: Option<Vec<Vec<u8>>>,
    prices: Prices,
    hints: Hints,
    /// What somebody asked for, and what is under way or comes next by itself.
    asked: Vec<Task>,
    task: Option<Task>,
    /// What a piece is made of just now, as it was before; none if it is not to go on.
    under_way: Option<Task>,
    /// When it is chosen again what comes next by itself.
    chosen_until: u64,
    /// Whether nobody has used the keyspace for some time.
    is_idle: bool,
    /// What was done, the last few.
    done: Vec<Task>,
    /// Records that were written to the active memtable when it was looked last, and since when there were no more of them, as far as was looked.
    written: u64,
    rests_since: u64,
}

/// The part of the price of a range for which what lies between it and other pages goes along.
const GAP: f64 = 1.0 / 4.0;
/// What is left of one scan after as long as the heat remembers.
const RECENT: f64 = 0.36;
/// Tasks that are remembered when they are done.
const REMEMBERED: usize = 64;

impl Upkeep {
    /// Of a keyspace that [`begin`](Self::begin) tells, at work for so many percent of the time at most.
    pub(super) fn new(shared: &Shared, share: u8, split: Split) -> Arc<Upkeep> {
        let (shared, ticked_at) = (shared.clone(), AtomicU64::new(shared.clock.now()));
        let (keyspace, state, job) = (OnceLock::new(), Mutex::new(State::default()), Single::default());
        let [absorbed, merged, uncovered, given_up] = [(); 4].map(|()| Counter::default());
        Arc::new(Upkeep { shared, share, split, keyspace, ticked_at, state, job, absorbed, merged, uncovered, given_up })
    }

    /// Says what is adapted.
    pub(super) fn begin(&self, keyspace: &Arc<LsmKeyspace>) {
        self.keyspace.set(Arc::downgrade(keyspace)).expect("it adapts one keyspace");
    }

    /// A scan has gone through a stretch. Who comes while another counts is not counted.
    pub(super) fn passed(self: &Arc<Self>, passage: &Passage<'_>) {
        let Some(mut state) = self.state.try_lock() else { return };
        if self.share > 0 {
            state.is_idle = false;
            state.heat.note(passage.from, price::waste(passage));
        } else if state.asked.is_empty() {
            return;
        }
        drop(state);
        let (now, before) = (self.shared.clock.now(), self.ticked_at.load(Ordering::Relaxed));
        if now.saturating_sub(before) >= TICK {
            self.ticked_at.store(now, Ordering::Relaxed);
            self.call();
        }
    }

    /// Nobody uses the keyspace: what was worth absorbing while somebody did still is, and what is pages in part may be so wholly.
    pub(super) fn rests(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_idle = self.share > 0;
        if self.share > 0 || !state.asked.is_empty() {
            drop(state);
            self.call();
        }
    }

    /// A memtable is flushed: what was put off may be due, also where there are no scans.
    pub(super) fn flushes(self: &Arc<Self>) {
        let is_asked = !self.state.lock().asked.is_empty();
        if is_asked {
            self.call();
        }
    }

    /// Of ranges that are pages alone, those that get at once what a flush has of them.
    pub(super) fn divert(&self, mut offers: Vec<Offer>) -> Vec<Offer> {
        let mut state = self.state.lock();
        let State { heat, prices, hints, .. } = &mut *state;
        offers.retain(|Offer { lower, upper, counted }| {
            let cost = prices.of(Kind::Absorb).of(price::touched(counted)) + PIECE;
            insert::pays(hints.of(lower, upper), heat.lately(lower, upper), cost)
        });
        heat.flushed();
        offers
    }

    /// Where what is hot begins and ends, ascending.
    pub(super) fn guards(&self) -> Vec<Vec<u8>> {
        let Some(keyspace) = self.keyspace.get().and_then(Weak::upgrade) else { return Vec::new() };
        let (lsm, budget) = (keyspace.lsm(), self.shared.memory.budget() as u64);
        let State { heat, guards, .. } = &mut *self.state.lock();
        let found = || lsm.ends().map_or_else(Vec::new, |ends| heat.hot_bounds(bytes_of(lsm, &ends, budget)));
        guards.get_or_insert_with(found).clone()
    }

    /// A random number.
    pub(super) fn chance(&self) -> u64 {
        self.shared.clock.random()
    }

    /// Somebody knows how a range will be used.
    ///
    /// # Errors
    /// If there are too many hints.
    pub(super) fn hint(self: &Arc<Self>, lsm: &Lsm, range: &Range, hint: Hint) -> Result<()> {
        let (lower, upper) = bounds(range);
        if upper.as_ref().is_some_and(|upper| *upper <= lower) {
            return Ok(());
        }
        let mut state = self.state.lock();
        state.hints.set(lower.clone(), upper.clone(), hint)?;
        state.forget_tasks(&lower, upper.as_deref());
        let clipped = lsm.ends().and_then(|ends| clip(&ends, &lower, upper.as_deref()));
        let Some((lower, upper)) = clipped else { return Ok(()) };
        state.heat.forget(&lower, &upper);
        state.asked.push(match hint {
            Hint::ReadMostly => Task::absorb(lsm, self.split, Reason::Hint, (lower, upper), 0.0),
            Hint::WriteMostly => Task::new(Kind::Uncover, Reason::Hint, lower, upper),
            Hint::Auto => return Ok(()),
        });
        drop(state);
        self.call();
        Ok(())
    }

    fn call(self: &Arc<Self>) {
        if self.job.call() {
            self.schedule();
        }
    }

    fn schedule(self: &Arc<Self>) {
        let upkeep = Arc::downgrade(self);
        self.shared.scheduler.spawn(Priority::Idle, "adapt ranges of keys", move || {
            let Some(upkeep) = upkeep.upgrade() else { return };
            upkeep.job.begin();
            match upkeep.step() {
                // One after the other, so that what is more urgent comes between.
                Ok(true) => upkeep.call(),
                // It was dropped.
                Ok(false) | Err(Error::Closed { .. }) => {}
                Err(error) => drop(upkeep.shared.health.poison(error)),
            }
            if upkeep.job.end() {
                upkeep.schedule();
            }
        });
    }

    /// Adapts a piece of what comes next, and rests. False if there is nothing to adapt.
    fn step(&self) -> Result<bool> {
        let Some(keyspace) = self.keyspace.get().and_then(Weak::upgrade) else { return Ok(false) };
        keyspace.check_live()?;
        if self.flush_what_rests(keyspace.lsm(), RESTS)? {
            return Ok(false);
        }
        let Some(mut task) = self.next(keyspace.lsm()) else { return Ok(false) };
        if task.is_new && task.reason == Reason::Scans && self.flush_what_rests(keyspace.lsm(), RESTS_TO_ABSORB)? {
            // It is chosen again, with what comes of that.
            self.state.lock().under_way = None;
            return Ok(false);
        }
        let (ended, worked) = task.step(keyspace.lsm(), self.split, || self.shared.clock.now());
        match ended {
            Ok(()) => self.count(task.kind),
            Err(error) if error.is_shortage() || matches!(error, Error::Limit { .. }) => {
                self.given_up.increment();
                keyspace.lsm().idle_later();
                if task.reason == Reason::Hint {
                    task.not_before = self.shared.clock.now() + PUT_OFF;
                } else {
                    // As if it had been done, so that it has to lose its price again before it is tried again.
                    task.give_up();
                }
            }
            Err(error) => return Err(error),
        }
        // Who asked for it has said that it pays.
        let owed = if task.reason == Reason::Hint { 0 } else { self.owed(worked) };
        self.put_back(task);
        self.rest(owed);
        Ok(true)
    }

    fn count(&self, kind: Kind) {
        match kind {
            Kind::Absorb => self.absorbed.increment(),
            Kind::Merge => self.merged.increment(),
            Kind::Uncover => self.uncovered.increment(),
        }
    }

    /// Has a memtable flushed that nobody has written to for so long, so that scans need not merge it and it can be absorbed. Where there are no scans it stays. Whether
    /// there was one.
    fn flush_what_rests(&self, lsm: &Arc<Lsm>, rests: u64) -> Result<bool> {
        let (written, now, mut state) = (lsm.written(), self.shared.clock.now(), self.state.lock());
        if written != state.written {
            (state.written, state.rests_since) = (written, now);
        }
        let rests = !state.is_idle && written > 0 && now.saturating_sub(state.rests_since) >= rests;
        if rests {
            // What comes next is another memtable, which may have as many records.
            state.written = 0;
        }
        drop(state);
        if rests {
            lsm.begin_flush(Seq::MAX)?;
        }
        Ok(rests)
    }

    /// What comes next: what somebody asked for, what is under way, or what scans pay for.
    fn next(&self, lsm: &Lsm) -> Option<Task> {
        let (now, mut state) = (self.shared.clock.now(), self.state.lock());
        let due = state.asked.iter().position(|task| task.not_before <= now);
        state.under_way = due.map(|task| state.asked.remove(task)).or_else(|| {
            state.heat.tick(now);
            state.guards = None;
            state.task.take().or_else(|| {
                let is_late = lsm.behind() > 0.0 || lsm.others_wait() || now < state.chosen_until;
                if is_late || self.share == 0 { None } else { self.choose(&mut state, lsm) }
            })
        });
        state.under_way.clone()
    }

    /// What scans pay for, if anything. It is not chosen again too soon.
    fn choose(&self, state: &mut State, lsm: &Lsm) -> Option<Task> {
        let begun = self.shared.clock.processor();
        let task = state.choose(lsm, self.split, self.shared.memory.budget() as u64);
        let took = self.shared.clock.processor().saturating_sub(begun);
        state.chosen_until = self.shared.clock.now() + SELDOM * took;
        task
    }

    /// What was not done wholly goes on, if nobody has said otherwise; of what was, the price is learnt.
    fn put_back(&self, task: Task) {
        let mut state = self.state.lock();
        let goes_on = state.under_way.take().is_some();
        if task.is_done() {
            state.learn(task);
        } else if goes_on && task.reason == Reason::Hint {
            state.asked.insert(0, task);
        } else if goes_on {
            state.task = Some(task);
        }
    }

    /// How long it rests after so long at work.
    fn owed(&self, worked: u64) -> u64 {
        let share = u64::from(self.share.clamp(1, 100));
        (worked.saturating_mul(100 - share) / share).min(LONGEST)
    }

    fn rest(&self, mut owed: u64) {
        while owed > 0 && self.shared.scheduler.is_threaded() && !self.shared.scheduler.is_stopping() {
            let step = owed.min(STEP);
            self.shared.clock.sleep(Duration::from_nanos(step));
            owed -= step;
        }
    }

    /// Ranges that are no tables, or are to be pages or tables.
    pub(super) fn shapes(&self, lsm: &Lsm) -> Vec<RangeShape> {
        // What there is of them is counted without the lock, which scans and flushes want.
        let version = lsm.version();
        let covers: Vec<_> =
            version.covers().iter().map(|cover| (cover, lsm.counted(cover.bounds().0, cover.bounds().1))).collect();
        let tasks: Vec<Task> = {
            let state = self.state.lock();
            state.under_way.iter().chain(&state.asked).chain(&state.task).cloned().collect()
        };
        let tasks: Vec<_> = tasks.into_iter().map(|task| (lsm.counted(&task.from, &task.upper), task)).collect();
        let state = self.state.lock();
        let covered = covers.into_iter().map(|(cover, counted)| {
            let shape = match (cover.floor(), counted.bytes) {
                (None, _) => "staged",
                (Some(_), 0) => "pages",
                (Some(_), _) => "pages under buffers",
            };
            let shape = state.shape(shape, cover.bounds(), &counted, Kind::Absorb);
            // Compaction has opened it, which is no task.
            if cover.floor().is_none() { RangeShape { reason: "writes", ..shape } } else { shape }
        });
        let queued = tasks.iter().map(|(counted, task)| {
            let shape = match task.kind {
                Kind::Absorb => "to be pages",
                Kind::Merge => "to be one run",
                Kind::Uncover => "to be tables",
            };
            RangeShape { reason: task.reason.name(), ..state.shape(shape, (&task.from, &task.upper), counted, task.kind) }
        });
        covered.chain(queued).collect()
    }

    /// Numbers of what it did.
    pub(super) fn stats(&self) -> [(&'static str, u64); 4] {
        [
            ("absorbed_pieces", self.absorbed.get()),
            ("merged_pieces", self.merged.get()),
            ("uncovered_pieces", self.uncovered.get()),
            ("adaptations_given_up", self.given_up.get()),
        ]
    }
}

impl State {
    /// Somebody says what a range is to be, which has no end or this one: what was asked for within it counts no more, nor what chose some of it by itself.
    fn forget_tasks(&mut self, lower: &[u8], upper: Option<&[u8]>) {
        let is_over = |task: &Task| match task.reason {
            Reason::Hint => task.is_within(lower, upper),
            Reason::Scans | Reason::Cold | Reason::Idle => task.has_some_of(lower, upper),
        };
        self.asked.retain(|task| !is_over(task));
        self.task.take_if(|task| is_over(task));
        self.under_way.take_if(|task| is_over(task));
    }

    /// What is worth adapting, if anything is. Nothing becomes cold since nobody uses the keyspace at all.
    fn choose(&mut self, lsm: &Lsm, split: Split, budget: u64) -> Option<Task> {
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
        let is_covered =
            |lower: &[u8], upper: &[u8]| version.covers().iter().map(Cover::bounds).any(|(from, to)| from < upper && lower < to);
        let uncovered = |(lower, upper): Stretch| {
            let (lower, upper) = clip(&ends, &lower, upper.as_deref())?;
            let mut parts = self.hints.parts(&lower, &upper).into_iter().filter(|(.., hint)| *hint != Hint::ReadMostly);
            let (lower, upper, _) = parts.find(|(lower, upper, _)| is_covered(lower, upper))?;
            Some(Task::new(Kind::Uncover, Reason::Cold, lower.to_vec(), upper.to_vec()))
        };
        self.heat.cold().find_map(uncovered)
    }

    /// Whether nobody has said that some of a range is to be tables.
    fn may_be_pages(&self, lower: &[u8], upper: &[u8]) -> bool {
        self.hints.parts(lower, upper).iter().all(|(.., hint)| *hint != Hint::WriteMostly)
    }

    /// While nobody uses the keyspace: the range that would be pages alone with the least work, of those that are in part and that scans came to.
    fn staged(&self, lsm: &Lsm, split: Split) -> Option<Task> {
        let version = lsm.version();
        let is_wanted =
            |(lower, upper): &(&[u8], &[u8])| self.may_be_pages(lower, upper) && self.heat.of(lower, upper).0 >= RECENT;
        let covers = version.covers().iter().map(Cover::bounds).filter(is_wanted);
        let counted = covers.map(|bounds| (price::touched(&lsm.counted_by(split, bounds.0, bounds.1)), bounds));
        let staged = counted.filter(|(bytes, _)| *bytes > 0.0);
        let (bytes, (lower, upper)) = staged.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        Some(Task::absorb(lsm, split, Reason::Idle, (lower.to_vec(), upper.to_vec()), bytes))
    }

    /// How a part of a range comes to be in one place: as one run of tables where it may be that and was not written too soon the last time; else as pages.
    fn kind_for(&self, part: &Part) -> Kind {
        if part.may_be_run && !self.heat.has_failed(&part.lower, &part.upper) { Kind::Merge } else { Kind::Absorb }
    }

    /// What it costs, in nanoseconds.
    fn price(&self, part: &Part) -> f64 {
        self.prices.of(self.kind_for(part)).of(price::touched(&part.counted))
    }

    /// Has a part of a range in one place for scans, if they have paid for its pages, or for about what it is as one run if it is to be that. Then it is merged if they have paid
    /// for all that is read for that, too. What is one run but for a little stays that.
    fn gather(&self, lsm: &Lsm, split: Split, part: Part) -> Option<Task> {
        let (kind, price) = (self.kind_for(&part), self.price(&part));
        let Part { lower, upper, counted, may_be_run } = part;
        let is_one_run = may_be_run && !price::has_news(&lsm.counted(&lower, &upper));
        if is_one_run || !self.heat.pays(&lower, &upper, (price, PIECE)) {
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

    /// A range that becomes pages, of which so much counts, and what lies between it and those beside it if that is cheap: a scan that passes over it would begin anew
    /// behind it.
    fn joined(&self, lsm: &Lsm, split: Split, (lower, upper): (Vec<u8>, Vec<u8>), counted: &Counted) -> (Vec<u8>, Vec<u8>) {
        let (version, price) = (lsm.version(), |counted: &Counted| self.prices.of(Kind::Absorb).of(price::touched(counted)));
        let most = GAP * (price(counted) + PIECE);
        let is_cheap =
            |from: &[u8], to: &[u8]| from < to && self.may_be_pages(from, to) && price(&lsm.counted_by(split, from, to)) <= most;
        let bounds = || version.covers().iter().map(Cover::bounds);
        let before = bounds().filter(|(begin, _)| *begin < &lower[..]).last();
        let behind = bounds().find(|(_, end)| *end > &upper[..]);
        let from = before.map(|(_, end)| end).filter(|end| is_cheap(end, &lower)).map(<[u8]>::to_vec);
        let to = behind.map(|(begin, _)| begin).filter(|begin| is_cheap(&upper, begin)).map(<[u8]>::to_vec);
        (from.unwrap_or(lower), to.unwrap_or(upper))
    }

    /// Bytes that would be left of what nearly all scans read if of each part there were what the place has that has most of it. More than the budget is more than fits.
    fn hot_bytes(&self, lsm: &Lsm, ends: &(Vec<u8>, Vec<u8>), budget: u64) -> u64 {
        self.heat.hot_bytes(bytes_of(lsm, ends, budget))
    }

    fn learn(&mut self, task: Task) {
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
        if self.done.len() == REMEMBERED {
            self.done.remove(0);
        }
        self.done.push(task);
    }

    fn shape(&self, shape: &'static str, (lower, upper): (&[u8], &[u8]), counted: &Counted, kind: Kind) -> RangeShape {
        let &Counted { page_bytes, bytes: table_bytes, .. } = counted;
        let (scans, waste) = self.heat.of(lower, upper);
        let price = (self.prices.of(kind).of(price::touched(counted)), PIECE);
        let stake = if table_bytes > 0 { self.heat.stake(lower, upper, price) } else { 0.0 };
        let done = self.done.iter().rfind(|task| !task.is_given_up && task.has_some_of(lower, Some(upper)));
        let reason = done.map_or("", |task| task.reason.name());
        let (lower, upper, waste_seconds, price_seconds) = (lower.to_vec(), upper.to_vec(), waste / 1e9, stake / 1e9);
        RangeShape { lower, upper, shape, page_bytes, table_bytes, scans, waste_seconds, price_seconds, reason }
    }
}

/// Tells bytes of what there is of a range if of each part there were what the place has that has most of it; of pages no more than a budget fits twice.
fn bytes_of(lsm: &Lsm, ends: &(Vec<u8>, Vec<u8>), budget: u64) -> impl Fn(Stretch) -> u64 {
    move |(lower, upper)| clip(ends, &lower, upper.as_deref()).map_or(0, |(lower, upper)| lsm.largest(&lower, &upper, 2 * budget))
}

/// What there is of a range between the ends of all keys, if anything.
fn clip((first, end): &(Vec<u8>, Vec<u8>), lower: &[u8], upper: Option<&[u8]>) -> Option<(Vec<u8>, Vec<u8>)> {
    let (lower, upper) = (lower.max(first), upper.map_or(&**end, |upper| upper.min(end)));
    (lower < upper).then(|| (lower.to_vec(), upper.to_vec()))
}
