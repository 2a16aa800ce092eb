//! Traps that a crash springs: each story is ended at every one of its I/Os, in several ways, and what the next life finds is judged.

use ecotone_testkit::{
    model::{Ending, Level},
    sim::{Crash, SimStorage},
};

use super::{World, value};

/// Ends `story` at its I/Os, every `stride`-th of them, by death of the process and by power failures. Gives the number of ends.
fn end_everywhere(world: &World, stride: usize, story: impl Fn(&mut World) -> ecotone::Result<()>) -> u64 {
    let mut ends = 0;
    for index in (0..).step_by(stride) {
        let mut life = world.copied(Crash::KeepAll);
        life.disk.crash_at(life.disk.io_index() + index);
        let ended = story(&mut life);
        if !life.disk.is_off() {
            ended.unwrap();
            assert!(ends > 20, "the story has {ends} I/Os");
            return ends;
        }
        for how in [Crash::KeepAll, Crash::DropAll, Crash::Random(index), Crash::Random(!index)] {
            let next = life.copied(how);
            let ending = if matches!(how, Crash::KeepAll) { Ending::ProcessDeath } else { Ending::PowerLoss };
            next.check(ending, &format!("after {how:?} at I/O {index} of the story"));
            kill(&next.disk);
            ends += 1;
        }
    }
    unreachable!("a story ends")
}

/// What follows on this disk counts no more.
fn kill(disk: &SimStorage) {
    disk.power_off();
}

/// Structures change, and the space of the old ones is used again at once.
#[test]
fn trap_05_reuse_too_early() {
    let world = World::loaded((0..24).map(|_| 900));
    end_everywhere(&world, 3, |world| {
        for round in 1..4 {
            for number in 0..24 {
                let grown = value(number, round, 500 + 400 * usize::from((number + u32::from(round)) % 3 == 0));
                world.write(number, Some(grown), Level::Buffered)?;
            }
            world.store.flush()?;
            while world.store.background() {}
        }
        Ok(())
    });
}

/// Pages are overwritten where they are.
#[test]
fn trap_06_torn_pages() {
    let world = World::loaded((0..40).map(|_| 900));
    end_everywhere(&world, 1, |world| {
        for number in 0..40 {
            world.write(number, Some(value(number, 1, 900)), Level::Buffered)?;
        }
        world.store.flush()
    });
}

/// More than one segment of log, which a checkpoint makes unneeded.
#[test]
fn trap_14_checkpoint_against_truncation() {
    let mut world = World::loaded((0..800).map(|_| 10));
    for number in 0..800 {
        let level = if number % 100 == 0 { Level::Sync } else { Level::Buffered };
        world.write(number, Some(value(number, 1, 1_500)), level).unwrap();
    }
    world.store.sync().unwrap();
    world.model.acknowledge_all(Level::Sync);
    end_everywhere(&world, 41, |world| {
        world.store.flush()?;
        for number in 0..800 {
            world.write(number, Some(value(number, 2, 1_400)), Level::Buffered)?;
        }
        world.store.flush()
    });
}

/// Nothing is synced before its pages are: what survives is a prefix all the same.
#[test]
fn trap_15_pages_ahead_of_the_log() {
    let world = World::loaded((0..40).map(|_| 900));
    end_everywhere(&world, 1, |world| {
        for number in (0..40).rev().step_by(3) {
            world.write(number, Some(value(number, 1, 500)), Level::Buffered)?;
        }
        world.store.flush()
    });
}

/// A put is in the log, its delete is not, and the page knows of both.
#[test]
fn trap_16_replay_over_newer_files() {
    let world = World::loaded((0..40).map(|_| 900));
    end_everywhere(&world, 1, |world| {
        for number in (0..40).step_by(7) {
            world.write(number, Some(value(number, 1, 500)), Level::Sync)?;
        }
        for number in (0..40).step_by(7) {
            world.write(number, None, Level::Buffered)?;
            world.write(100 + number, Some(value(number, 1, 500)), Level::Buffered)?;
        }
        world.store.flush()
    });
}
