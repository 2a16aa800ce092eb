//! Loads what can be read of the files of one keyspace into the new one.

use std::iter;

use ecotone_engines::{
    adaptive::repair::Salvage as RangeSalvage,
    engine::Record,
    hash::{self, repair::Known as Hashed},
    lsm::repair::Salvage as TableSalvage,
    repair::{Findings, Source},
    tree::repair::{Named, Salvage as PageSalvage},
};
use ecotone_substrate::{environment::Environment, storage::FileId};

use super::{known::Known, progress::Progress, report::RepairStep, target::Target};
use crate::Result;

/// What one keyspace is loaded from, and into.
pub(super) struct Loading<'l, 'p> {
    /// What the damaged files are read with.
    pub(super) environment: Environment,
    /// The identity that they must have, if it is known.
    pub(super) database: Option<u64>,
    pub(super) source: Source,
    pub(super) id: u32,
    /// Nothing was restored of it before.
    pub(super) target: &'l Target,
    pub(super) progress: &'l mut Progress<'p>,
}

impl Loading<'_, '_> {
    /// Gives the number of records, and what was found.
    pub(super) fn load(mut self, known: Known) -> Result<(u64, Findings)> {
        match known {
            Known::Unwritten => Ok((0, Findings::default())),
            Known::Pages(named) => self.pages(named),
            Known::Tables(placed) => {
                let none = None::<iter::Empty<_>>;
                let mut salvage = TableSalvage::begin(&self.environment, self.database, self.id, placed, none)?;
                Ok((self.records(&mut salvage)?, salvage.finish().0))
            }
            Known::Ranges(known) => {
                let tell = &mut |count| self.progress.pages(count);
                let mut salvage =
                    RangeSalvage::begin(&self.environment, &self.source, self.database, self.id, known, tell)?;
                Ok((self.records(&mut salvage)?, salvage.findings()))
            }
            Known::Hashed(known) => self.hashed(&known),
        }
    }

    fn pages(&mut self, named: Option<Named>) -> Result<(u64, Findings)> {
        let file = FileId::Pages(self.id);
        if !self.source.storage.list()?.contains(&file) {
            let mut findings = Findings::nothing();
            findings.problems.add(format!("the file {file} is missing"));
            return Ok((0, findings));
        }
        let mut salvage = PageSalvage::begin(&self.source, self.id, named, &mut |count| self.progress.pages(count))?;
        Ok((self.records(&mut salvage)?, salvage.findings()))
    }

    fn hashed(&mut self, known: &Hashed) -> Result<(u64, Findings)> {
        let mut count = 0;
        let findings = hash::repair::salvage(&self.environment, self.database, self.id, known, &mut |key, value| {
            count += u64::from(self.target.write(key, value)? && value.is_some());
            self.progress.tell(RepairStep::Records, count);
            Ok(())
        })?;
        Ok((count, findings))
    }

    /// Loads ascending records.
    fn records(&mut self, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        let mut loaded = 0;
        self.target.load(&mut records.inspect(|_| {
            loaded += 1;
            self.progress.tell(RepairStep::Records, loaded);
        }))
    }
}
