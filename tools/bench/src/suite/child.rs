//! Runs one `run` of this program in its own process.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
};

use serde_json::Value;

use super::{
    cell::{Cell, Variant, value},
    scale::Scale,
};
use crate::{error::Result, measure::store, row::Workload};

/// The arguments of a `run`: a variant of a cell with some stores.
pub(super) struct Request<'a> {
    pub(super) cell: &'a Cell,
    pub(super) variant: &'a Variant,
    /// At least one.
    pub(super) stores: &'a [String],
    pub(super) scale: Scale,
    pub(super) rounds: u32,
    /// Whether the stores stay open through the rounds.
    pub(super) stay_open: bool,
    /// Directory of the state; each store has a directory in it.
    pub(super) state: PathBuf,
    /// The file of keys, if the cell has one.
    pub(super) keys: Option<&'a Path>,
}

/// The outcome of a `run`.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// Its standard error output.
    pub(super) messages: String,
}

impl Request<'_> {
    /// The command line after the program name.
    pub(super) fn arguments(&self) -> Vec<String> {
        let cell = self.cell;
        let mut arguments: Vec<String> = ["run", "--json"].map(str::to_owned).into();
        let mut option = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        option("store", self.stores.join(","));
        option("dir", self.directory().display().to_string());
        option("rounds", self.rounds.to_string());
        option("workload", value(&cell.workload));
        option("distribution", value(&cell.distribution));
        option("theta", cell.theta.to_string());
        option("stretch", cell.stretch.to_string());
        option("records", cell.data.records(self.scale).to_string());
        option("key-size", cell.data.key_size.to_string());
        option("value-size", cell.data.value_size.to_string());
        option("memory", cell.memory_bytes(self.scale).to_string());
        option("threads", cell.threads.to_string());
        option("batch", cell.batch.to_string());
        option("durability", value(&cell.durability));
        option("warmup", cell.warmup_at(self.scale).to_string());
        let mut phases = cell.phases_at(self.scale);
        match phases.next() {
            None => option("seconds", self.scale.seconds().to_string()),
            Some((_, operations)) => option("operations", operations.to_string()),
        }
        phases.for_each(|(workload, operations)| {
            let takes = if workload == Workload::Adapt { String::new() } else { format!(":{operations}") };
            option("then", value(&workload) + &takes);
        });
        if cell.read_share > 0.0 {
            option("read-share", cell.read_share.to_string());
        }
        cell.data.keys.order().into_iter().for_each(|order| option("order", order.name().to_owned()));
        self.variant.settings.iter().for_each(|(name, value)| option("set", format!("{name}={value}")));
        let table_cache = cell.table_cache_bytes(self.scale);
        table_cache.into_iter().for_each(|bytes| option("set", format!("{}={bytes}", store::TABLE_CACHE)));
        if let Some(file) = self.keys {
            option("keys", file.display().to_string());
            let scaled = cell.data.keys.scaled(self.scale);
            scaled.into_iter().for_each(|keys| option("scale-keys", keys.to_string()));
        }
        let flags = [
            ("--prepared", self.scale.prepared() && cell.keeps_state()),
            ("--stay-open", self.stay_open || !cell.phases.is_empty()),
        ];
        arguments.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| (*flag).to_owned()));
        arguments
    }

    /// The `--dir` argument. `run` puts several stores into directories of their own, and a single store directly into
    /// the given one.
    fn directory(&self) -> PathBuf {
        match self.stores {
            [single] => self.state.join(single),
            _ => self.state.clone(),
        }
    }

    /// Runs the process and passes each object to `line` as soon as the process prints it.
    pub(super) fn run(&self, mut line: impl FnMut(Value) -> Result<()>) -> Result<Ended> {
        let mut command = Command::new(env::current_exe()?);
        command.args(self.arguments()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (output, mut errors) = (child.stdout.take(), child.stderr.take());
        let messages = thread::spawn(move || {
            let mut text = Vec::new();
            let read = errors.as_mut().map(|errors| errors.read_to_end(&mut text));
            read.transpose().map(|_| String::from_utf8_lossy(&text).into_owned())
        });
        let mut lines = Ok(());
        for text in output.into_iter().flat_map(|output| BufReader::new(output).lines()) {
            lines = lines.and_then(|()| line(serde_json::from_str(&text?)?));
        }
        let status = child.wait()?;
        lines?;
        Ok(Ended { status, messages: messages.join().expect("reading does not panic")? })
    }
}
