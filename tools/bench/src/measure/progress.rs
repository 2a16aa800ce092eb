//! The progress of a phase: a bar on standard error if that is a terminal, or messages to the parent process, which
//! draws the bar.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{limit::Limit, message::Message};

/// Interval between messages to the parent.
const INTERVAL: Duration = Duration::from_millis(200);

/// Whether this process is the child of a process that draws the bars.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Sends progress to the parent from now on.
pub(crate) fn tell_parent() {
    IS_CHILD.store(true, Relaxed);
}

/// The progress of one phase; a bar disappears when it is dropped.
#[derive(Debug)]
pub(crate) enum Progress {
    Bar { bar: ProgressBar, limit: Option<Limit>, begin: Instant },
    Messages { last: Cell<Instant> },
}

impl Progress {
    /// The progress of a phase with this name.
    pub(crate) fn new(name: &str, limit: Limit) -> Self {
        Self::begin(name, Some(limit))
    }

    /// A spinner for work of unknown length.
    pub(crate) fn waiting(name: &str) -> Self {
        Self::begin(name, None)
    }

    /// The progress of a phase with this name; its length is unknown without a limit.
    pub(crate) fn begin(name: &str, limit: Option<Limit>) -> Self {
        if IS_CHILD.load(Relaxed) {
            Message::Begin { name: name.to_owned(), limit }.send();
            return Progress::Messages { last: Cell::new(Instant::now()) };
        }
        Progress::Bar { bar: bar(limit).with_message(name.to_owned()), limit, begin: Instant::now() }
    }

    /// Shows that this many operations are done.
    pub(crate) fn show(&self, operations: u64) {
        match self {
            Progress::Bar { bar, limit: Some(Limit::Time(_)), begin } => {
                bar.set_position(milliseconds(begin.elapsed()))
            }
            Progress::Bar { bar, .. } => bar.set_position(operations),
            Progress::Messages { last } if last.get().elapsed() >= INTERVAL => {
                last.set(Instant::now());
                Message::Done { operations }.send();
            }
            Progress::Messages { .. } => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        match self {
            Progress::Bar { bar, .. } => bar.finish_and_clear(),
            Progress::Messages { .. } => Message::End.send(),
        }
    }
}

fn bar(limit: Option<Limit>) -> ProgressBar {
    let (length, counts) = match limit {
        Some(Limit::Operations(count)) => (count, "{human_pos} of {human_len} operations, {per_sec}, {eta} left"),
        Some(Limit::Time(time)) => (milliseconds(time), "{elapsed}"),
        Some(Limit::Adapted) | None => {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(INTERVAL);
            return bar;
        }
    };
    let style =
        ProgressStyle::with_template(&format!("{{msg:9}} {{wide_bar}} {counts}")).expect("the template is valid");
    ProgressBar::new(length).with_style(style)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
