//! `ecotone verify`.

use clap::Args;
use ecotone::Check;
use serde_json::json;

use crate::{
    failure::Failure,
    output::Output,
    target::{DatabaseArgument, close},
};

/// Reads everything and checks it
///
/// That is every page of every keyspace. Damage is listed, and the exit code is 1.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    place: DatabaseArgument,
}

impl Verify {
    /// Prints a report a keyspace; fails if anything is damaged.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let database = self.place.open()?;
        let mut output = Output::new();
        let reports = database.verify()?;
        for (name, check) in &reports {
            self.print(&mut output, name, check)?;
        }
        output.finish()?;
        close(database)?;
        match reports.iter().map(|(_, check)| check.problems.len()).sum() {
            0 => Ok(()),
            damage => Err(Failure::Told(format!(
                "{0}: verify found damage ({damage} places); restore a backup, or save what can be read with `ecotone \
                repair {0} --to NEW`",
                self.place.path.display()
            ))),
        }
    }

    fn print(&self, output: &mut Output, name: &str, check: &Check) -> Result<(), Failure> {
        let (records, pages, problems) = (check.records, check.pages, &check.problems);
        if self.place.json {
            return output.json(&json!({"keyspace": name, "records": records, "pages": pages, "problems": problems}));
        }
        output
            .line(&[format!("{name}: {records} records on {pages} pages, {} problems", problems.len()).as_bytes()])?;
        problems.iter().try_for_each(|problem| output.line(&[b"  ", problem.as_bytes()]))
    }
}
