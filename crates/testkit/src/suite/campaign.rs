//! Long random histories with crashes and I/O failures, drawn evenly over the phases of the database.

use std::{collections::BTreeMap, fmt, io::ErrorKind};

use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng, seq::IndexedRandom};

pub use super::generate::{Fill, Shape};
use super::{
    Counters, Opener, Verdict, add,
    expect::Expect,
    generate::{Generator, KEYSPACES},
    guarded,
    recovery::{both, ending, ending_after_failure, interrupt, recover},
    session::{Interruption, Session},
    step::Step,
};
use crate::{
    model::Ending,
    sim::{Crash, Io, Label, Phase, SimStorage},
};

/// Crashes of one history.
const CRASHES: usize = 8;

/// What the database was doing at an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Writing or syncing the log, or adding to it.
    Log,
    /// Writing new structures to free space: a reorganisation, a flush to a run, a checkpoint's index.
    Fresh,
    /// The log's first I/O after that, with the record that installs them.
    Install,
    /// Writing the double-write area.
    DoubleWrite,
    /// Writing pages in place.
    InPlace,
    /// Storing a manifest.
    Manifest,
    /// Making, removing and syncing names.
    Directory,
    /// Opening after a crash, and a first flush.
    Recovery,
}

/// What a campaign has done.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Crashes by what the machine was doing.
    pub crashes: BTreeMap<Moment, u64>,
    /// Single failures.
    pub failures: u64,
    /// Seeds used.
    pub seeds: u64,
    /// Counters of the engines, summed over the sessions that ended in the first crash.
    pub counters: Counters,
}

impl Report {
    /// Crashes and failures.
    pub fn total(&self) -> u64 {
        self.crashes.values().sum::<u64>() + self.failures
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} crashes and failures in {} histories:", self.total(), self.seeds)?;
        self.crashes.iter().try_for_each(|(moment, count)| write!(f, " {moment:?} {count},"))?;
        write!(f, " failed I/O {}", self.failures)
    }
}

/// Runs seeds from `first` on until `crashes` crashes and failures have happened.
pub fn run(opener: &dyn Opener, first: u64, crashes: u64, shape: Shape) -> Verdict<Report> {
    let mut report = Report::default();
    for seed in first.. {
        if report.total() >= crashes {
            break;
        }
        let shape = Shape { fill_log: shape.fill_log.of(seed), ..shape };
        let what =
            || format!("{}, campaign, replay with ECOTONE_SEED={seed} ECOTONE_CRASHES=1, {shape:?}", opener.name());
        guarded(what, || Case::new(opener, seed, shape)?.run(&mut report))?;
        report.seeds += 1;
    }
    Ok(report)
}

/// One seed: an aged database, a history, and the sessions after the crash.
struct Case<'a> {
    opener: &'a dyn Opener,
    seed: u64,
    random: SmallRng,
    disk: SimStorage,
    expect: Expect,
    history: Vec<Step>,
    later: Vec<Step>,
    /// The I/Os of the history that change something.
    moments: BTreeMap<Moment, Vec<u64>>,
}

impl<'a> Case<'a> {
    fn new(opener: &'a dyn Opener, seed: u64, shape: Shape) -> Verdict<Self> {
        let generate = |seed, shape| Generator::of(opener, seed, shape).history();
        let mut session = Session::aged(opener, seed, &KEYSPACES)?;
        let quiet = Shape { fill_log: Fill::Never, ..shape };
        session.run(&generate(!seed, quiet)).map_err(Interruption::unexpected)?;
        let (disk, expect) = session.close()?;
        let (history, later) = (generate(seed, shape), generate(seed ^ 1 << 63, quiet));
        let random = SmallRng::seed_from_u64(seed);
        let mut case = Case { opener, seed, random, disk, expect, history, later, moments: BTreeMap::new() };
        case.moments = case.measure()?;
        Ok(case)
    }

    fn begin(&self) -> Verdict<Session<'a>> {
        let session = Session::begin(
            self.opener,
            self.disk.crash(Crash::KeepAll),
            self.seed,
            self.expect.clone(),
            Ending::Closed,
        );
        session.map_err(Interruption::unexpected)
    }

    /// Runs the history without a crash to a clean end.
    fn measure(&self) -> Verdict<BTreeMap<Moment, Vec<u64>>> {
        let mut session = self.begin()?;
        let first = session.disk.io_index();
        session.run(&self.history).map_err(Interruption::unexpected)?;
        let labels = session.disk.labels();
        let (disk, expect) = session.close()?;
        recover(self.opener, disk, &expect, self.seed, Ending::Closed, "closing")?;
        Ok(moments(&labels, first))
    }

    fn run(mut self, report: &mut Report) -> Verdict {
        for _ in 0..CRASHES {
            let present: Vec<Moment> = self.moments.keys().copied().collect();
            let Some(moment) = present.choose(&mut self.random).copied() else { return Ok(()) };
            let index = *self.moments[&moment].choose(&mut self.random).expect("a moment that is present has an I/O");
            if self.random.random_ratio(1, 6) {
                self.fail((moment, index)).map_err(|wrong| format!("failure of I/O {index} ({moment:?}): {wrong}"))?;
                report.failures += 1;
            } else {
                self.crash((moment, index), report)
                    .map_err(|wrong| format!("crash at I/O {index} ({moment:?}): {wrong}"))?;
                *report.crashes.entry(moment).or_default() += 1;
            }
        }
        Ok(())
    }

    fn crash(&mut self, (moment, index): (Moment, u64), report: &mut Report) -> Verdict {
        let mut session = self.begin()?;
        session.disk.crash_at(index);
        match session.run(&self.history) {
            Err(Interruption::Wrong(wrong)) => return Err(wrong),
            Err(Interruption::Failed(error)) if !session.disk.is_off() => {
                return Err(format!("failed on a sound disk: {error}"));
            }
            _ => {}
        }
        add(&mut report.counters, &session.counters());
        let (disk, expect) = session.kill();
        let how = self.first_way(moment);
        let interrupted = self.random.random_ratio(1, 4);
        let (disk, ending, how) = if interrupted {
            self.crash_again(&disk, how, report)?
        } else {
            (disk.crash(how), ending(how), format!("{how:?}"))
        };
        self.live_on(&disk, (&expect, ending), moment, &how)
    }

    /// A second crash, during recovery or the flush that follows it.
    fn crash_again(
        &mut self,
        disk: &SimStorage,
        first: Crash,
        report: &mut Report,
    ) -> Verdict<(SimStorage, Ending, String)> {
        let whole = disk.crash(first);
        let opened = self.opener.open(&whole, self.seed);
        let flushed = opened.as_ref().map_err(Clone::clone).and_then(|store| store.flush());
        flushed.map_err(|error| format!("after {first:?} the recovery failed: {error}"))?;
        let index = self.random.random_range(0..whole.io_index());
        whole.power_off();
        drop(opened);
        let second = self.way();
        let how = format!("{first:?} and, at I/O {index} of recovery, {second:?}");
        let halfway = interrupt(self.opener, disk.crash(first), self.seed, index)?;
        let Some(halfway) = halfway else { return Ok((disk.crash(first), ending(first), how)) };
        *report.crashes.entry(Moment::Recovery).or_default() += 1;
        Ok((halfway.crash(second), both(first, second), how))
    }

    /// Recovers, checks the content, writes on, and crashes once more, either between two I/Os or in one. `moment` is
    /// what the database was doing at the first crash.
    fn live_on(&mut self, disk: &SimStorage, before: (&Expect, Ending), moment: Moment, how: &str) -> Verdict {
        // The same history writes the same bytes to the same places again; another history does not.
        let later = if self.random.random() { self.later.clone() } else { self.history.clone() };
        let later = &later[..self.random.random_range(0..=later.len() / 2)];
        let index =
            if self.random.random_ratio(2, 3) { self.rehearse(disk, before, later, (moment, how))? } else { None };
        let mut session = self.recover(disk, before, how)?;
        index.into_iter().for_each(|index| session.disk.crash_at(index));
        match session.run(later) {
            Err(Interruption::Failed(_)) if session.disk.is_off() => {}
            ended => ended.map_err(|halt| format!("after {how} and recovery: {}", halt.unexpected()))?,
        }
        let (disk, expect) = session.kill();
        let last = self.last_way(before.1);
        let how = format!("{how}, recovery, {} steps to I/O {index:?} and {last:?}", later.len());
        recover(self.opener, disk.crash(last), &expect, self.seed, ending(last), &how).map(drop)
    }

    /// Starts a second session on a copy of the disk; the disk itself is unchanged.
    fn recover(&self, disk: &SimStorage, (expect, ending): (&Expect, Ending), how: &str) -> Verdict<Session<'a>> {
        recover(self.opener, disk.crash(Crash::KeepAll), expect, self.seed, ending, how)
    }

    /// Runs the second session without a crash and draws one of its I/Os. Half of the time the I/O is of the kind in
    /// which the first session ended, because the next work of that kind tests what the crash left half done. Otherwise
    /// it is drawn evenly over the kinds.
    fn rehearse(
        &mut self,
        disk: &SimStorage,
        before: (&Expect, Ending),
        later: &[Step],
        (moment, how): (Moment, &str),
    ) -> Verdict<Option<u64>> {
        let mut session = self.recover(disk, before, how)?;
        let first = session.disk.io_index();
        session.run(later).map_err(|halt| format!("after {how} and recovery: {}", halt.unexpected()))?;
        let moments = moments(&session.disk.labels(), first);
        let same = moments.get(&moment).filter(|_| self.random.random());
        let kinds: Vec<&Vec<u64>> = moments.values().collect();
        let indices = same.or_else(|| kinds.choose(&mut self.random).copied());
        Ok(indices.and_then(|indices| indices.choose(&mut self.random).copied()))
    }

    fn fail(&mut self, (moment, index): (Moment, u64)) -> Verdict {
        let mut session = self.begin()?;
        session.disk.fail_at(index, ErrorKind::Other);
        if let Err(Interruption::Wrong(wrong)) = session.run(&self.history) {
            return Err(wrong);
        }
        let (disk, expect) = session.kill();
        let how = self.way();
        let ending = ending_after_failure(&disk, index, how);
        self.live_on(&disk.crash(how), (&expect, ending), moment, &format!("{how:?}"))
    }

    /// How the first session ends. A missing sync of pages written in place, before their protection is overwritten,
    /// shows only when the process dies and the kernel still has the pages.
    fn first_way(&mut self, moment: Moment) -> Crash {
        if moment == Moment::InPlace && self.random.random() { Crash::KeepAll } else { self.way() }
    }

    /// How the last session ends. A power failure after the death of a process takes the data that the process left in
    /// the kernel.
    fn last_way(&mut self, first: Ending) -> Crash {
        match self.way() {
            Crash::KeepAll if first == Ending::ProcessDeath => Crash::Random(self.random.next_u64()),
            way => way,
        }
    }

    fn way(&mut self) -> Crash {
        match self.random.random_range(0..4) {
            0 => Crash::KeepAll,
            1 => Crash::DropAll,
            _ => Crash::Random(self.random.next_u64()),
        }
    }
}

/// The I/Os from `first` on by what the database was doing. Reads are left out, because they change nothing.
fn moments(labels: &[Label], first: u64) -> BTreeMap<Moment, Vec<u64>> {
    let mut moments: BTreeMap<Moment, Vec<u64>> = BTreeMap::new();
    let (mut protected, mut fresh) = (false, false);
    for (index, label) in (0..).zip(labels).filter(|(_, label)| label.io != Io::Read) {
        let moment = match label.phase {
            Phase::DoubleWrite => Moment::DoubleWrite,
            Phase::Pages if protected => Moment::InPlace,
            Phase::Pages | Phase::Table | Phase::Hot => Moment::Fresh,
            Phase::Log if fresh => Moment::Install,
            Phase::Log => Moment::Log,
            Phase::Manifest | Phase::Scratch => Moment::Manifest,
            Phase::Directory => Moment::Directory,
        };
        protected = moment == Moment::DoubleWrite || (moment == Moment::InPlace && label.io != Io::Sync);
        // Names are synced in between.
        fresh = moment == Moment::Fresh || fresh && moment == Moment::Directory;
        if index >= first {
            moments.entry(moment).or_default().push(index);
        }
    }
    moments
}
