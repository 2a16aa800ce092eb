//! Standard output: lines of bytes or of JSON.

use std::io::{self, BufWriter, StdoutLock, Write};

use serde_json::Value;

use crate::failure::Failure;

/// Buffered standard output. [`finish`](Self::finish) writes the buffered rest; its error must be checked.
pub(crate) struct Output {
    lines: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Takes standard output.
    pub(crate) fn new() -> Self {
        Output { lines: BufWriter::with_capacity(64 << 10, io::stdout().lock()) }
    }

    /// Writes the parts and a newline.
    pub(crate) fn line(&mut self, parts: &[&[u8]]) -> Result<(), Failure> {
        for part in parts {
            self.lines.write_all(part)?;
        }
        Ok(self.lines.write_all(b"\n")?)
    }

    /// Writes one JSON value as a line.
    pub(crate) fn json(&mut self, value: &Value) -> Result<(), Failure> {
        self.line(&[value.to_string().as_bytes()])
    }

    /// Writes what is still buffered.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        Ok(self.lines.flush()?)
    }
}
