//! Bringing what was written into the files (decision 9, "Durability, logged and not").

use ecotone_substrate::{Result, Seq};

use super::{
    Hash,
    install::Files,
    log::{Address, PAGE},
};

impl Hash {
    /// Has everything on disk, synced, that was applied before and has a sequence below `below`; what has none is below all.
    pub(super) fn flush(&self, files: &Files, below: Seq) -> Result<()> {
        let Some(until) = self.flush_until(files.context().logged, below) else { return Ok(()) };
        self.log.freeze(until);
        files.write_durably(&self.log, until)
    }

    /// Up to which page boundary that lies. `None` if all of it is on disk.
    fn flush_until(&self, logged: bool, below: Seq) -> Option<Address> {
        let until = if logged { self.log.last_below(below)?.plus(PAGE) } else { self.log.tail() };
        let until = if until < self.log.tail() { until } else { self.log.close_page() };
        (until > self.log.bounds().durable()).then_some(until)
    }
}
