//! The subcommand `run`: rounds of rows. Each store and round has its own child process, so that peak memory, I/O, a
//! hang and a lack of memory are attributed to one row.

mod cgroup;
mod child;
mod in_turn;
mod line;
mod machine;
pub(crate) mod options;
mod output;
mod parent;
mod summary;
mod table;
mod terms;
mod together;
mod watch;

use std::process::ExitCode;

pub(crate) use self::child::row;
use self::{machine::Observer, options::RoundsOptions};
use crate::{error::Result, row::Status};

/// Runs `run` and prints its results; the exit code says whether all rows ended well.
pub(crate) fn run(options: &RoundsOptions) -> Result<ExitCode> {
    if let Some(twice) =
        options.store.iter().enumerate().find(|(number, store)| options.store[..*number].contains(store))
    {
        return Err(format!("--store names {} twice; --rounds repeats the measurement", twice.1).into());
    }
    let mut observer = Observer::new(&options.row.dir);
    let lines = if options.stay_open {
        together::rows(options, &mut observer)?
    } else {
        in_turn::rows(options, &mut observer)?
    };
    for lines in lines.chunk_by(|one, other| one.leg == other.leg) {
        output::summaries(options, lines)?;
    }
    let all_well = lines.iter().all(|line| line.status == Status::Ok);
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
