//! Adapting by itself: what comes next of what is asked for or worth it, and at what rate (decision 14, "Rate",
//! "Looks", "Idle"). One job, a piece at a time.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use ecotone_substrate::{Error, Result, Seq, metrics::Counter, scheduler::Priority, single::Single};
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use super::{
    hints::bounds,
    insert,
    policy::{Policy, clip},
    price::{self, PIECE},
    task::{Kind, Reason, Task},
};
use crate::{
    engine::{Hint, Range, RangeShape, Shared},
    lsm::{
        Split,
        base::{Counted, Offer, Passage},
        keyspace::LsmKeyspace,
        records::Lsm,
    },
};

/// Nanoseconds of use after which it is looked what is to be done: not many of a phase of seconds.
const TICK: u64 = 100_000_000;
/// How many times as long as it took of a processor to choose what is worth adapting it is not chosen again: that walks
/// over all that scans come to, which may be much.
const SELDOM: u64 = 32;
/// Nanoseconds without a write after which a memtable rests: for good, as it seems, or for long enough where a range is
/// to be absorbed, which is not to get more soon.
const RESTS: u64 = 1_000_000_000;
const RESTS_TO_ABSORB: u64 = TICK;
/// Nanoseconds for which one who rests keeps a worker that others may want.
const STEP: u64 = 10_000_000;

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
    policy: Policy,
    /// Where what is hot begins and ends. None until somebody asks after a look.
    guards: Option<Vec<Vec<u8>>>,
    /// Looks so far.
    looks: u64,
    /// What somebody asked for, and what is under way or comes next by itself.
    asked: Vec<Task>,
    task: Option<Task>,
    /// What a piece is made of just now, as it was before; none if it is not to go on.
    under_way: Option<Task>,
    /// From where to where somebody has said otherwise since it was begun to choose.
    said: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// When it is chosen again what comes next by itself.
    chosen_until: u64,
    /// Nanoseconds for which it is to rest.
    owed: u64,
    /// What was done, the last few.
    done: Vec<Task>,
    /// Records that were written to the active memtable when it was looked last, and since when there were no more of
    /// them, as far as was looked.
    written: u64,
    rests_since: u64,
}

/// Tasks that are remembered when they are done.
const REMEMBERED: usize = 64;

impl Upkeep {
    /// Of a keyspace that [`begin`](Self::begin) tells, at work for so many percent of the time at most.
    pub(super) fn new(shared: &Shared, share: u8, split: Split) -> Arc<Upkeep> {
        let (shared, ticked_at) = (shared.clone(), AtomicU64::new(shared.clock.now()));
        let (keyspace, state, job) = (OnceLock::new(), Mutex::new(State::default()), Single::default());
        let [absorbed, merged, uncovered, given_up] = [(); 4].map(|()| Counter::default());
        Arc::new(Upkeep {
            shared,
            share,
            split,
            keyspace,
            ticked_at,
            state,
            job,
            absorbed,
            merged,
            uncovered,
            given_up,
        })
    }

    /// Says what is adapted.
    pub(super) fn begin(&self, keyspace: &Arc<LsmKeyspace>) {
        self.keyspace.set(Arc::downgrade(keyspace)).expect("it adapts one keyspace");
    }

    /// A scan has gone through a stretch. Who comes while another counts is not counted.
    pub(super) fn passed(self: &Arc<Self>, passage: &Passage<'_>) {
        let Some(mut state) = self.state.try_lock() else { return };
        if self.share > 0 {
            state.policy.is_idle = false;
            state.policy.heat.note(passage.from, (price::waste(passage), price::air(passage)));
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

    /// About a second has passed. If nobody uses the keyspace, what was worth absorbing while somebody did still is,
    /// and what is pages in part may be so wholly.
    pub(super) fn look(self: &Arc<Self>, is_idle: bool) {
        let (mut state, is_idle) = (self.state.lock(), is_idle && self.share > 0);
        state.policy.is_idle |= is_idle;
        if is_idle || !state.asked.is_empty() {
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
        let Policy { heat, prices, hints, .. } = &mut state.policy;
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
        let (policy, looks) = {
            let state = self.state.lock();
            if let Some(guards) = &state.guards {
                return guards.clone();
            }
            (state.policy.clone(), state.looks)
        };
        let found = policy.hot_bounds(keyspace.lsm(), self.shared.memory.budget() as u64);
        let mut state = self.state.lock();
        if state.looks == looks { state.guards.get_or_insert(found).clone() } else { found }
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
        // What there is of it is counted without the lock, which scans and flushes want.
        let clipped = lsm.ends().and_then(|ends| clip(&ends, &lower, upper.as_deref()));
        let task = clipped.clone().and_then(|(lower, upper)| match hint {
            Hint::ReadMostly => Some(Task::absorb(lsm, self.split, Reason::Hint, (lower, upper), 0.0)),
            Hint::WriteMostly => Some(Task::new(Kind::Uncover, Reason::Hint, lower, upper)),
            Hint::Auto => None,
        });
        let mut state = self.state.lock();
        state.policy.hints.set(lower.clone(), upper.clone(), hint)?;
        state.forget_tasks(&lower, upper.as_deref());
        clipped.iter().for_each(|(lower, upper)| state.policy.heat.forget(lower, upper));
        state.asked.extend(task);
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
                Err(error) => drop(upkeep.shared.health.postpone("adapting a range", error)),
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
        if self.rest() {
            self.put_back(task);
            return Ok(true);
        }
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
        self.put_back(task);
        self.owe(worked);
        Ok(true)
    }

    fn count(&self, kind: Kind) {
        match kind {
            Kind::Absorb => self.absorbed.increment(),
            Kind::Merge => self.merged.increment(),
            Kind::Uncover => self.uncovered.increment(),
        }
    }

    /// Has a memtable flushed that nobody has written to for so long, so that scans need not merge it and it can be
    /// absorbed. Where there are no scans it stays. Whether there was one.
    fn flush_what_rests(&self, lsm: &Arc<Lsm>, rests: u64) -> Result<bool> {
        let (written, now, mut state) = (lsm.written(), self.shared.clock.now(), self.state.lock());
        if written != state.written {
            (state.written, state.rests_since) = (written, now);
        }
        let rests = !state.policy.is_idle && written > 0 && now.saturating_sub(state.rests_since) >= rests;
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
        let due = state.due(now);
        state.under_way = due.map(|task| state.asked.remove(task)).or_else(|| {
            state.policy.heat.tick(now);
            (state.guards, state.looks) = (None, state.looks + 1);
            state.task.take()
        });
        let is_late = lsm.behind() > 0.0 || lsm.others_wait() || now < state.chosen_until;
        if state.under_way.is_some() || is_late || self.share == 0 {
            return state.under_way.clone();
        }
        // To choose may take long, and scans and flushes want the lock.
        let policy = state.policy.clone();
        state.said = None;
        drop(state);
        self.choose(&policy, lsm)
    }

    /// What scans pay for, if anything, unless somebody says meanwhile what some of it is to be. It is not chosen again
    /// too soon.
    fn choose(&self, policy: &Policy, lsm: &Lsm) -> Option<Task> {
        let begun = self.shared.clock.processor();
        let task = policy.choose(lsm, self.split, self.shared.memory.budget() as u64);
        let took = self.shared.clock.processor().saturating_sub(begun);
        let mut state = self.state.lock();
        state.chosen_until = self.shared.clock.now() + SELDOM * took;
        let said = state.said.take();
        let is_over = |task: &Task| said.is_some_and(|(lower, upper)| task.has_some_of(&lower, upper.as_deref()));
        state.under_way = task.filter(|task| !is_over(task));
        state.under_way.clone()
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

    /// It was at work for so long, and is to rest as long as its part of the time wants. Where nothing is adapted but
    /// what somebody asks for, that has all of it.
    fn owe(&self, worked: u64) {
        let share = if self.share == 0 { 100 } else { u64::from(self.share.min(100)) };
        let mut state = self.state.lock();
        state.owed = state.owed.saturating_add(worked.saturating_mul(100 - share) / share);
    }

    /// Rests for a while if it still is to. What is more urgent comes between this and the next time.
    fn rest(&self) -> bool {
        let mut state = self.state.lock();
        if state.owed == 0 || !self.shared.scheduler.is_threaded() {
            return false;
        }
        let step = state.owed.min(STEP);
        state.owed -= step;
        drop(state);
        self.shared.clock.sleep(Duration::from_nanos(step));
        true
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
            RangeShape {
                reason: task.reason.name(),
                ..state.shape(shape, (&task.from, &task.upper), counted, task.kind)
            }
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
    /// The first that somebody asked for and that may be tried now, if what was asked for before it of the same keys is
    /// done.
    fn due(&self, now: u64) -> Option<usize> {
        (0..self.asked.len()).find(|&number| {
            let (task, before) = (&self.asked[number], &self.asked[..number]);
            task.not_before <= now && !before.iter().any(|other| other.has_some_of(&task.lower, Some(&task.upper)))
        })
    }

    /// Somebody says what a range is to be, which has no end or this one: what was asked for within it counts no more,
    /// nor what chose some of it by itself.
    fn forget_tasks(&mut self, lower: &[u8], upper: Option<&[u8]>) {
        let is_over = |task: &Task| match task.reason {
            Reason::Hint => task.is_within(lower, upper),
            Reason::Scans | Reason::Cold | Reason::Idle => task.has_some_of(lower, upper),
        };
        self.asked.retain(|task| !is_over(task));
        self.task.take_if(|task| is_over(task));
        self.under_way.take_if(|task| is_over(task));
        let (lower, upper) = (lower.to_vec(), upper.map(<[u8]>::to_vec));
        self.said = Some(match self.said.take() {
            Some((from, to)) => (from.min(lower), to.zip(upper).map(|(to, upper)| to.max(upper))),
            None => (lower, upper),
        });
    }

    fn learn(&mut self, task: Task) {
        self.policy.learn(&task);
        if self.done.len() == REMEMBERED {
            self.done.remove(0);
        }
        self.done.push(task);
    }

    fn shape(&self, shape: &'static str, (lower, upper): (&[u8], &[u8]), counted: &Counted, kind: Kind) -> RangeShape {
        let &Counted { page_bytes, bytes: table_bytes, .. } = counted;
        let Policy { heat, prices, .. } = &self.policy;
        let (scans, waste) = heat.of(lower, upper);
        let price = (prices.of(kind).of(price::touched(counted)), PIECE);
        let stake = if table_bytes > 0 { heat.stake(lower, upper, price) } else { 0.0 };
        let done = self.done.iter().rfind(|task| !task.is_given_up && task.has_some_of(lower, Some(upper)));
        let reason = done.map_or("", |task| task.reason.name());
        let (lower, upper, waste_seconds, price_seconds) = (lower.to_vec(), upper.to_vec(), waste / 1e9, stake / 1e9);
        RangeShape { lower, upper, shape, page_bytes, table_bytes, scans, waste_seconds, price_seconds, reason }
    }
}
