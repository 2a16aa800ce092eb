//! The command line.

use clap::{Parser, Subcommand};

use crate::{
    measure::disk::DiskOptions,
    report::ReportOptions,
    suite::{SuiteOptions, rounds::options::RoundsOptions},
};

/// Workloads and measurements for Ecotone and its rivals. Results go to standard output, everything else to standard
/// error.
#[derive(Debug, Parser)]
#[command(name = "ecotone-bench", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the disk itself, by random reads and writes of 4 KiB at several queue depths.
    Disk(DiskOptions),
    /// Load stores, warm them up and measure a workload.
    Run(Box<RoundsOptions>),
    /// Carry out one row for the parent process.
    #[command(hide = true)]
    Row,
    /// Make a page and a Markdown file of the results below a directory.
    Report(ReportOptions),
    /// Run a list of cells after a paper's tables and compare.
    Suite(SuiteOptions),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::suite::rounds::options::Ceiling;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_published_flags_are_taken() {
        let line = "ecotone-bench run --store tree,null --rounds 2 --workload c --distribution zipfian --theta 0.99 \
            --records 5 --operations 6 --key-size 8 \
                    --value-size 56 --threads 8 --batch 32 --rate 100 --durability none --warmup 7 --memory 64MiB \
                    --dir d --keys k.u64 \
                    --set fill=80 --set neighbours=3 --cgroup-memory none --hang-seconds 5 --stay-open --json";
        let Command::Run(options) = Cli::try_parse_from(line.split_whitespace()).unwrap().command else {
            panic!("run")
        };
        assert_eq!((options.row.memory, options.row.settings.len(), options.row.batch), (64 << 20, 2, 32));
        assert_eq!((options.store.len(), options.rounds, options.cgroup_memory), (2, 2, Some(Ceiling::None)));
        let both = "ecotone-bench run --store tree --workload c --memory 64MiB --dir d --seconds 1 --operations 2";
        assert!(Cli::try_parse_from(both.split_whitespace()).is_err());
        assert!(Cli::try_parse_from("ecotone-bench disk --dir d --threads 2 --json".split_whitespace()).is_ok());
    }
}
