//! Starts a victim process, records what it acknowledges, and kills it.

use std::{
    io::{BufReader, Read},
    os::unix::process::ExitStatusExt,
    process::{ChildStdout, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use crate::{
    demo::{
        Demo,
        child::{self, ChildGuard},
        measure::Row,
        memory::peak_of,
        operations::THREADS,
        shapes::Shapes,
        victim::{MESSAGE, OPENED, SHAPED},
    },
    failure::Failure,
};

const SIGKILL: i32 = 9;
/// An open that takes longer than this is an error.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// The facts about a victim at its death.
#[derive(Debug)]
pub(crate) struct KilledChild {
    /// Acknowledged operations of each thread: all with a number below this.
    pub(crate) done: [u32; THREADS],
    /// The range shapes of an adaptive keyspace, as last reported.
    pub(crate) shapes: Shapes,
    /// Time from the open to the kill.
    pub(crate) worked: Duration,
    /// Its peak memory in bytes, where the system tells.
    pub(crate) peak: Option<u64>,
}

impl KilledChild {
    /// The victim's row in the table. Its device requests and latencies are unknown: they died with the process.
    pub(crate) fn row(&self) -> Row {
        let operations = self.done.iter().map(|&done| u64::from(done)).sum();
        Row { phase: "the same in a process, killed", operations, time: self.worked, latency: None, io: None }
    }
}

/// When the victim dies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// This long after it has opened the database.
    Working(Duration),
    /// This long after its start, perhaps while it opens the database.
    Anywhere(Duration),
}

/// Runs a victim for one round and kills it.
pub(crate) fn hunt(demo: &Demo, path: &std::path::Path, round: u32, moment: Moment) -> Result<KilledChild, Failure> {
    let mut child = start(demo, path, round)?;
    let messages = child.0.stdout.take().expect("standard output is a pipe");
    let (sender, opened) = mpsc::channel();
    let listener = thread::spawn(move || listen(messages, &sender));
    let began = wait(moment, &opened)?;
    let worked = began.elapsed();
    let peak = peak_of(&child.0.id().to_string());
    kill(&mut child)?;
    let (done, shapes) = listener.join().expect("the listener does not panic");
    Ok(KilledChild { done, shapes, worked, peak })
}

fn start(demo: &Demo, path: &std::path::Path, round: u32) -> Result<ChildGuard, Failure> {
    let mut command = child::command("demo-victim", path)?;
    command.args(["--memory", &demo.memory.to_string(), "--round", &round.to_string()]);
    if demo.small {
        command.arg("--small");
    }
    ChildGuard::start(command.stdout(Stdio::piped()))
}

/// Waits for the moment; returns early if the victim exits. Returns the time from which the moment was counted.
fn wait(moment: Moment, opened: &mpsc::Receiver<()>) -> Result<Instant, Failure> {
    let life = match moment {
        Moment::Working(life) => {
            if opened.recv_timeout(MAX_WAIT) == Err(RecvTimeoutError::Timeout) {
                return Err(Failure::Told(format!(
                    "the child process did not open the database within {} s",
                    MAX_WAIT.as_secs()
                )));
            }
            life
        }
        Moment::Anywhere(life) => life,
    };
    let began = Instant::now();
    // The listener closes the channel when the victim closes its end of the pipe.
    while began.elapsed() < life {
        if opened.recv_timeout(life.saturating_sub(began.elapsed())) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    Ok(began)
}

/// Reads messages to the end, and returns the acknowledged operations and the shapes.
fn listen(messages: ChildStdout, opened: &Sender<()>) -> ([u32; THREADS], Shapes) {
    let mut messages = BufReader::with_capacity(1 << 16, messages);
    let (mut done, mut shapes) = ([0; THREADS], Shapes::default());
    let mut message = [0; MESSAGE];
    while messages.read_exact(&mut message).is_ok() {
        let (thread, number) = message.split_at(MESSAGE / 2);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        match word(thread) {
            OPENED => drop(opened.send(())),
            SHAPED => shapes = Shapes(word(number)),
            thread => done[thread as usize] = word(number) + 1,
        }
    }
    (done, shapes)
}

/// Kills the child, which must still be alive.
fn kill(child: &mut ChildGuard) -> Result<(), Failure> {
    let failed = |error| Failure::Told(format!("cannot kill the child process: {error}"));
    child.0.kill().map_err(failed)?;
    let status = child.0.wait().map_err(failed)?;
    match status.signal() {
        Some(SIGKILL) => Ok(()),
        _ => Err(Failure::Told(format!("the child process ended by itself before it was killed ({status})"))),
    }
}
