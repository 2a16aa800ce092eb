//! Why a command ends early, and with which exit code.

use std::{io, process::ExitCode};

use ecotone::Error;

/// Anything that ends a command early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The database's answer.
    Database(Error),
    /// Standard output cannot be written.
    Output(io::Error),
    /// An argument makes no sense; exit code 2.
    Usage(String),
    /// The command did what can be done, and something is missing; exit code 3.
    Incomplete(String),
    /// Anything else, as a whole sentence.
    Told(String),
}

impl Failure {
    /// Tells it on standard error. A reader of standard output that went away is no error.
    pub(crate) fn report(self) -> ExitCode {
        let (message, code) = match self {
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Failure::Output(error) => (format!("cannot write to standard output: {error}"), 1),
            Failure::Database(error) => (format!("{error}{}", advice(&error)), 1),
            Failure::Usage(message) => (message, 2),
            Failure::Incomplete(message) => (message, 3),
            Failure::Told(message) => (message, 1),
        };
        warn(&message);
        ExitCode::from(code)
    }
}

/// Tells something on standard error.
pub(crate) fn warn(message: &str) {
    // `eprintln` would panic where standard error is a broken pipe, and then there is nobody to tell.
    let _ = io::Write::write_all(&mut io::stderr(), format!("ecotone: {message}\n").as_bytes());
}

/// What to do about an error whose own text does not say it.
fn advice(error: &Error) -> &'static str {
    match error {
        Error::Corruption { .. } => {
            "; `ecotone verify` tells what else is hurt; restore a backup, or save what can be read with `ecotone repair`"
        }
        Error::UnknownKeyspace { .. } => {
            "; `ecotone list` shows the keyspaces that exist, `ecotone load` and `put` make new ones"
        }
        // A reason with a semicolon in it says already what to do.
        Error::NotADatabase { why, .. } if !why.contains(';') => {
            "; give the directory of a database, or a new path to `ecotone load`"
        }
        Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "; run the command as the owner of the database, or change the permissions"
        }
        _ => "",
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Database(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}
