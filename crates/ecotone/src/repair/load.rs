//! Loads the readable records of one keyspace's files into the new keyspace.

use std::iter;

use ecotone_adaptive::repair::Salvage as RangeSalvage;
use ecotone_engine::{
    contract::Record,
    repair::{SalvageReport, SalvageSource},
};
use ecotone_hash::repair::Known as Hashed;
use ecotone_lsm::repair::Salvage as TableSalvage;
use ecotone_substrate::{environment::Environment, storage::FileId};
use ecotone_tree::repair::{IndexedPages, Salvage as PageSalvage};

use super::{known::SalvageInputs, progress::Progress, report::RepairStep, target::Target};
use crate::Result;

/// The source and target of one load.
pub(super) struct Loading<'l, 'p> {
    /// The environment that the damaged files are read with.
    pub(super) environment: Environment,
    /// The database identity that the files must have, if known.
    pub(super) database: Option<u64>,
    pub(super) source: SalvageSource,
    pub(super) id: u32,
    /// Holds no records from files yet.
    pub(super) target: &'l Target,
    pub(super) progress: &'l mut Progress<'p>,
}

impl Loading<'_, '_> {
    /// Loads the records. Returns their number and the salvage report.
    pub(super) fn load(mut self, known: SalvageInputs) -> Result<(u64, SalvageReport)> {
        match known {
            SalvageInputs::Unwritten => Ok((0, SalvageReport::default())),
            SalvageInputs::Pages(named) => self.pages(named),
            SalvageInputs::Tables(placed) => {
                let none = None::<iter::Empty<_>>;
                let mut salvage = TableSalvage::begin(&self.environment, self.database, self.id, placed, none)?;
                Ok((self.records(&mut salvage)?, salvage.finish().0))
            }
            SalvageInputs::Ranges(known) => {
                let tell = &mut |count| self.progress.pages(count);
                let mut salvage =
                    RangeSalvage::begin(&self.environment, &self.source, self.database, self.id, known, tell)?;
                Ok((self.records(&mut salvage)?, salvage.findings()))
            }
            SalvageInputs::Hashed(known) => self.hashed(&known),
        }
    }

    fn pages(&mut self, named: Option<IndexedPages>) -> Result<(u64, SalvageReport)> {
        let file = FileId::Pages(self.id);
        if !self.source.storage.list()?.contains(&file) {
            let mut findings = SalvageReport::nothing();
            findings.problems.add(format!("the file {file} is missing"));
            return Ok((0, findings));
        }
        let mut salvage = PageSalvage::begin(&self.source, self.id, named, &mut |count| self.progress.pages(count))?;
        Ok((self.records(&mut salvage)?, salvage.findings()))
    }

    fn hashed(&mut self, known: &Hashed) -> Result<(u64, SalvageReport)> {
        let mut count = 0;
        let findings =
            ecotone_hash::repair::salvage(&self.environment, self.database, self.id, known, &mut |key, value| {
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
