//! The parent's side of a store's rows: it runs a child in its own cgroup and requests one round after the other.

use std::{
    env,
    io::Write,
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    cgroup::{self, Cgroup},
    child::Job,
    terms::Terms,
    watch::Watch,
};
use crate::{
    error::{Error, Result},
    measure::{
        files,
        options::{RunOptions, WorkloadStep},
        progress::Progress,
    },
    row::{Row, Status},
    size,
};

/// The outcome of a round.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    pub(super) result: std::result::Result<Box<Row>, (Status, String)>,
    /// The limit of its memory cgroup.
    pub(super) cgroup_limit: Option<u64>,
    /// The peak memory of its cgroup.
    pub(super) cgroup_peak: Option<u64>,
}

impl Ending {
    /// The outcome of a row that could not start.
    pub(super) fn failure(error: &Error) -> Self {
        Ending { result: Err((Status::Failed, error.to_string())), cgroup_limit: None, cgroup_peak: None }
    }
}

/// A child with an open store.
pub(super) struct Running<'a> {
    child: Child,
    requests: ChildStdin,
    cgroup: Cgroup,
    watch: Watch<'a>,
    terms: &'a Terms<'a>,
}

impl<'a> Running<'a> {
    /// Starts a child, which opens its store and warms it up.
    pub(super) fn start(options: &RunOptions, terms: &'a Terms<'a>) -> Result<Self> {
        wake(options, terms)?;
        let disk = options.dir.ancestors().find(|directory| directory.exists()).and_then(cgroup::disk_of);
        let cgroup = Cgroup::new(terms.memory, disk.as_deref());
        if terms.must_limit && terms.memory.is_some() && !cgroup.is_limited() {
            return Err("no memory cgroup can be made here, and --cgroup-memory asks for one".into());
        }
        let job = Job { options: options.clone(), accounts: cgroup.accounts(disk) };
        let (mut child, requests) = start(&cgroup, &job)?;
        let watch = Watch::new(terms, &mut child);
        Ok(Running { child, requests, cgroup, watch, terms })
    }

    /// Waits until the child is ready for a round. Returns at once if the child has ended.
    pub(super) fn wait(&mut self) {
        self.watch.until_ready(&mut self.child);
    }

    /// Requests a round of a workload.
    pub(super) fn ask(&mut self, step: WorkloadStep) -> Result<()> {
        let request = serde_json::to_string(&step)?;
        // A child that has ended reports the reason at the end.
        let _ = writeln!(self.requests, "{request}");
        Ok(())
    }

    /// Suspends all threads of the child, or resumes them.
    pub(super) fn hold(&self, still: bool) -> Result<()> {
        let signal = if still { Signal::STOP } else { Signal::CONT };
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Tells the child to close its store; returns the outcomes of its rounds.
    pub(super) fn end(mut self, rounds: usize) -> Result<Vec<Ending>> {
        drop(self.requests);
        let reported = self.watch.until_the_end(&mut self.child);
        let status = self.child.wait()?;
        let cgroup_limit = self.terms.memory.filter(|_| self.cgroup.is_limited());
        let cgroup_peak = self.cgroup.peak();
        let ending = |result| Ending { result, cgroup_limit, cgroup_peak };
        let whole = |rows: &Vec<Row>| status.success() && rows.len() == rounds;
        let reported = match reported {
            Ok(rows) if !whole(&rows) => Err(unexplained(status, &self.cgroup, self.terms)),
            reported => reported,
        };
        Ok(match reported {
            Ok(rows) => rows.into_iter().map(|row| ending(Ok(Box::new(row)))).collect(),
            Err(failure) => vec![ending(Err(failure)); rounds],
        })
    }
}

/// Reads the store's files and drops their pages, so that every store starts with an awake disk and is charged for the
/// pages that it caches.
fn wake(options: &RunOptions, terms: &Terms<'_>) -> Result<()> {
    let _waiting = Progress::waiting(&format!("{}read the files through", terms.title));
    files::wake(&options.dir)
}

/// Starts a child, which waits for its job, moves it into its cgroup, and sends the job.
fn start(cgroup: &Cgroup, job: &Job) -> Result<(Child, ChildStdin)> {
    let mut command = Command::new(env::current_exe()?);
    let environment = job.options.store.environment().iter().filter(|(name, _)| env::var_os(name).is_none());
    command.envs(environment.copied());
    let mut child = command.arg("row").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut requests = child.stdin.take().expect("the input is a pipe");
    let given = cgroup.add(child.id()).and_then(|()| Ok(writeln!(requests, "{}", serde_json::to_string(job)?)?));
    if given.is_err() {
        let _ = child.kill();
        child.wait()?;
    }
    given.map(|()| (child, requests))
}

/// The reason why a child ended without reporting one.
fn unexplained(status: ExitStatus, cgroup: &Cgroup, terms: &Terms<'_>) -> (Status, String) {
    match (cgroup.ran_out(), terms.memory) {
        (true, Some(limit)) => {
            let limit = size::show(limit);
            (
                Status::OutOfMemory,
                format!("the kernel killed the process: it needed more than the {limit} of its memory cgroup"),
            )
        }
        _ => match status.signal() {
            Some(signal) => (Status::Failed, format!("the process was ended by signal {signal}")),
            None => (Status::Failed, format!("the process ended without a result: {status}")),
        },
    }
}
