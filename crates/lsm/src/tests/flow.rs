//! A simulation of writers, flushes and compaction, with the product's write throttle and compaction throttle
//! (compaction-pace.md, invariants 12, 15 and 16).
//!
//! All runnable threads share the processors equally. Sizes are counted in records of 108 bytes. The budget is 220 MiB,
//! and the last level has 1.1 GB.

use ecotone_substrate::throttle::WriteThrottle;

use crate::compaction::throttle::{
    compaction_throttle::pause_after,
    write_stall::{
        L0_SLOWDOWN_TRIGGER, L0_STOP_TRIGGER, MAX_IMMUTABLE_MEMTABLES, STOP_DEBT_RATIO, fullness,
        memtable_stall_fraction,
    },
};

const PROCESSORS: f64 = 2.0;
/// Nanoseconds of a step.
const STEP: u64 = 250_000;
/// Processor nanoseconds of a write, of a record in a flush, and of a record in a compaction.
const WRITE: f64 = 2400.0;
const FLUSH: f64 = 300.0;
const PASS: f64 = 300.0;
/// Records of a memtable, of a table, of L0 when compaction is due by bytes, of the level below L0 when it is due, of
/// the debt at which writers stop, and between two throttle checks (1 MiB).
const MEMTABLE: u64 = 196_000;
const TABLE: u64 = 133_000;
const LEVEL_0: u64 = 1_068_000;
const LEVEL: u64 = 1_270_000;
const MOST: u64 = 8_544_000;
const LOOK: f64 = 9700.0;
/// The part of its possible overlap that a compaction has, and the size ratio of levels.
const OVERLAP: f64 = 0.7;
const RATIO: f64 = 8.0;
/// Seconds of warm-up, and seconds that are counted after it.
const WARM: u64 = 6;
const COUNTED: u64 = 15;

const SECOND: u64 = 1_000_000_000;
/// The longest sleep of a writer, in nanoseconds.
const LONGEST_SLEEP: u64 = 20_000_000;

#[derive(Clone, Copy, Default)]
struct Writer {
    wakes: u64,
    /// Processor nanoseconds that it was given and has not used.
    had: f64,
}

enum Flush {
    Merging(f64),
    Syncing(u64),
}

struct Job {
    /// Two if compaction was late when the job began.
    threads: usize,
    /// L0 runs that it merges, and records that move into the next level.
    runs: u64,
    moved: u64,
    /// Records to read, and records read so far.
    all: f64,
    passed: f64,
    /// Records since its last throttle check, when it resumed then, and until when it sleeps.
    since_look: f64,
    since: u64,
    wakes: u64,
}

struct Flow {
    now: u64,
    pace: WriteThrottle,
    writers: Vec<Writer>,
    active: u64,
    waiting: usize,
    flush: Option<Flush>,
    /// Nanoseconds that the sync of a flush takes.
    sync: u64,
    runs: u64,
    /// Records of the level below L0.
    level: u64,
    job: Option<Job>,
    /// Records written in each second, when the last one was written, and the longest time without a write.
    written: Vec<u64>,
    last: u64,
    gap: u64,
    most_runs: u64,
}

impl Flow {
    fn new(writers: usize, sync: u64) -> Flow {
        Flow {
            now: 0,
            pace: WriteThrottle::default(),
            writers: vec![Writer::default(); writers],
            active: 0,
            waiting: 0,
            flush: None,
            sync,
            runs: 0,
            level: LEVEL,
            job: None,
            written: vec![0; (WARM + COUNTED) as usize],
            last: 0,
            gap: 0,
            most_runs: 0,
        }
    }

    /// The debt ratio by L0 runs, and by bytes.
    fn debt_ratio(&self) -> (f64, f64) {
        let allowance = self.job.as_ref().map_or(0.0, |job| job.runs as f64 * job.passed / job.all / 2.0);
        let debt = self.runs * MEMTABLE + self.level.saturating_sub(LEVEL);
        let of_debt = STOP_DEBT_RATIO as f64 * debt.saturating_sub(LEVEL_0) as f64 / MOST as f64;
        ((self.runs as f64 - allowance) / L0_SLOWDOWN_TRIGGER as f64, of_debt)
    }

    /// How far compaction is behind, from 0 to 1.
    fn stall_fraction(&self) -> f64 {
        let (runs, debt) = self.debt_ratio();
        fullness(runs, L0_STOP_TRIGGER / L0_SLOWDOWN_TRIGGER).max(fullness(debt, STOP_DEBT_RATIO))
    }

    fn step(&mut self) {
        let (runs, debt) = self.debt_ratio();
        let (debt_ratio, behind) = (runs.max(debt), self.stall_fraction());
        let works = self.job.as_ref().is_some_and(|job| job.wakes <= self.now || debt_ratio >= 1.0);
        assert!(works || self.job.is_none() || behind == 0.0, "a job sleeps while writers are slowed down for it");
        let awake = self.writers.iter().filter(|writer| writer.wakes <= self.now).count();
        let merges = matches!(self.flush, Some(Flush::Merging(_)));
        let threads = self.job.as_ref().filter(|_| works).map_or(0, |job| job.threads);
        let background = usize::from(merges) + threads;
        let share = STEP as f64 * (PROCESSORS / (awake + background).max(1) as f64).min(1.0);
        let used = self.write(share, behind);
        // The background gets the processor time that sleeping writers leave.
        let share = share.max((PROCESSORS * STEP as f64 - used) / background.max(1) as f64).min(STEP as f64);
        self.go_on_with_flush(share);
        if works {
            self.go_on_with_job(share * threads as f64, debt_ratio);
        }
        self.begin_job(if debt_ratio >= 1.0 { 2 } else { 1 });
        self.now += STEP;
    }

    /// Gives the processor nanoseconds that writers used.
    fn write(&mut self, share: f64, behind: f64) -> f64 {
        let mut used = 0.0;
        for number in 0..self.writers.len() {
            let Writer { wakes, had } = self.writers[number];
            if wakes > self.now {
                continue;
            }
            let mut left = had + share;
            while left >= WRITE {
                left -= WRITE;
                used += WRITE;
                self.write_one();
                let full = behind.max(memtable_stall_fraction(self.active as f64 / MEMTABLE as f64, self.waiting));
                if let Some(sleep) = Some(full).filter(|full| *full > 0.0).and_then(|full| self.pace.charge(full, 0)) {
                    self.writers[number].wakes = self.now + sleep.as_nanos() as u64;
                    left = 0.0;
                }
            }
            self.writers[number].had = left;
        }
        self.gap = if self.now < WARM * SECOND { 0 } else { self.gap.max(self.now - self.last) };
        used
    }

    fn write_one(&mut self) {
        if self.active == MEMTABLE {
            assert!(self.waiting < MAX_IMMUTABLE_MEMTABLES, "writers stand for a flush");
            self.waiting += 1;
            self.active = 0;
            self.flush.get_or_insert(Flush::Merging(MEMTABLE as f64));
        }
        self.active += 1;
        self.last = self.now;
        self.written[(self.now / SECOND) as usize] += 1;
    }

    fn go_on_with_flush(&mut self, share: f64) {
        match &mut self.flush {
            Some(Flush::Merging(left)) => {
                *left -= share / FLUSH;
                if *left <= 0.0 {
                    self.flush = Some(Flush::Syncing(self.now + self.sync));
                }
            }
            Some(Flush::Syncing(until)) if *until <= self.now => {
                self.waiting -= 1;
                self.runs += 1;
                self.most_runs = self.most_runs.max(self.runs);
                assert!((self.runs as usize) < 2 * L0_STOP_TRIGGER, "flushes stand for compaction");
                self.flush = (self.waiting > 0).then_some(Flush::Merging(MEMTABLE as f64));
            }
            _ => {}
        }
    }

    fn begin_job(&mut self, threads: usize) {
        if self.job.is_some() {
            return;
        }
        let records = self.runs * MEMTABLE;
        let is_due = self.runs >= 8 || (self.runs >= 4 && records >= LEVEL_0);
        let (runs_excess, level_excess) = (self.runs as f64 / 4.0, self.level as f64 / LEVEL as f64);
        let (runs, moved, all) = if self.level > LEVEL && (!is_due || level_excess > runs_excess) {
            (0, TABLE, TABLE as f64 * (1.0 + OVERLAP * RATIO))
        } else if is_due {
            (self.runs, records, records as f64 + OVERLAP * self.level as f64)
        } else {
            return;
        };
        let (since, wakes) = (self.now, self.now);
        self.job = Some(Job { threads, runs, moved, all, passed: 0.0, since_look: 0.0, since, wakes });
    }

    fn go_on_with_job(&mut self, share: f64, debt_ratio: f64) {
        let (now, Some(job)) = (self.now + STEP, &mut self.job) else { return };
        if job.since_look == 0.0 {
            job.since = self.now;
        }
        let read = share / PASS;
        job.passed = (job.passed + read).min(job.all);
        job.since_look += read;
        if job.since_look >= LOOK {
            job.wakes = now + pause_after(debt_ratio, now - job.since);
            job.since_look = 0.0;
        }
        if job.passed >= job.all {
            self.runs -= job.runs;
            self.level = if job.runs > 0 { self.level + job.moved } else { self.level - job.moved };
            self.job = None;
        }
    }
}

#[test]
fn nobody_stands_and_the_rate_of_writers_is_even() {
    for writers in [1, 8, 64] {
        for sync in [40_000_000, 300_000_000, SECOND] {
            let mut flow = Flow::new(writers, sync);
            (0..(WARM + COUNTED) * SECOND / STEP).for_each(|_| flow.step());
            let counted = &flow.written[WARM as usize..];
            let (mean, slowest) =
                (counted.iter().sum::<u64>() / COUNTED, *counted.iter().min().expect("there are some"));
            let told = format!("{writers} writers, sync {} ms: {mean} records a second, {slowest}", sync / 1_000_000);
            println!("{told}; longest gap {} ms, {} runs", flow.gap / 1_000_000, flow.most_runs);
            assert!(slowest * 2 >= mean, "{told}");
            assert!(flow.gap <= LONGEST_SLEEP + 2 * STEP, "{told}: {} ms without any", flow.gap / 1_000_000);
        }
    }
}
