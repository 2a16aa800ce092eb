//! How far a phase has come, on standard error and only where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::phase::Limit;

/// The bar of one phase; it goes when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for a phase with this name.
    pub(crate) fn new(name: &'static str, limit: Limit) -> Self {
        let (length, counts) = match limit {
            Limit::Operations(count) => (count, "{human_pos} of {human_len} operations, {per_sec}, {eta} left"),
            Limit::Time(time) => (u64::try_from(time.as_millis()).unwrap_or(u64::MAX), "{elapsed}"),
        };
        let style = ProgressStyle::with_template(&format!("{{msg:9}} {{wide_bar}} {counts}")).expect("the template is valid");
        let bar = ProgressBar::new(length).with_style(style).with_message(name);
        Progress { bar }
    }

    /// A sign of life for work of unknown length.
    pub(crate) fn waiting(name: &'static str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(name);
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Progress { bar }
    }

    /// Moves the bar.
    pub(crate) fn show(&self, position: u64) {
        self.bar.set_position(position);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
