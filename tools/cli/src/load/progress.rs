//! The input of a load, with a progress bar on standard error while that is a terminal.

use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    path::Path,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    failure::{Failure, warn},
    load::display,
};

/// A file or standard input.
pub(crate) struct Input {
    source: Box<dyn Read>,
    bar: ProgressBar,
}

impl Input {
    /// Opens the file, or takes standard input for `-`.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            if io::stdin().is_terminal() {
                warn(
                    "reading records from the terminal; Ctrl-D ends them, and `ecotone load --help` tells of other \
                    inputs",
                );
            }
            let bar = ProgressBar::no_length().with_style(style("{spinner} {bytes} ({bytes_per_sec})"));
            return Ok(Input { source: Box::new(io::stdin().lock()), bar });
        }
        let refused = |error| Failure::Told(format!("cannot open the input {}: {error}", display(path)));
        let file = File::open(path).map_err(refused)?;
        let metadata = file.metadata().map_err(refused)?;
        if metadata.is_dir() {
            return Err(Failure::Told(format!(
                "the input {} is a directory; give a file, or - for standard input",
                display(path)
            )));
        }
        let bar = ProgressBar::new(metadata.len())
            .with_style(style("{wide_bar} {bytes}/{total_bytes} ({bytes_per_sec}, {eta} left)"));
        Ok(Input { source: Box::new(file), bar })
    }

    /// The bar, which moves as the input is read.
    pub(crate) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.source.read(buffer)?;
        self.bar.inc(bytes as u64);
        Ok(bytes)
    }
}

/// A style from one of this program's own templates.
pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is fixed")
}
