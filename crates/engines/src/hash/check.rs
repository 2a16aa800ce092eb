//! A full check of a hash keyspace: what it consists of, every page of its log on disk, and every record once.

use std::sync::Arc;

use ecotone_substrate::{Result, memory::Component};
use ecotone_sys::chunk::Size;

use super::{
    Hash,
    install::Files,
    log::{Address, PAGE},
    walk::Walk,
};
use crate::engine::{Check, Walk as _};

impl Hash {
    /// Reads and checks everything. Writers go on meanwhile.
    pub(super) fn check(self: &Arc<Self>, files: &Files) -> Result<Check> {
        let mut check = Check::default();
        check.problems.extend(files.structure().check().err().map(str::to_owned));
        self.check_pages(files, &mut check)?;
        let mut walk = Walk::new(self.clone());
        loop {
            match walk.next() {
                Ok(Some(_)) => check.records += 1,
                Ok(None) => return Ok(check),
                Err(error) => {
                    check.problems.push(error.to_string());
                    return Ok(check);
                }
            }
        }
    }

    /// Checks the pages that the log has on disk.
    fn check_pages(&self, files: &Files, check: &mut Check) -> Result<()> {
        let mut frame = files.environment().memory.lease_essential(Component::Frames, Size::Frame)?;
        let (mut page, until) = (self.log.bounds().begin(), self.log.bounds().durable());
        while page < until {
            let checked = self.check_page(page, &mut frame);
            // What has left the log meanwhile need not be there.
            if let Err(error) = checked
                && page >= self.log.bounds().begin()
            {
                check.problems.push(error.to_string());
            }
            check.pages += 1;
            page = page.plus(PAGE);
        }
        Ok(())
    }

    fn check_page(&self, page: Address, frame: &mut [u8]) -> Result<()> {
        let segment = self.log.segment(page)?;
        segment.file().read(frame, segment.offset(page))?;
        let parsed = segment.parse(page, frame)?;
        parsed.records().try_for_each(|record| record.map(drop)).map_err(|malformed| segment.damaged(page, malformed))
    }
}
