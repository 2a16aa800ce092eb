//! `ecotone get`.

use clap::Args;

use crate::{
    failure::Failure,
    output::Output,
    target::{DatabaseArgument, KeyspaceArgument, close},
    text::{Encoding, hex},
};

/// Prints the value of a key
///
/// The bytes of the value come as they are, with a newline behind (hexadecimal digits with --hex). A missing key is an
/// error.
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    place: DatabaseArgument,
    /// The key
    key: String,
    #[command(flatten)]
    space: KeyspaceArgument,
    #[command(flatten)]
    encoding: Encoding,
}

impl Get {
    /// Prints the value, or fails if there is none.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let key = self.encoding.key(&self.key)?;
        let database = self.place.open()?;
        let found = self.space.open(&database)?.get(&key)?;
        let value = found.ok_or_else(|| self.missing())?;
        let mut output = Output::new();
        if self.place.json {
            output.json(&self.encoding.json_record(&key, &value)?)?;
        } else if self.encoding.hex {
            output.line(&[hex(&value).as_bytes()])?;
        } else {
            output.line(&[&value])?;
        }
        output.finish()?;
        close(database)
    }

    fn missing(&self) -> Failure {
        let Encoding { hex, u64 } = self.encoding;
        let number = !hex && !u64 && self.key.parse::<u64>().is_ok();
        let advice = if number { "; a key of an integer file is found with --u64" } else { "" };
        Failure::Told(format!("no such key: {:?}{advice}", self.key))
    }
}
