//! A full check of a hash keyspace: its structure, every page of its log on disk, every block of its runs, and every
//! record once.

use std::sync::Arc;

use ecotone_engine::contract::{Check, UnorderedCursor as _};
use ecotone_substrate::{Result, environment::Environment, memory::Component};
use ecotone_sys::chunk::Size;

use super::{
    Hash,
    cold::Runs,
    install::Files,
    log::{Address, HotLog, PAGE},
    walk::HashCursor,
};

/// Reads and checks everything. Writers go on meanwhile.
pub(super) fn check(hash: &Arc<Hash>, files: &Files) -> Result<Check> {
    let mut check = Check::default();
    check.problems.extend(files.manifest().check().err().map(str::to_owned));
    check_pages(&hash.chains.log, files, &mut check)?;
    check_runs(hash, files.environment(), &mut check)?;
    let mut walk = HashCursor::new(hash.clone());
    check.count_records(|| Ok(walk.next()?.is_some()))?;
    Ok(check)
}

/// Checks the blocks, fences and tags of all runs.
pub(super) fn check_runs(hash: &Hash, environment: &Environment, check: &mut Check) -> Result<()> {
    let hash_of = |key: &[u8]| hash.chains.key(key).hash;
    let blocks = Runs::check(|| hash.cold.runs(), environment, &hash_of, &mut |error| check.add_problem(error))?;
    check.pages += blocks;
    Ok(())
}

/// Checks the pages that the log has on disk.
fn check_pages(log: &HotLog, files: &Files, check: &mut Check) -> Result<()> {
    let mut frame = files.environment().memory.lease_essential(Component::Frames, Size::Frame)?;
    let (mut page, until) = (log.bounds().begin(), log.bounds().durable());
    while page < until {
        let checked = check_page(log, page, &mut frame);
        // A page that has left the log meanwhile need not exist.
        if let Err(error) = checked
            && page >= log.bounds().begin()
        {
            check.add_problem(error)?;
        }
        check.pages += 1;
        page = page.plus(PAGE);
    }
    Ok(())
}

fn check_page(log: &HotLog, page: Address, frame: &mut [u8]) -> Result<()> {
    let segment = log.segment(page)?;
    segment.file().read(frame, segment.offset(page))?;
    let parsed = segment.parse(page, frame)?;
    parsed.records().try_for_each(|record| record.map(drop)).map_err(|malformed| segment.damaged(page, malformed))
}
