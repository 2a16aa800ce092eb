//! Crashes a disk, recovers from it, and crashes again during the recovery.

use super::{
    Opener, Verdict,
    expect::Expect,
    session::{Interruption, Session},
};
use crate::{
    model::Ending,
    sim::{Crash, Io, SimStorage},
};

/// The ways to crash one moment; `seed` chooses what is torn.
pub(super) fn ways(seed: u64) -> [Crash; 5] {
    [Crash::KeepAll, Crash::DropAll, Crash::Random(seed), Crash::Random(seed ^ 0x5555), Crash::Random(seed ^ 0xAAAA)]
}

/// The end that a crash is, for the promises of writes.
pub(super) fn ending(how: Crash) -> Ending {
    match how {
        Crash::KeepAll => Ending::ProcessDeath,
        Crash::DropAll | Crash::Random(_) => Ending::PowerLoss,
    }
}

/// The end that two crashes without a recovery between them are.
pub(super) fn both(first: Crash, second: Crash) -> Ending {
    if ending(first) == Ending::PowerLoss { Ending::PowerLoss } else { ending(second) }
}

/// The end after I/O `index` failed: a failed sync loses the kernel's unsynced data, as a power failure does.
pub(super) fn ending_after_failure(disk: &SimStorage, index: u64, how: Crash) -> Ending {
    let failed = usize::try_from(index).ok().and_then(|index| disk.labels().get(index).copied());
    if failed.is_some_and(|label| label.io == Io::Sync) { Ending::PowerLoss } else { ending(how) }
}

/// Recovers, and judges the content.
pub(super) fn recover<'a>(
    opener: &'a dyn Opener,
    disk: SimStorage,
    expect: &Expect,
    seed: u64,
    ending: Ending,
    how: &str,
) -> Verdict<Session<'a>> {
    Session::begin(opener, disk, seed, expect.clone(), ending).map_err(|halt| match halt {
        Interruption::Failed(error) => format!("after {how} the recovery failed: {error}"),
        Interruption::Wrong(wrong) => format!("after {how}: {wrong}"),
    })
}

/// Begins to recover and to flush, and crashes at I/O `index` of that work. Gives the disk, to be crashed in any way,
/// or `None` if there is no such I/O.
pub(super) fn interrupt(opener: &dyn Opener, disk: SimStorage, seed: u64, index: u64) -> Verdict<Option<SimStorage>> {
    disk.crash_at(index);
    let opened = opener.open(&disk, seed);
    let ended = opened.as_ref().map_err(Clone::clone).and_then(|store| store.flush());
    let reached = disk.is_off();
    // I/Os of the closing do not count.
    disk.power_off();
    drop(opened);
    match ended {
        Err(error) if !reached => Err(format!("recovery failed on a sound disk: {error}")),
        _ => Ok(reached.then_some(disk)),
    }
}

/// Interrupts the recovery from one crash at every `stride`-th of its I/Os, and judges what a second recovery finds.
/// Gives the number of interruptions.
pub(super) fn interrupt_everywhere(
    opener: &dyn Opener,
    (disk, first): (&SimStorage, Crash),
    expect: &Expect,
    seed: u64,
    stride: usize,
) -> Verdict<u64> {
    let mut count = 0;
    for index in (0..).step_by(stride) {
        let Some(halfway) = interrupt(opener, disk.crash(first), seed, index)? else { break };
        for second in ways(seed ^ index) {
            let how = format!("{first:?} and, at I/O {index} of recovery, {second:?}");
            recover(opener, halfway.crash(second), expect, seed, both(first, second), &how)?;
            count += 1;
        }
    }
    Ok(count)
}
