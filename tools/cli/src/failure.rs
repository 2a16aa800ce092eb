//! Why a command ends early, and with which exit code.

use std::{io, process::ExitCode};

use ecotone::Error;
use rustix::io::Errno;

/// Anything that ends a command early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the database.
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
    /// Prints the failure to standard error. A closed standard output is no error.
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

/// Prints a message to standard error.
pub(crate) fn warn(message: &str) {
    // `eprintln` would panic if standard error were a broken pipe; then there is no reader to warn.
    let _ = io::Write::write_all(&mut io::stderr(), format!("ecotone: {message}\n").as_bytes());
}

/// Advice for an error whose own text has none.
fn advice(error: &Error) -> &'static str {
    match error {
        Error::Corruption { .. } => "; restore a backup, or save what can be read with `ecotone repair`",
        Error::UnknownKeyspace { .. } => {
            "; `ecotone list` shows the keyspaces that exist, `load` and `put` make new ones"
        }
        // A reason with a semicolon already contains advice.
        Error::NotADatabase { why, .. } if !why.contains(';') => {
            "; give the directory of a database; `load` and `put` make one where nothing is yet"
        }
        Error::NoSpace { .. } | Error::DiskBudget { .. } => "; then run the command again",
        Error::Memory { .. } => "; `--memory` gives it more",
        Error::Poisoned { .. } => "; every command opens it anew",
        Error::Io { action, source, .. } => advice_of_system(action, source),
        _ => "",
    }
}

/// Advice for an error of the operating system.
fn advice_of_system(action: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run the command as the owner of the database, or change the permissions",
        io::ErrorKind::ReadOnlyFilesystem => {
            "; every command opens the database for writing: copy it to where it can be written"
        }
        io::ErrorKind::NotFound if action.starts_with("create") => "; make the directory around it first",
        _ if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
            "; allow this shell more open files with `ulimit -n`"
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
