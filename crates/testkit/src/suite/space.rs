//! A full disk: when a database is made, and at every growth in a history.

use std::collections::BTreeSet;

use super::{
    Opener, Verdict,
    generate::{Generator, KEYSPACES, Shape},
    guarded,
    session::{Interruption, Session},
    step::Step,
};
use crate::{
    model::Ending,
    sim::{Crash, SimStorage},
};

/// Makes the disk full at every growth, and gives the number of refused calls.
pub fn run(opener: &dyn Opener, seed: u64, shape: Shape) -> Verdict<u64> {
    guarded(|| format!("{}, making a database on a full disk", opener.name()), || make(opener))?;
    let what = || format!("{}, full disk, seed {seed}, {shape:?}", opener.name());
    guarded(what, || grow(opener, seed, shape))
}

/// After any attempt on a full disk, the next attempt with more space succeeds.
fn make(opener: &dyn Opener) -> Verdict {
    let whole = Session::fresh(opener, 1, &KEYSPACES)?.disk.space_used();
    for part in 0..16 {
        let disk = SimStorage::new(part);
        disk.space_limit(whole * part / 16);
        match opener.open(&disk, 1) {
            Err(error) if !error.is_no_space() => return Err(format!("with {part}/16 of the space: {error}")),
            answer => drop(answer),
        }
        disk.space_limit(u64::MAX);
        let session = Session::begin(opener, disk.crash(Crash::KeepAll), 1, Default::default(), Ending::Closed);
        let mut session = session.map_err(|halt| format!("after {part}/16 of the space: {}", halt.unexpected()))?;
        KEYSPACES
            .iter()
            .try_for_each(|keyspace| session.step(&Step::Create(*keyspace)))
            .map_err(Interruption::unexpected)?;
        session.close()?;
    }
    Ok(())
}

fn grow(opener: &dyn Opener, seed: u64, shape: Shape) -> Verdict<u64> {
    let reopens = |step: &Step| *step == Step::Reopen;
    let steps: Vec<Step> =
        Generator::of(opener, seed, shape).history().into_iter().filter(|step| !reopens(step)).collect();
    let mut refused = 0;
    for limit in levels(opener, seed, &steps)? {
        let told = |wrong| format!("with {limit} bytes: {wrong}");
        refused += fill(opener, seed, &steps, limit).map_err(told)?;
        [true, false].iter().try_for_each(|closes| restart(opener, seed, &steps, limit, *closes)).map_err(told)?;
    }
    Ok(refused)
}

/// The space in use before each step that increased it. An engine may free space and take it again, so the numbers need
/// not rise.
fn levels(opener: &dyn Opener, seed: u64, steps: &[Step]) -> Verdict<BTreeSet<u64>> {
    let mut session = Session::fresh(opener, seed, &KEYSPACES)?;
    let mut levels = BTreeSet::new();
    for step in steps {
        let before = session.disk.space_used();
        session.step(step).map_err(Interruption::unexpected)?;
        levels.extend((before < session.disk.space_used()).then_some(before));
    }
    Ok(levels)
}

/// Runs the history on a disk that becomes full at `limit`, and continues when there is space again. Reads are right
/// all the time, no reopen is needed, and nothing is lost.
fn fill(opener: &dyn Opener, seed: u64, steps: &[Step], limit: u64) -> Verdict<u64> {
    let mut session = Session::fresh(opener, seed, &KEYSPACES)?;
    session.disk.space_limit(limit);
    session.run(steps).map_err(|halt| format!("on a full disk: {}", halt.unexpected()))?;
    let refused = std::mem::take(&mut session.refused);
    session.disk.space_limit(u64::MAX);
    session
        .run(&[Step::Flush])
        .and_then(|()| session.run(steps))
        .map_err(|halt| format!("with space again: {}", halt.unexpected()))?;
    if session.refused > 0 {
        return Err(format!("{} calls were refused though there was space again", session.refused));
    }
    let (disk, expect) = session.close()?;
    Session::begin(opener, disk, seed, expect, Ending::Closed).map_err(Interruption::unexpected)?;
    Ok(refused)
}

/// Runs the history on a disk that becomes full at `limit`, and ends the session there, by a close or a kill. The next
/// session opens on the full disk, reads everything, and writes when there is space again.
fn restart(opener: &dyn Opener, seed: u64, steps: &[Step], limit: u64, closes: bool) -> Verdict {
    let mut session = Session::fresh(opener, seed, &KEYSPACES)?;
    session.disk.space_limit(limit);
    session.run(steps).map_err(|halt| format!("on a full disk: {}", halt.unexpected()))?;
    let (disk, expect, ending) = if closes {
        session.close_if_it_fits()?
    } else {
        let (disk, expect) = session.kill();
        (disk.crash(Crash::KeepAll), expect, Ending::ProcessDeath)
    };
    let mut session = Session::begin(opener, disk, seed, expect, ending)
        .map_err(|halt| format!("opening on a full disk ({ending:?}): {}", halt.unexpected()))?;
    session.disk.space_limit(u64::MAX);
    session.run(steps).map_err(|halt| format!("with space again ({ending:?}): {}", halt.unexpected()))?;
    if session.refused > 0 {
        return Err(format!("{} calls were refused though there was space again", session.refused));
    }
    session.close().map(drop)
}
