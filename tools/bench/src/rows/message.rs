//! What a child tells its parent, one line of JSON each on its standard output.

use std::{
    fmt,
    io::{self, Write},
};

use serde::{Deserialize, Serialize};

use crate::{cli::RunOptions, phase::Limit, row::Row, transfers::Accounts};

/// What the parent gives a child on its standard input, in a line, after it has put it into its cgroups. Each line that
/// follows names the workload of a round; behind the last one the child closes its store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) options: RunOptions,
    /// Where the kernel keeps the child's accounts.
    pub(crate) accounts: Accounts,
}

/// How a row ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// It is complete.
    Ok,
    /// The store, or what was asked of it, failed.
    Failed,
    /// The store gave a wrong answer.
    Wrong,
    /// It took more memory than its cgroup has.
    OutOfMemory,
    /// No operation ended for a long time.
    Hung,
    /// This binary has no such store.
    Unavailable,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Ok => "ok",
            Status::Failed => "failed",
            Status::Wrong => "wrong",
            Status::OutOfMemory => "out of memory",
            Status::Hung => "hung",
            Status::Unavailable => "unavailable",
        })
    }
}

/// A message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// A phase begins; without a limit no operations are counted in it.
    Begin { name: String, limit: Option<Limit> },
    /// So many operations of the phase were done.
    Done { operations: u64 },
    /// The phase ended.
    End,
    /// The store is open and warm, or what was asked for last was measured.
    Ready,
    /// The result of a round, after the store was closed.
    Row(Box<Row>),
    /// There is no result; nothing follows.
    Failure { status: Status, error: String },
}

impl Message {
    /// Sends it. A parent that is gone needs no messages.
    pub(crate) fn send(&self) {
        let line = serde_json::to_string(self).expect("messages have no maps with odd keys");
        let mut output = io::stdout().lock();
        let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    }
}
