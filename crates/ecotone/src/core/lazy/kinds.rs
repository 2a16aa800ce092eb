//! The ordered and the hashed engine traits of a lazy engine.

use std::sync::Arc;

use ecotone_engine::{
    contract::{AnyEngine, Cursor, Direction, Hashed, Ordered, Range, Record, RecordRef, UnorderedCursor, UpdateFn},
    merge::Merge,
};
use ecotone_substrate::{Error, Result, memory::Component};

use super::LazyEngine;

fn ordered(made: &AnyEngine) -> &Arc<dyn Ordered> {
    let AnyEngine::Ordered(engine) = made else { unreachable!("the family makes ordered keyspaces") };
    engine
}

fn hashed(made: &AnyEngine) -> &Arc<dyn Hashed> {
    let AnyEngine::Hashed(engine) = made else { unreachable!("the family makes hashed keyspaces") };
    engine
}

impl Ordered for LazyEngine {
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        match self.open() {
            Ok(Some(made)) => ordered(made).clone().cursor_in(range, memory),
            Ok(None) => Box::new(Nothing { error: None, range }),
            Err(error) => Box::new(Nothing { error: Some(error), range }),
        }
    }

    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        ordered(self.make()?).clone().bulk_load(records)
    }
}

impl Hashed for LazyEngine {
    fn walk(self: Arc<Self>) -> Box<dyn UnorderedCursor> {
        let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        match self.open() {
            Ok(Some(made)) => hashed(made).clone().walk(),
            Ok(None) => Box::new(Nothing { error: None, range: everything }),
            Err(error) => Box::new(Nothing { error: Some(error), range: everything }),
        }
    }

    fn modify(&self, key: &[u8], change: &mut UpdateFn<'_>) -> Result<()> {
        hashed(self.make()?).modify(key, change)
    }

    fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        hashed(self.make()?).merge(key, merge)
    }
}

/// An empty cursor. It returns its error once, if it has one.
struct Nothing {
    error: Option<Error>,
    range: Range,
}

impl Cursor for Nothing {
    fn advance(&mut self, _direction: Direction) -> Result<bool> {
        self.error.take().map_or(Ok(false), Err)
    }

    fn take(&mut self) -> Result<Option<RecordRef<'_>>> {
        Ok(None)
    }

    fn remaining(&self) -> Range {
        self.range.clone()
    }
}

impl UnorderedCursor for Nothing {
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.error.take().map_or(Ok(None), Err)
    }
}
