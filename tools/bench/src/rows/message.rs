//! The messages from a child to its parent: one line of JSON each, on the child's standard output.

use std::{
    fmt,
    io::{self, Write},
};

use serde::{Deserialize, Serialize};

use crate::{cli::RunOptions, phase::Limit, row::Row, transfers::Accounts};

/// The first line that the parent writes to a child's standard input, once the child is in its cgroups. Each later line
/// names the workload of a round. At the end of the input the child closes its store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) options: RunOptions,
    /// The child's accounts in the kernel.
    pub(crate) accounts: Accounts,
}

/// The outcome of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// The row is complete.
    Ok,
    /// The store or the request failed.
    Failed,
    /// The store gave a wrong answer.
    Wrong,
    /// It exceeded the memory of its cgroup.
    OutOfMemory,
    /// No operation completed for a long time.
    Hung,
    /// This binary was built without the store.
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
    /// A phase begins; without a limit its operations are not counted.
    Begin { name: String, limit: Option<Limit> },
    /// The number of operations of the phase that are done.
    Done { operations: u64 },
    /// The phase ended.
    End,
    /// The store is open and warm, or the requested round was measured.
    Ready,
    /// The result of a round, after the store was closed.
    Row(Box<Row>),
    /// There is no result; nothing follows.
    Failure { status: Status, error: String },
}

impl Message {
    /// Sends the message. If the parent is gone, the message is dropped.
    pub(crate) fn send(&self) {
        let line = serde_json::to_string(self).expect("messages have no maps with odd keys");
        let mut output = io::stdout().lock();
        let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    }
}
