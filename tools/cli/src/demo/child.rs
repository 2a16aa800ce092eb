//! Processes of this program that the demonstration starts, and what becomes of them and of its directory when it dies
//! itself.
//!
//! Whoever presses Ctrl-C, or kills the demonstration in another way, ends it where it stands: nothing of it runs any
//! more. So each child has a pipe from its parent, which the system closes then. The victim ends at that, and the
//! sweeper removes the directory.

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

/// How often the sweeper tries, and how long it waits in between: the victim may still write for a moment.
const TRIES: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(50);

/// This program again, with a pipe that ends when this process does.
pub(crate) fn command(name: &str, directory: &Path) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(cannot_start)?);
    command.arg(name).arg(directory).stdin(Stdio::piped());
    Ok(command)
}

/// Returns when the process that started this one has died.
pub(crate) fn wait_for_parent() {
    // An error ends the pipe as well.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

/// A child that dies when this goes.
pub(crate) struct Leash(pub(crate) Child);

impl Leash {
    /// Starts a child.
    pub(crate) fn start(command: &mut Command) -> Result<Leash, Failure> {
        command.spawn().map(Leash).map_err(cannot_start)
    }

    /// Has a directory removed if this process dies before the leash goes. Ctrl-C, which goes to a whole group of
    /// processes, does not reach the sweeper.
    pub(crate) fn sweeper(directory: &Path) -> Result<Leash, Failure> {
        Leash::start(command("demo-sweeper", directory)?.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0))
    }
}

impl Drop for Leash {
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
