//! Counts the entries of an input that were loaded or left out.

use indicatif::ProgressBar;

use crate::{
    failure::{Failure, warn},
    load::{format::Content, records::Problem},
};

/// Bad entries are reported one by one up to this many; all of them are counted.
const REPORTED: u64 = 10;

/// Counts of good and bad entries.
pub(crate) struct Tally {
    /// Records that are in the keyspace.
    pub(crate) loaded: u64,
    /// Entries that were left out.
    pub(crate) bad: u64,
    /// What the input holds.
    content: Content,
    /// The name of the input.
    input: String,
    stop: bool,
    bar: ProgressBar,
}

impl Tally {
    /// An empty tally. With `stop` the first bad entry ends the load.
    pub(crate) fn new(stop: bool, content: Content, input: String, bar: ProgressBar) -> Self {
        Tally { loaded: 0, bad: 0, content, input, stop, bar }
    }

    /// Reports a bad entry; fails if the load must not go on.
    pub(crate) fn problem(&mut self, problem: Problem) -> Result<(), Failure> {
        let (number, reason) = match problem {
            Problem::Entry { number, reason } => (number, reason),
            Problem::Input(error) => {
                return Err(Failure::Told(format!("cannot read {} any further: {error}", self.input)));
            }
        };
        let what = format!("{} {number}: {reason}", self.content.entry());
        if self.stop {
            return Err(Failure::Told(format!("{what}; the load stopped there")));
        }
        self.bad += 1;
        self.bar.suspend(|| match self.bad {
            bad if bad <= REPORTED => warn(&what),
            bad if bad == REPORTED + 1 => warn(&format!("further bad {}s are only counted", self.content.entry())),
            _ => {}
        });
        Ok(())
    }

    /// Fails if anything was left out.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        let (loaded, bad, entry, input) = (self.loaded, self.bad, self.content.entry(), &self.input);
        match bad {
            0 => Ok(()),
            1 => Err(Failure::Told(format!("1 bad {entry} of {input} was left out; {loaded} good ones were loaded"))),
            _ => Err(Failure::Told(format!(
                "{bad} bad {entry}s of {input} were left out; {loaded} good ones were loaded"
            ))),
        }
    }

    /// Removes the progress bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
