//! A full check of an lsm keyspace: every block of every table against its index and filter, and every record once.

use std::{ops::Bound, sync::Arc};

use ecotone_substrate::{Result, memory::Component};

use super::{records::Lsm, scan::Scan};
use crate::engine::{Check, Cursor};

impl Lsm {
    /// Reads and checks everything. Writers go on meanwhile.
    pub(super) fn check(self: &Arc<Self>) -> Result<Check> {
        let mut check = Check::default();
        let version = self.version();
        for handle in version.tables() {
            self.idle.begin_anew();
            check.pages += u64::from(handle.table().blocks());
            let checked = handle.table().check(self.files.environment(), &|key| self.hash(key));
            checked.or_else(|error| check.found(error))?;
        }
        let spent = version.spent(version.covers());
        check.problems.extend(spent.map(|handle| format!("nothing of {} counts", handle.table().name().file())));
        let mut scan = Scan::new(self.clone(), (Bound::Unbounded, Bound::Unbounded), Component::Frames);
        check.count_records(|| Ok(scan.next()?.is_some()))?;
        Ok(check)
    }
}
