//! A full check of an LSM keyspace: every block of every table against its index and filter, the bounds of pages, and
//! every record once. The page tier checks its pages itself.

use std::{iter, ops::Bound, sync::Arc};

use ecotone_engine::contract::Check;
use ecotone_substrate::{Result, memory::Component};

use crate::{pages::conversion::Conversion, read::iterator::cursor, store::Lsm};

/// Reads and checks everything. Writers go on meanwhile.
pub(super) fn check(lsm: &Arc<Lsm>) -> Result<Check> {
    let mut check = Check::default();
    let version = lsm.version();
    for reader in version.tables() {
        lsm.idle.reset();
        check.pages += u64::from(reader.table().blocks());
        let checked = reader.table().check(lsm.files.environment(), &|key| lsm.hash(key));
        checked.or_else(|error| check.add_problem(error))?;
    }
    let fully_superseded = version.fully_superseded(version.paged_ranges());
    check.problems.extend(fully_superseded.map(|reader| format!("nothing of {} counts", reader.table().name().file())));
    let keyspace = lsm.files.context().keyspace;
    let misplaced = format!("a range of keyspace {keyspace} that pages cover ends within a segment");
    check.problems.extend(iter::repeat_n(misplaced, Conversion::of(lsm).map_or(0, Conversion::misplaced_bounds)));
    let mut scan = cursor(lsm.clone(), (Bound::Unbounded, Bound::Unbounded), Component::Frames);
    check.count_records(|| Ok(scan.next()?.is_some()))?;
    Ok(check)
}
