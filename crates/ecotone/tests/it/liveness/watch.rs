//! The watchdog: the current call of each thread, and since when it runs.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use super::Bounds;

/// The current call of each thread.
#[derive(Debug)]
pub(crate) struct Watch {
    bounds: Bounds,
    began: Instant,
    slots: Vec<Mutex<Option<(String, Instant)>>>,
    /// For each kind of call: the number, the total time, and the longest time.
    kinds: Mutex<BTreeMap<u32, (u64, Duration, Duration)>>,
}

impl Watch {
    pub(super) fn new(threads: usize, bounds: Bounds) -> Arc<Watch> {
        Arc::new(Watch {
            bounds,
            began: Instant::now(),
            slots: (0..threads).map(|_| Mutex::default()).collect(),
            kinds: Mutex::default(),
        })
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Notes that a thread begins a call.
    pub(super) fn note(&self, thread: usize, what: &str) {
        *self.slots[thread].lock().unwrap() = Some((what.to_owned(), Instant::now()));
    }

    /// Counts a call that has returned.
    pub(super) fn count(&self, kind: u32, took: Duration) {
        let mut kinds = self.kinds.lock().unwrap();
        let (count, sum, longest) = kinds.entry(kind).or_default();
        (*count, *sum, *longest) = (*count + 1, *sum + took, took.max(*longest));
    }

    /// The kinds with a long call, the longest first.
    pub(super) fn summary(&self) -> String {
        let kinds = self.kinds.lock().unwrap();
        let mut kinds: Vec<_> = kinds.iter().map(|(kind, counted)| (*kind, *counted)).collect();
        kinds.sort_by_key(|(_, (_, _, longest))| std::cmp::Reverse(*longest));
        let row = |(kind, (count, sum, longest)): &(u32, (u64, Duration, Duration))| {
            format!("call {kind}: {count}, {:.1} s, longest {:.2} s", sum.as_secs_f64(), longest.as_secs_f64())
        };
        kinds.iter().take(6).map(row).collect::<Vec<_>>().join("; ")
    }

    /// Notes that a thread does nothing that is bounded.
    pub(super) fn rest(&self, thread: usize) {
        *self.slots[thread].lock().unwrap() = None;
    }

    /// Waits until an episode is over.
    ///
    /// # Errors
    /// If a call or the whole episode takes too long. The error has the current calls and all stacks.
    pub(super) fn over(&self, is_over: &dyn Fn() -> bool) -> Result<(), String> {
        while !is_over() {
            // The last slot is the episode's own thread, which waits for the others.
            let (_, callers) = self.slots.split_last().expect("there is one");
            let longest =
                callers.iter().filter_map(|slot| slot.lock().unwrap().clone()).max_by_key(|(_, since)| since.elapsed());
            match longest {
                Some((what, since)) if since.elapsed() > self.bounds.call => {
                    return Err(self.report(&format!("{what} has not returned in {:?}", since.elapsed())));
                }
                _ if self.began.elapsed() > self.bounds.episode => {
                    return Err(self.report(&format!("it has not ended in {:?}", self.began.elapsed())));
                }
                _ => thread::sleep(Duration::from_millis(20)),
            }
        }
        Ok(())
    }

    fn report(&self, what: &str) -> String {
        let mut report = what.to_owned();
        for (number, slot) in self.slots.iter().enumerate() {
            if let Some((call, since)) = &*slot.lock().unwrap() {
                let _ = write!(report, "\n  thread {number}, {:7.3} s: {call}", since.elapsed().as_secs_f64());
            }
        }
        report + "\n" + &stacks()
    }
}

/// The stacks of all threads of this process, as a debugger sees them, or what the kernel tells of them.
fn stacks() -> String {
    let pid = std::process::id().to_string();
    let debugger = ["-k", "5", "60", "gdb", "-batch", "-nx", "-ex", "thread apply all bt 24", "-p", &pid];
    // Into a file: a debugger stops this process, which could not read from a pipe.
    let told = tempfile::NamedTempFile::new().ok().and_then(|file| {
        let output = file.reopen().ok()?;
        let gdb =
            Command::new("timeout").args(debugger).stdin(Stdio::null()).stderr(Stdio::null()).stdout(output).status();
        gdb.ok().filter(|status| status.success())?;
        std::fs::read_to_string(file.path()).ok()
    });
    if let Some(text) = told {
        let frames = text.lines().filter(|line| line.starts_with("Thread ") || line.starts_with('#'));
        return frames.map(|line| line.chars().take(160).collect::<String>() + "\n").collect();
    }
    let mut tasks = String::from("no gdb, so without stacks:\n");
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default().trim().to_owned();
        let _ = writeln!(tasks, "{} in {} {}", read("comm"), read("wchan"), read("syscall"));
    }
    tasks
}
