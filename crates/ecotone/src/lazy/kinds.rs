//! What engines of either kind do besides.

use std::sync::Arc;

use ecotone_engines::{
    engine::{
        Change, Cursor, Direction, Hashed, Hint, Made, Operation, Ordered, Range, RangeShape, Record, RecordRef, Walk,
    },
    merge::Merge,
};
use ecotone_substrate::{Error, Result, memory::Component};

use super::Lazy;

fn ordered(made: &Made) -> &Arc<dyn Ordered> {
    let Made::Ordered(engine) = made else { unreachable!("the family makes ordered keyspaces") };
    engine
}

fn hashed(made: &Made) -> &Arc<dyn Hashed> {
    let Made::Hashed(engine) = made else { unreachable!("the family makes hashed keyspaces") };
    engine
}

impl Ordered for Lazy {
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

    fn hint(&self, range: &Range, hint: Hint) -> Result<()> {
        self.open()?.map_or_else(|| self.hint_later(range, hint), |made| ordered(made).hint(range, hint))
    }

    fn shapes(&self) -> Vec<RangeShape> {
        // What cannot be opened has no shapes to tell.
        self.open().ok().flatten().map_or_else(Vec::new, |made| ordered(made).shapes())
    }
}

impl Hashed for Lazy {
    fn walk(self: Arc<Self>) -> Box<dyn Walk> {
        let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        match self.open() {
            Ok(Some(made)) => hashed(made).clone().walk(),
            Ok(None) => Box::new(Nothing { error: None, range: everything }),
            Err(error) => Box::new(Nothing { error: Some(error), range: everything }),
        }
    }

    fn modify(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        hashed(self.make()?).modify(key, change)
    }

    fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        hashed(self.make()?).merge(key, merge)
    }

    #[inline]
    fn put(&self, operation: Operation<'_>) -> Result<()> {
        hashed(self.make()?).put(operation)
    }
}

/// An error, if there is one, and then the end.
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

    fn rest(&self) -> Range {
        self.range.clone()
    }
}

impl Walk for Nothing {
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.error.take().map_or(Ok(None), Err)
    }
}
