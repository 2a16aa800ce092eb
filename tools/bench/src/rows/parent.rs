//! One row as its parent sees it: a child in its own cgroup, watched until it ends or hangs.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use super::{
    cgroup::{self, Cgroup},
    message::{Job, Message, Status},
};
use crate::{
    cli::RunOptions,
    error::{Context, Error, Result},
    files,
    progress::Progress,
    row::Row,
    size,
};

/// Opening, settling and closing have this many times as long as an operation before they count as hung.
const PATIENCE: u32 = 10;
/// Between two looks at the clock.
const LOOK: Duration = Duration::from_millis(100);

/// How a child is run.
pub(super) struct Terms<'a> {
    /// Stands before the names of the phases.
    pub(super) title: &'a str,
    /// Limit of its memory cgroup in bytes.
    pub(super) memory: Option<u64>,
    /// Whether it is an error if that cannot be set.
    pub(super) must_limit: bool,
    /// Longest time in which no operation ends.
    pub(super) hang: Duration,
}

/// What became of a child.
pub(super) struct Ending {
    pub(super) result: std::result::Result<Box<Row>, (Status, String)>,
    /// What its memory cgroup allowed.
    pub(super) cgroup_limit: Option<u64>,
    /// The most memory that its cgroup had in use.
    pub(super) cgroup_peak: Option<u64>,
}

impl Ending {
    /// Of a row that was not even begun.
    pub(super) fn failure(error: &Error) -> Self {
        Ending { result: Err((Status::Failed, error.to_string())), cgroup_limit: None, cgroup_peak: None }
    }
}

/// Carries a row out in a child.
pub(super) fn row(options: &RunOptions, terms: &Terms<'_>) -> Result<Ending> {
    files::drop_cached(&options.dir)?;
    let disk = options.dir.ancestors().find(|directory| directory.exists()).and_then(cgroup::disk_of);
    let cgroup = Cgroup::new(terms.memory, disk.as_deref());
    if terms.must_limit && terms.memory.is_some() && !cgroup.is_limited() {
        return Err("no memory cgroup can be made here, and --cgroup-memory asks for one".into());
    }
    let job = Job { options: options.clone(), accounts: cgroup.accounts(disk) };
    let mut child = start(&cgroup, &job)?;
    let told = Watch::new(terms).until_the_end(&mut child);
    let status = child.wait().context("wait for", &options.dir)?;
    let result = told.unwrap_or_else(|| Err(unexplained(status, &cgroup, terms)));
    let cgroup_limit = terms.memory.filter(|_| cgroup.is_limited());
    Ok(Ending { result, cgroup_limit, cgroup_peak: cgroup.peak() })
}

/// Starts a child, which waits for its job, and gives it one when it is in its cgroup.
fn start(cgroup: &Cgroup, job: &Job) -> Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    let environment = job.options.store.environment().iter().filter(|(name, _)| env::var_os(name).is_none());
    command.envs(environment.copied());
    let mut child = command.arg("row").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let given = cgroup.add(child.id()).and_then(|()| {
        let mut input = child.stdin.take().expect("the input is a pipe");
        Ok(input.write_all(serde_json::to_string(job)?.as_bytes())?)
    });
    if given.is_err() {
        let _ = child.kill();
        child.wait()?;
    }
    given.map(|()| child)
}

/// Why a child ended that did not say so itself.
fn unexplained(status: ExitStatus, cgroup: &Cgroup, terms: &Terms<'_>) -> (Status, String) {
    match (cgroup.ran_out(), terms.memory) {
        (true, Some(limit)) => {
            let limit = size::show(limit);
            (Status::OutOfMemory, format!("the kernel killed the process: it needed more than the {limit} of its memory cgroup"))
        }
        _ => match status.signal() {
            Some(signal) => (Status::Failed, format!("the process was ended by signal {signal}")),
            None => (Status::Failed, format!("the process ended without a result: {status}")),
        },
    }
}

/// What a child told at its end.
type Told = std::result::Result<Box<Row>, (Status, String)>;

/// Looks after a running child.
struct Watch<'a> {
    terms: &'a Terms<'a>,
    /// The phase, and whether its operations are counted.
    phase: String,
    counts: bool,
    progress: Option<Progress>,
    operations: u64,
    /// When something last moved.
    moved: Instant,
}

impl<'a> Watch<'a> {
    fn new(terms: &'a Terms<'a>) -> Self {
        Watch { terms, phase: "open".to_owned(), counts: false, progress: None, operations: 0, moved: Instant::now() }
    }

    /// Reads messages until the child ends; kills it if it hangs. `None` if it ended without a word.
    fn until_the_end(mut self, child: &mut Child) -> Option<Told> {
        let messages = messages(child);
        let mut told = None;
        loop {
            match messages.recv_timeout(LOOK) {
                Ok(Message::Row(row)) => told = Some(Ok(row)),
                Ok(Message::Failure { status, error }) => told = Some(Err((status, error))),
                Ok(message) => self.note(message),
                Err(RecvTimeoutError::Timeout) if self.moved.elapsed() > self.limit() => {
                    // One that ended just now needs no killing.
                    let _ = child.kill();
                    let (seconds, phase) = (self.limit().as_secs_f64(), &self.phase);
                    return Some(Err((Status::Hung, format!("nothing moved for {seconds} s in the phase {phase:?}"))));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return told,
            }
        }
    }

    fn limit(&self) -> Duration {
        if self.counts { self.terms.hang } else { self.terms.hang * PATIENCE }
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
            Message::End | Message::Row(_) | Message::Failure { .. } => {
                (self.progress, self.counts) = (None, false);
                self.phase.insert_str(0, "after ");
            }
        }
        self.moved = Instant::now();
    }
}

/// The messages of a child. What a library prints there goes to standard error.
fn messages(child: &mut Child) -> Receiver<Message> {
    let output = child.stdout.take().expect("the output is a pipe");
    let (sender, messages) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
            match serde_json::from_str(&line) {
                // Nobody listens any more after a hang.
                Ok(message) => drop(sender.send(message)),
                Err(_) => eprintln!("{line}"),
            }
        }
    });
    messages
}
