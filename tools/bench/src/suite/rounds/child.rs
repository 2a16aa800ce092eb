//! The hidden subcommand `row`: the child process that runs one row and reports to its parent.

use std::{
    io::{self, BufRead},
    process::ExitCode,
};

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, WrongAnswer},
    measure::{message::Message, options::RunOptions, progress, rows, store::Unavailable, transfers::Accounts},
    row::Status,
};

/// The first line that the parent writes to a child's standard input, once the child is in its cgroups. Each later line
/// names the workload of a round. At the end of the input the child closes its store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) options: RunOptions,
    /// The child's accounts in the kernel.
    pub(crate) accounts: Accounts,
}

/// Runs the job on standard input.
pub(crate) fn row() -> ExitCode {
    match carry_out() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Message::Failure { status: status(&error), error: error.to_string() }.send();
            ExitCode::FAILURE
        }
    }
}

fn carry_out() -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut requests = io::stdin().lock().lines();
    let job: Job = serde_json::from_str(&requests.next().ok_or("there is no job on the standard input")??)?;
    progress::tell_parent();
    let next = || {
        Message::Ready.send();
        Ok(requests.next().transpose()?.map(|request| serde_json::from_str(&request)).transpose()?)
    };
    let rows = rows::run(&job.options, &job.accounts, next)?;
    rows.into_iter().for_each(|row| Message::Row(Box::new(row)).send());
    Ok(())
}

fn status(error: &Error) -> Status {
    if error.is::<WrongAnswer>() {
        Status::Wrong
    } else if error.is::<Unavailable>() {
        Status::Unavailable
    } else {
        Status::Failed
    }
}
