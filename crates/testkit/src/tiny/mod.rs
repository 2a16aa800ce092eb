//! Engines of a few hundred lines each. Their only purpose is to prove the contracts that every engine and the database
//! owe each other (`docs/decisions/0001-contracts.md`): one writes pages in place, one only appends, one finds its keys
//! by a hash.
//!
//! They are simple, so that they are easy to believe: one lock for the state in memory, one job lock for I/O in the
//! background, and cursors that copy their range. The hashed engine has the files of the append-only engine.

pub mod append_only;
pub mod hashed;
pub mod in_place;
mod pages;
mod run;
mod runs;
mod table;
mod unflushed;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::{Bound, RangeBounds},
};

use ecotone_engine::contract::{Cursor, Direction, Range, Record, RecordRef, UnorderedCursor};
use ecotone_substrate::{Error, Result, memory::Component};

/// Keys with their newest values.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// One in so many steps of a cursor finds no memory, where the cursor may use only the memory of windows.
const NO_MEMORY: u32 = 5;

/// A cursor over a copy.
struct CopyCursor {
    /// The records that are left, or the error that prevented the copy.
    left: Result<VecDeque<Record>>,
    given: Option<Record>,
    rest: Range,
    /// Steps until a step finds no memory; none if memory is always there.
    steps: Option<u32>,
}

impl CopyCursor {
    fn new(left: Result<VecDeque<Record>>) -> Self {
        CopyCursor { left, given: None, rest: (Bound::Unbounded, Bound::Unbounded), steps: None }
    }

    fn records(&mut self) -> Result<&mut VecDeque<Record>> {
        self.left.as_mut().map_err(|error| error.clone())
    }
}

impl Cursor for CopyCursor {
    fn advance(&mut self, direction: Direction) -> Result<bool> {
        if let Some(steps) = &mut self.steps {
            *steps = steps.checked_sub(1).ok_or(Error::Memory { what: Component::Windows.name(), budget: 0 })?;
        }
        self.given = match direction {
            Direction::Up => self.records()?.pop_front(),
            Direction::Down => self.records()?.pop_back(),
        };
        let Some((key, _)) = &self.given else { return Ok(false) };
        match direction {
            Direction::Up => self.rest.0 = Bound::Excluded(key.clone()),
            Direction::Down => self.rest.1 = Bound::Excluded(key.clone()),
        }
        Ok(true)
    }

    fn take(&mut self) -> Result<Option<RecordRef<'_>>> {
        Ok(self.given.as_ref().map(|(key, value)| (&key[..], &value[..])))
    }

    fn remaining(&self) -> Range {
        self.rest.clone()
    }
}

impl UnorderedCursor for CopyCursor {
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        Cursor::next(self)
    }
}

/// A cursor over the part of `content` that lies in `range`. A cursor of an iterator finds no memory now and then, so
/// that all suites meet that case.
fn cursor_over(content: Result<Content>, range: Range, memory: Component) -> Box<dyn Cursor> {
    let left = content.map(|content| content.into_iter().filter(|(key, _)| range.contains(key)).collect());
    let steps = (memory == Component::Windows).then_some(NO_MEMORY);
    Box::new(CopyCursor { rest: range, steps, ..CopyCursor::new(left) })
}

/// Makes `value` a copy of what was found. Returns whether anything was.
fn copy_found(found: Option<&[u8]>, value: &mut Vec<u8>) -> bool {
    value.clear();
    value.extend(found.into_iter().flatten());
    found.is_some()
}

/// The tiny engines have no options.
fn refuse_settings(settings: &[(String, String)]) -> Result<()> {
    match settings.first() {
        None => Ok(()),
        Some((name, _)) => Err(Error::Invalid(format!("a tiny engine has no option named {name:?}"))),
    }
}

/// Checks the order of a bulk load: each key is above the one before.
fn check_ascends(last: Option<&Vec<u8>>, key: &Vec<u8>) -> Result<()> {
    match last {
        Some(last) if last >= key => {
            Err(Error::Invalid(format!("the key {:?} is out of order", key.escape_ascii().to_string())))
        }
        _ => Ok(()),
    }
}
