//! Reads the messages of a child while its parent waits, and detects a hang.

use std::{
    io::{BufRead, BufReader},
    process::Child,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use super::terms::Terms;
use crate::{
    measure::{message::Message, progress::Progress},
    row::{Row, Status},
};

/// Opening, settling and closing may take this many times as long as an operation before they count as hung.
const UNCOUNTED_FACTOR: u32 = 10;
/// Interval between checks of the clock.
const LOOK: Duration = Duration::from_millis(100);

/// The rows that a child reported, or the reason why there are none.
pub(super) type Reported = std::result::Result<Vec<Row>, (Status, String)>;

/// Watches a running child.
pub(super) struct Watch<'a> {
    terms: &'a Terms<'a>,
    messages: Receiver<Message>,
    reported: Reported,
    /// The phase, and whether its operations are counted.
    phase: String,
    counts: bool,
    progress: Option<Progress>,
    operations: u64,
    /// The time of the last progress.
    moved: Instant,
}

impl<'a> Watch<'a> {
    pub(super) fn new(terms: &'a Terms<'a>, child: &mut Child) -> Self {
        let (messages, reported, moved) = (messages(child), Ok(Vec::new()), Instant::now());
        Watch {
            terms,
            messages,
            reported,
            phase: "open".to_owned(),
            counts: false,
            progress: None,
            operations: 0,
            moved,
        }
    }

    /// Reads messages until the child is ready for a round (returns true) or has ended. Kills a child that hangs.
    pub(super) fn until_ready(&mut self, child: &mut Child) -> bool {
        self.moved = Instant::now();
        loop {
            match self.messages.recv_timeout(LOOK) {
                Ok(Message::Ready) => return true,
                Ok(message) => self.note(message),
                Err(RecvTimeoutError::Timeout) if self.moved.elapsed() > self.limit() => {
                    // A child that has just ended needs no kill.
                    let _ = child.kill();
                    let (seconds, phase) = (self.limit().as_secs_f64(), &self.phase);
                    self.reported =
                        Err((Status::Hung, format!("nothing moved for {seconds} s in the phase {phase:?}")));
                    return false;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Reads messages until the child has ended.
    pub(super) fn until_the_end(mut self, child: &mut Child) -> Reported {
        while self.until_ready(child) {}
        self.reported
    }

    fn limit(&self) -> Duration {
        if self.counts { self.terms.hang } else { self.terms.hang * UNCOUNTED_FACTOR }
    }

    fn note(&mut self, message: Message) {
        match message {
            Message::Begin { name, limit } => {
                self.progress = Some(Progress::begin(&format!("{}{name}", self.terms.title), limit));
                (self.phase, self.counts, self.operations) = (name, limit.is_some(), 0);
            }
            Message::Done { operations } => {
                if let Some(progress) = &self.progress {
                    progress.show(operations);
                }
                if operations == self.operations {
                    return;
                }
                self.operations = operations;
            }
            Message::Row(row) => self.reported.as_mut().map_or((), |rows| rows.push(*row)),
            Message::Failure { status, error } => self.reported = Err((status, error)),
            Message::End | Message::Ready => {
                (self.progress, self.counts) = (None, false);
                self.phase.insert_str(0, "after ");
            }
        }
        self.moved = Instant::now();
    }
}

/// The messages of a child. Other output, such as a library's, goes to standard error.
fn messages(child: &mut Child) -> Receiver<Message> {
    let output = child.stdout.take().expect("the output is a pipe");
    let (sender, messages) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
            match serde_json::from_str(&line) {
                // After a hang the receiver is gone.
                Ok(message) => drop(sender.send(message)),
                Err(_) => eprintln!("{line}"),
            }
        }
    });
    messages
}
