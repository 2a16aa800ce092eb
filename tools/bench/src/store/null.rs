//! The store that keeps nothing.

use super::{Change, Record, Stats, Store, Visit, VisitMany, VisitRecord};
use crate::error::Result;

/// Does nothing. A run over it measures the harness: drawing operations, making keys and values, timing.
#[derive(Debug)]
pub(super) struct Null;

impl Store for Null {
    fn remembers(&self) -> bool {
        false
    }

    fn get(&self, _: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        visit(None);
        Ok(())
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut VisitMany<'_>) -> Result<()> {
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

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
