//! The state of the machine. A virtual machine can be half as fast an hour later, and rows from different states must
//! not be compared.

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    time::Instant,
};

use serde::Serialize;

use crate::{measure::disk::Gauge, statistics::are_alike};

/// Iterations of the timed loop: some 20 ms.
const ROUNDS: u64 = 10_000_000;
/// The loop is timed this many times; the best counts.
const LOOPS: usize = 3;

/// The state at one moment.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct State {
    /// Time of a fixed loop of one thread, in nanoseconds.
    pub(super) loop_ns: u64,
    /// Random reads of 4 KiB with 32 in flight; `None` if they cannot be measured.
    pub(super) disk_reads_per_second: Option<f64>,
    /// Processor time of such a read in microseconds.
    pub(super) cpu_us_per_op: Option<f64>,
    /// The fraction of the processor time that other guests took since the previous state; `None` for the first.
    pub(super) stolen: Option<f64>,
    #[serde(skip)]
    ticks: Ticks,
}

impl State {
    /// Whether rows in the two states are comparable.
    pub(super) fn is_like(&self, other: &State) -> bool {
        let disks = self.disk_reads_per_second.zip(other.disk_reads_per_second);
        are_alike(self.loop_ns as f64, other.loop_ns as f64) && disks.is_none_or(|(a, b)| are_alike(a, b))
    }
}

/// The states before and after a row.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Machine {
    pub(super) before: State,
    pub(super) after: State,
}

impl Machine {
    /// Whether the rows between these states are comparable.
    pub(super) fn is_like(&self, other: &Machine) -> bool {
        let all = [self.before, self.after, other.before, other.after];
        all.iter().all(|one| all.iter().all(|another| one.is_like(another)))
    }

    /// The operations a second that disk and processors allow, if each operation takes this many reads.
    pub(super) fn most_per_second(&self, reads_per_op: f64) -> Option<f64> {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        let most = |state: &State| {
            let (disk, cpu) = (state.disk_reads_per_second?, state.cpu_us_per_op?);
            Some(disk.min(processors * 1e6 / cpu.max(1e-3)) / reads_per_op)
        };
        let (before, after) = (most(&self.before)?, most(&self.after)?);
        Some(before.max(after)).filter(|_| reads_per_op > 0.0)
    }
}

/// Observes the state of the machine repeatedly.
pub(super) struct Observer {
    gauge: Option<Gauge>,
    last: Option<State>,
    scratch: PathBuf,
    /// The directory, if it was created for the scratch file.
    made: Option<PathBuf>,
}

impl Observer {
    /// An observer with a scratch file in this directory, which is created if it is missing.
    pub(super) fn new(directory: &Path) -> Self {
        let made = (!directory.exists()).then(|| directory.to_owned());
        let (scratch, gauge) = (Gauge::directory(directory), Gauge::open(directory).ok());
        Observer { gauge, last: None, scratch, made }
    }

    /// Measures the current state.
    pub(super) fn look(&mut self) -> State {
        let point = self.gauge.as_ref().and_then(|gauge| gauge.measure().ok());
        let ticks = Ticks::now();
        let state = State {
            loop_ns: (0..LOOPS).map(|_| time_loop()).min().unwrap_or(0),
            disk_reads_per_second: point.as_ref().map(|point| point.ops_per_second),
            cpu_us_per_op: point.as_ref().map(|point| point.cpu_us_per_op),
            stolen: self.last.map(|last| ticks.stolen_since(last.ticks)),
            ticks,
        };
        self.last = Some(state);
        state
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.gauge = None;
        // If removal fails, the next run recreates the file.
        let _ = fs::remove_dir_all(&self.scratch);
        if let Some(made) = &self.made {
            // Fails if the directory is not empty, as intended.
            let _ = fs::remove_dir(made);
        }
    }
}

/// Times a fixed loop.
fn time_loop() -> u64 {
    let begin = Instant::now();
    let mut number = black_box(0x9e37_79b9_u64);
    for _ in 0..ROUNDS {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
    }
    black_box(number);
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Processor time of the machine since its start, in ticks.
#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
    fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let words = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let numbers: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        Ticks { all: numbers.iter().sum(), stolen: numbers.get(7).copied().unwrap_or(0) }
    }

    fn stolen_since(self, before: Ticks) -> f64 {
        self.stolen.saturating_sub(before.stolen) as f64 / self.all.saturating_sub(before.all).max(1) as f64
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A machine in a constant state.
    pub(in crate::suite::rounds) fn machine(loop_ns: u64, disk: f64) -> Machine {
        let (disk_reads_per_second, cpu_us_per_op) = (Some(disk), Some(10.0));
        let state = State { loop_ns, disk_reads_per_second, cpu_us_per_op, stolen: None, ticks: Ticks::default() };
        Machine { before: state, after: state }
    }

    #[test]
    fn the_states_of_a_quiet_machine_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("new");
        let mut observer = Observer::new(&place);
        let (before, after) = (observer.look(), observer.look());
        assert!(before.loop_ns > 0 && before.disk_reads_per_second.unwrap() > 0.0 && before.stolen.is_none());
        assert!((0.0..=1.0).contains(&after.stolen.unwrap()));
        drop(observer);
        assert!(!place.exists());
    }

    #[test]
    fn states_a_sixth_apart_are_not_alike() {
        assert!(machine(100, 1000.0).is_like(&machine(114, 900.0)));
        assert!(!machine(100, 1000.0).is_like(&machine(120, 1000.0)));
        assert!(!machine(100, 1000.0).is_like(&machine(100, 600.0)));
    }

    #[test]
    fn the_scarcer_of_disk_and_processors_bounds() {
        let bound = |disk, reads| machine(1, disk).most_per_second(reads).unwrap();
        assert_eq!(bound(1000.0, 0.5), 2000.0);
        let processors = std::thread::available_parallelism().unwrap().get() as f64;
        assert_eq!(bound(1e9, 0.5), processors * 1e5 / 0.5);
        assert!(machine(1, 1000.0).most_per_second(0.0).is_none());
    }
}
