//! A way to choose schedules: the thread that goes keeps going for a stride, whose length is drawn, then it rests for a
//! while that is drawn too, and others go.
//!
//! What goes wrong between threads mostly needs one of them to stand still at a certain place while others do something
//! long, such as a write-out. With a choice at every step nobody ever stands still for long enough; and without rests
//! only those who are interrupted seldom stand still for long.

use std::{
    collections::HashMap,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use ecotone_sys::primitive::shuttle::{
    Config, FailurePersistence, MaxSteps, Runner,
    scheduler::{Schedule, Scheduler, Task, TaskId},
};
use ecotone_testkit::suite::Verdict;
use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

/// Bytes of a thread's stack.
const STACK: usize = 1 << 20;
/// Steps after which a schedule is taken for endless.
const ENDLESS: usize = 3_000_000;
/// The shortest and the longest mean stride, as powers of two.
const SHORTEST: u32 = 2;
const LONGEST: u32 = 11;
/// The longest rest, as a power of two.
const LONGEST_REST: u32 = 14;

struct Strides {
    seeds: Range<u64>,
    seed: Arc<AtomicU64>,
    wrong: Arc<Mutex<Option<String>>>,
    random: SmallRng,
    /// A stride ends at a step with one chance in so many.
    stride: u32,
    /// Steps so far.
    step: u64,
    /// The steps until which threads rest.
    resting: HashMap<TaskId, u64>,
}

impl Strides {
    fn new(seeds: Range<u64>, seed: Arc<AtomicU64>, wrong: Arc<Mutex<Option<String>>>) -> Self {
        Strides { seeds, seed, wrong, random: SmallRng::seed_from_u64(0), stride: 1, step: 0, resting: HashMap::new() }
    }

    /// Any of those that do not rest; if all do, the one whose rest ends first.
    fn choose(&mut self, runnable: &[&Task]) -> TaskId {
        let rests_until = |task: &&&Task| self.resting.get(&task.id()).copied().unwrap_or(0);
        let awake: Vec<TaskId> =
            runnable.iter().filter(|task| rests_until(task) <= self.step).map(|task| task.id()).collect();
        match awake.len() {
            0 => runnable.iter().min_by_key(rests_until).expect("somebody is runnable").id(),
            count => awake[self.random.random_range(0..count)],
        }
    }
}

impl Scheduler for Strides {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.wrong.lock().expect("nobody panics with it").is_some() {
            return None;
        }
        let seed = self.seeds.next()?;
        self.seed.store(seed, Ordering::Relaxed);
        self.random = SmallRng::seed_from_u64(seed);
        self.stride = 1 << self.random.random_range(SHORTEST..=LONGEST);
        self.step = 0;
        self.resting.clear();
        Some(Schedule::new(seed))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        self.step += 1;
        let goes_on = !is_yielding && !self.random.random_ratio(1, self.stride);
        if let Some(current) = current {
            if goes_on && runnable.iter().any(|task| task.id() == current) {
                return Some(current);
            }
            let longest = 1 << self.random.random_range(0..=LONGEST_REST);
            self.resting.insert(current, self.step + self.random.random_range(0..longest));
        }
        Some(self.choose(runnable))
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next_u64()
    }
}

/// Runs `work` once for each seed, in the schedule that the seed gives, until one goes wrong; gives what went wrong.
pub(super) fn run(seeds: Range<u64>, work: impl Fn(u64) -> Verdict + Send + Sync + 'static) -> Option<String> {
    let (seed, wrong) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None)));
    let strides = Strides::new(seeds, seed.clone(), wrong.clone());
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(ENDLESS);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    let (noted, present) = (wrong.clone(), seed.clone());
    let ended = catch_unwind(AssertUnwindSafe(|| {
        Runner::new(strides, config).run(move || {
            if let Err(what) = work(present.load(Ordering::Relaxed)) {
                *noted.lock().expect("nobody panics with it") = Some(what);
            }
        })
    }));
    if let Err(panic) = ended {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        return Some(format!("seed {}: {}", seed.load(Ordering::Relaxed), text.unwrap_or_default()));
    }
    wrong.lock().expect("nobody panics with it").take()
}
