//! The hidden subcommand `row`: the child that carries out one row and tells its parent.

use std::{io, process::ExitCode};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::message::{Job, Message, Status};
use crate::{
    error::{Error, WrongAnswer},
    progress, run,
    store::Unavailable,
};

/// Carries the job on standard input out.
pub(crate) fn row() -> ExitCode {
    match carry_out() {
        Ok(row) => {
            row.send();
            ExitCode::SUCCESS
        }
        Err(error) => {
            Message::Failure { status: status(&error), error: error.to_string() }.send();
            ExitCode::FAILURE
        }
    }
}

fn carry_out() -> Result<Message, Error> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let job: Job = serde_json::from_str(&io::read_to_string(io::stdin())?)?;
    progress::tell_parent();
    Ok(Message::Row(Box::new(run::run(&job.options, &job.accounts)?)))
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
