//! Child processes of the demonstration, and the cleanup when the demonstration itself dies.
//!
//! Ctrl-C or a signal ends the demonstration at once; it runs no destructors. So each child holds a pipe from its
//! parent, which the operating system closes when the parent dies. The victim then exits, and the sweeper removes the
//! directory.

use std::{
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use clap::Args;

use crate::failure::Failure;

/// How often the sweeper tries, and the wait between tries: the victim may still write for a moment.
const TRIES: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(50);

/// A command that starts this program again, with a pipe that closes when this process ends.
pub(crate) fn command(name: &str, directory: &Path) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(cannot_start)?);
    command.arg(name).arg(directory).stdin(Stdio::piped());
    Ok(command)
}

/// Returns when the parent process has died.
pub(crate) fn wait_for_parent() {
    // An error ends the pipe as well.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

/// A child process that is killed when the guard is dropped.
pub(crate) struct ChildGuard(pub(crate) Child);

impl ChildGuard {
    /// Starts a child.
    pub(crate) fn start(command: &mut Command) -> Result<ChildGuard, Failure> {
        command.spawn().map(ChildGuard).map_err(cannot_start)
    }

    /// Starts a sweeper, which removes a directory if this process dies before it drops the guard. Ctrl-C goes to a
    /// whole process group; it does not reach the sweeper.
    pub(crate) fn sweeper(directory: &Path) -> Result<ChildGuard, Failure> {
        ChildGuard::start(
            command("demo-sweeper", directory)?.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0),
        )
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Both fail only if the child is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::Told(format!("cannot start this program again as a child process: {error}"))
}

/// What the sweeper removes.
#[derive(Debug, Args)]
pub(crate) struct Sweeper {
    /// Directory of the database
    directory: PathBuf,
}

impl Sweeper {
    /// Waits for the end of the demonstration, and removes what is left of it.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        wait_for_parent();
        for _ in 0..TRIES {
            let _ = std::fs::remove_dir_all(&self.directory);
            if !self.directory.exists() {
                break;
            }
            thread::sleep(BETWEEN);
        }
        Ok(())
    }
}
