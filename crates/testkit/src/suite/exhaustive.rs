//! Every history of up to three operations from a small alphabet, with a crash and with a failure at every I/O of its
//! last operation. (The I/Os of earlier operations are tested as last ones of shorter histories.)

use std::io::ErrorKind;

use super::{
    Opener, UNLOGGED, Verdict,
    expect::{Expect, read_all},
    generate::KEYSPACES,
    guarded,
    recovery::{ending, ending_after_failure, interrupt_everywhere, recover, ways},
    session::{Interruption, Session},
    step::{Step, brief, delete, put},
};
use crate::{
    model::{Change, Ending, Level},
    sim::{Crash, SimStorage},
};

/// How much of everything is tried.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Operations in the longest histories.
    pub length: usize,
    /// One in so many of the longest histories is tried; shorter ones are all tried.
    pub one_in: usize,
    /// The number of the first longest history that is tried. The outcome of a crash is drawn anew for each number and
    /// for each history.
    pub first: usize,
    /// One in so many recoveries is interrupted at each of its I/Os.
    pub interrupt_one_in: usize,
}

/// What a run tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried {
    /// Histories.
    pub histories: u64,
    /// Moments at which the machine was switched off.
    pub crashes: u64,
    /// I/Os that failed.
    pub failures: u64,
    /// Interrupted recoveries.
    pub interrupted: u64,
}

/// Runs the suite.
pub fn run(opener: &dyn Opener, extent: Extent) -> Verdict<Tried> {
    let (disk, expect) = Session::aged(opener, 1, &KEYSPACES)?.close()?;
    let base = Base { opener, disk, expect };
    let mut tried = Tried::default();
    for length in 1..=extent.length {
        let (first, one_in) = if length == extent.length { (extent.first, extent.one_in) } else { (0, 1) };
        for number in (first..LETTERS.pow(length as u32)).step_by(one_in) {
            let history = history(number, length);
            let what = || format!("{}, exhaustive, [{}]", opener.name(), brief(&history));
            let salt = ((extent.first * LETTERS + length) * LETTERS.pow(extent.length as u32) + number) as u64;
            guarded(what, || base.try_history(&history, salt * APART, extent, &mut tried))?;
        }
    }
    Ok(tried)
}

const LETTERS: usize = 8;
/// The distance between the seeds of two histories: more than the I/Os of a history.
const APART: u64 = 1 << 20;

/// The `number`-th history of a length. Each operation writes a value of its own.
fn history(number: usize, length: usize) -> Vec<Step> {
    (0..length).map(|place| letter(number / LETTERS.pow(place as u32) % LETTERS, place as u8)).collect()
}

fn letter(letter: usize, place: u8) -> Step {
    let value = [b'v', place];
    match letter {
        0 => put(1, b"a", &value, Level::Buffered),
        1 => Step::Write(long_batch(place), Level::Buffered),
        2 => delete(1, b"a", Level::Buffered),
        3 => Step::Write(
            vec![((1, b"a".to_vec()), Some(value.to_vec())), ((2, b"c".to_vec()), Some(value.to_vec()))],
            Level::Buffered,
        ),
        4 => Step::Flush,
        5 => put(1, b"a", &value, Level::Sync),
        6 => put(UNLOGGED, b"u", &value, Level::Buffered),
        _ => delete(2, b"c", Level::Sync),
    }
}

/// Long enough for several pages of the log and two of an engine.
fn long_batch(place: u8) -> Vec<Change> {
    [b"b", b"\x10", b"\xd0"].map(|key| ((1, key.to_vec()), Some(vec![place; 1700]))).into()
}

/// The database that every history begins with.
struct Base<'a> {
    opener: &'a dyn Opener,
    disk: SimStorage,
    expect: Expect,
}

impl Base<'_> {
    fn begin(&self) -> Verdict<Session<'_>> {
        let session =
            Session::begin(self.opener, self.disk.crash(Crash::KeepAll), 2, self.expect.clone(), Ending::Closed);
        session.map_err(Interruption::unexpected)
    }

    fn try_history(&self, history: &[Step], salt: u64, extent: Extent, tried: &mut Tried) -> Verdict {
        let (first, end) = self.measure(history)?;
        tried.histories += 1;
        for index in first..=end {
            let (disk, expect) = self.crash(history, index, end)?;
            let at = |wrong| format!("crash at I/O {index} of {first}..{end}: {wrong}");
            for how in ways(salt + index) {
                let session = recover(self.opener, disk.crash(how), &expect, index, ending(how), &format!("{how:?}"))
                    .map_err(at)?;
                self.begin_again(session, history)
                    .map_err(|wrong| at(format!("{how:?}, then the same again: {wrong}")))?;
            }
            tried.crashes += 1;
            if tried.crashes.is_multiple_of(extent.interrupt_one_in as u64) {
                let ways = ways(salt + index);
                let how = ways[tried.crashes as usize / extent.interrupt_one_in % ways.len()];
                tried.interrupted += interrupt_everywhere(self.opener, (&disk, how), &expect, index, 1).map_err(at)?;
            }
        }
        for index in first..end {
            self.fail(history, salt, index)
                .map_err(|wrong| format!("failure of I/O {index} of {first}..{end}: {wrong}"))?;
            tried.failures += 1;
        }
        Ok(())
    }

    /// The range of the I/Os of the last step.
    fn measure(&self, history: &[Step]) -> Verdict<(u64, u64)> {
        let mut session = self.begin()?;
        let (last, before) = history.split_last().expect("a history has a step");
        session.run(before).map_err(Interruption::unexpected)?;
        let first = session.disk.io_index();
        session.step(last).map_err(Interruption::unexpected)?;
        Ok((first, session.disk.io_index()))
    }

    /// Runs the history up to a crash in I/O `index`; at `end` the crash comes between two I/Os.
    fn crash(&self, history: &[Step], index: u64, end: u64) -> Verdict<(SimStorage, Expect)> {
        let mut session = self.begin()?;
        if index < end {
            session.disk.crash_at(index);
        }
        match session.run(history) {
            Err(Interruption::Wrong(wrong)) => return Err(wrong),
            Err(Interruption::Failed(error)) if !session.disk.is_off() => {
                return Err(format!("failed on a sound disk: {error}"));
            }
            _ => {}
        }
        Ok(session.kill())
    }

    /// Runs a second session that begins as the first did, so that the same bytes go to the same places, and that ends
    /// before its last step.
    fn begin_again(&self, mut session: Session<'_>, history: &[Step]) -> Verdict {
        session.run(&history[..history.len() - 1]).map_err(Interruption::unexpected)?;
        let (disk, expect) = session.kill();
        recover(self.opener, disk.crash(Crash::KeepAll), &expect, 3, Ending::ProcessDeath, "that").map(drop)
    }

    /// Runs the history with one I/O that fails. Reads must go on; writes must stop, unless the failure left no write
    /// in doubt.
    fn fail(&self, history: &[Step], salt: u64, index: u64) -> Verdict {
        let mut session = self.begin()?;
        session.disk.fail_at(index, ErrorKind::Other);
        let ended = session.run(history);
        if let Err(Interruption::Wrong(wrong)) = ended {
            return Err(wrong);
        }
        read_on(&session)?;
        let stopped = session.store().failure().is_some();
        let written = session.step(&put(1, b"after", b"the failure", Level::Sync));
        match (stopped, written) {
            (true, Ok(())) => return Err("writing went on after a failure".into()),
            (false, Err(halt)) => return Err(format!("writing is not stopped, and {}", halt.unexpected())),
            _ => {}
        }
        let (disk, expect) = session.kill();
        ways(salt + index).into_iter().try_for_each(|how| {
            let ending = ending_after_failure(&disk, index, how);
            recover(self.opener, disk.crash(how), &expect, index, ending, &format!("{how:?}")).map(drop)
        })
    }
}

/// Reads everything after a failure; all reads must succeed.
fn read_on(session: &Session<'_>) -> Verdict {
    let read = |keyspace| read_all(session.store(), session.kind(), keyspace).map(drop);
    session.expect.keyspaces().into_iter().try_for_each(read).map_err(|wrong| format!("after the failure: {wrong}"))
}
