//! Progress bars of the demonstration, on standard error while that is a terminal.

use std::time::Duration;

use indicatif::ProgressBar;

use crate::load::style;

/// A bar for a phase of `length` steps.
pub(crate) fn bar(phase: &'static str, length: u64) -> ProgressBar {
    ProgressBar::new(length).with_style(style("{msg} {wide_bar} {human_pos}/{human_len}")).with_message(phase)
}

/// A spinner for a phase of unknown length.
pub(crate) fn spinner(phase: &'static str) -> ProgressBar {
    let spinner = ProgressBar::no_length().with_style(style("{spinner} {msg}, {elapsed}")).with_message(phase);
    spinner.enable_steady_tick(Duration::from_millis(200));
    spinner
}
