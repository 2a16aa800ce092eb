//! The process that is killed. It works on the database and reports each acknowledged write to its parent over standard
//! output. The ranges of an adaptive keyspace convert meanwhile.

use std::{
    fs::File,
    io::Write,
    os::fd::AsFd,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use clap::Args;
use ecotone::Database;

use crate::{
    demo::{
        child,
        keyspaces::{DemoKeyspaces, Universe},
        operations::{Operations, THREADS},
        sets::Sizes,
        shapes,
    },
    failure::Failure,
};

/// Bytes of a message: two integers of 4 bytes each. They are a thread and an operation number, or a report about
/// ranges.
pub(crate) const MESSAGE: usize = 8;
/// Stands for a thread in the message that the database is open, and in those of what ranges are.
pub(crate) const OPENED: u32 = u32::MAX;
pub(crate) const SHAPED: u32 = u32::MAX - 1;

/// What the victim works on.
#[derive(Debug, Args)]
pub(crate) struct CrashChild {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// Memory in bytes
    #[arg(long)]
    pub(crate) memory: usize,
    /// Which life this is, from 1 to 250
    #[arg(long)]
    pub(crate) round: u32,
    /// The small sets
    #[arg(long)]
    pub(crate) small: bool,
}

impl CrashChild {
    /// Works until it is killed or its parent dies.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        thread::spawn(|| {
            child::wait_for_parent();
            std::process::exit(1);
        });
        let messages = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
        let universe = Universe::new(if self.small { Sizes::SMALL } else { Sizes::FULL });
        let database = Database::builder(&self.path).memory_budget(self.memory).create(false).open()?;
        let keyspaces = DemoKeyspaces::open(&database, &universe)?;
        send(&messages, OPENED, 0)?;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let work = |thread| work(&keyspaces, &messages, self.round, thread, &stop);
            let mut threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.push(scope.spawn(|| change_shapes(&keyspaces, &messages, &stop)));
            threads.into_iter().try_for_each(|thread| thread.join().expect("a worker does not panic"))
        })
    }
}

fn work(
    keyspaces: &DemoKeyspaces<'_>,
    messages: &File,
    round: u32,
    thread: usize,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    for operation in Operations::new(keyspaces.universe.len(), round, thread) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut done = keyspaces.act(&operation);
        if done.is_ok() && !operation.action.writes().is_empty() {
            done = send(messages, thread as u32, operation.number);
        }
        if done.is_err() {
            stop.store(true, Ordering::Relaxed);
            return done;
        }
    }
    Ok(())
}

fn change_shapes(keyspaces: &DemoKeyspaces<'_>, messages: &File, stop: &AtomicBool) -> Result<(), Failure> {
    let changed = shapes::change(keyspaces, stop, |shapes| send(messages, SHAPED, shapes.0));
    if changed.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    changed
}

/// Sends a message in one write of a few bytes. A pipe takes such a write whole, so threads need no lock.
fn send(mut messages: &File, thread: u32, number: u32) -> Result<(), Failure> {
    let mut message = [0; MESSAGE];
    message[..4].copy_from_slice(&thread.to_le_bytes());
    message[4..].copy_from_slice(&number.to_le_bytes());
    Ok(messages.write_all(&message)?)
}
