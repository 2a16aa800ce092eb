//! The null store, which keeps nothing.

use super::{
    contract::{Change, Options, Record, Stats, Store, Visit, VisitMany, VisitRecord},
    fault::Faults,
};
use crate::error::Result;

/// Does nothing. A run over it measures the harness: drawing operations, making keys and values, timing.
#[derive(Debug)]
pub(super) struct Null {
    /// The faults of its reads, if configured.
    faults: Option<Faults>,
}

impl Null {
    pub(super) fn open(options: &Options<'_>) -> Result<Self> {
        Ok(Null { faults: Faults::new(options)? })
    }

    fn before_read(&self) -> Result<()> {
        self.faults.as_ref().map_or(Ok(()), Faults::strike)
    }
}

impl Store for Null {
    fn remembers(&self) -> bool {
        self.faults.as_ref().is_some_and(Faults::lies)
    }

    fn get(&self, _: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.before_read()?;
        visit(None);
        Ok(())
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut VisitMany<'_>) -> Result<()> {
        self.before_read()?;
        (0..keys.len()).for_each(|number| visit(number, None));
        Ok(())
    }

    fn insert(&self, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn insert_batch(&self, _: &[Record<'_>]) -> Result<()> {
        Ok(())
    }

    fn scan(&self, _: &[u8], _: usize, _: &mut VisitRecord<'_>) -> Result<()> {
        Ok(())
    }

    fn update(&self, _: &[u8], change: &mut Change<'_>) -> Result<()> {
        change(None);
        Ok(())
    }

    fn take(&self, _: &[u8], _: &[u8]) -> Result<bool> {
        Ok(true)
    }

    fn wait_until_quiet(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
