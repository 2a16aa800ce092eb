//! The messages from a child to its parent: one line of JSON each, on the child's standard output.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::limit::Limit;
use crate::row::{Row, Status};

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
